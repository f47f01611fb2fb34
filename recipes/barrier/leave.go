package barrier

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Leave ends the membership, and waits until all members that are inside when it begins have left too.
//
//   - These include members that have not received the event of the opening yet.
//   - A member that crashes has left when its session ends. A node without a session is a member until a client
//     deletes it, also for Java; Leave logs it when it waits for it.
//   - Leave does not wait for members that enter later: they may belong to the next round. (But a member that
//     it waits for may wait for them.)
//   - If "ready" is gone when Leave begins, a member with Curator for Java has declared the round over. Leave then
//     waits for no member.
//
// When Leave returns nil, "ready" is gone, or members that entered since are inside; the last of these closes the
// barrier.
//
// The member's context ends immediately. When ctx ends first, the member has left nevertheless: as soon as a server
// can be reached, the client deletes the node, and closes the barrier if no member is inside, unless the client is
// closed before that. The error matches ctx.Err() and context.Cause(ctx). For the first list the retry policy limits
// the attempts; the error after the last is ErrNotConnected or ErrConnectionLoss, and the member has left
// nevertheless. From then on Leave waits through lost connections and lost sessions. If the client is the view of a
// session, the loss of that session ends it with ErrSessionLost.
//
// If the membership was lost before, the error is the cause (ErrSessionLost, ErrNodeDeleted), and Leave waits for no
// member: the others may have left without this one. A second Leave returns ErrReleased and does nothing. If the
// client is closed first, the error is ErrClosed.
func (m *Member) Leave(ctx context.Context) error {
	if ctx == nil {
		return wrapError(m.d.path, "leave", framework.ErrNilContext)
	}
	if m.hasLeft.Swap(true) {
		return wrapError(m.d.path, "leave", ErrReleased)
	}
	defer m.d.peers.recordLeave()
	err := m.lossCause()
	completed := false
	defer func() {
		if !completed { // also when a hook or a retry policy has panicked
			m.leaveInBackground()
		}
	}()
	m.hold.End(ErrReleased)
	if err == nil {
		err = line.CheckCall(ctx, m.d.client, nil)
	}
	if err == nil {
		err = m.leaveInOrder(ctx)
	}
	completed = err == nil
	return wrapError(m.d.path, "leave", err)
}

// leaveInOrder follows Curator's order: Go and Java members of one barrier rely on it. The member with the first name
// keeps its node and waits for the member with the last name, until it is alone. The others delete their nodes
// immediately and wait for the first. So no member returns while another member's node exists, and every step wakes as
// few members as possible.
//
// Its requests are not bound to the session: if the session ends first, the node is gone with it, and leaveInOrder
// continues to wait for the others in the next session.
func (m *Member) leaveInOrder(ctx context.Context) error {
	var first framework.Stat // of the directory
	names, err := m.d.client.GetChildren().StoringStatIn(&first).ForPath(ctx, m.d.path)
	if line.IgnoreError(err, framework.ErrNoNode) != nil {
		return err
	}
	open, members := splitReady(names)
	if !slices.Contains(members, m.name) {
		if m.session.Context().Err() != nil {
			return context.Cause(m.session.Context())
		}
		return errNotListed
	}
	m.d.peers.recordMembers(members, m.d.qty)
	rest := withoutName(members, m.name)
	if !open {
		rest = nil
	}
	inside := true // our node exists
	dir := first
	for len(rest) > 0 {
		target, mark := rest[0], ""
		var removed *framework.Pending[struct{}]
		switch {
		case inside && m.name < target:
			target = rest[len(rest)-1]
		case inside:
			removed = m.d.client.Delete().Quietly().Guaranteed().InBackground().ForPath(ctx, m.Path())
			inside = false
			if zkpath.IsOurGUID(target) && m.d.client.AllMayRead(m.Path()) { // then this client may also read target's
				mark = m.d.closingMark(target, first)
			}
		}
		gone, closed, err := m.awaitMemberGone(ctx, target, first.Pzxid, mark, removed)
		if err != nil || closed {
			return err
		}
		if gone {
			rest = withoutName(rest, target)
		}
		if len(rest) == 0 && !inside {
			break
		}
		if names, dir, err = m.d.listChildren(ctx, m.d.client); err != nil {
			if len(rest) == 0 { // it was only to leave a mark
				members = nil
				break
			}
			return err
		}
		open, members = splitReady(names)
		rest = slices.DeleteFunc(rest, func(name string) bool { return !slices.Contains(members, name) })
		inside = inside && slices.Contains(members, m.name)
	}
	mark := ""
	if inside && len(members) == 1 {
		mark = m.d.closingMark(m.name, dir)
	}
	return m.deleteNodeAndReady(ctx, inside, open, mark)
}

