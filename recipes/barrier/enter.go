package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/retry"
)

var errNotListed = fmt.Errorf("the member's node is gone: %w", ErrNodeDeleted)

func (d *Double) enter(ctx context.Context) (*Member, error) {
	if err := line.CheckCall(ctx, d.client, d.err); err != nil {
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
	entered := false
	defer func() {
		if !entered { // also when a hook, an ACL provider or a retry policy has panicked
			m.leaveInBackground()
		}
	}()
	names, czxid, err := m.createAndList(ctx)
	if err != nil {
		return nil, err
	}
	var own, opening *framework.Watch // both nil if the member does not have to wait, or if they could not be armed
	var ownWatchAfter time.Duration
	if m.hasToWait(names) {
		own, opening = m.armWatches(ctx, czxid)
		defer func() { opening.Stop() }()
	}
	if own != nil {
		ownWatchAfter = -1 // immediately: it joins own
	}
	// From here on the node is watched: if it is deleted, waiting is pointless.
	m.hold, err = session.Hold(ctx, framework.HoldOptions{
		Path: m.Path(), Recipe: "double-barrier", Czxid: czxid, Loss: framework.SessionOnly, Values: ctx,
		Shared: true, OwnWatchAfter: ownWatchAfter,
	})
	own.Stop()
	if err != nil {
		return nil, err
	}
	for {
		open, err := m.openIfEnough(ctx, names)
		if err == nil && !open {
			open, err = m.awaitOpening(ctx, opening)
			opening = nil // awaitOpening has stopped it
			if open {
				m.listMembers()
			}
		}
		if err == nil && open {
			err = m.lossCause()
		}
		if err != nil {
			return nil, err
		}
		if open {
			entered = true
			return m, nil
		}
		if names, _, err = d.listChildren(ctx, m.view); err != nil {
			return nil, err
		}
	}
}

// createAndList creates the node and lists the children, both in flight at the same time.
func (m *Member) createAndList(ctx context.Context) (names []string, czxid int64, err error) {
	create := m.view.Create().WithMode(framework.Ephemeral).CreatingParentContainersIfNeeded().InBackground()
	err = m.view.Retry(ctx, func(ctx context.Context) error {
		created := create.ForPath(ctx, m.Path(), m.d.data)
		listed := m.view.GetChildren().InBackground().ForPath(ctx, m.d.path)
		node, err := line.AwaitResult(created)
		list, listErr := line.AwaitResult(listed)
		// The name is unique: if the node exists, an earlier attempt whose reply was lost has created it.
		if err = line.IgnoreError(err, framework.ErrNodeExists); err != nil {
			return err
		}
		czxid = node.Stat.Czxid
		if listErr == nil {
			names = list.Names
		}
		return nil
	}, retry.WithRetryable(line.IsTransient(m.view)))
	// The list may lack the node, or be lost: if the parent had to be created first, the list was made before
	// the node.
	if err == nil && !slices.Contains(names, m.name) {
		names, _, err = m.d.listChildren(ctx, m.view)
	}
	return names, czxid, err
}

// openIfEnough reports whether the barrier is open, and opens it if there are enough members. names has to contain our
// own node: then the list is newer than our create. So the last of the members needed sees all of them, and opens it.
func (m *Member) openIfEnough(ctx context.Context, names []string) (open bool, err error) {
	open, members := splitReady(names)
	m.d.peers.recordMembers(members, m.d.qty)
	switch {
	case !slices.Contains(members, m.name):
		return false, errNotListed
	case open, len(members) < m.d.qty:
		return open, nil
	}
	create := m.view.Create().InBackground()
	err = line.RetryThrough(ctx, m.view, line.Outages, func(ctx context.Context) error {
		_, err := line.AwaitResult(create.ForPath(ctx, m.d.readyPath(), nil))
		return line.IgnoreError(err, framework.ErrNodeExists)
	})
	if errors.Is(err, framework.ErrNoNode) {
		return false, errNotListed // the parent is gone, and so is the member's node
	}
	return err == nil, err
}

// hasToWait reports whether the barrier is not open, and needs more members than those in names, which has to contain our
// own node.
func (m *Member) hasToWait(names []string) bool {
	open, members := splitReady(slices.Clone(names))
	return !open && len(members) < m.d.qty && slices.Contains(members, m.name)
}

// armWatches arms the watches on our own node, which is for the hold, and on the creation of "ready", with one request.
// Nothing is read: the list has just shown our node without "ready", and a watch whose node is different by now fires
// immediately. If that fails, both are nil: then awaitOpening and the hold read the nodes.
func (m *Member) armWatches(ctx context.Context, czxid int64) (own, opening *framework.Watch) {
	if czxid == 0 || !m.view.ReadsItsOwn(m.Path()) {
		return nil, nil
	}
	watches, err := line.AwaitResult(m.session.Arm(ctx, czxid, []string{m.Path()}, []string{m.d.readyPath()}))
	if err != nil {
		return nil, nil
	}
	return watches[0], watches[1]
}

// awaitOpening waits until the barrier is opened. watch is armed on the creation of "ready"; if it is nil, awaitOpening
// arms one. The event that "ready" was created is enough, even if "ready" has been deleted since: our node existed before
// the watch was armed, so the others have counted this member. If open is false and err is nil, the caller lists again.
func (m *Member) awaitOpening(ctx context.Context, watch *framework.Watch) (open bool, err error) {
	if watch == nil {
		var found *framework.Stat
		err = line.RetryThrough(ctx, m.view, line.Outages, func(ctx context.Context) (err error) {
			found, watch, err = m.view.CheckExists().WithWatch().ForPath(ctx, m.d.readyPath())
			return err
		})
		if nodeExists(found, err) {
			watch.Stop()
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	defer watch.Stop()
	// A newer server sends no event if this client has no READ permission on "ready".
	checkOpen := func() (framework.Event, bool) {
		found, err := m.view.CheckExists().ForPath(ctx, m.d.readyPath())
		return framework.Event{Type: framework.EventNodeCreated}, nodeExists(found, err)
	}
	ev, err := line.AwaitEvent(ctx, m.view, watch, m.hold.Context().Done(), line.SessionTimeoutInterval(m.view), checkOpen)
	if err != nil { // ctx has ended, but the event may have come at the same time
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
	return false, m.lossCause()
}

// nodeExists reports whether the reply to exists means that the node exists. Without READ permission newer servers
// refuse the request only if it does.
func nodeExists(found *framework.Stat, err error) bool {
	return err == nil && found != nil || errors.Is(err, framework.ErrNoAuth)
}

// listMembers lists the members in the background, unless an earlier list of this Double has shown whether
// there are Java members.
func (m *Member) listMembers() {
	if d := m.d; d.peers.isUndecided() {
		listed := m.view.GetChildren().InBackground().ForPath(context.Background(), d.path)
		listed.Then(func(list framework.ChildrenResult, err error) {
			if err == nil {
				_, members := splitReady(list.Names)
				d.peers.recordMembers(members, d.qty)
			}
		})
	}
}
