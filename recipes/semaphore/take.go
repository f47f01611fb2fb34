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
var errLeaseGone = fmt.Errorf("while the lease was being acquired: %w", framework.ErrNodeDeleted)

// try takes n leases if nobody is in line and they are free; else ErrNotAcquired. Two flights: the first only
// reads. It does without the line's lock, since [snapshot.judge] is safe without: who loses a race has taken
// nothing.
func (s *Semaphore) try(ctx context.Context, n int) (lease *Lease, err error) {
	err = queue.Once(ctx, s.client, func(ctx context.Context, session *framework.Session) (err error) {
		if err = s.precheck(ctx, session.Client(), n); err == nil {
			lease, err = s.take(ctx, session, n)
		}
		return err
	})
	return lease, err
}

// precheck returns ErrNotAcquired if somebody is in line or too few leases are free, with one flight and no
// write.
func (s *Semaphore) precheck(ctx context.Context, view *framework.Client, n int) error {
	synced := view.Sync().InBackground().ForPath(ctx, s.path)
	lined := view.GetChildren().InBackground().ForPath(ctx, s.line.Dir)
	seen, err := s.look(ctx, view, false)
	_, syncErr := queue.Result(synced)
	line, lineErr := queue.Result(lined)
	if err := cmp.Or(err, syncErr, queue.Unless(lineErr, framework.ErrNoNode)); err != nil {
		return err
	}
	if first := s.line.Order.FirstBlocker(line.Names); first != "" {
		return fmt.Errorf("%w: node %s is ahead in the queue", ErrNotAcquired, plain.Text(first))
	}
	return seen.room(n)
}

// pendingLook is a look that is under way.
type pendingLook struct {
	leases *framework.Pending[framework.ChildrenResult]
	count  *framework.Pending[framework.DataResult] // nil without a shared count
}

// beginLook queues the requests of a look.
func (s *Semaphore) beginLook(ctx context.Context, view *framework.Client, watch bool) (p pendingLook) {
	children, data := view.GetChildren().InBackground(), view.GetData().InBackground()
	if watch {
		children, data = view.GetChildren().WithWatch().InBackground(), view.GetData().WithWatch().InBackground()
	}
	p.leases = children.ForPath(ctx, s.leases.Dir)
	if s.count != nil {
		p.count = data.ForPath(ctx, s.count.Path())
	}
	return p
}

// endLook waits for the answers. A missing directory has no leases in it. A missing count is ErrNoNode.
func (s *Semaphore) endLook(p pendingLook) (seen snapshot, err error) {
	list, err := queue.Result(p.leases)
	err = queue.Unless(err, framework.ErrNoNode)
	seen.children, seen.max, seen.watches[0] = list.Names, s.max, list.Watch
	if p.count != nil {
		node, countErr := queue.Result(p.count)
		seen.watches[1] = node.Watch
		if err = cmp.Or(err, countErr); err == nil {
			var n int32
			n, err = s.count.Decode(node.Data)
			seen.max = max(int(n), 0)
		}
	}
	if err != nil {
		seen.stop()
		return snapshot{}, err
	}
	if name := seen.foreign(); name != "" && s.warnedForeign.CompareAndSwap(false, true) {
		s.client.Logger().Warn("a child of this path is not a lease; this client ignores it, but Java "+
			"Curator's clients count it as a lease: delete it", "path", s.leases.Dir, "child", name)
	}
	return seen, nil
}

// look looks once, and makes the shared count if it is missing.
func (s *Semaphore) look(ctx context.Context, view *framework.Client, watch bool) (snapshot, error) {
	for {
		seen, err := s.endLook(s.beginLook(ctx, view, watch))
		if s.count == nil || !errors.Is(err, framework.ErrNoNode) {
			return seen, err
		}
		if _, err := NewCount(view, s.count.Path()).CreateIfMissing(ctx, int32(s.max)); err != nil {
			return snapshot{}, fmt.Errorf("the shared count is missing: %w", err)
		}
	}
}

// lookThroughOutages looks, however long the connection is away: what the caller has lasts as long as the
// session.
func (s *Semaphore) lookThroughOutages(
	ctx context.Context, view *framework.Client, watch bool,
) (seen snapshot, err error) {
	err = queue.ThroughOutages(ctx, view, func(ctx context.Context) error {
		seen, err = s.look(ctx, view, watch)
		return err
	})
	return seen, err
}

// take makes n lease nodes, which are leases if they are within the limit; else ErrNotAcquired. One flight,
// if nothing comes in between. On an error the nodes are on their way out.
func (s *Semaphore) take(ctx context.Context, session *framework.Session, n int) (*Lease, error) {
	view := session.Client().ForRecipes()
	create := view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		CreatingParentContainersIfNeeded().InBackground()
	nodes := make([]*queue.Grant, 0, n)
	var creates []*framework.Pending[framework.CreateResult] // under way
	taken := false
	defer func() { // also when a hook panics
		if taken {
			return
		}
		removeAll(view, nodes)
		for _, c := range creates {
			c.Then(func(made framework.CreateResult, err error) {
				if err == nil {
					queue.Remove(view, made.Path)
				}
			})
		}
	}()
	var seen snapshot
	var unseen error
	err := s.client.Retry(ctx, func(ctx context.Context) (first error) {
		for range n - len(nodes) {
			creates = append(creates, create.ForPath(ctx, zkpath.Join(s.leases.Dir, leaseName), s.leases.Data))
		}
		look := s.beginLook(ctx, view, false)
		for _, c := range creates {
			made, err := queue.Result(c)
			if err == nil {
				name, czxid := zkpath.Base(made.Path), made.Stat.Czxid
				nodes = append(nodes, &queue.Grant{Session: session, Path: made.Path, Name: name, Czxid: czxid})
			}
			first = cmp.Or(first, err)
		}
		creates = nil
		seen, unseen = s.endLook(look)
		return first
	})
	if err != nil {
		return nil, err
	}
	// The first creates may have waited for the directory.
	slices.SortFunc(nodes, func(a, b *queue.Grant) int { return cmp.Compare(a.Czxid, b.Czxid) })
	lease, err := s.settle(ctx, session, nodes, seen, unseen)
	taken = err == nil
	return lease, err
}

// settle decides, by the list that was asked for with the nodes' creates, and by further ones, whether the
// nodes are leases.
func (s *Semaphore) settle(
	ctx context.Context, session *framework.Session, nodes []*queue.Grant, seen snapshot, unseen error,
) (*Lease, error) {
	names := each(nodes, func(n *queue.Grant) string { return n.Name })
	// The first list may be an error, or too old: when the directory was missing, or the connection was lost in
	// between. The second one was asked for when all creates were confirmed.
	for fresh := false; ; fresh = true {
		if unseen == nil {
			switch seen.judge(names) {
			case granted:
				lease, err := s.hold(ctx, session, nodes)
				if !errors.Is(err, framework.ErrSuspended) {
					return lease, err
				}
				// With a policy for which a lost connection is a loss.
				if err := session.WaitQuorum(ctx); err != nil {
					return nil, err
				}
			case full:
				return nil, fmt.Errorf("%w: %d wanted, but other clients were faster",
					ErrNotAcquired, len(nodes))
			case exhausted:
				return nil, fmt.Errorf("%w (%s)", ErrSequenceExhausted, plain.Text(names[len(names)-1]))
			case missing:
				if fresh {
					return nil, errLeaseGone
				}
			}
		}
		if seen, unseen = s.lookThroughOutages(ctx, session.Client().ForRecipes(), false); unseen != nil {
			return nil, unseen
		}
	}
}