// closingMark returns the path of the mark that the member with the first name leaves when it closes the barrier, after a
// list that has shown its own node alone. dir is the directory's Stat in that list. The mark is created and deleted in
// the closing transaction, so it is never visible, but fires the watches of the members that wait for its creation.
//
// After the event all members of such a member's own first list are gone. Proof: the path has the number of
// children that were ever created in the directory, so between the two lists no child was created. Then the first member's list,
// which has shown no other node, was made after this member's node was deleted, and that was after its own first list.
// A session that ends, a deletion by hand and a member that gives up leave no mark.
func (d *Double) closingMark(first string, dir framework.Stat) string {
	// A Stat's cversion counts creates and deletes.
	created := (int64(dir.Cversion) + int64(dir.NumChildren)) / 2
	return d.childPath(first + "-closed-" + strconv.FormatInt(created, 10))
}

// awaitMemberGone waits until the node of the member target is gone. Before that it waits for removed, the pending delete
// of our own node (nil if there is none), and repeats it if it has failed, since the others wait for it. closed means that
// target has left mark, so that nothing is left to do. If gone and closed are false and err is nil, the caller lists
// again.
func (m *Member) awaitMemberGone(
	ctx context.Context, target string, since int64, mark string, removed *framework.Pending[struct{}],
) (gone, closed bool, err error) {
	if mark != "" {
		gone, closed, err = m.awaitClosing(ctx, target, since, mark, removed)
		if gone || closed || err != nil {
			return gone, closed, err
		}
	}
	watch, gone, err := m.watchMember(ctx, target, since)
	if failure := m.awaitRemoved(ctx, removed); err == nil {
		err = failure
	}
	switch {
	case watch == nil:
		return gone, false, err
	case err != nil:
		watch.Stop()
		return false, false, err
	}
	ev, err := line.AwaitDeletion(ctx, m.d.client, watch, m.d.childPath(target), since)
	return ev.Type == framework.EventNodeDeleted && ev.Path == m.d.childPath(target), false, err
}

// awaitRemoved waits for the pending delete of our own node, nil if there is none, and repeats it if it has failed.
func (m *Member) awaitRemoved(ctx context.Context, removed *framework.Pending[struct{}]) error {
	if removed == nil {
		return nil
	}
	if _, failure := line.AwaitResult(removed); failure == nil {
		return nil
	}
	return m.d.deleteNode(ctx, m.Path())
}

