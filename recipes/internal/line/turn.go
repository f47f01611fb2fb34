package line

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
)

// Turn is the use that one caller makes of the node of a [Front], which several callers have, one after the other or
// together. It is a grant whose context ends with it, or with the node's hold, whichever is first. Only callers of the
// Front join it: in another line a caller with its context would wait for itself.
type Turn struct {
	Grant
	node   *frontNode
	sure   time.Time       // until when the hold was certain, if nothing has ended it before
	values context.Context // those of the caller
	cancel context.CancelCauseFunc
}

// Caller has the needed parts of the caller's context, read before any lock is taken, since its methods may be user
// code.
type Caller struct {
	values  context.Context
	carried *carried
}

// CallerOf is asked before a turn is given, while no lock is held.
func CallerOf(ctx context.Context) Caller {
	if ctx == context.Background() {
		return Caller{values: ctx}
	}
	return Caller{context.WithoutCancel(ctx), carriedBy(ctx)}
}

// trusted is the time for which a look at the clock is trusted, unless the hold ends: a look costs several times as
// much as a turn. Time during which the process stands still counts, as Go's clock continues. Only a sleep of the
// machine does not, and a caller cannot know on which side of a sleep its turn has begun. Its context and Valid always
// look.
const trusted = 100 * time.Microsecond

// Certain returns the time until which the hold is certain, now being the present time; the zero time if it is not
// certain. last is its last result, which may still be valid.
func (g *Grant) Certain(now, last time.Time) time.Time {
	if now.Before(last) && !g.over() {
		return last
	}
	if left := g.Hold.Remaining(); left > 0 {
		return now.Add(min(left, trusted))
	}
	return time.Time{}
}

// over reports whether the hold has ended, without a look at the clock.
func (g *Grant) over() bool {
	select {
	case <-g.Hold.Context().Done():
		return true
	default:
		return false
	}
}

// turn returns a caller's Share of a new turn; its context has the caller's values. The hold is certain until sure; the
// zero time means unknown. turn calls no user code.
func (n *frontNode) turn(caller Caller, sure time.Time) *Share {
	t := &Turn{node: n, sure: sure, values: caller.values}
	t.Session, t.Hold, t.Path, t.Name, t.Czxid, t.revoked = n.Session, n.Hold, n.Path, n.Name, n.Czxid, n.revoked
	t.turn, t.shared, t.count = t, true, 1
	t.entry = carried{n.entry.owner, &t.Grant, caller.carried}
	hold := n.Hold.Context()
	t.ctx = grantContext{grant: &t.Grant, list: &t.entry}
	t.ctx.Context, t.cancel = context.WithCancelCause(hold)
	return n.front.line.share(&t.Grant)
}

// end ends a turn that its last user has left. The node is returned if the caller has to delete it and may wait for
// that; lost is how the hold was lost, if it was.
func (t *Turn) end() (last *frontNode, lost error) {
	now, n := time.Now(), t.node
	sure := t.Certain(now, t.sure)
	if sure.IsZero() {
		lost = t.Lost()
	}
	t.cancel(framework.ErrReleased)
	mine, others := n.front.release(n, sure, now)
	switch {
	case !mine:
		return nil, lost
	case n.front.limits.Users > 0 && (others || lost != nil):
		n.delete(nil)
		return nil, lost
	}
	return n, lost
}

// release ends a turn. If the node goes with it, and no other caller waits for the next node, it waits until the server
// has confirmed the deletion. client is the caller's.
func (t *Turn) release(ctx context.Context, client *framework.Client) error {
	n, lost := t.end()
	switch {
	case n == nil:
		return lost
	case n.front.limits.Users == 0:
		err := n.Release(ctx)
		return cmp.Or(lost, err)
	}
	answered := make(chan error, 1)
	n.delete(func(err error) { answered <- err })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return client.Left(ctx, nil)
	}
}

// releaseInBackground is release for a caller that does not wait: then gets its error.
func (t *Turn) releaseInBackground(client *framework.Client, then *Callback) {
	n, lost := t.end()
	if n == nil {
		then.Later(client, lost)
		return
	}
	n.delete(func(refused error) { then.Later(client, cmp.Or(lost, refused)) })
}

// AbandonTurn ends a Share of a turn, and does not wait for the deletion of the node.
func AbandonTurn(s *Share) {
	if last, _ := s.leave(); last {
		if n, _ := s.grant.turn.end(); n != nil {
			n.delete(nil)
		}
	}
}

// InTurn reports whether ctx carries a turn of this Line, or one like it, that has not ended.
func (l *Line) InTurn(ctx context.Context) bool {
	g := l.Holds(ctx)
	return g != nil && g.turn != nil
}

// SelfWait returns ErrSelfWait if a wait of the caller with ctx would be one for itself.
func (l *Line) SelfWait(ctx context.Context) error {
	if carriedBy(ctx) != nil && l.holdsAhead(ctx) {
		return ErrSelfWait
	}
	return nil
}

// Contenders is the holder's knowledge about other contenders, from a list of the directory.
type Contenders struct {
	Others bool // there are others in line
	// Watch fires when a contender joins or leaves after the list. It is armed.
	Watch *framework.Watch
	// Connections is as [framework.Session.Connections], from before the list.
	Connections uint64
}

// Contenders lists the directory and watches it, however long the connection is away. The error is
// ErrNodeDeleted if the node of the grant is gone.
func (g *Grant) Contenders(ctx context.Context) (c Contenders, err error) {
	var names []string
	view := g.Session.Client().ForRecipes()
	err = Outlast(ctx, view, Outages, func(ctx context.Context) (err error) {
		c.Connections = g.Session.Connections()
		names, c.Watch, err = view.GetChildren().WithWatch().ForPath(ctx, g.line.Dir)
		return err
	})
	if errors.Is(err, framework.ErrNoNode) {
		return c, framework.ErrNodeDeleted
	}
	if err != nil {
		return c, err
	}
	there := false
	for _, name := range names {
		there = there || name == g.Name
		c.Others = c.Others || name != g.Name && g.line.Order.Contender(name)
	}
	if !there {
		c.Watch.Stop()
		return Contenders{}, framework.ErrNodeDeleted
	}
	return c, nil
}

// GiveBack ends the hold and has the node deleted, without waiting for that. then gets the result, on the
// goroutine of the recipes' callbacks.
func (g *Grant) GiveBack(then func(error)) {
	view := g.Session.Client().ForRecipes()
	if g.gone() {
		view.Later(func() { then(nil) })
		return
	}
	defer func() { // also if a hook does not return
		g.Deletion(view).InBackground().ForPath(context.Background(), g.Path).
			Then(func(_ struct{}, err error) { then(err) })
	}()
	g.Hold.End(framework.ErrReleased)
}

// Listen makes a grant notice requests to give it up, if the Line is Revocable. It is called before the grant is
// shared. If a hook does not return, the grant is abandoned.
func (l *Line) Listen(g *Grant) <-chan struct{} {
	if l.Revocable && g.revoked == nil {
		g.revoked = g.Revoked()
	}
	return g.revoked
}

// Asked is as [Revoked].
func (g *Grant) Asked() <-chan struct{} { return g.revoked }

// LogRefusal logs the error of a delete whose caller does not wait, if the node stays.
func LogRefusal(client *framework.Client, path string, err error) {
	(&Callback{Path: path, Wrap: func(err error) error { return err }}).Call(client, err)
}
