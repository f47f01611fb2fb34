package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
)

// applyReply handles the reply to one read. requeued is 1 if the reply was used but is older than an event, and so the data
// read is in the queue again; otherwise it is 0.
func (e *engine) applyReply(o nodeRead, r *framework.ReadResult) (requeued int) {
	n := o.node
	if n.state.hasAny(leftTree) {
		return 0
	}
	if o.kind == readList {
		e.applyListReply(n, r.Children, r.Err)
	} else {
		requeued = e.applyNodeReply(o, r)
	}
	e.applyInput(n, readHandled)
	return requeued
}

func (e *engine) applyNodeReply(o nodeRead, r *framework.ReadResult) (requeued int) {
	n, stat, err := o.node, &r.Stat, r.Err
	outdated := e.applyInput(n, dataReplied)&replyOutdated != 0
	switch {
	case n == e.store.top && !e.watching.handleRootRead(r, outdated):
		return 0 // everything is read again
	case err == nil && e.readParentFirst(n):
		e.applyInput(n, identityUnproven) // otherwise replies for n's children would be used
		if o.kind == readStat {
			e.applyInput(n, compareWanted)
		} else {
			e.applyInput(n, dataWanted)
		}
		return 0
	case err == nil && o.kind == readStat && !e.isUnchanged(n, stat):
		e.applyInput(n, maybeReplaced)
	case err == nil:
		e.storeNode(n, r.Data, stat)
	case !errors.Is(err, framework.ErrNoNode):
		e.recordUnreadable(n, err)
	case !outdated:
		e.removeAbsent(n)
	case n != e.store.top:
		n = e.replaceAbsent(n)
	default: // the root stays in the tree, and is read again
		e.applyInput(n, maybeReplaced)
		return 0
	}
	if outdated && e.applyInput(n, dataWanted)&queueData != 0 {
		return 1
	}
	return 0
}

// readParentFirst reports whether another node may have the parent's name by now: the reply may be about a child of that
// node. Then the parent is read first.
func (e *engine) readParentFirst(n *treeNode) bool {
	p := n.parent
	if p == nil {
		return false
	}
	if e.watching.isGapOpen() { // the parent may have been replaced in the gap
		return true
	}
	_, unreadable := e.store.failed[p]
	if !p.state.hasAny(identityUncertain|identityProving) && (p.live || unreadable) {
		return false
	}
	if p.state.data == fetchIdle {
		e.applyInput(p, dataWanted)
	}
	return true
}

func (e *engine) isUnchanged(n *treeNode, stat *framework.Stat) bool {
	old := n.stat()
	return n.live && sameNode(old, *stat) && sameData(old, *stat)
}

func (e *engine) storeNode(n *treeNode, data []byte, stat *framework.Stat) {
	if n.live && !sameNode(n.stat(), *stat) {
		// Another node has the name now. clearNode drops the nodes below the old one, which were deleted before it, and
		// also nodes below the new one that events have already reported. The list of the children restores these.
		relist := len(n.children()) > 0 && e.includesChildren(n)
		e.store.clearNode(n)
		e.applyInput(n, nodeReplaced)
		if relist {
			e.applyInput(n, listWanted)
		}
	}
	e.recordStatRead(n)
	old := n.stat()
	sameChildren := n.live && old.Pzxid == stat.Pzxid && old.Cversion == stat.Cversion &&
		old.NumChildren == stat.NumChildren
	if e.isUnchanged(n, stat) {
		e.clearFailure(n)
		e.store.putStat(n, *stat)
	} else if data, err := e.decodeData(n, data); err != nil {
		e.recordUndecoded(n, err)
	} else {
		e.clearFailure(n)
		e.store.putNode(n, data, *stat)
	}
	if !e.includesChildren(n) || isEphemeral(stat) {
		e.applyInput(n, childrenListed)
	} else {
		e.watching.listChildren(n, stat, sameChildren)
	}
	e.applyInput(n, comparedAfterGap)
}

