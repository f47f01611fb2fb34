package curatorsuite

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/counter"
)

func TestAtomicLong(t *testing.T) {
	behave(t, map[string]func(t *testing.T, w *world){
		"a value of the wrong length is an error": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			_, err := w.client.Create().CreatingParentsIfNeeded().ForPath(ctx, "/long/corrupted", []byte("foo"))
			require.NoError(t, err)
			long := counter.NewLong(w.client, "/long/corrupted")
			_, err = long.Get(ctx)
			require.ErrorIs(t, err, counter.ErrBadValue)
			_, err = long.Add(ctx, 1)
			require.ErrorIs(t, err, counter.ErrBadValue)
			require.NoError(t, long.Set(ctx, 5)) // Set repairs it
			seen, err := long.Get(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 5, seen.N)
		},
		"compare and set by an instance that has written nothing": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			one, other := counter.NewLong(w.client, "/long/fresh"), counter.NewLong(w.client, "/long/fresh")
			_, err := one.CompareAndSet(ctx, counter.Seen[int64]{}, 1)
			require.ErrorIs(t, err, framework.ErrBadVersion)
			seen, err := one.CreateIfMissing(ctx, 0)
			require.NoError(t, err)
			_, err = other.CompareAndSet(ctx, seen, 1)
			require.NoError(t, err)
		},
		"compare and set after another write": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			long := counter.NewLong(w.client, "/long/compare")
			seen, err := long.CreateIfMissing(ctx, 1)
			require.NoError(t, err)
			_, err = long.CompareAndSet(ctx, seen, 2)
			require.NoError(t, err)
			_, err = long.CompareAndSet(ctx, seen, 3)
			require.ErrorIs(t, err, framework.ErrBadVersion)
			again, err := long.CreateIfMissing(ctx, 7)
			require.NoError(t, err)
			require.EqualValues(t, 2, again.N)
		},
		"set unconditionally, while others add": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			long := counter.NewLong(w.client, "/long/force")
			var adding sync.WaitGroup
			for range 3 {
				adding.Go(func() {
					for range 10 {
						_, err := long.Add(ctx, 1)
						assert.NoError(t, err)
					}
				})
			}
			require.NoError(t, counter.NewLong(w.client, "/long/force").Set(ctx, 1<<40))
			adding.Wait()
			seen, err := long.Get(ctx)
			require.NoError(t, err)
			require.Greater(t, seen.N, int64(1<<40)-1)
		},
		"many clients add, and all sums are different": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			var adding sync.WaitGroup
			var sums sync.Map
			for range 5 {
				client, _ := w.connect(t)
				long := counter.NewLong(client, "/long/many")
				for range 4 {
					adding.Go(func() {
						for range 10 {
							sum, err := long.Add(ctx, 1)
							assert.NoError(t, err)
							_, twice := sums.LoadOrStore(sum, true)
							assert.False(t, twice, sum)
						}
					})
				}
			}
			adding.Wait()
			seen, err := counter.NewLong(w.client, "/long/many").Get(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 200, seen.N)
		},
		"numbers in blocks": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			long := counter.NewLong(w.client, "/long/blocks")
			ids := counter.NewIDs(long, 5)
			for want := range int64(10) {
				id, err := ids.Next(ctx)
				require.NoError(t, err)
				require.Equal(t, want, id)
			}
			seen, err := long.Get(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 10, seen.N)
			_, err = w.client.SetData().ForPath(ctx, "/long/blocks", []byte("x"))
			require.NoError(t, err)
			_, err = ids.Next(ctx)
			require.ErrorIs(t, err, counter.ErrBadValue)
		},
	})
}

