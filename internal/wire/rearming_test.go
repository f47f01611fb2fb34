package wire

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// rearms returns a written request for watches of a set.
func (r *table) rearms(set *WatchSet, watches ...*Watch) *Call {
	for _, w := range watches {
		w.Set = set
	}
	c := &Call{Op: jute.OpSetWatches, Rearm: &Rearming{Since: 7, Watches: watches}}
	c.Body = c.Rearm.encodeBody(nil)
	r.recordSubmit(c)
	r.attachRearming(c)
	return c
}

func bodyOf(t *testing.T, c *Call) (req jute.SetWatches) {
	require.NoError(t, jute.Unmarshal(c.Body, &req))
	return req
}

func TestRearmedWatches(t *testing.T) {
	data := func() *Watch { return &Watch{Kind: Data, Path: "/x"} }
	child := func() *Watch { return &Watch{Kind: Child, Path: "/x"} }
	t.Run("fire once each, as one for several of a path", func(t *testing.T) {
		r, set := newTable(t), &WatchSet{}
		a, b, other := data(), data(), child()
		c := r.rearms(set, a, b, other)
		assert.Equal(t, jute.SetWatches{RelativeZxid: 7, Data: []string{"/x", "/x"},
			Child: []string{"/x"}}, bodyOf(t, c))
		require.Empty(t, r.recordRearmed(c.Rearm, jute.CodeOK))
		assert.Len(t, r.fired(jute.EventNodeDataChanged, "/x"), 1)
		assert.Len(t, r.fired(jute.EventNodeDataChanged, "/x"), 0)
		assert.Len(t, r.fired(jute.EventNodeDeleted, "/x"), 1)
		r.empty()
	})
	t.Run("an event before the answer", func(t *testing.T) {
		r, set := newTable(t), &WatchSet{}
		c := r.rearms(set, data(), child())
		assert.Len(t, r.fired(jute.EventNodeChildrenChanged, "/x"), 1)
		require.Empty(t, r.recordRearmed(c.Rearm, jute.CodeOK))
		calls, _ := r.rearmAll(9, 1<<20)
		require.Len(t, calls, 1)
		assert.Equal(t, []string{"/x"}, bodyOf(t, calls[0]).Data)
		assert.Empty(t, bodyOf(t, calls[0]).Child, "that one has fired")
	})
	t.Run("no answer", func(t *testing.T) {
		r, set := newTable(t), &WatchSet{}
		c := r.rearms(set, data(), child())
		assert.Len(t, r.fired(jute.EventNodeChildrenChanged, "/x"), 1)
		for _, w := range c.watchesToArm() {
			r.dropPending(w)
		}
		r.empty()
	})
	t.Run("refused", func(t *testing.T) {
		r, set := newTable(t), &WatchSet{}
		c := r.rearms(set, data(), child())
		require.Empty(t, r.recordRearmed(c.Rearm, jute.CodeUnimplemented))
		r.empty()
	})
	t.Run("given up before the answer", func(t *testing.T) {
		r, set := newTable(t), &WatchSet{}
		h := listen(Data, "/x")
		c := r.rearms(set, &h.Watch)
		assert.Empty(t, r.unwatch(h), "it is not armed yet")
		require.Empty(t, r.recordRearmed(c.Rearm, jute.CodeOK))
		assert.Len(t, r.dropUnused("/x"), 1, "the server has armed it")
		r.empty()
	})
	t.Run("given up before the request is written", func(t *testing.T) {
		r, set := newTable(t), &WatchSet{}
		h, other := listen(Data, "/x"), data()
		require.Empty(t, r.unwatch(h))
		c := r.rearms(set, &h.Watch, other)
		assert.Equal(t, []string{"/x"}, bodyOf(t, c).Data, "it is left out")
		assert.Equal(t, []string{nameOf(other)}, heardBy(r.fired(jute.EventNodeDataChanged, "/x")))
		require.Empty(t, r.recordRearmed(c.Rearm, jute.CodeOK))
		assert.Empty(t, r.fired(jute.EventNodeDataChanged, "/x"))
		r.dropUnused("/x")
		r.empty()
	})
	t.Run("where a persistent watch is", func(t *testing.T) {
		r, set := newTable(t), &WatchSet{}
		own := r.armed(Persistent, "/x")
		a, free := child(), &Watch{Kind: Child, Path: "/free"}
		c := r.rearms(set, a, free)
		assert.Equal(t, []string{"/free"}, bodyOf(t, c).Child)
		fire := r.recordRearmed(c.Rearm, jute.CodeOK)
		require.Len(t, fire, 1, "whether the node has changed is not known")
		assert.Equal(t, eventDelivery{a, WatchEvent{Type: jute.EventNodeChildrenChanged, Path: "/x"}}, fire[0])
		assert.Len(t, r.fired(jute.EventNodeChildrenChanged, "/free"), 1)
		assert.Len(t, r.unwatch(own), 1)
		r.empty()
	})
	t.Run("for a creation", func(t *testing.T) {
		r, set := newTable(t), &WatchSet{}
		a, b := data(), &Watch{Kind: Data, Path: "/absent", Absent: true}
		c := r.rearms(set, a, b)
		assert.Equal(t, jute.SetWatches{RelativeZxid: 7, Data: []string{"/x"}, Exist: []string{"/absent"}}, bodyOf(t, c))
		require.Empty(t, r.recordRearmed(c.Rearm, jute.CodeOK))
		calls, _ := r.rearmAll(9, 1<<20)
		require.Len(t, calls, 1)
		assert.Equal(t, []string{"/absent"}, bodyOf(t, calls[0]).Exist, "of another connection, too")
		assert.Equal(t, []string{"/x"}, bodyOf(t, calls[0]).Data)
		assert.Len(t, r.fired(jute.EventNodeCreated, "/absent"), 1)
		assert.Len(t, r.fired(jute.EventNodeDeleted, "/x"), 1)
		r.empty()
	})
	t.Run("for a creation that an earlier event has used up", func(t *testing.T) {
		for code, removals := range map[int32]int{jute.CodeOK: 1, jute.CodeUnimplemented: 0} {
			r, set := newTable(t), &WatchSet{}
			c := r.rearms(set, &Watch{Kind: Data, Path: "/absent", Absent: true})
			assert.Len(t, r.fired(jute.EventNodeDeleted, "/absent"), 1)
			require.Empty(t, r.recordRearmed(c.Rearm, code))
			assert.Len(t, r.dropUnused("/absent"), removals, "whether the server has armed it")
			r.empty()
		}
	})
	t.Run("where others watch, too", func(t *testing.T) {
		r, set := newTable(t), &WatchSet{}
		own := r.armed(Data, "/x")
		a := data()
		c := r.rearms(set, a)
		require.Empty(t, r.recordRearmed(c.Rearm, jute.CodeOK))
		assert.Equal(t, append(watches(own), nameOf(a)), heardBy(r.fired(jute.EventNodeDataChanged, "/x")))
		r.empty()
	})
}

// A read is in flight while the watch for the creation of its node fires. After that the watch is one of an existing node:
// a server that armed it for the creation would not report that the node was deleted in the gap.
func TestAWatchForACreationIsFollowedByOneOfTheNode(t *testing.T) {
	r := newTable(t)
	first, absent := r.exists("/x")
	second, call := r.write(Data, "/x")
	require.Empty(t, r.recordArmed(absent, jute.CodeNoNode))
	assert.Equal(t, watches(first), heardBy(r.fired(jute.EventNodeCreated, "/x")))
	require.Empty(t, r.recordArmed(call, jute.CodeOK))
	calls, _ := r.rearmAll(9, 1<<20)
	require.Len(t, calls, 1)
	assert.Equal(t, jute.SetWatches{RelativeZxid: 9, Data: []string{"/x"}}, bodyOf(t, calls[0]))
	assert.Equal(t, watches(second), heardBy(r.fired(jute.EventNodeDeleted, "/x")))
	r.empty()
}

// A cache without persistent watches has two watches for each node.
func TestWatchesAreSmall(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(Watch{}), uintptr(48))
	assert.LessOrEqual(t, unsafe.Sizeof(watchEntry{}), uintptr(80))
}
