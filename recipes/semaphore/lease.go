package semaphore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Lease is one or several leases in the caller's hand, until Release or the loss of any of them. Safe for concurrent use: any goroutine may
// release it.
type Lease struct {
	s        *Semaphore
	view     *framework.Client // of the session that the nodes belong to
	nodes    []node            // in the order of their numbers; not changed
	apart    []func() bool     // ends what ties the holds together
	released atomic.Bool
	cleanup  runtime.Cleanup
}

// hold makes the nodes a lease.
func (s *Semaphore) hold(ctx context.Context, session *framework.Session, nodes []node) (*Lease, error) {
	all := false
	defer func() { // also when a hook panics
		if !all {
			end(slices.DeleteFunc(slices.Clone(nodes), func(n node) bool { return n.hold == nil }), framework.ErrReleased)
		}
	}()
	share := &own{}
	values := queue.Carry(ctx, s.owner(), share)
	holds := make([]*framework.Hold, len(nodes))
	for i := range nodes {
		h, err := session.Hold(ctx, framework.HoldOptions{
			Path: nodes[i].path, Recipe: s.recipe(), Czxid: nodes[i].czxid, Loss: s.loss, Values: values,
		})
		if err != nil {
			if errors.Is(err, framework.ErrNodeDeleted) {
				err = errLeaseGone
			}
			return nil, err
		}
		nodes[i].hold, holds[i] = h, h
	}
	share.holds.Store(&holds)
	all = true
	l := &Lease{s: s, view: session.Client(), nodes: nodes}
	// The first hold's context is that of the lease: it ends with any of them.
	first := nodes[0].hold
	for _, other := range nodes[1:] {
		l.apart = append(l.apart, context.AfterFunc(other.hold.Context(), func() { first.End(context.Cause(other.hold.Context())) }))
	}
	l.cleanup = queue.Mind(l, nodes[0].path, session)
	return l, nil
}

// giveUp is Release for who does not wait.
func (l *Lease) giveUp() {
	l.cleanup.Stop()
	defer giveBack(l.view, l.nodes...)
	end(l.nodes, framework.ErrReleased)
}

// end ends the holds of all nodes, also if a hook that hears of one does not return.
func end(nodes []node, why error) {
	if len(nodes) > 0 {
		defer end(nodes[1:], why)
		nodes[0].hold.End(why)
	}
}

// Context is the one to work under: it ends when a lease is lost, or all are released, and context.Cause says which: ErrSessionLost,
// ErrNodeDeleted, ErrSuspended, ErrReleased, or framework.ErrClosed. When the session is lost it ends before the servers can give the lease to
// somebody else. It has the values of the context that the lease was acquired with, but neither its end nor its deadline.
//
// Its Err also looks at the clock, like Valid; that of contexts derived from it does not.
func (l *Lease) Context() context.Context { return l.nodes[0].hold.Context() }

// Valid says, from the clock, whether all the leases are certainly held now. Ask it after anything that may have taken long, right before what
// must not happen without a lease.
func (l *Lease) Valid() bool {
	if l.released.Load() {
		return false
	}
	for _, n := range l.nodes {
		if !n.hold.Valid() {
			return false
		}
	}
	return true
}

// Remaining is for how long the leases are certainly held if nothing is heard of the servers any more; 0 if they are not. It is renewed all the
// time while the connection works.
func (l *Lease) Remaining() time.Duration {
	if !l.Valid() {
		return 0
	}
	return l.nodes[0].hold.Remaining()
}

// Count is how many leases these are.
func (l *Lease) Count() int { return len(l.nodes) }

// ID is a number that no other lease has, of this semaphore or any other in the ensemble: the czxid of the first node, as in
// [Participant]. It is no fencing token: leases that came earlier are as good.
func (l *Lease) ID() int64 { return l.nodes[0].czxid }

// Nodes are the names of the nodes, one for each lease.
func (l *Lease) Nodes() []string {
	names := make([]string, len(l.nodes))
	for i, n := range l.nodes {
		names[i] = n.name
	}
	return names
}

// Paths are the paths of the nodes, one for each lease.
func (l *Lease) Paths() []string {
	paths := make([]string, len(l.nodes))
	for i, n := range l.nodes {
		paths[i] = n.path
	}
	return paths
}

// Data reads what the first node contains: the data of [WithLeaseData], unless somebody has set other data since. ErrNoNode if the node is gone.
//
// Corresponds to getData of Curator's Lease.
func (l *Lease) Data(ctx context.Context) ([]byte, error) {
	data, err := l.view.GetData().ForPath(ctx, l.nodes[0].path)
	return data, l.s.failed("lease data", err)
}

// Guards are operations for [framework.Client.Transaction], one for each lease, of any client of the same
// ensemble: with all of them in it, the transaction is executed only while all the leases are held, and
// otherwise fails with ErrNoNode. It decides at the server, at the moment of the commit: no clock is involved.
func (l *Lease) Guards() []framework.TransactionOp {
	ops := make([]framework.TransactionOp, len(l.nodes))
	for i, n := range l.nodes {
		ops[i] = l.s.client.TransactionOp().Check().ForPath(n.path)
	}
	return ops
}

// Release gives the leases back, all of them. The context ends, at once, and the nodes are deleted, by their own, unique names, in one flight. Release
// waits until the server has confirmed that. When ctx ends first, or the connection is lost, the client finishes the job for as long as the
// session lives, and the error says why Release did not wait.
//
// A second Release returns ErrReleased and does nothing. If a lease was lost before, the error says how (ErrSessionLost, …): what was done
// with it may have been one too many at its end. Release is needed then, too: the nodes may still be there.
func (l *Lease) Release(ctx context.Context) (err error) {
	if ctx == nil {
		return l.s.failed("release", framework.ErrNilContext)
	}
	if l.released.Swap(true) {
		return l.s.failed("release", ErrReleased)
	}
	l.cleanup.Stop()
	for _, stop := range l.apart {
		stop()
	}
	lost, why := l.lost(), error(framework.ErrReleased)
	if lost != nil {
		why = lost // one of them may have heard of it and the first one, whose context is the lease's, not yet
	}
	defer func() {
		// What is left to be removed goes with the session, or the client removes it; a loss is what matters.
		if err = l.remove(ctx); lost != nil {
			err = lost
		}
		err = l.s.failed("release", err)
	}()
	end(l.nodes, why)
	return nil
}

// remove deletes the nodes.
func (l *Lease) remove(ctx context.Context) error {
	quietly := l.view.Delete().Quietly().Guaranteed()
	deletes := make([]*framework.Pending[struct{}], len(l.nodes))
	for i, n := range l.nodes {
		deletes[i] = quietly.InBackground().ForPath(ctx, n.path)
	}
	var failed error
	for i, d := range deletes {
		_, err := queue.Result(d)
		if framework.Retryable(err) && ctx.Err() == nil { // once more, this time as the retry policy says
			err = quietly.ForPath(ctx, l.nodes[i].path)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// lost returns how a lease was lost, nil if none was.
func (l *Lease) lost() error {
	for _, n := range l.nodes {
		if n.hold.Valid() {
			continue
		}
		if cause := context.Cause(n.hold.Context()); !errors.Is(cause, ErrReleased) {
			return cause
		}
	}
	return nil
}
