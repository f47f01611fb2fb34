package run

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/go-curator/curator/cmd/internal/keeper"
)

// Hold is a lock, a lease or a term of leadership.
type Hold interface {
	Context() context.Context
	Remaining() time.Duration
}

// Command has the program to run, and how.
type Command struct {
	Path    string   // of the program
	Args    []string // its name and arguments
	Env     []string
	NoInput bool // it gets no standard input
	Grace   keeper.Grace
	Every   time.Duration    // how often the keeper is sent a new end of the hold's certainty
	Signals <-chan os.Signal // to be passed on
}

// ErrNotRunnable is the cause of an error of [Under] if the command's program cannot be executed.
var ErrNotRunnable = errors.New("cannot be run")

// Outcome is the end of a command.
type Outcome struct {
	Status int       // its exit status, 128 and the signal's number if a signal has ended it
	Told   bool      // it was asked to end, or killed, because the hold was lost or about to be uncertain
	Passed os.Signal // the last signal passed on that asks to end: HUP, INT, QUIT, TERM; nil if there was none
}
