package curatorsuite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/recipes/queue"
)

// consume consumes until the test ends, and returns a channel with the items.
func consume(t *testing.T, q *queue.Queue) <-chan string {
	t.Helper()
	return heard(t, func(ctx context.Context, hear func(string)) {
		_ = q.Consume(ctx, func(_ context.Context, item []byte) error {
			hear(string(item))
			return nil
		})
	})
}

// put puts items, one after the other.
func put(t *testing.T, q *queue.Queue, items ...string) {
	t.Helper()
	for _, item := range items {
		require.NoError(t, q.Put(kit.Context(t), []byte(item)))
	}
}

// expect waits for items in order.
func expect(t *testing.T, said <-chan string, want ...string) {
	t.Helper()
	for _, item := range want {
		require.Equal(t, item, kit.Receive(t, item, said))
	}
}

func (w *world) items(t *testing.T, path string) []string {
	t.Helper()
	names, err := w.client.GetChildren().ForPath(kit.Context(t), path)
	require.NoError(t, err)
	slices.Sort(names)
	return names
}

func TestQueue(t *testing.T) {
	behave(t, map[string]func(t *testing.T, w *world){
		"items put before and after the consumer's start are handled in order": func(t *testing.T, w *world) {
			q := queue.New(w.client, "/queue/simple")
			put(t, q, "1", "2")
			said := consume(t, q)
			expect(t, said, "1", "2")
			put(t, q, "3")
			expect(t, said, "3")
			require.Empty(t, w.items(t, "/queue/simple"))
		},
		"several items put at once are handled in order": func(t *testing.T, w *world) {
			q := queue.New(w.client, "/queue/many")
			require.NoError(t, q.PutMany(kit.Context(t), [][]byte{[]byte("a"), []byte("b"), []byte("c")}))
			require.Len(t, w.items(t, "/queue/many"), 1)
			expect(t, consume(t, q), "a", "b", "c")
		},
		"several producers, one consumer": func(t *testing.T, w *world) {
			var putting sync.WaitGroup
			for i := range 2 {
				client, _ := w.connect(t)
				putting.Go(func() {
					q := queue.New(client, "/queue/producers")
					for n := range 20 {
						assert.NoError(t, q.Put(kit.Context(t), fmt.Appendf(nil, "%d %d", i, n)))
					}
				})
			}
			said := consume(t, queue.New(w.client, "/queue/producers"))
			next := map[string]int{}
			for range 40 {
				producer, number, _ := strings.Cut(kit.Receive(t, "an item", said), " ")
				require.Equal(t, strconv.Itoa(next[producer]), number, "of producer %s", producer)
				next[producer]++
			}
			putting.Wait()
			silent(t, said)
		},
		"several consumers handle no item twice": func(t *testing.T, w *world) {
			for _, lock := range []string{"", "/queue/shared-locks"} {
				path := "/queue/shared" + lock
				var opts []queue.Option
				if lock != "" {
					opts = append(opts, queue.WithLockPath(lock))
				}
				var handled sync.Map
				var n atomic.Int64
				consuming, stop := context.WithCancel(kit.Context(t))
				var working sync.WaitGroup
				for range 3 {
					client, _ := w.connect(t)
					q := queue.New(client, path, opts...)
					working.Go(func() {
						_ = q.Consume(consuming, func(_ context.Context, item []byte) error {
							_, twice := handled.LoadOrStore(string(item), true)
							assert.False(t, twice, string(item))
							n.Add(1)
							return nil
						})
					})
				}
				q := queue.New(w.client, path)
				for i := range 60 {
					put(t, q, fmt.Sprint(i))
				}
				kit.Soon(t, "all are handled", func() bool { return n.Load() == 60 })
				stop()
				working.Wait()
			}
		},
		"with a lock path another consumer handles the item of one that dies": func(t *testing.T, w *world) {
			dying, way := w.connect(t)
			lock := queue.WithLockPath("/queue/crash-locks")
			has := make(chan context.Context, 1)
			heard(t, func(ctx context.Context, _ func(string)) {
				_ = queue.New(dying, "/queue/crash", lock).Consume(ctx, func(ctx context.Context, _ []byte) error {
					select {
					case has <- ctx:
					default:
					}
					<-ctx.Done()
					return ctx.Err()
				})
			})
			put(t, queue.New(w.client, "/queue/crash"), "1")
			ctx := kit.Receive(t, "the item", has)
			said := consume(t, queue.New(w.client, "/queue/crash", lock))
			silent(t, said)
			way.Hang(proxy.Both)
			expect(t, said, "1")
			require.Error(t, ctx.Err(), "the one that is cut off knows it before")
		},
		"after a handler's error the item is put back, or deleted": func(t *testing.T, w *world) {
			for fate, want := range map[queue.Fate]int{queue.Requeue: 3, queue.Delete: 1} {
				path := fmt.Sprint("/queue/fails-", fate)
				var tries atomic.Int64
				q := queue.New(w.client, path, queue.WithLockPath(path+"-locks"),
					queue.OnFailure(func(*queue.ItemError) queue.Fate { return fate }))
				said := heard(t, func(ctx context.Context, hear func(string)) {
					_ = q.Consume(ctx, func(_ context.Context, item []byte) error {
						if string(item) == "bad" && tries.Add(1) < 3 {
							return errors.New("bad")
						}
						hear(string(item))
						return nil
					})
				})
				put(t, q, "bad", "good")
				if fate == queue.Requeue {
					expect(t, said, "good", "bad")
				} else {
					expect(t, said, "good")
				}
				require.EqualValues(t, want, tries.Load())
			}
		},
		"an item that cannot be read does not stop the queue": func(t *testing.T, w *world) {
			q := queue.New(w.client, "/queue/corrupt")
			put(t, q, "1")
			_, err := w.client.Create().WithMode(framework.PersistentSequential).
				ForPath(kit.Context(t), "/queue/corrupt/queue-", []byte("?"))
			require.NoError(t, err)
			put(t, q, "2")
			expect(t, consume(t, q), "1", "2")
			require.Len(t, w.items(t, "/queue/corrupt"), 1) // Java deletes it
		},
		"a bound makes producers wait": func(t *testing.T, w *world) {
			q := queue.New(w.client, "/queue/bound", queue.WithBound(2))
			put(t, q, "1", "2")
			ctx, cancel := context.WithTimeout(kit.Context(t), 200*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, q.Put(ctx, []byte("3")), queue.ErrFull)
			said := consume(t, q)
			put(t, q, "3", "4", "5")
			expect(t, said, "1", "2", "3", "4", "5")
		},
	})
}

