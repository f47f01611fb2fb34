package mutex_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// The server runs in this process, over TCP on this machine. Compare the numbers of requests, and the rows of one run.
//
//	go test ./recipes/mutex -run '^$' -bench . -benchmem
func BenchmarkCycle(b *testing.B) {
	run := func(name string, cycle func(b *testing.B, s *zktest.Server) func()) {
		b.Run(name, func(b *testing.B) {
			s := zktest.RunT(b, zktest.Config{Listen: "127.0.0.1:0"})
			once := cycle(b, s)
			once() // makes the directory
			s.ResetCounts()
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
			requests := 0
			for op, n := range s.Counts() {
				if op != "ping" {
					requests += n
				}
			}
			b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
		})
	}
	client := func(b *testing.B, s *zktest.Server, opts ...framework.Option) *framework.Client {
		c, err := framework.New(s.Addr(), append(opts, framework.WithSessionTimeout(10*time.Second))...)
		require.NoError(b, err)
		b.Cleanup(func() { _ = c.Close() })
		require.NoError(b, c.WaitConnected(background))
		return c
	}
	run("curator-for-go", func(b *testing.B, s *zktest.Server) func() {
		m := mutex.New(client(b, s), path)
		return func() {
			lock, err := m.Acquire(background)
			require.NoError(b, err)
			require.NoError(b, lock.Release(background))
		}
	})
	run("curator-for-go-with-hooks", func(b *testing.B, s *zktest.Server) func() {
		var told int
		m := mutex.New(client(b, s, framework.WithHooks(framework.Hooks{
			Operation: func(context.Context, framework.Operation) func(framework.OperationEnd) {
				return func(framework.OperationEnd) {}
			},
			Queue: func(framework.Queue) { told++ },
		})), path)
		return func() {
			lock, err := m.Acquire(background)
			require.NoError(b, err)
			require.NoError(b, lock.Release(background))
		}
	})
	run("create-and-delete", func(b *testing.B, s *zktest.Server) func() {
		c := client(b, s)
		return func() {
			at, err := c.Create().WithMode(framework.EphemeralSequential).CreatingParentContainersIfNeeded().
				ForPath(background, path+"/x-", nil)
			require.NoError(b, err)
			require.NoError(b, c.Delete().ForPath(background, at))
		}
	})
	run("go-zookeeper-Lock", func(b *testing.B, s *zktest.Server) func() {
		conn, _, err := zk.Connect([]string{s.Addr()}, 10*time.Second, zk.WithLogInfo(false))
		require.NoError(b, err)
		b.Cleanup(conn.Close)
		l := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
		return func() {
			require.NoError(b, l.Lock())
			require.NoError(b, l.Unlock())
		}
	})
}
