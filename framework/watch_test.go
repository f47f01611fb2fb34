package framework

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/zktest"
)

// next receives an event that has been delivered already.
func next(t *testing.T, w *Watch) Event {
	t.Helper()
	synctest.Wait()
	select {
	case ev, ok := <-w.C:
		require.True(t, ok, "closed")
		return ev
	default:
		require.FailNow(t, "no event")
		return Event{}
	}
}

func requireClosed(t *testing.T, w *Watch) {
	t.Helper()
	synctest.Wait()
	select {
	case ev, ok := <-w.C:
		require.False(t, ok, "%v", ev)
	default:
		require.FailNow(t, "not closed")
	}
}

func requireQuiet(t *testing.T, w *Watch) {
	t.Helper()
	synctest.Wait()
	select {
	case ev, ok := <-w.C:
		require.FailNow(t, "not quiet", "%v %v", ev, ok)
	default:
	}
}

func TestOneShotWatches(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		other := dial(t, srv)

		stat, exists, err := c.CheckExists().WithWatch().ForPath(ctx, "/a")
		require.NoError(t, err)
		require.Nil(t, stat)
		requireQuiet(t, exists)
		make1(t, other, "/a", "one")
		assert.Equal(t, Event{Type: EventNodeCreated, Path: "/a"}, next(t, exists))
		requireClosed(t, exists)
		exists.Stop()

		var s Stat
		data, changed, err := c.GetData().StoringStatIn(&s).WithWatch().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Equal(t, "one", string(data))
		assert.NotZero(t, s.Czxid)
		names, listed, err := c.GetChildren().StoringStatIn(&s).WithWatch().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Empty(t, names)
		make1(t, other, "/a/x", "")
		assert.Equal(t, Event{Type: EventNodeChildrenChanged, Path: "/a"}, next(t, listed))
		requireClosed(t, listed)
		requireQuiet(t, changed)
		_, err = other.SetData().ForPath(ctx, "/a", []byte("two"))
		require.NoError(t, err)
		assert.Equal(t, Event{Type: EventNodeDataChanged, Path: "/a"}, next(t, changed))
		requireClosed(t, changed)

		_, deleted, err := c.CheckExists().WithWatch().ForPath(ctx, "/a/x")
		require.NoError(t, err)
		require.NoError(t, other.Delete().ForPath(ctx, "/a/x"))
		assert.Equal(t, Event{Type: EventNodeDeleted, Path: "/a/x"}, next(t, deleted))
		assert.Empty(t, srv.Watches())

		// In the background the event is there before the reply to a later read.
		r, err := c.GetData().WithWatch().InBackground().ForPath(ctx, "/a").Wait(ctx)
		require.NoError(t, err)
		re, err := c.CheckExists().WithWatch().InBackground().ForPath(ctx, "/none").Wait(ctx)
		require.NoError(t, err)
		rc, err := c.GetChildren().WithWatch().InBackground().ForPath(ctx, "/a").Wait(ctx)
		require.NoError(t, err)
		_, err = other.SetData().ForPath(ctx, "/a", []byte("three"))
		require.NoError(t, err)
		data, err = c.GetData().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Equal(t, "three", string(data))
		assert.Len(t, r.Watch.C, 1)
		re.Watch.Stop()
		requireClosed(t, re.Watch)
		rc.Watch.Stop()
		rc.Watch.Stop()
		requireClosed(t, rc.Watch)
		assert.Empty(t, srv.Watches(), "taken off the server")

		// If the read fails there is no watch.
		_, w, err := c.GetData().WithWatch().ForPath(ctx, "/none")
		assert.ErrorIs(t, err, ErrNoNode)
		assert.Nil(t, w)
		_, w, err = c.GetChildren().WithWatch().ForPath(ctx, "/none")
		assert.ErrorIs(t, err, ErrNoNode)
		assert.Nil(t, w)
		assert.Empty(t, srv.Watches())
	})
}

