package semaphore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// TryAcquire of several leases may take a session timeout for each: with a short timeout, and servers that are slow to write, a
// lease needs more than one write before its hold begins.
func TestTryAcquireOfSeveralWithSlowCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{
			EnsembleConfig: "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nversion=0",
		})
		c := recipetest.Client(t, s, framework.WithSessionTimeout(4*time.Second))
		s.Delay(0, 440*time.Millisecond)
		time.Sleep(5 * time.Second)
		lease, err := semaphore.New(c, "/semaphore", 3).TryAcquire(t.Context(), 3)
		require.NoError(t, err)
		require.True(t, lease.Valid())
		require.NoError(t, lease.Release(t.Context()))
	})
}
