package session

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

func TestChrootAndNamespace(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	root, _ := kit.Connected(t, node.ConnectString())
	ctx := kit.Context(t)
	require.NoError(t, root.CreateContainers(ctx, "/apps/one"))
	for i, a := range two(t, node.ConnectString()+"/apps/one", calm, framework.WithNamespace("team")) {
		name := fmt.Sprintf("/n%d", i)
		path, err := a.Create().WithMode(framework.PersistentSequential).ForPath(ctx, name+"-", []byte("x"))
		require.NoError(t, err)
		assert.Equal(t, name+fmt.Sprintf("-%010d", i), path)
		assert.True(t, there(t, root, "/apps/one/team"+path))

		view := a.UsingNamespace("other/deeper")
		_, events, err := view.CheckExists().WithWatch().ForPath(ctx, name)
		require.NoError(t, err)
		_, err = root.Create().CreatingParentsIfNeeded().ForPath(ctx, "/apps/one/other/deeper"+name, nil)
		require.NoError(t, err)
		assert.Equal(t, framework.Event{Type: framework.EventNodeCreated, Path: name},
			kit.Receive(t, "the event", events.C))
		names, err := a.UsingNamespace("").GetChildren().ForPath(ctx, "/")
		require.NoError(t, err)
		assert.Subset(t, names, []string{"team", "other"})

		// The root of a namespace is created automatically.
		_, err = a.UsingNamespace(fmt.Sprintf("fresh%d", i)).Create().ForPath(ctx, "/x", nil)
		require.NoError(t, err)
		assert.True(t, there(t, root, fmt.Sprintf("/apps/one/fresh%d/x", i)))

		results, err := a.Transaction(ctx, a.TransactionOp().Check().ForPath(path),
			a.TransactionOp().Create().ForPath(path+"/c", nil))
		require.NoError(t, err)
		assert.Equal(t, path+"/c", results[1].Path)
		_, err = a.GetData().ForPath(ctx, "/none")
		assert.ErrorIs(t, err, framework.ErrNoNode)
		assert.ErrorContains(t, err, "getData /none:", "the path as the caller knows it")
	}
	lost, _ := kit.Connected(t, node.ConnectString()+"/not/there")
	_, err := lost.Create().ForPath(ctx, "/x", nil)
	assert.ErrorIs(t, err, framework.ErrNoNode)
}

// Every kind of node fulfills its promises, the server's reaper included.
func TestCreateModes(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{ExtendedTypes: true, ContainerCheckInterval: 100 * time.Millisecond})
	observer, _ := kit.Connected(t, node.ConnectString())
	var actors sync.WaitGroup
	for _, a := range two(t, node.ConnectString(), calm) {
		actors.Go(func() { createModes(t, a, observer) })
	}
	actors.Wait()
}

