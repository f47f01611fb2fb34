package cache

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
)

func TestNamesAndDataInOne(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 254, 255, 256, 70_000} {
		name := strings.Repeat("n", size)
		for _, data := range []string{"", "d", strings.Repeat("data", 1000)} {
			n := &treeNode{text: packText(name, []byte(data))}
			assert.Equal(t, name, n.name())
			assert.Equal(t, data, string(n.data()))
		}
	}
	n := &treeNode{}
	assert.Empty(t, n.name())
	assert.Nil(t, n.data())
}

// Numbers that most nodes do not have take memory only in the nodes that have them.
func TestStatsAreKeptWhole(t *testing.T) {
	created := framework.Stat{Czxid: 5, Mzxid: 5, Pzxid: 5, Ctime: 7, Mtime: 7, DataLength: 3}
	with := func(change func(*framework.Stat)) framework.Stat {
		s := created
		change(&s)
		return s
	}
	n := &treeNode{}
	for _, s := range []framework.Stat{
		created,
		with(func(s *framework.Stat) { s.Mzxid, s.Mtime, s.Version = 8, 9, 1 }),
		with(func(s *framework.Stat) { s.Mtime = 9 }),
		with(func(s *framework.Stat) { s.Version = 1 }),
		with(func(s *framework.Stat) { s.Aversion = 1 }),
		with(func(s *framework.Stat) { s.Pzxid, s.Cversion = 8, 2 }),
		with(func(s *framework.Stat) { s.Pzxid, s.Cversion, s.NumChildren = 8, 1, 1 }),
		with(func(s *framework.Stat) { s.EphemeralOwner = 77 }),
		with(func(s *framework.Stat) { s.Mzxid = 4 }), // of a server with restored data
		{},
		created,
	} {
		n.setStat(s)
		assert.Equal(t, s, n.stat())
	}
	assert.Nil(t, n.modified)
	assert.Nil(t, n.family)

	kid := &treeNode{parent: n, text: packText("kid", nil)}
	n.setChildren([]*treeNode{kid})
	assert.Equal(t, created, n.stat(), "children that have been heard of do not change it")
	n.setStat(with(func(s *framework.Stat) { s.Version = 1 }))
	assert.Equal(t, []*treeNode{kid}, n.children())
	n.setChildren(nil)
	assert.Nil(t, n.family)
	assert.LessOrEqual(t, unsafe.Sizeof(treeNode{}), uintptr(64), "there may be hundreds of thousands")
}

// A cache with a decoder has a limit by default.
func TestDataLimitByDefault(t *testing.T) {
	client, err := framework.New("none:1")
	require.NoError(t, err)
	defer client.Close()
	limit := func(opts ...Option) int {
		cfg, err := configure(client, "/r", config{}, opts)
		require.NoError(t, err)
		return cfg.dataLimit
	}
	assert.Equal(t, 256<<20, limit(WithCompressedData()))
	asItIs := func(_ string, data []byte) ([]byte, error) { return data, nil }
	assert.Equal(t, 256<<20, limit(WithDecoder(asItIs)))
	assert.Equal(t, 10, limit(WithDataLimit(10), WithCompressedData()))
	assert.Equal(t, 1, limit(WithDataLimit(1)))
	assert.Equal(t, math.MaxInt, limit())
	_, err = configure(client, "/r", config{}, []Option{WithDataLimit(0)})
	assert.ErrorIs(t, err, framework.ErrInvalidOption)
}

// Containers and TTL nodes have an owner, too, where the server shows it. They have children.
func TestEphemeralNodesByTheirOwner(t *testing.T) {
	for owner, want := range map[int64]bool{0: false, 0x1dc6acfac050000: true, math.MinInt64: false, -1 << 56: false} {
		assert.Equal(t, want, isEphemeral(&framework.Stat{EphemeralOwner: owner}), "%#x", owner)
	}
}

