package semaphore

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Lease is one or several leases that were acquired together. It lasts until Release, or until any of the
// leases is lost. Safe for concurrent use: any goroutine may release it.
type Lease struct {
	s        *Semaphore
	view     *framework.Client // the nodes' session's
	nodes    []*line.Grant     // in the order of their numbers; not changed
	unhook   []func() bool     // stops the other holds from ending the first
	released atomic.Bool
	cleanup  runtime.Cleanup
}

func (s *Semaphore) holdLeases(
	ctx context.Context, session *framework.Session, nodes []*line.Grant, waits bool,
) (*Lease, error) {
	err := line.HoldWithTimeout(ctx, session, len(nodes), waits, func(ctx context.Context) error {
		return s.leases.HoldGrants(ctx, 0, nodes...)
	})
	if ctx.Err() == nil && errors.Is(err, framework.ErrNodeDeleted) { // otherwise it may be the cause of ctx's end
		return nil, errLeaseDeleted
	}
	if err != nil {
		return nil, err
	}
	l := &Lease{s: s, view: session.Client(), nodes: nodes}
	// The first hold's context is the lease's: it ends with any of the holds.
	first := nodes[0].Hold
	for _, n := range nodes[1:] {
		other := n.Hold.Context()
		l.unhook = append(l.unhook, context.AfterFunc(other, func() { first.End(context.Cause(other)) }))
	}
	l.cleanup = line.WarnIfDropped(l, nodes[0].Path, session)
	return l, nil
}

// Context returns the context for the work that needs the leases. It ends when any of the leases is lost, or with
// Release, and context.Cause returns the reason: ErrSessionLost, ErrNodeDeleted, ErrSuspended, ErrReleased, or
// framework.ErrClosed. When the session is lost, the context ends before another caller can acquire a lease. It has
// the values of the context that the leases were acquired with, but neither its end nor its deadline. Its Err also
// checks the clock, like Valid; the Err of a derived context does not.
func (l *Lease) Context() context.Context { return l.nodes[0].Context() }

// Valid reports whether the caller certainly holds all the leases now, computed from the clock. Call it right before
// an action that must not happen without them.
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

// Remaining returns how long all the leases certainly last if no server answers from now on; 0 if any of them
// is lost or released.
func (l *Lease) Remaining() time.Duration {
	if !l.Valid() {
		return 0
	}
	return l.nodes[0].Hold.Remaining()
}

// Count returns the number of leases.
func (l *Lease) Count() int { return len(l.nodes) }

// ID returns a number that no other lease in the ensemble has: the czxid of the first node, as in [Participant]. It
// must not be used as a fencing token, since leases with smaller numbers are valid at the same time.
func (l *Lease) ID() int64 { return l.nodes[0].Czxid }

// Nodes returns the names of the nodes, one for each lease.
func (l *Lease) Nodes() []string { return nodeNames(l.nodes) }

// Paths returns the paths of the nodes, one for each lease.
func (l *Lease) Paths() []string {
	return mapGrants(l.nodes, func(n *line.Grant) string { return n.Path })
}

// Data reads the data of the first node, as set by [WithLeaseData] unless another client has changed them since. The
// error is ErrNoNode if the node is gone. Corresponds to getData of Curator's Lease.
func (l *Lease) Data(ctx context.Context) ([]byte, error) {
	data, err := l.view.GetData().Undecompressed().ForPath(ctx, l.nodes[0].Path)
	data, err = line.UnpackData(l.view, l.nodes[0].Path, data, err)
	return data, l.s.wrapError("lease data", err)
}

// Guards returns operations for [framework.Client.Transaction], one for each lease, of any client of the same
// ensemble. With all of them the server executes the transaction only if all the leases' nodes exist at the
// commit; otherwise the transaction fails with framework.ErrNotHeld. No clock is involved.
func (l *Lease) Guards() []framework.TransactionOp {
	return mapGrants(l.nodes, func(n *line.Grant) framework.TransactionOp {
		return l.s.client.TransactionOp().Check().AsGuard().ForPath(n.Path)
	})
}

func nodeNames(nodes []*line.Grant) []string {
	return mapGrants(nodes, func(n *line.Grant) string { return n.Name })
}

func mapGrants[T any](nodes []*line.Grant, f func(*line.Grant) T) []T {
	all := make([]T, len(nodes))
	for i, n := range nodes {
		all[i] = f(n)
	}
	return all
}

// Release releases all the leases. The context ends immediately, and the nodes are deleted, by their own, unique
// names, all in flight together. Release waits until the server has confirmed the deletions. If ctx ends first, or
// the connection is lost, Release returns that error, and the client keeps trying to delete the nodes for as long as
// the session lives.
//
// A second Release returns ErrReleased and does nothing. If a lease was lost before, the error is the cause
// (ErrSessionLost, …): more holders than the limit may have been at work. Call Release also after a loss, since the
// nodes may still exist.
func (l *Lease) Release(ctx context.Context) (err error) {
	if ctx == nil {
		return l.s.wrapError("release", framework.ErrNilContext)
	}
	if l.released.Swap(true) {
		return l.s.wrapError("release", ErrReleased)
	}
	there := l.remainingNodes()
	lost, why := l.beginRelease()
	defer func() {
		// If a lease was lost, report that and not the deletion: remaining nodes go with the session, or the client
		// deletes them.
		if err = l.deleteNodes(ctx, there); lost != nil {
			err = lost
		}
		err = l.s.wrapError("release", err)
	}()
	line.EndHolds(l.nodes, why)
	return nil
}

