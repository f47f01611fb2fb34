package mutex_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

// The client's own cost of a free cycle (acquire and release): the server is another process. Compare only the rows of one run.
//
//	go test ./recipes/mutex -run '^$' -bench ClientCost -benchmem
func BenchmarkClientCost(b *testing.B) {
	addr := server(b)
	for _, one := range []struct {
		name  string
		cycle func(testing.TB, string) func()
	}{{"awaited", awaitedCycle}, {"unawaited", unawaitedCycle}, {"go-zookeeper-Lock", foreignCycle}} {
		b.Run(one.name, func(b *testing.B) {
			cycle := one.cycle(b, addr)
			cycle() // makes the directory
			b.ReportAllocs()
			for b.Loop() {
				cycle()
			}
		})
	}
}

func connected(tb testing.TB, addr string) *framework.Client {
	c, err := framework.New(addr, framework.WithSessionTimeout(10*time.Second))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	require.NoError(tb, c.WaitConnected(background))
	return c
}

func awaitedCycle(tb testing.TB, addr string) func() {
	m := mutex.New(connected(tb, addr), path)
	return func() {
		lock, err := m.Acquire(background)
		require.NoError(tb, err)
		require.NoError(tb, lock.Release(background))
	}
}

func unawaitedCycle(tb testing.TB, addr string) func() {
	m := mutex.New(connected(tb, addr), path)
	return func() {
		lock, err := m.Acquire(background)
		require.NoError(tb, err)
		lock.ReleaseInBackground()
	}
}

func foreignCycle(tb testing.TB, addr string) func() {
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(tb, err)
	tb.Cleanup(conn.Close)
	l := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
	return func() {
		require.NoError(tb, l.Lock())
		require.NoError(tb, l.Unlock())
	}
}
