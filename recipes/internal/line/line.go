package line

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
)

// ErrNotAcquired means that nothing was free and the caller did not want to wait. It is the ErrNotAcquired of every
// recipe, so that code for several kinds of locks need not ask which it was.
var ErrNotAcquired = errors.New("not acquired")

// ErrSequenceExhausted means that the sequence numbers of a directory are used up.
var ErrSequenceExhausted = errors.New("the sequence numbers of the parent node are used up: further nodes " +
	"would get equal numbers and have no order; delete the parent node while no client uses it, and the " +
	"numbers begin again at 0")

// ErrSelfWait is the error of a call that would wait for a hold of its caller.
var ErrSelfWait = errors.New("the call would wait for itself: its context comes from a lock, lease or " +
	"leadership that must be released first; release that, or acquire with a context that does not come " +
	"from it")

// errNodeLost means that the own node was deleted while it stood in line.
var errNodeLost = fmt.Errorf("while waiting in line: %w", framework.ErrNodeDeleted)

// Line is one kind of contender for one directory: the names of its nodes, and the contenders that it waits for. The
// fields are set before the first use and not changed. Its methods are safe for concurrent use; each call has a
// separate place in line.
type Line struct {
	Client *framework.Client
	Recipe string // the name that hooks get
	Dir    string // the directory; created as a container if it is missing
	Name   string // of the own nodes, before the number; it ends in one of Order.Names
	Order  Order
	Data   []byte               // of the own nodes; nil: as a hook returns, or the client's default data
	Loss   framework.LossPolicy // of the holds
	Shared bool                 // [framework.HoldOptions.Shared] of the holds
	// NoReentry makes a caller wait even for the holds in its own context. Otherwise the caller shares them, or gets
	// ErrSelfWait.
	NoReentry   bool
	Revocable   bool // grants have a channel for requests to release them, see [Line.MakeRevocable]
	StaleTry    bool // TryAcquire reads the connected server's data, which may be old
	CreatingTry bool // TryAcquire creates its node without a list before; a holder may watch for that
	// OnWait, if set, is called on the waiting goroutine with the place in line, after each list that shows one.
	OnWait func(Position)

	warnedNonContender, warnedNumbers atomic.Bool
	warnedSessionless                 atomic.Int64            // the czxid of the predecessor of the last such warning
	cachedLineKey                     atomic.Pointer[lineKey] // what lineKey returns
}

// Position is a place in line.
type Position struct {
	// Node is the name of the own node, Predecessor the predecessor's.
	Node, Predecessor string
	Ahead             int // counts the contenders ahead that exclude the own one
}

// Acquire waits in line until it is granted or ctx ends. When the session or the node is lost before that, it begins
// again at the end of the line, as Curator's retry does. The hold's context has the values of ctx.
//
// Errors: ctx's; ErrSelfWait, immediately, or with ctx's if NoReentry is set; ErrSequenceExhausted; the server's
// refusal of the create or the list (ErrNoAuth, …); ErrNotConnected and ErrConnectionLoss when the retry policy ends
// before the first place in line; ErrClosed; ErrTimeoutTooShort. Whatever the error, nothing is left in the directory.
func (l *Line) Acquire(ctx context.Context) (*Grant, error) { return l.AcquireWith(ctx, nil) }

// Succession is the conclusion of a SuccessionFunc.
type Succession int8

const (
	Unproven Succession = iota // a list decides
	WasFirst                   // the predecessor was the first in line when it was deleted: the waiter is granted
	LeftLine                   // the recipe has deleted the waiter's node: the wait ends without a grant
)

// SuccessionFunc returns the conclusion after the predecessor was deleted, for the waiter at this place in the
// directory: that of its last list. An error ends the wait; framework.ErrNodeDeleted means that the waiter's node is
// gone.
type SuccessionFunc func(ctx context.Context, session *framework.Session, at Position, dir Directory) (Succession, error)

// Directory identifies the state of a line's directory: the sequence numbers below it are of one series as long as the
// Czxid is the same.
type Directory struct {
	Czxid               int64
	Version, DataLength int32
}

