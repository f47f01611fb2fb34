package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/fencing"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestLockOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, zktest.RunT(t, zktest.Config{}))
		a, b := mutex.New(c, "/locks/a"), mutex.New(c, "/locks/b")
		assert.Nil(t, mutex.LockOf(background))
		lock := acquire(t, a)
		assert.Nil(t, mutex.LockOf(lock.Context()), "whoever has acquired it has it")
		release(t, lock)

		require.NoError(t, a.Do(background, func(ctx context.Context) error {
			outer := mutex.LockOf(ctx)
			assert.True(t, outer.Valid())
			assert.Positive(t, outer.FencingToken())
			assert.Contains(t, outer.Path(), a.Path())
			require.NoError(t, a.Do(ctx, func(ctx context.Context) error { // re-entry: the same node
				assert.Equal(t, outer.Path(), mutex.LockOf(ctx).Path())
				return nil
			}))
			require.NoError(t, b.Do(ctx, func(ctx context.Context) error {
				assert.Contains(t, mutex.LockOf(context.WithoutCancel(ctx)).Path(), b.Path())
				return nil
			}))
			assert.Same(t, outer, mutex.LockOf(ctx))
			return nil
		}))
	})
}

// contrib/fence takes tokens from this list: each hold of a context, once.
func TestAContextTellsOfItsHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, zktest.RunT(t, zktest.Config{}))
		a, b := mutex.New(c, "/locks/a"), mutex.New(c, "/locks/b")
		assert.Empty(t, fencing.Of(background))
		tokens := func(ctx context.Context) (all []int64) {
			for _, h := range fencing.Of(ctx) {
				assert.False(t, h.Shared)
				assert.NoError(t, h.Context.Err())
				all = append(all, h.Token)
			}
			return all
		}
		require.NoError(t, a.Do(background, func(ctx context.Context) error {
			outer := mutex.LockOf(ctx)
			assert.Equal(t, []int64{outer.FencingToken()}, tokens(ctx))
			assert.Equal(t, outer.Path(), fencing.Of(ctx)[0].Path)
			return b.Do(ctx, func(ctx context.Context) error {
				both := []int64{mutex.LockOf(ctx).FencingToken(), outer.FencingToken()}
				assert.Equal(t, both, tokens(ctx), "the innermost first")
				return a.Do(ctx, func(ctx context.Context) error { // again
					assert.ElementsMatch(t, both, tokens(ctx))
					return nil
				})
			})
		}))
		require.NoError(t, mutex.NewMulti(mutex.Of(a), mutex.Of(b)).Do(background, func(ctx context.Context) error {
			assert.Len(t, tokens(ctx), 2)
			return nil
		}))
		require.NoError(t, mutex.NewCohort(c, "/locks/a").Do(background, func(ctx context.Context) error {
			require.Len(t, fencing.Of(ctx), 1)
			assert.True(t, fencing.Of(ctx)[0].Shared, "turns of one node have one token")
			return nil
		}))
	})
}
