package semaphore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// errLeaseGone says that somebody has deleted a lease's node before it was known to be a lease.
var errLeaseGone = fmt.Errorf("while the lease was taken: %w", framework.ErrNodeDeleted)

// try takes n leases if nobody is in line and they are free; else ErrNotAcquired. Two flights: a look, and the leap. It does without the
// line's lock, since [sight.judge] is safe without; whoever loses a race to somebody has taken nothing.
func (s *Semaphore) try(ctx context.Context, n int) (lease *Lease, err error) {
	err = queue.Try(ctx, s.client, func(ctx context.Context, session *framework.Session) (err error) {
		if err = s.lookAhead(ctx, session.Client(), n); err == nil {
			lease, err = s.take(ctx, session, n)
		}
		return err
	})
	return lease, err
}

// lookAhead is the look before the leap: one flight, no write.
func (s *Semaphore) lookAhead(ctx context.Context, view *framework.Client, n int) error {
	synced := view.Sync().InBackground().ForPath(ctx, s.path)
	lined := view.GetChildren().InBackground().ForPath(ctx, s.line.Dir)
	seen, err := s.look(ctx, view, false)
	if _, syncErr := queue.Result(synced); err == nil {
		err = syncErr
	}
	line, lineErr := queue.Result(lined)
	if err == nil && !errors.Is(lineErr, framework.ErrNoNode) {
		err = lineErr
	}
	if err != nil {
		return err
	}
	if first := s.line.Order.Taken(line.Names); first != "" {
		return fmt.Errorf("%w: somebody is in line (%s)", ErrNotAcquired, plain.Text(first))
	}
	return seen.room(n)
}

// room returns nil if n more leases are free.
func (s sight) room(n int) error {
	if taken := s.taken(); n > s.max-taken {
		return fmt.Errorf("%w: %d wanted, %d of %d taken", ErrNotAcquired, n, taken, s.max)
	}
	return nil
}

// glance is a look that is under way.
type glance struct {
	leases *framework.Pending[framework.ChildrenResult]
	count  *framework.Pending[framework.DataResult] // nil without a shared count
}

// begin queues the requests of a look.
func (s *Semaphore) begin(ctx context.Context, view *framework.Client, watch bool) (g glance) {
	children, data := view.GetChildren().InBackground(), view.GetData().InBackground()
	if watch {
		children, data = view.GetChildren().WithWatch().InBackground(), view.GetData().WithWatch().InBackground()
	}
	g.leases = children.ForPath(ctx, s.leases.Dir)
	if s.count != nil {
		g.count = data.ForPath(ctx, s.count.path)
	}
	return g
}

// end waits for the answers. A missing directory has no leases in it. A missing count is ErrNoNode.
func (s *Semaphore) end(g glance) (seen sight, err error) {
	list, err := queue.Result(g.leases)
	if errors.Is(err, framework.ErrNoNode) {
		err = nil
	}
	seen.children, seen.max, seen.watches[0] = list.Names, s.max, list.Watch
	if g.count != nil {
		node, countErr := queue.Result(g.count)
		seen.watches[1] = node.Watch
		if err == nil {
			err = countErr
		}
		if err == nil {
			var n int32
			n, err = decode(node.Data)
			seen.max = max(int(n), 0)
		}
	}
	if err != nil {
		seen.stop()
		return sight{}, err
	}
	if name := seen.foreign(); name != "" && s.warnedForeign.CompareAndSwap(false, true) {
		s.client.Logger().Warn("a child of this directory is no lease; it is ignored here, but takes a lease away from Curator for Java: delete it",
			"path", s.leases.Dir, "child", name)
	}
	return seen, nil
}

// look looks once, and makes the shared count if it is missing.
func (s *Semaphore) look(ctx context.Context, view *framework.Client, watch bool) (sight, error) {
	for {
		seen, err := s.end(s.begin(ctx, view, watch))
		if s.count == nil || !errors.Is(err, framework.ErrNoNode) {
			return seen, err
		}
		if err := s.count.make(ctx, view, int32(s.max)); err != nil {
			return sight{}, fmt.Errorf("the shared count is missing: %w", err)
		}
	}
}

// lookPatiently looks, however long the connection is away: what there is already lives as long as the session does.
func (s *Semaphore) lookPatiently(ctx context.Context, view *framework.Client, watch bool) (seen sight, err error) {
	err = queue.Patiently(ctx, view, func(ctx context.Context) error {
		seen, err = s.look(ctx, view, watch)
		return err
	})
	return seen, err
}

// node is the node of a lease.
type node struct {
	path, name string
	czxid      int64
	hold       *framework.Hold
}

// take makes n lease nodes, and they are leases if they are within the limit; else ErrNotAcquired. One flight, if nothing comes in between. Whatever
// the error, the nodes are on their way out.
func (s *Semaphore) take(ctx context.Context, session *framework.Session, n int) (*Lease, error) {
	view := session.Client().ForRecipes()
	create := view.Create().WithMode(framework.EphemeralSequential).WithProtection().CreatingParentContainersIfNeeded().InBackground()
	nodes := make([]node, 0, n)
	var creates []*framework.Pending[framework.CreateResult] // under way
	taken := false
	defer func() { // also when a hook panics
		if taken {
			return
		}
		giveBack(view, nodes...)
		for _, c := range creates {
			c.Then(func(made framework.CreateResult, err error) {
				if err == nil {
					giveBack(view, node{path: made.Path})
				}
			})
		}
	}()
	var seen sight
	var unseen error
	err := s.client.Retry(ctx, func(ctx context.Context) (failed error) {
		for range n - len(nodes) {
			creates = append(creates, create.ForPath(ctx, zkpath.Join(s.leases.Dir, leaseName), s.data))
		}
		seeing := s.begin(ctx, view, false)
		for _, c := range creates {
			made, err := queue.Result(c)
			if err == nil {
				nodes = append(nodes, node{path: made.Path, name: zkpath.Base(made.Path), czxid: made.Stat.Czxid})
			} else if failed == nil {
				failed = err
			}
		}
		creates = nil
		seen, unseen = s.end(seeing)
		return failed
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.czxid, b.czxid) }) // the first creates may have waited for the directory
	names := make([]string, n)
	for i := range nodes {
		names[i] = nodes[i].name
	}
	// The first list may be an error, or too old: when the directory was missing, or the connection was lost in between. The second one was
	// asked for when all creates were confirmed.
	for fresh := false; ; fresh = true {
		if unseen == nil {
			switch seen.judge(names) {
			case granted:
				lease, err := s.hold(ctx, session, nodes)
				taken = err == nil
				if !errors.Is(err, framework.ErrSuspended) {
					return lease, err
				}
				// With a policy for which a lost connection is a loss.
				if err := session.WaitQuorum(ctx); err != nil {
					return nil, err
				}
			case full:
				return nil, fmt.Errorf("%w: %d wanted, others were faster", ErrNotAcquired, n)
			case exhausted:
				return nil, fmt.Errorf("%w (%s)", ErrSequenceExhausted, plain.Text(names[n-1]))
			case missing:
				if fresh {
					return nil, errLeaseGone
				}
			}
		}
		if seen, unseen = s.lookPatiently(ctx, view, false); unseen != nil {
			return nil, unseen
		}
	}
}

// giveBack hands nodes to the session layer, which deletes them for certain.
func giveBack(view *framework.Client, nodes ...node) {
	for _, node := range nodes {
		view.Delete().Quietly().Guaranteed().InBackground().ForPath(context.Background(), node.path)
	}
}
