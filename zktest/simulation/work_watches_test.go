package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func init() { kinds["watches"] = newWatchesWork }

// watchesWork: all clients change a few nodes and watch them, with every kind of watch. A client that reads a change
// must have its event by then.
type watchesWork struct{ path string }

func newWatchesWork(w *world) workload {
	k := &watchesWork{root + "/watches"}
	w.must(w.ens.Member(0).Create(k.path, nil))
	return k
}

// nodeState is a node as a read shows it; the zero value if there is none.
type nodeState struct{ czxid, mzxid, pzxid int64 }

// watchKind is one kind of watch: the changes that it reports, and the types of its events.
type watchKind struct {
	kind           string
	data, children bool
	lasting        bool // reports more than one event
	reports        []framework.EventType
}

const (
	created  = framework.EventNodeCreated
	deleted  = framework.EventNodeDeleted
	changed  = framework.EventNodeDataChanged
	children = framework.EventNodeChildrenChanged
	reset    = framework.EventReset
)

var watchKinds = []watchKind{
	{kind: "exists", data: true, reports: []framework.EventType{created, deleted, changed}},
	{kind: "data", data: true, reports: []framework.EventType{deleted, changed}},
	{kind: "children", children: true, reports: []framework.EventType{deleted, children}},
	{
		kind:     "persistent",
		data:     true,
		children: true,
		lasting:  true,
		reports:  []framework.EventType{created, deleted, changed, children, reset},
	},
	{
		kind:    "recursive",
		data:    true,
		lasting: true,
		reports: []framework.EventType{created, deleted, changed, reset},
	},
}

// differ reports whether the watch must report a change between two states.
func (g watchKind) differ(a, b nodeState) bool {
	return a.czxid != b.czxid || g.data && a.mzxid != b.mzxid || g.children && a.pzxid != b.pzxid
}

func (k *watchesWork) turn(ctx context.Context, a *actor) error {
	path := fmt.Sprintf("%s/%d", k.path, a.r.IntN(3))
	g := pick(a.r, watchKinds...)
	if g.lasting && a.w.plan.Profile == zktest.V35 {
		g = watchKinds[0] // this server has no persistent watches
	}
	watch, before, err := k.set(ctx, a, g, path)
	if err != nil || watch == nil {
		return err
	}
	defer watch.Stop()
	a.w.Logf("client %d watches %s (%s)", a.id, path, g.kind)
	pending := 0 // events since the last read began: they include the events for the changes that the next read shows
	for range 1 + a.r.IntN(6) {
		if a.r.IntN(3) == 0 {
			if err := k.change(ctx, a, path); err != nil {
				return err
			}
		} else {
			time.Sleep(below(a.r, pick(a.r, 100*time.Millisecond, time.Second, 5*time.Second)))
		}
		earlier, over := k.received(a, g, watch)
		now, err := k.read(ctx, a, path)
		if err != nil {
			return err
		}
		meanwhile := 0
		if !over {
			meanwhile, over = k.received(a, g, watch)
		}
		if pending += earlier + meanwhile; g.differ(before, now) && pending == 0 {
			a.w.violate(
				"watches: client %d reads %s as %+v after %+v, and its %s watch has not told it",
				a.id,
				path,
				now,
				before,
				g.kind,
			)
		}
		if !g.lasting && pending > 1 {
			a.w.violate(
				"watches: client %d: a %s watch of %s has told it of %d events",
				a.id,
				g.kind,
				path,
				pending,
			)
		}
		if over {
			return nil
		}
		if g.lasting {
			before, pending = now, meanwhile
		}
	}
	return nil
}

// set arms the watch, and returns the node's state at that time; it arms none if there is no node that could have it.
func (k *watchesWork) set(
	ctx context.Context,
	a *actor,
	g watchKind,
	path string,
) (watch *framework.Watch, before nodeState, err error) {
	var stat *framework.Stat
	defer a.timed(ctx, "a watch")()
	switch g.kind {
	case "exists":
		stat, watch, err = a.c.CheckExists().WithWatch().ForPath(ctx, path)
	case "data":
		stat = new(framework.Stat)
		_, watch, err = a.c.GetData().StoringStatIn(stat).WithWatch().ForPath(ctx, path)
	case "children":
		stat = new(framework.Stat)
		_, watch, err = a.c.GetChildren().StoringStatIn(stat).WithWatch().ForPath(ctx, path)
	default:
		mode := framework.PersistentWatch
		if g.kind == "recursive" {
			mode = framework.PersistentRecursiveWatch
		}
		if watch, err = a.c.Watches().Add().WithMode(mode).ForPath(ctx, path); err != nil {
			return nil, before, err
		}
		k.received(a, g, watch) // of changes that the read shows
		if before, err = k.read(ctx, a, path); err != nil {
			watch.Stop()
			return nil, before, err
		}
		return watch, before, nil
	}
	if errors.Is(err, framework.ErrNoNode) {
		return nil, before, k.change(ctx, a, path)
	}
	return watch, seen(stat), err
}

// seen returns the state that a Stat shows; nil shows that there is no node.
func seen(stat *framework.Stat) nodeState {
	if stat == nil {
		return nodeState{}
	}
	return nodeState{czxid: stat.Czxid, mzxid: stat.Mzxid, pzxid: stat.Pzxid}
}

func (k *watchesWork) read(ctx context.Context, a *actor, path string) (nodeState, error) {
	defer a.timed(ctx, "CheckExists")()
	stat, err := a.c.CheckExists().ForPath(ctx, path)
	return seen(stat), err
}

// change changes a node or its children.
func (k *watchesWork) change(ctx context.Context, a *actor, path string) (err error) {
	defer a.timed(ctx, "a change")()
	switch child := path + "/child"; a.r.IntN(5) {
	case 0:
		err = a.c.Delete().Quietly().DeletingChildrenIfNeeded().ForPath(ctx, path)
	case 1:
		_, err = a.c.Create().OrSetData().CreatingParentsIfNeeded().ForPath(ctx, child, nil)
	case 2:
		err = a.c.Delete().Quietly().ForPath(ctx, child)
	default:
		_, err = a.c.Create().OrSetData().ForPath(ctx, path, fmt.Appendf(nil, "%d by %d", a.turn, a.id))
	}
	if isErr(
		err,
		framework.ErrNoNode,
		framework.ErrNotEmpty,
		framework.ErrNodeExists,
	) { // other clients change it at the same time
		return nil
	}
	return err
}

// received receives the events that have arrived, and reports whether the watch has ended.
func (k *watchesWork) received(a *actor, g watchKind, watch *framework.Watch) (events int, over bool) {
	for {
		select {
		case ev, more := <-watch.C:
			if !more {
				return events, true
			}
			events++
			if ev.Type == framework.EventEnd {
				if !errors.Is(ev.Err, framework.ErrSessionLost) {
					a.w.violate("watches: client %d: a watch ended by %v", a.id, ev.Err)
				}
				continue
			}
			if !slices.Contains(g.reports, ev.Type) {
				a.w.violate("watches: client %d: a %s watch reports %v", a.id, g.kind, ev)
			}
		default:
			return events, false
		}
	}
}

func (k *watchesWork) settle(*world) {}
