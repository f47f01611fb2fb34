// Package ledger is the file where contenders record their acts under a lock: the critical section of the comparison.
// All contenders of a play append to one file on one machine.
package ledger

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Event is the kind of a line.
type Event string

// The events, in their order within a hold.
const (
	Want    Event = "want"    // a contender asks for the lock
	Trouble Event = "trouble" // the request failed; it will be repeated
	Begin   Event = "begin"   // the lock was granted, the critical section begins
	Act     Event = "act"     // work that needs the lock
	Told    Event = "told"    // the lock's client reports the loss; no act follows
	End     Event = "end"     // the critical section ends
	Freed   Event = "freed"   // the release was confirmed
	Refused Event = "refused" // the release failed; the note has the error
	Clock   Event = "clock"   // the note has the time of the wall clock, as time.RFC3339

	// Events of the process that makes the faults.
	Fault Event = "fault" // a fault begins
	Heal  Event = "heal"  // it ends
)

// Line is one line. Who has no blanks.
type Line struct {
	At    time.Duration // CLOCK_MONOTONIC of the machine, the same for all processes
	Who   string
	Hold  int // counts the holds of Who from 1; 0 outside of one
	Event Event
	// Order is the place that the store itself assigned to an act, such as a zxid; 0 if it assigns none. Where there
	// is an order it decides, and not the stamps.
	Order int64
	Note  string
}

// Now is CLOCK_MONOTONIC, which on one machine is the same for all processes.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(t.Nano())
}

// Writer appends lines. Each is one write to a file in append mode, so lines of several processes do not mix.
// Safe for concurrent use.
type Writer struct{ file *os.File }

// Append opens a ledger, which need not exist.
func Append(path string) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return &Writer{file}, err
}

// Write appends a line.
func (w *Writer) Write(l Line) error {
	_, err := fmt.Fprintf(w.file, "%d %s %d %s %d %s\n", l.At, l.Who, l.Hold, l.Event, l.Order, strconv.Quote(l.Note))
	return err
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// Parse reads one line without its end.
func Parse(text string) (l Line, err error) {
	fields := strings.SplitN(text, " ", 6)
	if len(fields) != 6 {
		return l, fmt.Errorf("%q is not a line of a ledger: %d fields, 6 are needed", text, len(fields))
	}
	at, err1 := strconv.ParseInt(fields[0], 10, 64)
	hold, err2 := strconv.Atoi(fields[2])
	order, err3 := strconv.ParseInt(fields[4], 10, 64)
	note, err4 := strconv.Unquote(fields[5])
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return l, fmt.Errorf("%q is not a line of a ledger: %w", text, err)
		}
	}
	return Line{time.Duration(at), fields[1], hold, Event(fields[3]), order, note}, nil
}

// Reader reads the lines appended so far, repeatedly. It belongs to one goroutine.
type Reader struct {
	file *os.File
	in   *bufio.Reader
	part string // of a line whose end has not been seen
}

// Open reads a ledger from its beginning.
func Open(path string) (*Reader, error) {
	file, err := os.Open(path)
	return &Reader{file: file, in: bufio.NewReader(file)}, err
}

// More returns the lines that are new since the last call, if any.
func (r *Reader) More() (lines []Line, err error) {
	for {
		text, err := r.in.ReadString('\n')
		r.part += text
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		line, err := Parse(strings.TrimSuffix(r.part, "\n"))
		if err != nil {
			return lines, err
		}
		r.part = ""
		lines = append(lines, line)
	}
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }
