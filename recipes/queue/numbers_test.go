package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// A restore puts items back under their names into a node whose numbers start at 0. A new item must come behind them.
func TestAPutComesBehindRestoredItems(t *testing.T) {
	kinds := map[string]struct {
		prefix string
		put    func(c *framework.Client) error
		order  queue.Order
	}{
		"fifo": {"queue-", func(c *framework.Client) error {
			return queue.New(c, path).Put(background, []byte("new"))
		}, queue.FIFO},
		"priority": {"queue-100000007", func(c *framework.Client) error {
			q := queue.New(c, path, queue.WithOrder(queue.ByPriority))
			return q.Put(background, []byte("new"), queue.Priority(7))
		}, queue.ByPriority},
		"id": {"queue-|x|", func(c *framework.Client) error {
			q := queue.New(c, path, queue.WithOrder(queue.ByID))
			return q.Put(background, []byte("new"), queue.ID("x"))
		}, queue.ByID},
		"delay": {"queue-|00000000|", func(c *framework.Client) error {
			return queue.New(c, path, queue.WithOrder(queue.ByDelay)).Put(background, []byte("new"))
		}, queue.ByDelay},
		"simple": {"qn-", func(c *framework.Client) error {
			return queue.NewSimple(c, path).Offer(background, []byte("new"))
		}, 0},
	}
	for name, kind := range kinds {
		for _, items := range [][2]int{{1, 2}, {14, 20}, {500, 501}, {1299, 1300}, {700, 1300}} {
			t.Run(fmt.Sprint(name, items), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					c := newClient(t, s)
					require.NoError(t, c.Ensure(background, path))
					last := ""
					for n := items[0]; n < items[1]; n++ {
						last = fmt.Sprintf("%s%010d", kind.prefix, n)
						_, err := c.Create().ForPath(background, path+"/"+last, []byte("old"))
						require.NoError(t, err)
					}
					require.NoError(t, kind.put(c))
					names, err := s.Children(path)
					require.NoError(t, err)
					require.Len(t, names, items[1]-items[0]+1)
					for _, name := range names {
						data, _, _ := s.Get(path + "/" + name)
						if strings.Contains(string(data), "new") {
							require.Greater(t, name, last)
							return
						}
					}
					t.Fatal("the new item is missing: ", names)
				})
			})
		}
	}
}

// The items are restored after a producer's first put: its next session's first put comes behind them.
func TestAPutOfALaterSessionComesBehindRestoredItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path)
		for _, number := range []string{"0000000005", "0000000015"} {
			put(t, q, "new")
			require.NoError(t, s.DeleteAll(path))
			require.NoError(t, s.Create(path+"/queue-"+number, nil))
			s.Expire(session(t, c))
			time.Sleep(5 * time.Second)
			put(t, q, "new")
			names, err := s.Children(path)
			require.NoError(t, err)
			require.Len(t, names, 2)
			require.Equal(t, "queue-"+number, slices.Min(names))
		}
	})
}

// A producer that may not list the items cannot find out their numbers: it puts nevertheless, from the first put on.
func TestAProducerWithoutRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path+"/queue-0000000000", nil))
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31 &^ 1, Scheme: "world", ID: "anyone"}))
		q := queue.New(newClient(t, s), path)
		for n := range 3 {
			put(t, q, "new")
			names, err := s.Children(path)
			require.NoError(t, err)
			require.Len(t, names, n+2)
		}
	})
}

// Behind an item with the largest number there is no number left for another.
func TestTheNumbersAreUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Delay(0, time.Second) // so that a Put that tries to use up 2^31 numbers fails soon
		c := newClient(t, s)
		require.NoError(t, s.Create(path, nil))
		require.NoError(t, s.Create(path+"/queue-2147483647", nil))
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		require.ErrorIs(t, queue.New(c, path).Put(ctx, nil), queue.ErrSequenceExhausted)
	})
}

