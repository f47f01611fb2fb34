package framework

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// sets makes a set, and a function that returns the events since its last call.
func sets(t *testing.T, c *Client) (*WatchSet, func() []string) {
	t.Helper()
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	events := make(chan string, 100)
	set := s.As(c).WatchSet(func(ev Event) { events <- fmt.Sprint(ev.Type, " ", ev.Path) })
	return set, func() (all []string) {
		synctest.Wait()
		for len(events) > 0 {
			all = append(all, <-events)
		}
		return all
	}
}

func TestWatchSet(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, client *Client) {
		ctx, c := t.Context(), client.UsingNamespace("ns")
		for _, path := range []string{"/ns/a", "/ns/b", "/ns/c"} {
			require.NoError(t, srv.Create(path, nil))
		}
		set, heard := sets(t, c)
		_, err := c.GetData().WatchedBy(set).ForPath(ctx, "/a")
		require.NoError(t, err)
		_, err = c.GetChildren().WatchedBy(set).ForPath(ctx, "/a")
		require.NoError(t, err)
		_, err = c.CheckExists().WatchedBy(set).ForPath(ctx, "/absent")
		require.NoError(t, err)
		_, err = c.GetData().WatchedBy(set).ForPath(ctx, "/absent")
		require.ErrorIs(t, err, ErrNoNode)
		require.Len(t, srv.Watches(), 3)

		require.NoError(t, srv.Create("/ns/a/child", nil))
		require.NoError(t, srv.Create("/ns/absent", nil))
		require.NoError(t, srv.Set("/ns/a", nil))
		require.NoError(t, srv.Set("/ns/a", nil))
		assert.Equal(t, []string{"NodeChildrenChanged /a", "NodeCreated /absent", "NodeDataChanged /a"}, heard())

		_, err = c.GetData().WatchedBy(set).ForPath(ctx, "/b")
		require.NoError(t, err)
		_, err = c.GetChildren().WatchedBy(set).ForPath(ctx, "/b")
		require.NoError(t, err)
		srv.ResetCounts()
		set.Drop("/b", true, true)
		set.Drop("/c", true, true)
		synctest.Wait()
		assert.Empty(t, srv.Watches())
		assert.Equal(t, 1, srv.Counts()["removeWatches"], "both in one")
		require.NoError(t, srv.Set("/ns/b", nil))
		assert.Empty(t, heard())
	})
}

// Arm sets watches without a read: on nodes that exist, and on one that does not.
func TestArm(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		for _, path := range []string{"/same", "/set", "/gone", "/later", "/there"} {
			require.NoError(t, srv.Create(path, nil))
		}
		s, err := c.Session(ctx)
		require.NoError(t, err)
		_, err = c.CheckExists().ForPath(ctx, "/same")
		require.NoError(t, err)
		since := s.Zxid()
		require.NoError(t, srv.Set("/set", nil))
		require.NoError(t, srv.Delete("/gone"))
		srv.ResetCounts()
		watches, err := s.Arm(ctx, since, []string{"/same", "/set", "/gone", "/later"}, []string{"/there", "/new"}).Wait(ctx)
		require.NoError(t, err)
		synctest.Wait()
		// The watch on /there fired while it was armed, so its own removal follows.
		require.Equal(t, map[zktest.Op]int{"setWatches": 1, "removeWatches": 1}, srv.Counts())
		seen := func() (all []string) {
			for _, w := range watches {
				select {
				case ev, ok := <-w.C:
					if ok {
						all = append(all, ev.Type.String()+" "+ev.Path)
					}
				default:
				}
			}
			return all
		}
		require.Equal(t, []string{"NodeDataChanged /set", "NodeDeleted /gone", "NodeCreated /there"}, seen())
		require.NoError(t, srv.Set("/later", nil))
		synctest.Wait()
		require.Equal(t, []string{"NodeDataChanged /later"}, seen())
		srv.Cut(0)
		require.NoError(t, srv.Create("/new", nil))
		time.Sleep(time.Second)
		require.Equal(t, []string{"NodeCreated /new"}, seen())
		watches[0].Stop()
		synctest.Wait()
		require.Empty(t, srv.Watches())

		srv.Inject(zktest.Fault{Op: "setWatches", Action: zktest.ReplyError, Err: zktest.ErrUnimplemented})
		_, err = s.Arm(ctx, since, []string{"/same"}, []string{"/newer"}).Wait(ctx)
		require.ErrorIs(t, err, ErrUnimplemented)
		require.Empty(t, srv.Watches())
		_, err = s.Arm(ctx, since, nil, []string{"not a path"}).Wait(ctx)
		require.ErrorIs(t, err, ErrInvalidPath)
		_, err = (*Session)(nil).Arm(ctx, 0, []string{"/same"}, nil).Wait(ctx)
		require.ErrorIs(t, err, ErrNoClient)
	})
}

// Changes since the nodes were read fire their watches, also across a reconnect.
func TestWatchSetRearms(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		for _, path := range []string{"/a", "/b", "/c", "/d", "/e"} {
			require.NoError(t, srv.Create(path, nil))
		}
		set, heard := sets(t, c)
		_, err := c.CheckExists().ForPath(ctx, "/d")
		require.NoError(t, err)
		since := set.session.Zxid()
		require.NoError(t, srv.Set("/a", nil))
		require.NoError(t, srv.Create("/b/child", nil))
		require.NoError(t, srv.Create("/e/child", nil))
		require.NoError(t, srv.Delete("/c"))
		paths := []string{"/a", "/b", "/c", "/d"}
		_, err = set.Rearm(ctx, since, paths, append(paths, "/e")).Wait(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{"NodeDataChanged /a", "NodeDeleted /c", "NodeDeleted /c", "NodeChildrenChanged /b",
			"NodeChildrenChanged /e"}, heard())
		require.NoError(t, srv.Create("/a/child", nil))
		srv.Cut(0)
		require.NoError(t, srv.Set("/d", nil))
		time.Sleep(time.Second)
		assert.ElementsMatch(t, []string{"NodeChildrenChanged /a", "NodeDataChanged /d"}, heard())

		_, err = set.Rearm(ctx, since, []string{"not a path"}, nil).Wait(ctx)
		require.ErrorIs(t, err, ErrInvalidPath)
		_, err = (&WatchSet{}).Rearm(ctx, 0, paths, nil).Wait(ctx)
		require.ErrorIs(t, err, ErrNoClient)
		(&WatchSet{}).Drop("/a", true, true)
	})
}
