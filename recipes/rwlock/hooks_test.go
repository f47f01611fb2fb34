package rwlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// A downgrade is an acquisition without a wait, during the write lock's hold.
func TestHooksSeeADowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		hooks := framework.Hooks{
			Acquire: func(_ context.Context, a framework.Acquisition) (context.Context, func(error)) {
				told = append(told, "acquire "+a.Recipe+" "+a.Path)
				return nil, func(err error) { told = append(told, fmt.Sprintf("%s: %v", a.Recipe, err)) }
			},
			Hold: func(_ context.Context, h framework.HoldInfo) (context.Context, func(error)) {
				told = append(told, "hold "+h.Recipe)
				return nil, func(cause error) { told = append(told, fmt.Sprintf("held %s: %v", h.Recipe, cause)) }
			},
		}
		s := zktest.RunT(t)
		rw := rwlock.New(newClient(t, s, framework.WithHooks(hooks)), path)
		write, err := rw.WriteLock().Acquire(t.Context())
		require.NoError(t, err)
		read, err := rw.ReadLock().Acquire(write.Context())
		require.NoError(t, err)
		require.NoError(t, write.Release(t.Context()))
		require.NoError(t, read.Release(t.Context()))
		_, err = rw.WriteLock().Acquire(read.Context())
		require.Error(t, err)
		assert.Equal(t, []string{
			"acquire write-lock " + path, "hold write-lock", "write-lock: <nil>",
			"acquire read-lock " + path, "hold read-lock", "read-lock: <nil>",
			"held write-lock: released", "held read-lock: released",
		}, told, "and what was refused was not begun")
	})
}
