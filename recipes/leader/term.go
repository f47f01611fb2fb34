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
	ref    *termRef

	// done is closed when nothing of the term is going on any more; deleted, set before that, is the removal of
	// the node, nil if there is none to wait for.
	done    chan struct{}
	deleted *framework.Pending[struct{}]
}

// termRef takes the Term to those that have its context. It is set before anybody but a hook has that
// context.
type termRef struct{ term atomic.Pointer[Term] }

// termValues is what the contexts of a term have their values from.
type termValues struct {
	context.Context
	ref *termRef
}

type (
	termKey struct{}
	refKey  struct{ ref *termRef }
)

func (c termValues) Value(key any) any {
	switch key {
	case termKey{}, refKey{c.ref}:
		return c.ref
	}
	return c.Context.Value(key)
}

// TermOf returns the term that ctx belongs to: the context of a [Term], that of a Selector's function, or one
// derived from them; nil if there is none. Of several it is the innermost.
func TermOf(ctx context.Context) *Term {
	if ctx == nil {
		return nil
	}
	if ref, _ := ctx.Value(termKey{}).(*termRef); ref != nil {
		return ref.term.Load()
	}
	return nil
}

func (c *candidate) newTerm(grant *queue.Grant, hold *framework.Hold, ref *termRef) *Term {
	term := &Term{
		client: c.line.Client, dir: c.line.Dir, grant: grant, hold: hold, ref: ref,
		done: make(chan struct{}),
	}
	ref.term.Store(term)
	return term
}

// Context is the one to lead under: it ends with the term, and context.Cause says why: ErrSuspended,
// ErrSessionLost, ErrNodeDeleted, ErrReleased, or framework.ErrClosed. When the session is lost it ends
// before the servers can make somebody else the leader. It has no deadline, and the values of the context
// given to Run (none for a latch). Its Err also looks at the clock, like Valid; that of contexts derived from
// it does not.
func (t *Term) Context() context.Context { return t.hold.Context() }

// Valid says, from the clock, whether this is certainly the leader now. Ask it right before what only the
// leader may do.
func (t *Term) Valid() bool { return t.hold.Valid() }

// Remaining is how long the term certainly lasts if nothing is heard of the servers any more; 0 when it has
// ended.
func (t *Term) Remaining() time.Duration { return t.hold.Remaining() }

// FencingToken is a number that grows from leader to leader (the czxid of the leader's node). A store that
// remembers the largest one and refuses smaller ones cannot be written to by a former leader. Successive
// terms of one latch on one node (the connection was lost and came back) have the same token.
func (t *Term) FencingToken() int64 { return t.grant.Czxid }

// Guard is an operation for [framework.Client.Transaction], of any client of the same ensemble: the
// transaction is executed only while the leader's node is there, and otherwise fails with ErrNoNode. The
// server decides, when it commits: no clock is involved.
func (t *Term) Guard() framework.TransactionOp {
	return t.client.TransactionOp().Check().ForPath(t.grant.Path)
}

// Path is that of the leader's node.
func (t *Term) Path() string { return t.grant.Path }

// Node is the name of the leader's node.
func (t *Term) Node() string { return t.grant.Name }

// Resign ends the term and lets the next in line lead. The context ends at once. A latch then gives its place
// up and goes to the end of the line; a selector does when its function has returned. Resign waits for that
// function, or the listener of a latch, to return, and for the server to confirm that the place is given up.
// When ctx ends first, or the connection is lost, the client goes on with it for as long as the session
// lives, and the error says why Resign did not wait. With a context that belongs to the term, as that of the
// function does, it does not wait: the function is to return.
//
// When the term has ended before, the error is how: ErrReleased, ErrSessionLost, …, and nothing is done.
// (After ErrSuspended a latch keeps its place: Leave gives it up.)
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
	if ctx.Value(refKey{t.ref}) != nil {
		return nil
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return wrap(t.dir, "resign", t.client.Left(ctx, nil))
	}
	return wrap(t.dir, "resign", confirmed(ctx, t.deleted))
}

func (t *Term) cause() error {
	_ = t.Context().Err() // which makes an end by the clock known
	return context.Cause(t.Context())
}

// endWith has the term end with ctx. unbind undoes that, or waits for it if it is under way: hooks, too, have
// heard of the end then.
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

func confirmed(ctx context.Context, deleted *framework.Pending[struct{}]) error {
	if deleted == nil {
		return nil
	}
	_, err := deleted.Wait(ctx)
	return err
}

// releasedAfterWork waits for the removal when the leader's work is done, as [queue.ReleaseAfterWork].
func (t *Term) releasedAfterWork(ctx context.Context) error {
	return queue.ReleaseAfterWork(ctx, func(ctx context.Context) error { return confirmed(ctx, t.deleted) })
}
