package rwlock

import (
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Option changes what [New] makes. Options are for both sides.
type Option func(*RWLock) error

// WithLossPolicy says whether a lock outlives a lost connection. Default [framework.SessionOnly]: it lasts as
// long as its session certainly does, by the client's own clock. With [framework.SuspendedIsLoss] it ends
// with the connection (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(rw *RWLock) (err error) {
		rw.read.line.Loss, err = queue.Policy(p)
		rw.write.line.Loss = p
		return err
	}
}

// WithNodeData is what the nodes of the lock contain: a host name, say, for [RWLock.Participants] to show.
// Default: the client's default data ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(rw *RWLock) error {
		return rw.each(func(s *Side) { s.line.Data = append([]byte{}, data...) })
	}
}

// WithStaleTry lets [Side.TryAcquire] decide by what the connected server knows, which may be a little old:
// one read instead of two requests, and more often ErrNotAcquired for a lock that was just released. It never
// acquires a lock that is held. Default: off.
func WithStaleTry() Option {
	return func(rw *RWLock) error { return rw.each(func(s *Side) { s.line.StaleTry = true }) }
}

// WithRevocation lets others ask holders to give up a lock, with [Revoke] or Curator's Revoker:
// [Lock.Revoked]. It costs one read per Acquire that does not re-enter, which is not waited for. The nodes
// are empty, unless [WithNodeData] says what is in them; a revoker replaces that. Default: off. Corresponds
// to Curator's makeRevocable.
func WithRevocation() Option {
	return func(rw *RWLock) error { return rw.each(func(s *Side) { s.line.MakeRevocable() }) }
}

// OnWait has f called each time [Side.Acquire] finds out how many have to go first: when it begins to wait,
// and whenever it lists again. The goroutine that acquires calls it and waits for it. Default: none.
func OnWait(f func(Position)) Option {
	return func(rw *RWLock) error {
		if _, err := queue.Called(f); err != nil {
			return err
		}
		return rw.each(func(s *Side) {
			s.line.OnWait = func(p queue.Position) { f(Position{s.kind, p.Node, p.Predecessor, p.Ahead}) }
		})
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
