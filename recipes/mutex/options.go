package mutex

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Option changes what [New] makes. If one is given several times the last counts, unless it says otherwise.
type Option func(*Mutex) error

// WithLossPolicy says whether a lock outlives a lost connection. Default [framework.SessionOnly]: the lock
// lasts until its session may have expired, by the client's own clock; the restart of one server ends no
// lock. With [framework.SuspendedIsLoss] the lock ends when the connection is lost (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(m *Mutex) (err error) {
		m.line.Loss, err = line.Policy(p)
		return err
	}
}

// WithNodeData sets the data of the nodes that this Mutex creates: a host name, say, for
// [Mutex.Participants] to show. Default: the client's default data ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(m *Mutex) error { m.line.Data = append([]byte{}, data...); return nil }
}

// WithStaleTry lets [Mutex.TryAcquire] check the lock without a sync, by what the connected server knows,
// which may be a little old. That costs one request instead of two, and returns ErrNotAcquired more often
// for a lock that has just been released. It never acquires a lock that somebody else has. Default: off.
func WithStaleTry() Option {
	return func(m *Mutex) error { m.line.StaleTry = true; return nil }
}

// WithRevocation lets other clients ask the holder to release the lock, with [Revoke] or Curator's
// Revoker. The holder learns of the request from [Lock.Revoked]. It costs one read per Acquire, and
// Acquire does not wait for that read. The nodes are empty unless [WithNodeData] is given; a revocation
// overwrites their data. Default: off. Corresponds to Curator's makeRevocable.
func WithRevocation() Option {
	return func(m *Mutex) error { m.line.MakeRevocable(); return nil }
}

// WithoutReentry makes every Acquire wait in the queue, whatever context it gets. An Acquire with the
// context of this lock then waits until another goroutine releases the [Lock]. If its context ends before
// that, the error also matches ErrSelfWait. Default: Acquire with the lock's context re-enters.
func WithoutReentry() Option {
	return func(m *Mutex) error { m.line.NoReentry = true; return nil }
}

// OnWait calls f each time [Mutex.Acquire] finds out how many waiters are ahead: when it begins to wait,
// and whenever it lists the queue again. (f is not called each time the queue moves, since a waiter
// watches only the node right ahead.) f runs on the goroutine that acquires, which waits for it. Default:
// no function.
func OnWait(f func(Position)) Option {
	return func(m *Mutex) (err error) {
		m.line.OnWait, err = line.Called(f)
		return err
	}
}

// WithCreatingTry lets [Mutex.TryAcquire] create its node without looking first, as Curator's acquire with
// no wait does, and remove it if somebody is ahead. A process that keeps the lock without using it
// ([WithKept]) notices that and gives the lock up, so the next TryAcquire succeeds; it never notices one
// that only looks. Use it where some process has a [Cohort] with WithKept at the path. It costs two
// requests and a delete instead of two reads while the lock is held. Default: off; on in a Cohort with
// WithKept.
func WithCreatingTry() Option {
	return func(m *Mutex) error { m.line.CreatingTry = true; return nil }
}

// WithTurns says when a [Cohort] lets other processes have their turn: after that many turns of its own
// callers, or with the first turn that ends after d, counted from when its node got the lock. Both are at
// least 1. So another process waits at most d, and the rest of a turn, longer than if no turn had been
// passed on. Default: 1,000 turns and 100 ms. For [NewCohort] only.
func WithTurns(turns int, d time.Duration) Option {
	return func(m *Mutex) error {
		if turns < 1 || d < 1 {
			return fmt.Errorf("%w WithTurns: %d turns and %v; both must be at least 1",
				framework.ErrInvalidOption, turns, d)
		}
		m.cohort.turns, m.cohort.howLong = turns, d
		return nil
	}
}

// WithKept lets a [Cohort] keep the lock when no caller wants it, until another contender comes, somebody
// revokes it ([WithRevocation]), or idle is over without a caller. While it is kept, Acquire sends
// nothing. idle must be at least a millisecond. It bounds how long a process that has no use for the lock,
// and is too slow or cut off to hear of others, can keep it from them; the session timeout bounds it, too,
// if the process is dead. TryAcquire creates its node then, as with [WithCreatingTry]. Default: nothing is
// kept. For [NewCohort] only.
func WithKept(idle time.Duration) Option {
	return func(m *Mutex) error {
		if idle < time.Millisecond {
			return fmt.Errorf("%w WithKept: %v is less than a millisecond", framework.ErrInvalidOption, idle)
		}
		m.cohort.idle, m.line.CreatingTry = idle, true
		return nil
	}
}

// Position is a place in the queue: struct{ Node, Predecessor string; Ahead int }. Node is the name of the
// waiter's own node, Predecessor the name of the node right ahead, and Ahead the number of nodes ahead, the
// holder's included.
type Position = line.Position

// WithForeignContenders says which other names of nodes are contenders' in this directory, besides those of this
// package and of Curator: for the time in which another implementation is being replaced, or for good. A name
// for which is returns true counts by the ten digits at its end; without them it is no contender's. is may be
// called at any time, on any goroutine, and must always give the same answer. Default: none; a child with
// another name blocks nobody. Given several times, a name counts if one of the functions returns true.
//
// The others must count the nodes of this package, too, which are named _c_, a UUID, -lock- and ten digits, or two
// have the lock. Python's kazoo does with extra_lock_patterns=["-lock-"]; its own nodes are those with "__lock__".
func WithForeignContenders(is func(name string) bool) Option {
	return func(m *Mutex) (err error) {
		m.line.Order.Foreign, err = line.Foreign(m.line.Order.Foreign, is)
		return err
	}
}
