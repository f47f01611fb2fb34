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
	"github.com/go-curator/curator/internal/zkpath"
)

// Grant is a place in line whose turn has come. Its node stays until a release, or the end of the
// session. Callers can have it together, each with a [Share].
//
// Its context carries it: a caller that acquires with that context joins, instead of standing in line, or is at least
// not made to wait for itself.
type Grant struct {
	Session *framework.Session
	Hold    *framework.Hold
	// Path and Name are the node's; Czxid is the transaction that created it, or, for a grant in the place of
	// another, that one's node.
	Path, Name string
	Czxid      int64
	// Owner is found from a context of the grant, see [OwnerFromContext]. It is set before any is given away.
	Owner any

	line         *Line           // nil for a grant without a place in a line
	ctx          grantContext    // set with Hold
	carriedEntry carriedGrant    // of the grant, in the list that ctx carries; set with Hold
	turn         *Turn           // which it is of; nil for others
	revoked      <-chan struct{} // set before it is joinable
	Waited       bool            // there was a contender ahead
	leavesMark   bool            // the deletion of its node leaves a mark for the next waiter

	joinable     bool // callers may join; guarded by mu
	lastReleased bool // the last one was released: nobody joins, and the hold is about to end; guarded by mu
	mu           sync.Mutex
	shareCount   int // Shares that were not released; guarded by mu
}

// Context ends with the hold, and carries the grant.
func (g *Grant) Context() context.Context { return &g.ctx }

// Lost returns how the grant was lost, nil if it is still held or was released.
func (g *Grant) Lost() error {
	g.Hold.Valid() // ends it, if its time has run out
	return IgnoreError(context.Cause(g.ctx.Context), framework.ErrReleased)
}

func (g *Grant) isHeld() bool {
	g.mu.Lock()
	ended := g.lastReleased
	g.mu.Unlock()
	return !ended && g.Hold.Valid()
}

// Release ends the hold, deletes the node and waits until the server has confirmed that. When ctx ends first, or the
// connection is lost, the client continues. A node that is known to be gone is not deleted: another client's may have
// its name. The error is how the grant was lost, if it was: then the node goes with the session, or the client removes it.
func (g *Grant) Release(ctx context.Context) (err error) {
	lost := g.Lost()
	if lost == framework.ErrNodeDeleted {
		return lost
	}
	defer func() { // also if a hook does not return
		err = g.Deletion(g.Session.Client()).ForPath(ctx, g.Path)
		err = cmp.Or(lost, err)
	}()
	g.Hold.End(framework.ErrReleased)
	return nil
}

// isNodeDeleted reports whether the hold has ended because the node was deleted. An error that only matches ErrNodeDeleted may
// be about another node, such as the node of a lock whose context ends the hold.
func (g *Grant) isNodeDeleted() bool { return HoldLoss(g.Hold) == framework.ErrNodeDeleted }

// Deletion returns the delete of the node, in its session, for use once the hold has ended: its mark shows the next
// waiter that the node was the first in line.
func (g *Grant) Deletion(view *framework.Client) framework.DeleteBuilder {
	b := view.Delete().Quietly().Guaranteed()
	if g.leavesMark {
		b = b.LeavingMark(releaseMarkSuffix)
	}
	return b
}

// ReleaseNoWait ends the hold and has the node deleted, without waiting for that.
func (g *Grant) ReleaseNoWait() {
	if !g.isNodeDeleted() {
		g.queueRelease()
	}
}

// EndHold ends the hold of a place whose node the caller deletes itself, in a transaction with something else.
func (g *Grant) EndHold() { g.Hold.End(framework.ErrReleased) }

// queueRelease ends the hold and queues the delete. The client continues with it until it is done.
func (g *Grant) queueRelease() (deleted *framework.Pending[struct{}]) {
	defer func() { // also if a hook does not return
		deleted = g.Deletion(g.Session.Client()).InBackground().ForPath(context.Background(), g.Path)
	}()
	g.Hold.End(framework.ErrReleased)
	return nil
}

// HoldLoss returns how a hold was lost, nil if it is still held or was released.
func HoldLoss(hold *framework.Hold) error {
	if hold.Valid() {
		return nil
	}
	return IgnoreError(context.Cause(hold.Context()), framework.ErrReleased)
}