func TestWatchCallbacks(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		other := dial(t, srv)
		make1(t, c, "/a", "")
		events := make(chan Event, 10)
		f := func(ev Event) { events <- ev }
		_, err := c.GetData().Watching(f).ForPath(ctx, "/a")
		require.NoError(t, err)
		_, err = c.CheckExists().Watching(f).ForPath(ctx, "/b")
		require.NoError(t, err)
		_, err = c.GetChildren().Watching(f).InBackground().ForPath(ctx, "/a").Wait(ctx)
		require.NoError(t, err)
		_, err = c.GetData().Watching(f).ForPath(ctx, "/none")
		require.ErrorIs(t, err, ErrNoNode)
		make1(t, other, "/b", "")
		assert.Equal(t, Event{Type: EventNodeCreated, Path: "/b"}, <-events)
		require.NoError(t, other.Delete().ForPath(ctx, "/a"))
		assert.Equal(t, Event{Type: EventNodeDeleted, Path: "/a"}, <-events)
		assert.Equal(t, Event{Type: EventNodeDeleted, Path: "/a"}, <-events)
		make1(t, other, "/none", "")
		synctest.Wait()
		assert.Empty(t, events)

		w, err := c.Watches().Add().Watching(f).ForPath(ctx, "/b")
		require.NoError(t, err)
		assert.Nil(t, w.C)
		for range 3 {
			_, err = other.SetData().ForPath(ctx, "/b", nil)
			require.NoError(t, err)
			assert.Equal(t, Event{Type: EventNodeDataChanged, Path: "/b"}, <-events)
		}
		w.Stop()
		_, err = other.SetData().ForPath(ctx, "/b", nil)
		require.NoError(t, err)
		synctest.Wait()
		assert.Empty(t, events)
		assert.Empty(t, srv.Watches())
	})
}

func TestWatchesSurviveReconnects(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		other := dial(t, srv)
		make1(t, other, "/a", "")
		_, data, err := c.GetData().WithWatch().ForPath(ctx, "/a")
		require.NoError(t, err)
		_, exists, err := c.CheckExists().WithWatch().ForPath(ctx, "/b")
		require.NoError(t, err)
		w, err := c.Watches().Add().ForPath(ctx, "/p")
		require.NoError(t, err)
		id := connected(t, c).ID()
		srv.Cut(id)
		make1(t, other, "/b", "")
		make1(t, other, "/p", "")
		_, err = other.SetData().ForPath(ctx, "/a", nil)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		assert.Equal(t, Event{Type: EventNodeDataChanged, Path: "/a"}, next(t, data))
		assert.Equal(t, Event{Type: EventNodeCreated, Path: "/b"}, next(t, exists))
		assert.Equal(t, Event{Type: EventReset, Path: "/p"}, next(t, w),
			"what a persistent watch missed, nobody tells")
		make1(t, other, "/p/c", "")
		assert.Equal(t, Event{Type: EventNodeCreated, Path: "/p/c"}, next(t, w))
	})
}

func TestWatchesEndWithTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		set := func() []*Watch {
			_, exists, err := c.CheckExists().WithWatch().ForPath(ctx, "/b")
			require.NoError(t, err)
			_, children, err := c.GetChildren().WithWatch().ForPath(ctx, "/")
			require.NoError(t, err)
			all, err := c.Watches().Add().WithMode(PersistentWatch).ForPath(ctx, "/")
			require.NoError(t, err)
			deep, err := c.Watches().Add().InBackground().ForPath(ctx, "/a").Wait(ctx)
			require.NoError(t, err)
			return []*Watch{exists, children, all, deep}
		}
		ws := set()
		srv.Expire(connected(t, c).ID())
		time.Sleep(5 * time.Second)
		connected(t, c)
		for i, path := range []string{"/b", "/", "/", "/a"} {
			ev := next(t, ws[i])
			if ev.Type == EventReset {
				ev = next(t, ws[i])
			}
			assert.Equal(t, EventEnd, ev.Type)
			assert.Equal(t, path, ev.Path)
			assert.ErrorIs(t, ev.Err, ErrSessionLost)
			requireClosed(t, ws[i])
		}
		ws = set()
		require.NoError(t, c.Close())
		for _, w := range ws {
			ev := next(t, w)
			assert.Equal(t, EventEnd, ev.Type)
			assert.ErrorIs(t, ev.Err, ErrClosed)
			requireClosed(t, w)
		}
	})
}

