package rwlock

import (
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/queue"
)

// Option changes what [New] makes. Options are for both sides.
type Option func(*RWLock) error

// WithLossPolicy says whether a lock outlives a lost connection. Default [framework.SessionOnly]: it lives as long as its session
// certainly does, which the client's own clock decides, so that the restart of one server ends no lock. With
// [framework.SuspendedIsLoss] it ends with the connection (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(rw *RWLock) error {
		if p != framework.SessionOnly && p != framework.SuspendedIsLoss {
			return fmt.Errorf("%w WithLossPolicy: there is no policy %d; choose SessionOnly or SuspendedIsLoss", framework.ErrInvalidOption, p)
		}
		rw.read.line.Loss, rw.write.line.Loss = p, p
		return nil
	}
}

// WithNodeData is what the nodes of the lock contain: a host name, say, for [RWLock.Participants] to show. Default: the client's default
// data ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(rw *RWLock) error {
		data := append([]byte{}, data...)
		rw.read.line.Data, rw.write.line.Data = data, data
		return nil
	}
}

// WithStaleTry lets [Side.TryAcquire] decide by what the connected server knows, which in an ensemble may be a little old: one read
// instead of two requests, and more often ErrNotAcquired for a lock that has just been released. It never acquires what is held.
// Default: off.
func WithStaleTry() Option {
	return func(rw *RWLock) error { rw.staleTry = true; return nil }
}

// WithRevocation lets others ask holders to give up a lock, with [Revoke] or Curator's Revoker: [Lock.Revoked]. It costs one read per Acquire that does not
// re-enter, which is not waited for. The nodes are empty, unless [WithNodeData] says what is in them; a revoker replaces that. Default: nobody
// is listened to.
//
// Corresponds to Curator's makeRevocable.
func WithRevocation() Option {
	return func(rw *RWLock) error { rw.revocable = true; return nil }
}

// OnWait has f called each time [Side.Acquire] finds out how many have to go first: when it begins to wait, and whenever it looks again. It is called
// by the goroutine that acquires, which waits for it. Default: none.
func OnWait(f func(Position)) Option {
	return func(rw *RWLock) error {
		if f == nil {
			return fmt.Errorf("%w OnWait: the function is nil; leave the option out", framework.ErrInvalidOption)
		}
		for _, s := range []*Side{&rw.read, &rw.write} {
			s.line.OnWait = func(p queue.Position) { f(Position{s.kind, p.Node, p.Predecessor, p.Ahead}) }
		}
		return nil
	}
}

// Position is a place in line.
type Position struct {
	Kind Kind
	// Node is the name of the own node, Predecessor that of the nearest one ahead that has to go first.
	Node, Predecessor string
	// Ahead counts those that have to go first: everybody ahead of a writer, the writers ahead of a reader.
	Ahead int
}