// The number of a child that is no item does not count.
func TestTheNumberOfAForeignChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for _, dir := range []string{path, markPath, path + "/other-2147483647"} {
			require.NoError(t, s.Create(dir, nil))
		}
		synctest.Wait()
		s.ResetCounts()
		put(t, queue.New(c, path), "x")
		recipetest.Counts(t, s, "one item", map[string]int{"exists": 1, "getChildren2": 1, "create2": 1, "multi": 1})
	})
}

// The first put of a session reads the queue's node, and lists it only if there are items.
func TestRequestsOfTheFirstPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		for _, dir := range []string{path, markPath} {
			require.NoError(t, s.Create(dir, nil))
		}
		for items, want := range []map[string]int{
			{"exists": 1, "create2": 1, "multi": 1}, {"exists": 1, "getChildren2": 1, "create2": 1, "multi": 1},
		} {
			c := newClient(t, s)
			synctest.Wait()
			s.ResetCounts()
			put(t, queue.New(c, path), "x")
			recipetest.Counts(t, s, fmt.Sprint(items, " items"), want)
		}
	})
}

// The create of the queue's node can be retried: its lost reply leaves no doubt about the item.
func TestALostReplyToTheCreateOfTheQueuesNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		lost := s.Inject(zktest.Fault{Op: zktest.OpCreate2, PathPrefix: path, Action: zktest.LoseReply})
		require.NoError(t, queue.New(c, path).Put(background, []byte("x")))
		require.Equal(t, 1, lost.Hits())

		lost = s.Inject(zktest.Fault{Op: zktest.OpCreate2, PathPrefix: path + "2", Action: zktest.LoseReply, Times: -1})
		err := queue.New(c.UsingRetry(retry.RetryNTimes{}), path+"2").Put(background, []byte("x"))
		require.Positive(t, lost.Hits())
		require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
		require.ErrorIs(t, err, framework.ErrNotConnected)
	})
}

// One call has one retry budget: without a connection a put fails no later than a read.
func TestAPutWithoutAConnectionFailsAsSoonAsARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithConnectionTimeout(time.Second), framework.WithSessionTimeout(40*time.Second),
			framework.WithRetry(retry.RetryNTimes{Retries: 3, Sleep: time.Second})) // without random pauses
		q := queue.New(c, path)
		require.NoError(t, q.Put(background, []byte("x")))
		s.Stop()
		began := time.Now()
		_, err := c.GetData().ForPath(background, path)
		require.ErrorIs(t, err, framework.ErrNotConnected)
		read := time.Since(began)
		began = time.Now()
		err = q.Put(background, []byte("x"))
		require.ErrorIs(t, err, framework.ErrNotConnected)
		require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
		require.LessOrEqual(t, time.Since(began), read+time.Second, "a read took %v; its first try found the connection broken", read)
		require.NoError(t, s.Start())
	})
}

// When a handler panics, the lock of its item is deleted before the panic leaves Consume: the process may be about to end.
func TestAPanicGivesTheLockBackFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		require.NoError(t, q.Put(background, []byte("x")))
		func() {
			defer func() {
				require.NotNil(t, recover())
				names, err := s.Children(lockPath)
				require.NoError(t, err)
				require.Empty(t, names)
			}()
			_ = q.Consume(background, func(context.Context, []byte) error { panic("in a handler") })
		}()
	})
}

// A lock that is no ephemeral node stays for ever, and so does its item. That is logged once.
func TestAPersistentLockOfAnItemIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		require.NoError(t, q.Put(background, []byte("x")))
		require.NoError(t, c.Ensure(background, lockPath+"/queue-0000000000"))
		var h handled
		ctx, cancel := context.WithCancel(background)
		consumer := recipetest.Begin(t, func() (int, error) { return 0, q.Consume(ctx, h.handle) })
		time.Sleep(time.Minute)
		require.Equal(t, 1, strings.Count(log.String(), "not an ephemeral node"))
		require.Empty(t, h.all())
		require.NoError(t, s.Delete(lockPath+"/queue-0000000000"))
		time.Sleep(time.Second)
		require.Equal(t, []string{"x"}, h.all())
		cancel()
		consumer.End()
	})
}