// Before 3.9 the second mode replaces the first at the server. 3.9 keeps both, and the first watch gets the events of its
// children twice.
func TestPersistentWatchModes(t *testing.T) {
	bubbleOf(t, zktest.Config{Profile: zktest.V38}, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		one, err := c.Watches().Add().WithMode(PersistentWatch).ForPath(ctx, "/a")
		require.NoError(t, err)
		deep, err := c.Watches().Add().WithMode(PersistentRecursiveWatch).ForPath(ctx, "/a")
		require.NoError(t, err)
		make1(t, c, "/a/b", "")
		require.NoError(t, c.Delete().DeletingChildrenIfNeeded().ForPath(ctx, "/a"))
		for _, want := range []Event{{EventNodeCreated, "/a", nil}, {EventNodeChildrenChanged, "/a", nil},
			{EventNodeChildrenChanged, "/a", nil}, {EventNodeDeleted, "/a", nil}} {
			assert.Equal(t, want, next(t, one))
		}
		requireQuiet(t, one)
		for _, want := range []Event{{EventNodeCreated, "/a", nil}, {EventNodeCreated, "/a/b", nil},
			{EventNodeDeleted, "/a/b", nil}, {EventNodeDeleted, "/a", nil}} {
			assert.Equal(t, want, next(t, deep))
		}
		requireQuiet(t, deep)
		one.Stop()
		deep.Stop()
		synctest.Wait()
		assert.Empty(t, srv.Watches())
	})
}

// A subscriber that does not receive delays no other subscriber, and misses no event (P6).
func TestSlowSubscriber(t *testing.T) {
	const n = 1000
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		slow, err := c.Watches().Add().ForPath(ctx, "/")
		require.NoError(t, err)
		never, err := c.Watches().Add().ForPath(ctx, "/")
		require.NoError(t, err)
		for i := range n {
			c.Create().InBackground().ForPath(ctx, fmt.Sprintf("/%d", i), nil)
		}
		require.NoError(t, c.Sync().ForPath(ctx, "/"))
		for i := range n {
			require.Equal(t, Event{Type: EventNodeCreated, Path: fmt.Sprintf("/%d", i)}, next(t, slow))
		}
		requireQuiet(t, slow)
		slow.Stop()
		requireClosed(t, slow)
		require.NoError(t, c.Close(), "a subscriber that never reads does not hold it up")
		for range never.C { //nolint:revive // the rest of its events
		}
	})
}

// A subscriber that had fallen behind makes room in C. New events wait behind those that already wait, even if there is
// room.
func TestEventsStayInOrderWhenASubscriberCatchesUp(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Server, c *Client) {
		w, err := c.Watches().Add().ForPath(t.Context(), "/")
		require.NoError(t, err)
		told, heard := 0, 0
		tell := func() {
			w.deliverEvent(w.armed, wire.WatchEvent{Type: jute.EventNodeCreated, Path: fmt.Sprintf("/%d", told)})
			told++
		}
		hear := func() { // without a pause in which more could move up
			ev := <-w.C
			require.Equal(t, fmt.Sprintf("/%d", heard), ev.Path)
			heard++
		}
		for range 200 {
			for range 2 * cap(w.C) {
				tell()
			}
			synctest.Wait() // C is full, and the rest waits
			for range cap(w.C) {
				hear()
			}
			tell()
			for heard < told {
				hear()
			}
			synctest.Wait()
		}
		w.Stop()
	})
}

