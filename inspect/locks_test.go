package inspect_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

func paths(lines []inspect.Line) (paths []string) {
	for _, l := range lines {
		paths = append(paths, l.Path)
	}
	return paths
}

func locks(t *testing.T, c *framework.Client, root string, opts ...inspect.Option) inspect.Found {
	t.Helper()
	found, err := inspect.Locks(background, c, root, opts...)
	require.NoError(t, err)
	return found
}

// All lines below a root are found, wherever they are. The line with the longest wait is the first.
func TestLocksFindsEveryLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		for _, path := range []string{"/app/config/a", "/app/config/b", "/app/leases/flat", "/idle"} {
			require.NoError(t, s.Create(path, []byte("x")))
		}
		// Held, without waiters.
		_, err := mutex.New(a, "/app/held/later").Acquire(background)
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, err = mutex.New(a, "/app/held/later still").Acquire(background)
		require.NoError(t, err)
		// A line of Java, with waiters; below it a line of another library.
		stand(t, a, "/app/old", numbered(java1+"lock-", 0), numbered(java2+"lock-", 1))
		stand(t, a, "/app/old/below", numbered(kaz1+"__lock__", 0), numbered(kaz2+"__lock__", 1))
		sem := semaphore.New(a, "/app/sem", 1)
		_, err = sem.Acquire(background, 1)
		require.NoError(t, err)
		wait(t, func(ctx context.Context) { _, _ = semaphore.New(b, "/app/sem", 1).Acquire(ctx, 1) })
		require.NoError(t, s.Create("/app/jobs/queue-0000000003", []byte("job")))
		require.NoError(t, s.Create("/blocks/block-0000000003", []byte("data that is called so by chance")))
		s.ResetCounts()

		found := locks(t, b, "/")
		assert.Equal(t, []string{"/app/old", "/app/old/below", "/app/sem", "/app/jobs", "/app/held/later",
			"/app/held/later still"}, paths(found.Lines))
		assert.Empty(t, found.Stopped)
		assert.Empty(t, found.Unreadable)
		synctest.Wait()
		assert.NotContains(t, requests(s), "create2")
		assert.NotContains(t, requests(s), "addWatch")
		assert.Len(t, found.Lines[2].Holders, 1)
		assert.Len(t, found.Lines[2].Waiting, 1)

		assert.Equal(t, []string{"/app/old", "/app/old/below"}, paths(locks(t, b, "/app/old").Lines))
		assert.Equal(t, []string{"/app/old"}, paths(locks(t, b, "/app/old", inspect.WithMostDepth(0)).Lines))
		_, err = inspect.Locks(background, b, "/none")
		assert.ErrorIs(t, err, framework.ErrNoNode)
		assert.ErrorContains(t, err, `inspect: locks "/none": `)
	})
}

// The search costs a list for each node that is no participant, and the requests of Who for each line.
func TestLocksTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for i := range 200 {
			require.NoError(t, s.Create(fmt.Sprintf("/a/plain-%d", i), []byte("x")))
		}
		stand(t, c, "/a/lock", numbered(java1+"lock-", 0), numbered(java2+"lock-", 1))
		s.ResetCounts()
		assert.Len(t, locks(t, c, "/a").Lines, 1)
		assert.Equal(t, map[string]int{"getChildren2": 202, "exists": 2, "getData": 2}, requests(s))
	})
}

// A large tree is searched up to the limits.
func TestLocksIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for i := range 50 {
			for j := range 20 {
				require.NoError(t, s.Create(fmt.Sprintf("/%d/%d", i, j), nil))
			}
		}
		s.ResetCounts()
		found := locks(t, c, "/", inspect.WithMostNodes(100))
		assert.Equal(t, "100 nodes were read", found.Stopped)
		assert.Equal(t, map[string]int{"getChildren2": 100}, requests(s))
		found = locks(t, c, "/", inspect.WithMostDepth(1))
		assert.Equal(t, "there is more below 1 level", found.Stopped)
		assert.Empty(t, locks(t, c, "/", inspect.WithMostNodes(2000)).Stopped)

		for i := range 700 {
			require.NoError(t, s.Create("/queue/"+numbered("queue-", i), nil))
		}
		found = locks(t, c, "/queue")
		require.Len(t, found.Lines, 1)
		assert.Len(t, found.Lines[0].Waiting, 500)
		assert.Equal(t, 200, found.Lines[0].More)
	})
}

// A node that may not be listed is reported, and does not hide other nodes.
func TestLocksMayNotReadEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		private := newClient(t, s, framework.WithAuth("digest", []byte("a:a")),
			framework.WithDefaultACL(framework.CreatorACL()...))
		c := newClient(t, s)
		require.NoError(t, s.Create("/app", nil))
		for i := range 25 {
			_, err := private.Create().ForPath(background, fmt.Sprintf("/app/private-%02d", i), nil)
			require.NoError(t, err)
		}
		stand(t, c, "/app/lock", numbered(java1+"lock-", 0))
		found := locks(t, c, "/")
		assert.Equal(t, []string{"/app/lock"}, paths(found.Lines))
		assert.Equal(t, 25, found.UnreadableCount)
		assert.Len(t, found.Unreadable, 20)
		_, err := inspect.Locks(background, c, "/app/private-00")
		assert.ErrorIs(t, err, framework.ErrNoAuth)
	})
}

