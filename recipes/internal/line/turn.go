package line

import (
	"cmp"
	"context"
	"time"

	"github.com/go-curator/curator/framework"
)

// Turn is the use that one caller makes of the node of a [Front], which several callers have, one after the other or
// together. It is a grant whose context ends with it, or with the node's hold, whichever is first. Only callers of the
// Front join it: in another line a caller with its context would wait for itself.
type Turn struct {
	Grant
	node         *frontNode
	certainUntil time.Time       // until when the hold was certain, if nothing has ended it before
	values       context.Context // those of the caller
	cancel       context.CancelCauseFunc
}

// Caller has the needed parts of the caller's context, read before any lock is taken, since its methods may be user
// code.
type Caller struct {
	values  context.Context
	carried *carriedGrant
}

// CallerOf is asked before a turn is given, while no lock is held.
func CallerOf(ctx context.Context) Caller {
	if ctx == context.Background() {
		return Caller{values: ctx}
	}
	return Caller{context.WithoutCancel(ctx), carriedGrants(ctx)}
}

// clockTrust is the time for which a look at the clock is trusted, unless the hold ends: a look costs several times as
// much as a turn. Time during which the process stands still counts, as Go's clock continues. Only a sleep of the
// machine does not, and a caller cannot know on which side of a sleep its turn has begun. Its context and Valid always
// look.
const clockTrust = 100 * time.Microsecond

// CertainUntil returns the time until which the hold is certain, now being the present time; the zero time if it is not
// certain. last is its last result, which may still be valid.
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

// newTurn returns a caller's Share of a new turn; its context has the caller's values. The hold is certain until sure; the
// zero time means unknown. turn calls no user code.
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

// endTurn ends a turn that its last user has left. The node is returned if the caller has to delete it and may wait for
// that; lost is how the hold was lost, if it was.
func (t *Turn) endTurn() (last *frontNode, lost error) {
	now, n := time.Now(), t.node
	sure := t.CertainUntil(now, t.certainUntil)
	if sure.IsZero() {
		lost = t.Lost()
	}
	t.cancel(framework.ErrReleased)
	mine, others := n.front.recordTurnEnd(n, sure, now)
	switch {
	case !mine:
		return nil, lost
	case n.front.limits.Users > 0 && (others || lost != nil):
		n.deleteNode(nil)
		return nil, lost
	}
	return n, lost
}

// recordTurnEnd ends a turn. If the node goes with it, and no other caller waits for the next node, it waits until the server
// has confirmed the deletion. client is the caller's.
func (t *Turn) releaseTurn(ctx context.Context, client *framework.Client) error {
	n, lost := t.endTurn()
	switch {
	case n == nil:
		return lost
	case n.front.limits.Users == 0:
		err := n.Release(ctx)
		return cmp.Or(lost, err)
	}
	answered := make(chan error, 1)
	n.deleteNode(func(err error) { answered <- err })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return client.Left(ctx, nil)
	}
}

// releaseInBackground is release for a caller that does not wait: then gets its error.
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

// IsInTurn reports whether ctx carries a turn of this Line, or one like it, that has not ended.
func (l *Line) IsInTurn(ctx context.Context) bool {
	g := l.HeldGrant(ctx)
	return g != nil && g.turn != nil
}