// createModes must not end the test: it is not on the test's goroutine.
func createModes(t *testing.T, a *actor, observer *framework.Client) {
	ctx := kit.Context(t)
	create := func(mode framework.CreateMode, name string, ttl time.Duration) (string, framework.Stat) {
		var stat framework.Stat
		b := a.Create().CreatingParentsIfNeeded().WithMode(mode).StoringStatIn(&stat)
		if ttl > 0 {
			b = b.WithTTL(ttl)
		}
		path, err := b.ForPath(ctx, a.name+"/"+name, []byte("data"))
		assert.NoError(t, err, "%v", mode)
		seen, err := observer.CheckExists().ForPath(ctx, path)
		if assert.NoError(t, err) && assert.NotNil(t, seen, path) {
			assert.Equal(t, *seen, stat, "%v: the Stat of the answer", mode)
		}
		return path, stat
	}
	gone := func(path string) bool {
		stat, err := observer.CheckExists().ForPath(ctx, path)
		return assert.NoError(t, err) && stat == nil
	}

	persistent, stat := create(framework.Persistent, "persistent", 0)
	assert.Equal(t, a.name+"/persistent", persistent)
	assert.Zero(t, stat.EphemeralOwner)
	_, stat = create(framework.Ephemeral, "ephemeral", 0)
	assert.Equal(t, a.first.ID(), stat.EphemeralOwner)
	_, err := a.Create().ForPath(ctx, a.name+"/ephemeral/child", nil)
	assert.ErrorIs(t, err, framework.ErrNoChildrenForEphemerals)
	sequential, stat := create(framework.PersistentSequential, "sequential-", 0)
	assert.Equal(t, a.name+"/sequential-0000000002", sequential)
	assert.Zero(t, stat.EphemeralOwner)
	fleeting, stat := create(framework.EphemeralSequential, "fleeting-", 0)
	assert.Equal(t, a.name+"/fleeting-0000000003", fleeting)
	assert.Equal(t, a.first.ID(), stat.EphemeralOwner)
	protected, err := a.Create().WithProtection().WithMode(framework.EphemeralSequential).
		ForPath(ctx, a.name+"/p-", nil)
	assert.NoError(t, err)
	assert.Regexp(t, `^/client-\d/_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-p-0000000004$`, protected)

	container, stat := create(framework.Container, "container", 0)
	assert.Zero(t, stat.EphemeralOwner, "the server keeps to itself what it is")
	child, err := a.Create().ForPath(ctx, container+"/child", nil)
	assert.NoError(t, err)
	ttl, _ := create(framework.PersistentTTL, "ttl", 700*time.Millisecond)
	created := time.Now()
	sequentialTTL, _ := create(framework.PersistentSequentialTTL, "ttl-", 300*time.Millisecond)
	assert.Regexp(t, `/ttl-\d{10}$`, sequentialTTL)

	_, err = a.Create().OrSetData().ForPath(ctx, persistent, []byte("set"))
	assert.NoError(t, err)
	_, err = a.Create().ForPath(ctx, persistent, nil)
	assert.ErrorIs(t, err, framework.ErrNodeExists)
	_, err = a.Create().CreatingParentContainersIfNeeded().ForPath(ctx, a.name+"/c1/c2/leaf", nil)
	assert.NoError(t, err)

	kit.Soon(t, "the TTL nodes are reaped", func() bool { return gone(ttl) && gone(sequentialTTL) })
	assert.GreaterOrEqual(t, time.Since(created), 600*time.Millisecond)
	assert.False(t, gone(container), "it has a child")
	assert.NoError(t, a.Delete().ForPath(ctx, child))
	assert.NoError(t, a.Delete().ForPath(ctx, a.name+"/c1/c2/leaf"))
	kit.Soon(t, "the empty containers are reaped", func() bool { return gone(container) && gone(a.name+"/c1") })
	assert.False(t, gone(persistent))
	// Reaped parents are created again.
	for range 20 {
		path, err := a.Create().CreatingParentContainersIfNeeded().ForPath(ctx, a.name+"/c1/c2/leaf", nil)
		assert.NoError(t, err)
		assert.NoError(t, a.Delete().ForPath(ctx, path))
	}

	assert.NoError(t, a.Close())
	for path, want := range map[string]bool{persistent: false, sequential: false, a.name + "/ephemeral": true,
		fleeting: true, protected: true} {
		assert.Equal(t, want, gone(path), path)
	}
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{ExtendedTypes: true})
	for _, a := range two(t, node.ConnectString(), calm) {
		ctx, op := kit.Context(t), a.TransactionOp()
		results, err := a.Transaction(ctx,
			op.Create().ForPath(a.name, []byte("x")),
			op.Create().WithMode(framework.EphemeralSequential).ForPath(a.name+"/s-", nil),
			op.Create().WithMode(framework.Container).ForPath(a.name+"/container", nil),
			op.Create().WithMode(framework.PersistentTTL).WithTTL(time.Hour).ForPath(a.name+"/ttl", nil),
			op.SetData().WithVersion(0).ForPath(a.name, []byte("y")),
			op.Check().WithVersion(1).ForPath(a.name),
			op.Create().ForPath(a.name+"/short", nil),
			op.Delete().ForPath(a.name+"/short"),
		)
		require.NoError(t, err)
		require.Len(t, results, 8)
		assert.Equal(t, a.name+"/s-0000000000", results[1].Path)
		assert.EqualValues(t, 1, results[4].Stat.Version)
		assert.Equal(t, "check", results[5].Op)

		var before framework.Stat
		_, err = a.GetData().StoringStatIn(&before).ForPath(ctx, a.name)
		require.NoError(t, err)
		results, err = a.Transaction(ctx,
			op.SetData().ForPath(a.name, []byte("z")),
			op.Create().ForPath(a.name+"/other", nil),
			op.Check().WithVersion(7).ForPath(a.name+"/container"),
			op.Delete().ForPath(a.name+"/ttl"),
		)
		require.ErrorIs(t, err, framework.ErrBadVersion)
		var refused *framework.TransactionError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, 2, refused.Index)
		require.Len(t, results, 4)
		assert.NoError(t, results[0].Err)
		assert.ErrorIs(t, results[2].Err, framework.ErrBadVersion)
		assert.ErrorIs(t, results[3].Err, framework.ErrNotAttempted)
		var after framework.Stat
		data, err := a.GetData().StoringStatIn(&after).ForPath(ctx, a.name)
		require.NoError(t, err)
		assert.Equal(t, "y", string(data), "all or nothing")
		assert.Equal(t, before, after)
		assert.False(t, there(t, a.Client, a.name+"/other"))

		_, err = a.Transaction(ctx, op.Delete().ForPath(a.name))
		assert.ErrorIs(t, err, framework.ErrNotEmpty)
		_, err = a.Transaction(ctx)
		assert.ErrorIs(t, err, framework.ErrBadArguments)
	}
}

