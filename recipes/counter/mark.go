package counter

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/mark"
)

// markIdleTime is the time that a mark stays after the last write.
const markIdleTime = 10 * time.Second

// ownMark is a valueNode's mark: an ephemeral child of the node, which every write changes before the node. While
// the mark exists the node cannot have been deleted, so a version of the node is unambiguous.
type ownMark struct {
	*mark.Mark
	pendingCreate *framework.Pending[framework.CreateResult] // the create in flight; nil if none is
}

// markForSession returns the node's mark in a session. The caller is in the slot.
func (r *valueNode) markForSession(session *framework.Session) *ownMark {
	if m := r.mark; m != nil && m.Serves(session) {
		return m
	}
	r.forgetMark()
	r.mark = &ownMark{Mark: mark.New(session, r.path)}
	r.forgetWhenIdle(r.mark)
	return r.mark
}

// isPresent reports whether the mark exists, as far as this client has seen: then the node was not deleted.
func (m *ownMark) isPresent() bool { return m != nil && m.Created && m.Session.Context().Err() == nil }

// prepareMark begins the create of the mark, so that it is in flight together with the read before the write. The caller is
// in the slot. An error is final: SessionSoon has applied the retry policy.
func (r *valueNode) prepareMark(ctx context.Context) error {
	session, err := r.client.SessionSoon(ctx)
	if err == nil {
		r.markForSession(session).startCreate()
	}
	return err
}

func (m *ownMark) startCreate() {
	if m.pendingCreate == nil && !m.Created && !m.Forbidden {
		m.pendingCreate = m.Create().InBackground().ForPath(m.Session.Context(), m.Path, []byte{})
	}
}

// awaitCreated waits until the mark exists, or the server has refused it.
func (m *ownMark) awaitCreated(ctx context.Context) error {
	for retryMissing := m.pendingCreate != nil; !m.Created && !m.Forbidden; retryMissing = false {
		m.startCreate()
		select {
		case <-m.pendingCreate.Done():
		case <-ctx.Done():
			return m.Session.Client().WaitError(ctx, nil) // the create continues
		}
		_, err := line.AwaitResult(m.pendingCreate)
		m.pendingCreate = nil
		switch {
		case err == nil, errors.Is(err, framework.ErrNodeExists):
			m.Created, m.Used = true, time.Now()
		case retryMissing && errors.Is(err, framework.ErrNoNode): // the node was created after the mark's create was sent
		case errors.Is(err, framework.ErrNoNode), m.Session.Context().Err() != nil, !line.IsRefused(err):
			return err
		default:
			m.Forbidden = true
		}
	}
	return nil
}

// forgetMark deletes the mark in the background.
func (r *valueNode) forgetMark() {
	if m := r.mark; m != nil {
		r.mark = nil
		m.Forget()
	}
}

// forgetWhenIdle forgets the mark when it has not been used for a while, so that a counter at rest has no children.
func (r *valueNode) forgetWhenIdle(m *ownMark) {
	r.client.Spawn(func(ctx context.Context) {
		for wait := markIdleTime; ; wait = max(wait, time.Millisecond) {
			r.client.Pause(ctx, wait)
			if r.client.Err() != nil || r.acquireSlot(ctx) != nil {
				return // closing ends the session, and the mark with it
			}
			current := r.mark == m
			if wait = markIdleTime - time.Since(m.Used); current && wait <= 0 {
				r.forgetMark()
				current = false
			}
			r.releaseSlot()
			if !current {
				return
			}
		}
	})
}
