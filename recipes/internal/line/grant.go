package line

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
)

// Grant is a place in line whose turn has come. Its node stays until Release or Abandon, or the end of the
// session. Callers can share it, each with a [Handle].
//
// The hold's context carries it: a caller that acquires with that context joins, instead of standing in line,
// or is at least not made to wait for itself.
type Grant struct {
	Session *framework.Session
	Hold    *framework.Hold
	// Path and Name are the node's; Czxid is the transaction that created it, or, for a grant in the place of
	// another, that one's node.
	Path, Name string
	Czxid      int64

	line  *Line   // nil for a grant without a place in a line
	marks bool    // the deletion of its node leaves a mark for the next waiter
	owner owner   // of line; set with Hold
	entry carried // of the grant, in the list that the hold's context carries; set with Hold
	ctx   carrier // of that list; set with Hold, in the last of several grants
	turn  *Turn   // which carries it instead of the grant that the node has; nil for others

	Waited  bool            // there was a contender ahead
	held    atomic.Bool     // Hold is set; a hook that reports the hold has its context before that
	revoked <-chan struct{} // set before shared

	mu     sync.Mutex
	shared bool // others may join; guarded by mu
	count  int  // Handles that were not released; guarded by mu
}

func (g *Grant) live() bool { return g.held.Load() && g.Hold.Valid() }

// Release ends the hold, deletes the node and waits until the server has confirmed that. When ctx ends first, or the
// connection is lost, the client continues. A node that is known to be gone is not deleted: another client's may have
// its name.
func (g *Grant) Release(ctx context.Context) (err error) {
	if g.gone() {
		return nil
	}
	defer func() { // also if a hook does not return
		err = g.Deletion(g.Session.Client()).ForPath(ctx, g.Path)
	}()
	g.Hold.End(framework.ErrReleased)
	return nil
}

// gone reports whether the hold has ended because the node was deleted. An error that only matches ErrNodeDeleted may
// be about another node, such as the node of a lock whose context ends the hold.
func (g *Grant) gone() bool { return Lost(g.Hold) == framework.ErrNodeDeleted }

// Deletion returns the delete of the node, in its session, for use once the hold has ended: its mark shows the next
// waiter that the node was the first in line.
func (g *Grant) Deletion(view *framework.Client) framework.DeleteBuilder {
	b := view.Delete().Quietly().Guaranteed()
	if g.marks {
		b = b.LeavingMark(markSuffix)
	}
	return b
}

// Abandon ends the hold and has the node deleted, without waiting for that.
func (g *Grant) Abandon() {
	if !g.gone() {
		g.giveBack()
	}
}

// Leave ends the hold of a place whose node the caller deletes itself, in a transaction with something else.
func (g *Grant) Leave() { g.Hold.End(framework.ErrReleased) }

// giveBack ends the hold and queues the delete. The client continues with it until it is done.
func (g *Grant) giveBack() (deleted *framework.Pending[struct{}]) {
	defer func() { // also if a hook does not return
		deleted = g.Deletion(g.Session.Client()).InBackground().ForPath(context.Background(), g.Path)
	}()
	g.Hold.End(framework.ErrReleased)
	return nil
}

// Lost returns how a hold was lost, nil if it is still held or was released.
func Lost(hold *framework.Hold) error {
	if hold.Valid() {
		return nil
	}
	return Unless(context.Cause(hold.Context()), framework.ErrReleased)
}

// Holds returns a grant of this Line, or one like it, that ctx carries and that is still held; nil if there
// is none.
func (l *Line) Holds(ctx context.Context) *Grant {
	for g := range l.Carried(ctx) {
		return g
	}
	return nil
}

// Hold makes holds of grants whose turn has come, of all or none. Their contexts have the values of ctx, and
// carry the grants. ownWatchAfter is as in framework.HoldOptions.
func (l *Line) Hold(ctx context.Context, ownWatchAfter time.Duration, grants ...*Grant) error {
	own, list, all := l.owner(), carriedBy(ctx), false
	for i, g := range grants {
		g.entry = carried{own, g, list}
		list = &g.entry
		if i == len(grants)-1 {
			g.ctx = carrier{ctx, list}
			ctx = &g.ctx
		}
	}
	defer func() { // also when a hook panics
		if !all {
			EndAll(grants, framework.ErrReleased)
		}
	}()
	for _, g := range grants {
		hold, err := g.Session.Hold(ctx, framework.HoldOptions{
			Path: g.Path, Recipe: l.Recipe, Czxid: g.Czxid, Loss: l.Loss, Values: ctx,
			OwnWatchAfter: ownWatchAfter, Shared: l.Shared,
		})
		if err != nil {
			return err
		}
		g.Hold, g.owner = hold, own
	}
	for _, g := range grants {
		g.held.Store(true)
	}
	all = true
	return nil
}

// Holding calls hold, which makes holds of n nodes in a session, one after the other, with ctx. If the caller does not
// wait, ctx ends no later than n session timeouts from now: servers that commit so slowly that no hold can begin are a
// reason for ErrNotAcquired.
func Holding(
	ctx context.Context, session *framework.Session, n int, wait bool, hold func(context.Context) error,
) error {
	if wait {
		return hold(ctx)
	}
	soon, cancel := context.WithTimeout(ctx, time.Duration(n)*session.Timeout())
	defer cancel()
	err := hold(soon)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: nobody else has it, but the servers take too long to commit a write: no hold can begin",
			ErrNotAcquired)
	}
	return err
}

