package inspect_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	workqueue "github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// Nodes of Java, go-zookeeper and this library form one line.
func TestWhoStandsInAMixedLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		java, own, asks := newClient(t, s), newClient(t, s), newClient(t, s)
		stand(t, java, "/locks/orders", numbered(java1+"lock-", 0))
		began := time.Now()
		wait(t, func(ctx context.Context) { // gets the number 1
			m := mutex.New(own, "/locks/orders", mutex.WithNodeData([]byte("billing")))
			_, err := m.Acquire(ctx)
			assert.ErrorIs(t, err, context.Canceled)
		})
		stand(t, java, "/locks/orders", numbered(gozk+"lock-", 2))
		s.ResetCounts()

		line := who(t, asks, "/locks/orders")
		synctest.Wait()
		assert.Equal(t, map[string]int{"getChildren2": 1, "exists": 3, "getData": 3}, requests(s))
		assert.Equal(t, inspect.Mutex, line.Kind)
		assert.Equal(t, 3, line.Children)
		assert.EqualValues(t, 3, line.NumbersUsed)
		assert.Empty(t, line.Foreign)
		assert.Empty(t, line.Notes)
		require.Len(t, line.Holders, 1)
		require.Len(t, line.Waiting, 2)
		holder, first, second := line.Holders[0], line.Waiting[0], line.Waiting[1]
		assert.Equal(t, numbered(java1+"lock-", 0), holder.Name)
		assert.Equal(t, "/locks/orders/"+holder.Name, holder.Path)
		assert.Equal(t, []inspect.Library{inspect.Java, inspect.Go, inspect.GoZookeeper},
			[]inspect.Library{holder.Library, first.Library, second.Library})
		assert.Equal(t, session(t, java), holder.Session)
		assert.Equal(t, session(t, own), first.Session)
		assert.Equal(t, "billing", string(first.Data))
		assert.Equal(t, 7, first.DataLength)
		assert.WithinDuration(t, began, first.Since, time.Millisecond)
		assert.Greater(t, first.Token, holder.Token)
		assert.False(t, holder.Revoked)

		require.NoError(t, s.Set(holder.Path, []byte("__REVOKE__")))
		assert.True(t, who(t, asks, "/locks/orders").Holders[0].Revoked)
		text := who(t, asks, "/locks/orders").String()
		assert.Contains(t, text, "/locks/orders: mutex\n  holds  "+holder.Name+", java, session 0x")
		assert.Contains(t, text, ", asked to release\n  waits  "+first.Name+", go, session 0x")
	})
}

// requests returns the numbers of the server's replies, except those to the client's pings.
func requests(s *zktest.Server) map[string]int {
	counts := s.Counts()
	delete(counts, "ping")
	return counts
}