// ReleaseInBackground is Release for a caller that does not wait: it returns immediately, whatever the network does.
// The context has ended then, and the deletes are in flight: the client sends this goroutine's next requests after
// them, without waiting for their replies. The client retries them until they are executed or the session has ended,
// and Close waits for that as for all clean-ups. So it is the call to defer:
//
//	defer lease.ReleaseInBackground()
//
// then, if given, gets the error that Release would return, on the client's goroutine for callbacks (see
// [framework.Pending.Then]): ErrConnectionLoss and ErrNotConnected there mean that the client continues. Without it
// only a refusal is logged.
func (l *Lease) ReleaseInBackground(then ...func(err error)) {
	callback := &line.Callback{
		Path: l.nodes[0].Path, Then: then, Wrap: func(err error) error { return l.s.wrapError("release", err) },
	}
	if l.released.Swap(true) {
		callback.CallLater(l.view, ErrReleased)
		return
	}
	there := l.remainingNodes()
	lost, why := l.beginRelease()
	if len(there) == 0 {
		callback.CallLater(l.view, lost)
	}
	defer func() { // also if a hook does not return
		left, result := len(there), lost
		for _, node := range there {
			line.QueueDelete(l.view, node.Path).Then(func(_ struct{}, err error) { // one after the other
				result = cmp.Or(result, err)
				if left--; left == 0 {
					callback.Call(l.view, result)
				}
			})
		}
	}()
	line.EndHolds(l.nodes, why)
}

// beginRelease returns the cause of the loss of a lease, if one was lost, and the cause for ending the holds.
func (l *Lease) beginRelease() (lost, why error) {
	l.cleanup.Stop()
	for _, stop := range l.unhook {
		stop()
	}
	if lost = l.lossCause(); lost != nil {
		return lost, lost // a later hold may have been ended before the first one, whose context is the lease's
	}
	return nil, ErrReleased
}

// remainingNodes returns the nodes of which no deletion has been seen; another client's node may have a deleted one's name.
// Call it before the holds are ended. The first hold also ends with any other, with its cause: so it shows that its own
// node is gone only if no other is.
func (l *Lease) remainingNodes() []*line.Grant {
	gone := func(n *line.Grant) bool { return line.HoldLoss(n.Hold) == framework.ErrNodeDeleted }
	there := slices.DeleteFunc(slices.Clone(l.nodes[1:]), gone)
	if len(there) == len(l.nodes)-1 && gone(l.nodes[0]) {
		return there
	}
	return slices.Insert(there, 0, l.nodes[0])
}

func (l *Lease) deleteNodes(ctx context.Context, nodes []*line.Grant) (first error) {
	quietly := l.view.Delete().Quietly().Guaranteed()
	deletes := mapGrants(nodes, func(n *line.Grant) *framework.Pending[struct{}] {
		return quietly.InBackground().ForPath(ctx, n.Path)
	})
	for i, d := range deletes {
		_, err := line.AwaitResult(d)
		if framework.Retryable(err) && ctx.Err() == nil { // repeat it by the retry policy
			err = quietly.ForPath(ctx, nodes[i].Path)
		}
		first = cmp.Or(first, err)
	}
	return first
}

func (l *Lease) releaseNoWait() {
	l.cleanup.Stop()
	defer queueDeletes(l.view, l.remainingNodes())
	line.EndHolds(l.nodes, ErrReleased)
}

func queueDeletes(view *framework.Client, nodes []*line.Grant) {
	for _, node := range nodes {
		line.QueueDelete(view, node.Path)
	}
}

// queueDeletesOfOwn is queueDeletes after one of the nodes was deleted: another client's node may have its name. So each is
// read first.
func queueDeletesOfOwn(view *framework.Client, nodes []*line.Grant) {
	for _, node := range nodes {
		view.CheckExists().InBackground().ForPath(context.Background(), node.Path).
			Then(func(found framework.ExistsResult, err error) {
				if err != nil || found.Stat != nil && found.Stat.Czxid == node.Czxid {
					line.QueueDelete(view, node.Path)
				}
			})
	}
}

func (l *Lease) lossCause() error {
	for _, n := range l.nodes {
		if lost := line.HoldLoss(n.Hold); lost != nil {
			return lost
		}
	}
	return nil
}

// waitsForItself reports whether n leases cannot be free before the leases of ctx are released. With a shared count
// it is false, since the count may grow.
func (s *Semaphore) waitsForItself(ctx context.Context, n int) bool {
	left := s.max
	for range s.leases.HeldGrants(ctx) {
		left--
	}
	return s.count == nil && n > left
}
