package mutex

import (
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Option changes what [New] makes.
type Option func(*Mutex) error

// WithLossPolicy says whether a lock outlives a lost connection. Default [framework.SessionOnly]: the lock
// lasts until its session may have expired, by the client's own clock; the restart of one server ends no
// lock. With [framework.SuspendedIsLoss] the lock ends when the connection is lost (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(m *Mutex) (err error) {
		m.line.Loss, err = queue.Policy(p)
		return err
	}
}

// WithNodeData sets the data of the nodes that this Mutex creates: a host name, say, for [Mutex.Participants]
// to show. Default: the client's default data ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(m *Mutex) error { m.line.Data = append([]byte{}, data...); return nil }
}

// WithStaleTry lets [Mutex.TryAcquire] check the lock without a sync, by what the connected server knows,
// which may be a little old. That costs one request instead of two, and returns ErrNotAcquired more often for
// a lock that has just been released. It never acquires a lock that somebody else has. Default: off.
func WithStaleTry() Option {
	return func(m *Mutex) error { m.line.StaleTry = true; return nil }
}

// WithRevocation lets other clients ask the holder to release the lock, with [Revoke] or Curator's Revoker.
// The holder learns of the request from [Lock.Revoked]. It costs one read per Acquire, and Acquire does not
// wait for that read. The nodes are empty unless [WithNodeData] is given; a revocation overwrites their data.
// Default: off. Corresponds to Curator's makeRevocable.
func WithRevocation() Option {
	return func(m *Mutex) error { m.line.MakeRevocable(); return nil }
}

// WithoutReentry makes every Acquire wait in the queue, whatever context it gets. An Acquire with the context
// of this lock then waits until another goroutine releases the [Lock]. If its context ends before that, the
// error also matches ErrSelfWait. Default: Acquire with the lock's context re-enters.
func WithoutReentry() Option {
	return func(m *Mutex) error { m.line.NoReentry = true; return nil }
}

// OnWait calls f each time [Mutex.Acquire] finds out how many waiters are ahead: when it begins to wait, and
// whenever it lists the queue again. (f is not called each time the queue moves, since a waiter watches only
// the node right ahead.) f runs on the goroutine that acquires, which waits for it. Default: no function.
func OnWait(f func(Position)) Option {
	return func(m *Mutex) (err error) {
		m.line.OnWait, err = queue.Called(f)
		return err
	}
}

// Position is a place in the queue: struct{ Node, Predecessor string; Ahead int }. Node is the name of the
// waiter's own node, Predecessor the name of the node right ahead, and Ahead the number of nodes ahead, the
// holder's included.
type Position = queue.Position
