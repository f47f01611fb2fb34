package cache

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// version returns a node: c is its czxid, m its mzxid.
func version(path string, c, m int64) *Node {
	return &Node{Path: path, Stat: framework.Stat{Czxid: c, Mzxid: m}}
}

func created(path string, c int64) Event {
	return Event{Type: Created, Path: path, New: version(path, c, c)}
}

func changed(path string, c, from, to int64) Event {
	return Event{Type: Changed, Path: path, Old: version(path, c, from), New: version(path, c, to)}
}

func deleted(path string, c, m int64) Event {
	return Event{Type: Deleted, Path: path, Old: version(path, c, m)}
}

// restored returns a node of restored data, whose zxids were used before: only its time differs.
func restored(path string, c, m int64) *Node {
	n := version(path, c, m)
	n.Stat.Ctime, n.Stat.Mtime = 1, 1
	return n
}

func failed(path, why string) Event { return Event{Type: Failed, Path: path, Err: errors.New(why)} }

func TestDeltas(t *testing.T) {
	state := func(s framework.State) Event {
		return Event{Type: ConnectionChanged, State: framework.StateChange{State: s, Epoch: 1}}
	}
	for _, tc := range []struct {
		name string
		in   []Event
		want string
	}{
		{"nothing", nil, ""},
		{"created", []Event{created("/a", 1)}, "Created /a 1:1"},
		{"created and changed", []Event{created("/a", 1), changed("/a", 1, 1, 2), changed("/a", 1, 2, 3)},
			"Created /a 1:3"},
		{"come and gone", []Event{created("/a", 1), changed("/a", 1, 1, 2), deleted("/a", 1, 2)}, ""},
		{"come, gone and come", []Event{created("/a", 1), deleted("/a", 1, 1), created("/a", 3)}, "Created /a 3:3"},
		{"changed twice", []Event{changed("/a", 1, 1, 2), changed("/a", 1, 2, 5)}, "Changed /a 1:1 1:5"},
		{"changed and gone", []Event{changed("/a", 1, 1, 2), deleted("/a", 1, 2)}, "Deleted /a 1:1"},
		{"gone", []Event{deleted("/a", 1, 2)}, "Deleted /a 1:2"},
		{"gone and come", []Event{deleted("/a", 1, 2), created("/a", 4)}, "Deleted /a 1:2, Created /a 4:4"},
		{"gone, come and changed", []Event{deleted("/a", 1, 2), created("/a", 4), changed("/a", 4, 4, 5)},
			"Deleted /a 1:2, Created /a 4:5"},
		{"gone, come and gone", []Event{deleted("/a", 1, 2), created("/a", 4), deleted("/a", 4, 4)},
			"Deleted /a 1:2"},
		{"gone, come, gone and come", []Event{deleted("/a", 1, 2), created("/a", 4), deleted("/a", 4, 4),
			created("/a", 6)}, "Deleted /a 1:2, Created /a 6:6"},
		{"deletions before creations, children before parents and after them",
			[]Event{deleted("/a/b", 2, 2), deleted("/a", 1, 1), created("/c", 5), created("/a", 6), created("/a-b", 7),
				created("/a/b", 8)},
			"Deleted /a/b 2:2, Deleted /a 1:1, Created /a 6:6, Created /a/b 8:8, Created /a-b 7:7, Created /c 5:5"},
		{"gone and back as it was", []Event{deleted("/a", 1, 2),
			{Type: Created, Path: "/a", New: version("/a", 1, 2)}}, ""},
		{"gone and back as it was, below another node",
			[]Event{deleted("/a/b", 2, 2), deleted("/a-b", 3, 3), deleted("/a", 1, 1), created("/a", 6),
				created("/a/b", 2), created("/a-b", 3)},
			"Deleted /a/b 2:2, Deleted /a 1:1, Created /a 6:6, Created /a/b 2:2"},
		{"gone, and another with its zxids", []Event{deleted("/a", 1, 2), {Type: Created, Path: "/a", New: restored("/a", 1, 2)}},
			"Deleted /a 1:2, Created /a 1:2"},
		{"another with its zxids", []Event{{Type: Changed, Path: "/a", Old: version("/a", 1, 2), New: restored("/a", 1, 2)}},
			"Deleted /a 1:2, Created /a 1:2"},
		{"failed", []Event{failed("/a", "x"), failed("/a", "y")}, "Failed /a y"},
		{"failed and then well", []Event{failed("/a", "x"), changed("/a", 1, 1, 2)}, "Changed /a 1:1 1:2"},
		{"failed and then gone, never known", []Event{created("/a", 1), failed("/a", "x"), deleted("/a", 1, 1)},
			""},
		{"changed and failed", []Event{changed("/a", 1, 1, 2), failed("/a", "x")},
			"Changed /a 1:1 1:2, Failed /a x"},
		{"gone and failed", []Event{deleted("/a", 1, 2), failed("/a", "x")}, "Deleted /a 1:2, Failed /a x"},
		{"the last state of the connection", []Event{state(framework.Suspended), created("/a", 1),
			state(framework.Lost), state(framework.Reconnected)},
			"ConnectionChanged: Reconnected in epoch 1, Created /a 1:1"},
		{"the change of the connection before what it has brought",
			[]Event{state(framework.Suspended), state(framework.Reconnected), deleted("/a", 1, 2), created("/b", 4),
				{Type: Initialized}},
			"ConnectionChanged: Reconnected in epoch 1, Deleted /a 1:2, Created /b 4:4, Initialized"},
		{"initialized", []Event{created("/a", 1), {Type: Initialized}, created("/b", 2)},
			"Created /a 1:1, Created /b 2:2, Initialized"},
	} {
		var d mergedChanges
		for _, ev := range tc.in {
			d.addEvent(ev)
		}
		var got []string
		for _, ev := range d.toEvents() {
			text := ev.String()
			if ev.Type == Failed {
				text = fmt.Sprintf("Failed %s %v", ev.Path, ev.Err)
			}
			for _, n := range []*Node{ev.Old, ev.New} {
				if n != nil {
					text += fmt.Sprintf(" %d:%d", n.Stat.Czxid, n.Stat.Mzxid)
				}
			}
			got = append(got, text)
		}
		assert.Equal(t, tc.want, strings.Join(got, ", "), tc.name)
	}
}