// Watches of all kinds through a reconnect: changes during the gap are reported, by their own events where the server
// can know them, by a reset where it cannot, and after that all watches still work.
func TestWatchesThroughReconnect(t *testing.T) {
	kit.Needs(t, kit.PersistentWatches)
	t.Parallel()
	node := server(t, zkserver.Options{})
	link := proxy.New(t, node.Addr())
	observer, _ := kit.Connected(t, node.ConnectString())
	actors := two(t, link.Addr(), calm)
	type watches struct{ recursive, persistent, created, deleted, deletedExists, quiet *framework.Watch }
	all := map[*actor]watches{}
	ctx := kit.Context(t)
	make := func(path string) {
		t.Helper()
		_, err := observer.Create().CreatingParentsIfNeeded().ForPath(ctx, path, nil)
		require.NoError(t, err)
	}
	for _, a := range actors {
		for _, name := range []string{"/tree/a", "/list", "/goes", "/goes-too", "/quiet"} {
			make(a.name + name)
		}
		var w watches
		var err error
		w.recursive, err = a.Watches().Add().WithMode(framework.PersistentRecursiveWatch).
			ForPath(ctx, a.name+"/tree")
		require.NoError(t, err)
		w.persistent, err = a.Watches().Add().WithMode(framework.PersistentWatch).ForPath(ctx, a.name+"/list")
		require.NoError(t, err)
		_, w.created, err = a.CheckExists().WithWatch().ForPath(ctx, a.name+"/comes")
		require.NoError(t, err)
		_, w.deleted, err = a.GetData().WithWatch().ForPath(ctx, a.name+"/goes")
		require.NoError(t, err)
		_, w.deletedExists, err = a.CheckExists().WithWatch().ForPath(ctx, a.name+"/goes-too")
		require.NoError(t, err)
		_, w.quiet, err = a.GetData().WithWatch().ForPath(ctx, a.name+"/quiet")
		require.NoError(t, err)
		all[a] = w

		make(a.name + "/tree/a/b")
		assert.Equal(t, framework.Event{Type: framework.EventNodeCreated, Path: a.name + "/tree/a/b"},
			kit.Receive(t, "an event", w.recursive.C))
		make(a.name + "/list/x")
		assert.Equal(t, framework.Event{Type: framework.EventNodeChildrenChanged, Path: a.name + "/list"},
			kit.Receive(t, "an event", w.persistent.C))
	}
	link.Cut()
	for _, a := range actors {
		a.states.Next(framework.Suspended, 1)
		make(a.name + "/tree/missed")
		make(a.name + "/comes")
		require.NoError(t, observer.Delete().ForPath(ctx, a.name+"/goes"))
		require.NoError(t, observer.Delete().ForPath(ctx, a.name+"/goes-too"))
	}
	link.Heal()
	for _, a := range actors {
		w := all[a]
		a.states.Next(framework.Reconnected, 1)
		assert.Equal(t, framework.EventNodeCreated, kit.Receive(t, "an event", w.created.C).Type)
		assert.Equal(t, framework.EventNodeDeleted, kit.Receive(t, "an event", w.deleted.C).Type)
		assert.Equal(t, framework.EventNodeDeleted, kit.Receive(t, "an event", w.deletedExists.C).Type)
		assert.Equal(t, framework.Event{Type: framework.EventReset, Path: a.name + "/tree"},
			kit.Receive(t, "the gap", w.recursive.C))
		assert.Equal(t, framework.Event{Type: framework.EventReset, Path: a.name + "/list"},
			kit.Receive(t, "the gap", w.persistent.C))

		make(a.name + "/tree/a/c")
		assert.Equal(t, framework.Event{Type: framework.EventNodeCreated, Path: a.name + "/tree/a/c"},
			kit.Receive(t, "an event", w.recursive.C))
		make(a.name + "/list/y")
		assert.Equal(t, framework.Event{Type: framework.EventNodeChildrenChanged, Path: a.name + "/list"},
			kit.Receive(t, "an event", w.persistent.C))
		_, err := observer.SetData().ForPath(ctx, a.name+"/quiet", []byte("x"))
		require.NoError(t, err)
		assert.Equal(t, framework.EventNodeDataChanged, kit.Receive(t, "an event", w.quiet.C).Type,
			"it was armed again, and only now has something to tell")

		w.recursive.Stop()
		w.persistent.Stop()
	}
	kit.Soon(t, "the server knows of no watch", func() bool { return kit.Watches(t, node) == 0 })
}