func TestOrderedQueues(t *testing.T) {
	behave(t, map[string]func(t *testing.T, w *world){
		"by priority, negative ones first": func(t *testing.T, w *world) {
			q := queue.New(w.client, "/ordered/priority", queue.WithOrder(queue.ByPriority))
			for _, n := range []int32{5, -20, 0, 1 << 30, -1, 5} {
				require.NoError(t, q.Put(kit.Context(t), fmt.Append(nil, n), queue.Priority(n)))
			}
			said := consume(t, q)
			expect(t, said, "-20", "-1", "0", "5", "5", fmt.Sprint(1<<30))
		},
		"items put during the handling of others have their place by priority": func(t *testing.T, w *world) {
			q := queue.New(w.client, "/ordered/late", queue.WithOrder(queue.ByPriority))
			turn := make(chan struct{})
			said := heard(t, func(ctx context.Context, hear func(string)) {
				_ = q.Consume(ctx, func(ctx context.Context, item []byte) error {
					hear(string(item))
					select {
					case <-turn:
					case <-ctx.Done():
					}
					return nil
				})
			})
			for _, n := range []int32{1, 10, 20} {
				require.NoError(t, q.Put(kit.Context(t), fmt.Append(nil, n), queue.Priority(n)))
			}
			first := kit.Receive(t, "the first", said)
			require.NoError(t, q.Put(kit.Context(t), []byte("0"), queue.Priority(0)))
			time.Sleep(2 * time.Second) // the consumer lists the items within that time, and does not report it
			close(turn)
			require.Equal(t, "1", first)
			expect(t, said, "0", "10", "20")
		},
		"by time: no item before it is due; an item put late may be due first": func(t *testing.T, w *world) {
			q := queue.New(w.client, "/ordered/delay", queue.WithOrder(queue.ByDelay))
			began := time.Now()
			due := func(item string, after time.Duration) {
				require.NoError(t, q.Put(kit.Context(t), []byte(item), queue.Due(began.Add(after))))
			}
			due("last", 3*time.Second)
			said := consume(t, q)
			due("second", 2*time.Second)
			due("first", time.Second)
			require.NoError(t, q.Put(kit.Context(t), []byte("now")))
			expect(t, said, "now", "first")
			require.GreaterOrEqual(t, time.Since(began), time.Second)
			expect(t, said, "second", "last")
			require.GreaterOrEqual(t, time.Since(began), 3*time.Second)
		},
		"by id: items are removed; the others keep their order": func(t *testing.T, w *world) {
			q := queue.New(w.client, "/ordered/id", queue.WithOrder(queue.ByID))
			for i := range 6 {
				require.NoError(t, q.Put(kit.Context(t), fmt.Append(nil, i), queue.ID(fmt.Sprint("id/", i%3))))
			}
			removed, err := q.Remove(kit.Context(t), "id/1")
			require.NoError(t, err)
			require.Equal(t, 2, removed)
			removed, err = q.Remove(kit.Context(t), "id/1")
			require.NoError(t, err)
			require.Zero(t, removed)
			expect(t, consume(t, q), "0", "2", "3", "5")
		},
		"by id: an item in a handler cannot be removed": func(t *testing.T, w *world) {
			q := queue.New(w.client, "/ordered/held", queue.WithOrder(queue.ByID),
				queue.WithLockPath("/ordered/held-locks"))
			turn := make(chan struct{})
			said := heard(t, func(ctx context.Context, hear func(string)) {
				_ = q.Consume(ctx, func(ctx context.Context, item []byte) error {
					hear(string(item))
					select {
					case <-turn:
					case <-ctx.Done():
					}
					return nil
				})
			})
			require.NoError(t, q.Put(kit.Context(t), []byte("1"), queue.ID("x")))
			expect(t, said, "1")
			require.NoError(t, q.Put(kit.Context(t), []byte("2"), queue.ID("x")))
			removed, err := q.Remove(kit.Context(t), "x")
			require.NoError(t, err)
			require.Equal(t, 1, removed)
			close(turn)
			kit.Soon(t, "none is left", func() bool { return len(w.items(t, "/ordered/held")) == 0 })
			silent(t, said)
		},
	})
}

