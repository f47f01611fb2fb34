package rwlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// A call that would wait for its own caller is refused, without a request.
func TestReadersRefuseToWaitForThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		r, rw := rwlock.NewReaders(c, path), rwlock.New(c, path)
		reading := read(t, background, r)
		s.ResetCounts()
		for _, get := range []func(context.Context) (*rwlock.Lock, error){
			rw.WriteLock().Acquire, rw.WriteLock().TryAcquire,
		} {
			_, err := get(reading.Context())
			require.ErrorIs(t, err, rwlock.ErrUpgrade)
		}
		for _, get := range []func(context.Context) (*rwlock.Lock, error){
			rw.ReadLock().Acquire, rw.ReadLock().TryAcquire,
		} {
			_, err := get(reading.Context())
			require.ErrorIs(t, err, rwlock.ErrSelfWait)
		}
		counts(t, s, "refused", map[string]int{})
		done(t, reading)
		lock := acquire(t, background, rw.ReadLock())
		s.ResetCounts()
		for _, get := range []func(context.Context) (*rwlock.Reading, error){r.Acquire, r.TryAcquire} {
			_, err := get(lock.Context())
			require.ErrorIs(t, err, rwlock.ErrSelfWait)
		}
		require.ErrorIs(t, r.Do(lock.Context(), func(context.Context) error { return nil }), rwlock.ErrSelfWait)
		counts(t, s, "refused", map[string]int{})
		release(t, lock)
		other := read(t, background, rwlock.NewReaders(c, "/locks/other"))
		done(t, read(t, other.Context(), r))
		release(t, acquire(t, other.Context(), rw.WriteLock()))
		done(t, other)
		clean(t, s)
	})
}

// The holder of the write lock gets a separate node, next to its own in the line. No reader joins it.
func TestReadersDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		r := rwlock.NewReaders(c, path, rwlock.WithRevocation(), rwlock.WithJoins(10, time.Hour))
		rw := rwlock.New(c, path)
		writer := acquire(t, context.WithValue(background, key("k"), 1), rw.WriteLock())
		next := waiting(t, background, rwlock.New(newClient(t, s), path).WriteLock())
		behind := beginReading(t, background, r).Waits()
		s.ResetCounts()
		reading := read(t, writer.Context(), r)
		counts(t, s, "a downgrade", map[string]int{"multi": 1, "getData": 1})
		require.Equal(t, writer.FencingToken(), reading.FencingToken())
		require.Equal(t, 1, reading.Context().Value(key("k")))
		inner := read(t, reading.Context(), r)
		release(t, acquire(t, reading.Context(), rw.WriteLock()))
		release(t, writer)
		_, err := rw.WriteLock().Acquire(reading.Context())
		require.ErrorIs(t, err, rwlock.ErrUpgrade)
		next.Waits()
		behind.Waits()
		require.NoError(t, inner.Release(background))
		require.NoError(t, rwlock.Revoke(background, c, reading.Path()))
		require.True(t, recipetest.Closed(reading.Revoked()))
		next.Waits()
		done(t, reading)
		release(t, next.OK())
		done(t, behind.OK())

		writer = acquire(t, background, rw.WriteLock())
		s.Inject(zktest.Fault{Op: "multi", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		_, err = r.Acquire(writer.Context())
		require.ErrorIs(t, err, framework.ErrNoAuth)
		release(t, writer)

		require.NoError(t, rw.WriteLock().Do(background, func(ctx context.Context) error {
			return r.Do(ctx, func(ctx context.Context) error {
				return r.Do(ctx, func(context.Context) error { return nil })
			})
		}))
		require.NoError(t, r.Do(background, func(ctx context.Context) error {
			return r.Do(ctx, func(context.Context) error { return nil })
		}))
		clean(t, s)
	})
}
