package framework

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// A read changes nothing: nobody has to ask what became of one that was given up, or whose reply was lost.
func TestAReadHasNoUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		make1(t, c, "/a", "")
		for name, read := range map[string]struct {
			op string
			do func(ctx context.Context) error
		}{
			"exists": {
				"exists", func(ctx context.Context) error { _, err := c.CheckExists().ForPath(ctx, "/a"); return err },
			},
			"data": {
				"getData", func(ctx context.Context) error { _, err := c.GetData().ForPath(ctx, "/a"); return err },
			},
			"children": {
				"getChildren2",
				func(ctx context.Context) error { _, err := c.GetChildren().ForPath(ctx, "/a"); return err },
			},
			"acl": {
				"getACL", func(ctx context.Context) error { _, err := c.GetACL().ForPath(ctx, "/a"); return err },
			},
			"sync": {"sync", func(ctx context.Context) error { return c.Sync().ForPath(ctx, "/a") }},
			"many": {
				"multiRead",
				func(ctx context.Context) error { return second(c.MultiRead().ForReads(ctx, ReadData("/a"))) },
			},
			"background": {"getData", func(ctx context.Context) error {
				return second(c.GetData().InBackground().ForPath(ctx, "/a").Wait(context.Background()))
			}},
			"wait": {"getData", func(ctx context.Context) error {
				return second(c.GetData().InBackground().ForPath(t.Context(), "/a").Wait(ctx))
			}},
		} {
			connected(t, c)
			// not the library's own question after a reconnect
			hang := srv.Inject(zktest.Fault{Op: read.op, PathPrefix: "/a", Action: zktest.HoldReply})
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error, 1)
			go func() { got <- read.do(ctx) }()
			<-hang.Struck()
			cancel()
			err := <-got
			hang.Release()
			hang.Remove()
			assert.ErrorIs(t, err, context.Canceled, name)
			assert.NotErrorIs(t, err, ErrOutcomeUnknown, name)
			assert.NotContains(t, err.Error(), "may or may not", name)
			assert.ErrorContains(t, err, "waiting for the reply", name)
			if name == "wait" {
				continue
			}
			connected(t, c)
			srv.Inject(zktest.Fault{Op: read.op, PathPrefix: "/a", Action: zktest.LoseReply})
			err = read.do(t.Context())
			assert.ErrorIs(t, err, ErrConnectionLoss, name)
			assert.ErrorIs(t, err, zk.ErrConnectionClosed, name)
			assert.NotErrorIs(t, err, ErrOutcomeUnknown, name)
			assert.NotContains(t, err.Error(), "may or may not", name)
		}
		connected(t, c)
		hang := srv.Inject(zktest.Fault{Op: "setData", Action: zktest.HoldReply})
		ctx, cancel := context.WithCancel(t.Context())
		set := c.SetData().InBackground().ForPath(t.Context(), "/a", nil)
		<-hang.Struck()
		cancel()
		assert.ErrorIs(t, second(set.Wait(ctx)), ErrOutcomeUnknown, "of a write it is as ever")
		hang.Release()
	}, WithRetry(retry.RetryNTimes{}))
}