// isEphemeral reports whether the node is ephemeral: then it never has children.
func isEphemeral(stat *framework.Stat) bool {
	const container, ttl = -1 << 63, 0xff
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != container &&
		uint64(stat.EphemeralOwner)>>56 != ttl
}

// recordUnreadable records that a node cannot be read for now. Newer servers send no events of a node to a client without
// permission to READ it, and the one-shot watches for those events are used up. So when the node can be read again, it is
// listed and watched as if for the first time.
func (e *engine) recordUnreadable(n *treeNode, err error) {
	if errors.Is(err, framework.ErrNoAuth) {
		e.applyInput(n, childrenUncertain)
		e.watching.forgetWatches(n)
	}
	e.recordFailure(n, err, true)
}

func (e *engine) removeAbsent(n *treeNode) {
	if n != e.store.top {
		parent := n.parent
		e.store.removeNode(n)
		e.scheduleStat(parent, false)
		return
	}
	e.store.clearNode(n)
	e.applyInput(n, nodeReplaced)
	if e.cfg.createRoot {
		e.createRoot() // if that fails, the root still counts as failed
	} else {
		e.clearFailure(n)
	}
}

// replaceAbsent removes a node that did not exist when it was read, but may have been created since. It returns
// the node that replaces it.
func (e *engine) replaceAbsent(n *treeNode) *treeNode {
	parent, name, awaited := n.parent, n.name(), n.state.hasAny(awaitedForSync)
	e.removeAbsent(n)
	n = e.store.insertNode(parent, name)
	if awaited {
		e.applyInput(n, nodeAwaited)
	}
	return n
}

// createRoot creates the root, on another goroutine. The watch reports when the root exists.
func (e *engine) createRoot() {
	w, view := e.watching, e.view
	e.wg.Go(func() {
		if err := view.CreateContainers(e.ctx, e.cfg.root); err != nil {
			e.inbox.Put(engineCall{watching: w, run: func() { e.recordFailure(e.store.top, fmt.Errorf("cannot create the root: %w", err), true) }})
		}
	})
}

func (e *engine) applyListReply(n *treeNode, names []string, err error) {
	outdated := e.applyInput(n, listReplied)&replyOutdated != 0
	switch {
	case err == nil:
		e.applyInput(n, childrenListed)
		added := e.store.mergeChildren(n, e.acceptedNames(n, names))
		e.reads.queue.grow(len(added))
		for _, k := range added {
			if n.state.hasAny(awaitedForSync) {
				e.applyInput(k, nodeAwaited)
			}
			e.applyInput(k, dataWanted)
		}
	case errors.Is(err, framework.ErrNoNode):
		e.applyInput(n, dataWanted) // the read will find that it is gone
	default:
		e.recordUnreadable(n, err)
	}
	if outdated {
		e.applyInput(n, listWanted)
	}
}

// acceptedNames returns the names that belong to the cache, sorted. It leaves out names with a "/" (of a faulty server): their
// path would be the path of a deeper node.
func (e *engine) acceptedNames(n *treeNode, names []string) []string {
	if !e.includesChildren(n) {
		return nil
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return name == "" || strings.Contains(name, "/") || !e.acceptsChild(n, name)
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// decodeData turns the stored data of a node into the data for the cache, if there is room for them.
func (e *engine) decodeData(n *treeNode, data []byte) ([]byte, error) {
	if e.cfg.noData {
		return nil, nil
	}
	room := e.cfg.dataLimit - e.store.bytes + len(n.data())
	if e.cfg.decode != nil {
		decoded, err := e.cfg.decode(e.store.pathOf(n), data, room)
		if err != nil {
			return nil, fmt.Errorf("decode: %w", plain.Error(err))
		}
		data = decoded
	}
	if len(data) > room {
		return nil, fmt.Errorf("%w: the node has %d bytes", ErrDataLimit, len(data))
	}
	return data, nil
}
