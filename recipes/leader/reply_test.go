package leader_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// A leader whose ID is too large for a reply is reported all the same, and so is the end of its term.
func TestObservingALeaderWhoseIDFitsInNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{MaxFrame: 4 << 20})
		c, evil := newClient(t, s, framework.WithMaxReply(1<<20)), newClient(t, s, framework.WithMaxFrame(4<<20))
		node, err := evil.Create().CreatingParentsIfNeeded().WithMode(framework.EphemeralSequential).
			ForPath(t.Context(), "/leader/latch-", make([]byte, 3<<20))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := 0
		for now, err := range leader.Observe(ctx, c, "/leader") {
			require.NoError(t, err)
			if seen++; seen == 2 {
				assert.True(t, now.Nobody)
				break
			}
			assert.Equal(t, node, now.Leader.Path)
			assert.NotZero(t, now.Leader.SessionID)
			assert.ErrorIs(t, now.Leader.DataErr, framework.ErrDataTooLarge)
			require.NoError(t, evil.Delete().ForPath(ctx, node))
		}
	})
}

// The leader's ID is too large for a reply. Before the observer has read the node's properties, the server fails, which is
// reported, and the node is deleted, which is no error.
func TestObservingALeaderWithALongIDWhoseNodeIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{MaxFrame: 4 << 20})
		c := newClient(t, s, framework.WithMaxReply(1<<20))
		const node = path + "/latch-0000000001"
		require.NoError(t, s.Create(node, make([]byte, 3<<20)))
		fails := s.Inject(zktest.Fault{
			Op: zktest.OpExists, PathPrefix: node, Action: zktest.ReplyError, Err: zktest.ErrSystemError,
		})
		deleted := s.Inject(zktest.Fault{Op: zktest.OpExists, PathPrefix: node, Action: zktest.Hold})
		seen := observe(t, c, path)
		<-deleted.Struck()
		require.Equal(t, 1, fails.Hits())
		require.Len(t, seen.errs, 1)
		require.ErrorContains(t, <-seen.errs, "system error")
		require.NoError(t, s.Delete(node))
		deleted.Release()
		seen.next(t, "nobody")
		require.Empty(t, seen.errs)
		synctest.Wait()
		require.Len(t, s.Watches(), 1, "on the directory")
	})
}
