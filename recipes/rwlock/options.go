package rwlock

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Option configures [New] and [NewReaders]. It applies to both sides. If one is given several times the last counts.
type Option func(*RWLock) error

// WithLossPolicy sets whether a lock outlives a lost connection. Default [framework.SessionOnly]: the lock lasts
// until its session may have expired, by the client's own clock. With [framework.SuspendedIsLoss] the lock ends when
// the connection is lost (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(rw *RWLock) (err error) {
		rw.read.line.Loss, err = line.CheckLossPolicy(p)
		rw.write.line.Loss = p
		return err
	}
}

// WithNodeData sets the data of the nodes that this RWLock creates: a host name, say, for
// [RWLock.Participants] to show. Default: the client's default data ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(rw *RWLock) error {
		return rw.configureSides(func(s *Side) { s.line.Data = append([]byte{}, data...) })
	}
}

// WithStaleTry lets [Side.TryAcquire] check the lock without a sync, in the state of the connected server, which may
// be a little old. That costs one request instead of two, and returns ErrNotAcquired more often for a lock that has
// just been released. It never acquires a lock that another contender's lock excludes. Default: off.
func WithStaleTry() Option {
	return func(rw *RWLock) error { return rw.configureSides(func(s *Side) { s.line.StaleTry = true }) }
}

// WithRevocation lets other clients ask holders to release a lock, with [Revoke] or Curator's Revoker. [Lock.Revoked]
// reports the request to the holder. It costs one read per Acquire that does not re-enter, and Acquire does not wait
// for that read. The nodes are empty unless [WithNodeData] is given; a revocation overwrites their data. Default:
// off. Corresponds to Curator's makeRevocable.
func WithRevocation() Option {
	return func(rw *RWLock) error { return rw.configureSides(func(s *Side) { s.line.MakeRevocable() }) }
}

// OnWait calls f each time [Side.Acquire] has counted the nodes ahead that it has to wait for: when it begins to
// wait, and whenever it lists the line again. f runs on the acquiring goroutine, which waits for it. Default: no
// function.
func OnWait(f func(Position)) Option {
	return func(rw *RWLock) error {
		if _, err := line.CheckOnWait(f); err != nil {
			return err
		}
		return rw.configureSides(func(s *Side) {
			s.line.OnWait = func(p line.Position) { f(Position{s.kind, p.Node, p.Predecessor, p.Ahead}) }
		})
	}
}

// WithJoins sets until when callers join a node that has the lock: until so many have joined since the grant, or for
// d after it. Later callers get another node, behind the waiting writers. So the readers of a process keep a writer
// waiting at most d, and the rest of a read, longer than without joins. Callers that had waited for the node with the
// first do not count. Both are at least 1. Default: 1,000 and 100 ms. For [NewReaders] only.
func WithJoins(joins int, d time.Duration) Option {
	return func(rw *RWLock) error {
		if joins < 1 || d < 1 {
			return fmt.Errorf("%w WithJoins: %d joins and %v; both must be at least 1",
				framework.ErrInvalidOption, joins, d)
		}
		rw.joinLimits = line.Limits{Turns: joins, Period: d}
		return nil
	}
}

// Position is a place in the line.
type Position struct {
	Kind Kind
	// Node is the name of the waiter's own node. Predecessor is the name of the nearest node ahead that it
	// waits for: any node for a writer, a writer's for a reader.
	Node, Predecessor string
	// Ahead counts the nodes that it waits for: all nodes ahead of a writer, the writers' nodes ahead of a
	// reader.
	Ahead int
}
