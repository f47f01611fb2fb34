package framework

import (
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

// backlogged makes a persistent watch without a receiver, and a function that delivers events to it.
func backlogged(t *testing.T, c *Client, f func(Event)) (w *Watch, fire func(path string)) {
	t.Helper()
	w, err := c.Watches().Add().Watching(f).ForPath(t.Context(), "/a")
	require.NoError(t, err)
	return w, func(path string) {
		w.deliverEvent(w.armed, wire.WatchEvent{Type: jute.EventNodeDataChanged, Path: path})
	}
}

// More events than are received become one EventReset behind the waiting events. Events after the receipt of the EventReset
// are delivered again.
func TestAWatchThatNobodyReads(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		w, fire := backlogged(t, c, nil)
		const room = WatchBacklog + 64 + 1 // the channel's, and the events that the pump holds
		for i := range 3 * room {
			fire(fmt.Sprintf("/a/%d", i))
			if i == 64 {
				synctest.Wait() // the pump holds one event
			}
		}
		synctest.Wait()
		assert.LessOrEqual(t, len(w.overflow.queue), WatchBacklog+1)
		for i := range room {
			require.Equal(t, Event{Type: EventNodeDataChanged, Path: fmt.Sprintf("/a/%d", i)}, next(t, w))
		}
		require.Equal(t, Event{Type: EventReset, Path: "/a"}, next(t, w))
		requireQuiet(t, w)
		fire("/a/later")
		assert.Equal(t, Event{Type: EventNodeDataChanged, Path: "/a/later"}, next(t, w))
		requireQuiet(t, w)

		for i := range 3 * room {
			fire("/a/x")
			if i == 64 {
				synctest.Wait()
			}
		}
		id := connected(t, c).ID()
		srv.Cut(id) // a gap is covered, too
		time.Sleep(5 * time.Second)
		srv.Expire(connected(t, c).ID())
		time.Sleep(time.Minute)
		var last []EventType
		for ev := range w.C {
			last = append(last, ev.Type)
		}
		require.Len(t, last, room+2)
		assert.Equal(t, []EventType{EventNodeDataChanged, EventReset, EventEnd}, last[room-1:])
	})
}

// Few events with long paths are as much.
func TestAWatchThatNobodyReadsWithLongPaths(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Server, c *Client) {
		w, fire := backlogged(t, c, nil)
		long := "/a/" + strings.Repeat("x", 1<<18)
		for range 2 { // received events give their room back
			for i := range 200 {
				fire(long)
				if i == 64 {
					synctest.Wait()
				}
			}
			synctest.Wait()
			assert.LessOrEqual(t, len(w.overflow.queue), 17)
			var got []EventType
			for len(w.C) > 0 {
				got = append(got, next(t, w).Type)
				synctest.Wait()
			}
			assert.Equal(t, EventReset, got[len(got)-1])
			assert.Less(t, len(got), 90)
			assert.Greater(t, len(got), 75)
		}
	})
}

// The same for a callback that does not return.
func TestAWatchWhoseCallbackHangs(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Server, c *Client) {
		goOn := make(chan struct{})
		var got []Event
		_, fire := backlogged(t, c, func(ev Event) {
			got = append(got, ev)
			<-goOn
		})
		for i := range 3 * WatchBacklog {
			fire(fmt.Sprintf("/a/%d", i))
			if i == 0 {
				synctest.Wait() // the callback hangs
			}
		}
		c.core.ops.userExecutors.callbacks.mu.Lock()
		assert.LessOrEqual(t, len(c.core.ops.userExecutors.callbacks.queue), WatchBacklog+2, "the first is still there")
		c.core.ops.userExecutors.callbacks.mu.Unlock()
		close(goOn)
		synctest.Wait()
		require.Len(t, got, WatchBacklog+2)
		assert.Equal(t, Event{Type: EventNodeDataChanged, Path: "/a/0"}, got[0])
		assert.Equal(t, Event{Type: EventReset, Path: "/a"}, got[WatchBacklog+1])
		fire("/a/later")
		synctest.Wait()
		assert.Equal(t, Event{Type: EventNodeDataChanged, Path: "/a/later"}, got[len(got)-1])
	})
}

// Recipes and caches receive the events of their watches immediately, and all of them.
func TestTheWatchesOfRecipesAreToldEverything(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Server, c *Client) {
		n := 0
		_, fire := backlogged(t, c.ForRecipes(), func(ev Event) {
			if ev.Type == EventNodeDataChanged {
				n++
			}
		})
		for range 2 * WatchBacklog {
			fire("/a")
		}
		synctest.Wait()
		assert.Equal(t, 2*WatchBacklog, n)
	})
}
