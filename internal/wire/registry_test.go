package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/zkpath"
)

// table is a registry driven by hand: submit, write and reply are separate steps.
type table struct {
	watchRegistry
	t *testing.T
}

func newTable(t *testing.T) *table { return &table{newWatchRegistry(), t} }

func (r *table) submit(h *heard) *Call {
	c, _ := arming(h)
	r.addPending(&h.Watch)
	return c
}

func (r *table) written(h *heard) *Call {
	c := r.submit(h)
	r.prepareWrite(c)
	return c
}

func (r *table) write(kind WatchKind, path string) (*heard, *Call) {
	h := listen(kind, path)
	return h, r.written(h)
}

// exists returns a written call of exists.
func (r *table) exists(path string) (*heard, *Call) {
	h := listen(Data, path)
	c := &Call{Op: jute.OpExists, Body: jute.Marshal(read(path)), Watch: &h.Watch}
	r.addPending(&h.Watch)
	r.prepareWrite(c)
	return h, c
}

func (r *table) armed(kind WatchKind, path string) *heard {
	h := listen(kind, path)
	require.Empty(r.t, r.recordArmed(r.written(h), jute.CodeOK))
	return h
}

// unwatch does the same as Session.Unwatch.
func (r *table) unwatch(h *heard) []*Call {
	h.stopped = true
	if e := h.entry; e != nil && slices.Contains(e.subscribers, &h.Watch) {
		r.detachWatch(&h.Watch, e)
		return r.dropUnused(h.Path)
	}
	return nil
}

func (r *table) fired(typ int32, path string) []eventDelivery {
	return r.watchRegistry.fireWatches(typ, path, zkpath.Parent(path))
}

func (r *table) empty() {
	r.t.Helper()
	assert.Empty(r.t, r.entries)
	assert.Empty(r.t, r.paths.counts)
	assert.Empty(r.t, r.persistentPaths.sorted)
	assert.Zero(r.t, r.order.count)
}

func flagOf(c *Call) byte { return c.Body[len(c.Body)-1] }

func modeOf(c *Call) int32 { return int32(binary.BigEndian.Uint32(c.Body[len(c.Body)-4:])) }

// names of watches, for readable comparisons by identity.
func nameOf(w *Watch) string { return fmt.Sprintf("%p kind %d %s", w, w.Kind, w.Path) }

func namesOf(ws []*Watch) (names []string) {
	for _, w := range ws {
		names = append(names, nameOf(w))
	}
	return names
}

func heardBy(ds []eventDelivery) (who []string) {
	for _, d := range ds {
		who = append(who, nameOf(d.to))
	}
	return who
}

func watches(hs ...*heard) (who []string) {
	for _, h := range hs {
		who = append(who, nameOf(&h.Watch))
	}
	return who
}

func heardAs(ds []eventDelivery, h *heard) (evs []WatchEvent) {
	for _, d := range ds {
		if d.to == &h.Watch {
			evs = append(evs, d.ev)
		}
	}
	return evs
}

func TestOneServerWatchServesManySubscribers(t *testing.T) {
	r := newTable(t)
	a := r.armed(Data, "/x")
	b := listen(Data, "/x")
	require.True(t, r.joinArmed(&b.Watch))
	c := r.armed(Data, "/x")
	assert.Empty(t, r.unwatch(a), "others need it")
	assert.Equal(t, watches(b, c), heardBy(r.fired(jute.EventNodeDataChanged, "/x")))
	assert.Empty(t, r.fired(jute.EventNodeDataChanged, "/x"), "one-shot")
	r.empty()
}

func TestKindsAndPathsAreApart(t *testing.T) {
	r := newTable(t)
	data, child, other := r.armed(Data, "/x"), r.armed(Child, "/x"), r.armed(Data, "/x/y")
	assert.Equal(t, watches(child), heardBy(r.fired(jute.EventNodeChildrenChanged, "/x")))
	assert.Equal(t, watches(data), heardBy(r.fired(jute.EventNodeDataChanged, "/x")))
	data, child = r.armed(Data, "/x"), r.armed(Child, "/x")
	assert.Equal(t, watches(data, child), heardBy(r.fired(jute.EventNodeDeleted, "/x")), "a deletion ends both")
	assert.Equal(t, watches(other), heardBy(r.fired(jute.EventNodeDeleted, "/x/y")))
	r.empty()
}