// Each recipe is recognised by its nodes.
func TestWhoRecognisesTheRecipes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		check := func(path string, kind inspect.Kind, holders, waiting int) inspect.Line {
			t.Helper()
			line := who(t, b, path)
			assert.Equal(t, kind, line.Kind, path)
			assert.Len(t, line.Holders, holders, path)
			assert.Len(t, line.Waiting, waiting, path)
			assert.Empty(t, line.Foreign, path)
			assert.Empty(t, line.Notes, path)
			for _, p := range append(line.Holders, line.Waiting...) {
				assert.Equal(t, inspect.Go, p.Library, path)
				assert.NotZero(t, p.Session, path)
			}
			return line
		}
		check("/nothing", inspect.Nothing, 0, 0)

		lock, err := mutex.New(a, "/mutex").Acquire(background)
		require.NoError(t, err)
		check("/mutex", inspect.Mutex, 1, 0)
		require.NoError(t, lock.Release(background))
		check("/mutex", inspect.Idle, 0, 0)

		rw := rwlock.New(a, "/rw")
		first, err := rw.ReadLock().Acquire(background)
		require.NoError(t, err)
		_, err = rwlock.New(b, "/rw").ReadLock().Acquire(background)
		require.NoError(t, err)
		wait(t, func(ctx context.Context) { _, _ = rw.WriteLock().Acquire(ctx) })
		wait(t, func(ctx context.Context) { _, _ = rwlock.New(b, "/rw").ReadLock().Acquire(ctx) })
		line := check("/rw", inspect.ReadWriteLock, 2, 2)
		assert.True(t, line.Holders[0].Reader)
		assert.False(t, line.Waiting[0].Reader)
		assert.True(t, line.Waiting[1].Reader)
		assert.Equal(t, first.FencingToken(), line.Holders[0].Token)

		latch, err := leader.NewLatch(a, "/latch", leader.WithID("host-1"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, latch.Close()) })
		_, err = latch.Await(background)
		require.NoError(t, err)
		assert.Equal(t, "host-1", string(check("/latch", inspect.Latch, 1, 0).Holders[0].Data))

		sem := semaphore.New(a, "/semaphore", 2)
		for range 2 {
			_, err := sem.Acquire(background, 1)
			require.NoError(t, err)
		}
		wait(t, func(ctx context.Context) { _, _ = semaphore.New(b, "/semaphore", 2).Acquire(ctx, 1) })
		wait(t, func(ctx context.Context) { _, _ = sem.Acquire(ctx, 1) })
		line = check("/semaphore", inspect.Semaphore, 2, 2)
		assert.Equal(t, session(t, b), line.Waiting[0].Session)
		assert.True(t, strings.HasPrefix(line.Waiting[0].Path, "/semaphore/locks/"))
		assert.True(t, strings.HasPrefix(line.Holders[0].Path, "/semaphore/leases/"))

		door := func(c *framework.Client) *barrier.Double { return barrier.NewDouble(c, "/double", 2) }
		wait(t, func(ctx context.Context) { _, _ = door(a).Enter(ctx) })
		check("/double", inspect.Members, 1, 0)
		_, err = door(b).Enter(background)
		require.NoError(t, err)
		check("/double", inspect.DoubleBarrier, 2, 0)

		n := counter.NewLong(a, "/number")
		_, err = n.Add(background, 7)
		require.NoError(t, err)
		line = check("/number", inspect.Number, 0, 0)
		require.NotNil(t, line.Number, "while its mark is there")
		assert.EqualValues(t, 7, *line.Number)
		time.Sleep(time.Minute)
		assert.EqualValues(t, 7, *check("/number", inspect.Number, 0, 0).Number)

		require.NoError(t, barrier.New(a, "/barrier").Set(background))
		check("/barrier", inspect.Leaf, 0, 0)
	})
}

// Nodes of Curator and kazoo for which this library has no recipe, or which it writes in another form.
func TestWhoReadsOthersNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		stand(t, c, "/kazoo/lock", numbered(kaz2+"__lock__", 4), numbered(kaz1+"__lock__", 3))
		line := who(t, c, "/kazoo/lock")
		assert.Equal(t, inspect.Mutex, line.Kind)
		assert.Equal(t, []string{numbered(kaz1+"__lock__", 3)}, names(line.Holders))
		assert.Equal(t, []string{numbered(kaz2+"__lock__", 4)}, names(line.Waiting))
		assert.Equal(t, inspect.Kazoo, line.Holders[0].Library)

		require.NoError(t, s.Create("/kazoo/sem", []byte("3")))
		stand(t, c, "/kazoo/sem", kaz1)
		stand(t, c, "/kazoo/sem-__lock__", numbered(kaz2+"__lock__", 0), numbered(kaz1+"__lock__", 1))
		line = who(t, c, "/kazoo/sem")
		assert.Equal(t, inspect.Semaphore, line.Kind)
		assert.Equal(t, 3, line.Max)
		assert.Equal(t, []string{kaz1}, names(line.Holders))
		assert.Equal(t, []string{numbered(kaz2+"__lock__", 0), numbered(kaz1+"__lock__", 1)}, names(line.Waiting))

		assert.Equal(t, []string{"/kazoo/lock", "/kazoo/sem"}, paths(locks(t, c, "/kazoo").Lines))
		require.NoError(t, s.Set("/kazoo/sem", []byte("x")))
		assert.Equal(t, inspect.Members, who(t, c, "/kazoo/sem").Kind)

		stand(t, c, "/rw", numbered(java1+"__WRIT__", 1), numbered(java2+"__READ__", 0))
		line = who(t, c, "/rw")
		assert.Equal(t, []string{numbered(java2+"__READ__", 0)}, names(line.Holders))
		assert.Equal(t, inspect.Java, line.Waiting[0].Library)

		for i, prefix := range []string{"queue-", "queue-"} {
			require.NoError(t, s.Create("/queue/"+numbered(prefix, i), []byte("job")))
		}
		line = who(t, c, "/queue")
		assert.Equal(t, inspect.Queue, line.Kind)
		assert.Len(t, line.Waiting, 2)
		assert.Equal(t, "job", string(line.Waiting[0].Data))

		require.NoError(t, s.Create("/address", []byte("10.0.0.1")))
		assert.Equal(t, inspect.Leaf, who(t, c, "/address").Kind, "eight bytes of text are no number")
		require.NoError(t, s.Create("/kazoo/count", []byte("12")))
		assert.EqualValues(t, 12, *who(t, c, "/kazoo/count").Number)

		for _, path := range []string{"/apps/leases/flat-1", "/apps/locks/orders"} {
			require.NoError(t, s.Create(path, nil))
		}
		line = who(t, c, "/apps")
		assert.Equal(t, inspect.Unknown, line.Kind, "not everything that has children of these names is a semaphore")
		assert.Equal(t, []string{"leases", "locks"}, line.Foreign)
	})
}

