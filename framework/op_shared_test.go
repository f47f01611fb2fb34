package framework

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func shareList(ctx context.Context, c *Client, most int) *Pending[ChildrenResult] {
	return c.GetChildren().InBackground().Shared(most).ForPath(ctx, "/dir")
}

// lists creates the directory "/dir", delays the server's replies by a second from now on, and returns a function that
// counts the lists requested.
func lists(t *testing.T, srv *zktest.Server, c *Client) (requested func() int) {
	t.Helper()
	make1(t, c, "/dir", "")
	srv.Delay(0, time.Second)
	srv.ResetCounts()
	t.Cleanup(func() { assert.Empty(t, c.core.latestEpoch().sharedReads.reads, "a lane is left") })
	return func() int {
		synctest.Wait()
		return srv.Counts()[zktest.OpGetChildren2]
	}
}

// A caller that comes while a list is in flight shares the next one, which shows all that these callers have created
// before.
func TestNewcomersShareAList(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, requested := t.Context(), lists(t, srv, c)
		first := shareList(ctx, c, 1)
		var next [3]*Pending[ChildrenResult]
		for i := range next {
			c.Create().InBackground().ForPath(ctx, fmt.Sprintf("/dir/%d", i), nil)
			next[i] = shareList(ctx, c, 1)
		}
		assert.Equal(t, 1, requested(), "the others share the next one")
		list, err := first.Wait(ctx)
		require.NoError(t, err)
		assert.Empty(t, list.Names)
		assert.Equal(t, 2, requested())
		late := shareList(ctx, c, 1)
		assert.Equal(t, 2, requested(), "it is too early for that one")
		var names []string
		for i, p := range next {
			list, err := p.Wait(ctx)
			require.NoError(t, err)
			require.Len(t, list.Names, 3)
			assert.Equal(t, int32(3), list.Stat.NumChildren)
			if i > 0 {
				assert.Same(t, &names[0], &list.Names[0], "it was decoded twice")
			}
			names = list.Names
		}
		_, err = late.Wait(ctx)
		assert.NoError(t, err)
		assert.Equal(t, 3, requested())
	})
}

func TestAFewListForThemselves(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, requested := t.Context(), lists(t, srv, c)
		var all []*Pending[ChildrenResult]
		for range 4 {
			all = append(all, shareList(ctx, c, 2))
		}
		assert.Equal(t, 2, requested())
		for _, p := range all {
			_, err := p.Wait(ctx)
			assert.NoError(t, err)
		}
		assert.Equal(t, 3, requested(), "two for those who came first, one for the others")
	})
}

// A caller that gives up ends the read for none of the others; a read that no caller needs any more is not sent.
func TestWhoSharesGivesUpAlone(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, requested := t.Context(), lists(t, srv, c)
		soon, leave := context.WithCancel(ctx)
		first, second, third := shareList(soon, c, 1), shareList(soon, c, 1), shareList(ctx, c, 1)
		assert.Equal(t, 1, requested())
		leave()
		for _, p := range []*Pending[ChildrenResult]{first, second} {
			_, err := p.Wait(ctx)
			assert.ErrorIs(t, err, context.Canceled)
		}
		assert.Equal(t, 2, requested(), "the first one's place is free")
		soon, leave = context.WithCancel(ctx)
		last := shareList(soon, c, 1)
		leave()
		_, err := last.Wait(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		_, err = third.Wait(ctx)
		assert.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Equal(t, 2, requested())
	})
}

// A hook that does not return, or that refuses to, keeps none of the others from their list; and it gets only the
// operations that send a request immediately.
func TestWhoSharesWaitsForNoHook(t *testing.T) {
	var reported, ended atomic.Int32
	hooks := Hooks{Operation: func(_ context.Context, op Operation) func(OperationEnd) {
		if op.Name != "getChildren" {
			return nil
		}
		if reported.Add(1) == 1 {
			runtime.Goexit()
		}
		return func(OperationEnd) { ended.Add(1) }
	}}
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, requested := t.Context(), lists(t, srv, c)
		go shareList(ctx, c, 1)
		assert.Zero(t, requested())
		second, third := shareList(ctx, c, 1), shareList(ctx, c, 1)
		assert.Equal(t, 1, requested(), "the lane is not left")
		for _, p := range []*Pending[ChildrenResult]{second, third} {
			_, err := p.Wait(ctx)
			assert.NoError(t, err)
		}
		synctest.Wait()
		assert.Equal(t, int32(2), reported.Load())
		assert.Equal(t, int32(1), ended.Load())
	}, WithHooks(hooks))
}

