package zktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

func TestEventComesBeforeTheReplyThatShowsTheChange(t *testing.T) {
	s := RunT(t)
	reader, writer := newRaw(t, s, 10*time.Second), newRaw(t, s, 10*time.Second)
	writer.create("/a", 0)
	for i := range 200 {
		reader.call(jute.OpGetData, watch("/a"))
		reader.events = nil
		writer.send(jute.OpSetData, put("/a", "v"))
		for {
			var got jute.GetDataResponse
			reader.call(jute.OpGetData, at("/a")).into(t, &got)
			if got.Stat.Version > int32(i) {
				break
			}
			require.Empty(t, reader.events)
		}
		require.Len(t, reader.events, 1)
		_, err := writer.recv()
		require.NoError(t, err)
	}
}

func TestDeleteEvents(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	c.create("/p", 0)
	c.create("/p/a", 0)
	for _, op := range []int32{jute.OpGetData, jute.OpGetChildren} {
		c.call(op, watch("/p/a"))
	}
	c.call(jute.OpGetChildren2, watch("/p"))
	c.call(jute.OpDelete, rm("/p/a"))
	// One NodeDeleted for the data watch and the child watch.
	assert.Equal(t, []string{"NodeDeleted /p/a", "NodeChildrenChanged /p"}, c.heard())
	c.create("/p/a", 0)
	c.call(jute.OpGetChildren, watch("/p/a"))
	c.call(jute.OpDelete, rm("/p/a"))
	// A child watch gets the event of the node's delete, too. The other watches have fired already.
	assert.Equal(t, []string{"NodeDeleted /p/a"}, c.heard())
}

func TestExistsWatchOfAnAbsentNode(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	assert.Equal(t, ErrNoNode, c.code(jute.OpExists, watch("/a")))
	assert.Equal(t, ErrNoNode, c.code(jute.OpGetData, watch("/b")), "leaves no watch")
	assert.Equal(t, []WatchInfo{{c.hello.SessionID, "/a", DataWatch}}, s.Watches())
	require.NoError(t, s.Create("/a", nil))
	assert.Equal(t, []string{"NodeCreated /a"}, c.heard())
}

func TestPersistentWatches(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	c.create("/p", 0)
	added := c.call(jute.OpAddWatch, &jute.PathIntRequest{Path: "/p", Value: jute.WatchPersistent})
	assert.Equal(t, []byte{0, 0, 0, 0}, added.body)
	c.call(jute.OpAddWatch, &jute.PathIntRequest{Path: "/r", Value: jute.WatchPersistentRecursive})
	for range 2 {
		c.call(jute.OpSetData, put("/p", ""))
		c.create("/p/k", 0)
		c.call(jute.OpSetData, put("/p/k", ""))
		c.call(jute.OpDelete, rm("/p/k"))
	}
	once := []string{"NodeDataChanged /p", "NodeChildrenChanged /p", "NodeChildrenChanged /p"}
	assert.Equal(t, append(once, once...), c.heard())
	c.create("/r", 0)
	c.create("/r/a", 0)
	c.create("/r/a/b", 0)
	c.call(jute.OpSetData, put("/r/a/b", ""))
	c.call(jute.OpDelete, rm("/r/a/b"))
	c.create("/rest", 0)
	assert.Equal(t, []string{
		"NodeCreated /r", "NodeCreated /r/a",
		"NodeCreated /r/a/b", "NodeDataChanged /r/a/b", "NodeDeleted /r/a/b",
	}, c.heard())
	id := c.hello.SessionID
	assert.Equal(t, []WatchInfo{{id, "/p", PersistentWatch}, {id, "/r", RecursiveWatch}}, s.Watches())
}

func TestWatchModesCollideBefore39(t *testing.T) {
	for profile, want := range map[Profile]int{V36: 1, V37: 1, V380Debian: 1, V38: 1, V39: 3} {
		s := RunT(t, Config{Profile: profile})
		c := newRaw(t, s, 10*time.Second)
		c.create("/a", 0)
		c.call(jute.OpAddWatch, &jute.PathIntRequest{Path: "/a"})
		c.call(jute.OpGetData, watch("/a"))
		for range 3 {
			c.call(jute.OpSetData, put("/a", ""))
		}
		assert.Len(t, c.heard(), want, "%v", profile)
	}
}

