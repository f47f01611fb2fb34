package line

import (
	"cmp"
	"context"
	"time"

	"github.com/go-curator/curator/framework"
)

// Turn is the hold of one caller of a [Front], on the node that its callers use one after the other or together. It is a
// grant whose context ends with the turn, or with the node's hold if that is earlier. Only callers of the Front can join
// it: elsewhere a caller with its context would wait for itself.
type Turn struct {
	Grant
	node         *frontNode
	certainUntil time.Time       // the last result of CertainUntil when the turn began
	values       context.Context // the caller's
	cancel       context.CancelCauseFunc
}

// Caller has the values of the caller's context that a turn needs.
type Caller struct {
	values  context.Context
	carried *carriedGrant
}

// CallerOf returns the Caller of a context. It is called while no mutex is locked, since the context's methods may be user
// code.
func CallerOf(ctx context.Context) Caller {
	if ctx == context.Background() {
		return Caller{values: ctx}
	}
	return Caller{context.WithoutCancel(ctx), carriedGrants(ctx)}
}

// clockTrust limits the age of a result of Hold.Remaining that is used again, unless the hold ends: the call costs several
// times as much as a turn. The time runs on while the process stands still, but not while the machine sleeps; a turn
// that begins at such a moment may have begun before the sleep as well. Its context and Valid always read the clock.
const clockTrust = 100 * time.Microsecond

// CertainUntil returns a time until which the hold is certain; the zero time if it is not certain now. last is the
// result of an earlier call.
func (g *Grant) CertainUntil(now, last time.Time) time.Time {
	if now.Before(last) && !g.hasEnded() {
		return last
	}
	if left := g.Hold.Remaining(); left > 0 {
		return now.Add(min(left, clockTrust))
	}
	return time.Time{}
}

// hasEnded reports whether the hold has ended, without a look at the clock.
func (g *Grant) hasEnded() bool {
	select {
	case <-g.Hold.Context().Done():
		return true
	default:
		return false
	}
}

// newTurn returns a caller's Share of a new turn; its context has the caller's values. sure is a result of CertainUntil, or
// zero. It calls no user code.
func (n *frontNode) newTurn(caller Caller, sure time.Time) *Share {
	t := &Turn{node: n, certainUntil: sure, values: caller.values}
	t.Session, t.Hold, t.Path, t.Name, t.Czxid, t.revoked = n.Session, n.Hold, n.Path, n.Name, n.Czxid, n.revoked
	t.turn, t.joinable, t.shareCount = t, true, 1
	t.carriedEntry = carriedGrant{n.carriedEntry.key, &t.Grant, caller.carried}
	hold := n.Hold.Context()
	t.ctx = grantContext{grant: &t.Grant, grants: &t.carriedEntry}
	t.ctx.Context, t.cancel = context.WithCancelCause(hold)
	return n.front.line.newShare(&t.Grant)
}

// endTurn ends a turn whose last Share was released. toDelete is not nil if the caller has to delete the node; it may wait
// for the reply. lost is the cause of the hold's loss, if it was lost.
func (t *Turn) endTurn() (toDelete *frontNode, lost error) {
	now, n := time.Now(), t.node
	sure := t.CertainUntil(now, t.certainUntil)
	if sure.IsZero() {
		lost = t.Lost()
	}
	t.cancel(framework.ErrReleased)
	last, others := n.front.recordTurnEnd(n, sure, now)
	switch {
	case !last:
		return nil, lost
	case n.front.limits.Users > 0 && (others || lost != nil):
		n.deleteNode(nil)
		return nil, lost
	}
	return n, lost
}

// releaseTurn ends a turn. If endTurn returns the node, it deletes that and waits for the reply, or until ctx ends. client
// is the caller's.
func (t *Turn) releaseTurn(ctx context.Context, client *framework.Client) error {
	n, lost := t.endTurn()
	switch {
	case n == nil:
		return lost
	case n.front.limits.Users == 0:
		err := n.Release(ctx)
		return cmp.Or(lost, err)
	}
	replied := make(chan error, 1)
	n.deleteNode(func(err error) { replied <- err })
	select {
	case err := <-replied:
		return err
	case <-ctx.Done():
		return client.WaitError(ctx, nil)
	}
}

// releaseInBackground is releaseTurn for a caller that does not wait: then gets its error.
func (t *Turn) releaseInBackground(client *framework.Client, then *Callback) {
	n, lost := t.endTurn()
	if n == nil {
		then.CallLater(client, lost)
		return
	}
	n.deleteNode(func(refused error) { then.CallLater(client, cmp.Or(lost, refused)) })
}

// ReleaseTurnNoWait ends a Share of a turn, and does not wait for the deletion of the node.
func ReleaseTurnNoWait(s *Share) {
	if last, _ := s.releaseShare(); last {
		if n, _ := s.grant.turn.endTurn(); n != nil {
			n.deleteNode(nil)
		}
	}
}

// IsInTurn reports whether the innermost held grant of the Line that ctx carries (see [Line.HeldGrants]) is a turn.
func (l *Line) IsInTurn(ctx context.Context) bool {
	g := l.HeldGrant(ctx)
	return g != nil && g.turn != nil
}