func TestJoinNeedsAnArmedWatch(t *testing.T) {
	r := newTable(t)
	late := listen(Data, "/x")
	assert.False(t, r.joinArmed(&late.Watch))
	_, call := r.write(Data, "/x")
	assert.False(t, r.joinArmed(&late.Watch), "not before the reply")
	r.recordArmed(call, jute.CodeOK)
	assert.True(t, r.joinArmed(&late.Watch))
	deep := listen(Recursive, "/p")
	r.armed(Persistent, "/p")
	assert.False(t, r.joinArmed(&deep.Watch), "a persistent watch does not see the subtree")
	shallow := listen(Persistent, "/r")
	r.armed(Recursive, "/r")
	assert.True(t, r.joinArmed(&shallow.Watch))
}

func TestTheLastSubscriberRemovesTheWatch(t *testing.T) {
	for _, c := range []struct {
		kind WatchKind
		what int32
	}{{Data, jute.WatcherData}, {Child, jute.WatcherChildren}, {Persistent, jute.WatcherAny},
		{Recursive, jute.WatcherAny}} {
		r := newTable(t)
		a, b := r.armed(c.kind, "/x"), r.armed(c.kind, "/x")
		require.Empty(t, r.unwatch(a))
		calls := r.unwatch(b)
		require.Len(t, calls, 1)
		assert.Equal(t, jute.OpRemoveWatches, calls[0].Op)
		assert.Equal(t, c.what, modeOf(calls[0]))
		assert.Empty(t, r.unwatch(b), "once")
		r.empty()
	}
}

func TestAWatchIsNotRemovedWhileItIsBeingArmed(t *testing.T) {
	r := newTable(t)
	a := r.armed(Data, "/x")
	b, c := r.write(Data, "/x")
	assert.Empty(t, r.unwatch(a), "b arms it at this moment")
	require.Empty(t, r.recordArmed(c, jute.CodeOK))
	assert.Equal(t, watches(b), heardBy(r.fired(jute.EventNodeDataChanged, "/x")))
	r.empty()
}

func TestStopBeforeTheReply(t *testing.T) {
	r := newTable(t)
	a, c := r.write(Data, "/x")
	require.Empty(t, r.unwatch(a))
	require.Empty(t, r.recordArmed(c, jute.CodeOK))
	calls := r.dropUnused("/x")
	require.Len(t, calls, 1, "armed for nobody: off the server with it")
	r.empty()
}

func TestStopBeforeTheWriteArmsNothing(t *testing.T) {
	r := newTable(t)
	a := listen(Data, "/x")
	c := r.submit(a)
	require.Empty(t, r.unwatch(a))
	r.prepareWrite(c)
	assert.Zero(t, flagOf(c))
	require.Empty(t, r.recordArmed(c, jute.CodeOK))
	assert.Empty(t, r.dropUnused("/x"), "there is nothing to remove")
	r.empty()
}

func TestAnErrorArmsNothing(t *testing.T) {
	for _, kind := range []WatchKind{Data, Child, Persistent, Recursive} {
		r := newTable(t)
		require.Empty(t, r.recordArmed(r.written(listen(kind, "/x")), jute.CodeNoAuth))
		assert.Empty(t, r.dropUnused("/x"))
		r.empty()
	}
	r := newTable(t)
	require.Empty(t, r.recordArmed(r.written(listen(Data, "/x")), jute.CodeNoNode))
	r.empty()
}

func TestALostCallArmsNothing(t *testing.T) {
	r := newTable(t)
	for _, kind := range []WatchKind{Data, Child, Persistent, Recursive} {
		r.dropPending(r.written(listen(kind, "/x")).Watch)
		r.dropPending(r.submit(listen(kind, "/x")).Watch)
	}
	r.empty()
}

