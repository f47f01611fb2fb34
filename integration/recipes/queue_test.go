package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/retry"
)

// consumed is what a Go consumer has consumed, in order.
type consumed struct {
	mu    sync.Mutex
	items []string
}

func (c *consumed) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.items...)
}

// consume consumes until stop is called.
func consume(t *testing.T, q *queue.Queue) (c *consumed, stop func()) {
	c = &consumed{}
	ctx, cancel := context.WithCancel(kit.Context(t))
	done := make(chan error, 1)
	go func() {
		done <- q.Consume(ctx, func(_ context.Context, item []byte) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.items = append(c.items, string(item))
			return nil
		})
	}()
	return c, func() {
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	}
}

// Each kind of queue, put by either language and consumed by the other, with a lock path and without, in
// order.
func TestQueue(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "queue", kit.GoToJava, kit.JavaToGo)
	w := newWorld(t)
	ctx := kit.Context(t)
	past := time.Now().Add(-time.Hour)
	millis := func(n int) time.Time { return past.Add(time.Duration(n) * time.Millisecond) }
	for _, kind := range []struct {
		name  string
		order queue.Order
		about func(n int) (queue.PutOption, string)
		want  []string
	}{
		{"fifo", queue.FIFO, nil, []string{"5", "-1", "", "7", "-3"}},
		{"priority", queue.ByPriority, func(n int) (queue.PutOption, string) {
			return queue.Priority(int32(n)), strconv.Itoa(n)
		}, []string{"-3", "-1", "", "5", "7"}},
		{"delay", queue.ByDelay, func(n int) (queue.PutOption, string) {
			return queue.Due(millis(n)), strconv.FormatInt(millis(n).UnixMilli(), 10)
		}, []string{"-3", "-1", "", "5", "7"}},
		{"id", queue.ByID, func(n int) (queue.PutOption, string) {
			id := fmt.Sprintf("id %d", 9-n)
			return queue.ID(id), id
		}, []string{"5", "-1", "", "7", "-3"}},
	} {
		for _, lock := range []string{"", "/locks-of-" + kind.name} {
			ctx := kit.Context(t) // for each, since machines are busy
			path := "/queues/" + kind.name + lock
			opts := []queue.Option{queue.WithOrder(kind.order)}
			var lockPath []string
			if lock != "" {
				opts = append(opts, queue.WithLockPath(lock))
				lockPath = []string{lock}
			}
			ours := queue.New(w.client, path, opts...)
			theirs, err := w.peer.Queue(ctx, "producer "+path, kind.name, path)
			require.NoError(t, err)

			// From Java to Go.
			for _, n := range []int{5, -1, 0, 7, -3} {
				item, about := strconv.Itoa(n), []string(nil)
				if n == 0 {
					item = ""
				}
				if kind.about != nil {
					_, text := kind.about(n)
					about = []string{text}
				}
				require.NoError(t, theirs.Put(ctx, item, about...))
			}
			if kind.order == queue.FIFO {
				require.NoError(t, theirs.PutMany(ctx, "a", "b"))
				kind.want = []string{"5", "-1", "", "7", "-3", "a", "b"}
			}
			if kind.order == queue.ByID {
				require.NoError(t, theirs.Put(ctx, "to be removed", "x"))
				removed, err := ours.Remove(ctx, "x")
				require.NoError(t, err)
				require.Equal(t, 1, removed)
			}
			got, stop := consume(t, ours)
			kit.Soon(t, "all items here: "+path, func() bool { return len(got.all()) == len(kind.want) })
			stop()
			require.Equal(t, kind.want, got.all(), path)

			// From Go to Java.
			for _, n := range []int{5, -1, 0, 7, -3} {
				item, about := strconv.Itoa(n), []queue.PutOption(nil)
				if n == 0 {
					item = ""
				}
				if kind.about != nil {
					option, _ := kind.about(n)
					about = append(about, option)
				}
				require.NoError(t, ours.Put(ctx, []byte(item), about...))
			}
			if kind.order == queue.FIFO {
				require.NoError(t, ours.PutMany(ctx, [][]byte{[]byte("a"), []byte("b")}))
			}
			if kind.order == queue.ByID {
				require.NoError(t, ours.Put(ctx, []byte("to be removed"), queue.ID("x")))
				removed, err := theirs.Remove(ctx, "x")
				require.NoError(t, err)
				require.EqualValues(t, 1, removed)
			}
			consumer, err := w.peer.QueueConsumer(ctx, "consumer "+path, kind.name, path, lockPath...)
			require.NoError(t, err)
			kit.Soon(t, "all items there: "+path, func() bool { return len(consumer.Items()) == len(kind.want) })
			require.Equal(t, kind.want, consumer.Items(), path)
			require.NoError(t, consumer.Close(ctx))
			require.NoError(t, theirs.Close(ctx))
			w.count(t, path, 0)
		}
	}
	for _, path := range []string{"/simple/go", "/simple/java"} {
		simple := queue.NewSimple(w.client, path)
		require.NoError(t, simple.Offer(ctx, []byte("ours")))
		require.NoError(t, w.peer.SimpleOffer(ctx, path, "theirs"))
		if path == "/simple/java" {
			item, err := simple.Poll(ctx)
			require.NoError(t, err)
			require.Equal(t, "ours", string(item))
			require.NoError(t, simple.Offer(ctx, []byte("more")))
			item, err = simple.Take(ctx)
			require.NoError(t, err)
			require.Equal(t, "theirs", string(item))
			continue
		}
		for _, want := range []string{"ours", "theirs"} {
			item, err := w.peer.SimplePoll(ctx, path)
			require.NoError(t, err)
			require.Equal(t, want, item)
		}
		_, err := w.peer.SimplePoll(ctx, path)
		require.ErrorIs(t, err, javapeer.ErrTimeout)
	}
}

