package semaphore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// The first in the line waits for leases, without a predecessor.
func TestHooksSeeAWaitForLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		tell := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf(format, args...))
		}
		hooks := framework.Hooks{
			Acquire: func(_ context.Context, a framework.Acquisition) (context.Context, func(error)) {
				tell("acquire %s", a.Recipe)
				return nil, func(err error) { tell("acquired %s: %v", a.Recipe, err) }
			},
			Wait: func(_ context.Context, q framework.Queue) func(error) {
				tell("%s waits behind %q", q.Recipe, q.Predecessor)
				return func(err error) { tell("%s waited: %v", q.Recipe, err) }
			},
			Hold: func(_ context.Context, h framework.HoldInfo) (context.Context, func(error)) {
				tell("hold %s", h.Recipe)
				return nil, func(cause error) { tell("held %s: %v", h.Recipe, cause) }
			},
		}
		s := zktest.RunT(t)
		front, err := semaphore.New(newClient(t, s), path, 1).Acquire(t.Context(), 1)
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { assert.NoError(t, front.Release(context.Background())) })
		lease, err := semaphore.New(newClient(t, s, framework.WithHooks(hooks)), path, 1).Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		synctest.Wait()
		assert.Equal(t, []string{
			"acquire semaphore", "hold semaphore-line", `semaphore waits behind ""`, "semaphore waited: <nil>",
			"held semaphore-line: released", "hold semaphore",
			"acquired semaphore: <nil>", "held semaphore: released",
		}, told)
	})
}
