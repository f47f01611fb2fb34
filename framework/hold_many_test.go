package framework

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// BenchmarkEndHolds measures the time from the end of the first of a session's holds to that of the last.
func BenchmarkEndHolds(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			srv, err := zktest.NewServer(zktest.Config{})
			require.NoError(b, err)
			defer srv.Close()
			c, err := New(srv.Addr(), WithDialer(srv.Dial), WithSessionTimeout(time.Minute))
			require.NoError(b, err)
			defer c.Close()
			s, err := c.Session(b.Context())
			require.NoError(b, err)
			var spread time.Duration
			for range b.N {
				holds := make([]*Hold, n)
				for i := range holds {
					holds[i], err = s.Hold(b.Context(), HoldOptions{Path: fmt.Sprint("/", i), OwnWatchAfter: time.Hour})
					require.NoError(b, err)
				}
				done := make(chan time.Time)
				for _, h := range []*Hold{holds[0], holds[n-1]} {
					go func() { <-h.Context().Done(); done <- time.Now() }()
				}
				began := time.Now()
				endHoldsByClient(ErrSuspended, holds...)
				<-done
				spread += (<-done).Sub(began)
			}
			b.ReportMetric(float64(spread.Microseconds())/float64(b.N), "µs/first-to-last")
		})
	}
}
