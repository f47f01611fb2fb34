package queue_test

import (
	"context"
	"errors"
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
	"github.com/go-curator/curator/zktest"
)

// Plain use: the order of the items, and that nothing is left.
func TestQueue(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, opts...)
		require.Equal(t, path, q.Path())
		var h handled
		for _, item := range numbered(5) {
			put(t, q, item)
		}
		stop := consuming(t, q, h.handle)
		require.Equal(t, numbered(5), h.wait(5))
		put(t, q, "later")
		require.NoError(t, q.PutMany(background, [][]byte{[]byte("a"), {}, []byte("c")}))
		require.NoError(t, q.PutMany(background, nil))
		require.Equal(t, append(numbered(5), "later", "a", "", "c"), h.wait(9))
		stop()
		tidy(t, s, c)
	})
}

// Bytes, names and modes are Curator's.
func TestLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		put(t, queue.New(c, path), "ab")
		require.NoError(t, queue.New(c, path).PutMany(background, [][]byte{[]byte("ab"), []byte("c")}))
		p := queue.New(c, path, queue.WithOrder(queue.ByPriority))
		put(t, p, "", queue.Priority(5))
		put(t, p, "", queue.Priority(-1))
		put(t, p, "")
		d := queue.New(c, path, queue.WithOrder(queue.ByDelay))
		put(t, d, "", queue.Due(time.UnixMilli(0x18BCFE56800)))
		put(t, d, "", queue.Due(time.UnixMilli(0x18BCFE56800).Add(time.Nanosecond)))
		put(t, d, "")
		put(t, queue.New(c, path, queue.WithOrder(queue.ByID)), "", queue.ID("my/id|x"))
		tree := s.Tree()
		for name, data := range map[string]string{
			"queue-0000000000":              "\x00\x01\x00\x01\x01\x00\x00\x00\x02ab\x02",
			"queue-0000000001":              "\x00\x01\x00\x01\x01\x00\x00\x00\x02ab\x01\x00\x00\x00\x01c\x02",
			"queue-1000000050000000002":     "\x00\x01\x00\x01\x01\x00\x00\x00\x00\x02",
			"queue-0FFFFFFFF0000000003":     "\x00\x01\x00\x01\x01\x00\x00\x00\x00\x02",
			"queue-1000000000000000004":     "\x00\x01\x00\x01\x01\x00\x00\x00\x00\x02",
			"queue-|18BCFE56800|0000000005": "\x00\x01\x00\x01\x01\x00\x00\x00\x00\x02",
			"queue-|18BCFE56801|0000000006": "\x00\x01\x00\x01\x01\x00\x00\x00\x00\x02",
			"queue-|00000000|0000000007":    "\x00\x01\x00\x01\x01\x00\x00\x00\x00\x02",
			"queue-|my_id_x|0000000008":     "\x00\x01\x00\x01\x01\x00\x00\x00\x00\x02",
			"../" + "mail-marks":            "",
		} {
			node, there := tree["/queues/mail/"+name]
			if name == "../mail-marks" {
				node, there = tree[markPath]
				require.Equal(t, zktest.Container, node.Mode)
			} else {
				require.Equal(t, zktest.Persistent, node.Mode)
			}
			require.True(t, there, name)
			require.Equal(t, data, string(node.Data), name)
		}
		require.Equal(t, zktest.Persistent, tree[path].Mode)
		require.Equal(t, zktest.Container, tree["/queues"].Mode)

		require.NoError(t, queue.NewSimple(c, "/simple").Offer(background, []byte("raw")))
		require.Equal(t, "raw", string(s.Tree()["/simple/qn-0000000000"].Data))
	})
}

func TestPriority(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, append(slices.Clip(opts), queue.WithOrder(queue.ByPriority))...)
		for _, p := range []int32{7, -3, 0, 7, 1 << 30, -1 << 30, -1} {
			put(t, q, fmt.Sprint(p), queue.Priority(p))
		}
		var h handled
		first := true
		stop := consuming(t, q, func(ctx context.Context, item []byte) error {
			if first {
				first = false
				put(t, q, "new", queue.Priority(-2)) // before the items that are there
			}
			return h.handle(ctx, item)
		})
		require.Equal(t, []string{"-1073741824", "-3", "new", "-1", "0", "7", "7", "1073741824"}, h.wait(8))
		stop()
		tidy(t, s, c)
	})
}

