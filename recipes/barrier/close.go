package barrier

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/recipes/internal/line"
)

// close deletes "ready" for a member whose node is gone, unless others are inside. Before that it deletes the abandoned
// nodes, of members that gave up.
//
// A plain delete could open this race:
//  1. Our list shows no member inside.
//  2. Another member removes "ready", and the next round creates it again.
//  3. Our delete of "ready", or its repeat, arrives late, and removes the new node.
//
// Therefore close first marks the node by a change of its data. That changes its version, which is 0 for a new node.
// Then it lists again, and deletes "ready" only with the version of the mark.
func (d *Double) close(ctx context.Context, abandoned ...string) error {
	return line.RetryThrough(ctx, d.client, line.Outages, func(ctx context.Context) error {
		for marked := 0; ; marked++ {
			// On ErrBadVersion another member has marked "ready" after us, and is about to remove it. Start over,
			// since close must not return before "ready" is gone. Pause before that: to mark it again too soon would
			// keep the other member from removing it.
			if err := d.tryClose(ctx, abandoned); !errors.Is(err, framework.ErrBadVersion) {
				return line.IgnoreError(err, framework.ErrNoNode)
			}
			if marked > 0 {
				d.client.Pause(ctx, line.Jittered(time.Millisecond<<min(marked, 8)))
			}
		}
	})
}

func (d *Double) tryClose(ctx context.Context, abandoned []string) error {
	// Delete the nodes first, whether they are listed or not: after that a pending create of one of them is
	// not executed any more. Other members may have left without closing the barrier, since they saw these
	// nodes.
	for _, name := range abandoned {
		if err := d.client.Delete().Quietly().ForPath(ctx, d.childPath(name)); err != nil {
			return err
		}
	}
	names, err := d.client.GetChildren().ForPath(ctx, d.path)
	if err != nil {
		return err
	}
	open, members := splitReady(names)
	if !open || len(members) > 0 {
		return nil
	}
	marked := d.client.SetData().InBackground().ForPath(ctx, d.readyPath(), nil)
	listed := d.client.GetChildren().InBackground().ForPath(ctx, d.path)
	mark, err := line.AwaitResult(marked)
	list, listErr := line.AwaitResult(listed)
	if errors.Is(err, framework.ErrNoAuth) {
		mark.Version, err = -1, nil // no permission to write to another member's node: proceed without the mark
	}
	if err = cmp.Or(err, listErr); err != nil {
		return err
	}
	if _, members := splitReady(list.Names); len(members) > 0 {
		return nil
	}
	return d.client.Delete().WithVersion(mark.Version).ForPath(ctx, d.readyPath())
}

// leaveInBackground has the client delete the node, and close the barrier if no member is inside, and does not wait. The
// client continues until it has succeeded or is closed.
func (m *Member) leaveInBackground() {
	defer m.deleteInBackground() // also if a hook panics or ends the goroutine
	if m.hold != nil {
		m.hold.End(ErrReleased)
	}
}

func (m *Member) deleteInBackground() {
	d := m.d
	// The order matters: our earlier requests, the delete, the list. Then the list shows the other members without
	// ours. But this is certain only after the reply to the delete. If that is lost:
	//  1. The list shows other members, which will leave later.
	//  2. Our pending create is executed after the list.
	//  3. The members that leave rely on our node, as long as it exists, to close the barrier.
	removed := line.QueueDelete(m.view, m.Path())
	listed := d.client.ForRecipes().GetChildren().InBackground().ForPath(context.Background(), d.path)
	removed.Then(func(_ struct{}, err error) {
		switch {
		case errors.Is(err, framework.ErrClosed):
		case err == nil, errors.Is(err, framework.ErrNoAuth):
			listed.Then(m.closeIfLast)
		default:
			d.closeLater(m.name)
		}
	})
}

// closeIfLast closes the barrier unless list, which was requested after the delete of our node, shows that it is closed or
// has other members.
func (m *Member) closeIfLast(list framework.ChildrenResult, err error) {
	open, members := splitReady(list.Names)
	switch {
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, framework.ErrClosed), err == nil && !open:
	case err == nil && len(members) > 0 && !slices.Contains(members, m.name):
	default:
		m.d.closeLater(m.name)
	}
}

// backgroundCloser closes a barrier for members that gave up, on a goroutine of the client, until that has succeeded.
type backgroundCloser struct {
	mu            sync.Mutex
	abandoned     []string // nodes that the goroutine has not taken yet; guarded by mu
	goroutineRuns bool     // the goroutine exists; guarded by mu
}

// closeLater starts to close the barrier for a member that gave up, and does not wait.
func (d *Double) closeLater(name string) {
	c := &d.closer
	c.mu.Lock()
	start := !c.goroutineRuns
	c.abandoned, c.goroutineRuns = append(c.abandoned, name), true
	c.mu.Unlock()
	if start {
		d.client.Spawn(d.closeForAbandoned)
	}
}

func (d *Double) closeForAbandoned(ctx context.Context) {
	var abandoned []string
	for c, failures := &d.closer, 0; ; {
		c.mu.Lock()
		abandoned = append(abandoned, c.abandoned...)
		c.abandoned, c.goroutineRuns = nil, len(abandoned) > 0
		c.mu.Unlock()
		if len(abandoned) == 0 {
			return
		}
		var err error
		returned := apart.Call(func() { err = d.close(ctx, abandoned...) })
		// A hook ended the goroutine, the credentials are refused, or the server has no quorum: try again.
		again := !returned || errors.Is(err, framework.ErrAuthFailed) || errors.Is(err, framework.ErrNotReadOnly)
		if d.client.Err() == nil && again {
			failures++
			_ = line.Backoff(ctx, d.client, failures)
			continue
		}
		if err != nil && !errors.Is(err, framework.ErrClosed) {
			d.client.Logger().Warn("cannot close the double barrier for members that stopped waiting in Enter",
				"path", d.path, "err", err)
		}
		abandoned, failures = nil, 0
	}
}