// A subscriber stops while another's call is failing: its watch must not stay.
func TestAFailedSecondCallLeavesNoWatchBehind(t *testing.T) {
	r := newTable(t)
	a := r.armed(Data, "/x")
	b := r.written(listen(Data, "/x"))
	require.Empty(t, r.unwatch(a))
	require.Empty(t, r.recordArmed(b, jute.CodeNoAuth))
	assert.Len(t, r.dropUnused("/x"), 1)
	r.empty()
}

func TestExistsOfAnAbsentNodeArms(t *testing.T) {
	r := newTable(t)
	h, c := r.exists("/x")
	assert.EqualValues(t, 1, flagOf(c))
	require.Empty(t, r.recordArmed(c, jute.CodeNoNode))
	assert.Equal(t, watches(h), heardBy(r.fired(jute.EventNodeCreated, "/x")))
	r.empty()
}

// ---- persistent watches ----

func TestPersistentAndRecursiveShareOneServerWatch(t *testing.T) {
	r := newTable(t)
	p := r.armed(Persistent, "/x")
	deep, c := r.write(Recursive, "/x")
	assert.Equal(t, jute.WatchPersistentRecursive, modeOf(c))
	require.Empty(t, r.recordArmed(c, jute.CodeOK))
	again := r.written(listen(Persistent, "/x"))
	assert.Equal(t, jute.WatchPersistentRecursive, modeOf(again),
		"a further subscriber does not make it shallow")
	r.dropPending(again.Watch)

	assert.Equal(t, watches(p, deep), heardBy(r.fired(jute.EventNodeDataChanged, "/x")))
	assert.Equal(t, watches(deep), heardBy(r.fired(jute.EventNodeDataChanged, "/x/y")),
		"not the persistent one's business")
	ds := r.fired(jute.EventNodeCreated, "/x/y")
	require.Len(t, ds, 2)
	assert.Equal(t, []WatchEvent{{Type: jute.EventNodeCreated, Path: "/x/y"}}, heardAs(ds, deep))
	assert.Equal(t, []WatchEvent{{Type: jute.EventNodeChildrenChanged, Path: "/x"}}, heardAs(ds, p),
		"a recursive watch gets no such event from the server")
	assert.Equal(t, watches(deep), heardBy(r.fired(jute.EventNodeDeleted, "/x/y/z")))
}

// The server continues to send a recursive watch's events until it has executed another request.
func TestAPersistentSubscriberMissesNothingWhenTheRecursiveOneLeaves(t *testing.T) {
	r := newTable(t)
	p, deep := r.armed(Persistent, "/x"), r.armed(Recursive, "/x")
	r.unwatch(deep)
	ds := r.fired(jute.EventNodeCreated, "/x/y")
	require.Equal(t, watches(p), heardBy(ds))
	assert.Equal(t, jute.EventNodeChildrenChanged, ds[0].ev.Type)
	calls := r.unwatch(p)
	require.Len(t, calls, 1)
	r.empty()
}

func TestAWatchOfTheRootHearsEverything(t *testing.T) {
	r := newTable(t)
	deep := r.armed(Recursive, "/")
	p := r.armed(Persistent, "/")
	for _, path := range []string{"/", "/a", "/a/b/c"} {
		assert.Contains(t, heardBy(r.fired(jute.EventNodeDataChanged, path)), nameOf(&deep.Watch), path)
	}
	ds := r.fired(jute.EventNodeDeleted, "/a")
	assert.Equal(t, watches(deep, p), heardBy(ds))
}

func TestStrangePathsFireNothing(t *testing.T) {
	r := newTable(t)
	r.armed(Recursive, "/a")
	for _, path := range []string{"", "a", "//", "a/", "/ab"} {
		assert.Empty(t, r.fired(jute.EventNodeDataChanged, path), path)
	}
	assert.Empty(t, r.fired(99, "/a"))
	assert.Empty(t, r.fired(jute.EventNone, "/a"))
}

