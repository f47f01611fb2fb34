package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
	"github.com/go-curator/curator/retry"
)

var errNotListed = fmt.Errorf("the member's node is gone: %w", ErrNodeDeleted)

func (d *Double) enter(ctx context.Context) (*Member, error) {
	if err := queue.Ready(ctx, d.client, d.err); err != nil {
		return nil, err
	}
	if err := d.peers.awaitReentry(ctx, d.client); err != nil {
		return nil, err
	}
	session, err := d.client.SessionSoon(ctx)
	if err != nil {
		return nil, err
	}
	m := &Member{d: d, session: session, view: session.Client().ForRecipes(), name: zkpath.NewGUID()}
	in := false
	defer func() {
		if !in { // also when a hook, an ACL provider or a retry policy has panicked
			m.abandon()
		}
	}()
	names, czxid, err := m.join(ctx)
	if err != nil {
		return nil, err
	}
	// From here on the node is watched: without it there is no point in waiting.
	m.hold, err = session.Hold(ctx, framework.HoldOptions{
		Path: m.Path(), Recipe: "double-barrier", Czxid: czxid, Loss: framework.SessionOnly, Values: ctx,
	})
	if err != nil {
		return nil, err
	}
	for {
		open, err := m.decide(ctx, names)
		if err == nil && !open {
			if open, err = m.await(ctx); open {
				m.lookAround()
			}
		}
		if err == nil && open {
			err = m.lost()
		}
		if err != nil {
			return nil, err
		}
		if open {
			in = true
			return m, nil
		}
		if names, err = d.list(ctx, m.view); err != nil {
			return nil, err
		}
	}
}

// join creates the node and lists the directory, in one flight.
func (m *Member) join(ctx context.Context) (names []string, czxid int64, err error) {
	create := m.view.Create().WithMode(framework.Ephemeral).CreatingParentContainersIfNeeded().InBackground()
	err = m.view.Retry(ctx, func(ctx context.Context) error {
		created := create.ForPath(ctx, m.Path(), m.d.data)
		listed := m.view.GetChildren().InBackground().ForPath(ctx, m.d.path)
		node, err := queue.Result(created)
		list, listErr := queue.Result(listed)
		// The name is ours alone: if it exists, an attempt before this one has made it and its reply was lost.
		if err = queue.Unless(err, framework.ErrNodeExists); err != nil {
			return err
		}
		czxid = node.Stat.Czxid
		if listErr == nil {
			names = list.Names
		}
		return nil
	}, retry.WithRetryable(queue.Transient(m.view)))
	// The list came before the node if the directory had to be made first, and it may have been lost.
	if err == nil && !slices.Contains(names, m.name) {
		names, err = m.d.list(ctx, m.view)
	}
	return names, czxid, err
}

// decide says whether the barrier is open, and opens it if there are enough members. A list that has the own
// node in it was made after the own create: of those that complete the number at least the last one sees that
// it is complete.
func (m *Member) decide(ctx context.Context, names []string) (open bool, err error) {
	open, members := split(names)
	m.d.peers.seen(members, m.d.qty)
	switch {
	case !slices.Contains(members, m.name):
		return false, errNotListed
	case open, len(members) < m.d.qty:
		return open, nil
	}
	create := m.view.Create().InBackground()
	err = queue.ThroughOutages(ctx, m.view, func(ctx context.Context) error {
		_, err := queue.Result(create.ForPath(ctx, m.d.ready(), nil))
		return queue.Unless(err, framework.ErrNodeExists)
	})
	if errors.Is(err, framework.ErrNoNode) {
		return false, errNotListed // the directory is gone, so the node is
	}
	return err == nil, err
}

// await waits until the barrier is opened. That event is enough: our node was there before the watch, so this
// member is one of those for whom it was opened, whatever has become of them, and of "ready", since. False
// without an error means that it is time to look again.
func (m *Member) await(ctx context.Context) (open bool, err error) {
	var found *framework.Stat
	var watch *framework.Watch
	err = queue.ThroughOutages(ctx, m.view, func(ctx context.Context) (err error) {
		found, watch, err = m.view.CheckExists().WithWatch().ForPath(ctx, m.d.ready())
		return err
	})
	if err != nil {
		return false, err
	}
	defer watch.Stop()
	if found != nil {
		return true, nil
	}
	// A newer server drops the event if this client may not READ "ready". To see that it is there one needs no
	// right.
	look := func() (framework.Event, bool) {
		found, err := m.view.CheckExists().ForPath(ctx, m.d.ready())
		return framework.Event{Type: framework.EventNodeCreated}, err == nil && found != nil
	}
	ev, err := queue.Await(ctx, m.view, watch, m.hold.Context().Done(), queue.PerTimeout(m.view), look)
	if err != nil { // ctx has ended; perhaps the event came at the same time
		select {
		case ev = <-watch.C:
		default:
		}
		if ev.Type == framework.EventNodeCreated {
			return true, nil
		}
		return false, err
	}
	switch ev.Type {
	case framework.EventNodeCreated:
		return true, nil
	case framework.EventEnd:
		return false, ev.Err
	}
	return false, m.lost()
}

// lookAround finds out, once for all rounds and without delaying anybody, who the other members are.
func (m *Member) lookAround() {
	if d := m.d; d.peers.unknown() {
		listed := m.view.GetChildren().InBackground().ForPath(context.Background(), d.path)
		listed.Then(func(list framework.ChildrenResult, err error) {
			if err == nil {
				_, members := split(list.Names)
				d.peers.seen(members, d.qty)
			}
		})
	}
}
