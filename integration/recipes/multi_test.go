package recipes

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/mutex"
)

// Our multi-lock and Java's InterProcessMultiLock on the same paths, in the same order.
func TestMultiLock(t *testing.T) {
	t.Parallel()
	const first, second = "/multi/first", "/multi/second"
	w := newWorld(t)
	ctx := kit.Context(t)
	a, b := mutex.New(w.client, first), mutex.New(w.client, second)
	both := mutex.NewMulti(mutex.Of(a), mutex.Of(b))
	theirs, err := w.peer.MultiLock(ctx, "multi", first, second)
	require.NoError(t, err)
	theirSecond, err := w.peer.Mutex(ctx, "second", second)
	require.NoError(t, err)
	for _, path := range []string{first, second} { // not containers, so that they tell what has happened in them
		_, err = w.client.Create().CreatingParentContainersIfNeeded().ForPath(ctx, path, nil)
		require.NoError(t, err)
	}
	pzxid := func(path string) int64 {
		stat, err := w.client.CheckExists().ForPath(ctx, path)
		require.NoError(t, err)
		return stat.Pzxid
	}

	t.Run("hand-over", func(t *testing.T) {
		kit.Interop(t, "multi-lock", kit.GoToJava, kit.JavaToGo)
		lock, err := both.Acquire(ctx)
		require.NoError(t, err)
		w.count(t, first, 1)
		w.count(t, second, 1)
		granted := theirs.GoAcquire(javapeer.Forever)
		w.count(t, first, 2) // it waits for the first one and has nothing of the second
		w.count(t, second, 1)
		before := pzxid(second)
		require.NoError(t, b.Do(lock.Context(), func(context.Context) error { return nil }), "it re-enters")
		assert.Equal(t, before, pzxid(second))
		require.NoError(t, lock.Release(ctx))
		_, err = granted(ctx)
		require.NoError(t, err)
		waiting := kit.Call(t, kit.Context(t), both.Acquire)
		w.count(t, first, 2)
		assert.Empty(t, waiting)
		require.NoError(t, theirs.Release(ctx))
		lock = kit.Receive(t, "our turn", waiting)
		// With nobody else there the last change of a directory is our delete.
		require.NoError(t, lock.Release(ctx))
		assert.Greater(t, pzxid(first), pzxid(second), "released in reverse order, as Java does")
		_, err = theirs.Acquire(ctx, javapeer.Forever)
		require.NoError(t, err)
		require.NoError(t, theirs.Release(ctx))
		assert.Greater(t, pzxid(first), pzxid(second), "what Java does")
	})

	t.Run("all or none, ours", func(t *testing.T) {
		kit.Interop(t, "multi-lock", kit.JavaToGo)
		_, err := theirSecond.Acquire(ctx, javapeer.Forever)
		require.NoError(t, err)
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = both.Acquire(limited)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, time.Since(began), 2*time.Second+kit.Slack())
		_, err = both.TryAcquire(ctx)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		w.count(t, first, 0)
		w.count(t, second, 1)
		require.NoError(t, theirSecond.Release(ctx))
	})

	t.Run("all or none, Java's", func(t *testing.T) {
		kit.Interop(t, "multi-lock", kit.GoToJava)
		lock, err := b.Acquire(ctx)
		require.NoError(t, err)
		_, err = theirs.Acquire(ctx, 500*time.Millisecond)
		require.ErrorIs(t, err, javapeer.ErrTimeout)
		w.count(t, first, 0)
		w.count(t, second, 1)
		free, err := a.TryAcquire(ctx)
		require.NoError(t, err, "Java has given the first one back")
		require.NoError(t, free.Release(ctx))
		require.NoError(t, lock.Release(ctx))
	})

	t.Run("one deadline", func(t *testing.T) {
		// Java holds both, and lets the first one go in the middle of our time: what is left for the second is the
		// rest.
		theirFirst, err := w.peer.Mutex(ctx, "first", first)
		require.NoError(t, err)
		_, err = theirFirst.Acquire(ctx, javapeer.Forever)
		require.NoError(t, err)
		_, err = theirSecond.Acquire(ctx, javapeer.Forever)
		require.NoError(t, err)
		const limit = 2 * time.Second
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		began := time.Now()
		ended := kit.Call(t, kit.Context(t), func(context.Context) (time.Duration, error) {
			_, err := both.Acquire(limited)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			return time.Since(began), nil
		})
		w.count(t, first, 2)
		time.Sleep(limit/2 - time.Since(began))
		require.NoError(t, theirFirst.Release(ctx))
		took := kit.Receive(t, "the end of the time", ended)
		kit.Figure(t, "a multi-lock with a limit of %v for two locks gave up after %v, though it had the first "+
			"after %v", limit, took.Round(time.Millisecond), limit/2)
		assert.Less(t, took, limit+limit/2-100*time.Millisecond,
			"a limit for each lock would have ended half of it later")
		w.count(t, first, 0)
		require.NoError(t, theirSecond.Release(ctx))
	})

	t.Run("in turn", func(t *testing.T) {
		kit.Interop(t, "multi-lock", kit.Mixed)
		const rounds = 10
		type party struct {
			name    string
			weights [2]int // which of the two locks
			acquire func(ctx context.Context) (release func(context.Context) error, err error)
		}
		goParty := func(name string, weights [2]int, client *framework.Client) party {
			var parts []mutex.Part
			for i, path := range []string{first, second} {
				if weights[i] > 0 {
					parts = append(parts, mutex.Of(mutex.New(client, path)))
				}
			}
			m := mutex.NewMulti(parts...)
			return party{name, weights, func(ctx context.Context) (func(context.Context) error, error) {
				lock, err := m.Acquire(ctx)
				if err != nil {
					return nil, err
				}
				return lock.Release, nil
			}}
		}
		javaParty := func(name string, weights [2]int, lock *javapeer.Lock) party {
			return party{name, weights, func(ctx context.Context) (func(context.Context) error, error) {
				_, err := lock.Acquire(ctx, javapeer.Forever)
				return lock.Release, err
			}}
		}
		parties := []party{
			goParty("go both", [2]int{1, 1}, w.client), goParty("go both, too", [2]int{1, 1}, w.golang(t)),
			goParty("go first", [2]int{1, 0}, w.client),
			javaParty("java both", [2]int{1, 1}, theirs), javaParty("java second", [2]int{0, 1}, theirSecond),
		}
		var diaries [2]diary
		var running sync.WaitGroup
		for _, p := range parties {
			running.Go(func() {
				for range rounds {
					release, err := p.acquire(ctx)
					if !assert.NoError(t, err, p.name) {
						return
					}
					from := time.Now()
					_, err = w.client.CheckExists().ForPath(ctx, first) // a round trip's time
					assert.NoError(t, err)
					for i, weight := range p.weights {
						diaries[i].add(span{p.name, weight, from, time.Now()})
					}
					if !assert.NoError(t, release(ctx), p.name) {
						return
					}
				}
			})
		}
		running.Wait()
		for i := range diaries {
			assert.Len(t, diaries[i].spans, rounds*len(parties))
			assert.Equal(t, 1, diaries[i].most(), "holders of one lock at a time")
		}
		kit.Figure(t, "%d turns at two locks, together or alone, Go and Java: never two at one",
			rounds*len(parties))
	})
	w.count(t, first, 0)
	w.count(t, second, 0)
}
