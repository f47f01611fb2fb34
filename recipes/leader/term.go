package leader

import (
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Term is one period of leadership. It ends once, for one reason, and is final. Safe for concurrent use. It has these
// methods besides those below:
//
//   - Context() context.Context returns the context for the leader's work. It ends with the term, and context.Cause
//     returns the reason: ErrSuspended, ErrSessionLost, ErrNodeDeleted, ErrReleased, or framework.ErrClosed. When the
//     session is lost, the context ends before another participant can become the leader. It has no deadline. It has
//     the values of the context given to Run or Campaign; for a latch it has none. Its Err also checks the clock, like
//     Valid; the Err of a derived context does not.
//   - Valid() bool reports whether this term certainly still lasts, computed from the clock. Call it right before an
//     action that only the leader is allowed to take.
//   - Remaining() time.Duration returns how long the term certainly lasts if no server answers from now on; 0 if it has
//     ended.
//   - Path() string and Node() string return the path and the name of the leader's node.
type Term struct {
	*grantShare
	line  *line.Line
	grant *line.Grant // of this term: a latch may have several terms on one node

	// done is closed when the function or listener has returned and the deletion of the node was started. deleted,
	// set before that, is this deletion, nil if there is none to wait for.
	done    chan struct{}
	deleted *framework.Pending[struct{}]
}

type grantShare = line.Share

// TermOf returns the term that ctx belongs to, nil if there is none. ctx is the context of a [Term], as a
// Selector's function gets it, or derived from one. If it belongs to several terms, the innermost is
// returned.
func TermOf(ctx context.Context) *Term {
	if ctx == nil {
		return nil
	}
	return line.OwnerFromContext[*Term](ctx)
}

func (c *candidate) newTerm(grant *line.Grant) *Term {
	term := &Term{c.line.ShareOf(grant), &c.line, grant, make(chan struct{}), nil}
	grant.Owner = term
	return term
}

// FencingToken returns a number that grows from leader to leader: the czxid of the leader's node. A store
// that remembers the largest token and refuses smaller ones is safe from writes of a former leader.
// Successive terms of a latch on the same node, after a lost connection, have the same token.
func (t *Term) FencingToken() int64 { return t.grant.Czxid }

// Guard returns an operation for [framework.Client.Transaction], of any client of the same ensemble. With it
// the server executes the transaction only if the leader's node exists at the commit; otherwise the
// transaction fails with framework.ErrNotHeld. No clock is involved.
func (t *Term) Guard() framework.TransactionOp { return line.Guard(t.grantShare) }

// Resign ends the term and lets the next participant lead. The term's context ends immediately. The leader's node is
// deleted after the function of a selector, or the listener of a latch, has returned; after [Campaign] immediately. A
// latch then rejoins at the end of the line, and so does a selector in Run. Resign waits until the server has confirmed
// the deletion. If ctx ends first, or the connection is lost, Resign returns that error, and the client keeps trying to
// delete the node for as long as the session lives. If ctx belongs to the term, as the context of the selector's function
// does, Resign does not wait, since it would wait for its own caller.
//
// If the term has ended already, Resign does nothing and returns the cause: ErrReleased, ErrSessionLost, …. (After
// ErrSuspended a latch keeps its node and may lead again; [Latch.Leave] deletes the node.)
func (t *Term) Resign(ctx context.Context) error {
	if ctx == nil {
		return wrapError(t.line.Dir, "resign", framework.ErrNilContext)
	}
	if !t.Valid() {
		return wrapError(t.line.Dir, "resign", t.endCause())
	}
	t.grant.Hold.End(ErrReleased)
	<-t.Context().Done()
	if cause := t.endCause(); !errors.Is(cause, ErrReleased) {
		return wrapError(t.line.Dir, "resign", cause) // the term was lost at the same moment
	}
	if t.grant.IsCarriedBy(ctx) {
		return nil
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return wrapError(t.line.Dir, "resign", t.line.Client.WaitError(ctx, nil))
	}
	return wrapError(t.line.Dir, "resign", awaitDeletion(ctx, t.deleted))
}

func (t *Term) endCause() error {
	_ = t.Context().Err() // ends the context if the term has ended by the clock
	return context.Cause(t.Context())
}

// endWithContext makes the term end when ctx ends, until unbind is called. If ctx has ended already, unbind waits until
// the term has ended and hooks have been called.
func (t *Term) endWithContext(ctx context.Context, cause func() error) (unbind func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		t.grant.Hold.End(cause())
	})
	return func() {
		if !stop() {
			<-ended
		}
	}
}

func awaitDeletion(ctx context.Context, deleted *framework.Pending[struct{}]) error {
	if deleted == nil {
		return nil
	}
	_, err := deleted.Wait(ctx)
	return err
}

// awaitReleaseAfterWork is [line.ReleaseAfterWork] for a deletion that was started already.
func (t *Term) awaitReleaseAfterWork(ctx context.Context) error {
	return line.ReleaseAfterWork(ctx, func(ctx context.Context) error { return awaitDeletion(ctx, t.deleted) })
}
