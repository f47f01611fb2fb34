package counter

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/mark"
)

// lingering is the time that a mark stays after the last write.
const lingering = 10 * time.Second

// ownMark is the register's mark: an ephemeral child of its node, which every write changes before the node. While
// the mark exists the node cannot have been deleted, so a version of the node is unambiguous.
type ownMark struct {
	*mark.Mark
	making *framework.Pending[framework.CreateResult] // the create in flight; nil if none is
}

// markIn returns the register's mark in a session. The caller is in the slot.
func (r *register) markIn(session *framework.Session) *ownMark {
	if m := r.mark; m != nil && m.Serves(session) {
		return m
	}
	r.forget()
	r.mark = &ownMark{Mark: mark.New(session, r.path)}
	r.linger(r.mark)
	return r.mark
}

// standing reports whether the mark exists, as far as this client has seen: then the node was not deleted.
func (m *ownMark) standing() bool { return m != nil && m.Made && m.Session.Context().Err() == nil }

// prepare sends the create of the mark for a later write, together with the read before it. The caller is in the
// slot. SessionSoon has applied the retry policy to an error: the client has no session then.
func (r *register) prepare(ctx context.Context) error {
	session, err := r.client.SessionSoon(ctx)
	if err == nil {
		r.markIn(session).begin()
	}
	return err
}

func (m *ownMark) begin() {
	if m.making == nil && !m.Made && !m.None {
		m.making = m.Create().InBackground().ForPath(m.Session.Context(), m.Path, []byte{})
	}
}

// ready waits until the mark exists, or the server has refused it.
func (m *ownMark) ready(ctx context.Context) error {
	for again := m.making != nil; !m.Made && !m.None; again = false {
		m.begin()
		select {
		case <-m.making.Done():
		case <-ctx.Done():
			return m.Session.Client().Left(ctx, nil) // the create continues
		}
		_, err := line.Result(m.making)
		m.making = nil
		switch {
		case err == nil, errors.Is(err, framework.ErrNodeExists):
			m.Made, m.Used = true, time.Now()
		case again && errors.Is(err, framework.ErrNoNode): // the node was created after that
		case errors.Is(err, framework.ErrNoNode), m.Session.Context().Err() != nil, !line.Denied(err):
			return err
		default:
			m.None = true
		}
	}
	return nil
}

// forget deletes the mark in the background.
func (r *register) forget() {
	if m := r.mark; m != nil {
		r.mark = nil
		m.Forget()
	}
}

// linger forgets the mark when it has not been used for a while, so that a counter at rest has no children.
func (r *register) linger(m *ownMark) {
	r.client.Spawn(func(ctx context.Context) {
		for wait := lingering; ; wait = max(wait, time.Millisecond) {
			r.client.Pause(ctx, wait)
			if r.client.Err() != nil || r.enter(ctx) != nil {
				return // closing ends the session, and the mark with it
			}
			current := r.mark == m
			if wait = lingering - time.Since(m.Used); current && wait <= 0 {
				r.forget()
				current = false
			}
			r.leave()
			if !current {
				return
			}
		}
	})
}