// A queue shows the age of each item; its lock path shows the session that holds an item's lock. The age of an item that
// was put back counts from then; the tree has no other trace of the failure.
func TestWhoShowsAQueueWithLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		producer, consumer, asks := newClient(t, s), newClient(t, s), newClient(t, s)
		items := workqueue.New(consumer, "/mail", workqueue.WithLockPath("/mail-locks"))
		put := time.Now()
		require.NoError(t, workqueue.New(producer, "/mail").Put(background, []byte("letter")))
		time.Sleep(time.Hour)
		taken := time.Now()
		tried := make(chan struct{})
		wait(t, func(ctx context.Context) {
			first := true
			err := items.Consume(ctx, func(ctx context.Context, _ []byte) error {
				if !first {
					<-ctx.Done()
					return ctx.Err()
				}
				first = false
				<-tried
				return errors.New("cannot be delivered")
			})
			assert.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		waits := who(t, asks, "/mail")
		require.Len(t, waits.Waiting, 1)
		assert.WithinDuration(t, put, waits.Waiting[0].Since, time.Millisecond)
		locks := who(t, asks, "/mail-locks")
		assert.Equal(t, inspect.Queue, locks.Kind)
		assert.Equal(t, names(waits.Waiting), names(locks.Waiting))
		assert.Equal(t, session(t, consumer), locks.Waiting[0].Session)
		assert.WithinDuration(t, taken, locks.Waiting[0].Since, time.Millisecond)

		time.Sleep(time.Hour)
		failed := time.Now()
		close(tried)
		synctest.Wait()
		time.Sleep(time.Minute) // between two tries
		waits = who(t, asks, "/mail")
		require.Len(t, waits.Waiting, 1)
		assert.WithinDuration(t, failed, waits.Waiting[0].Since, time.Millisecond)
		assert.Equal(t, "letter", string(waits.Waiting[0].Data[9:15]))
		assert.Equal(t, names(waits.Waiting), names(who(t, asks, "/mail-locks").Waiting))
		assert.Empty(t, waits.Notes)
	})
}

