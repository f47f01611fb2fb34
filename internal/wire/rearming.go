package wire

import (
	"slices"

	"github.com/go-curator/curator/internal/jute"
)

// How watches are armed without reading (Rearming). Their owner has read the nodes, by requests that can set no watch,
// or not this one. A server fires each watch whose node has changed since then, as it does after a reconnect. So no
// change is missed between the read and this request.
//
// Such an event comes before the reply. So the watches are attached when the request is written: an event before the
// reply may belong to them.

// body is the request for all watches but those in without.
func (a *Rearming) body(without map[*Watch]bool) []byte {
	req := jute.SetWatches{RelativeZxid: a.Since}
	for _, w := range a.Watches {
		switch {
		case without[w]:
		case w.Kind == Child:
			req.Child = append(req.Child, w.Path)
		case w.Absent:
			req.Exist = append(req.Exist, w.Path)
		default:
			req.Data = append(req.Data, w.Path)
		}
	}
	return jute.Marshal(&req)
}

// rearming attaches the watches of a call that is about to be written. Those on paths with a persistent watch
// are left out, since they would replace it.
func (r *registry) rearming(c *Call) {
	var without map[*Watch]bool
	for _, w := range c.Rearm.Watches {
		p := r.entries[watchKey{w.Path, Persistent}]
		if w.stopped || p != nil && p.written {
			if without == nil {
				without = map[*Watch]bool{}
			}
			without[w] = true
			continue
		}
		w.entry.subs = append(w.entry.subs, w)
		r.fresh(w.entry)
	}
	if c.arms = true; len(without) > 0 {
		c.Body = c.Rearm.body(without)
	}
}

// rearmed handles the reply, and returns the events for the subscribers: if a persistent watch kept a watch from being
// armed, its node may have changed, so it is reported as changed.
func (r *registry) rearmed(a *Rearming, code int32) (fire []delivery) {
	for _, w := range a.Watches {
		e := r.entries[keyOf(w)] // pending, so it exists
		e.pending--
		attached := slices.Contains(e.subs, w)
		switch {
		case code == jute.CodeOK && attached:
			e.armed, e.exist = true, w.Absent
			continue
		case code == jute.CodeOK && w.entry != nil && !w.stopped:
			typ := int32(jute.EventNodeDataChanged)
			if w.Kind == Child {
				typ = jute.EventNodeChildrenChanged
			}
			fire = append(fire, delivery{w, WatchEvent{Type: typ, Path: w.Path}})
		case code == jute.CodeOK && w.stopped:
			e.armed = true // it was stopped after the request was written: tidy removes it
		case code == jute.CodeOK && w.Absent && len(e.subs) == 0:
			// It was used up by an event from before the request, of a node that is gone again; the server has
			// armed it. Then, too, tidy removes it.
			e.armed, e.exist = true, true
		}
		r.detach(w, e)
	}
	return fire
}
