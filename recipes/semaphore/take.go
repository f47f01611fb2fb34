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
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/retry"
)

// errLeaseDeleted is the error if another client has deleted a lease's node before Acquire had the lease.
var errLeaseDeleted = fmt.Errorf("while the lease was being acquired: %w", framework.ErrNodeDeleted)

// tryWithoutLine takes n leases if they are free and the line is empty; otherwise it returns ErrNotAcquired. It costs two round
// trips; the first only reads. It does not join the line: [leaseSnapshot.judgeNodes] is safe without it, and a caller that
// loses a race has taken nothing. joins means that the caller joins the line after ErrNotAcquired.
func (s *Semaphore) tryWithoutLine(ctx context.Context, n int, joins bool) (lease *Lease, err error) {
	precheck := s.precheck
	if joins {
		precheck = s.sharedPrecheck
	}
	err = line.TryInSession(ctx, s.client, func(ctx context.Context, session *framework.Session) error {
		return precheck(ctx, session, n)
	}, func(ctx context.Context, session *framework.Session) (err error) {
		lease, err = s.createLeases(ctx, session, n, false)
		return err
	})
	return lease, err
}

// precheck returns ErrNotAcquired if the line is not empty or too few leases are free. It costs one round trip and
// writes nothing.
func (s *Semaphore) precheck(ctx context.Context, session *framework.Session, n int) error {
	view := session.Client()
	synced := view.Sync().InBackground().ForPath(ctx, s.path)
	lined := view.GetChildren().InBackground().ForPath(ctx, s.line.Dir)
	seen, err := s.takeSnapshot(ctx, view, false)
	list, lineErr := line.AwaitResult(lined)
	_, syncErr := line.AwaitResult(synced)
	if err := cmp.Or(err, syncErr, line.IgnoreError(lineErr, framework.ErrNoNode)); err != nil {
		return err
	}
	if first := s.line.Order.FirstBlocker(list.Names); first != "" {
		return fmt.Errorf("%w: node %s is ahead in line", ErrNotAcquired, plain.Text(first))
	}
	return seen.checkRoom(n)
}

// sharedPrecheck is precheck for a caller that joins the line after ErrNotAcquired: concurrent callers share its requests,
// and its error contains no details. It reads only the number of nodes in the line, since the caller must only be certain that
// it is empty. Each request is shared by itself, so the reads may follow, instead of the own sync, one that was in flight
// when the caller came. That is early enough: [leaseSnapshot.judgeNodes] is safe without a precheck.
func (s *Semaphore) sharedPrecheck(ctx context.Context, session *framework.Session, n int) error {
	view := session.Client()
	synced := view.Sync().InBackground().Shared(line.MaxInFlight).ForPath(ctx, s.path)
	lined := view.CheckExists().InBackground().Shared(line.MaxInFlight).ForPath(ctx, s.line.Dir)
	look := s.requestSnapshot(ctx, view, false, line.MaxInFlight)
	_, syncErr := line.AwaitResult(synced)
	queued, err := line.AwaitResult(lined)
	if err := cmp.Or(syncErr, line.IgnoreError(err, framework.ErrNoNode)); err != nil {
		return err
	}
	if queued.Stat != nil && queued.Stat.NumChildren > 0 {
		return ErrNotAcquired
	}
	seen, err := s.awaitSnapshot(look)
	if s.count != nil && errors.Is(err, framework.ErrNoNode) {
		seen, err = s.takeSnapshot(ctx, view, false)
	}
	if err != nil {
		return err
	}
	return seen.checkRoom(n)
}

// pendingSnapshot is a look in flight.
type pendingSnapshot struct {
	leases *framework.Pending[framework.ChildrenResult]
	count  *framework.Pending[framework.DataResult] // nil without a shared count
}

