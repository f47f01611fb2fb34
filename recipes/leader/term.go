package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Term is one time of leading. It ends once, for one reason, and never comes back. Safe for concurrent use.
type Term struct {
	client *framework.Client
	dir    string
	grant  *queue.Grant
	hold   *framework.Hold
	cell   *cell
	began  time.Time

	// given is closed when nothing of the term is going on any more; deleted, set before that, is the removal of the node, nil if there
	// is none to wait for.
	given   chan struct{}
	deleted *framework.Pending[struct{}]
}

// cell takes the Term to those who have its context. It is filled before anybody has but a hook that is told of the hold.
type cell struct{ term atomic.Pointer[Term] }

// carrier is what the contexts of a term have their values from.
type carrier struct {
	context.Context
	cell *cell
}

type (
	termKey struct{}
	cellKey struct{ cell *cell }
)

// Value implements [context.Context].
func (c carrier) Value(key any) any {
	switch key {
	case termKey{}, cellKey{c.cell}:
		return c.cell
	}
	return c.Context.Value(key)
}

// TermOf returns the term that ctx belongs to: the context of a [Term], that of a Selector's function, or one derived from them; nil if there
// is none. Of several it is the innermost.
func TermOf(ctx context.Context) *Term {
	if ctx == nil {
		return nil
	}
	if c, _ := ctx.Value(termKey{}).(*cell); c != nil {
		return c.term.Load()
	}
	return nil
}

func (c *candidate) newTerm(grant *queue.Grant, hold *framework.Hold, in *cell) *Term {
	term := &Term{
		client: c.line.Client, dir: c.line.Dir, grant: grant, hold: hold, cell: in, began: time.Now(),
		given: make(chan struct{}),
	}
	in.term.Store(term)
	return term
}

// Context is the one to lead under: it ends with the term, and context.Cause says why: ErrSuspended, ErrSessionLost, ErrNodeDeleted,
// ErrReleased, or framework.ErrClosed. When the session is lost it ends before the servers can make somebody else the leader. It has no
// deadline, and the values of the context given to Run (none for a latch).
//
// Its Err also looks at the clock, like Valid; that of contexts derived from it does not.
func (t *Term) Context() context.Context { return t.hold.Context() }

// Valid says, from the clock, whether this is certainly the leader now. Ask it after anything that may have taken long, right before what
// only the leader may do.
func (t *Term) Valid() bool { return t.hold.Valid() }

// Remaining is for how long the term certainly lasts if nothing is heard of the servers any more; 0 when it has ended. It is renewed all
// the time while the connection works.
func (t *Term) Remaining() time.Duration { return t.hold.Remaining() }

// FencingToken is a number that grows from leader to leader (the czxid of the leader's node). A store that remembers the largest one it has
// seen and refuses smaller ones cannot be written to by a former leader. Successive terms of one latch on one node (the connection was lost
// and came back) have the same token: nobody else has led in between.
func (t *Term) FencingToken() int64 { return t.grant.Czxid }

// Guard is an operation for [framework.Client.Transaction], of any client of the same ensemble: the transaction is executed only while the
// leader's node is there, and otherwise fails with ErrNoNode. It decides at the server, at the moment of the commit: no clock is involved.
func (t *Term) Guard() framework.TransactionOp {
	return t.client.TransactionOp().Check().ForPath(t.grant.Path)
}

// Path is that of the leader's node.
func (t *Term) Path() string { return t.grant.Path }

// Node is the name of the leader's node.
func (t *Term) Node() string { return t.grant.Name }

// Resign ends the term and lets the next in line lead. The context ends at once. A latch then gives its place up and stands at the end of the
// line again; a selector does when its function has returned. Resign waits until the server has confirmed that the place is given up: a
// selector's for its function, a latch's for its listener. When ctx ends first the rest goes on, and the error says why Resign did not wait.
// With a context that belongs to the term, as that of the function does, Resign does not wait: the function is to return.
//
// When the term has ended before, the error is how: ErrReleased, ErrSessionLost, …, and nothing is done. (After ErrSuspended a latch keeps its
// place: Leave gives it up.)
func (t *Term) Resign(ctx context.Context) error {
	if ctx == nil {
		return wrap(t.dir, "resign", framework.ErrNilContext)
	}
	if !t.hold.Valid() {
		return wrap(t.dir, "resign", t.cause())
	}
	t.hold.End(ErrReleased)
	<-t.Context().Done()
	if cause := t.cause(); !errors.Is(cause, ErrReleased) {
		return wrap(t.dir, "resign", cause) // that was at the same time
	}
	if ctx.Value(cellKey{t.cell}) != nil {
		return nil
	}
	select {
	case <-t.given:
	case <-ctx.Done():
		return wrap(t.dir, "resign", t.client.Left(ctx, nil))
	}
	return wrap(t.dir, "resign", wait(ctx, t.deleted))
}

// cause is why the term has ended.
func (t *Term) cause() error {
	_ = t.Context().Err() // which makes an end by the clock known
	return context.Cause(t.Context())
}

// endWith has the term end with ctx. What it returns puts an end to that, or waits for it if it is under way: hooks, too, have heard of it then.
func (t *Term) endWith(ctx context.Context, cause func() error) (unbind func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		t.hold.End(cause())
	})
	return func() {
		if !stop() {
			<-ended
		}
	}
}

// wait waits for a removal to be confirmed.
func wait(ctx context.Context, deleted *framework.Pending[struct{}]) error {
	if deleted == nil {
		return nil
	}
	_, err := deleted.Wait(ctx)
	return err
}

// givenBack waits, for a little, until the removal is confirmed, when the leader's work is done. It returns only a refusal.
func (t *Term) givenBack(ctx context.Context) error {
	return queue.ReleaseAfterWork(ctx, func(ctx context.Context) error { return wait(ctx, t.deleted) })
}
