package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