// EndAll ends the holds that grants have, also if a hook for one of them does not return.
func EndAll(grants []*Grant, why error) {
	if len(grants) > 0 {
		defer EndAll(grants[1:], why)
		if hold := grants[0].Hold; hold != nil {
			hold.End(why)
		}
	}
}

// Waiter waits for a grant, as [Line.Acquire] and [Line.TryAcquire] do.
type Waiter func(context.Context) (*Grant, error)

// Enter acquires with wait, and makes the grant sharable, unless the Line has NoReentry. Call [Line.Reenter] first, for
// a grant that can be shared already.
func (l *Line) Enter(ctx context.Context, wait Waiter) (*Handle, error) {
	what := framework.Acquisition{Recipe: l.Recipe, Path: l.Dir}
	g, err := Told(ctx, l.Client, what, wait, (*Grant).Abandon)
	if err != nil {
		return nil, err
	}
	l.Listen(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shared, g.count = !l.NoReentry, 1
	return g.handle(), nil
}

// Reenter returns one more Handle on the grant that ctx carries. It is nil if ctx carries none that is shared and held,
// if the Line has NoReentry, or if the client is the view of a session that has ended.
func (l *Line) Reenter(ctx context.Context) *Handle {
	if g := l.Holds(ctx); g != nil && !l.NoReentry && l.Client.Err() == nil {
		return g.join()
	}
	return nil
}

// join returns one more Handle. It is nil if the grant is not shared, or if the last one was released: then
// join waits for the hold to end, which is about to.
func (g *Grant) join() *Handle {
	g.mu.Lock()
	shared := g.shared
	if shared && g.count > 0 {
		defer g.mu.Unlock()
		g.count++
		return g.handle()
	}
	g.mu.Unlock()
	if shared {
		<-g.Hold.Context().Done()
	}
	return nil
}

func (g *Grant) handle() *Handle {
	h := &Handle{Grant: g}
	h.cleanup = WarnIfDropped(h, g.Path, g.Session)
	return h
}

// Handle is one caller's share of a grant. The locks of the recipes consist of one, and document its methods.
type Handle struct {
	Grant    *Grant
	released atomic.Bool
	cleanup  runtime.Cleanup
}

// Revoked returns a channel that is closed when the grant is asked to be given up; nil if the Line is not Revocable.
func (h *Handle) Revoked() <-chan struct{} { return h.Grant.revoked }

// Context is the hold's.
func (h *Handle) Context() context.Context { return h.Grant.Hold.Context() }

// Valid reports, by the clock, whether the grant is held and the Handle not released.
func (h *Handle) Valid() bool { return !h.released.Load() && h.Grant.Hold.Valid() }

// Remaining returns the time for which it is Valid if no further reply comes.
func (h *Handle) Remaining() time.Duration {
	if h.released.Load() {
		return 0
	}
	return h.Grant.Hold.Remaining()
}

// Lost returns how the grant was lost, nil if it was not.
func (h *Handle) Lost() error { return Lost(h.Grant.Hold) }

// Release ends the share, and with the last one releases the grant. The error is ErrReleased when it was called before,
// and how the grant was lost, if it was.
func (h *Handle) Release(ctx context.Context) error {
	if ctx == nil {
		return framework.ErrNilContext
	}
	last, err := h.giveUp()
	if !last {
		return err
	}
	lost := h.Lost()
	err = h.Grant.Release(ctx)
	if lost != nil {
		return lost // the node goes with the session, or the client removes it
	}
	return err
}

// ReleaseInBackground is Release for a caller that does not wait: then gets its error.
func (h *Handle) ReleaseInBackground(then *Callback) {
	last, err := h.giveUp()
	if !last {
		then.Later(h.Grant.Session.Client(), err)
		return
	}
	lost := h.Lost()
	client := h.Grant.Session.Client()
	if h.Grant.gone() {
		then.Later(client, lost)
		return
	}
	deleted := h.Grant.giveBack()
	if lost == nil && !then.wanted() {
		deleted.IfFailed(func(err error) { then.Call(client, err) })
		return
	}
	deleted.Then(func(_ struct{}, err error) { then.Call(client, cmp.Or(lost, err)) })
}

// giveUp ends the share of this Handle. last reports whether it was the last one; the error is ErrReleased if giveUp
// was called before.
func (h *Handle) giveUp() (last bool, err error) {
	if h.released.Swap(true) {
		return false, framework.ErrReleased
	}
	h.cleanup.Stop()
	g := h.Grant
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count--
	return g.count == 0, nil
}

// WarnIfDropped logs a warning when held, a lock or lease whose node is at path, is garbage collected before its
// session has ended. Release stops the cleanup that it returns.
func WarnIfDropped[T any](held *T, path string, session *framework.Session) runtime.Cleanup {
	return WarnOf(held, DroppedOf(path, session))
}

// WarnOf is WarnIfDropped, for several that are held one after the other.
func WarnOf[T any](held *T, what Dropped) runtime.Cleanup {
	return runtime.AddCleanup(held, Dropped.warn, what)
}

// warn is called on the collector's goroutine.
func (d Dropped) warn() {
	if !d.ended() { // it only warns, since work under the context may continue
		d.log.Warn("a lock or lease was dropped without Release; it is held until its session ends",
			"path", d.path)
	}
}

// DroppedOf returns the data of the warning for a hold whose node is at path.
func DroppedOf(path string, session *framework.Session) Dropped {
	return Dropped{path, session.Client().CleanupLogger(), session.Ended()}
}

// Dropped has the data of the warning. It must not refer to the client: the client refers to user hooks, which may
// refer to the Handle, so that it would never be collected.
type Dropped struct {
	path  string
	log   *slog.Logger
	ended func() bool
}
