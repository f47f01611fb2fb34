package recipes

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/queue"
)

// consumed has the items of a Go consumer, in order.
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

// Each kind of queue, put by either language and consumed by the other, with a lock path and without, in order.
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
			ctx := kit.Context(t) // one for each, since machines are busy
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