// Operations that one goroutine starts in the background are executed in that order, and their callbacks run in that
// order.
func TestBackgroundOrder(t *testing.T) {
	t.Parallel()
	node := server(t, zkserver.Options{})
	const count = 500
	actors := two(t, node.ConnectString(), calm)
	ctx := kit.Context(t)
	var all sync.WaitGroup
	for _, a := range actors {
		all.Go(func() {
			order := make(chan int, count)
			var creates []*framework.Pending[framework.CreateResult]
			var sets []*framework.Pending[framework.Stat]
			a.Create().InBackground().ForPath(ctx, a.name, nil)
			for i := range count {
				created := a.Create().WithMode(framework.EphemeralSequential).InBackground().
					ForPath(ctx, a.name+"/n-", nil)
				created.Then(func(framework.CreateResult, error) { order <- i })
				creates = append(creates, created)
				sets = append(sets, a.SetData().WithVersion(int32(i)).InBackground().ForPath(ctx, a.name, nil))
			}
			listed, err := a.GetChildren().InBackground().ForPath(ctx, a.name).Wait(ctx)
			assert.NoError(t, err)
			assert.Len(t, listed.Names, count, "a read after the writes sees them all")
			last := int64(0)
			for i := range count {
				created, err := creates[i].Wait(ctx)
				assert.NoError(t, err)
				assert.Equal(t, fmt.Sprintf("%s/n-%010d", a.name, i), created.Path)
				assert.Greater(t, created.Stat.Czxid, last)
				set, err := sets[i].Wait(ctx)
				assert.NoError(t, err)
				assert.EqualValues(t, i+1, set.Version)
				assert.Greater(t, set.Mzxid, created.Stat.Czxid)
				last = set.Mzxid
				assert.Equal(t, i, kit.Receive(t, "a callback", order))
			}
		})
	}
	all.Wait()
}
