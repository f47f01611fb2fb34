package mutex

import (
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Option changes what [New] makes.
type Option func(*Mutex) error

// WithLossPolicy says whether a lock outlives a lost connection. Default [framework.SessionOnly]: it lasts as
// long as its session certainly does, by the client's own clock, so that the restart of one server ends no
// lock. With [framework.SuspendedIsLoss] it ends with the connection (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(m *Mutex) (err error) {
		m.line.Loss, err = queue.Policy(p)
		return err
	}
}

// WithNodeData is what the nodes of the lock contain: a host name, say, for [Mutex.Participants] to show.
// Default: the client's default data ([framework.WithDefaultData]).
func WithNodeData(data []byte) Option {
	return func(m *Mutex) error { m.line.Data = append([]byte{}, data...); return nil }
}

// WithStaleTry lets [Mutex.TryAcquire] decide by what the connected server knows, which may be a little old:
// one read instead of two requests, and more often ErrNotAcquired for a lock that was just released. It never
// acquires a lock that is held. Default: off.
func WithStaleTry() Option {
	return func(m *Mutex) error { m.line.StaleTry = true; return nil }
}

// WithRevocation lets others ask the holder to give up the lock, with [Revoke] or Curator's Revoker:
// [Lock.Revoked]. It costs one read per Acquire, which is not waited for. The nodes are empty, unless
// [WithNodeData] says what is in them; a revoker replaces that. Default: off. Corresponds to Curator's
// makeRevocable.
func WithRevocation() Option {
	return func(m *Mutex) error { m.line.MakeRevocable(); return nil }
}

// WithoutReentry has each Acquire wait in line, whatever context it gets. One that is called under the lock
// waits until another goroutine, which has the [Lock], releases it; when its context ends before that, the
// error matches ErrSelfWait, too. Default: Acquire with the lock's context re-enters.
func WithoutReentry() Option {
	return func(m *Mutex) error { m.line.NoReentry = true; return nil }
}

// OnWait has f called each time [Mutex.Acquire] finds out how many are ahead: when it begins to wait, and
// whenever it lists again (not at each step of the line: a waiter hears only of the one right ahead). The
// goroutine that acquires calls it and waits for it. Default: none.
func OnWait(f func(Position)) Option {
	return func(m *Mutex) (err error) {
		m.line.OnWait, err = queue.Called(f)
		return err
	}
}

// Position is a place in line: struct{ Node, Predecessor string; Ahead int }. Node is the name of the own
// node, Predecessor that of the nearest one ahead, and Ahead how many are ahead, the holder included.
type Position = queue.Position
