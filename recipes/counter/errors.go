package counter

import (
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Errors of this package. Use errors.Is.
var (
	// ErrBadValue is returned if the node does not contain a value of this kind: too few bytes for a number, data
	// that the codec cannot decode, or, for [IDs], a number that has become smaller.
	ErrBadValue = errors.New("the node does not contain a value of this kind: " +
		"Set it, or look who else writes there")
	// ErrOverflow is returned if the sum with the present number does not fit. Nothing was added. (Curator's wraps
	// around.)
	ErrOverflow = errors.New("the sum does not fit into the number: nothing was added")
)

// errUndecided is the error of a write if it can no longer be found out whether it was executed.
var errUndecided = explainError("a reply was lost, and the mark that proves the write is gone",
	framework.ErrOutcomeUnknown)

// explainedError is an error that replaces the text of the error that it wraps.
type explainedError struct {
	text    string
	wrapped error
}

func explainError(text string, wrapped error) error { return &explainedError{text, wrapped} }

func (e *explainedError) Error() string { return e.text }
func (e *explainedError) Unwrap() error { return e.wrapped }

func wrapError(path, verb string, err error) error { return line.WrapError("counter", path, verb, err) }
