package cache

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/golden"
)

// scene is a cache without a goroutine: a root, one node below it with or without a child, and what is known of the node.
type scene struct {
	flags     flags
	live      bool
	kids      bool
	doubtful  bool // another node may have the parent's name
	oneShot   bool
	uncertain bool // asking, or catching up
}

// flagNames are those of the bits, in order.
var flagNames = strings.Fields("wanted lookOnly flying again listWanted listFlying listAgain listed unproven doubted proving counting " +
	"gone leaf watched watchedList")

// The node as it is before and after a read: the same, with other data, with another list of children, another node.
var (
	statBefore = framework.Stat{Czxid: 5, Mzxid: 5, Pzxid: 5}
	statData   = framework.Stat{Czxid: 5, Mzxid: 6, Pzxid: 5, Version: 1}
	statKids   = framework.Stat{Czxid: 5, Mzxid: 5, Pzxid: 6, Cversion: 1, NumChildren: 1}
	statOther  = framework.Stat{Czxid: 7, Mzxid: 7, Pzxid: 7}
)

// build makes the scene.
func (s scene) build() (e *engine, n *node) {
	e = &engine{cfg: config{root: "/r", maxDepth: -1, oneShot: s.oneShot, client: &framework.Client{}}, store: newStore("/r", false),
		reads: newReads(), inbox: flow.NewQueue[post](), stale: staleStats{nodes: map[*node]bool{}}}
	if s.oneShot {
		e.way = &oneShotWay{e: e, catchingUp: s.uncertain}
	} else {
		e.way = &persistentWay{e: e, armed: true, gapOpen: s.uncertain}
	}
	e.store.gone = e.forget
	e.store.put(e.store.top, nil, framework.Stat{Czxid: 1, Mzxid: 1, Pzxid: 4, Cversion: 1, NumChildren: 1})
	e.store.top.flags = listed
	if s.doubtful {
		e.store.top.flags |= doubted | wanted
	}
	n = e.store.insert(e.store.top, "n")
	if s.live {
		e.store.put(n, nil, statBefore)
	}
	if s.kids {
		k := e.store.insert(n, "k")
		e.store.put(k, nil, framework.Stat{Czxid: 6, Mzxid: 6, Pzxid: 6})
	}
	n.flags = s.flags
	if s.flags&counting != 0 {
		e.reads.awaited = 1
	}
	if s.flags&wanted != 0 {
		e.reads.queue.push(op{n, readData})
	}
	if s.flags&listWanted != 0 {
		e.reads.queue.push(op{n, readList})
	}
	return e, n
}

// happening is what may happen to the node.
type happening struct {
	name string
	may  func(s scene) bool
	do   func(e *engine, n *node)
}

func happenings() (all []happening) {
	always := func(scene) bool { return true }
	with := func(f flags) func(scene) bool { return func(s scene) bool { return s.flags&f != 0 } }
	add := func(name string, may func(scene) bool, do func(e *engine, n *node)) {
		all = append(all, happening{name, may, do})
	}
	add("want", always, func(e *engine, n *node) { e.want(n) })
	add("wantOther", always, func(e *engine, n *node) { e.wantOther(n) })
	add("look", always, func(e *engine, n *node) { e.look(n) })
	add("wantList", always, func(e *engine, n *node) { e.wantList(n) })
	add("load", always, func(e *engine, n *node) { e.load() })
	add("take", with(wanted|listWanted), func(e *engine, n *node) { e.take(0) })
	for kind, name := range map[kind]string{readData: "data", readStat: "stat", readList: "list"} {
		flag := flying
		if kind == readList {
			flag = listFlying
		}
		add("back "+name, with(flag), func(e *engine, n *node) { e.back(op{n, kind}) })
		if kind == readList {
			continue
		}
		for what, r := range map[string]framework.ReadResult{
			"the same": {Stat: statBefore}, "other data": {Stat: statData}, "other children": {Stat: statKids}, "another node": {Stat: statOther},
			"no node": {Err: framework.ErrNoNode}, "no permission": {Err: framework.ErrNoAuth}, "too large": {Err: framework.ErrReplyTooLarge},
		} {
			add(name+", "+what, with(flag), func(e *engine, n *node) { e.got(op{n, kind}, &r) })
		}
	}
	for what, r := range map[string]framework.ReadResult{
		"empty": {}, "a child": {Children: []string{"k"}}, "another child": {Children: []string{"m"}},
		"no node": {Err: framework.ErrNoNode}, "no permission": {Err: framework.ErrNoAuth},
	} {
		add("list, "+what, with(listFlying), func(e *engine, n *node) { e.got(op{n, readList}, &r) })
	}
	persistent, oneShot := func(s scene) bool { return !s.oneShot }, func(s scene) bool { return s.oneShot }
	for name, ev := range map[string]framework.EventType{
		"created": framework.EventNodeCreated, "changed": framework.EventNodeDataChanged, "deleted": framework.EventNodeDeleted,
	} {
		for place, path := range map[string]string{"": "/r/n", "child ": "/r/n/k"} {
			add("event, "+place+name, persistent, func(e *engine, _ *node) {
				e.way.(*persistentWay).notice(framework.Event{Type: ev, Path: path})
			})
		}
	}
	add("keep watch, data", func(s scene) bool { return s.oneShot && s.flags&flying != 0 && s.flags&again == 0 },
		func(e *engine, n *node) { e.way.(*oneShotWay).keepWatch(op{n, readData}) })
	add("keep watch, list", func(s scene) bool { return s.oneShot && s.flags&listFlying != 0 && s.flags&listAgain == 0 },
		func(e *engine, n *node) { e.way.(*oneShotWay).keepWatch(op{n, readList}) })
	for name, ev := range map[string]framework.EventType{
		"children": framework.EventNodeChildrenChanged, "changed": framework.EventNodeDataChanged, "deleted": framework.EventNodeDeleted,
	} {
		add("event, "+name, oneShot, func(e *engine, n *node) {
			w := e.way.(*oneShotWay)
			w.hear(framework.Event{Type: ev, Path: "/r/n"})
			for _, p := range e.inbox.Take() {
				e.do(p)
			}
		})
	}
	slices.SortFunc(all, func(a, b happening) int { return strings.Compare(a.name, b.name) })
	return all
}

