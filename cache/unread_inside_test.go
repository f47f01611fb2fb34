package cache

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Who writes while a decoder takes its time fills no memory with that; and when the decoder is back, the
// cache is what the tree is.
func TestNoticesThatWaitForADecoder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c, err := framework.New(srv.Addr(), framework.WithDialer(srv.Dial))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.WaitConnected(t.Context()))
		require.NoError(t, srv.Create("/r", nil))
		free, slow := make(chan struct{}), sync.OnceFunc(func() {})
		tree, err := NewTree(c, "/r", WithDecoder(func(_ string, data []byte) ([]byte, error) {
			if string(data) == "slow" {
				slow()
			}
			return data, nil
		}))
		require.NoError(t, err)
		defer tree.Close()
		require.NoError(t, tree.WaitSynced(t.Context()))
		slow = sync.OnceFunc(func() { <-free })
		require.NoError(t, srv.Create("/r/slow", []byte("slow")))
		synctest.Wait()
		for i := range 3 * framework.WatchBacklog {
			require.NoError(t, srv.Set("/r", fmt.Append(nil, i)))
			if i%1000 == 0 {
				require.NoError(t, srv.Create(fmt.Sprintf("/r/n%d", i), nil))
			}
		}
		require.NoError(t, srv.Delete("/r/n0"))
		synctest.Wait()
		waiting := tree.e.inbox.Take()
		assert.LessOrEqual(t, len(waiting), framework.WatchBacklog+10)
		for _, f := range waiting {
			tree.e.post(f)
		}
		close(free)
		time.Sleep(5 * time.Second)
		require.NoError(t, tree.WaitSynced(t.Context()))
		kids, err := c.GetChildren().ForPath(t.Context(), "/r")
		require.NoError(t, err)
		assert.Equal(t, len(kids)+1, tree.Len())
		root, _ := tree.Get("/r")
		assert.Equal(t, fmt.Sprint(3*framework.WatchBacklog-1), string(root.Data))
		w := tree.e.way.(*persistentWay)
		assert.Zero(t, w.unread.events.Load())
		assert.Zero(t, w.unread.bytes.Load())
	})
}
