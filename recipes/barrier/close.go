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
	"github.com/go-curator/curator/recipes/internal/queue"
)

// close removes "ready" for a member whose node is gone, unless others are inside. It also removes the nodes
// of members that were abandoned.
//
// While we have looked and found nobody, another member may have removed "ready" as well, and the next round
// may have opened the barrier anew: that "ready" has to stay, however late our request, or its repeat,
// arrives. It cannot be told from the old one, unless the old one is marked first: by a change of its data,
// and with that of its version, which is 0 for a new node. So: mark it, list after the mark, and remove what
// has that mark.
func (d *Double) close(ctx context.Context, abandoned ...string) error {
	return queue.ThroughOutages(ctx, d.client, func(ctx context.Context) error {
		for marked := 0; ; marked++ {
			// One that has marked it after our mark is about to remove it. Nobody returns before that is done, so look
			// again. Not all at the same time: one that marks it again too soon keeps the other from removing it.
			if err := d.tryClose(ctx, abandoned); !errors.Is(err, framework.ErrBadVersion) {
				return queue.Unless(err, framework.ErrNoNode)
			}
			if marked > 0 {
				d.client.Pause(ctx, queue.Jittered(time.Millisecond<<min(marked, 8)))
			}
		}
	})
}

func (d *Double) tryClose(ctx context.Context, abandoned []string) error {
	// First, and whether they are listed or not: a create that is on its way is not executed after this any
	// more. Other members that leave may have left it to these.
	for _, name := range abandoned {
		if err := d.client.Delete().Quietly().ForPath(ctx, d.child(name)); err != nil {
			return err
		}
	}
	names, err := d.client.GetChildren().ForPath(ctx, d.path)
	if err != nil {
		return err
	}
	open, members := split(names)
	if !open || len(members) > 0 {
		return nil
	}
	marked := d.client.SetData().InBackground().ForPath(ctx, d.ready(), nil)
	listed := d.client.GetChildren().InBackground().ForPath(ctx, d.path)
	mark, err := queue.Result(marked)
	list, listErr := queue.Result(listed)
	if errors.Is(err, framework.ErrNoAuth) {
		mark.Version, err = -1, nil // we may not write to another's: we do without the mark
	}
	if err = cmp.Or(err, listErr); err != nil {
		return err
	}
	if _, members := split(list.Names); len(members) > 0 {
		return nil
	}
	return d.client.Delete().WithVersion(mark.Version).ForPath(ctx, d.ready())
}

// abandon has the client delete the node, and close the barrier if nobody is left in it, without waiting for
// that: however long the servers cannot be reached, unless the client is closed.
func (m *Member) abandon() {
	defer m.abandonNode() // also if a hook does not return
	if m.hold != nil {
		m.hold.End(ErrReleased)
	}
}

func (m *Member) abandonNode() {
	d := m.d
	// In this order, and after everything that we have sent: the list shows what is left without us. That holds
	// only if the removal was answered: until then a create of ours that is on its way may be executed after the
	// list, and the others count on our node for as long as it is there.
	removed := queue.Remove(m.view, m.Path())
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

// closeIfLast closes the barrier if the list after the own removal has nobody else.
func (m *Member) closeIfLast(list framework.ChildrenResult, err error) {
	open, members := split(list.Names)
	switch {
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, framework.ErrClosed), err == nil && !open:
	case err == nil && len(members) > 0 && !slices.Contains(members, m.name):
	default:
		m.d.closeLater(m.name)
	}
}

// closer closes a barrier for abandoned members, on a goroutine of the client's, for as long as that takes.
type closer struct {
	mu        sync.Mutex
	abandoned []string // nodes of those that have come meanwhile; guarded by mu
	running   bool     // there is a goroutine; guarded by mu
}

// closeLater closes the barrier for an abandoned member, and does not wait.
func (d *Double) closeLater(name string) {
	c := &d.closer
	c.mu.Lock()
	start := !c.running
	c.abandoned, c.running = append(c.abandoned, name), true
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
		c.abandoned, c.running = nil, len(abandoned) > 0
		c.mu.Unlock()
		if len(abandoned) == 0 {
			return
		}
		var err error
		returned := apart.Call(func() { err = d.close(ctx, abandoned...) })
		// These pass: when a hook does not end the goroutine, when the credentials are right again, when a member
		// with a quorum is found.
		passes := !returned || errors.Is(err, framework.ErrAuthFailed) || errors.Is(err, framework.ErrNotReadOnly)
		if d.client.Err() == nil && passes {
			failures++
			_ = queue.Backoff(ctx, d.client, failures)
			continue
		}
		if err != nil && !errors.Is(err, framework.ErrClosed) {
			d.client.Logger().Warn("cannot close the double barrier for members that gave up",
				"path", d.path, "err", err)
		}
		abandoned, failures = nil, 0
	}
}