// Producers and consumers of both languages share a queue, while the connections of ours are cut: every item
// is consumed, and without the end of a session none twice.
func TestQueueOfBothLanguages(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "queue", kit.Mixed)
	const producers, consumers, each = 3, 2, 50
	for _, lock := range []string{"", "/shared/locks"} {
		t.Run(fmt.Sprintf("lock path %q", lock), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ctx := long(t)
			const path = "/shared/queue"
			cable := proxy.New(t, w.node.ConnectString())
			policy := framework.WithRetry(retry.ExponentialBackoff{Base: 5 * time.Millisecond, Retries: 100})
			var opts []queue.Option
			var lockPath []string
			if lock != "" {
				opts, lockPath = []queue.Option{queue.WithLockPath(lock)}, []string{lock}
			}
			var progress atomic.Int64
			var mu sync.Mutex
			got := map[string]int{}
			consuming, stop := context.WithCancel(ctx)
			defer stop()
			var running sync.WaitGroup
			var theirs []*javapeer.Queue
			for i := range consumers {
				consumer, err := w.peer.QueueConsumer(ctx, fmt.Sprint("consumer ", i), "fifo", path, lockPath...)
				require.NoError(t, err)
				theirs = append(theirs, consumer)
				client, _ := kit.Connected(t, cable.Addr(), framework.WithSessionTimeout(10*time.Second), policy)
				ours := queue.New(client, path, append(opts, queue.OnFailure(func(err *queue.ItemError) queue.Fate {
					if consuming.Err() == nil { // at the end it may be on its way to one that Java has taken
						t.Error(err)
					}
					return queue.Requeue
				}))...)
				running.Go(func() {
					err := ours.Consume(consuming, func(_ context.Context, item []byte) error {
						progress.Add(1)
						mu.Lock()
						defer mu.Unlock()
						got[string(item)]++
						return nil
					})
					assert.ErrorIs(t, err, context.Canceled)
				})
			}
			var producing sync.WaitGroup
			for i := range producers {
				client, _ := kit.Connected(t, cable.Addr(), framework.WithSessionTimeout(10*time.Second), policy)
				ours := queue.New(client, path)
				producing.Go(func() {
					for n := range each {
						if !assert.NoError(t, ours.Put(ctx, fmt.Appendf(nil, "go %d %d", i, n))) {
							return
						}
						progress.Add(1)
					}
				})
				producing.Go(func() {
					assert.NoError(t, theirs[i%consumers].PutNumbered(ctx, fmt.Sprintf("java %d ", i), each))
				})
			}
			// all is what was consumed by both.
			all := func() map[string]int {
				mu.Lock()
				defer mu.Unlock()
				sum := map[string]int{}
				for item, n := range got {
					sum[item] += n
				}
				for _, consumer := range theirs {
					for _, item := range consumer.Items() {
						sum[item]++
					}
				}
				return sum
			}
			const want = 2 * producers * each
			done := make(chan struct{})
			go func() {
				defer close(done)
				producing.Wait()
				for len(all()) < want && ctx.Err() == nil {
					time.Sleep(20 * time.Millisecond)
				}
			}()
			cuts := cutWhile(cable, done, &progress)
			if ctx.Err() != nil {
				t.Error(errors.Join(ctx.Err(), fmt.Errorf("%d of %d items", len(all()), want)))
			}
			stop()
			running.Wait()
			for _, consumer := range theirs {
				require.NoError(t, consumer.Close(ctx))
			}
			sum := all()
			assert.Len(t, sum, want)
			for item, n := range sum {
				assert.Equal(t, 1, n, item)
			}
			mu.Lock()
			defer mu.Unlock()
			kit.Figure(t, "lock path %q: %d items of Go's and Java's producers, %d of them consumed by Go, under %d cuts "+
				"of Go's connections: each was consumed once", lock, len(sum), len(got), cuts)
		})
	}
}