// The notes report why a line does not move.
func TestWhoSaysWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		stand(t, c, "/a", numbered(java1+"lock-", 5), "0", "note")
		line := who(t, c, "/a")
		assert.Equal(t, []string{"0", "note"}, line.Foreign)
		assert.Equal(t, 2, line.ForeignCount)
		assert.Equal(t, []string{"a foreign child sorts before the holder: Java contenders wait for it; delete it"},
			line.Notes)

		stand(t, c, "/b", numbered(java1+"lock-", 1<<30), numbered(java2+"lock-", 1<<30+1), numbered(kaz1+"__lock__", 2))
		line = who(t, c, "/b")
		require.Len(t, line.Notes, 2)
		assert.Contains(t, line.Notes[0], "1 foreign child is a contender of another kind")
		assert.Contains(t, line.Notes[1], "1073741826 of 2147483647 sequence numbers are used up")

		require.NoError(t, s.Create("/c/lock-0000000000", nil))
		line = who(t, c, "/c")
		assert.Zero(t, line.Holders[0].Session)
		assert.Equal(t, []string{"the node lock-0000000000 is not ephemeral: it stays until it is deleted"},
			line.Notes)

		require.NoError(t, s.Create("/d/ready", nil))
		assert.Contains(t, who(t, c, "/d").Notes[0], "the barrier is open, and has no members")
	})
}

// A node that cannot be read does not hide other nodes.
func TestWhoMayNotReadEverything(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		synctest.Test(t, func(t *testing.T) { mayNotReadEverything(t, zktest.RunT(t, zktest.Config{Profile: profile})) })
	}
}

func mayNotReadEverything(t *testing.T, s *zktest.Server) {
	private := newClient(t, s, framework.WithAuth("digest", []byte("a:a")),
		framework.WithDefaultACL(framework.CreatorACL()...))
	asks := newClient(t, s)
	require.NoError(t, s.Create("/locks", nil))
	stand(t, private, "/locks", numbered(java1+"lock-", 0))
	stand(t, asks, "/locks", numbered(java2+"lock-", 1))
	line := who(t, asks, "/locks")
	require.Len(t, line.Holders, 1)
	assert.ErrorIs(t, line.Holders[0].Err, framework.ErrNoAuth)
	stat, err := asks.CheckExists().ForPath(background, line.Holders[0].Path)
	if err == nil { // before 3.8.4 and 3.9.2 exists needs no permission
		assert.Equal(t, session(t, private), stat.EphemeralOwner)
		assert.Equal(t, session(t, private), line.Holders[0].Session)
	} else {
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		assert.Zero(t, line.Holders[0].Session)
	}
	assert.NoError(t, line.Waiting[0].Err)
	assert.Contains(t, line.String(), "no permission")

	_, err = private.Create().ForPath(background, "/secret", nil)
	require.NoError(t, err)
	_, err = inspect.Who(background, asks, "/secret")
	assert.ErrorIs(t, err, framework.ErrNoAuth)
	assert.ErrorContains(t, err, `inspect: who "/secret": `)
}

// Bytes of any kind, and as many as a node can have.
func TestWhoReadsHostileData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		large := bytes.Repeat([]byte{0xff}, 1_000_000)
		for i, data := range [][]byte{large, []byte("\x1b[2J<script>\n\xff\xfe"), {}, large, bytes.Repeat([]byte("x"), 1024)} {
			require.NoError(t, s.Create("/locks/"+numbered("lock-", i), data))
		}
		require.NoError(t, s.Create("/locks/\u202eevil ", nil))
		line := who(t, c, "/locks")
		require.Len(t, line.Holders, 1)
		require.Len(t, line.Waiting, 4)
		assert.Nil(t, line.Holders[0].Data)
		assert.Equal(t, 1_000_000, line.Holders[0].DataLength)
		assert.Equal(t, "\x1b[2J<script>\n\xff\xfe", string(line.Waiting[0].Data))
		assert.Len(t, line.Waiting[3].Data, 1024)
		text := line.String()
		assert.Contains(t, text, `\x1b[2J<script>\n\xff\xfe`)
		assert.Contains(t, text, "1000000 bytes of data")
		assert.NotContains(t, text, "\x1b")
		assert.NotContains(t, text, "\u202e")
		assert.Nil(t, who(t, c, "/locks", inspect.WithMostData(10)).Waiting[0].Data, "twelve bytes")

		require.NoError(t, s.Create("/number", large))
		assert.Equal(t, 1_000_000, who(t, c, "/number").DataLength)
	})
}