// Two processes take two locks in different orders, and wait for each other.
func TestWhyFindsADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b, d := newClient(t, s), newClient(t, s), newClient(t, s)
		for client, path := range map[*framework.Client]string{a: "/locks/a", b: "/locks/b"} {
			_, err := mutex.New(client, path).Acquire(background)
			require.NoError(t, err)
		}
		wait(t, func(ctx context.Context) { _, _ = mutex.New(b, "/locks/a").Acquire(ctx) })
		graph := why(t, d)
		assert.Empty(t, graph.Circles)
		assert.Len(t, graph.Chain("/locks/a"), 1)
		assert.Empty(t, graph.Chain("/locks/b"), "nobody waits there")

		wait(t, func(ctx context.Context) { _, _ = mutex.New(a, "/locks/b").Acquire(ctx) })
		wait(t, func(ctx context.Context) { _, _ = mutex.New(d, "/locks/b").Acquire(ctx) })
		graph = why(t, d)
		require.Len(t, graph.Circles, 1)
		ring := graph.Circles[0]
		require.Len(t, ring, 2)
		for i, e := range ring {
			assert.Equal(t, ring[1-i].Waiter.Session, e.Ahead.Session)
		}
		assert.ElementsMatch(t, []string{"/locks/a", "/locks/b"}, []string{ring[0].Path, ring[1].Path})
		chain := graph.Chain("/locks/b")
		require.Len(t, chain, 2)
		assert.Equal(t, fmt.Sprintf("session %#x waits at /locks/b for session %#x", session(t, a), session(t, b)),
			chain[0].String())
		assert.Len(t, graph.Edges, 3)
	})
}

// A follower in an election may hold locks: its wait does not stop any goroutine's work, so it is in no ring.
func TestAnElectionIsInNoCircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		leads, follows, looking := newClient(t, s), newClient(t, s), newClient(t, s)
		for _, c := range []*framework.Client{leads, follows} {
			latch, err := leader.NewLatch(c, "/locks/leader")
			require.NoError(t, err)
			t.Cleanup(func() { _ = latch.Close() })
			time.Sleep(time.Second)
			synctest.Wait()
		}
		_, err := mutex.New(follows, "/locks/stock").Acquire(background)
		require.NoError(t, err)
		wait(t, func(ctx context.Context) { _, _ = mutex.New(leads, "/locks/stock").Acquire(ctx) })
		graph := why(t, looking)
		assert.Empty(t, graph.Circles)
		assert.Len(t, graph.Edges, 2, "who follows whom is told")
		assert.Len(t, graph.Chain("/locks/leader"), 2, "the leader waits for a lock")
		assert.Len(t, graph.Chain("/locks/stock"), 1, "and the lock's holder does not hold it because it follows")
		assert.Empty(t, graph.Findings(inspect.Connected{}))
	})
}

// A ring in one result may be no deadlock, or be over soon. If its nodes were in an earlier result, too, it was there all
// the time between.
func TestACircleThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b, looking := newClient(t, s), newClient(t, s), newClient(t, s)
		held, err := mutex.New(a, "/locks/a").Acquire(background)
		require.NoError(t, err)
		_, err = mutex.New(b, "/locks/b").Acquire(background)
		require.NoError(t, err)
		wait(t, func(ctx context.Context) { _, _ = mutex.New(a, "/locks/b").Acquire(ctx) })
		wait(t, func(ctx context.Context) {
			if l, err := mutex.New(b, "/locks/a").Acquire(ctx); err == nil {
				_ = l.Release(ctx)
			}
		})
		first := why(t, looking)
		require.Len(t, first.Circles, 1)
		lasts := why(t, looking).Lasting(first)
		require.Len(t, lasts.Circles, 1)
		assert.Len(t, lasts.Edges, 2)
		assert.Equal(t, first.Lines, lasts.Lines)

		// Another goroutine of a releases its lock, so b continues; then the two form such a ring again.
		require.NoError(t, held.Release(background))
		time.Sleep(time.Second)
		_, err = mutex.New(a, "/locks/a").Acquire(background)
		require.NoError(t, err)
		wait(t, func(ctx context.Context) { _, _ = mutex.New(b, "/locks/a").Acquire(ctx) })
		again := why(t, looking)
		require.Len(t, again.Circles, 1)
		assert.Empty(t, again.Lasting(first).Circles, "the same sessions with other nodes")
		assert.Len(t, again.Lasting(first).Edges, 1, "a has waited all the time")
		assert.Empty(t, again.Lasting(inspect.Graph{}).Circles)
	})
}

func why(t *testing.T, c *framework.Client) inspect.Graph {
	t.Helper()
	graph, err := inspect.Why(background, c, "/locks")
	require.NoError(t, err)
	return graph
}
