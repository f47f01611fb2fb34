package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// With a server tick of one second and a timeout of three, clients can hold although no option gives the tick. A member
// that is cut off from its leader, and continues to reply, does not deceive them: the hold ends before its node is deleted.
func TestAShortTimeoutNeedsNoTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{TickTime: time.Second, SyncLimit: 10})
		require.NoError(t, e.AwaitSettled(t.Context()))
		follower := (e.Leader() + 1) % e.Size()
		c, err := New(e.Member(follower).Addr(), WithDialer(e.Dial), WithSessionTimeout(3*time.Second))
		require.NoError(t, err)
		defer c.Close()
		h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
		for range 60 {
			time.Sleep(time.Second)
			require.True(t, h.Valid())
		}
		other, err := New(e.Member(e.Leader()).Addr(), WithDialer(e.Dial))
		require.NoError(t, err)
		defer other.Close()
		_, node, err := other.CheckExists().WithWatch().ForPath(t.Context(), "/lock")
		require.NoError(t, err)
		e.Partition(follower)
		cut := time.Now()
		<-h.Context().Done()
		ended := time.Since(cut)
		assert.Equal(t, Event{Type: EventNodeDeleted, Path: "/lock"}, <-node.C)
		gone := time.Since(cut)
		t.Logf("the hold ended after %v, its node after %v", ended, gone)
		assert.Less(t, ended, gone)
	})
}
