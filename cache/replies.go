package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
)

// gotMany is the answer to a MultiRead.
func (e *engine) gotMany(ops []op, r framework.MultiReadResult, err error) {
	e.reads.weight -= manyWeight
	if err != nil {
		e.undelivered(ops, true, err)
		return
	}
	bytes, nodes := 0, 0
	for i, o := range ops {
		if o.kind == readData && r.Results[i].Err == nil {
			bytes, nodes = bytes+len(r.Results[i].Data), nodes+1
		}
	}
	e.delivered(nodes, bytes)
	if !e.probing {
		e.zxid = max(e.zxid, r.Zxid)
	}
	life, anew := e.life, 0
	for i, o := range ops {
		res := &r.Results[i]
		if anew += e.got(o, res.Data, &res.Stat, res.Children, res.Err); e.life != life {
			return // the way of watching has changed: everything is read anew
		}
	}
	e.answered(anew)
}

// gotOne is the answer to a request for one node, which may have set a watch.
func (e *engine) gotOne(o op, data []byte, stat *framework.Stat, names []string, s *shot, w *framework.Watch, err error) {
	e.reads.weight--
	nodeLevel := err == nil || errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrNoAuth)
	if s != nil && nodeLevel {
		e.hold(o, s, w)
	}
	if !nodeLevel {
		e.undelivered([]op{o}, false, err)
		return
	}
	e.delivered(0, 0)
	if o.kind == readList && err == nil {
		e.childStat(o.n, *stat)
	}
	life := e.life
	if anew := e.got(o, data, stat, names, err); e.life == life {
		e.answered(anew)
	}
}

// refused is an answer that will not get better by asking at once.
func (e *engine) refused(o op, err error) { e.got(o, nil, nil, nil, err) }

// got takes the answer to one read. If there has been more to be heard of the node since it was asked for, that stands in the queue now: got returns
// how many reads that are, 0 or 1.
func (e *engine) got(o op, data []byte, stat *framework.Stat, names []string, err error) (anew int) {
	n := o.n
	if n.flags&gone != 0 {
		return 0
	}
	if o.kind == readList {
		e.gotList(n, names, err)
	} else {
		anew = e.gotNode(o, data, stat, err)
	}
	if n.flags&(wanted|flying|listWanted|listFlying) == 0 {
		e.uncount(n)
	}
	return anew
}

// gotNode takes the answer to a read of data or Stat.
func (e *engine) gotNode(o op, data []byte, stat *framework.Stat, err error) (anew int) {
	n := o.n
	old := n.flags&again != 0 // the answer may be from before what has been heard since
	n.flags &^= flying | again | proving
	lied := n == e.store.top && e.suspect != nil && !old && err == nil && *e.suspect == identity{stat.Czxid, stat.Mzxid}
	if n == e.store.top {
		e.suspect = nil
		e.catching = e.catching && old
	}
	switch {
	case lied:
		e.fallBack("it reports the path of the watch instead of that of the node")
		return 0
	case err == nil && e.fatherless(n):
		n.flags |= doubted // this read has not told, or what is below would count
		if o.kind == readStat {
			e.look(n)
		} else {
			e.want(n)
		}
		return 0
	case err == nil && o.kind == readStat && !e.knows(n, stat):
		e.wantOther(n)
	case err == nil:
		e.present(n, data, stat)
	case !errors.Is(err, framework.ErrNoNode):
		e.unreadable(n, err)
	case !old:
		e.absent(n, o.kind)
	case n != e.store.top:
		n = e.absentThen(n)
	default: // there are watches to be thought of: it is read once more
		e.wantOther(n)
		return 0
	}
	if !old {
		return 0
	}
	before := e.reads.waiting()
	e.want(n)
	return e.reads.waiting() - before
}

// absentThen takes a node away that was not there when it was read, but may have been created since. It returns the one in its place.
func (e *engine) absentThen(n *node) *node {
	parent, name, counts := n.up, n.name(), n.flags&counting != 0
	e.absent(n, readData)
	n = e.store.insert(parent, name)
	if counts {
		e.count(n)
	}
	return n
}

// fatherless says that it is not known yet whether the node above is the one that this one belongs to. That is read first.
func (e *engine) fatherless(n *node) bool {
	p := n.up
	if p == nil {
		return false
	}
	if e.probing { // it may have been another since before the gap
		return true
	}
	_, unreadable := e.trouble[p]
	if p.flags&(doubted|proving) == 0 && (p.live || unreadable) {
		return false
	}
	if p.flags&(wanted|flying) == 0 {
		e.want(p)
	}
	return true
}