// model is a tree that changes, and a subscriber's view of it.
type model struct {
	t    *testing.T
	zxid int64
	tree map[string]*Node
	sub  *subscription
	view map[string]*Node
}

var modelPaths = []string{"/r", "/r/a", "/r/a/b", "/r/a/b/c", "/r/a-b", "/r/d"}

func hasChild(tree map[string]*Node, path string) bool {
	for p := range tree {
		if strings.HasPrefix(p, path+"/") {
			return true
		}
	}
	return false
}

// change applies the operation to the tree if that is possible.
func (m *model) change(path string, op byte) {
	m.zxid++
	n := m.tree[path]
	switch {
	case op == 0 && n == nil && (path == "/r" || m.tree[zkpath.Parent(path)] != nil):
		m.tree[path] = version(path, m.zxid, m.zxid)
		m.sub.putEvent(created(path, m.zxid))
	case op == 1 && n != nil:
		m.tree[path] = version(path, n.Stat.Czxid, m.zxid)
		m.sub.putEvent(changed(path, n.Stat.Czxid, n.Stat.Mzxid, m.zxid))
	case op == 2 && n != nil && !hasChild(m.tree, path):
		delete(m.tree, path)
		m.sub.putEvent(deleted(path, n.Stat.Czxid, n.Stat.Mzxid))
	}
}

// read applies one event to the view, and checks that it fits.
func (m *model) read() bool {
	ev, ok, err := m.sub.nextEvent()
	require.NoError(m.t, err)
	if !ok {
		return false
	}
	n := m.view[ev.Path]
	switch ev.Type {
	case Created:
		require.Nil(m.t, n, ev)
		require.True(m.t, ev.Path == "/r" || m.view[zkpath.Parent(ev.Path)] != nil, "%v without its parent", ev)
		m.view[ev.Path] = ev.New
	case Changed:
		require.Equal(m.t, n, ev.Old, ev)
		require.Greater(m.t, ev.New.Stat.Mzxid, n.Stat.Mzxid, ev)
		m.view[ev.Path] = ev.New
	case Deleted:
		require.Equal(m.t, n, ev.Old, ev)
		require.False(m.t, hasChild(m.view, ev.Path), "%v before its children", ev)
		delete(m.view, ev.Path)
	}
	return true
}

