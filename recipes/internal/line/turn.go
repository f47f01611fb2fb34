package line

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/fencing"
)

// Turn is the use that one caller makes of a grant which several callers have, one after the other, or
// together if the grant is shared. Its context ends with it, or with the grant's hold, whichever is first,
// and carries it: an acquire with that context joins.
type Turn struct {
	// By is the giver of the turn, which is notified of its end.
	By any

	sure   time.Time // until when the hold was certain, if nothing has ended it before
	ctx    turnContext
	cancel context.CancelCauseFunc
	grant  Grant   // the grant that is carried: it ends with the turn, and no Line lets a caller join it
	entry  carried // of grant

	mu    sync.Mutex
	users int // that have not left; guarded by mu
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

// Turn returns a turn for a caller; its context has the caller's values. The hold is certain until sure; the zero time
// means unknown. For an exclusive grant there must be at most one turn at a time, until Leave. Turn calls no user code.
func (g *Grant) Turn(caller Caller, sure time.Time, by any) *Turn {
	t := &Turn{By: by, users: 1, sure: sure}
	hold := g.Hold.Context()
	t.ctx.Context, t.cancel = context.WithCancelCause(hold)
	t.ctx.turn, t.ctx.values = t, caller.values
	t.grant.Session, t.grant.Hold = g.Session, g.Hold
	t.grant.Path, t.grant.Name, t.grant.Czxid = g.Path, g.Name, g.Czxid
	t.grant.turn, t.grant.revoked = t, g.revoked
	t.entry = carried{g.entry.owner, &t.grant, caller.carried}
	return t
}

// Node is the grant as the turn sees it.
func (t *Turn) Node() *Grant { return &t.grant }

// Context ends with the turn or the hold.
func (t *Turn) Context() context.Context { return &t.ctx }

// Valid reports, by the clock, whether the turn and the hold last.
func (t *Turn) Valid() bool { return t.grant.live() }

// Remaining returns the time for which it is Valid if no further reply comes.
func (t *Turn) Remaining() time.Duration {
	if !t.Valid() {
		return 0
	}
	return t.grant.Hold.Remaining()
}

// Lost returns how the hold was lost during the turn, nil if it was not.
func (t *Turn) Lost() error {
	t.grant.Hold.Valid() // ends it, if its time has run out
	return Unless(context.Cause(t.ctx.Context), framework.ErrReleased)
}

// Revoked is as [Revoked].
func (t *Turn) Revoked() <-chan struct{} { return t.grant.revoked }

// Leave is called once by each user. last means that the turn has ended with this call; then lost is the reason if the
// hold was lost before, otherwise the hold is certain until sure.
func (t *Turn) Leave(now time.Time) (last bool, sure time.Time, lost error) {
	t.mu.Lock()
	t.users--
	if last = t.users == 0; last {
		t.grant.mu.Lock()
		t.grant.ended = true
		t.grant.mu.Unlock()
	}
	t.mu.Unlock()
	if last {
		if sure = t.grant.Certain(now, t.sure); sure.IsZero() {
			lost = t.Lost()
		}
		t.cancel(framework.ErrReleased)
	}
	return last, sure, lost
}

func (t *Turn) join() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users == 0 {
		return false
	}
	t.users++
	return true
}

// JoinTurn returns the turn that ctx carries, with one more user, nil if it carries none, or the Line has
// NoReentry.
func (l *Line) JoinTurn(ctx context.Context) *Turn {
	if l.NoReentry || carriedBy(ctx) == nil || l.Client.Err() != nil {
		return nil
	}
	if g := l.Holds(ctx); g != nil && g.turn != nil && g.turn.join() {
		return g.turn
	}
	return nil
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

// turnContext is the context of a turn. Its Err looks at the clock, as a hold's does.
type turnContext struct {
	context.Context // of the hold, until the turn ends
	values          context.Context
	turn            *Turn
}

func (c *turnContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.turn.grant.Hold.Valid()
	return c.Context.Err()
}

func (c *turnContext) Value(key any) any {
	if list, ok := key.(*fencing.List); ok { // all turns of the node have its czxid
		list.Add(fencing.Hold{Path: c.turn.grant.Path, Shared: true, Context: c})
		return c.values.Value(key)
	}
	if key == (carryKey{}) {
		return &c.turn.entry
	}
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
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