// The memory for a node that is set again and again, and a subscriber that does not read, is limited, and does not grow
// with every state of the node.
func TestASubscriberBehindInBytes(t *testing.T) {
	sub := newSubscription(1000)
	stat := framework.Stat{Czxid: 1}
	old := &Node{Path: "/a", Data: make([]byte, 1<<20), Stat: stat}
	sub.putEvent(Event{Type: Created, Path: "/a", New: old})
	for i := range 500 {
		stat.Mzxid = int64(i + 2)
		now := &Node{Path: "/a", Data: make([]byte, 1<<20), Stat: stat}
		sub.putEvent(Event{Type: Changed, Path: "/a", Old: old, New: now})
		old = now
	}
	assert.LessOrEqual(t, sub.queue.len(), 16)
	assert.LessOrEqual(t, sub.bytes, bufferBytes)
	var last *Node
	events := 0
	for ev, ok, _ := sub.nextEvent(); ok; ev, ok, _ = sub.nextEvent() {
		if last != nil {
			assert.Equal(t, last.Stat, ev.Old.Stat, "no step is missing")
		}
		last = ev.New
		events++
	}
	assert.Same(t, old, last)
	assert.Less(t, events, 20)
	assert.Zero(t, sub.bytes)

	sub.putEvent(Event{Type: Changed, Path: "/a", Old: old,
		New: &Node{Path: "/a", Data: make([]byte, bufferBytes), Stat: stat}})
	assert.Equal(t, 1, sub.queue.len(), "the first one always has room")

	for size, queued := range map[int]int{bufferBytes - 4: 2, bufferBytes - 3: 1} {
		sub := newSubscription(1000)
		for _, size := range []int{0, size} {
			sub.putEvent(Event{Type: Created, Path: "/a", New: &Node{Path: "/a", Data: make([]byte, size), Stat: stat}})
		}
		assert.Equal(t, queued, sub.queue.len(), "%d bytes and two paths", size)
	}
}

// Nodes that come, cannot be read, and go are not kept for a subscriber that does not read.
func TestFailuresOfNodesThatAreGoneAreNotKept(t *testing.T) {
	s := newStore("/r", false)
	s.onRemove = func(*treeNode) {}
	sub := s.subscribe(1)
	for i := range 100 {
		n := s.insertNode(s.top, fmt.Sprint(i))
		s.addFailure(n, readFailure{err: assert.AnError})
		s.publishDraft()
		s.removeNode(n)
	}
	require.NotNil(t, sub.merged)
	assert.Empty(t, sub.merged.nodes)
	assert.Empty(t, s.failed)
	assert.Empty(t, s.draft.nodes)
}

// A subscriber that comes while a failure is withheld gets it once.
func TestAFailureThatIsKeptBackIsReportedOnce(t *testing.T) {
	s := newStore("/r", false)
	s.setLoose(false)
	s.addFailure(s.insertNode(s.top, "a"), readFailure{err: assert.AnError})
	sub := s.subscribe(10)
	s.publishDraft()
	var got []EventType
	for ev, ok, _ := sub.nextEvent(); ok; ev, ok, _ = sub.nextEvent() {
		got = append(got, ev.Type)
	}
	assert.Equal(t, []EventType{Failed}, got)
}

// storeOf returns a store of /r with these children, in version 1 and published.
func storeOf(names ...string) *nodeStore {
	s := newStore("/r", false)
	s.onRemove = func(*treeNode) {}
	s.putNode(s.top, nil, framework.Stat{Czxid: 1, Mzxid: 1})
	for _, name := range names {
		s.putNode(s.insertNode(s.top, name), nil, framework.Stat{Czxid: 1, Mzxid: 1})
	}
	s.publishDraft()
	return s
}

// While changes are withheld readers see the tree before them: by path, as a list, and as a number.
func TestReadersWhileChangesAreWithheld(t *testing.T) {
	s := storeOf("a", "b", "c")
	s.setLoose(false)
	look := func() (nodes []string) {
		for name, n := range s.childNodes("/r") {
			nodes = append(nodes, fmt.Sprint(name, n.Stat.Mzxid))
		}
		return nodes
	}
	assert.Equal(t, []string{"a1", "b1", "c1"}, look())
	s.removeNode(s.findNode("/r/a"))
	s.putNode(s.findNode("/r/b"), nil, framework.Stat{Czxid: 1, Mzxid: 2})
	s.putNode(s.insertNode(s.top, "d"), nil, framework.Stat{Czxid: 3, Mzxid: 3})
	s.putNode(s.insertNode(s.findNode("/r/d"), "child"), nil, framework.Stat{Czxid: 4, Mzxid: 4})
	assert.Equal(t, []string{"a1", "b1", "c1"}, look())
	assert.Equal(t, 4, s.len())
	s.publishDraft()
	assert.Equal(t, []string{"b2", "c1", "d3"}, look())
	assert.Equal(t, 5, s.len())
}

