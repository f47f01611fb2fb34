package barrier

import (
	"context"
	"errors"
	"slices"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Leave gives the membership back, and waits for the members that are inside when it begins, also those that
// do not know yet that the barrier has opened. Members that crash have left when their sessions end. Later
// arrivals are not waited for (unless a member that is waited for waits for them): they may be the next round
// already. If "ready" is gone when Leave begins, another member, one with Curator for Java, has declared the
// round over, and nobody is waited for. At the end "ready" is gone, or others are inside that have come
// meanwhile: the last of them closes the barrier.
//
// The member's context ends at once. When ctx ends first, the member is out all the same: the client deletes
// its node, and closes the barrier if nobody is left in it, as soon as a server can be reached, unless the
// client is closed before that. The error matches ctx.Err() and context.Cause(ctx). Before Leave waits the
// retry policy decides how long to try: then ErrNotConnected or ErrConnectionLoss, and the member is out as
// well. After that it waits through lost connections and lost sessions (with a session's view that is the
// end: ErrSessionLost).
//
// If the membership was lost before, the error says how (ErrSessionLost, ErrNodeDeleted): the others may have
// gone on without this member, and are not waited for. A second Leave returns ErrReleased and does nothing.
// ErrClosed when the client is closed meanwhile.
func (m *Member) Leave(ctx context.Context) error {
	if ctx == nil {
		return wrap(m.d.path, "leave", framework.ErrNilContext)
	}
	if m.left.Swap(true) {
		return wrap(m.d.path, "leave", ErrReleased)
	}
	defer m.d.peers.leaving()
	err := m.lost()
	out := false
	defer func() {
		if !out { // also when a hook or a retry policy has panicked
			m.abandon()
		}
	}()
	m.hold.End(ErrReleased)
	if err == nil {
		err = queue.Ready(ctx, m.d.client, nil)
	}
	if err == nil {
		err = m.leave(ctx)
	}
	out = err == nil
	return wrap(m.d.path, "leave", err)
}

// leave follows Curator's order, on which both sides of a mixed barrier rely: the first by name stays and
// waits for the last, until it is alone; the others delete their nodes at once and wait for the first. So
// nobody returns while a node is left, and every step wakes as few as possible.
//
// Its requests are not bound to the session: when that ends while it waits, the node has gone with it, and
// the others can be waited for in the next one.
func (m *Member) leave(ctx context.Context) error {
	var dir framework.Stat
	names, err := m.d.client.GetChildren().StoringStatIn(&dir).ForPath(ctx, m.d.path)
	if queue.Unless(err, framework.ErrNoNode) != nil {
		return err
	}
	open, members := split(names)
	if !slices.Contains(members, m.name) {
		if m.session.Context().Err() != nil {
			return context.Cause(m.session.Context())
		}
		return errNotListed
	}
	m.d.peers.seen(members, m.d.qty)
	rest := without(members, m.name)
	if !open {
		rest = nil
	}
	inside := true // our node is there
	for len(rest) > 0 {
		target := rest[0]
		var removed *framework.Pending[struct{}]
		switch {
		case inside && m.name < target:
			target = rest[len(rest)-1]
		case inside:
			removed = m.d.client.Delete().Quietly().Guaranteed().InBackground().ForPath(ctx, m.Path())
			inside = false
		}
		gone, err := m.outlive(ctx, target, dir.Pzxid, removed)
		if err != nil {
			return err
		}
		if gone {
			if rest = without(rest, target); len(rest) == 0 {
				break
			}
		}
		if names, err = m.d.list(ctx, m.d.client); err != nil {
			return err
		}
		open, members = split(names)
		rest = slices.DeleteFunc(rest, func(name string) bool { return !slices.Contains(members, name) })
		inside = inside && slices.Contains(members, m.name)
	}
	return m.out(ctx, inside, open)
}

// outlive waits until a member is gone, once the own node's removal, if it is under way, is certain: the
// others wait for that. False without an error means that it is time to look again.
func (m *Member) outlive(
	ctx context.Context, target string, since int64, removed *framework.Pending[struct{}],
) (gone bool, err error) {
	watch, gone, err := m.d.watch(ctx, target, since)
	if removed != nil {
		if _, failure := queue.Result(removed); failure != nil && err == nil {
			err = m.d.remove(ctx, m.Path())
		}
	}
	switch {
	case watch == nil:
		return gone, err
	case err != nil:
		watch.Stop()
		return false, err
	}
	ev, err := awaitDeletion(ctx, m.d.client, watch, m.d.child(target), since)
	return ev.Type == framework.EventNodeDeleted && ev.Path == m.d.child(target), err
}

// out removes what is left: the own node, and "ready" with it, as one, so that neither a member of the next
// round sees one without the other, nor a crash in between leaves the barrier open. Without the own node
// "ready" may be the next round's.
func (m *Member) out(ctx context.Context, inside, open bool) error {
	if inside && open {
		op := m.d.client.TransactionOp().Delete()
		own, ready := op.ForPath(m.Path()), op.ForPath(m.d.ready())
		// The name is ours alone: a repeat of what was executed is refused as a whole.
		err := queue.ThroughOutages(ctx, m.d.client, func(ctx context.Context) error {
			_, err := m.d.client.Transaction(ctx, own, ready)
			return err
		})
		if err == nil {
			return nil
		}
		// Somebody was faster with one of them, or it was executed and its reply lost.
	}
	if inside {
		if err := m.d.remove(ctx, m.Path()); err != nil {
			return err
		}
	}
	if open {
		return m.d.close(ctx)
	}
	return nil
}

// watch arms a watch on a member. No watch without an error: it is gone, or was made after the transaction
// since, as that of a Java member that has entered again, under the same name.
func (d *Double) watch(
	ctx context.Context, name string, since int64,
) (watch *framework.Watch, gone bool, err error) {
	err = queue.ThroughOutages(ctx, d.client, func(ctx context.Context) (err error) {
		// Unlike exists, getData leaves no watch on a node that is not there.
		var node framework.Stat
		read := d.client.GetData().Undecompressed().StoringStatIn(&node).WithWatch()
		_, watch, err = read.ForPath(ctx, d.child(name))
		gone = node.Czxid > since
		if errors.Is(err, framework.ErrNoAuth) {
			// A server does not tell of the deletion of a node that the client may not read. The directory changes
			// with it.
			var names []string
			names, watch, err = d.client.GetChildren().WithWatch().ForPath(ctx, d.path)
			gone = !slices.Contains(names, name)
		}
		return err
	})
	switch {
	case errors.Is(err, framework.ErrNoNode):
		return nil, true, nil
	case err == nil && gone:
		watch.Stop()
		return nil, true, nil
	}
	return watch, false, err
}

func (d *Double) remove(ctx context.Context, path string) error {
	return queue.ThroughOutages(ctx, d.client, func(ctx context.Context) error {
		return d.client.Delete().Quietly().ForPath(ctx, path)
	})
}

// without returns a copy of names that lacks one.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}
