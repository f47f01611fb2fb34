package counter

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// lingering is how long a mark stays after the last write.
const lingering = 10 * time.Second

// mark is an ephemeral child of the register's node. Every write is one transaction that first changes the
// mark, of the version that the last write left, and then the node. So a repeat of a write that was executed
// is refused because of the mark, and one that was not executed is not: the answer tells which, however often
// others have written since. While the mark is there the node was not deleted either, so that a version
// means what it meant.
//
// The mark is there before the first write. A write that also made it could be repeated, and be accepted,
// after somebody had deleted the mark.
type mark struct {
	session *framework.Session
	path    string
	making  *framework.Pending[framework.CreateResult] // the create that is under way; nil if none is
	made    bool                                       // it was there
	version int32                                      // when made
	sent    bool                                       // there may be something to delete
	// none says that the server takes no mark here (no right to create children, for example): then a write
	// is the change of the node alone, and a lost reply may stay unexplained.
	none bool
	used time.Time // when it was last written
}

// markIn returns the register's mark in a session. The caller is in the slot.
func (r *register) markIn(session *framework.Session) *mark {
	m := r.mark
	if m != nil && m.session.Epoch() == session.Epoch() && m.version < 1<<30 { // versions are never used up
		return m
	}
	r.forget()
	name := zkpath.Protect(zkpath.NewGUID(), "mark")
	r.mark = &mark{session: session, path: zkpath.Join(r.path, name), used: time.Now()}
	r.linger(r.mark)
	return r.mark
}

// standing says whether the mark is there, as far as is known: then nobody has deleted the node.
func (m *mark) standing() bool { return m != nil && m.made && m.session.Context().Err() == nil }

// prepare begins to make the mark for a write that will come, in the flight of the read before it. The caller
// is in the slot.
func (r *register) prepare(ctx context.Context) {
	if session, err := r.client.SessionSoon(ctx); err == nil {
		r.markIn(session).begin()
	}
}

func (m *mark) begin() {
	if m.making == nil && !m.made && !m.none {
		m.sent = true
		create := m.session.Client().Create().WithMode(framework.Ephemeral).Uncompressed().InBackground()
		m.making = create.ForPath(m.session.Context(), m.path, []byte{})
	}
}

// ready waits until the mark is there, or it is known that there can be none. The name is nobody else's, so a
// node that exists already is that of an earlier try.
func (m *mark) ready(ctx context.Context) error {
	for again := m.making != nil; !m.made && !m.none; again = false {
		m.begin()
		select {
		case <-m.making.Done():
		case <-ctx.Done():
			return m.session.Client().Left(ctx, nil) // the create goes on
		}
		_, err := queue.Result(m.making)
		m.making = nil
		switch {
		case err == nil, errors.Is(err, framework.ErrNodeExists):
			m.made, m.used = true, time.Now()
		case again && errors.Is(err, framework.ErrNoNode): // the node was made after that
		case errors.Is(err, framework.ErrNoNode), m.session.Context().Err() != nil, !queue.Denied(err):
			return err
		default:
			m.none = true
		}
	}
	return nil
}

// ops are the operations of a write of data over a version.
func (m *mark) ops(path string, version int32, data []byte) []framework.TransactionOp {
	to := m.session.Client().TransactionOp()
	set := to.SetData().WithVersion(version).ForPath(path, data)
	if m.none {
		return []framework.TransactionOp{set}
	}
	again := to.SetData().WithVersion(m.version).Uncompressed().ForPath(m.path, []byte{})
	return []framework.TransactionOp{again, set}
}

// written notes that a write was executed.
func (m *mark) written() {
	m.used = time.Now()
	m.version++
}

// forget gives the mark up: what is there of it is deleted, by the client, which goes on until it is done.
func (r *register) forget() {
	m := r.mark
	r.mark = nil
	if m != nil && m.sent && m.session.Context().Err() == nil {
		queue.Remove(m.session.Client(), m.path)
	}
}

// linger forgets the mark when it has not been used for a while, so that a counter at rest has no children.
func (r *register) linger(m *mark) {
	r.client.Spawn(func(ctx context.Context) {
		for wait := lingering; ; wait = max(wait, time.Millisecond) {
			r.client.Pause(ctx, wait)
			if r.client.Err() != nil || r.enter(ctx) != nil {
				return // closing ends the session, and the mark with it
			}
			current := r.mark == m
			if wait = lingering - time.Since(m.used); current && wait <= 0 {
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
