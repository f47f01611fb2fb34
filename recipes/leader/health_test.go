package leader_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// Several goroutines call Health of a latch while it begins to lead: a probe, a collector of metrics, the latch itself. A call
// that starts before the term and ends after its begin must not change Since.
func TestHealthAskedByMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		const latches, callers, questions = 100, 4, 300
		start := time.Now()
		var all []*leader.Latch
		var asking sync.WaitGroup
		for i := range latches {
			l, err := leader.NewLatch(c, fmt.Sprintf("/leaders/%d", i))
			require.NoError(t, err)
			defer l.Close()
			all = append(all, l)
			for range callers {
				asking.Go(func() {
					for range questions {
						l.Health()
					}
				})
			}
		}
		asking.Wait()
		time.Sleep(time.Minute)
		for _, l := range all {
			require.Equal(t, leader.Health{Role: leader.Leading, Since: start}, l.Health())
		}
	})
}

// The node of a lost session does not count: until the latch has joined the line again its role is unknown.
func TestHealthAfterALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		join(t, newClient(t, s))
		c := newClient(t, s)
		l := join(t, c)
		follows(t, l)
		joining := s.Inject(zktest.Fault{Op: zktest.OpCreate2, PathPrefix: path, Action: zktest.Hold})
		s.Expire(session(t, c))
		<-joining.Struck()
		synctest.Wait()
		require.True(t, c.State().State.IsConnected())
		require.Equal(t, leader.Unknown, l.Health().Role)
		require.ErrorContains(t, l.Health().Err, "still joining")
		joining.Release()
		follows(t, l)
	})
}