// Before 3.9 a one-shot and a persistent watch on one path replace each other.
func TestAOneShotOnAPersistentPathIsServedFromIt(t *testing.T) {
	for _, persistent := range []WatchKind{Persistent, Recursive} {
		for _, kind := range []WatchKind{Data, Child} {
			r := newTable(t)
			p := r.armed(persistent, "/x")
			h, c := r.write(kind, "/x")
			assert.Zero(t, flagOf(c), "not armed on the server")
			require.Empty(t, r.recordArmed(c, jute.CodeOK))
			if kind == Data {
				assert.Contains(t, heardBy(r.fired(jute.EventNodeDataChanged, "/x")), nameOf(&h.Watch))
			} else if persistent == Persistent {
				assert.Contains(t, heardBy(r.fired(jute.EventNodeChildrenChanged, "/x")), nameOf(&h.Watch))
			} else {
				ds := r.fired(jute.EventNodeDeleted, "/x/y")
				require.Equal(t, []WatchEvent{{Type: jute.EventNodeChildrenChanged, Path: "/x"}}, heardAs(ds, h))
			}
			assert.NotContains(t, heardBy(r.fired(jute.EventNodeDeleted, "/x")), nameOf(&h.Watch), "once")
			assert.Len(t, r.unwatch(p), 1)
			r.empty()
		}
	}
}

// A one-shot that is on the server already is replaced by a later persistent watch; then the events come from the
// persistent one.
func TestAPersistentWatchTakesOverTheOneShotsOfItsPath(t *testing.T) {
	for _, persistent := range []WatchKind{Persistent, Recursive} {
		r := newTable(t)
		data, child := r.armed(Data, "/x"), r.armed(Child, "/x")
		p := r.armed(persistent, "/x")
		assert.Empty(t, r.unwatch(data), "removing the data watch would take the persistent one along")
		if persistent == Recursive {
			ds := r.fired(jute.EventNodeCreated, "/x/y")
			require.Equal(t, []WatchEvent{{Type: jute.EventNodeChildrenChanged, Path: "/x"}}, heardAs(ds, child))
		} else {
			assert.Empty(t, r.unwatch(child))
		}
		assert.Len(t, r.unwatch(p), 1)
		r.empty()
	}
}

// A persistent watch serves no other subscriber before its addWatch is written: between a read without a flag and addWatch
// there would be no watch.
func TestAOneShotInFrontOfAPersistentWatchIsArmed(t *testing.T) {
	r := newTable(t)
	p := r.submit(listen(Persistent, "/x"))
	c := r.written(listen(Data, "/x"))
	assert.EqualValues(t, 1, flagOf(c))
	r.prepareWrite(p)
	c = r.written(listen(Data, "/x"))
	assert.Zero(t, flagOf(c), "now it is ahead")
}

func TestAServedOneShotHearsOfARefusedPersistentWatch(t *testing.T) {
	r := newTable(t)
	p := r.written(listen(Persistent, "/x"))
	h, c := r.write(Data, "/x")
	require.Zero(t, flagOf(c))
	require.Empty(t, r.recordArmed(p, jute.CodeUnimplemented))
	assert.Equal(t, watches(h), heardBy(r.recordArmed(c, jute.CodeOK)), "read again")
	assert.Empty(t, r.dropUnused("/x"))
	r.empty()
}

func TestAPersistentWatchStaysForTheOneShotsItServes(t *testing.T) {
	r := newTable(t)
	p := r.armed(Persistent, "/x")
	h := listen(Data, "/x")
	r.recordArmed(r.written(h), jute.CodeOK)
	assert.Empty(t, r.unwatch(p))
	assert.Equal(t, watches(h), heardBy(r.fired(jute.EventNodeDataChanged, "/x")))
	assert.Len(t, r.dropUnused("/x"), 1)
	r.empty()
}

// ---- after a reconnect ----

func setWatchesOf(t *testing.T, c *Call) (sw jute.SetWatches2) {
	t.Helper()
	switch c.Op {
	case jute.OpSetWatches:
		require.NoError(t, jute.Unmarshal(c.Body, &sw.SetWatches))
	case jute.OpSetWatches2:
		require.NoError(t, jute.Unmarshal(c.Body, &sw))
	default:
		t.Fatalf("%s re-arms nothing", OpName(c.Op))
	}
	return sw
}

