package cache

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
)

var writeTable = flag.Bool("table", false, "write testdata/node_states.txt")

// The golden table of the effects of all steps on the state of a node, in every state that a walk reaches from that of a
// new node. go test ./cache -run TestNodeTable -table writes it.
func TestNodeTable(t *testing.T) {
	const file = "testdata/node_states.txt"
	var b strings.Builder
	synctest.Test(t, func(t *testing.T) {
		c, _ := overheard(t, serverWith(t, "/r"))
		done := make(chan struct{})
		c.engine.postCall(func() {
			defer close(done)
			for _, oneShot := range []bool{false, true} {
				fmt.Fprintf(&b, "# %s\n", map[bool]string{false: "Persistent watch", true: "One-shot watches"}[oneShot])
				walkStates(t, &b, c.engine, oneShot)
			}
		})
		<-done
	})
	if *writeTable {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, strings.Split(string(want), "\n"), strings.Split(b.String(), "\n"))
}

// scene is an engine with one node whose state is examined: the root, or /r/n.
type scene struct {
	*engine
	n      *treeNode
	result string // of the step
}

// step is an event that the node may get.
type step struct {
	name string
	when func(nodeState) bool // nil: in every state of a node in the tree
	late bool                 // also to a node that has left the tree
	root bool                 // the node is the root
	set  func(*scene)         // prepares the scene
	do   func(*scene)
}

// newScene returns an engine in the session of another.
func newScene(from *engine, oneShot bool, s step, before nodeState) *scene {
	e := &engine{
		cfg: config{client: from.cfg.client, root: "/r", maxDepth: -1, dataLimit: 1 << 20, oneShot: oneShot},
		ctx: from.ctx, store: newStore("/r", false), inbox: from.inbox, session: from.session, view: from.view,
		reads: newReadScheduler(), stale: staleStats{nodes: map[*treeNode]bool{}},
	}
	e.retries.failureLog = failureLogLimit{since: time.Now(), lines: 2 * failureLogMost} // without logging
	e.watching, e.store.onRemove = e.newStrategy(), e.forgetNode
	if w, ok := e.watching.(*persistentStrategy); ok {
		w.watch = &framework.Watch{}
	}
	top := e.store.top
	e.store.putNode(top, nil, framework.Stat{Czxid: 1, Ctime: 1, Mzxid: 1, Mtime: 1, Pzxid: 1})
	sc := &scene{engine: e, n: top}
	if !s.root {
		sc.n = e.store.insertNode(top, "n")
	}
	sc.n.state = before
	if before.data.isQueued() {
		e.reads.queue.push(nodeRead{sc.n, readData})
	}
	if before.list.isQueued() {
		e.reads.queue.push(nodeRead{sc.n, readList})
	}
	if before.hasAny(awaitedForSync) {
		e.reads.awaited++
	}
	if s.set != nil {
		s.set(sc)
	}
	return sc
}

// exists makes the node a read one, with a child of that name unless it is "".
func (s *scene) exists(size int32, kid string) {
	s.store.putNode(s.n, nil, statOf(size, len(kid)))
	if kid != "" {
		s.store.insertNode(s.n, kid)
	}
}

func statOf(size int32, children int) framework.Stat {
	return framework.Stat{
		Czxid: 5, Ctime: 5, Mzxid: 6, Mtime: 6, Version: 1, Pzxid: 7, DataLength: size, NumChildren: int32(children),
	}
}

// play performs a step, and returns the state after it with its effects.
func play(from *engine, oneShot bool, s step, before nodeState) (after nodeState, effects string) {
	sc := newScene(from, oneShot, s, before)
	e, path := sc.engine, sc.store.pathOf(sc.n)
	data, list := queueOf(e, sc.n)
	awaited := e.reads.awaited
	s.do(sc)
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if sc.result != "" {
		add("%s", sc.result)
	}
	data2, list2 := queueOf(e, sc.n)
	for _, d := range []struct {
		name string
		n    int
	}{{"data", data2 - data}, {"list", list2 - list}} {
		if d.n > 0 {
			add("queue %s", d.name)
		}
		if d.n > 1 {
			add("twice")
		}
	}
	if d := e.reads.awaited - awaited; d != 0 {
		add("awaited%+d", d)
	}
	if w, ok := e.watching.(*oneShotStrategy); ok {
		for _, m := range w.unneeded {
			if m.path == path && m.data {
				add("drop data watch")
			}
			if m.path == path && m.children {
				add("drop list watch")
			}
		}
	}
	if top := e.store.top; top != sc.n {
		if st := stateText(top.state); len(st) > 0 {
			add("parent: %s", st)
		}
		if now := e.store.findNode(path); now != nil && now != sc.n {
			add("new: %s", stateText(now.state))
		}
	}
	for _, k := range sc.n.children() {
		add("%s: %s", k.name(), stateText(k.state))
	}
	return sc.n.state, strings.Join(out, ", ")
}