// unreadable notes that a node cannot be read, for now. Newer servers tell nothing of a node to those who may not READ it, and the one-shot watches that
// would have told are used up. So when it can be read, nothing that was known before counts.
func (e *engine) unreadable(n *node, err error) {
	if errors.Is(err, framework.ErrNoAuth) {
		n.flags &^= listed
		if w, ok := e.shots[n]; ok {
			delete(e.shots, n)
			e.doomed = append(e.doomed, w)
		}
	}
	e.fail(n, err, true)
}

// knows says whether the cache holds this state of the node's data.
func (e *engine) knows(n *node, stat *framework.Stat) bool {
	old := n.stat()
	return n.live && sameNode(old, *stat) && sameData(old, *stat)
}

// present takes over a node that is there.
func (e *engine) present(n *node, data []byte, stat *framework.Stat) {
	if n.live && !sameNode(n.stat(), *stat) {
		// Another node of the same name. What was below the old one was gone before it; what is below the new one may have been heard of already.
		unsure := len(n.offspring()) > 0 && e.descends(n)
		e.store.empty(n)
		if n.flags &^= listed | unproven; unsure {
			e.wantList(n)
		}
	}
	e.caughtUp(n)
	old := n.stat()
	sameKids := n.live && old.Pzxid == stat.Pzxid && old.Cversion == stat.Cversion && old.NumChildren == stat.NumChildren
	if e.knows(n, stat) {
		e.recovered(n)
		e.store.putStat(n, *stat)
	} else if data, err := e.decode(n, data); err != nil {
		e.undecoded(n, err)
	} else {
		e.recovered(n)
		e.store.put(n, data, *stat)
	}
	e.children(n, stat, sameKids)
}

// children has a node's children listed if there may be any that are not known. Leaves are not listed, unless one-shot watches need it.
func (e *engine) children(n *node, stat *framework.Stat, same bool) {
	// While it is open whether events were missed, a Stat that has moved on may hide one.
	proven := n.flags&unproven == 0 && e.armed && !e.probing
	n.flags &^= unproven
	switch {
	case !e.descends(n) || childless(stat):
		n.flags |= listed
	case e.oneShot:
		if e.shots[n].child == nil {
			e.wantList(n)
		}
	case n.flags&listed != 0 && (proven || same):
	case n.flags&(listed|listWanted) == 0 && stat.NumChildren == 0 && len(n.offspring()) == 0:
		n.flags |= listed
	default:
		// The Stat is taken over already, the list may never come: until it does, an equal Stat proves nothing.
		n.flags &^= listed
		e.wantList(n)
	}
}

// childless says that the node is ephemeral: it has no children and gets none.
func childless(stat *framework.Stat) bool {
	const container, ttl = -1 << 63, 0xff
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != container && uint64(stat.EphemeralOwner)>>56 != ttl
}

// absent takes a node away that is not there.
func (e *engine) absent(n *node, asked kind) {
	if n != e.store.top {
		parent := n.up
		e.store.remove(n)
		e.lag(parent, false)
		return
	}
	if n.live || len(n.offspring()) > 0 {
		e.store.empty(n)
	}
	n.flags &^= listed | unproven
	if e.oneShot && asked == readData {
		n.flags |= flying
		e.sendOne(op{n, readStat}, e.cfg.root) // its watch is for the node's creation
		return
	}
	if e.cfg.createRoot {
		e.createRoot() // if that does not work, it is in trouble still
	} else {
		e.recovered(n)
	}
}

// createRoot makes the root, elsewhere. The watch tells when it is there.
func (e *engine) createRoot() {
	life, view := e.life, e.view
	e.wg.Go(func() {
		if err := view.CreateContainers(e.ctx, e.cfg.root); err != nil {
			e.postIn(life, func() { e.fail(e.store.top, fmt.Errorf("create the root: %w", err), true) })
		}
	})
}

// gotList takes the answer to a listing.
func (e *engine) gotList(n *node, names []string, err error) {
	old := n.flags&listAgain != 0 // the answer may be from before what has been heard since
	n.flags &^= listFlying | listAgain
	switch {
	case err == nil:
		for _, k := range e.store.merge(n, e.accepted(n, names), old) {
			if n.flags&counting != 0 {
				e.count(k)
			}
			e.want(k)
		}
		if !old {
			n.flags |= listed
		}
	case errors.Is(err, framework.ErrNoNode):
		e.want(n) // it will be found gone
	default:
		e.unreadable(n, err)
	}
	if old {
		e.wantList(n)
	}
}

// accepted returns the names that belong to the cache, sorted. What is no name, but a path, would be a node in two places.
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

// childStat takes over what a listing tells of the node's own Stat.
func (e *engine) childStat(n *node, stat framework.Stat) {
	switch {
	case n.flags&gone != 0 || !n.live:
	case n.czxid != stat.Czxid:
		e.wantOther(n)
	default:
		e.store.putChildStat(n, stat)
	}
}
