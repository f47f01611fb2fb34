package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// The callback of a reply is registered when the request has been sent, so it may be called after the callback of a later
// event. The server's zxid from before the last gap must not count as a zxid from after it.
func TestALateAnswerAboutAnEarlierGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := overheard(t, serverWith(t, "/r"))
		open := make(chan bool, 1)
		c.engine.postCall(func() {
			w := c.engine.watching.(*persistentStrategy)
			w.handleGap()
			late := w.zxidRequests
			w.handleGap()
			w.handleZxid(late, w.zxid, nil)
			open <- w.gapOpen
		})
		assert.True(t, <-open, "it is still open what the last gap has hidden")
		require.NoError(t, c.WaitSynced(t.Context()))
	})
}

// A request for the server's zxid that gets no reply is repeated, whether a reconnect follows or not.
func TestAQuestionWithoutAnAnswer(t *testing.T) {
	for _, err := range []error{
		framework.ErrNotConnected,
		framework.ErrConnectionLoss,
		fmt.Errorf("%w: %w", framework.ErrAuthFailed, framework.ErrNotConnected),
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := overheard(t, serverWith(t, "/r"))
			asked := make(chan struct{})
			c.engine.postCall(func() {
				w := c.engine.watching.(*persistentStrategy)
				w.handleGap()
				w.zxidRequests++ // this request is not the one whose reply will come
				w.handleZxid(w.zxidRequests, 0, err)
				close(asked)
			})
			<-asked
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, c.WaitSynced(ctx), "after %v", err)
		})
	}
}

// The connection is lost while the reply that sets the watch waits for the cache's goroutine. The cache is not in sync until
// the changes of that gap are read:
//
//  1. The server sets the watch, replies to that and to the reads, and the connection is lost.
//  2. A node changes. There is a new connection, whose requests the server has not executed yet.
//  3. The cache handles the replies.
func TestNotInSyncIfTheFirstRepliesAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serverWith(t, "/r")
		c, _ := overheard(t, srv)
		client := c.engine.cfg.client
		add := srv.Inject(zktest.Fault{Op: zktest.OpAddWatch, Action: zktest.Hold})
		second, err := New(client, "/r")
		require.NoError(t, err)
		defer second.Close()
		<-add.Struck()
		late := make(chan struct{})
		second.engine.postCall(func() { <-late })
		add.Release()
		synctest.Wait()
		connect := srv.Inject(zktest.Fault{Op: zktest.OpConnect, Action: zktest.Hold})
		srv.Cut(0)
		<-connect.Struck()
		require.NoError(t, srv.Create("/r/new", nil))
		rearm := srv.Inject(zktest.Fault{Op: zktest.OpSetWatches2, Action: zktest.Hold})
		connect.Release()
		<-rearm.Struck()
		synctest.Wait()
		close(late)
		synctest.Wait()
		assert.False(t, second.Progress().Synced)
		rearm.Release()
		require.NoError(t, second.WaitSynced(t.Context()))
		assert.Equal(t, 2, second.Len())
	})
}

// Changes that a new connection has revealed wait until that connection is reported, but only for a while. Until then the
// cache is not in sync.
func TestAConnectionThatIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serverWith(t, "/r")
		c, events := overheard(t, srv)
		hold := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.Hold})
		srv.Cut(0)
		require.NoError(t, srv.Create("/r/new", nil))
		<-hold.Struck()
		synctest.Wait()
		c.engine.postCall(func() { c.engine.publishing.reported.connections-- }) // as if the report were still on its way
		hold.Release()
		assert.Empty(t, events())
		assert.False(t, c.Progress().Synced, "what it has read cannot be seen yet")
		time.Sleep(reportWait)
		assert.Equal(t, []string{"Created /r/new"}, events())
		assert.True(t, c.Progress().Synced)
	})
}

// The same in a new session, of which no connection has been reported yet: it has no more of them than the session before.
func TestASessionThatIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serverWith(t, "/r")
		c, events := overheard(t, srv)
		hold := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.Hold})
		srv.Expire(srv.Sessions()[0].ID)
		require.NoError(t, srv.Create("/r/new", nil))
		<-hold.Struck()
		synctest.Wait()
		c.engine.postCall(func() { c.engine.publishing.reported.epoch-- }) // as if the report were still on its way
		hold.Release()
		assert.Empty(t, events())
		assert.False(t, c.Progress().Synced, "what it has read cannot be seen yet")
		time.Sleep(reportWait)
		assert.Equal(t, []string{"Created /r/new"}, events())
		assert.True(t, c.Progress().Synced)
	})
}