func TestRearmSortsWatchesIntoTheirLists(t *testing.T) {
	r := newTable(t)
	r.armed(Data, "/own")
	_, absent := r.exists("/absent")
	r.recordArmed(absent, jute.CodeNoNode)
	_, present := r.exists("/predecessor")
	r.recordArmed(present, jute.CodeOK)
	r.armed(Child, "/dir")
	pending := r.written(listen(Data, "/pending"))

	calls, gaps := r.rearmAll(77, 1<<20)
	require.Len(t, calls, 1)
	assert.Empty(t, gaps)
	assert.Equal(t, jute.OpSetWatches, calls[0].Op, "servers before 3.6 know no other")
	// A node that exists() found goes to the data list, else its deletion in the gap is lost. The hold's own node comes
	// first.
	want := jute.SetWatches{RelativeZxid: 77, Data: []string{"/own", "/predecessor"},
		Exist: []string{"/absent"}, Child: []string{"/dir"}}
	assert.Equal(t, want, setWatchesOf(t, calls[0]).SetWatches)
	r.dropPending(pending.Watch)
}

func TestRearmUsesSetWatches2ForPersistentWatchesAlone(t *testing.T) {
	r := newTable(t)
	p, d := r.armed(Persistent, "/p"), r.armed(Recursive, "/r")
	r.armed(Data, "/d")
	served := listen(Data, "/p")
	r.recordArmed(r.written(served), jute.CodeOK)
	calls, gaps := r.rearmAll(5, 1<<20)
	require.Len(t, calls, 2)
	first, last := setWatchesOf(t, calls[0]), setWatchesOf(t, calls[1])
	assert.Equal(t, []int32{jute.OpSetWatches, jute.OpSetWatches2}, []int32{calls[0].Op, calls[1].Op},
		"last: on one path it must win")
	assert.Equal(t, []string{"/d", "/p"}, first.Data, "the one-shot catches up, too")
	assert.Equal(t, []string{"/p"}, last.Persistent)
	assert.Equal(t, []string{"/r"}, last.Recursive)
	assert.Empty(t, last.Data)
	assert.EqualValues(t, 5, last.RelativeZxid)
	assert.ElementsMatch(t, watches(p, d), namesOf(gaps))
}

func TestRearmOfNothingIsNothing(t *testing.T) {
	r := newTable(t)
	calls, gaps := r.rearmAll(5, 1<<20)
	assert.Empty(t, calls)
	assert.Empty(t, gaps)
	r.unwatch(r.armed(Data, "/x"))
	r.unwatch(r.armed(Recursive, "/y"))
	calls, _ = r.rearmAll(5, 1<<20)
	assert.Empty(t, calls)
}

func TestRearmKeepsFramesSmall(t *testing.T) {
	r := newTable(t)
	var all []string
	for i := range 3000 {
		path := fmt.Sprintf("/%s/%04d", strings.Repeat("long", 60), i)
		all = append(all, path)
		r.armed([]WatchKind{Data, Child}[i%2], path)
		r.armed([]WatchKind{Persistent, Recursive}[i%2], "/p"+path)
	}
	huge := "/" + strings.Repeat("x", 200<<10)
	r.armed(Data, huge)
	alone := newTable(t)
	alone.armed(Data, huge)
	calls, _ := alone.rearmAll(9, 1<<20)
	require.Len(t, calls, 1)
	assert.Equal(t, []string{huge}, setWatchesOf(t, calls[0]).Data)
	calls, gaps := r.rearmAll(9, 1<<20)
	assert.Len(t, gaps, 3000)
	var got []string
	persistent, two := 0, false
	for _, c := range calls {
		sw := setWatchesOf(t, c)
		assert.EqualValues(t, 9, sw.RelativeZxid, "one zxid for all")
		if len(sw.Data) != 1 || sw.Data[0] != huge {
			assert.LessOrEqual(t, len(c.Body)+8, setWatchesLimit)
		}
		assert.NotEmpty(t, len(sw.Data)+len(sw.Child)+len(sw.Persistent)+len(sw.Recursive))
		assert.False(t, two && c.Op == jute.OpSetWatches, "setWatches2 comes last")
		two = c.Op == jute.OpSetWatches2
		got = append(append(got, sw.Data...), sw.Child...)
		persistent += len(sw.Persistent) + len(sw.Recursive)
	}
	all = append(all, huge)
	slices.Sort(all)
	slices.Sort(got)
	assert.True(t, slices.Equal(all, got))
	assert.Equal(t, 3000, persistent)
}

