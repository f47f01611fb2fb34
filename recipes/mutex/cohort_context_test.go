package mutex_test

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
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// What a hook has made of the hold's context may use the Cohort whenever it is asked: no lock is held then. Here the
// caller that comes first learns from the clock that the hold is over.
func TestCohortAsksNoContextUnderItsLock(t *testing.T) {
	recipetest.NoDeadlock(t)
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var m *mutex.Cohort
		var armed atomic.Bool
		meddle := func() {
			if armed.CompareAndSwap(true, false) {
				if turn, err := m.TryAcquire(background); err == nil {
					turn.ReleaseInBackground()
				}
			}
		}
		m = mutex.NewCohort(newClient(t, s, framework.WithHooks(framework.Hooks{
			Hold: func(ctx context.Context, _ framework.HoldInfo) (context.Context, func(error)) {
				ended, cancel := context.WithCancel(ctx)
				return recipetest.Meddler{Context: ended, Meddle: meddle}, func(error) { cancel() }
			},
		})), path, mutex.WithKept(time.Hour))
		before := turnOf(t, m)
		end(t, before)
		time.Sleep(time.Millisecond)
		armed.Store(true)
		wire.Sleep(time.Hour)
		after := turnOf(t, m)
		armed.Store(false)
		require.NotEqual(t, before.Path(), after.Path())
		end(t, after)
	})
}