// The session of such a connection may end, and the next session may take long to begin. Until then the cache must not loop
// without a pause for a report that will not come.
func TestAConnectionThatIsNotReportedInASessionThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serverWith(t, "/r")
		c, events := overheard(t, srv)
		hold := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.Hold})
		srv.Cut(0)
		require.NoError(t, srv.Create("/r/new", nil))
		<-hold.Struck()
		synctest.Wait()
		c.engine.postCall(func() { c.engine.publishing.reported.connections-- })
		hold.Release()
		assert.Empty(t, events())
		refuse := srv.Inject(zktest.Fault{Op: zktest.OpConnect, Action: zktest.CutBefore, After: 1, Times: -1})
		srv.Expire(srv.Sessions()[0].ID)
		time.Sleep(10 * reportWait) // would never end while a goroutine loops without a pause
		refuse.Remove()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, c.WaitSynced(ctx))
		assert.Equal(t, []string{"Created /r/new"}, events())
	})
}

// The same while changes are shown as they are read, one by one: a child that was created below a new node, which replaced
// another one during an outage, never was a child of the old node. The child's reply comes before the cache knows which
// node is above it, and may do so again: because the comparison of a node with much data has only found that its data must
// be read, because the reply about the node itself came too soon, or because a read was refused.
func TestAChildOfAnotherNodeInALooseCache(t *testing.T) {
	for name, story := range map[string]struct {
		root, above string // the node that is replaced, and the node that gets another child
		large       string // a node with much data
		refused     int    // the number of reads that succeed before one is refused; negative: none is refused
	}{
		"below the root":             {"/r", "/r", "", -1},
		"below a large root":         {"/r", "/r", "/r", -1},
		"below a directory":          {"/r", "/r/dir", "", -1},
		"far below a large root":     {"/r", "/r/dir", "/r", -1},
		"below a large directory":    {"/r", "/r/dir", "/r/dir", -1},
		"below one of two":           {"/r/dir", "/r/dir", "", -1},
		"below a large one of two":   {"/r/dir", "/r/dir", "/r/dir", -1},
		"the first read is refused":  {"/r", "/r", "", 0},
		"the second read is refused": {"/r", "/r", "", 1},
		"the third read is refused":  {"/r", "/r", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t, zktest.Config{Pace: time.Millisecond}) // no two replies arrive together
				grow := func() {
					require.NoError(t, srv.Create(story.above, nil))
					if story.large != "" {
						require.NoError(t, srv.Set(story.large, make([]byte, 2*largeData)))
					}
				}
				grow()
				require.NoError(t, srv.Create(story.above+"/0", nil))
				c, events := overheard(t, srv)
				hold := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.Hold})
				srv.Cut(0)
				require.NoError(t, srv.DeleteAll(story.root))
				grow()
				<-hold.Struck() // the request that finds out whether anything was missed
				require.NoError(t, srv.Create(story.above+"/1", nil))
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
				c.engine.postCall(c.engine.oneByOne)
				if story.refused >= 0 {
					srv.Inject(refused("/r", story.refused))
				}
				hold.Release()
				time.Sleep(3 * time.Second)
				gone := []string{"Deleted " + story.above + "/0", "Deleted " + story.above}
				back := []string{"Created " + story.above, "Created " + story.above + "/1"}
				if story.root != story.above {
					gone, back = append(gone, "Deleted "+story.root), append([]string{"Created " + story.root}, back...)
				}
				assert.Equal(t, append(gone, back...), events())
			})
		})
	}
}