func TestDelay(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, append(slices.Clip(opts), queue.WithOrder(queue.ByDelay))...)
		began := time.Now()
		var h handled
		stop := consuming(t, q, func(ctx context.Context, item []byte) error {
			return h.handle(ctx, fmt.Appendf(nil, "%s %v", item, time.Since(began).Round(100*time.Millisecond)))
		})
		put(t, q, "d", queue.Due(began.Add(5*time.Hour)))
		put(t, q, "c", queue.Due(began.Add(3*time.Hour)))
		put(t, q, "a", queue.Due(began.Add(time.Second)))
		put(t, q, "b", queue.Due(began.Add(3*time.Second)))
		put(t, q, "0")
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"0 0s", "a 1s", "b 3s", "c 3h0m0s", "d 5h0m0s"}, h.all())
		stop()
		tidy(t, s, c)
	})
}

func TestID(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, append(slices.Clip(opts), queue.WithOrder(queue.ByID))...)
		removed, err := q.Remove(background, "x")
		require.NoError(t, err)
		require.Zero(t, removed, "no queue")
		for i, id := range []string{"z", "a/b", "z", "c"} {
			put(t, q, fmt.Sprint(i), queue.ID(id))
		}
		removed, err = q.Remove(background, "z")
		require.NoError(t, err)
		require.Equal(t, 2, removed)
		removed, err = q.Remove(background, "a/b")
		require.NoError(t, err)
		require.Equal(t, 1, removed)
		for i, id := range []string{"z", "y", "x"} {
			put(t, q, fmt.Sprint("more ", i), queue.ID(id))
		}
		var h handled
		stop := consuming(t, q, h.handle)
		require.Equal(t, []string{"3", "more 0", "more 1", "more 2"}, h.wait(4))
		stop()
		require.ErrorIs(t, q.Put(background, nil), framework.ErrBadArguments)
		require.ErrorIs(t, q.Put(background, nil, queue.ID("\x00")), framework.ErrBadArguments)
		tidy(t, s, c)
	})
}

// Remove takes no item that a consumer handles.
func TestRemoveSkipsTheItemThatAConsumerHandles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path, queue.WithOrder(queue.ByID), queue.WithLockPath(lockPath))
		put(t, q, "handled", queue.ID("x"))
		put(t, q, "removed", queue.ID("x"))
		var h handled
		stop := consuming(t, q, func(ctx context.Context, item []byte) error {
			time.Sleep(time.Minute)
			return h.handle(ctx, item)
		})
		time.Sleep(time.Second)
		removed, err := q.Remove(background, "x")
		require.NoError(t, err)
		require.Equal(t, 1, removed)
		require.True(t, s.Exists(path+"/queue-|x|0000000000"))
		time.Sleep(5 * time.Minute)
		require.Equal(t, []string{"handled"}, h.all())
		stop()
		tidy(t, s, c)
	})
}

// A consumer that has lost a race for an item takes items out of order, but only until it has handled one.
func TestTheOrderAfterALostRace(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, opts...)
		put(t, q, "lost")
		reading := s.Inject(zktest.Fault{Op: "getData", PathPrefix: path + "/queue-", Action: zktest.Hold})
		var h handled
		stop := consuming(t, q, func(ctx context.Context, item []byte) error {
			if string(item) == "won" {
				for _, next := range numbered(40) {
					put(t, q, next)
				}
			}
			return h.handle(ctx, item)
		})
		<-reading.Struck()
		require.NoError(t, s.Delete(path+"/queue-0000000000"))
		reading.Release()
		synctest.Wait()
		put(t, q, "won")
		require.Equal(t, append([]string{"won"}, numbered(40)...), h.wait(41))
		stop()
		tidy(t, s, c)
	})
}

// A consumer does not try items that others have locked, and waiting at an empty queue costs one list.
func TestRequestsOfAConsumerThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		q := queue.New(newClient(t, s), path, queue.WithLockPath(lockPath))
		other := queue.New(newClient(t, s), path, queue.WithLockPath(lockPath))
		require.NoError(t, s.Create(path, nil))
		var h handled
		begin := func(q *queue.Queue) (stop func()) {
			synctest.Wait()
			s.ResetCounts()
			return consuming(t, q, func(ctx context.Context, item []byte) error {
				time.Sleep(time.Second)
				return h.handle(ctx, item)
			})
		}
		stop := begin(q)
		recipetest.Counts(t, s, "an empty queue", map[string]int{"getChildren2": 1})
		put(t, q, "a")
		synctest.Wait()
		stopOther := begin(other)
		recipetest.Counts(t, s, "a locked item", map[string]int{"getChildren2": 2, "exists": 1})
		require.Equal(t, []string{"a"}, h.wait(1))
		stop()
		stopOther()
	})
}

