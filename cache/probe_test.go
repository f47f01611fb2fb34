package cache_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Whoever has something else under way may keep a cache from asking what it has missed, for longer than a
// request waits for its turn. There is no next reconnect to be waited for then.
func TestAQuestionThatWasNotSent(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
		create(t, srv, "/r/a", "/other")
		gate := make(chan struct{}, 100)
		gate <- struct{}{}
		gated := func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-gate:
				return srv.Dial(ctx, network, addr)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		c := dial(t, srv, framework.WithWindow(1), framework.WithConnectionTimeout(time.Second),
			framework.WithDialer(gated))
		tree := open(t, c, "/r")
		settle()
		srv.Cut(0)
		create(t, srv, "/r/missed")
		time.Sleep(500 * time.Millisecond)
		hold := srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/other", Action: zktest.HoldReply})
		// will be the first on the new connection
		first := c.GetData().InBackground().ForPath(t.Context(), "/other")
		gate <- struct{}{}
		<-hold.Struck()
		time.Sleep(2 * time.Second)
		hold.Release()
		_, err := first.Wait(t.Context())
		require.NoError(t, err)
		require.NoError(t, srv.Set("/r/a", []byte("new")))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.True(t, tree.Progress().Synced)
		same(t, srv, tree)
	})
}