// awaitClosing is awaitMemberGone with watches, armed by one request without a read, on the node of target and on mark.
// Both results are false if an event other than these two has come, or none for about a session timeout, since events
// can get lost, or if the watches cannot be armed.
func (m *Member) awaitClosing(
	ctx context.Context, target string, since int64, mark string, removed *framework.Pending[struct{}],
) (gone, closed bool, err error) {
	armed := m.session.Arm(ctx, since, []string{m.d.childPath(target)}, []string{mark})
	watches, failed := line.AwaitResult(armed)
	if failed != nil {
		return false, false, nil // the caller reads the node
	}
	node, closing := watches[0], watches[1]
	defer func() {
		if !closed { // otherwise the node's event follows: to stop its watch now might take a request
			node.Stop()
			closing.Stop()
		}
	}()
	if err := m.awaitRemoved(ctx, removed); err != nil {
		return false, false, err
	}
	check := time.NewTimer(line.SessionTimeoutInterval(m.d.client)())
	defer check.Stop()
	select {
	case ev := <-closing.C:
		closed = ev.Type == framework.EventNodeCreated
	case ev := <-node.C:
		gone = ev.Type == framework.EventNodeDeleted
		select {
		case ev = <-closing.C: // it comes before the node's
			closed = ev.Type == framework.EventNodeCreated
		default:
		}
	case <-check.C:
	case <-ctx.Done():
		err = m.d.client.WaitError(ctx, nil)
	}
	return gone, closed, err
}

// deleteNodeAndReady deletes our node and "ready" in one transaction, which leaves mark unless that is empty. So no member
// of the next round sees only one of them, and no crash in between leaves the barrier open. If our node is gone already,
// "ready" may belong to the next round: then close decides.
func (m *Member) deleteNodeAndReady(ctx context.Context, inside, open bool, mark string) error {
	if inside && open {
		create, remove := m.d.client.TransactionOp().Create(), m.d.client.TransactionOp().Delete()
		var ops []framework.TransactionOp
		if mark != "" { // its ACL is open, because servers send the event only to clients that may read it
			ops = append(ops, create.WithACL(framework.OpenACL()...).ForPath(mark, []byte{}), remove.ForPath(mark))
		}
		ops = append(ops, remove.ForPath(m.Path()), remove.ForPath(m.d.readyPath()))
		// Safe to repeat: the name of our node is unique, so if the transaction was executed, its repeat
		// fails as a whole.
		err := line.RetryThrough(ctx, m.d.client, line.Outages, func(ctx context.Context) error {
			_, err := m.d.client.Transaction(ctx, ops...)
			return err
		})
		if err == nil {
			return nil
		}
		// Another member has removed one of the two nodes, or the transaction was executed and its reply was
		// lost.
	}
	if inside {
		if err := m.d.deleteNode(ctx, m.Path()); err != nil {
			return err
		}
	}
	if open || inside {
		// Also if "ready" was missing: another member may have counted our node since, opened the barrier, and given
		// up, and then relies on us to close it.
		return m.d.close(ctx)
	}
	return nil
}

// watchMember arms a watch on the node of the member name. If gone is true, watch is nil: the node is gone, or was created
// after the transaction since, by a Java member that has entered again with the same name.
func (m *Member) watchMember(
	ctx context.Context, name string, since int64,
) (watch *framework.Watch, gone bool, err error) {
	d := m.d
	err = line.RetryThrough(ctx, d.client, line.Outages, func(ctx context.Context) (err error) {
		// Unlike exists, getData leaves no watch on a missing node.
		var node framework.Stat
		read := d.client.GetData().Undecompressed().StoringStatIn(&node).WithWatch()
		_, watch, err = read.ForPath(ctx, d.childPath(name))
		gone = node.Czxid > since
		if err == nil && !gone && node.EphemeralOwner == 0 && m.loggedMember != name {
			m.loggedMember = name
			d.client.Logger().Warn("a member of a double barrier is not an ephemeral node: Leave waits until it is deleted",
				"path", plain.Text(d.childPath(name)))
		}
		if errors.Is(err, framework.ErrNoAuth) {
			// A server sends no event for the deletion of a node that the client has no permission to read.
			// So watch the children of the parent instead.
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

func (d *Double) deleteNode(ctx context.Context, path string) error {
	return line.RetryThrough(ctx, d.client, line.Outages, func(ctx context.Context) error {
		return d.client.Delete().Quietly().ForPath(ctx, path)
	})
}

// withoutName returns a copy of names without name.
func withoutName(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}
