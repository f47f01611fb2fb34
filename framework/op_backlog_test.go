package framework

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// The number of queued operations is limited: one too many fails immediately, with an error that reports the limit, and was
// not sent.
func TestBackgroundLimit(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		const most = 10
		ctx := t.Context()
		make1(t, c, "/q", "")
		srv.Delay(0, time.Second)
		var all []*Pending[CreateResult]
		for i := range most {
			all = append(all, c.Create().InBackground().ForPath(ctx, fmt.Sprintf("/q/%d", i), nil))
		}
		more := c.UsingNamespace("q").Create().InBackground().ForPath(ctx, "/more", nil)
		select {
		case <-more.Done():
		default:
			t.Fatal("it waits")
		}
		_, err := more.Wait(ctx)
		require.ErrorIs(t, err, ErrBackgroundFull)
		assert.False(t, Retryable(err))
		kept := c.Delete().Guaranteed().Quietly().InBackground().ForPath(ctx, "/q/kept")
		recipes := c.ForRecipes().CheckExists().InBackground().ForPath(ctx, "/q")
		names, err := c.GetChildren().ForPath(ctx, "/q")
		require.NoError(t, err, "the foreground has no limit")
		assert.Len(t, names, most)
		for _, p := range all {
			_, err := p.Wait(ctx)
			require.NoError(t, err)
		}
		_, err = kept.Wait(ctx)
		require.NoError(t, err)
		_, err = recipes.Wait(ctx)
		require.NoError(t, err)
		for range 3 * most {
			_, err = c.SetData().InBackground().ForPath(ctx, "/q", nil).Wait(ctx)
			require.NoError(t, err, "there is room again")
		}
		assert.Zero(t, c.core.ops.backgroundCount.Load())
	}, func(o *options) error { o.background = 10; return nil })
}