// A single fast consumer reads several items in one request; a slow one reads one at a time.
func TestItemsAreReadAhead(t *testing.T) {
	for _, tc := range []struct {
		profile    zktest.Profile
		handling   time.Duration
		many, each int
	}{
		{zktest.V39, 0, 3, 0},
		{zktest.V39, 20 * time.Millisecond, 1, 16}, // at first it is taken for a fast one
		{zktest.V35, 0, 0, 24},
		{zktest.V37, 0, 1, 24 + 1}, // a proxy breaks the connection at each multiRead; the client reads once more after that
	} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t, zktest.Config{Profile: tc.profile})
			q := queue.New(newClient(t, s), path)
			for _, item := range numbered(24) {
				put(t, q, item)
			}
			time.Sleep(time.Second)
			if tc.profile == zktest.V37 {
				s.Inject(zktest.Fault{Op: "multiRead", Action: zktest.CutBefore, Times: -1})
			}
			s.ResetCounts()
			var h handled
			stop := consuming(t, q, func(ctx context.Context, item []byte) error {
				time.Sleep(tc.handling)
				return h.handle(ctx, item)
			})
			require.Equal(t, numbered(24), h.wait(24))
			counts := s.Counts()
			require.Equal(t, []int{tc.many, tc.each, 24}, []int{counts["multiRead"], counts["getData"], counts["multi"]})
			stop()
		})
	}
}

// A request for several items fails: the consumer reads one at a time, until its next session.
func TestReadingAheadIsTriedInEachSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, q := newClient(t, s), queue.New(newClient(t, s), path)
		s.Inject(zktest.Fault{Op: "multiRead", Session: session(t, c), Action: zktest.CutBefore})
		var h handled
		stop := consuming(t, queue.New(c, path), func(ctx context.Context, item []byte) error {
			if string(item) == "item 0" {
				time.Sleep(time.Second) // so that the others are in the queue
			}
			return h.handle(ctx, item)
		})
		for round, want := range []int{1, 0, 3, 3} {
			if round == 2 {
				s.Expire(session(t, c))
				time.Sleep(5 * time.Second)
			}
			s.ResetCounts()
			for _, item := range numbered(24) {
				put(t, q, item)
				synctest.Wait()
			}
			require.Len(t, h.wait(24*(round+1)), 24*(round+1))
			require.Equal(t, want, s.Counts()["multiRead"], "round %d", round)
		}
		stop()
	})
}

// An item is changed, taken by another client or, a second later, replaced after it was read ahead: the handler gets the data
// that are taken off.
func TestAnItemChangesAfterItWasReadAhead(t *testing.T) {
	for _, tc := range []struct {
		change func(s *zktest.Server, other []byte) error
		want   []string
	}{
		{func(s *zktest.Server, other []byte) error { return s.Set(path+"/queue-0000000001", other) },
			[]string{"item 0", "item 2", "item 2"}},
		{func(s *zktest.Server, _ []byte) error { return s.Delete(path + "/queue-0000000001") },
			[]string{"item 0", "item 2"}},
		{func(s *zktest.Server, other []byte) error { // as a restore does
			time.Sleep(time.Second)
			if err := s.Delete(path + "/queue-0000000001"); err != nil {
				return err
			}
			return s.Create(path+"/queue-0000000001", other)
		}, []string{"item 0", "item 2", "item 2"}},
		{func(s *zktest.Server, _ []byte) error { // the item after the next
			time.Sleep(time.Second)
			other, _, err := s.Get(path + "/queue-0000000001")
			if err = errors.Join(err, s.Delete(path+"/queue-0000000002")); err != nil {
				return err
			}
			return s.Create(path+"/queue-0000000002", other)
		}, []string{"item 0", "item 1", "item 1"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			q := queue.New(newClient(t, s), path)
			for _, item := range numbered(3) {
				put(t, q, item)
			}
			var h handled
			stop := consuming(t, q, func(ctx context.Context, item []byte) error {
				if string(item) == "item 0" {
					other, _, err := s.Get(path + "/queue-0000000002")
					require.NoError(t, err)
					require.NoError(t, tc.change(s, other))
				}
				return h.handle(ctx, item)
			})
			time.Sleep(time.Minute)
			require.Equal(t, tc.want, h.all())
			stop()
		})
	}
}

