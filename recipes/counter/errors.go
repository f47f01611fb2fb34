package counter

import (
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Errors of this package. Use errors.Is.
var (
	// ErrBadValue says that the node contains something else: too few bytes for a number, what the codec does not
	// read, or, of [IDs], a number that has become less.
	ErrBadValue = errors.New("the node does not contain a value of this kind: " +
		"Set it, or look who else writes there")
	// ErrOverflow says that the sum does not fit into the number, as it is now. Nothing was added. (Curator's wraps
	// around.)
	ErrOverflow = errors.New("the sum does not fit into the number: nothing was added")
)

// undecided is the error of a write which nobody can tell any more whether it was executed.
var undecided = errorOf("a reply was lost, and what told whether the write was executed is gone",
	framework.ErrOutcomeUnknown)

// explained is an error with a text of its own that matches others.
type explained struct {
	text string
	is   error
}

func errorOf(text string, is error) error { return &explained{text, is} }

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.is }

func wrap(path, verb string, err error) error { return line.Wrap("counter", path, verb, err) }