// Nor is a child shown before its parent when the parent's read was refused and comes after it.
func TestAChildOfANodeWhoseReadWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{Pace: time.Millisecond})
		require.NoError(t, srv.Create("/r", nil))
		c, events := overheard(t, srv)
		c.engine.postCall(func() {
			c.engine.oneByOne()
			c.engine.reads.awaited++ // as if another read were waiting
		})
		srv.Inject(refused("/r/new", 0))
		srv.Delay(0, 50*time.Millisecond)
		require.NoError(t, srv.Create("/r/new", nil))
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, srv.Create("/r/new/kid", nil))
		time.Sleep(3 * time.Second)
		assert.Equal(t, []string{"Created /r/new", "Created /r/new/kid"}, events())
	})
}

// oneByOne makes an engine read nodes one by one, and show them as they are read.
func (e *engine) oneByOne() {
	e.reads.sizes.single = true
	e.store.setLoose(true)
}

// refused returns a fault that refuses one read below prefix, after that many.
func refused(prefix string, after int) zktest.Fault {
	return zktest.Fault{
		Op: "getData", PathPrefix: prefix, After: after, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp,
	}
}

func serverWith(t *testing.T, path string) *zktest.Server {
	srv := zktest.RunT(t, zktest.Config{})
	require.NoError(t, srv.Create(path, nil))
	return srv
}

// overheard returns a cache of /r that is in sync, and a function that returns its events about nodes since.
func overheard(t *testing.T, srv *zktest.Server, opts ...Option) (c *Cache, events func() []string) {
	client, err := framework.New(srv.Addr(), framework.WithDialer(srv.Dial))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	c, err = New(client, "/r", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.WaitSynced(t.Context()))
	var got []string
	go func() { // ends with the cache
		for ev, err := range c.Events(context.Background()) {
			if err == nil && ev.Type != ConnectionChanged {
				got = append(got, ev.String())
			}
		}
	}()
	synctest.Wait()
	got = nil
	return c, func() []string {
		synctest.Wait()
		return got
	}
}

// The callback of the reply that shows a parent's Stat may be called after a later event, too. The reply does not have the
// event's change of the Stat.
func TestALateAnswerAboutAParent(t *testing.T) {
	for what, change := range map[string]func(*zktest.Server) error{
		"a creation": func(srv *zktest.Server) error { return srv.Create("/r/new", nil) },
		"a creation once more": func(srv *zktest.Server) error {
			return errors.Join(srv.Delete("/r/old"), srv.Create("/r/old", nil))
		},
		"a deletion": func(srv *zktest.Server) error { return srv.Delete("/r/old") },
		"a deletion of unknown": func(srv *zktest.Server) error {
			return errors.Join(srv.Create("/r/new", nil), srv.Delete("/r/new"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serverWith(t, "/r/old")
				c, _ := overheard(t, srv)
				var asked nodeRead
				var answer framework.Stat
				c.engine.postCall(func() {
					c.engine.applyInput(c.engine.store.top, compareWanted)
					asked, _, _ = c.engine.takeRead()
					answer = c.engine.store.top.stat()
				})
				synctest.Wait()
				require.NoError(t, change(srv))
				synctest.Wait()
				c.engine.postCall(func() { c.engine.applyReply(asked, &framework.ReadResult{Stat: answer}) })
				time.Sleep(3 * time.Second)
				synctest.Wait()
				_, want, err := srv.Get("/r")
				require.NoError(t, err)
				n, _ := c.Get("/r")
				assert.Equal(t, framework.Stat(want), n.Stat)
			})
		})
	}
}

// A leaf gets a child while the reply that shows it as a leaf waits for the cache's goroutine. The watches of the leaves are
// set as of a transaction before that reply, even if later reads are in flight:
//
//  1. The server replies to the reads of five new nodes. One of them gets a child.
//  2. The cache handles an event, and sends another read; the client has seen a later zxid.
//  3. The cache handles the replies, and sets the watches of the leaves.
func TestAChildOfALeafWhoseReplyIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serverWith(t, "/r")
		c, events := overheard(t, srv, WithOneShotWatches())
		list := srv.Inject(zktest.Fault{Op: zktest.OpGetChildren2, PathPrefix: "/r", Action: zktest.Hold})
		hold := srv.Inject(zktest.Fault{Op: zktest.OpGetData, PathPrefix: "/r/", Action: zktest.HoldReply})
		for i := range 5 {
			require.NoError(t, srv.Create(fmt.Sprint("/r/", i), nil))
		}
		list.Release()
		<-hold.Struck()
		synctest.Wait()
		late := make(chan struct{})
		c.engine.postCall(func() {
			<-late
			c.engine.applyInput(c.engine.store.top, dataWanted) // as by an event
		})
		synctest.Wait()
		hold.Release()
		require.NoError(t, srv.Create("/r/3/child", nil))
		_, err := c.engine.cfg.client.CheckExists().ForPath(t.Context(), "/r/3/child")
		require.NoError(t, err)
		synctest.Wait()
		close(late)
		time.Sleep(3 * time.Second)
		assert.Contains(t, events(), "Created /r/3/child")
	})
}

