package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// The state that caused an event counts as seen: on the next connection, to a lagging member, no read is older. The event
// itself does not contain the zxid of its transaction (before ZooKeeper 3.9).
func TestNoReadIsOlderThanAnEvent(t *testing.T) {
	for name, between := range map[string]struct {
		wait   time.Duration
		losses int // connections to that member that are lost before its reply
		writes int // to make certain that the member has caught up
	}{
		"at once":             {0, 0, 1},
		"after a ping":        {4 * time.Second, 0, 0}, // whose reply contains the servers' latest zxid
		"after two more cuts": {0, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := zktest.RunEnsembleT(t, 3)
				require.NoError(t, e.AwaitSettled(t.Context()))
				leader := e.Leader()
				near, late := e.Member(leader), (leader+1)%3
				require.NoError(t, near.Create("/said", []byte("before")))
				require.NoError(t, near.Create("/watched", nil))
				c, err := New(near.Addr(), WithDialer(e.Dial), WithSessionTimeout(10*time.Second))
				require.NoError(t, err)
				defer func() { require.NoError(t, c.Close()) }()
				require.NoError(t, c.WaitConnected(t.Context()))
				_, watch, err := c.GetData().WithWatch().ForPath(t.Context(), "/watched")
				require.NoError(t, err)
				synctest.Wait()

				e.SetLag(late, 2*time.Second)
				require.NoError(t, near.Set("/said", []byte("after")))
				require.NoError(t, near.Delete("/watched"))
				assert.Equal(t, EventNodeDeleted, (<-watch.C).Type)
				time.Sleep(between.wait)
				e.Member(late).ResetCounts()
				lost := e.Member(late).Inject(zktest.Fault{Op: "multi", Action: zktest.CutBefore, Times: between.losses})
				if between.losses == 0 {
					lost.Remove()
				}
				require.NoError(t, c.SetServers(e.Member(late).Addr()))
				time.Sleep(time.Millisecond)
				got, err := c.GetData().ForPath(t.Context(), "/said")
				require.NoError(t, err)
				assert.Equal(t, "after", string(got))
				assert.Equal(t, between.writes, e.Member(late).Counts()["multi"])
				e.SetLag(late, 0)
			})
		})
	}
}
