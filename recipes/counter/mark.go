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
type mark struct {
	session *framework.Session
	path    string
	made    bool  // the next write changes it, the first one makes it
	version int32 // when made
	sent    bool  // a write with it: there may be something to delete
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

// ops are the operations of a write of data over a version.
func (m *mark) ops(path string, version int32, data []byte) []framework.TransactionOp {
	m.sent = m.sent || !m.none
	to := m.session.Client().TransactionOp()
	set := to.SetData().WithVersion(version).ForPath(path, data)
	switch {
	case m.none:
		return []framework.TransactionOp{set}
	case m.made:
		again := to.SetData().WithVersion(m.version).Uncompressed().ForPath(m.path, []byte{})
		return []framework.TransactionOp{again, set}
	}
	first := to.Create().WithMode(framework.Ephemeral).Uncompressed().ForPath(m.path, []byte{})
	return []framework.TransactionOp{first, set}
}

// written notes that a write was executed.
func (m *mark) written() {
	m.used = time.Now()
	if m.made {
		m.version++
	}
	m.made = true
}

// tellsOf says whether the mark's refusal of a repeat means that the write was executed before.
func (m *mark) tellsOf(refusal error) bool {
	if m.made {
		return errors.Is(refusal, framework.ErrBadVersion)
	}
	return errors.Is(refusal, framework.ErrNodeExists)
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
