package mutex_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// Turns of goroutines that share a Cohort, and the free cycle of a kept lock, over TCP on this machine.
//
//	go test ./recipes/mutex -run '^$' -bench Cohort -benchmem
func BenchmarkCohort(b *testing.B) {
	run := func(name string, goroutines int, opts ...mutex.Option) {
		b.Run(name, func(b *testing.B) {
			s := zktest.RunT(b, zktest.Config{Listen: "127.0.0.1:0"})
			c, err := framework.New(s.Addr(), framework.WithSessionTimeout(10*time.Second))
			require.NoError(b, err)
			b.Cleanup(func() { _ = c.Close() })
			m := mutex.NewCohort(c, path, opts...)
			turn, err := m.Acquire(background)
			require.NoError(b, err)
			require.NoError(b, turn.Release(background))
			s.ResetCounts()
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for range goroutines {
				all.Go(func() {
					for range b.N / goroutines {
						turn, err := m.Acquire(background)
						if err != nil {
							b.Error(err)
							return
						}
						turn.ReleaseInBackground()
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
			b.ReportMetric(float64(sum(s.Counts()))/float64(b.N), "requests/op")
		})
	}
	for _, k := range []int{2, 8, 32} {
		run(fmt.Sprintf("%d-goroutines", k), k)
	}
	run("kept", 1, mutex.WithKept(time.Minute))
	run("kept-8-goroutines", 8, mutex.WithKept(time.Minute))
}
