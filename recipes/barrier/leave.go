package barrier

import (
	"context"
	"errors"
	"slices"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Leave gives the membership back, and waits until everybody has left who was in the barrier when it began: whoever is not done yet, or
// does not know yet that the barrier has opened. Members that crash have left when their sessions end. Who joins later is not waited for (unless
// somebody who is waits for it): it may be the next round already. Nor is anybody if "ready" is gone when Leave begins: then another member, one with Curator for Java, has
// declared the round over. At the end "ready" is gone, or others are inside who have come meanwhile: the last of them closes the barrier.
//
// The member's context ends at once. When ctx ends first, the member is out all the same: its node is taken back behind the caller's back,
// the others are not held up, and the barrier is closed if nobody is left in it, both as soon as a server can be reached, unless the client is closed before that. The error matches ctx.Err() and context.Cause(ctx). Lost connections and lost sessions are sat out once Leave
// waits (with a session's view that is the end: ErrSessionLost); before that the retry policy decides (ErrNotConnected, ErrConnectionLoss), and the member
// is out as well.
//
// If the membership was lost before, the error says how (ErrSessionLost, ErrNodeDeleted): the others may have gone on without this member.
// They are not waited for then. A second Leave returns ErrReleased and does nothing. ErrClosed when the client is closed meanwhile.
func (m *Member) Leave(ctx context.Context) error {
	if ctx == nil {
		return failed(m.d.path, "leave", framework.ErrNilContext)
	}
	if m.left.Swap(true) {
		return failed(m.d.path, "leave", ErrReleased)
	}
	defer m.d.company.parted()
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
	return failed(m.d.path, "leave", err)
}

// leave follows Curator's order, on which both sides of a mixed barrier rely: the first by name stays and waits for the last, until it is
// alone; the others delete their nodes at once and wait for the first. So nobody returns while a node is left, and every step
// wakes as few as possible.
//
// Its requests are not bound to the session: when that ends while it waits, the node has gone with it, and the others can be waited for
// in the next one.
func (m *Member) leave(ctx context.Context) error {
	var dir framework.Stat
	names, err := m.d.client.GetChildren().StoringStatIn(&dir).ForPath(ctx, m.d.path)
	if unless(err, framework.ErrNoNode) != nil {
		return err
	}
	open, members := split(m.d.children(names))
	if !slices.Contains(members, m.name) {
		if m.session.Context().Err() != nil {
			return context.Cause(m.session.Context())
		}
		return errNotListed
	}
	m.d.company.met(members, m.d.qty)
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
		if names, err = m.d.list(ctx); err != nil {
			return err
		}
		open, members = split(names)
		rest = slices.DeleteFunc(rest, func(name string) bool { return !slices.Contains(members, name) })
		inside = inside && slices.Contains(members, m.name)
	}
	return m.out(ctx, inside, open)
}

// outlive waits until a member is gone, once the own node's removal, if it is under way, is certain: the others wait for that. False
// without an error means that it is time to look again.
func (m *Member) outlive(ctx context.Context, target string, since int64, removed *framework.Pending[struct{}]) (gone bool, err error) {
	watch, gone, err := m.d.watch(ctx, target, since)
	if removed != nil {
		if _, failed := queue.Result(removed); failed != nil && err == nil {
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
	ev, err := next(ctx, m.d.client, watch, m.d.child(target), since)
	return ev.Type == framework.EventNodeDeleted && ev.Path == m.d.child(target), err
}

// out removes what is left: the own node, and "ready" with it, as one, so that neither a member of the next round sees one without the
// other, nor a crash in between leaves the barrier open. Without the own node "ready" may be the next round's.
func (m *Member) out(ctx context.Context, inside, open bool) error {
	if inside && open {
		op := m.d.client.TransactionOp().Delete()
		own, ready := op.ForPath(m.Path()), op.ForPath(m.d.ready())
		// The name is ours alone: a repeat of what was executed is refused as a whole.
		err := queue.Patiently(ctx, m.d.client, func(ctx context.Context) error {
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
		return m.d.shut(ctx)
	}
	return nil
}

// watch arms a watch on a member. None without an error: it is gone, or was made after the transaction since, as a Java member is that has
// entered again, under the same name.
func (d *Double) watch(ctx context.Context, name string, since int64) (watch *framework.Watch, gone bool, err error) {
	var node framework.Stat
	err = queue.Patiently(ctx, d.client, func(ctx context.Context) (err error) {
		// Of a node that is not there getData leaves no watch behind, unlike exists.
		_, watch, err = d.client.GetData().Undecompressed().StoringStatIn(&node).WithWatch().ForPath(ctx, d.child(name))
		return err
	})
	switch {
	case errors.Is(err, framework.ErrNoAuth):
		return d.watchUnseen(ctx, name)
	case errors.Is(err, framework.ErrNoNode):
		return nil, true, nil
	case err == nil && node.Czxid > since:
		watch.Stop()
		return nil, true, nil
	}
	return watch, false, err
}

// watchUnseen is watch for a node that we may not read: a server would not tell us of its deletion. The directory changes with it.
func (d *Double) watchUnseen(ctx context.Context, name string) (watch *framework.Watch, gone bool, err error) {
	var names []string
	err = queue.Patiently(ctx, d.client, func(ctx context.Context) (err error) {
		names, watch, err = d.client.GetChildren().WithWatch().ForPath(ctx, d.path)
		return err
	})
	switch {
	case errors.Is(err, framework.ErrNoNode):
		return nil, true, nil
	case err == nil && !slices.Contains(names, name):
		watch.Stop()
		return nil, true, nil
	}
	return watch, false, err
}

// list reads the directory for somebody who has nothing in any session.
func (d *Double) list(ctx context.Context) (names []string, err error) {
	err = queue.Patiently(ctx, d.client, func(ctx context.Context) error {
		names, err = d.client.GetChildren().ForPath(ctx, d.path)
		return unless(err, framework.ErrNoNode)
	})
	return d.children(names), err
}

// remove deletes a node that may be gone already.
func (d *Double) remove(ctx context.Context, path string) error {
	return queue.Patiently(ctx, d.client, func(ctx context.Context) error {
		return d.client.Delete().Quietly().ForPath(ctx, path)
	})
}

// without returns a copy of names that lacks one.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}
