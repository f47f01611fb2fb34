package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// A contender is the first in the line, but by a list from a member without a quorum, which its client accepts. There it cannot
// hold. It waits for a member with a quorum, and does not list repeatedly (found by the simulation: it did, without a pause).
func TestFirstInLineAtAReadOnlyMember(t *testing.T) {
	type release func(context.Context) error
	for name, tc := range map[string]struct {
		lists   int // lists to skip: those after the create
		acquire func(context.Context, *framework.Client) (release, error)
	}{
		"mutex": {0, func(ctx context.Context, c *framework.Client) (release, error) {
			lock, err := mutex.New(c, "/lock", mutex.WithLossPolicy(framework.SuspendedIsLoss)).Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return lock.Release, nil
		}},
		"semaphore": {1, func(ctx context.Context, c *framework.Client) (release, error) {
			lease, err := semaphore.New(c, "/semaphore", 2, semaphore.WithLossPolicy(framework.SuspendedIsLoss)).
				Acquire(ctx, 1)
			if err != nil {
				return nil, err
			}
			return lease.Release, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := zktest.RunEnsembleT(t, 3, zktest.Config{ReadOnlyMode: true, LocalSessions: true})
				member := (e.Leader() + 1) % 3
				c, err := framework.New(e.Member(member).Addr(), framework.WithDialer(e.Dial),
					framework.WithSessionTimeout(40*time.Second), framework.WithReadOnly())
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.WaitConnected(t.Context()))
				warm, err := tc.acquire(t.Context(), c)
				require.NoError(t, err)
				require.NoError(t, warm(t.Context()))

				list := e.Member(member).Inject(zktest.Fault{Op: "getChildren2", Action: zktest.HoldReply,
					After: tc.lists, Times: -1})
				got := make(chan release, 1)
				go func() {
					release, err := tc.acquire(t.Context(), c)
					assert.NoError(t, err)
					got <- release
				}()
				<-list.Struck()
				synctest.Wait()
				e.Partition(member, e.Leader(), (e.Leader()+2)%3)
				list.Remove() // the held replies are lost with the connection
				for c.State().State != framework.ReadOnly {
					time.Sleep(10 * time.Millisecond)
				}
				began := time.Now()
				e.Member(member).ResetCounts()
				time.Sleep(5 * time.Second)
				require.Equal(t, framework.ReadOnly, c.State().State)
				assert.LessOrEqual(t, e.Member(member).Counts()["getChildren2"], 2, "lists in %v", time.Since(began))
				require.Empty(t, got)
				require.NoError(t, e.Heal())
				release := <-got
				assert.Less(t, time.Since(began), 20*time.Second)
				if assert.NotNil(t, release) {
					assert.NoError(t, release(t.Context()))
				}
			})
		})
	}
}
