package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
)

// epoch is one ZooKeeper session in the life of a client. There is exactly one live epoch at any time.
type epoch struct {
	n      int64
	core   *core
	wire   *wire.Session
	ctx    context.Context // ends with the session; its cause is ErrSessionLost or ErrClosed
	cancel context.CancelCauseFunc

	// Of the manager's goroutine:
	probing  bool      // a read of configPath is under way
	refusals int       // how many in a row were refused for a reason that passes
	told     wire.Rule // the rule that was logged last

	mu        sync.Mutex  // never held while wire is called
	changed   flow.Signal // something below
	attached  bool        // a member with a quorum has confirmed the session
	suspended bool        // and now none is connected
	over      error       // why nothing can be held any more
	holds     map[*Hold]struct{}
}

// change runs f with the lock held and wakes those who wait for a change.
func (e *epoch) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	e.changed.Fire()
}

// connected says whether the session has a connection to a member with a quorum. The epoch knows of a loss
// before it is announced: whoever learns of it by the end of a hold must not be told that the client is
// connected.
func (e *epoch) connected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.attached && !e.suspended
}

// held returns the holds.
func (e *epoch) held() []*Hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	holds := make([]*Hold, 0, len(e.holds))
	for h := range e.holds {
		holds = append(holds, h)
	}
	return holds
}

// end ends the epoch: first its holds, then its context.
func (e *epoch) end(why error) {
	e.endHolds(why)
	e.cancel(why)
}

// isOver says whether a transport error means that the session has ended.
func (e *epoch) isOver(err error) bool {
	return e.ctx.Err() != nil || errors.Is(err, wire.ErrSessionLost) || errors.Is(err, wire.ErrClosed)
}

// endCause is why everything that belongs to the session ends: ErrClosed, or ErrSessionLost with the reason.
// All that ends with a session ends with this cause.
func (e *epoch) endCause() error {
	if cause := context.Cause(e.ctx); cause != nil {
		return cause
	}
	switch why := e.wire.Validity().Why(); {
	case why == nil:
		return ErrSessionLost
	case errors.Is(why, wire.ErrClosed):
		return ErrClosed
	default:
		return fmt.Errorf("%w: %w", ErrSessionLost, plain.Error(why))
	}
}

// epochOf returns the epoch in which this view's operations run now.
func (c *Client) epochOf() (*epoch, error) {
	if c.none() {
		return nil, ErrNoClient
	}
	now, e := c.core.epochNow(), c.pinned()
	switch {
	case now == nil: // first of all: a closed client must not look like one whose session has ended
		return nil, ErrClosed
	case e == nil:
		return now, nil
	case e.ctx.Err() != nil:
		return nil, e.endCause()
	}
	return e, nil
}

// pinned returns the epoch that this view is bound to, or nil.
func (c *Client) pinned() *epoch {
	if c.none() {
		return nil
	}
	return c.view.epoch
}

// none says that this is no client but a nil pointer, or the zero value.
func (c *Client) none() bool { return c == nil || c.core == nil }
