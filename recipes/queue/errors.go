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
	// ErrEmpty is returned if a [Simple] has no item right now.
	ErrEmpty = errors.New("the queue is empty")
	// ErrUnreadable is returned if an item's data do not have the layout that producers write.
	ErrUnreadable = errors.New("the node does not contain items: look who else writes there")
	// ErrFull is returned if a Put with [WithBound] waited until its context ended: nothing was put.
	ErrFull = errors.New("the queue is full: nothing was put")
	// ErrSequenceExhausted is returned if the numbers of the queue's node are used up. Nothing was put.
	ErrSequenceExhausted = line.ErrSequenceExhausted
)

// ItemError describes the failure of one item; [OnFailure] receives it. Err is the handler's error, or matches
// ErrUnreadable, or ErrNoAuth if the node may not be read, or ErrOutcomeUnknown: then the item may have been taken
// off the queue and was not handled, which happens without [WithLockPath] only.
type ItemError struct {
	Path string // the item's node
	Data []byte // the node's data, all of them; nil if they could not be read
	Err  error
}

// Error implements error.
func (e *ItemError) Error() string { return fmt.Sprintf("item %s: %v", plain.Text(e.Path), e.Err) }

// Unwrap returns e.Err.
func (e *ItemError) Unwrap() error { return e.Err }

func wrapError(path, verb string, err error) error { return line.WrapError("queue", path, verb, err) }

// Errors of a write of unknown outcome: its mark is gone, or the server refuses marks. The caller must not repeat the
// write unless a read shows the outcome. After errMarkGone, in a session that continues, a try that was not executed
// never will be, since the mark that it changes is gone.
var (
	errMarkGone = fmt.Errorf("a reply was lost, and the mark that proves the write is gone: %w",
		framework.ErrOutcomeUnknown)
	errMarkRefused = fmt.Errorf("a reply was lost, and the server refuses the mark that proves whether the write was "+
		"executed: %w", framework.ErrOutcomeUnknown)
)
