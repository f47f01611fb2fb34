//go:build linux || darwin

package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/go-curator/curator/cmd/internal/clock"
)

// look bounds the time between two looks at the clock: the keeper's timers stand still while the machine sleeps.
const look = 100 * time.Millisecond

// Main is the keeper's life, and returns the exit status of its process.
func Main(args []string) int {
	job, err := parseArguments(args)
	reports := os.NewFile(job.Reports, "reports")
	words := os.NewFile(job.Words, "words")
	if _, missing := reports.Stat(); err != nil || missing != nil {
		fmt.Fprintf(os.Stderr, "curator: %s is for the program itself\n", Word)
		return 2
	}
	syscall.CloseOnExec(int(job.Words))
	syscall.CloseOnExec(int(job.Reports))
	ignoreSignals()

	k := commandKeeper{keeperState: keeperState{until: job.Until}, grace: job.Grace, reports: reports}
	// The command is killed when the thread that has started it ends: this goroutine keeps its thread.
	runtime.LockOSThread()
	Adopt()
	heard := readMessages(words)
	if !k.mayStart(heard) {
		k.sendReport(Report{Ended: true, Told: true})
		return 0
	}
	if k.pid, err = startCommand(job.Path, job.Command); err != nil {
		k.sendReport(Report{Failed: err.Error()})
		return 0
	}
	k.sendReport(Report{Started: k.pid})
	for _, s := range k.early {
		Signal(k.pid, s)
	}
	k.awaitEnd(heard, Reap())
	k.sendReport(Report{Ended: true, Status: k.status, Told: k.told})
	return 0
}

// ignoreSignals makes the keeper survive signals that are sent to the command, or to the whole group: its parent passes them
// on. Signals that were ignored from the beginning stay ignored, since the command inherits that (nohup).
func ignoreSignals() {
	drop := make(chan os.Signal, 1)
	for _, s := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGALRM, syscall.SIGPIPE,
	} {
		if !signal.Ignored(s) {
			signal.Notify(drop, s)
		}
	}
}

// startCommand starts the command, with all descriptors that this process was given. A script that does not begin
// with "#!" is run by the shell, as by env, nohup and timeout.
func startCommand(path string, command []string) (int, error) {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: attributes()}
	pid, err := syscall.ForkExec(path, command, attr)
	if errors.Is(err, syscall.ENOEXEC) {
		const sh = "/bin/sh"
		return syscall.ForkExec(sh, append([]string{sh, path}, command[1:]...), attr)
	}
	return pid, err
}

// commandKeeper is the state of the keeper's only loop.
type commandKeeper struct {
	keeperState
	grace   Grace
	reports *os.File
	early   []syscall.Signal // passed on before the command was started
	pid     int
	status  int
	exited  bool // the command itself has ended
	alone   bool // and so have all its descendants that are children of this process
	killed  bool // KILL was sent
	told    bool // the command was sent TERM or KILL before its end
}

// readMessages reads the parent's words. The channel is closed at their end, which is the parent's.
func readMessages(words *os.File) <-chan parentMessage {
	heard := make(chan parentMessage, 16)
	go func() { // it ends with the process
		defer close(heard)
		for lines := bufio.NewScanner(words); lines.Scan(); {
			if w, err := parseMessage(lines.Text()); err == nil {
				heard <- w
			}
		}
	}()
	return heard
}

// mayStart waits until there is time for a command: a keeper may come late on a busy machine. It returns false if
// there will be none.
func (k *commandKeeper) mayStart(heard <-chan parentMessage) bool {
	for {
		switch act, _ := nextAction(k.keeperState, k.grace, clock.Now()); act {
		case wait:
			return true
		case kill:
			return false
		}
		select { // a command would be sent TERM immediately; the next word may give it more time
		case w, ok := <-heard:
			switch {
			case !ok:
				return false
			case w.signal != 0:
				k.early = append(k.early, w.signal)
			default:
				k.until = w.until
			}
		case <-time.After(look):
		}
	}
}

// awaitEnd returns when all processes of the command have ended.
func (k *commandKeeper) awaitEnd(heard <-chan parentMessage, reaped <-chan Exit) {
	timer := time.NewTimer(0)
	for !k.commandEnded() {
		pause := look
		now := clock.Now()
		switch act, next := nextAction(k.keeperState, k.grace, now); act {
		case kill:
			k.killed = true
			Signal(k.pid, syscall.SIGKILL)
			pause = 10 * time.Millisecond // a process that was just being forked is killed next time
		case term:
			k.termed, k.term = true, now
			Signal(k.pid, syscall.SIGTERM)
			Signal(k.pid, syscall.SIGCONT) // a stopped process cannot end
			continue
		case wait:
			pause = min(pause, next-now)
		}
		if k.alone { // its group is not empty, and its end is not reported to this process
			pause = min(pause, 20*time.Millisecond)
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case w, ok := <-heard:
			switch {
			case !ok:
				heard, k.ending = nil, true
			case w.signal != 0:
				Signal(k.pid, w.signal)
			default:
				k.until = w.until
			}
		case exit, ok := <-reaped:
			if !ok {
				reaped = nil
			}
			if exit.PID == k.pid {
				k.status, k.exited, k.told = exit.Status, true, k.termed || k.killed
				k.ending = true // processes that it has started must not outlive the hold
			}
			k.alone = !ok || exit.Last
		}
	}
}

// commandEnded reports whether all processes of the command have ended. After that its number must not be signalled again:
// another process may have it.
func (k *commandKeeper) commandEnded() bool { return k.exited && k.alone && Gone(k.pid) }

func (k *commandKeeper) sendReport(r Report) {
	_, _ = k.reports.WriteString(r.String()) // a parent that is gone needs none
}