// A caller that stops waiting leaves no watch.
func TestWatchIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		make1(t, c, "/a/b", "")
		session := connected(t, c)
		set := session.As(c).WatchSet(func(Event) {})
		for _, op := range []string{"getData", "exists", "getChildren2", "addWatch", "setWatches", "setWatches of a set"} {
			for _, action := range []zktest.Action{zktest.Hold, zktest.HoldReply} {
				hold := srv.Inject(zktest.Fault{Op: strings.TrimSuffix(op, " of a set"), PathPrefix: "/a", Action: action})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					var err error
					switch op {
					case "getData":
						_, _, err = c.GetData().WithWatch().ForPath(ctx, "/a")
					case "exists":
						_, _, err = c.CheckExists().WithWatch().ForPath(ctx, "/a")
					case "getChildren2":
						_, _, err = c.GetChildren().WithWatch().ForPath(ctx, "/a")
					case "addWatch":
						_, err = c.Watches().Add().ForPath(ctx, "/a")
					case "setWatches":
						_, err = session.Arm(ctx, session.Zxid(), []string{"/a", "/a/b"}, []string{"/a/none"}).Wait(ctx)
					case "setWatches of a set":
						_, err = set.Rearm(ctx, session.Zxid(), []string{"/a", "/a/b"}, []string{"/a"}).Wait(ctx)
					}
					done <- err
				}()
				<-hold.Struck()
				synctest.Wait()
				cancel()
				assert.ErrorIs(t, <-done, context.Canceled)
				if strings.HasPrefix(op, "setWatches") {
					synctest.Wait() // Wait returns before the request in the background is abandoned
				}
				hold.Release()
				synctest.Wait()
				assert.Empty(t, srv.Watches(), "%s %v", op, action)
			}
		}
	})
}

func TestPersistentWatchOnAnOldServer(t *testing.T) {
	bubbleOf(t, zktest.Config{Profile: zktest.V35}, func(t *testing.T, srv *zktest.Server, c *Client) {
		for range 2 {
			_, err := c.Watches().Add().ForPath(t.Context(), "/")
			assert.ErrorIs(t, err, ErrUnimplemented)
			connected(t, c)
		}
		assert.Equal(t, int64(1), c.State().Epoch)
	})
}

// Stop drops the events that wait for the callback, whichever request has armed the watch, also a Stop in the callback.
func TestAStoppedWatchDropsTheEventsThatWaitForItsCallback(t *testing.T) {
	for name, arm := range map[string]func(ctx context.Context, c *Client, f func(Event)) (*Watch, error){
		"persistent": func(ctx context.Context, c *Client, f func(Event)) (*Watch, error) {
			return c.Watches().Add().Watching(f).ForPath(ctx, "/a")
		},
		"getData": func(ctx context.Context, c *Client, f func(Event)) (*Watch, error) {
			r, err := c.GetData().Watching(f).InBackground().ForPath(ctx, "/a").Wait(ctx)
			return r.Watch, err
		},
		"exists": func(ctx context.Context, c *Client, f func(Event)) (*Watch, error) {
			r, err := c.CheckExists().Watching(f).InBackground().ForPath(ctx, "/a").Wait(ctx)
			return r.Watch, err
		},
		"getChildren": func(ctx context.Context, c *Client, f func(Event)) (*Watch, error) {
			r, err := c.GetChildren().Watching(f).InBackground().ForPath(ctx, "/a").Wait(ctx)
			return r.Watch, err
		},
	} {
		for _, inCallback := range []bool{false, true} {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				make1(t, c, "/a", "")
				var w *Watch
				called, proceed := 0, make(chan struct{})
				busy, err := c.Watches().Add().WithMode(PersistentWatch).Watching(func(Event) {
					if <-proceed; inCallback {
						w.Stop()
					}
				}).ForPath(t.Context(), "/busy")
				require.NoError(t, err)
				w, err = arm(t.Context(), c, func(Event) { called++ })
				require.NoError(t, err)
				for _, path := range []string{"/busy", "/a/b", "/a/c"} {
					require.NoError(t, srv.Create(path, nil))
				}
				require.NoError(t, srv.Set("/a", nil))
				synctest.Wait() // the events of the watch wait behind the callback of the other one
				if !inCallback {
					w.Stop()
				}
				close(proceed)
				synctest.Wait()
				assert.Zero(t, called, "%s, stopped in a callback: %v", name, inCallback)
				busy.Stop()
				synctest.Wait()
				assert.Empty(t, srv.Watches(), name)
			})
		}
	}
}
