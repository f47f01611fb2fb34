package line

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// Share is one caller's share of a grant. The types that the recipes' Acquire returns embed it, so it has only methods
// that all of them have. The others are functions of this package.
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

// AcquireShare acquires with wait, and returns the first Share of the grant. Others can join it, unless the Line has
// NoReentry. Call [Line.Reenter] before.
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

// Reenter returns one more Share of the innermost grant that ctx carries and that can be joined; nil if there is none, if
// the Line has NoReentry, or if the client is the view of a session that has ended. With turn it joins only a turn, for
// the callers of a [Front]; without, no turn.
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

// joinGrant returns one more Share of the grant; nil if it cannot be joined. ended reports whether its last Share was
// released in the meantime.
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

// ShareOf returns a Share that is never released, of a grant that no caller can join.
func (l *Line) ShareOf(g *Grant) *Share { return &Share{grant: g, line: l} }

// GrantOf returns the grant that a Share is of.
func GrantOf(s *Share) *Grant { return s.grant }

// Revoked returns a channel that is closed when a client asks for the grant's release; nil if the Line is not Revocable.
func Revoked(s *Share) <-chan struct{} { return s.grant.revoked }

// Guard returns an operation that succeeds only if the node exists; otherwise the error matches framework.ErrNotHeld.
func Guard(s *Share) framework.TransactionOp {
	return s.line.Client.TransactionOp().Check().AsGuard().ForPath(s.Path())
}

// Release ends a Share, and with the last one releases the grant. The error is ErrReleased for a second call, and the
// cause of the loss if the grant was lost.
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

// releaseShare ends the Share. last reports whether it was the last one of the grant, which the caller then releases. The
// error is ErrReleased for a second call.
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
// session has ended. The caller stops the returned cleanup at the release.
func WarnIfDropped[T any](held *T, path string, session *framework.Session) runtime.Cleanup {
	// The cleanup must not refer to the client, which refers to user hooks, which may refer to held: that would never be
	// collected.
	return runtime.AddCleanup(held, droppedHold.logWarning, droppedHold{path, session.Client().CleanupLogger(), session.Ended()})
}

type droppedHold struct {
	path         string
	log          *slog.Logger
	sessionEnded func() bool
}

// logWarning is called on the collector's goroutine.
func (d droppedHold) logWarning() {
	if !d.sessionEnded() { // no release: work under the context may continue
		d.log.Warn("a hold was garbage-collected without Release; its node stays until the session ends",
			"path", d.path)
	}
}
