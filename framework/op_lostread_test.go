package framework

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// A read changes nothing: its outcome is never unknown, whether the caller gave up or the reply was lost.
func TestAReadHasNoUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		make1(t, c, "/a", "")
		type read struct {
			op string
			do func(ctx context.Context) error
		}
		reads := map[string]read{
			"background": {"getData", func(ctx context.Context) error {
				return second(c.GetData().InBackground().ForPath(ctx, "/a").Wait(context.Background()))
			}},
			"wait": {"getData", func(ctx context.Context) error {
				return second(c.GetData().InBackground().ForPath(t.Context(), "/a").Wait(ctx))
			}},
		}
		for _, o := range everyOperation {
			switch o.op {
			case "exists", "getData", "getChildren2", "getACL", "multiRead", "sync":
				if o.name != "getConfig" { // not of /a
					reads[o.name] = read{o.op, func(ctx context.Context) error { return o.do(ctx, c) }}
				}
			}
		}
		for name, read := range reads {
			connected(t, c)
			// the path excludes the library's own read after a reconnect
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
