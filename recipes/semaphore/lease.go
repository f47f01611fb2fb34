package semaphore

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Lease is one or several leases that the caller holds, until Release or the loss of any of them. Safe for
// concurrent use: any goroutine may release it.
type Lease struct {
	s        *Semaphore
	view     *framework.Client // of the session that the nodes belong to
	nodes    []*queue.Grant    // in the order of their numbers; not changed
	unhook   []func() bool     // stops the holds from ending each other
	released atomic.Bool
	cleanup  runtime.Cleanup
}

func (s *Semaphore) hold(
	ctx context.Context, session *framework.Session, nodes []*queue.Grant,
) (*Lease, error) {
	err := s.leases.Hold(ctx, 0, nodes...)
	if errors.Is(err, framework.ErrNodeDeleted) {
		return nil, errLeaseGone
	}
	if err != nil {
		return nil, err
	}
	l := &Lease{s: s, view: session.Client(), nodes: nodes}
	// The first hold's context is that of the lease: it ends with any of them.
	first := nodes[0].Hold
	for _, n := range nodes[1:] {
		other := n.Hold.Context()
		l.unhook = append(l.unhook, context.AfterFunc(other, func() { first.End(context.Cause(other)) }))
	}
	l.cleanup = queue.WarnIfDropped(l, nodes[0].Path, session)
	return l, nil
}

// Context is the one to work under: it ends when a lease is lost, or all are released, and context.Cause says
// why: ErrSessionLost, ErrNodeDeleted, ErrSuspended, ErrReleased, or framework.ErrClosed. When the session is
// lost it ends before the servers can give the lease to somebody else. It has the values of the context that
// the lease was acquired with, but neither its end nor its deadline. Its Err also looks at the clock, like
// Valid; that of contexts derived from it does not.
func (l *Lease) Context() context.Context { return l.nodes[0].Hold.Context() }

// Valid says, from the clock, whether all the leases are certainly held now. Ask it right before what must
// not happen without a lease.
func (l *Lease) Valid() bool {
	if l.released.Load() {
		return false
	}
	for _, n := range l.nodes {
		if !n.Hold.Valid() {
			return false
		}
	}
	return true
}

// Remaining is how long the leases are certainly held if nothing is heard of the servers any more; 0 if they
// are not.
func (l *Lease) Remaining() time.Duration {
	if !l.Valid() {
		return 0
	}
	return l.nodes[0].Hold.Remaining()
}

// Count is how many leases these are.
func (l *Lease) Count() int { return len(l.nodes) }

// ID is a number that no other lease has, of any semaphore in the ensemble: the czxid of the first node, as
// in [Participant]. It is no fencing token: leases that came earlier are as good.
func (l *Lease) ID() int64 { return l.nodes[0].Czxid }

// Nodes are the names of the nodes, one for each lease.
func (l *Lease) Nodes() []string { return each(l.nodes, func(n *queue.Grant) string { return n.Name }) }

// Paths are the paths of the nodes, one for each lease.
func (l *Lease) Paths() []string { return each(l.nodes, func(n *queue.Grant) string { return n.Path }) }

// Data reads what the first node contains: the data of [WithLeaseData], unless somebody has set other data
// since. ErrNoNode if the node is gone. Corresponds to getData of Curator's Lease.
func (l *Lease) Data(ctx context.Context) ([]byte, error) {
	data, err := l.view.GetData().ForPath(ctx, l.nodes[0].Path)
	return data, l.s.wrap("lease data", err)
}

// Guards are operations for [framework.Client.Transaction], one for each lease, of any client of the same
// ensemble. With all of them in it, the transaction is executed only while all the leases are held, and
// otherwise fails with ErrNoNode. The server decides, when it commits: no clock is involved.
func (l *Lease) Guards() []framework.TransactionOp {
	return each(l.nodes, func(n *queue.Grant) framework.TransactionOp {
		return l.s.client.TransactionOp().Check().ForPath(n.Path)
	})
}

func each[T any](nodes []*queue.Grant, f func(*queue.Grant) T) []T {
	all := make([]T, len(nodes))
	for i, n := range nodes {
		all[i] = f(n)
	}
	return all
}