// AcquireWith is Acquire for a recipe that has a SuccessionFunc, since other nodes show who was the first: the
// semaphore's leases. After WasFirst a waiter is granted without a list; after LeftLine the grant is nil. There are no
// marks, and the own node is not watched: it may be gone at the grant, which the recipe has to find out when it uses
// the node.
func (l *Line) AcquireWith(ctx context.Context, succeed SuccessionFunc) (*Grant, error) {
	if !l.NoReentry && l.CheckSelfWait(ctx) != nil {
		return nil, ErrSelfWait
	}
	session, err := l.Client.SessionSoon(ctx)
	for attempts := Attempts(0); err == nil; session, err = l.Client.Session(ctx) {
		began := time.Now()
		grant, placed, failed := l.contendInSession(ctx, session, true, succeed)
		if failed == nil {
			return grant, nil
		}
		if err = attempts.AwaitNextAttempt(ctx, l.Client, l.Dir, time.Since(began), placed, failed); err != nil {
			break
		}
	}
	if ctx.Err() != nil && l.CheckSelfWait(ctx) != nil {
		err = fmt.Errorf("%w: %w", err, ErrSelfWait)
	}
	return nil, err
}

// CheckSelfWait returns ErrSelfWait if ctx carries a grant for which a contender of this Line waits.
func (l *Line) CheckSelfWait(ctx context.Context) error {
	if l.HeldGrant(ctx) != nil && l.Order.isBlocker(l.Name) && l.Client.Err() == nil {
		return ErrSelfWait
	}
	return nil
}

// TryAcquire does not wait: it returns ErrNotAcquired if a contender is ahead. It first lists, without a write, unless
// CreatingTry is set.
func (l *Line) TryAcquire(ctx context.Context) (grant *Grant, err error) {
	err = TryInSession(ctx, l.Client, func(ctx context.Context, session *framework.Session) error {
		if l.CreatingTry {
			return nil
		}
		return l.precheck(ctx, session)
	}, func(ctx context.Context, session *framework.Session) (err error) {
		grant, _, err = l.contendInSession(ctx, session, false, nil)
		return err
	})
	return grant, err
}

// ReportAcquire calls acquire between the Acquire hooks, which report its beginning and its end. If a hook does not return, it
// calls release for the acquired value.
func ReportAcquire[T any](
	ctx context.Context, client *framework.Client, what framework.Acquisition,
	acquire func(context.Context) (T, error), release func(T),
) (acquired T, err error) {
	hooks := client.Hooks()
	if hooks.Queue == nil { // there are none
		return acquire(ctx)
	}
	ctx, reportEnd := hooks.Acquire(ctx, what)
	acquired, err = acquire(ctx)
	reported := false
	defer func() {
		if !reported && err == nil {
			release(acquired)
		}
	}()
	reportEnd(err)
	reported = true
	return acquired, err
}

// MakeRevocable makes the Line Revocable. Its nodes have no data unless Data is set: a request replaces them.
func (l *Line) MakeRevocable() {
	l.Revocable = true
	if l.Data == nil {
		l.Data = []byte{} // as Curator does
	}
}

// precheck returns ErrNotAcquired if a contender is in line, after one round trip without a write.
func (l *Line) precheck(ctx context.Context, session *framework.Session) error {
	view := session.Client()
	var synced *framework.Pending[struct{}]
	if !l.StaleTry {
		synced = view.Sync().InBackground().ForPath(ctx, l.Dir)
	}
	listed := view.GetChildren().InBackground().ForPath(ctx, l.Dir)
	if synced != nil {
		if _, err := AwaitResult(synced); err != nil {
			return err
		}
	}
	list, err := AwaitResult(listed)
	if errors.Is(err, framework.ErrNoNode) {
		return nil // no contenders
	}
	if err != nil {
		return err
	}
	if first := l.Order.FirstBlocker(list.Names); first != "" {
		return notAcquiredBehind(first)
	}
	return nil
}

func notAcquiredBehind(ahead string) error {
	return fmt.Errorf("%w: node %s is ahead in line", ErrNotAcquired, plain.Text(ahead))
}

// warnUnusualNames logs unusual names in the directory, once.
func (l *Line) warnUnusualNames(own string, d Decision) {
	log := l.Client.Logger()
	if d.NonContender != "" && l.warnedNonContender.CompareAndSwap(false, true) {
		attrs := []any{slog.String("path", l.Dir), slog.String("child", d.NonContender)}
		if d.NonContenderAhead {
			log.Warn("a child of this path is not a contender; this client ignores it, but Java Curator's "+
				"clients wait for it: delete it", attrs...)
		} else {
			log.Warn("a child of this path is not a contender; this client ignores it", attrs...)
		}
	}
	if number, ok := l.Order.SequenceNumber(own); ok && number >= 1<<30 && l.warnedNumbers.CompareAndSwap(false, true) {
		log.Warn("half of the sequence numbers of this path are used up; delete its node while no client "+
			"uses it, and the numbers restart at 0", "path", l.Dir, "left", SequenceLimit-number)
	}
}