// For any changes, and any pace of the subscriber: each event fits to those before it, and in the end the view equals the
// tree.
func FuzzSubscription(f *testing.F) {
	f.Add(uint8(1), []byte("\x00\x01\x02\x10\x11\x12\x30\x31\x32\x70"))
	f.Add(uint8(3), []byte{0, 4, 8, 12, 5, 6, 9, 10, 255, 200, 0, 4, 8, 12, 14, 10, 6, 2})
	f.Fuzz(func(t *testing.T, limit uint8, script []byte) {
		m := &model{t: t, tree: map[string]*Node{}, view: map[string]*Node{},
			sub: newSubscription(int(limit%8) + 1)}
		for _, b := range script {
			if b%4 == 3 {
				for range b / 4 {
					m.read()
				}
			} else {
				m.change(modelPaths[int(b/4)%len(modelPaths)], b%4)
			}
			waiting := m.sub.queue.len()
			require.LessOrEqual(t, waiting, m.sub.limit, "events that wait")
			require.LessOrEqual(t, len(m.sub.batch), 2*len(modelPaths), "events that were merged")
			if m.sub.merged != nil {
				require.LessOrEqual(t, len(m.sub.merged.nodes), len(modelPaths), "nodes that wait")
			}
		}
		for m.read() {
		}
		require.Equal(t, m.tree, m.view)
	})
}

// A subscriber that never reads costs its buffer and two states per node, however much changes.
func TestAStreamThatIsNotRead(t *testing.T) {
	m := &model{t: t, tree: map[string]*Node{}, view: map[string]*Node{}, sub: newSubscription(100)}
	for i := range 200_000 {
		m.change(modelPaths[i%len(modelPaths)], byte(i/len(modelPaths)%3))
	}
	assert.Equal(t, 100, m.sub.queue.len())
	assert.Less(t, cap(m.sub.queue.items), 200)
	assert.LessOrEqual(t, len(m.sub.merged.nodes), len(modelPaths))
	n := 0
	for ; m.read(); n++ {
	}
	assert.LessOrEqual(t, n, 100+2*len(modelPaths))
	assert.Equal(t, m.tree, m.view)
}

func TestComparePaths(t *testing.T) {
	sorted := []string{"/", "/!", "/a", "/a/b", "/a/b/c", "/a/c", "/a!", "/a-b", "/a-b/c", "/a0", "/b"}
	for i, a := range sorted {
		for j, b := range sorted {
			assert.Equal(t, i < j, comparePaths(a, b) < 0, "%s and %s", a, b)
			assert.Equal(t, i == j, comparePaths(a, b) == 0, "%s and %s", a, b)
		}
	}
}

// A subscriber that was behind, and has read its backlog, frees the memory of the backlog.
func TestABacklogThatWasRead(t *testing.T) {
	const n, size = 50_000, 512
	data := func() []byte { return make([]byte, size) }
	for name, limit := range map[string]int{"merged": 1, "queued": 2 * n} {
		t.Run(name, func(t *testing.T) {
			sub := newSubscription(limit)
			before := HeapInUse()
			for i := range int64(n) {
				path := fmt.Sprintf("/r/%d", i)
				sub.putEvent(Event{Type: Created, Path: path, New: &Node{Path: path, Data: data(),
					Stat: framework.Stat{Czxid: i + 1}}})
			}
			require.Greater(t, HeapInUse()-before, int64(n*size), "this measures something else")
			for ok := true; ok; {
				_, ok, _ = sub.nextEvent()
			}
			assert.Less(t, HeapInUse()-before, int64(256<<10))
			runtime.KeepAlive(sub)
		})
	}
}

// HeapInUse returns the number of reachable bytes.
func HeapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