// Consumers of one process and of several share the items: each item is handled once, and each consumer gets some.
func TestConsumersShare(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		s.Delay(0, time.Millisecond)
		var clients []*framework.Client
		var h handled
		var stops []func()
		shares := make([]int, 6)
		for i := range 3 {
			c := newClient(t, s)
			clients = append(clients, c)
			q := queue.New(c, path, opts...)
			for j := range 2 {
				stops = append(stops, consuming(t, q, func(ctx context.Context, item []byte) error {
					time.Sleep(10 * time.Millisecond)
					shares[2*i+j]++
					return h.handle(ctx, item)
				}))
			}
		}
		q := queue.New(clients[0], path, opts...)
		var want []string
		for _, item := range numbered(120) {
			put(t, q, item)
			want = append(want, item)
		}
		got := h.wait(120)
		slices.Sort(got)
		slices.Sort(want)
		require.Equal(t, want, got)
		for _, stop := range stops {
			stop()
		}
		for _, share := range shares {
			require.Greater(t, share, 3, "%v", shares)
		}
		tidy(t, s, clients...)
	})
}

// Put waits while the queue is full.
func TestBound(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, append(slices.Clip(opts), queue.WithBound(2))...)
		put(t, q, "a")
		put(t, q, "b")
		ctx, cancel := context.WithTimeout(background, time.Second)
		err := q.Put(ctx, []byte("c"))
		cancel()
		require.ErrorIs(t, err, queue.ErrFull)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
		synctest.Wait()
		require.Empty(t, s.Watches())
		waiting := recipetest.Begin(t, func() (int, error) { return 0, q.Put(background, []byte("d")) }).Waits()
		var h handled
		stop := consuming(t, q, h.handle)
		require.Equal(t, []string{"a", "b", "d"}, h.wait(3))
		waiting.OK()
		stop()
		tidy(t, s, c)
	})
}

// Invalid arguments are reported, and no request is sent.
func TestArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		all := func(q *queue.Queue) []error {
			_, err := q.Remove(background, "x")
			return []error{q.Put(background, nil), q.PutMany(background, [][]byte{nil}), err,
				q.Consume(background, func(context.Context, []byte) error { return nil })}
		}
		for want, qs := range map[error][]*queue.Queue{
			framework.ErrNoClient:    {queue.New(nil, path), {}},
			framework.ErrInvalidPath: {queue.New(c, ""), queue.New(c, "/"), queue.New(c.UsingNamespace("n"), "/")},
			framework.ErrInvalidOption: {queue.New(c, path, nil), queue.New(c, path, queue.WithBound(0)),
				queue.New(c, path, queue.WithOrder(9)), queue.New(c, path, queue.OnFailure(nil)),
				queue.New(c, path, queue.WithLockPath(path))},
		} {
			for _, q := range qs {
				for _, err := range all(q) {
					require.ErrorIs(t, err, want)
				}
			}
		}
		q := queue.New(c, path)
		require.ErrorIs(t, q.Put(background, nil, nil), framework.ErrBadArguments)
		require.ErrorIs(t, q.Put(background, nil, queue.Priority(1)), framework.ErrBadArguments)
		require.ErrorIs(t, q.Consume(background, nil), framework.ErrBadArguments)
		var none context.Context
		require.ErrorIs(t, q.Put(none, nil), framework.ErrNilContext)
		_, err := q.Remove(background, "x")
		require.ErrorIs(t, err, framework.ErrBadArguments)
		require.False(t, s.Exists("/queues"))
		put(t, queue.New(c, path, queue.WithOrder(queue.FIFO), queue.WithBound(1)), "a")
		require.NoError(t, c.Close())
		require.ErrorIs(t, q.Put(background, nil), framework.ErrClosed)
		require.ErrorIs(t, q.Consume(background, func(context.Context, []byte) error { return nil }),
			framework.ErrClosed)
	})
}