func TestSimpleQueue(t *testing.T) {
	behave(t, map[string]func(t *testing.T, w *world){
		"items are offered, read, taken": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			q := queue.NewSimple(w.client, "/simple/basic")
			_, err := q.Poll(ctx)
			require.ErrorIs(t, err, queue.ErrEmpty)
			_, err = q.Peek(ctx)
			require.ErrorIs(t, err, queue.ErrEmpty)
			for i := range 3 {
				require.NoError(t, q.Offer(ctx, fmt.Append(nil, i)))
			}
			for i := range 3 {
				item, err := q.Peek(ctx)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(i), string(item))
				item, err = q.Take(ctx)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(i), string(item))
			}
		},
		"Take waits for an item": func(t *testing.T, w *world) {
			q := queue.NewSimple(w.client, "/simple/wait")
			limited, cancel := context.WithTimeout(kit.Context(t), 100*time.Millisecond)
			defer cancel()
			_, err := q.Take(limited)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			taken := kit.Call(t, kit.Context(t), q.Take)
			other, _ := w.connect(t)
			require.NoError(t, queue.NewSimple(other, "/simple/wait").Offer(kit.Context(t), []byte("1")))
			require.Equal(t, "1", string(kit.Receive(t, "the item", taken)))
		},
		"Take waits also after the queue's node is deleted": func(t *testing.T, w *world) {
			q := queue.NewSimple(w.client, "/simple/reaped")
			taken := kit.Call(t, kit.Context(t), q.Take)
			kit.Soon(t, "it waits", func() bool { return kit.Watches(t, w.Node) > 0 })
			_ = w.client.Delete().Quietly().ForPath(kit.Context(t), "/simple/reaped")
			other, _ := w.connect(t)
			require.NoError(t, queue.NewSimple(other, "/simple/reaped").Offer(kit.Context(t), []byte("1")))
			require.Equal(t, "1", string(kit.Receive(t, "the item", taken)))
		},
	})
}