// A reply that has set watches waits for the cache's goroutine when the cache is closed.
func TestCloseWhileAReplyWaits(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpGetChildren2, zktest.OpSetWatches} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serverWith(t, "/r")
				for i := range 5 {
					require.NoError(t, srv.Create(fmt.Sprint("/r/", i), nil))
				}
				first, _ := overheard(t, srv)
				require.NoError(t, first.Close())
				hold := srv.Inject(zktest.Fault{Op: op, PathPrefix: "/r", Action: zktest.HoldReply})
				c, err := New(first.engine.cfg.client, "/r", WithOneShotWatches())
				require.NoError(t, err)
				<-hold.Struck()
				free := make(chan struct{})
				c.engine.postCall(func() { <-free })
				synctest.Wait()
				hold.Release()
				synctest.Wait()
				time.AfterFunc(time.Second, func() { close(free) })
				require.NoError(t, c.Close())
				synctest.Wait()
				assert.Empty(t, srv.Watches())
			})
		})
	}
}

// When changes come as fast as they can be read the queue is never empty. Its memory is limited by its present length, not
// by all items that it ever had.
func TestAQueueThatIsNeverEmptyStaysSmall(t *testing.T) {
	var q fifoQueue[int]
	for i := range 100 {
		q.push(i)
	}
	for i := range 100_000 {
		v, ok := q.pop()
		require.True(t, ok)
		require.Equal(t, i%100, v, "in their order")
		q.push(v)
		require.Equal(t, 100, q.len())
	}
	assert.Less(t, cap(q.items), 1000)
}

// Changes during a slow call of the decoder do not fill the memory. When the decoder returns, the cache becomes equal to
// the tree. The second time is no different.
func TestNoticesThatWaitForADecoder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serverWith(t, "/r")
		slow := sync.OnceFunc(func() {})
		tree, _ := overheard(t, srv, WithDecoder(func(_ string, data []byte) ([]byte, error) {
			if string(data) == "slow" {
				slow()
			}
			return data, nil
		}))
		for round := range 2 {
			free, dir := make(chan struct{}), fmt.Sprintf("/r/%d", round)
			slow = sync.OnceFunc(func() { <-free })
			require.NoError(t, srv.Create(dir, []byte("slow")))
			synctest.Wait()
			for i := range 3 * framework.WatchBacklog {
				require.NoError(t, srv.Set("/r", fmt.Append(nil, i)))
				if i%1000 == 0 {
					require.NoError(t, srv.Create(fmt.Sprintf("%s/n%d", dir, i), nil))
				}
			}
			require.NoError(t, srv.Delete(dir+"/n0"))
			synctest.Wait()
			waiting := tree.engine.inbox.Take()
			assert.LessOrEqual(t, len(waiting), framework.WatchBacklog+10)
			for _, p := range waiting {
				tree.engine.inbox.Put(p)
			}
			close(free)
			time.Sleep(5 * time.Second)
			require.NoError(t, tree.WaitSynced(t.Context()))
			kids, err := tree.engine.cfg.client.GetChildren().ForPath(t.Context(), dir)
			require.NoError(t, err)
			got := 0
			for path := range tree.All() {
				if strings.HasPrefix(path, dir+"/") {
					got++
				}
			}
			assert.Equal(t, len(kids), got)
			root, _ := tree.Get("/r")
			assert.Equal(t, fmt.Sprint(3*framework.WatchBacklog-1), string(root.Data))
			w := tree.engine.watching.(*persistentStrategy)
			assert.Zero(t, w.pending.events.Load())
			assert.Zero(t, w.pending.bytes.Load())
		}
	})
}
