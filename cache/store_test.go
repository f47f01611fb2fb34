package cache

import (
	"fmt"
	"math"
	"strings"
	"testing"
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

// What most nodes do not have takes no room, and comes and goes.
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
		with(func(s *framework.Stat) { s.Mzxid = 4 }), // of a server that was restored
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

// A cache with a decoder has a limit unless told otherwise.
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
	assert.Equal(t, math.MaxInt, limit())
	_, err = configure(client, "/r", config{}, []Option{WithDataLimit(0)})
	assert.ErrorIs(t, err, framework.ErrInvalidOption)
}

// A node that is set again and again takes as much memory for a subscriber that does not read as there is
// room for, and not every state that it had.
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

// A subscriber that comes while a failure is kept back hears of it once.
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
