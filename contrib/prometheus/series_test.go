package curatorprom_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curatorprom "github.com/go-curator/curator/contrib/prometheus"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// byPath returns the number of series with a path.
func byPath(t *testing.T, c *curatorprom.Collector) int {
	t.Helper()
	return strings.Count(exposed(t, c), `path="`)
}

// A lock for each order leaves no series, however it ended: a series by path exists only while there is a hold or a
// wait.
func TestSeriesByPathGoWithTheLastInterest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := curatorprom.NewCollector(curatorprom.WithPaths(func(path string) string { return path }))
		one, two, ctx := client(t, s, c, "one"), client(t, s, c, "two"), t.Context()
		for i := range 20 {
			lock, err := mutex.New(one, fmt.Sprintf("/orders/%d", i)).Acquire(ctx)
			require.NoError(t, err)
			require.NoError(t, lock.Release(ctx))
		}
		synctest.Wait()
		assert.Zero(t, byPath(t, c))

		lock, err := mutex.New(one, path).Acquire(ctx)
		require.NoError(t, err)
		assert.Equal(t, 5, byPath(t, c))
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = mutex.New(two, path).Acquire(soon)
		require.Error(t, err)
		synctest.Wait()
		assert.Equal(t, 5, byPath(t, c), "he has given up")
		_, err = mutex.New(two, path).TryAcquire(ctx)
		require.Error(t, err)
		go func() {
			if lock, err := mutex.New(one, path).Acquire(ctx); assert.NoError(t, err) {
				time.Sleep(time.Second)
				assert.NoError(t, lock.Release(ctx))
			}
		}()
		synctest.Wait()
		require.NoError(t, lock.Release(ctx))
		synctest.Wait()
		assert.Equal(t, 5, byPath(t, c), "another one of the client's has it")
		time.Sleep(2 * time.Second)
		assert.Zero(t, byPath(t, c))

		lease, err := semaphore.New(one, "/sem", 2).Acquire(ctx, 2)
		require.NoError(t, err)
		require.NoError(t, lease.Release(ctx))
		lock, err = mutex.New(one, path).Acquire(ctx)
		require.NoError(t, err)
		session, err := one.Session(ctx)
		require.NoError(t, err)
		s.Expire(session.ID())
		<-lock.Context().Done()
		time.Sleep(time.Minute)
		assert.Zero(t, byPath(t, c), "lost")
	})
}

// Paths that share a label share its series.
func TestSeriesOfOneLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := curatorprom.NewCollector(curatorprom.WithPaths(func(string) string { return "orders" }))
		cl, ctx := client(t, s, c, "one"), t.Context()
		first, err := mutex.New(cl, "/orders/1").Acquire(ctx)
		require.NoError(t, err)
		second, err := mutex.New(cl, "/orders/2").Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, first.Release(ctx))
		synctest.Wait()
		assert.Equal(t, 5, byPath(t, c))
		require.NoError(t, second.Release(ctx))
		synctest.Wait()
		assert.Zero(t, byPath(t, c))
	})
}