// Release gives all the leases back. The context ends, at once, and the nodes are deleted, by their own,
// unique names, in one flight. Release waits until the server has confirmed that. When ctx ends first, or the
// connection is lost, the client goes on with it for as long as the session lives, and the error says why
// Release did not wait.
//
// A second Release returns ErrReleased and does nothing. If a lease was lost before, the error says how
// (ErrSessionLost, …): what was done with it may have been one too many at its end. Release is needed then,
// too: the nodes may still be there.
func (l *Lease) Release(ctx context.Context) (err error) {
	if ctx == nil {
		return l.s.wrap("release", framework.ErrNilContext)
	}
	if l.released.Swap(true) {
		return l.s.wrap("release", ErrReleased)
	}
	lost, why := l.beginRelease()
	defer func() {
		// What is left of the nodes goes with the session, or the client removes it; a loss is what matters.
		if err = l.remove(ctx); lost != nil {
			err = lost
		}
		err = l.s.wrap("release", err)
	}()
	queue.EndAll(l.nodes, why)
	return nil
}

// ReleaseInBackground is Release for a caller that does not wait: it returns at once, whatever the network
// does. The context has ended then, and the deletes are on their way: what this goroutine asks of the client
// next goes after them, in the same flight. Until they are done, or the session has ended, the client goes on
// with them, and Close waits for that as for all clean-ups. So it is what to defer:
//
//	defer lease.ReleaseInBackground()
//
// then, if given, gets the error that Release would return, on the goroutine of the client's callbacks (see
// [framework.Pending.Then]): ErrConnectionLoss and ErrNotConnected there mean that the client goes on.
// Without it only a refusal is logged.
func (l *Lease) ReleaseInBackground(then ...func(err error)) {
	told := &queue.Callback{
		Path: l.nodes[0].Path, Then: then, Wrap: func(err error) error { return l.s.wrap("release", err) },
	}
	if l.released.Swap(true) {
		told.Later(l.view, ErrReleased)
		return
	}
	lost, why := l.beginRelease()
	defer func() { // also if a hook does not return
		left, result := len(l.nodes), lost
		for _, node := range l.nodes {
			queue.Remove(l.view, node.Path).Then(func(_ struct{}, err error) { // one after the other
				result = cmp.Or(result, err)
				if left--; left == 0 {
					told.Call(l.view, result)
				}
			})
		}
	}()
	queue.EndAll(l.nodes, why)
}

// beginRelease returns how a lease was lost, if it was, and the cause with which the holds are to end.
func (l *Lease) beginRelease() (lost, why error) {
	l.cleanup.Stop()
	for _, stop := range l.unhook {
		stop()
	}
	if lost = l.lost(); lost != nil {
		return lost, lost // one of them may have heard of it and the first one, whose context is the lease's, not yet
	}
	return nil, ErrReleased
}

func (l *Lease) remove(ctx context.Context) (first error) {
	quietly := l.view.Delete().Quietly().Guaranteed()
	deletes := each(l.nodes, func(n *queue.Grant) *framework.Pending[struct{}] {
		return quietly.InBackground().ForPath(ctx, n.Path)
	})
	for i, d := range deletes {
		_, err := queue.Result(d)
		if framework.Retryable(err) && ctx.Err() == nil { // once more, this time as the retry policy says
			err = quietly.ForPath(ctx, l.nodes[i].Path)
		}
		first = cmp.Or(first, err)
	}
	return first
}

func (l *Lease) abandon() {
	l.cleanup.Stop()
	defer removeAll(l.view, l.nodes)
	queue.EndAll(l.nodes, ErrReleased)
}

func removeAll(view *framework.Client, nodes []*queue.Grant) {
	for _, node := range nodes {
		queue.Remove(view, node.Path)
	}
}

func (l *Lease) lost() error {
	for _, n := range l.nodes {
		if lost := queue.Lost(n.Hold); lost != nil {
			return lost
		}
	}
	return nil
}

// waitsForItself says whether there cannot be n leases before those that ctx carries are released. With a
// shared count that is not known, since it may grow.
func (s *Semaphore) waitsForItself(ctx context.Context, n int) bool {
	left := s.max
	for range s.leases.Carried(ctx) {
		left--
	}
	return s.count == nil && n > left
}