// On a new connection only the watches are armed that are needed.
func TestRearmMakesAWatchShallowAgain(t *testing.T) {
	r := newTable(t)
	r.armed(Persistent, "/x")
	r.unwatch(r.armed(Recursive, "/x"))
	calls, _ := r.rearmAll(1, 1<<20)
	require.Len(t, calls, 1)
	sw := setWatchesOf(t, calls[0])
	assert.Equal(t, []string{"/x"}, sw.Persistent)
	assert.Empty(t, sw.Recursive)
	assert.Empty(t, r.fired(jute.EventNodeCreated, "/x/y"))
}

func TestTheEndReturnsEverySubscriber(t *testing.T) {
	r := newTable(t)
	a, b, c := r.armed(Data, "/a"), r.armed(Child, "/a"), r.armed(Recursive, "/b")
	assert.ElementsMatch(t, watches(a, b, c), heardBy(r.endAll(ErrClosed)))
	r.empty()
}

// A server can name any path, and send any number of events: the cost of finding their watches is limited by the number of
// registered watches.
func TestADeepPathCostsNoMoreThanWhatIsRegistered(t *testing.T) {
	r := newTable(t)
	top, mid, child := r.armed(Recursive, "/"), r.armed(Recursive, "/a/b"), r.armed(Persistent, "/a/b/c")
	one := r.armed(Data, "/x")
	looked := func(f func()) int {
		before := r.lookups
		f()
		return r.lookups - before
	}
	for _, depth := range []int{10, 1000, 100_000} {
		deep := "/a/b" + strings.Repeat("/c", depth)
		var heard []eventDelivery
		n := looked(func() { heard = r.fired(jute.EventNodeDataChanged, deep) })
		assert.Equal(t, watches(mid, top), heardBy(heard), "from the node upwards")
		assert.Equal(t, 3, n)
		assert.Zero(t, looked(func() { _ = r.dropUnused(deep) }), "none is so long")
	}
	for _, fan := range []string{"/a/bb", "/ab/b", "/a/b/cc"} {
		assert.NotContains(t, heardBy(r.fired(jute.EventNodeDataChanged, fan)), child)
	}
	assert.Equal(t, watches(child, mid, top), heardBy(r.fired(jute.EventNodeDataChanged, "/a/b/c")))
	assert.Equal(t, watches(one, top), heardBy(r.fired(jute.EventNodeDataChanged, "/x")))
	assert.Equal(t, watches(top), heardBy(r.fired(jute.EventNodeDataChanged, "/")))
}

// A request has as many paths as fit, and at least one.
func TestPathsThatFit(t *testing.T) {
	paths := []string{"/a", "/bc", "/d"} // 4 bytes more each
	for room, want := range map[int]int{0: 1, 6: 1, 12: 1, 13: 2, 18: 2, 19: 3, 100: 3} {
		now, later := splitToFit(paths, room)
		assert.Equal(t, paths[:want], now, room)
		assert.Equal(t, paths[want:], append([]string{}, later...), room)
	}
	r := newTable(t)
	for _, path := range []string{"/a", "/b"} {
		r.armed(Data, path)
	}
	for limit, want := range map[int]int{12: 1, 11: 2} {
		calls, _ := r.rearmAll(1, setWatchesHead+limit)
		assert.Len(t, calls, want, limit)
	}
}

// After a reconnect the events of a gap come in the order of arming: a watch that fires, and is armed again by a request
// that was in flight, comes after those armed before. Another subscriber does not change the order.
func TestAWatchThatIsArmedAgainComesLast(t *testing.T) {
	r := newTable(t)
	r.armed(Data, "/a")
	r.armed(Data, "/b")
	_, again := r.write(Data, "/a")
	r.fired(jute.EventNodeDataChanged, "/a")
	r.recordArmed(again, jute.CodeOK)
	r.armed(Data, "/b")
	calls, _ := r.rearmAll(5, 1<<20)
	require.Len(t, calls, 1)
	assert.Equal(t, []string{"/b", "/a"}, setWatchesOf(t, calls[0]).Data)
}