func queueOf(e *engine, n *treeNode) (data, list int) {
	for _, o := range e.reads.queue.items[e.reads.queue.head:] {
		switch {
		case o.node != n:
		case o.kind == readList:
			list++
		default:
			data++
		}
	}
	return data, list
}

// row is a state by component, as in the table.
type row [8]string

var components = row{"data", "list", "identity", "childrenKnown", "eventsMissed", "awaitedForSync", "dataWatch", "listWatch"}

const gonePart = "leftTree"

func stateText(r nodeState) string {
	var out []string
	for i, v := range rowOf(r) {
		if v != "" {
			out = append(out, components[i]+" "+v)
		}
	}
	return strings.Join(out, " ")
}

func walkStates(t *testing.T, b *strings.Builder, from *engine, oneShot bool) {
	steps := stepsOf(oneShot)
	seen, queue := map[nodeState]bool{{}: true}, []nodeState{{}}
	type outcome struct {
		after   row
		effects string
	}
	table := make([]map[row]outcome, len(steps))
	for i := range steps {
		table[i] = map[row]outcome{}
	}
	for len(queue) > 0 {
		before := queue[0]
		queue = queue[1:]
		for i, s := range steps {
			if isGone := rowOf(before)[0] == gonePart; isGone && !s.late || !isGone && s.when != nil && !s.when(before) {
				continue
			}
			after, effects := play(from, oneShot, s, before)
			now := outcome{rowOf(after), effects}
			if old, known := table[i][rowOf(before)]; known && old != now {
				t.Errorf("%s in %v: %v and %v", s.name, rowOf(before), old, now)
			}
			table[i][rowOf(before)] = now
			if !seen[after] {
				seen[after] = true
				queue = append(queue, after)
			}
		}
	}
	states := map[row]bool{}
	for r := range seen {
		states[rowOf(r)] = true
	}
	fmt.Fprintf(b, "# %d states of a node\n", len(states))
	for i, s := range steps {
		rows := make([]line, 0, len(table[i]))
		for before, o := range table[i] {
			rows = append(rows, line{before, o.after, o.effects})
		}
		factor(b, s.name, rows)
	}
}

type line struct {
	before, after row
	effects       string
}

// factor writes the rows of one step. If a component changes independently of the others, and has no effect on them, it is
// written separately: so few lines are as exact as all rows.
func factor(b *strings.Builder, name string, rows []line) {
	fmt.Fprintf(b, "\n%s: %d states\n", name, len(rows))
	isGone := func(l line) bool { return l.before[0] == gonePart }
	for _, l := range rows {
		if isGone(l) {
			fmt.Fprintf(b, "  leftTree -> %s\n", strings.Join(strings.Fields(strings.Join(l.after[:], " ")+" "+l.effects), " "))
		}
	}
	rows = slices.DeleteFunc(rows, isGone)
	var joint []int
	for c := range components {
		joint = append(joint, c)
	}
	for c := range components {
		alone, others := map[string]string{}, map[row]line{}
		separable := true
		for _, l := range rows {
			if now, known := alone[l.before[c]]; known && now != l.after[c] {
				separable = false
			}
			alone[l.before[c]] = l.after[c]
			rest := l
			rest.before[c], rest.after[c] = "", ""
			if l.after[0] == gonePart { // for any components
				rest.after = row{gonePart}
			}
			if now, known := others[rest.before]; known && now != rest {
				separable = false
			}
			others[rest.before] = rest
		}
		if !separable {
			continue
		}
		joint = slices.DeleteFunc(joint, func(i int) bool { return i == c })
		for _, v := range sortedKeys(alone) {
			if alone[v] != v {
				fmt.Fprintf(b, "  %s %s -> %s\n", components[c], word(v), word(alone[v]))
			}
		}
		rows = rows[:0:0]
		for _, l := range others {
			rows = append(rows, l)
		}
	}
	var lines, names []string
	for _, c := range joint {
		names = append(names, components[c])
	}
	fmt.Fprintf(b, "  by %s:\n", word(strings.Join(names, " ")))
	for _, l := range rows {
		var from, to []string
		for _, c := range joint {
			from = append(from, word(l.before[c]))
			if l.before[c] != l.after[c] {
				to = append(to, components[c]+" "+word(l.after[c]))
			}
		}
		text := strings.Join(from, " ")
		if to = append(to, l.effects); len(strings.Join(to, "")) == 0 {
			to = []string{"-"}
		}
		lines = append(lines, fmt.Sprintf("  %s -> %s\n", text, strings.Trim(strings.Join(to, ", "), ", ")))
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, ""))
}