func TestSharedCount(t *testing.T) {
	watch := func(t *testing.T, c *counter.Count) <-chan int32 {
		return heard(t, func(ctx context.Context, hear func(int32)) {
			for seen, err := range c.Watch(ctx) {
				if err == nil {
					hear(seen.N)
				}
			}
		})
	}
	behave(t, map[string]func(t *testing.T, w *world){
		"one client": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			count := counter.NewCount(w.client, "/count/one")
			_, err := count.CreateIfMissing(ctx, 0)
			require.NoError(t, err)
			said := watch(t, count)
			require.EqualValues(t, 0, kit.Receive(t, "the seed", said))
			require.NoError(t, count.Set(ctx, 1))
			require.EqualValues(t, 1, kit.Receive(t, "the value", said))
			require.NoError(t, count.Set(ctx, 1234))
			require.EqualValues(t, 1234, kit.Receive(t, "the value", said))
		},
		"by version": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			count := counter.NewCount(w.client, "/count/version")
			first, err := count.CreateIfMissing(ctx, 10)
			require.NoError(t, err)
			second, err := count.CompareAndSet(ctx, first, 20)
			require.NoError(t, err)
			require.Equal(t, first.Version+1, second.Version)
			_, err = count.CompareAndSet(ctx, first, 30)
			require.ErrorIs(t, err, framework.ErrBadVersion)
			_, err = count.CompareAndSet(ctx, second, 30)
			require.NoError(t, err)
			require.NoError(t, count.Set(ctx, 30))
			third, err := count.Get(ctx)
			require.NoError(t, err)
			require.Equal(t, second.Version+2, third.Version, "the same value again is a change")
		},
		"each client has the events of the others' writes": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			var counts []*counter.Count
			var said []<-chan int32
			for range 3 {
				client, _ := w.connect(t)
				count := counter.NewCount(client, "/count/several")
				_, err := count.CreateIfMissing(ctx, 10)
				require.NoError(t, err)
				counts, said = append(counts, count), append(said, watch(t, count))
			}
			for _, s := range said {
				require.EqualValues(t, 10, kit.Receive(t, "the seed", s))
			}
			for i, count := range counts {
				require.NoError(t, count.Set(ctx, int32(i)))
				for _, s := range said {
					require.EqualValues(t, i, kit.Receive(t, "the value", s))
				}
			}
		},
		"the seed of the first client is the value": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			other, _ := w.connect(t)
			for i, client := range []*framework.Client{w.client, other} {
				seen, err := counter.NewCount(client, "/count/seed").CreateIfMissing(ctx, int32(10*(i+1)))
				require.NoError(t, err)
				require.EqualValues(t, 10, seen.N)
			}
		},
		"a reconnect is no change of the value": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			client, way := w.connect(t)
			count := counter.NewCount(client, "/count/reconnect")
			_, err := count.CreateIfMissing(ctx, 1)
			require.NoError(t, err)
			said := watch(t, count)
			require.EqualValues(t, 1, kit.Receive(t, "the seed", said))
			states := kit.Watch(t, client)
			epoch := client.State().Epoch
			way.Cut()
			states.Until(framework.Suspended, epoch)
			way.Heal()
			states.Until(framework.Reconnected, epoch)
			silent(t, said)
			require.NoError(t, counter.NewCount(w.client, "/count/reconnect").Set(ctx, 2))
			require.EqualValues(t, 2, kit.Receive(t, "what comes after it", said))
		},
		"a change during a gap is reported after it": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			client, way := w.connect(t)
			count := counter.NewCount(client, "/count/away")
			_, err := count.CreateIfMissing(ctx, 1)
			require.NoError(t, err)
			said := watch(t, count)
			require.EqualValues(t, 1, kit.Receive(t, "the seed", said))
			way.Cut()
			require.NoError(t, counter.NewCount(w.client, "/count/away").Set(ctx, 2))
			way.Heal()
			require.EqualValues(t, 2, kit.Receive(t, "the value", said))
			w.expire(t, client)
			require.NoError(t, counter.NewCount(w.client, "/count/away").Set(ctx, 3))
			require.EqualValues(t, 3, kit.Receive(t, "also in the next session", said))
		},
	})
}
