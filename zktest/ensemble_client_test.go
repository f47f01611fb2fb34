package zktest_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// A client that allows read-only members reads from a member without a quorum, and moves to one with a quorum when it
// can.
func TestClientOnAReadOnlyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{ReadOnlyMode: true, LocalSessions: true})
		require.NoError(t, e.Member(0).Create("/a", []byte("x")))
		e.Partition(0)
		time.Sleep(20 * time.Second)
		var onlyFirst atomic.Bool // the client's network
		onlyFirst.Store(true)
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if onlyFirst.Load() && addr != e.Member(0).Addr() {
				return nil, syscall.EHOSTUNREACH
			}
			return e.Dial(ctx, network, addr)
		}
		client, err := framework.New(e.ConnectString(), framework.WithDialer(dial), framework.WithReadOnly())
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, client.WaitConnected(t.Context()))
		assert.Equal(t, framework.ReadOnly, client.State().State)
		data, err := client.GetData().ForPath(t.Context(), "/a")
		require.NoError(t, err)
		assert.Equal(t, "x", string(data))
		_, err = client.SetData().ForPath(t.Context(), "/a", []byte("y"))
		require.ErrorIs(t, err, framework.ErrNotReadOnly)

		onlyFirst.Store(false)
		e.HealPeers()
		time.Sleep(20 * time.Second)
		assert.NotEqual(t, framework.ReadOnly, client.State().State)
		_, err = client.SetData().ForPath(t.Context(), "/a", []byte("y"))
		require.NoError(t, err)
	})
}
