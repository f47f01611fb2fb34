package rwlock_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// Goroutines that read at the same time, sharing one node or with a node each, over TCP on this machine.
//
//	go test ./recipes/rwlock -run '^$' -bench Readers -benchmem
func BenchmarkReaders(b *testing.B) {
	run := func(name string, goroutines int, of func(*framework.Client) func() error) {
		b.Run(fmt.Sprintf("%s-%d-goroutines", name, goroutines), func(b *testing.B) {
			s := zktest.RunT(b, zktest.Config{Listen: "127.0.0.1:0"})
			c, err := framework.New(s.Addr(), framework.WithSessionTimeout(10*time.Second))
			require.NoError(b, err)
			b.Cleanup(func() { _ = c.Close() })
			once := of(c)
			require.NoError(b, once())
			s.ResetCounts()
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for range goroutines {
				all.Go(func() {
					for range b.N / goroutines {
						if err := once(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
			b.ReportMetric(float64(recipetest.Sum(s.Counts()))/float64(b.N), "requests/op")
		})
	}
	for _, k := range []int{2, 8, 32} {
		run("shared", k, func(c *framework.Client) func() error {
			r := rwlock.NewReaders(c, path)
			return func() error {
				reading, err := r.Acquire(background)
				if err == nil {
					reading.ReleaseInBackground()
				}
				return err
			}
		})
		run("own", k, func(c *framework.Client) func() error {
			r := rwlock.New(c, path).ReadLock()
			return func() error {
				lock, err := r.Acquire(background)
				if err == nil {
					lock.ReleaseInBackground()
				}
				return err
			}
		})
	}
}
