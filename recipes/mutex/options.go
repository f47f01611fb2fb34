package mutex

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Option configures [New], [NewCohort] and [NewStriped]. If one is given several times the last counts, unless documented otherwise.
type Option func(*Mutex) error

// WithLossPolicy sets whether a lock outlives a lost connection. Default [framework.SessionOnly]: the lock lasts
// until its session may have expired, by the client's own clock; the restart of one server ends no lock. With
// [framework.SuspendedIsLoss] the lock ends when the connection is lost (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(m *Mutex) (err error) {
		m.line.Loss, err = line.CheckLossPolicy(p)
		return err
	}
}

// WithNodeData sets the data of the nodes that this Mutex creates: a host name, say, for
// [Mutex.Participants] to show. Default: the client's default data ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(m *Mutex) error { m.line.Data = append([]byte{}, data...); return nil }
}

// WithStaleTry lets [Mutex.TryAcquire] check the lock without a sync, in the state of the connected server, which may
// be a little old. That costs one request instead of two, and returns ErrNotAcquired more often for a lock that has
// just been released. It never acquires a lock that another contender has. Default: off.
func WithStaleTry() Option {
	return func(m *Mutex) error { m.line.StaleTry = true; return nil }
}

// WithRevocation lets other clients ask the holder to release the lock, with [Revoke] or Curator's Revoker.
// [Lock.Revoked] reports the request to the holder. It costs one read per Acquire, and Acquire does not wait for that
// read. The nodes are empty unless [WithNodeData] is given; a revocation overwrites their data. Default: off.
// Corresponds to Curator's makeRevocable.
func WithRevocation() Option {
	return func(m *Mutex) error { m.line.MakeRevocable(); return nil }
}

// WithoutReentry makes every Acquire wait in the line, whatever context it gets. An Acquire with the
// context of this lock then waits until another goroutine releases the [Lock]. If its context ends before
// that, the error also matches ErrSelfWait. Default: Acquire with the lock's context re-enters.
func WithoutReentry() Option {
	return func(m *Mutex) error { m.line.NoReentry = true; return nil }
}

// OnWait calls f each time [Mutex.Acquire] has counted the waiters ahead: when it begins to wait, and whenever it
// lists the line again. (f is not called each time the line moves, since a waiter watches only the node right ahead.)
// f runs on the acquiring goroutine, which waits for it. Default: no function.
func OnWait(f func(Position)) Option {
	return func(m *Mutex) (err error) {
		m.line.OnWait, err = line.CheckOnWait(f)
		return err
	}
}

// WithCreatingTry lets [Mutex.TryAcquire] create its node without reading first, as Curator's acquire with no wait
// does, and delete it if another contender is ahead. A process that keeps the lock without using it ([WithKept]) sees
// that node and releases the lock, so the next TryAcquire succeeds; it never sees a TryAcquire that only reads. Use
// it where some process has a [Cohort] with WithKept at the path. It costs two requests and a delete instead of two
// reads while the lock is held. Default: off; on in a Cohort with WithKept.
func WithCreatingTry() Option {
	return func(m *Mutex) error { m.line.CreatingTry = true; return nil }
}

// WithTurns sets when a [Cohort] lets other processes have their turn: after that many turns of its callers, or with
// the first turn that ends after d, counted from the grant of its node. Both are at least 1. So another process waits
// at most d, and the rest of a turn, longer than if no turn had been passed on. Default: 1,000 turns and 100 ms. For
// [NewCohort] only.
func WithTurns(turns int, d time.Duration) Option {
	return func(m *Mutex) error {
		if turns < 1 || d < 1 {
			return fmt.Errorf("%w WithTurns: %d turns and %v; both must be at least 1",
				framework.ErrInvalidOption, turns, d)
		}
		m.cohortLimits.Turns, m.cohortLimits.Period = turns, d
		return nil
	}
}

// WithKept lets a [Cohort] keep the lock when no caller wants it, until another contender arrives, a client revokes
// it ([WithRevocation]), or idle has passed without a caller. While it is kept, Acquire sends nothing. idle must be
// at least a millisecond. It bounds how long a process that does not use the lock, and is too slow or disconnected to
// see other contenders, can keep it from them; the session timeout is a bound as well, if the process is dead.
// TryAcquire creates its node then, as with [WithCreatingTry]. Default: nothing is kept. For [NewCohort] only.
func WithKept(idle time.Duration) Option {
	return func(m *Mutex) error {
		if idle < time.Millisecond {
			return fmt.Errorf("%w WithKept: %v is less than a millisecond", framework.ErrInvalidOption, idle)
		}
		m.cohortLimits.Idle, m.line.CreatingTry = idle, true
		return nil
	}
}

// Position is a place in the line: struct{ Node, Predecessor string; Ahead int }. Node is the name of the
// waiter's own node, Predecessor the name of the node right ahead, and Ahead the number of nodes ahead, the
// holder's included.
type Position = line.Position

// WithForeignContenders adds names of contenders' nodes in this directory to those of this package and of Curator:
// while another implementation is being replaced, or for good. If is(name) is true, the name counts by the ten digits
// at its end; without them it is ignored. is may be called at any time, on any goroutine, and must always return the
// same result for a name. Default: none; a child with another name is ignored. Given several times, a name counts if
// one of the functions returns true.
//
// The other implementation must also count the nodes of this package, which are named _c_, a UUID, -lock- and ten
// digits, or two clients have the lock. Python's kazoo does with extra_lock_patterns=["-lock-"]; its own nodes are
// those with "__lock__".
func WithForeignContenders(is func(name string) bool) Option {
	return func(m *Mutex) (err error) {
		m.line.Order.Foreign, err = line.AddForeign(m.line.Order.Foreign, is)
		return err
	}
}