func TestRemoveWatches(t *testing.T) {
	remove := func(c *raw, path string, kind int32) Error {
		return c.code(jute.OpRemoveWatches, &jute.PathIntRequest{Path: path, Value: kind})
	}
	check := func(c *raw, path string, kind int32) Error {
		return c.code(jute.OpCheckWatches, &jute.PathIntRequest{Path: path, Value: kind})
	}
	s := RunT(t, Config{Profile: V38})
	c, other := newRaw(t, s, 10*time.Second), newRaw(t, s, 10*time.Second)
	c.create("/a", 0)
	c.call(jute.OpGetData, watch("/a"))
	assert.Equal(t, ErrNoWatcher, remove(c, "/a", jute.WatcherChildren))
	assert.Equal(t, ErrNoWatcher, remove(other, "/a", jute.WatcherData))
	assert.Equal(t, ErrMarshalling, remove(c, "/a", jute.WatcherPersistent), "unknown to 3.8")
	assert.Equal(t, ok, check(other, "/a", jute.WatcherData), "3.8 looks at anybody's watches")
	assert.Equal(t, ok, remove(c, "/a", jute.WatcherData))
	assert.Equal(t, ErrNoWatcher, check(c, "/a", jute.WatcherAny))
	c.call(jute.OpAddWatch, &jute.PathIntRequest{Path: "/a"})
	assert.Equal(t, ok, remove(c, "/a", jute.WatcherAny))
	assert.Empty(t, s.Watches())

	s = RunT(t, Config{Profile: V39})
	c = newRaw(t, s, 10*time.Second)
	c.create("/a", 0)
	c.call(jute.OpAddWatch, &jute.PathIntRequest{Path: "/a"})
	c.call(jute.OpGetData, watch("/a"))
	assert.Equal(t, ok, remove(c, "/a", jute.WatcherData))
	assert.Equal(t, []WatchInfo{{c.hello.SessionID, "/a", PersistentWatch}}, s.Watches())
	assert.Equal(t, ok, remove(c, "/a", jute.WatcherPersistent))
	assert.Empty(t, s.Watches())
}

func TestSetWatches(t *testing.T) {
	s := RunT(t)
	for _, path := range []string{"/same", "/changed", "/deleted", "/kids", "/kidless"} {
		require.NoError(t, s.Create(path, nil))
	}
	seen := s.Zxid()
	require.NoError(t, s.Set("/changed", nil))
	require.NoError(t, s.Delete("/deleted"))
	require.NoError(t, s.Create("/kids/a", nil))
	require.NoError(t, s.Create("/created", nil))
	c := newRaw(t, s, 10*time.Second)
	req := jute.SetWatches{RelativeZxid: seen,
		Data:  []string{"/same", "/changed", "/deleted"},
		Exist: []string{"/absent", "/created", "/same"},
		Child: []string{"/kids", "/kidless", "/deleted"}}
	all := &jute.SetWatches2{SetWatches: req, Persistent: []string{"/p"}, Recursive: []string{"/r"}}
	assert.Equal(t, ok, c.code(jute.OpSetWatches2, all))
	require.Len(t, c.events, 6, "events come before the reply")
	assert.Equal(t, []string{
		"NodeDataChanged /changed", "NodeDeleted /deleted",
		"NodeCreated /created", "NodeCreated /same",
		"NodeChildrenChanged /kids", "NodeDeleted /deleted",
	}, c.heard())
	id := c.hello.SessionID
	assert.Equal(t, []WatchInfo{
		{id, "/absent", DataWatch}, {id, "/kidless", ChildWatch}, {id, "/p", PersistentWatch},
		{id, "/r", RecursiveWatch}, {id, "/same", DataWatch},
	}, s.Watches())
	// A trap: the event of the delete of a node in the exist list is lost silently.
	trap := &jute.SetWatches{RelativeZxid: seen, Exist: []string{"/deleted"}}
	assert.Equal(t, ok, c.code(jute.OpSetWatches, trap))
	assert.Empty(t, c.heard())
}

func TestEventsAreFilteredByACL(t *testing.T) {
	secret := ACL{Perms: jute.PermAll, Scheme: "digest", ID: digestUserID([]byte("u:p"))}
	for profile, want := range map[Profile][]string{V37: {"NodeDataChanged /a"}, V380Debian: nil, V38: nil, V39: nil} {
		s := RunT(t, Config{Profile: profile})
		require.NoError(t, s.Create("/a", nil))
		c, friend := newRaw(t, s, 10*time.Second), newRaw(t, s, 10*time.Second)
		friend.call(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")})
		for _, r := range []*raw{c, friend} {
			r.call(jute.OpExists, watch("/a"))
		}
		require.NoError(t, s.SetACL("/a", secret))
		require.NoError(t, s.Set("/a", nil))
		assert.Equal(t, want, c.heard(), "%v", profile)
		assert.Equal(t, []string{"NodeDataChanged /a"}, friend.heard())
		assert.Empty(t, s.Watches(), "the watch is used up all the same")
	}
}