// after is the scene that e and its node have become, and reports whether the node is still there.
func (s scene) after(e *engine) (scene, bool) {
	n := e.store.find("/r/n")
	if n == nil {
		return s, false
	}
	s.flags, s.live, s.kids = n.flags, n.live, len(n.offspring()) > 0
	return s, true
}

func named(f flags) string {
	var names []string
	for i, name := range flagNames {
		if f>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// The flags of a node of either way, for everything that can happen to it in every state that this leads to. The table has
// the flags that are set and cleared in each kind of situation, how many situations there are, and a sum of all.
func TestDecisions(t *testing.T) {
	type kind struct {
		happening string
		oneShot   bool
		busy      flags
	}
	type sum struct {
		n    int
		hash uint64
		does map[[2]flags]bool // set, and cleared
		gone bool
	}
	sums, all := map[kind]*sum{}, happenings()
	var reached []scene
	known := map[scene]bool{}
	reach := func(s scene) {
		if !known[s] {
			known[s] = true
			reached = append(reached, s)
		}
	}
	reach(scene{})
	reach(scene{oneShot: true})
	for i := 0; i < len(reached); i++ {
		for environment := range 3 { // that both are so adds nothing
			s := reached[i]
			s.doubtful, s.uncertain = environment&1 > 0, environment&2 > 0
			for _, h := range all {
				if !h.may(s) {
					continue
				}
				e, n := s.build()
				h.do(e, n)
				to, there := s.after(e)
				k := kind{h.name, s.oneShot, s.flags & busy}
				if sums[k] == nil {
					sums[k] = &sum{does: map[[2]flags]bool{}}
				}
				hash := fnv.New64a()
				for _, s := range []scene{s, to} {
					_, _ = hash.Write([]byte{byte(s.flags), byte(s.flags >> 8), b2i(s.live), b2i(s.kids), b2i(s.doubtful), b2i(s.uncertain)})
				}
				_, _ = hash.Write([]byte{b2i(there), byte(e.reads.queue.len()), byte(e.reads.awaited), byte(e.store.top.flags),
					byte(e.store.top.flags >> 8), byte(len(e.stale.nodes)), byte(len(e.store.failures))})
				at := sums[k]
				at.n++
				if at.hash += hash.Sum64(); there {
					at.does[[2]flags{to.flags &^ s.flags, s.flags &^ to.flags}] = true
					to.doubtful, to.uncertain = false, false
					reach(to)
				} else {
					at.gone = true
				}
			}
		}
	}
	var table golden.Table
	for k, s := range sums {
		var does []string
		for d := range s.does {
			text := "nothing"
			if d[0] != 0 {
				text = "+" + named(d[0])
			}
			if d[1] != 0 {
				text = strings.TrimPrefix(text, "nothing") + " -" + named(d[1])
			}
			does = append(does, strings.TrimSpace(text))
		}
		if s.gone {
			does = append(does, "gone")
		}
		slices.Sort(does)
		table.Row(map[bool]string{false: "persistent", true: "one-shot"}[k.oneShot]+", "+k.happening,
			fmt.Sprintf("%s (%d situations, %016x)", strings.Join(does, ", or "), s.n, s.hash), "busy", named(k.busy))
	}
	table.Compare(t, "flags")
}
