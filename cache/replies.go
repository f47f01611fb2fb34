package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
)

// got handles the reply to one read. If events have arrived since the request was sent, the read is in the
// queue again: got returns how many reads that are, 0 or 1.
func (e *engine) got(o op, r *framework.ReadResult) (anew int) {
	n := o.n
	if n.state.is(removed) {
		return 0
	}
	if o.kind == readList {
		e.gotList(n, r.Children, r.Err)
	} else {
		anew = e.gotNode(o, r)
	}
	e.apply(n, readHandled)
	return anew
}

func (e *engine) gotNode(o op, r *framework.ReadResult) (anew int) {
	n, stat, err := o.n, &r.Stat, r.Err
	outdated := e.apply(n, dataReplied)&replyOutdated != 0
	switch {
	case n == e.store.top && !e.way.rootRead(r, outdated):
		return 0 // everything is read again
	case err == nil && e.parentUncertain(n):
		e.apply(n, identityUnproven) // this read has not shown it, or nodes below would count
		if o.kind == readStat {
			e.apply(n, lookWanted)
		} else {
			e.apply(n, dataWanted)
		}
		return 0
	case err == nil && o.kind == readStat && !e.knows(n, stat):
		e.apply(n, otherPossible)
	case err == nil:
		e.present(n, r.Data, stat)
	case !errors.Is(err, framework.ErrNoNode):
		e.unreadable(n, err)
	case !outdated:
		e.absent(n)
	case n != e.store.top:
		n = e.absentThen(n)
	default: // the root has watches that need another read
		e.apply(n, otherPossible)
		return 0
	}
	if outdated && e.apply(n, dataWanted)&queueData != 0 {
		return 1
	}
	return 0
}

// parentUncertain reports whether the parent's name may belong to another node by now, so that n may not be
// its child. Then the parent is read first.
func (e *engine) parentUncertain(n *node) bool {
	p := n.up
	if p == nil {
		return false
	}
	if e.way.asking() { // it may have been another since before the gap
		return true
	}
	_, unreadable := e.store.failures[p]
	if !p.state.is(doubtful|proving) && (p.live || unreadable) {
		return false
	}
	if p.state.data == fetchIdle {
		e.apply(p, dataWanted)
	}
	return true
}

func (e *engine) knows(n *node, stat *framework.Stat) bool {
	old := n.stat()
	return n.live && sameNode(old, *stat) && sameData(old, *stat)
}

func (e *engine) present(n *node, data []byte, stat *framework.Stat) {
	if n.live && !sameNode(n.stat(), *stat) {
		// Another node has the name now. The nodes below the old node were deleted before it; nodes below the new one
		// may have been reported already.
		unsure := len(n.offspring()) > 0 && e.descends(n)
		e.store.empty(n)
		if e.apply(n, nodeReplaced); unsure {
			e.apply(n, listWanted)
		}
	}
	e.statRead(n)
	old := n.stat()
	sameKids := n.live && old.Pzxid == stat.Pzxid && old.Cversion == stat.Cversion &&
		old.NumChildren == stat.NumChildren
	if e.knows(n, stat) {
		e.recovered(n)
		e.store.putStat(n, *stat)
	} else if data, err := e.decode(n, data); err != nil {
		e.undecoded(n, err)
	} else {
		e.recovered(n)
		e.store.put(n, data, *stat)
	}
	if !e.descends(n) || childless(stat) {
		e.apply(n, childrenListed)
	} else {
		e.way.children(n, stat, sameKids)
	}
	e.apply(n, gapCompared)
}

// childless reports whether the node is ephemeral: then it never has children.
func childless(stat *framework.Stat) bool {
	const container, ttl = -1 << 63, 0xff
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != container &&
		uint64(stat.EphemeralOwner)>>56 != ttl
}

// unreadable records that a node cannot be read for now. Newer servers send no events of a node to a client without
// permission to READ it, and the one-shot watches for those events are used up. So when the node can be read again,
// nothing that was known before counts.
func (e *engine) unreadable(n *node, err error) {
	if errors.Is(err, framework.ErrNoAuth) {
		e.apply(n, childrenUncertain)
		e.way.forget(n)
	}
	e.fail(n, err, true)
}

func (e *engine) absent(n *node) {
	if n != e.store.top {
		parent := n.up
		e.store.remove(n)
		e.scheduleStat(parent, false)
		return
	}
	if n.live || len(n.offspring()) > 0 {
		e.store.empty(n)
	}
	e.apply(n, nodeReplaced)
	if e.cfg.createRoot {
		e.createRoot() // if that fails, the root still counts as failed
	} else {
		e.recovered(n)
	}
}

// absentThen removes a node that did not exist when it was read, but may have been created since. It returns
// the node that replaces it.
func (e *engine) absentThen(n *node) *node {
	parent, name, counts := n.up, n.name(), n.state.is(awaited)
	e.absent(n)
	n = e.store.insert(parent, name)
	if counts {
		e.apply(n, loadStarted)
	}
	return n
}

// createRoot creates the root, on another goroutine. The watch reports when the root exists.
func (e *engine) createRoot() {
	w, view := e.way, e.view
	e.wg.Go(func() {
		if err := view.CreateContainers(e.ctx, e.cfg.root); err != nil {
			e.inbox.Put(post{way: w, f: func() { e.fail(e.store.top, fmt.Errorf("cannot create the root: %w", err), true) }})
		}
	})
}

func (e *engine) gotList(n *node, names []string, err error) {
	outdated := e.apply(n, listReplied)&replyOutdated != 0
	switch {
	case err == nil:
		e.apply(n, childrenListed)
		added := e.store.merge(n, e.accepted(n, names))
		e.reads.queue.grow(len(added))
		for _, k := range added {
			if n.state.is(awaited) {
				e.apply(k, loadStarted)
			}
			e.apply(k, dataWanted)
		}
	case errors.Is(err, framework.ErrNoNode):
		e.apply(n, dataWanted) // the read will find that it is gone
	default:
		e.unreadable(n, err)
	}
	if outdated {
		e.apply(n, listWanted)
	}
}

// accepted returns the names that belong to the cache, sorted. It leaves out names that are paths: such a
// node would be in two places.
func (e *engine) accepted(n *node, names []string) []string {
	if !e.descends(n) {
		return nil
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return name == "" || strings.Contains(name, "/") || !e.accepts(n, name)
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// decode turns the stored data of a node into the data for the cache, if there is room for them.
func (e *engine) decode(n *node, data []byte) ([]byte, error) {
	if e.cfg.noData {
		return nil, nil
	}
	room := e.cfg.dataLimit - e.store.bytes + len(n.data())
	if e.cfg.decode != nil {
		decoded, err := e.cfg.decode(e.store.path(n), data, room)
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