// requestSnapshot sends the requests of a look. Unless share is 0, concurrent callers share them.
func (s *Semaphore) requestSnapshot(ctx context.Context, view *framework.Client, watch bool, share int) (p pendingSnapshot) {
	children := view.GetChildren().InBackground().Shared(share)
	data := view.GetData().Undecompressed().InBackground().Shared(share)
	if watch {
		children = view.GetChildren().WithWatch().InBackground()
		data = view.GetData().Undecompressed().WithWatch().InBackground()
	}
	p.leases = children.ForPath(ctx, s.leases.Dir)
	if s.count != nil {
		p.count = data.ForPath(ctx, s.count.Path())
	}
	return p
}

// awaitSnapshot waits for the replies. If the node "leases" is missing, the snapshot has no leases.
// If the shared count is missing, the error is ErrNoNode.
func (s *Semaphore) awaitSnapshot(p pendingSnapshot) (seen leaseSnapshot, err error) {
	list, err := line.AwaitResult(p.leases)
	err = line.IgnoreError(err, framework.ErrNoNode)
	seen.children, seen.dir, seen.max, seen.watches[0] = list.Names, list.Stat, s.max, list.Watch
	if p.count != nil {
		node, countErr := line.AwaitResult(p.count)
		seen.watches[1] = node.Watch
		count, countErr := line.UnpackData(s.client, s.count.Path(), node.Data, countErr)
		if err = cmp.Or(err, countErr); err == nil {
			var n int32
			n, err = s.count.Decode(count)
			seen.max = max(int(n), 0)
		}
	}
	if err != nil {
		seen.stopWatches()
		return leaseSnapshot{}, err
	}
	if name := seen.foreignChild(); name != "" && s.warnedForeign.CompareAndSwap(false, true) {
		s.client.Logger().Warn("a child of this path is not a lease; this client ignores it, but Java "+
			"Curator's clients count it as a lease: delete it", "path", s.leases.Dir, "child", name)
	}
	return seen, nil
}

// takeSnapshot takes a snapshot, and creates the shared count if it is missing. It is repeated as a whole: each of its
// requests is tried once.
func (s *Semaphore) takeSnapshot(ctx context.Context, view *framework.Client, watch bool) (leaseSnapshot, error) {
	for {
		seen, err := s.awaitSnapshot(s.requestSnapshot(ctx, view, watch, 0))
		if s.count == nil || !errors.Is(err, framework.ErrNoNode) {
			return seen, err
		}
		count := NewCount(view.UsingRetry(retry.RetryNTimes{}), s.count.Path())
		if _, err := count.CreateIfMissing(ctx, int32(s.max)); err != nil {
			return leaseSnapshot{}, fmt.Errorf("the shared count is missing: %w", err)
		}
	}
}

// snapshotThroughOutages is takeSnapshot, repeated however long the connection is lost: the caller's nodes last as long
// as the session, so waiting makes sense.
func (s *Semaphore) snapshotThroughOutages(
	ctx context.Context, view *framework.Client, watch bool,
) (seen leaseSnapshot, err error) {
	err = line.RetryThrough(ctx, view, line.Outages, func(ctx context.Context) error {
		seen, err = s.takeSnapshot(ctx, view, watch)
		return err
	})
	return seen, err
}