// HeldGrant returns a grant of this Line, or one like it, that ctx carries and that is still held; nil if there
// is none.
func (l *Line) HeldGrant(ctx context.Context) *Grant {
	for g := range l.HeldGrants(ctx) {
		return g
	}
	return nil
}

// HoldGrants makes holds of grants whose turn has come, of all or none. Their contexts have the values of ctx, and
// carry the grants. ownWatchAfter is as in framework.HoldOptions.
func (l *Line) HoldGrants(ctx context.Context, ownWatchAfter time.Duration, grants ...*Grant) error {
	own, list, all := l.ownerKey(), carriedGrants(ctx), false
	defer func() { // also when a hook panics
		if !all {
			EndHolds(grants, framework.ErrReleased)
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
		g.Hold, g.carriedEntry = hold, carriedGrant{own, g, list}
		list = &g.carriedEntry
	}
	for _, g := range grants {
		g.ctx = grantContext{g.Hold.Context(), g, list}
	}
	all = true
	return nil
}

// HoldWithTimeout calls hold, which makes holds of n nodes in a session, one after the other, with ctx. If the caller does not
// wait, ctx ends no later than n session timeouts from now: servers that commit so slowly that no hold can begin are a
// reason for ErrNotAcquired.
func HoldWithTimeout(
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

// HoldAgain returns the grant of the same place, whose hold has ended, with a new hold.
func (g *Grant) HoldAgain(ctx context.Context, ownWatchAfter time.Duration) (*Grant, error) {
	again := &Grant{Session: g.Session, Path: g.Path, Name: g.Name, Czxid: g.Czxid, line: g.line, leavesMark: g.leavesMark}
	return again, g.line.HoldGrants(ctx, ownWatchAfter, again)
}

// EndHolds ends the holds that grants have, also if a hook for one of them does not return.
func EndHolds(grants []*Grant, why error) {
	if len(grants) > 0 {
		defer EndHolds(grants[1:], why)
		if hold := grants[0].Hold; hold != nil {
			hold.End(why)
		}
	}
}

// Share is one caller's share of a grant. The types that the recipes' Acquire returns embed one, so it has only the
// methods that they all have; the package's functions do the rest.
type Share struct {
	grant    *Grant
	line     *Line // the caller's
	released atomic.Bool
	cleanup  runtime.Cleanup
}

// Context is the grant's.
func (s *Share) Context() context.Context { return s.grant.Context() }

// Valid reports, by the clock, whether the grant is held and the Share not released.
func (s *Share) Valid() bool { return !s.released.Load() && s.grant.Hold.Valid() }

// Remaining returns the time for which it is Valid if no further reply comes.
func (s *Share) Remaining() time.Duration {
	if s.released.Load() {
		return 0
	}
	return s.grant.Hold.Remaining()
}

// Path returns the path of the node, as the caller's client sees it.
func (s *Share) Path() string { return zkpath.Join(s.line.Dir, s.grant.Name) }

// Node returns the name of the node.
func (s *Share) Node() string { return s.grant.Name }

// AcquireFunc waits for a grant, as [Line.Acquire] and [Line.TryAcquire] do.
type AcquireFunc func(context.Context) (*Grant, error)

// AcquireShare acquires with wait, and makes the grant sharable, unless the Line has NoReentry. Call [Line.Reenter] first, for
// a grant that can be shared already.
func (l *Line) AcquireShare(ctx context.Context, wait AcquireFunc) (*Share, error) {
	what := framework.Acquisition{Recipe: l.Recipe, Path: l.Dir}
	g, err := ReportAcquire(ctx, l.Client, what, wait, (*Grant).ReleaseNoWait)
	if err != nil {
		return nil, err
	}
	l.WatchRevocation(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.joinable, g.shareCount = !l.NoReentry, 1
	return l.newShare(g), nil
}

// Reenter returns one more Share of the grant that ctx carries: of a turn, for the callers of a [Front], or of another. It
// is nil if ctx carries none that is shared and held, if the Line has NoReentry, or if the client is the view of a session
// that has ended.
func (l *Line) Reenter(ctx context.Context, turn bool) *Share {
	if l.NoReentry {
		return nil
	}
	for g := range l.HeldGrants(ctx) {
		if l.Client.Err() != nil {
			break
		}
		if s, ended := l.joinGrant(g, turn); !ended {
			return s
		}
	}
	return nil
}

// joinGrant returns one more Share. It is nil if the grant is not shared. ended reports whether the last Share was released
// in the meantime.
func (l *Line) joinGrant(g *Grant, turn bool) (s *Share, ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.joinable && !g.lastReleased && turn == (g.turn != nil) {
		g.shareCount++
		s = l.newShare(g)
	}
	return s, g.lastReleased
}

func (l *Line) newShare(g *Grant) *Share {
	s := &Share{grant: g, line: l}
	s.cleanup = WarnIfDropped(s, g.Path, g.Session)
	return s
}

// ShareOf returns a Share that is not counted, and is never released, of a grant that nobody else can join.
func (l *Line) ShareOf(g *Grant) *Share { return &Share{grant: g, line: l} }

// GrantOf returns the grant that a Share is of.
func GrantOf(s *Share) *Grant { return s.grant }

// Revoked returns a channel that is closed when the grant is asked to be given up; nil if the Line is not Revocable.
func Revoked(s *Share) <-chan struct{} { return s.grant.revoked }

// Guard returns an operation that succeeds only if the node exists.
func Guard(s *Share) framework.TransactionOp {
	return s.line.Client.TransactionOp().Check().ForPath(s.Path())
}

// Release ends a Share, and with the last one releases the grant. The error is ErrReleased when it was called before,
// and how the grant was lost, if it was.
func Release(ctx context.Context, s *Share) error {
	if ctx == nil {
		return framework.ErrNilContext
	}
	g := s.grant
	switch last, err := s.releaseShare(); {
	case !last:
		return err
	case g.turn != nil:
		return g.turn.releaseTurn(ctx, s.line.Client)
	}
	return g.Release(ctx)
}

// ReleaseInBackground is Release for a caller that does not wait: the functions get its error, wrapped with wrap.
func ReleaseInBackground(s *Share, wrap func(verb string, err error) error, functions []func(error)) {
	g, then := s.grant, &Callback{
		Path: s.grant.Path, Then: functions, Wrap: func(err error) error { return wrap("release", err) },
	}
	client := g.Session.Client()
	last, err := s.releaseShare()
	switch {
	case !last:
		then.CallLater(client, err)
		return
	case g.turn != nil:
		g.turn.releaseInBackground(s.line.Client, then)
		return
	}
	lost := g.Lost()
	if g.isNodeDeleted() {
		then.CallLater(client, lost)
		return
	}
	deleted := g.queueRelease()
	if lost == nil && !then.hasFunction() {
		deleted.IfFailed(func(err error) { then.Call(client, err) })
		return
	}
	deleted.Then(func(_ struct{}, err error) { then.Call(client, cmp.Or(lost, err)) })
}

// releaseShare ends the Share. last reports whether it was the last one of the grant, which has to be released then. The error
// is ErrReleased if leave was called before.
func (s *Share) releaseShare() (last bool, err error) {
	if s.released.Swap(true) {
		return false, framework.ErrReleased
	}
	s.cleanup.Stop()
	g := s.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shareCount--
	g.lastReleased = g.shareCount == 0
	return g.lastReleased, nil
}

// WarnIfDropped logs a warning when held, a lock or lease whose node is at path, is garbage collected before its
// session has ended. Release stops the cleanup that it returns.
func WarnIfDropped[T any](held *T, path string, session *framework.Session) runtime.Cleanup {
	// It must not refer to the client: the client refers to user hooks, which may refer to the Share, so that it would never
	// be collected.
	return runtime.AddCleanup(held, droppedHold.logWarning, droppedHold{path, session.Client().CleanupLogger(), session.Ended()})
}

type droppedHold struct {
	path         string
	log          *slog.Logger
	sessionEnded func() bool
}

// logWarning is called on the collector's goroutine.
func (d droppedHold) logWarning() {
	if !d.sessionEnded() { // it only warns, since work under the context may continue
		d.log.Warn("a hold was garbage-collected without Release; its node stays until the session ends",
			"path", d.path)
	}
}