// A queue of plain bytes.
func TestSimple(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.NewSimple(c, path)
		_, err := q.Poll(background)
		require.ErrorIs(t, err, queue.ErrEmpty)
		require.NoError(t, q.Offer(background, []byte("a")))
		require.NoError(t, q.Offer(background, nil))
		require.NoError(t, s.Create(path+"/other", nil))
		for range 2 {
			item, err := q.Peek(background)
			require.NoError(t, err)
			require.Equal(t, "a", string(item))
		}
		for _, want := range []string{"a", ""} {
			item, err := q.Poll(background)
			require.NoError(t, err)
			require.Equal(t, want, string(item))
		}
		_, err = q.Peek(background)
		require.ErrorIs(t, err, queue.ErrEmpty)
		waiting := recipetest.Begin(t, func() ([]byte, error) { return q.Take(background) }).Waits()
		require.NoError(t, q.Offer(background, []byte("b")))
		require.Equal(t, "b", string(waiting.OK()))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		_, err = q.Take(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, s.Delete(path+"/other"))
		tidy(t, s, c)
	})
}

// The consumer uses a list until all its items are taken, even if another consumer was faster with some of them.
func TestSimpleListsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q, other := queue.NewSimple(c, path), queue.NewSimple(newClient(t, s), path)
		poll := func(q *queue.Simple, want string) {
			t.Helper()
			item, err := q.Poll(background)
			require.NoError(t, err)
			require.Equal(t, want, string(item))
		}
		for i := range 7 {
			require.NoError(t, q.Offer(background, []byte{'0' + byte(i)}))
		}
		poll(q, "0")
		time.Sleep(time.Second) // the clients have read what they need
		s.ResetCounts()
		poll(q, "1")
		poll(q, "2")
		require.NoError(t, q.Offer(background, []byte("7")))
		poll(q, "3")
		require.Equal(t, map[string]int{"getData": 3, "multi": 4}, s.Counts())
		poll(other, "4")
		s.ResetCounts()
		poll(q, "5")
		require.Equal(t, map[string]int{"getData": 2, "multi": 1}, s.Counts())

		// An item whose data change during the take is still the first.
		hold := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		changed := recipetest.Begin(t, func() ([]byte, error) { return q.Poll(background) }).Waits()
		require.NoError(t, s.Set(path+"/qn-0000000006", []byte("six")))
		hold.Release()
		require.Equal(t, "six", string(changed.OK()))
		poll(q, "7")
		_, err := q.Poll(background)
		require.ErrorIs(t, err, queue.ErrEmpty)

		// The queue is deleted and created again, and its numbers start again.
		for _, item := range []string{"old", "older", "older", "older"} {
			require.NoError(t, q.Offer(background, []byte(item)))
		}
		poll(q, "old")
		for name := range s.Tree() {
			if strings.HasPrefix(name, path+"/") {
				require.NoError(t, s.Delete(name))
			}
		}
		require.NoError(t, s.Delete(path))
		time.Sleep(time.Minute)
		fresh := queue.NewSimple(newClient(t, s), path)
		for i := range 20 {
			require.NoError(t, fresh.Offer(background, fmt.Append(nil, i)))
		}
		for i := range 20 {
			poll(q, fmt.Sprint(i))
		}
	})
}

// If a call ends without the item, the item stays the first. Concurrent calls compete for the first item, and none passes it.
func TestSimpleItemsOfCallsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		q := queue.NewSimple(newClient(t, s), path)
		for i := range 3 {
			require.NoError(t, q.Offer(background, []byte{'0' + byte(i)}))
		}
		read := s.Inject(zktest.Fault{Op: "getData", Action: zktest.Hold})
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		first := recipetest.Begin(t, func() ([]byte, error) { return q.Poll(ctx) }).Waits()
		cancel()
		<-first.Done
		require.ErrorIs(t, first.Err, context.Canceled)
		read.Release()
		item, err := q.Poll(background)
		require.NoError(t, err)
		require.Equal(t, "0", string(item))

		deletion := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		var calls []*recipetest.Call[[]byte]
		for range 3 {
			calls = append(calls, recipetest.Begin(t, func() ([]byte, error) { return q.Take(background) }).Waits())
		}
		deletion.Release()
		var got []string
		for range 2 {
			synctest.Wait()
			for i, call := range calls {
				if !call.Pending() {
					got = append(got, string(call.OK()))
					calls = slices.Delete(calls, i, i+1)
					break
				}
			}
		}
		require.ElementsMatch(t, []string{"1", "2"}, got)
		calls[0].Waits()
		require.NoError(t, q.Offer(background, []byte("3")))
		require.Equal(t, "3", string(calls[0].OK()))
	})
}