func word(v string) string { return cmp.Or(v, "-") }

func sortedKeys(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// stepsOf returns the steps that are possible for a node.
func stepsOf(oneShot bool) []step {
	steps := slices.Concat(wishSteps(), readSteps(), answerSteps())
	if oneShot {
		return append(steps, oneShotSteps()...)
	}
	return append(steps, persistentSteps()...)
}

func answered(kind readKind, r framework.ReadResult) func(*scene) {
	return func(s *scene) {
		requeued := s.applyReply(nodeRead{s.n, kind}, &r)
		s.result = strings.TrimPrefix(fmt.Sprintf("requeued %d", requeued), "requeued 0")
	}
}

func answerSteps() []step {
	const size = 10
	same, leaf, dir := statOf(size, 0), func(s *scene) { s.exists(size, "") }, func(s *scene) { s.exists(size, "kid") }
	changed, other, ephemeral := same, same, same
	changed.Mzxid = 9
	other.Czxid, other.Pzxid = 9, 9
	ephemeral.EphemeralOwner, ephemeral.Czxid = 77, 9
	grown := changed
	grown.NumChildren, grown.Pzxid = 2, 9
	sameDir := statOf(size, len("kid"))
	data := func(name string, set func(*scene), stat framework.Stat) step {
		return step{name: "data: " + name, when: dataInFlight, late: true, set: set,
			do: answered(readData, framework.ReadResult{Stat: stat, Data: make([]byte, size)})}
	}
	failed := func(name string, kind readKind, set func(*scene), err error) step {
		s := step{name: name, when: dataInFlight, late: !errors.Is(err, framework.ErrNoNode), set: set, do: answered(kind, framework.ReadResult{Err: err})}
		if kind == readList {
			s.when = listInFlight
		}
		return s
	}
	root := func(s step) step {
		s.name, s.root = s.name+" (root)", true
		return s
	}
	return []step{
		data("a new node", nil, same),
		data("a new node with children", nil, grown),
		data("a new ephemeral node", nil, ephemeral),
		data("unchanged leaf", leaf, same),
		data("unchanged directory", dir, sameDir),
		data("changed leaf", leaf, changed),
		data("leaf that has children", leaf, grown),
		data("changed directory", dir, grown),
		data("directory that has none", dir, changed),
		data("another node", leaf, other),
		data("another node for a directory", dir, other),
		data("another node, ephemeral, for a directory", dir, ephemeral),
		data("parent that may be another", func(s *scene) { leaf(s); doubtParent(s) }, same),
		failed("data: no node", readData, leaf, framework.ErrNoNode),
		root(failed("data: no node", readData, nil, framework.ErrNoNode)),
		root(failed("data: no node of a directory", readData, dir, framework.ErrNoNode)),
		failed("data: no permission", readData, leaf, framework.ErrNoAuth),
		failed("data: refused", readData, leaf, framework.ErrInvalidACL),
		{name: "stat: unchanged", when: dataInFlight, set: leaf, do: answered(readStat, framework.ReadResult{Stat: same})},
		{name: "stat: changed", when: dataInFlight, set: leaf, do: answered(readStat, framework.ReadResult{Stat: changed})},
		{name: "stat: another node", when: dataInFlight, set: dir, do: answered(readStat, framework.ReadResult{Stat: other})},
		{name: "stat: parent that may be another", when: dataInFlight, set: func(s *scene) { leaf(s); doubtParent(s) },
			do: answered(readStat, framework.ReadResult{Stat: same})},
		{name: "list: the same", when: listInFlight, late: true, set: dir, do: answered(readList, framework.ReadResult{Children: []string{"kid"}})},
		{name: "list: one more", when: listInFlight, set: dir,
			do: answered(readList, framework.ReadResult{Children: []string{"kid", "more"}})},
		{name: "list: none", when: listInFlight, set: leaf, do: answered(readList, framework.ReadResult{})},
		failed("list: no node", readList, leaf, framework.ErrNoNode),
		failed("list: no permission", readList, leaf, framework.ErrNoAuth),
	}
}

func readSteps() []step {
	take := func(e *scene) {
		switch o, light, ok := e.takeRead(); {
		case !ok:
			e.result = "nothing"
		case light && o.kind == readData:
			e.result = "light read " + kindName(o)
		default:
			e.result = "read " + kindName(o)
		}
	}
	only := func(kind readKind) func(*scene) { // only this read is in the queue
		return func(s *scene) {
			s.reads.queue = fifoQueue[nodeRead]{}
			s.reads.queue.push(nodeRead{s.n, kind})
		}
	}
	back := func(kind readKind) func(*scene) { return func(s *scene) { s.applyInput(s.n, failedReadInputs[kind]) } }
	return []step{
		{name: "data taken", late: true, set: only(readData), do: take},
		{name: "list taken", late: true, set: only(readList), do: take},
		{name: "data failed", when: dataInFlight, late: true, do: back(readData)},
		{name: "stat failed", when: dataInFlight, late: true, do: back(readStat)},
		{name: "list failed", when: listInFlight, late: true, do: back(readList)},
	}
}

func kindName(o nodeRead) string {
	return [...]string{readData: "data", readList: "list", readStat: "stat"}[o.kind]
}

func persistentSteps() []step {
	way := func(s *scene) *persistentStrategy { return s.watching.(*persistentStrategy) }
	event := func(ev framework.EventType, below string) func(*scene) {
		return func(s *scene) { way(s).handleEvent(framework.Event{Type: ev, Path: s.store.pathOf(s.n) + below}) }
	}
	live := func(s *scene) { s.exists(10, "kid") }
	early := func(s *scene) { s.exists(10, ""); way(s).watch = nil }
	changed, more := statOf(10, 0), statOf(10, 2)
	changed.Mzxid, more.Mzxid, more.Pzxid = 9, 9, 9
	return []step{
		{name: "event: created", set: live, do: event(framework.EventNodeCreated, "")},
		{name: "event: created (root)", root: true, set: live, do: event(framework.EventNodeCreated, "")},
		{name: "event: changed", set: live, do: event(framework.EventNodeDataChanged, "")},
		{name: "event: changed (root)", root: true, set: live, do: func(s *scene) {
			event(framework.EventNodeDataChanged, "")(s)
			s.result = fmt.Sprintf("suspect %t", way(s).suspect != nil)
		}},
		{name: "event: deleted", set: live, do: event(framework.EventNodeDeleted, "")},
		{name: "event: deleted (root)", root: true, set: live, do: event(framework.EventNodeDeleted, "")},
		{name: "event: child created", set: live, do: func(s *scene) {
			event(framework.EventNodeCreated, "/new")(s)
			s.result = fmt.Sprintf("Stat soon %t %t", len(s.stale.nodes) > 0, s.stale.nodes[s.n])
		}},
		{name: "event: child created again", set: live, do: func(s *scene) {
			event(framework.EventNodeCreated, "/kid")(s)
			s.result = fmt.Sprintf("Stat soon %t %t", len(s.stale.nodes) > 0, s.stale.nodes[s.n])
		}},
		{name: "event: child deleted", set: live, do: event(framework.EventNodeDeleted, "/kid")},
		{name: "event: unknown child deleted", set: live, do: event(framework.EventNodeDeleted, "/other")},
		{name: "data before the watch is set: unchanged", when: dataInFlight, set: early,
			do: answered(readData, framework.ReadResult{Stat: statOf(10, 0)})},
		{name: "data before the watch is set: changed", when: dataInFlight, set: early,
			do: answered(readData, framework.ReadResult{Stat: changed})},
		{name: "data before the watch is set: more children", when: dataInFlight, set: early,
			do: answered(readData, framework.ReadResult{Stat: more})},
		{name: "data while a gap is open", when: dataInFlight, set: func(s *scene) { s.exists(10, ""); way(s).gapOpen = true },
			do: answered(readData, framework.ReadResult{Stat: changed})},
	}
}

func oneShotSteps() []step {
	way := func(s *scene) *oneShotStrategy { return s.watching.(*oneShotStrategy) }
	event := func(ev framework.EventType) func(*scene) {
		return func(s *scene) {
			way(s).enqueueEvent(framework.Event{Type: ev, Path: s.store.pathOf(s.n)})
			for _, p := range s.inbox.Take() {
				s.engine.runCall(p)
			}
		}
	}
	live := func(s *scene) { s.exists(10, "kid") }
	leaf := func(s *scene) { s.exists(10, "") }
	got := func(kind readKind, armed, now bool, r framework.ReadResult) func(*scene) {
		return func(s *scene) {
			w := way(s)
			w.leaves.connections = 1
			connections := uint64(0)
			if now {
				connections = 1
			}
			w.handleReply(nodeRead{s.n, kind}, sentRead{armed: armed, connections: connections}, &r)
		}
	}
	return []step{
		{name: "event: changed", set: live, do: event(framework.EventNodeDataChanged)},
		{name: "event: created", do: event(framework.EventNodeCreated)},
		{name: "event: deleted", set: live, do: event(framework.EventNodeDeleted)},
		{name: "event: children changed", set: live, do: event(framework.EventNodeChildrenChanged)},
		{name: "data with its watch: a new leaf", when: dataInFlight,
			do: got(readData, true, true, framework.ReadResult{Stat: statOf(0, 0)})},
		{name: "data with its watch: an old leaf", when: dataInFlight, set: leaf,
			do: got(readData, true, true, framework.ReadResult{Stat: statOf(10, 0)})},
		{name: "data with its watch: a leaf of another connection", when: dataInFlight,
			do: got(readData, true, false, framework.ReadResult{Stat: statOf(0, 0)})},
		{name: "data with its watch: a directory", when: dataInFlight, late: true, set: live,
			do: got(readData, true, true, framework.ReadResult{Stat: statOf(10, 1)})},
		{name: "list with its watch", when: listInFlight, late: true, set: live,
			do: got(readList, true, true, framework.ReadResult{Children: []string{"kid"}})},
		{name: "stat with its watch (root): no node", root: true, when: dataInFlight,
			do: got(readStat, true, true, framework.ReadResult{Err: framework.ErrNoNode})},
		{name: "watches of a leaf set", when: listInFlight, set: leaf, do: func(s *scene) {
			s.reads.weight++
			way(s).handleLeaves([]nodeRead{{s.n, readList}}, nil)
		}},
		{name: "leaf taken", set: func(s *scene) {
			s.reads.queue = fifoQueue[nodeRead]{}
			s.reads.queue.push(nodeRead{s.n, readList})
			way(s).leaves.baseZxid = 1
		}, do: func(s *scene) {
			if o, light, ok := s.takeRead(); ok {
				s.result = fmt.Sprintf("%s collected %t", kindName(o), light && way(s).collectLeaf(o))
			}
		}},
		{name: "first read after a reconnect", set: func(s *scene) { way(s).leaves.baseZxid = 1 }, do: func(s *scene) { way(s).recordBaseZxid() }},
		{name: "forget watches", do: func(s *scene) { s.watching.forgetWatches(s.n) }},
		{name: "caught up after a reconnect (root)", root: true, set: func(s *scene) { way(s).missedPending = true },
			do: func(s *scene) { way(s).handleRootRead(&framework.ReadResult{}, false) }},
		{name: "reconnected (root)", root: true, set: func(s *scene) { s.engine.sync.setSynced() }, do: func(s *scene) { way(s).handleReconnect() }},
	}
}
func dataInFlight(s nodeState) bool { return s.data.isSent() }
func listInFlight(s nodeState) bool { return s.list.isSent() }

func doubtParent(s *scene) { s.applyInput(s.store.top, identityUnproven) }

func rowOf(s nodeState) (out row) {
	if s.hasAny(leftTree) {
		return row{gonePart}
	}
	fetches := [...]string{"", "light", "queued", "inFlight", "outdated"}
	out[0], out[1] = fetches[s.data], fetches[s.list]
	switch {
	case s.hasAny(identityUncertain) && s.hasAny(identityProving):
		out[2] = "uncertain and proving"
	case s.hasAny(identityUncertain):
		out[2] = "uncertain"
	case s.hasAny(identityProving):
		out[2] = "proving"
	}
	for i, fact := range []nodeFacts{childrenKnown, eventsMissed, awaitedForSync, dataWatch, listWatch} {
		if s.hasAny(fact) {
			out[3+i] = "yes"
		}
	}
	return out
}

func wishSteps() []step {
	on := func(ev nodeInput) func(*scene) { return func(s *scene) { s.applyInput(s.n, ev) } }
	return []step{
		{name: "dataWanted", late: true, do: on(dataWanted)},
		{name: "maybeReplaced", late: true, do: on(maybeReplaced)},
		{name: "compareWanted", late: true, do: on(compareWanted)},
		{name: "listWanted", late: true, do: on(listWanted)},
		{name: "nodeAwaited", do: on(nodeAwaited)},
		{name: "compareTree (root)", root: true, do: func(s *scene) { s.compareTree() }},
		{name: "startStrategy (root)", root: true, do: func(s *scene) { s.startStrategy(newOneShotStrategy(s.engine)) }},
		{name: "nodeRemoved", do: func(s *scene) { s.forgetNode(s.n) }},
	}
}