// A long line is read up to a limit, and the rest is counted.
func TestWhoIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for i := range 300 {
			require.NoError(t, s.Create("/locks/"+numbered("lock-", i), nil))
		}
		for i := range 100 {
			require.NoError(t, s.Create("/locks/"+numbered("x", i), nil))
		}
		s.ResetCounts()
		line := who(t, c, "/locks", inspect.WithMostNodes(50))
		assert.Len(t, line.Holders, 1)
		assert.Len(t, line.Waiting, 49)
		assert.Equal(t, 250, line.More)
		assert.Equal(t, 400, line.Children)
		assert.Len(t, line.Foreign, 20)
		assert.Equal(t, 100, line.ForeignCount)
		assert.Equal(t, map[string]int{"getChildren2": 1, "exists": 50}, requests(s))
		assert.Contains(t, line.String(), "and 250 more")
		line = who(t, c, "/locks")
		assert.Len(t, line.Waiting, 299)
		line = who(t, c, "/locks", inspect.WithMostNodes(0))
		assert.Equal(t, 300, line.More)
	})
}

// A holder that releases while its node is read is not reported, and neither is a line without a holder.
func TestWhoWhileTheLockChangesHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for i := range 5 {
			require.NoError(t, s.Create("/locks/"+numbered("lock-", i), nil))
		}
		hold := s.Inject(zktest.Fault{Session: session(t, c), Op: "exists", Action: zktest.Hold})
		done := make(chan inspect.Line)
		go func() {
			line, err := inspect.Who(background, c, "/locks")
			assert.NoError(t, err)
			done <- line
		}()
		<-hold.Struck()
		require.NoError(t, s.Delete("/locks/"+numbered("lock-", 0)))
		hold.Release()
		line := <-done
		assert.Equal(t, []string{numbered("lock-", 1)}, names(line.Holders))
		assert.Len(t, line.Waiting, 3)
	})
}

// After a lost connection the requests are retried by the policy; a call returns when its context ends.
func TestWhoWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for i := range 100 {
			require.NoError(t, s.Create("/locks/"+numbered("lock-", i), []byte("x")))
		}
		for _, op := range []string{"getChildren2", "exists", "getData"} {
			cut := s.Inject(zktest.Fault{Op: op, After: 3, Action: zktest.CutBefore, PathPrefix: "/locks"})
			if op == "getChildren2" {
				cut = s.Inject(zktest.Fault{Op: op, Action: zktest.CutBefore, PathPrefix: "/locks"})
			}
			assert.Len(t, who(t, c, "/locks").Waiting, 99, op)
			assert.Equal(t, 1, cut.Hits(), op)
		}
		s.Pause()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		began := time.Now()
		_, err := inspect.Who(ctx, c, "/locks")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		s.Resume()
	})
}

func TestArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for name, test := range map[string]struct {
			client *framework.Client
			path   string
			opt    inspect.Option
			err    error
		}{
			"a path":    {c, "locks", nil, framework.ErrInvalidPath},
			"no client": {nil, "/locks", nil, framework.ErrNoClient},
			"nodes":     {c, "/locks", inspect.WithMostNodes(-1), framework.ErrInvalidOption},
			"data":      {c, "/locks", inspect.WithMostData(65 << 10), framework.ErrInvalidOption},
			"depth":     {c, "/locks", inspect.WithMostDepth(-1), framework.ErrInvalidOption},
		} {
			_, err := inspect.Who(background, test.client, test.path, test.opt)
			assert.ErrorIs(t, err, test.err, name)
			_, err = inspect.Locks(background, test.client, test.path, test.opt)
			assert.ErrorIs(t, err, test.err, name)
			_, err = inspect.Why(background, test.client, test.path, test.opt)
			assert.ErrorIs(t, err, test.err, name)
		}
		var none context.Context
		_, err := inspect.Who(none, c, "/locks")
		assert.ErrorIs(t, err, framework.ErrNilContext)
		_, err = inspect.Doctor(background, nil)
		assert.ErrorIs(t, err, framework.ErrNoClient)
		_, err = inspect.Doctor(background, &framework.Client{})
		assert.True(t, errors.Is(err, framework.ErrNoClient), "%v", err)
	})
}
