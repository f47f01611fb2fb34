package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/plain"
)

// trouble is the last failure to connect, for the errors of callers that wait in vain.
type trouble struct {
	mu     sync.Mutex
	server string
	err    error
}

func (t *trouble) note(server string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server, t.err = server, err
}

func (t *trouble) clear() { t.note("", nil) }

func (t *trouble) last() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err == nil:
		return nil
	case t.server == "" || strings.Contains(t.err.Error(), t.server):
		return &attemptError{t.err}
	}
	return &attemptError{fmt.Errorf("%s: %w", t.server, t.err)}
}

// attemptError is why an attempt to connect has failed. The attempt has a time limit of its own, which must
// not be mistaken for the deadline of a context: it does not match the context errors.
type attemptError struct{ err error }

func (e *attemptError) Error() string {
	return strings.ReplaceAll(plain.Text(e.err.Error()), context.DeadlineExceeded.Error(), "timed out")
}

func (e *attemptError) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

func (e *attemptError) As(target any) bool { return errors.As(e.err, target) }

// awayError is err, and why there was no connection.
type awayError struct {
	err     error
	servers string
	last    error // nil if no attempt has come to its end yet
}

func (e *awayError) Error() string {
	if e.last == nil {
		return fmt.Sprintf("%v; no connection to %s: the first attempt is under way", e.err, plain.Text(e.servers))
	}
	return fmt.Sprintf("%v; no connection to %s; last attempt: %v", e.err, plain.Text(e.servers), e.last)
}

func (e *awayError) Unwrap() []error {
	if e.last == nil {
		return []error{e.err}
	}
	return []error{e.err, e.last}
}

// explain adds to the error of a wait, for a connection or until a context ended, why there is no connection.
func (c *core) explain(err error) error {
	var told *awayError
	switch {
	case !errors.Is(err, ErrNotConnected) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errUnwelcome), errors.Is(err, ErrClosed), errors.As(err, &told):
		return err
	}
	last := c.trouble.last()
	if last == nil && c.epochLast().wire.Connected() {
		return err
	}
	return &awayError{err, listed(c.serverList(), ", "), last}
}

// notConnected returns the error of a wait for a connection that the end of ctx has ended.
func (c *core) notConnected(ctx context.Context) error {
	why := errNotNow
	switch now, _ := c.board.look(); now.State {
	case NeverConnected:
		why = errNotYet
	case ReadOnly:
		why = errNoQuorum
	}
	return c.explain(fmt.Errorf("%w: %w", why, flow.Ended(ctx)))
}

var (
	errNotYet = named("not connected yet", ErrNotConnected)
	errNotNow = named("not connected at present", ErrNotConnected)
	// errNoQuorum is for callers that cannot use a member that serves reads only.
	errNoQuorum = named("not connected to a member with a quorum", ErrNotConnected)
)
