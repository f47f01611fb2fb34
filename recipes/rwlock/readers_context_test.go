package rwlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// What a hook has made of the hold's context may use the Readers whenever it is asked: no lock is held then. Here the
// caller that comes first learns from the clock that the hold is over.
func TestReadersAskNoContextUnderTheirLock(t *testing.T) {
	recipetest.NoDeadlock(t)
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var r *rwlock.Readers
		var armed atomic.Bool
		meddle := func() {
			if armed.CompareAndSwap(true, false) {
				if reading, err := r.TryAcquire(background); err == nil {
					reading.ReleaseInBackground()
				}
			}
		}
		r = rwlock.NewReaders(newClient(t, s, framework.WithHooks(framework.Hooks{
			Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
				ended, cancel := context.WithCancel(ctx)
				return recipetest.Meddler{Context: ended, Meddle: meddle}, func(error) { cancel() }
			},
		})), path, rwlock.WithJoins(10, 2*time.Hour))
		before := read(t, background, r)
		time.Sleep(time.Millisecond)
		armed.Store(true)
		wire.Sleep(time.Hour)
		after := read(t, background, r)
		armed.Store(false)
		require.NotEqual(t, before.Path(), after.Path())
		require.ErrorIs(t, before.Release(background), rwlock.ErrSessionLost)
		done(t, after)
	})
}
