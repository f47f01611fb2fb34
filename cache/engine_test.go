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
