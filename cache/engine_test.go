package cache

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// The callback of an answer is registered when the request is on its way, so that it may be called behind that of a later event. The server's zxid of
// before the last gap must not be taken for that of behind it.
func TestALateAnswerAboutAnEarlierGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{})
		require.NoError(t, srv.Create("/r", nil))
		client, err := framework.New(srv.Addr(), framework.WithDialer(srv.Dial))
		require.NoError(t, err)
		defer client.Close()
		c, err := New(client, "/r")
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.WaitSynced(t.Context()))
		open := make(chan bool, 1)
		c.e.post(func() {
			c.e.gap()
			late := c.e.probes
			c.e.gap()
			c.e.probed(late, c.e.zxid, nil)
			open <- c.e.probing
		})
		assert.True(t, <-open, "it is still open what the last gap has hidden")
		require.NoError(t, c.WaitSynced(t.Context()))
	})
}

// A question that came to nothing is asked again, whether a reconnect follows or not.
func TestAQuestionThatCameToNothing(t *testing.T) {
	for _, err := range []error{framework.ErrNotConnected, framework.ErrConnectionLoss, fmt.Errorf("%w: %w", framework.ErrAuthFailed, framework.ErrNotConnected)} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.RunT(t, zktest.Config{})
			require.NoError(t, srv.Create("/r", nil))
			client, clientErr := framework.New(srv.Addr(), framework.WithDialer(srv.Dial))
			require.NoError(t, clientErr)
			defer client.Close()
			c, cacheErr := New(client, "/r")
			require.NoError(t, cacheErr)
			defer c.Close()
			require.NoError(t, c.WaitSynced(t.Context()))
			asked := make(chan struct{})
			c.e.post(func() {
				c.e.gap()
				c.e.probes++ // the true answer is to another question
				c.e.probed(c.e.probes, 0, err)
				close(asked)
			})
			<-asked
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, c.WaitSynced(ctx), "after %v", err)
		})
	}
}

// Also when changes are shown as they are read: what is created below a node that was made anew while there was no connection was never below the old one.
func TestAChildOfAnotherNodeInALooseCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{})
		require.NoError(t, srv.Create("/r/0", nil))
		client, err := framework.New(srv.Addr(), framework.WithDialer(srv.Dial))
		require.NoError(t, err)
		defer client.Close()
		c, err := New(client, "/r")
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.WaitSynced(t.Context()))
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for ev, err := range c.Events(ctx) {
				if err == nil && ev.Type != ConnectionChanged {
					got = append(got, ev.String())
				}
			}
		}()
		synctest.Wait()
		got = nil
		hold := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.Hold})
		srv.Cut(0)
		require.NoError(t, srv.DeleteAll("/r"))
		require.NoError(t, srv.Create("/r", nil))
		<-hold.Struck() // the question whether anything was missed
		require.NoError(t, srv.Create("/r/1", nil))
		synctest.Wait()
		c.e.post(func() {
			c.e.loose, c.e.reads.most = true, 1 // nothing is read together
			c.e.store.record(false)
		})
		hold.Release()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"Deleted /r/0", "Deleted /r", "Created /r", "Created /r/1"}, got)
	})
}

// Where changes come as fast as they can be read the queue is never empty. It takes memory for what stands in it, and not for all that ever did.
func TestAQueueThatIsNeverEmptyStaysSmall(t *testing.T) {
	var r reads
	nodes := make([]node, 100)
	for i := range nodes {
		r.push(op{&nodes[i], readData})
	}
	for i := range 100_000 {
		o, ok := r.pop()
		require.True(t, ok)
		require.Same(t, &nodes[i%len(nodes)], o.n, "in their order")
		r.push(o)
		require.Equal(t, len(nodes), r.waiting())
	}
	assert.Less(t, cap(r.queue), 10*len(nodes))
}