// A subscriber ends while a change waits to be published, and another one begins: its stream ends with the last state.
func TestASubscriberAfterAnotherOne(t *testing.T) {
	s := storeOf("a")
	first := s.subscribe(10)
	s.putNode(s.findNode("/r/a"), nil, framework.Stat{Czxid: 1, Mzxid: 2})
	s.unsubscribe(first)
	s.putNode(s.findNode("/r/a"), nil, framework.Stat{Czxid: 1, Mzxid: 3})
	second := s.subscribe(10)
	s.publishDraft()
	var last Event
	for ev, ok, _ := second.nextEvent(); ok; ev, ok, _ = second.nextEvent() {
		last = ev
	}
	require.Equal(t, Changed, last.Type)
	assert.EqualValues(t, 3, last.New.Stat.Mzxid)
}

// A snapshot has every number of a Stat, and nodes above that could not be read.
func TestExtremesInASnapshot(t *testing.T) {
	stat := framework.Stat{Czxid: math.MaxInt64, Mtime: math.MinInt64, Version: math.MaxInt32, Cversion: math.MinInt32}
	st := storeOf("a")
	st.putNode(st.insertNode(st.insertNode(st.top, "unreadable"), "child"), nil, stat)
	e := &engine{store: st, cfg: config{root: "/r"}}
	var b bytes.Buffer
	_, err := e.takeSnapshot().WriteTo(&b)
	require.NoError(t, err)
	s, err := ReadSnapshot(&b)
	require.NoError(t, err)
	require.Equal(t, 4, s.Len())
	assert.Equal(t, savedNode{name: "unreadable", depth: 1}, s.nodes[2])
	assert.Equal(t, savedNode{name: "child", depth: 2, live: true, stat: stat}, s.nodes[3])
}

// A snapshot with a right checksum is refused, too, if its nodes are not a tree.
func TestSnapshotsThatAreNoTree(t *testing.T) {
	node := func(depth int32, name string) savedNode { return savedNode{depth: depth, name: name} }
	for name, s := range map[string]*Snapshot{
		"no path":             {root: "r"},
		"no root":             {root: "/r", nodes: []savedNode{node(1, "a")}},
		"two roots":           {root: "/r", nodes: []savedNode{node(0, ""), node(0, "")}},
		"a name twice":        {root: "/r", nodes: []savedNode{node(0, ""), node(1, "a"), node(1, "a")}},
		"names out of order":  {root: "/r", nodes: []savedNode{node(0, ""), node(1, "b"), node(1, "a")}},
		"a node without name": {root: "/r", nodes: []savedNode{node(0, ""), node(1, "")}},
		"a path for a name":   {root: "/r", nodes: []savedNode{node(0, ""), node(1, "a/b")}},
		"a parent is missing": {root: "/r", nodes: []savedNode{node(0, ""), node(2, "a")}},
		"unknown data":        {root: "/r", dataForm: formNone + 1},
	} {
		var b bytes.Buffer
		_, err := s.WriteTo(&b)
		require.NoError(t, err)
		_, err = ReadSnapshot(&b)
		assert.ErrorIs(t, err, ErrSnapshot, name)
	}
}

// slowSource is a cache whose contents take a second to collect, and differ each time.
type slowSource struct {
	*Cache
	n int
}

func (s *slowSource) entries() iter.Seq2[string, Node] {
	time.Sleep(time.Second)
	s.n++
	return maps.All(map[string]Node{"/n": {Stat: framework.Stat{Mzxid: int64(s.n)}}})
}

// States that take long to collect are sent seldom, and the last one is not missed.
func TestStatesTakeATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		f := &following{subscription: newSubscription(1), follower: &follower{source: &slowSource{}, loaded: true},
			send: func(map[string]Node) { sent++ }}
		assert.Zero(t, f.dueAt())
		for range 90 {
			f.putEvent(Event{Type: Changed, Path: "/n", New: &Node{}})
			f.receiveEvents()
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, 1, sent)
		assert.Equal(t, time.Second, time.Until(f.dueAt()).Round(time.Second))
		time.Sleep(time.Until(f.dueAt()))
		f.receiveEvents()
		assert.Equal(t, 2, sent)
		assert.Zero(t, f.dueAt())
		time.Sleep(time.Minute)
		f.receiveEvents()
		assert.Equal(t, 2, sent, "without a change")
	})
}
