package queue

import (
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Errors of this package. Use errors.Is.
var (
	// ErrEmpty says that a [Simple] has no item right now.
	ErrEmpty = errors.New("the queue is empty")
	// ErrUnreadable says that the data of an item's node are not what a producer of this layout writes.
	ErrUnreadable = errors.New("the node does not contain items: look who else writes there")
	// ErrFull says why a Put with [WithBound] waited until its context ended: nothing was put.
	ErrFull = errors.New("the queue is full: nothing was put")
	// ErrSequenceExhausted says that the numbers of the queue's node are used up. Nothing was put.
	ErrSequenceExhausted = line.ErrSequenceExhausted
)

// ItemError says what went wrong with one item; [OnFailure] gets it. Err is what the handler has returned, or
// matches ErrUnreadable, or ErrNoAuth if the node may not be read, or ErrOutcomeUnknown: then the item may
// have been taken off the queue and was not handled, which happens without [WithLockPath] only.
type ItemError struct {
	Path string // the item's node
	Data []byte // the node's, all of it; nil if they could not be read
	Err  error
}

// Error implements error.
func (e *ItemError) Error() string { return fmt.Sprintf("item %s: %v", plain.Text(e.Path), e.Err) }

// Unwrap returns e.Err.
func (e *ItemError) Unwrap() error { return e.Err }

func wrap(path, verb string, err error) error { return line.Wrap("queue", path, verb, err) }

// The errors of a write of which the marker does not tell whether it was executed. It is not to be repeated,
// unless something else tells. After errUndecided in a session that goes on, a try that was not executed never
// will be: its marker is gone.
var (
	errUndecided = fmt.Errorf("a reply was lost, and what told whether the write was executed is gone: %w",
		framework.ErrOutcomeUnknown)
	errUndecidable = fmt.Errorf("a reply was lost, and the server takes no mark that tells whether the write was "+
		"executed: %w", framework.ErrOutcomeUnknown)
)