// Each caller that shares a list takes the steps that the reply requires, and none gets another's result.
func TestWhoSharesCreatesTheRoot(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, requested := t.Context(), lists(t, srv, c)
		ns := c.UsingNamespace("ns")
		var all []*Pending[ChildrenResult]
		for range 3 {
			all = append(all, ns.GetChildren().InBackground().Shared(1).ForPath(ctx, "/"))
		}
		assert.Equal(t, 1, requested())
		for _, p := range all {
			list, err := p.Wait(ctx)
			assert.NoError(t, err)
			assert.Empty(t, list.Names)
			assert.NotZero(t, list.Stat.Czxid)
		}
		assert.Contains(t, srv.Tree(), "/ns")
	})
}

// When the connection is lost, so is the request in flight; the next one waits for the next connection.
func TestASharedReadAndALostConnection(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx, requested := t.Context(), lists(t, srv, c)
		first, second, third := shareList(ctx, c, 1), shareList(ctx, c, 1), shareList(ctx, c, 1)
		assert.Equal(t, 1, requested())
		srv.Cut(connected(t, c).ID())
		_, err := first.Wait(ctx)
		assert.ErrorIs(t, err, ErrConnectionLoss)
		for _, p := range []*Pending[ChildrenResult]{second, third} {
			_, err := p.Wait(ctx)
			assert.NoError(t, err)
		}
		fourth, fifth := shareList(ctx, c, 1), shareList(ctx, c, 1)
		require.NoError(t, c.Close())
		_, err = fourth.Wait(ctx)
		assert.NoError(t, err, "Close waits for what is in flight")
		_, err = fifth.Wait(ctx)
		assert.ErrorIs(t, err, ErrClosed)
	})
}

// Two namespaces have different nodes at one path, and share no request; nor do a list and a read of the data.
func TestDifferentReadsShareNothing(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		plant(t, srv, "/a/dir/of-a", "/b/dir/of-b")
		require.NoError(t, srv.Set("/a/dir", []byte("data of a")))
		require.NoError(t, srv.Set("/b/dir", []byte("data of b")))
		srv.Delay(0, time.Second)
		all, data := map[string][]*Pending[ChildrenResult]{}, map[string][]*Pending[DataResult]{}
		for range 2 {
			for _, ns := range []string{"a", "b"} {
				c := c.UsingNamespace(ns)
				all[ns] = append(all[ns], shareList(t.Context(), c, 1))
				data[ns] = append(data[ns], c.GetData().InBackground().Shared(1).ForPath(t.Context(), "/dir"))
			}
		}
		for ns, lists := range all {
			for i, p := range lists {
				list, err := p.Wait(t.Context())
				require.NoError(t, err)
				assert.Equal(t, []string{"of-" + ns}, list.Names)
				read, err := data[ns][i].Wait(t.Context())
				require.NoError(t, err)
				assert.Equal(t, "data of "+ns, string(read.Data))
			}
		}
	})
}

func TestOnlyPlainReadsAreShared(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		lists(t, srv, c)
		for range 3 {
			c.GetChildren().WithWatch().InBackground().Shared(1).ForPath(ctx, "/dir")
			c.GetData().Decompressed().InBackground().Shared(1).ForPath(ctx, "/dir")
			c.Delete().InBackground().Shared(1).ForPath(ctx, "/none")
		}
		var stats [9]Stat
		var replied [9]<-chan struct{}
		for i := range 3 { // each caller gets its Stat
			replied[3*i] = c.GetChildren().StoringStatIn(&stats[3*i]).InBackground().Shared(1).ForPath(ctx, "/dir").Done()
			replied[3*i+1] = c.GetACL().StoringStatIn(&stats[3*i+1]).InBackground().Shared(1).ForPath(ctx, "/dir").Done()
			replied[3*i+2] = c.GetData().StoringStatIn(&stats[3*i+2]).InBackground().Shared(1).ForPath(ctx, "/dir").Done()
		}
		synctest.Wait()
		assert.Equal(t, map[zktest.Op]int{
			zktest.OpGetChildren2: 6, zktest.OpGetData: 6, zktest.OpDelete: 3, zktest.OpGetACL: 3,
		}, srv.Counts())
		time.Sleep(time.Minute)
		for i := range stats {
			<-replied[i]
			assert.NotZero(t, stats[i])
		}
	})
}