// createLeases creates n lease nodes, which are leases if they are within the limit. Otherwise with stays it keeps them and
// waits until they are; without, it returns ErrNotAcquired. It costs one round trip if nothing fails. On an error the
// client deletes the nodes.
func (s *Semaphore) createLeases(ctx context.Context, session *framework.Session, n int, stays bool) (*Lease, error) {
	view := session.Client().ForRecipes()
	create := view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		CreatingParentContainersIfNeeded().InBackground()
	nodes := make([]*line.Grant, 0, n)
	var creates []*framework.Pending[framework.CreateResult] // pending
	taken, nodeDeleted := false, false
	defer func() { // also when a hook panics
		if taken {
			return
		}
		if nodeDeleted {
			queueDeletesOfOwn(view, nodes)
		} else {
			queueDeletes(view, nodes)
		}
		for _, c := range creates {
			c.Then(func(made framework.CreateResult, err error) {
				if err == nil {
					line.QueueDelete(view, made.Path)
				}
			})
		}
	}()
	var seen leaseSnapshot
	var unseen error
	err := s.client.Retry(ctx, func(ctx context.Context) (first error) {
		for range n - len(nodes) {
			creates = append(creates, create.ForPath(ctx, zkpath.Join(s.leases.Dir, leaseName), s.leases.Data))
		}
		look := s.requestSnapshot(ctx, view, false, 0)
		for _, c := range creates {
			made, err := line.AwaitResult(c)
			if err == nil {
				name, czxid := zkpath.Base(made.Path), made.Stat.Czxid
				nodes = append(nodes, &line.Grant{Session: session, Path: made.Path, Name: name, Czxid: czxid})
			}
			first = cmp.Or(first, err)
		}
		creates = nil
		seen, unseen = s.awaitSnapshot(look)
		return first
	})
	if err != nil {
		return nil, err
	}
	// The nodes may be out of order: the first creates may have been repeated, after their parent was created.
	slices.SortFunc(nodes, func(a, b *line.Grant) int { return cmp.Compare(a.Czxid, b.Czxid) })
	first := nodeMissing // the list may be an error or too old, if the parent was missing or the connection was lost
	if unseen == nil {
		first = seen.judgeNodes(nodeNames(nodes))
	}
	lease, err := s.settleLeases(ctx, session, nodes, first, stays)
	taken, nodeDeleted = err == nil, errors.Is(err, errLeaseDeleted)
	return lease, err
}

// settleLeases makes a lease of the nodes if they are within the limit. v is the verdict so far, from the list in flight
// with the creates or from the transaction; after nodeMissing further lists decide. Over the limit it waits with stays,
// and otherwise returns ErrNotAcquired.
func (s *Semaphore) settleLeases(
	ctx context.Context, session *framework.Session, nodes []*line.Grant, v leaseVerdict, stays bool,
) (*Lease, error) {
	view, names := session.Client().ForRecipes(), nodeNames(nodes)
	var seen, before leaseSnapshot
	var read map[string]bool
	defer func() { seen.stopWatches() }()
	for fresh := false; ; fresh = true {
		switch v {
		case granted:
			lease, err := s.holdLeases(ctx, session, nodes, stays)
			if !errors.Is(err, framework.ErrSuspended) {
				return lease, err
			}
			// The connection is lost, and the policy is framework.SuspendedIsLoss: wait for it.
			if err := session.WaitQuorum(ctx); err != nil {
				return nil, err
			}
		case overLimit:
			if !stays {
				return nil, fmt.Errorf("%w: %d wanted, but other clients were faster",
					ErrNotAcquired, len(nodes))
			}
			if seen.watches[0] != nil {
				if read == nil {
					read = map[string]bool{}
				}
				if seen.hasSameLeases(before) {
					s.checkOldestLease(ctx, view, seen, read)
				}
				if err := s.waitOverLimit(ctx, session, names[0], seen); err != nil {
					return nil, err
				}
			}
		case numbersExhausted:
			return nil, fmt.Errorf("%w (%s)", ErrSequenceExhausted, plain.Text(names[len(names)-1]))
		case nodeMissing:
			if fresh { // this list was requested after all creates were confirmed
				return nil, errLeaseDeleted
			}
		}
		seen.stopWatches()
		before = seen
		var err error
		if seen, err = s.snapshotThroughOutages(ctx, view, v == overLimit); err != nil {
			return nil, err
		}
		v = seen.judgeNodes(names)
	}
}

// waitOverLimit waits for a change of the leases with a lease's node that is over the limit. It is reported to OnWait and the
// hooks.
func (s *Semaphore) waitOverLimit(ctx context.Context, session *framework.Session, node string, seen leaseSnapshot) error {
	if s.line.OnWait != nil {
		s.line.OnWait(Position{Node: node})
	}
	waited := s.client.Hooks().Wait(ctx, framework.Queue{Recipe: s.leases.Recipe, Path: s.path, Node: node})
	_, err := s.awaitEvent(ctx, session, session.Context(), seen, nil)
	if waited(err); err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w; next for a lease: %d of %d taken", err, min(seen.countTaken(), seen.max), seen.max)
	}
	return err
}
