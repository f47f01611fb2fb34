// Package clock steps the wall clock of single processes, and leaves the machine's clock alone.
//
// Programs ask for the time in the vDSO, code that the kernel maps into every process: libc does, and so do the JVM
// and Go, linked statically or not. Step changes a process's own copy of that code, as a debugger sets a breakpoint.
// From then on reads of the wall clock return it with an offset. All else is as after a step of the machine's clock:
// monotonic clocks continue unchanged. The only difference is a sleep until a time of day: the kernel ends it by the
// machine's clock.
package clock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// limit bounds each wait: milliseconds, if the machine is not busy.
const limit = 10 * time.Second

// Step sets the wall clocks of a process and of all its descendants ahead of the machine's, or behind it, in whole
// seconds. Processes forked later have the same clock, programs executed later have the machine's. A second
// Step of a process fails. Root may step the processes of all, others their own.
func Step(pid int, by time.Duration) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("clock: written for amd64 only")
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		err := step(pid, by)
		if !errors.Is(err, errInside) || time.Since(began) > limit {
			return err
		}
	}
}

// errInside is returned while a thread executes the code that must be changed.
var errInside = errors.New("clock: a thread asks for the time")

// step stops the process while it changes it and its children.
func step(pid int, by time.Duration) (err error) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)) }()
	if err := awaitStop(pid); err != nil {
		return err
	}
	if err := asOwner(pid, func() error { return change(pid, by) }); err != nil {
		return err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := Step(child, by); err != nil && !ended(child) {
			return err
		}
	}
	return nil
}

// change writes to the memory of a process that is stopped.
func change(pid int, by time.Duration) error {
	begin, end, err := mapped(pid)
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	code := make([]byte, end-begin)
	if _, err := memory.ReadAt(code, begin); err != nil {
		return err
	}
	pieces, err := patch(code, by)
	if err != nil {
		return err
	}
	places, err := counters(pid)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		for _, place := range places { // at its first byte a thread has still to execute all of it
			if place > begin+p.at && place < begin+p.at+int64(len(p.text)) {
				return errInside
			}
		}
	}
	for _, p := range pieces {
		if _, err := memory.WriteAt(p.text, begin+p.at); err != nil {
			return err
		}
	}
	written := make([]byte, len(code))
	if _, err := memory.ReadAt(written, begin); err != nil {
		return err
	}
	for _, p := range pieces {
		copy(code[p.at:], p.text)
	}
	if !slices.Equal(written, code) {
		return errors.New("clock: the kernel does not let the vDSO be changed")
	}
	return nil
}

// asOwner calls f with the file access rights of the process's owner. With them root can access its memory even if it
// may not trace other users' processes, as in a container.
func asOwner(pid int, f func() error) error {
	var owner syscall.Stat_t
	if err := syscall.Stat(fmt.Sprintf("/proc/%d", pid), &owner); err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and its rights with it
		err := errors.Join(syscall.Setfsgid(int(owner.Gid)), syscall.Setfsuid(int(owner.Uid)))
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// mapped returns the addresses of a process's vDSO.
func mapped(pid int) (begin, end int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err != nil {
				return 0, 0, err
			}
			return begin, end, nil
		}
	}
	return 0, 0, errors.New("clock: the process has no vDSO")
}

// counters are the program counters of the threads of a process that is stopped.
func counters(pid int) (places []int64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(string(text)) // the last is the program counter
		if len(fields) < 3 {
			return nil, errInside // it is not stopped yet, or any more
		}
		place, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		if err != nil {
			return nil, err
		}
		places = append(places, int64(place))
	}
	return places, nil
}

// awaitStop waits until no thread runs.
func awaitStop(pid int) error {
	for began := time.Now(); time.Since(began) < limit && !ended(pid); time.Sleep(time.Millisecond) {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		runs := len(files) == 0
		for _, file := range files {
			state, _, err := stat(file)
			runs = runs || err != nil || state != "T"
		}
		if !runs {
			return nil
		}
	}
	return fmt.Errorf("clock: process %d did not stop", pid)
}

// childrenOf returns the children of a process that is stopped.
func childrenOf(pid int) (children []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		_, parent, err := stat(file)
		if err != nil || parent != pid {
			continue // also if it has ended since
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		if !ended(child) {
			children = append(children, child)
		}
	}
	return children, nil
}

// ended reports whether a process has ended, or is a zombie.
func ended(pid int) bool {
	state, _, err := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || state == "Z"
}

// stat reads the state and the parent from a file stat in /proc.
func stat(file string) (state string, parent int, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", 0, err
	}
	// They follow the name in brackets, which may contain anything.
	_, err = fmt.Sscanf(string(text[strings.LastIndexByte(string(text), ')')+1:]), "%s %d", &state, &parent)
	return state, parent, err
}

// Await calls ask until the returned time is the machine's plus an offset, within a minute. It fails after limit.
func Await(ctx context.Context, by time.Duration, ask func(ctx context.Context) (time.Time, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		now, err := ask(ctx)
		if err == nil {
			if Stepped(now, by) {
				return nil
			}
			err = fmt.Errorf("its clock says %v", now.Format(time.RFC3339))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the clock was not stepped by %v: %w", by, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stepped reports whether a time that was just read is the machine's plus an offset.
func Stepped(now time.Time, by time.Duration) bool {
	return now.Round(0).Sub(time.Now().Add(by).Round(0)).Abs() < time.Minute
}
