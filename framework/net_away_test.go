package framework

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// Every call that waits until the end of its context names the operation and the path, and why there is no connection;
// errors.Is finds the context's end in it.
func TestADeadlineSaysWhyThereIsNoConnection(t *testing.T) {
	waits := map[string]func(ctx context.Context, c *Client) error{
		"getData /x": func(ctx context.Context, c *Client) error {
			_, err := c.GetData().ForPath(ctx, "/x")
			return err
		},
		"create /x": func(ctx context.Context, c *Client) error {
			_, err := c.Create().ForPath(ctx, "/x", nil)
			return err
		},
		"delete /x": func(ctx context.Context, c *Client) error { return c.Delete().ForPath(ctx, "/x") },
		"sync /x": func(ctx context.Context, c *Client) error {
			_, err := c.Sync().InBackground().ForPath(ctx, "/x").Wait(context.Background())
			return err
		},
		"exists /x": func(ctx context.Context, c *Client) error {
			_, err := c.CheckExists().InBackground().ForPath(context.Background(), "/x").Wait(ctx)
			return err
		},
		"transaction": func(ctx context.Context, c *Client) error {
			_, err := c.Transaction(ctx, c.TransactionOp().Check().ForPath("/x"))
			return err
		},
		"multiRead": func(ctx context.Context, c *Client) error {
			_, err := c.MultiRead().ForReads(ctx, ReadData("/x"))
			return err
		},
		"not connected": func(ctx context.Context, c *Client) error { return c.WaitConnected(ctx) },
	}
	check := func(t *testing.T, srv *zktest.Server, c *Client, what string,
		wait func(context.Context, *Client) error) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errors.New("too slow"))
		defer cancel()
		began := time.Now()
		err := wait(ctx, c)
		assert.Equal(t, 3*time.Second, time.Since(began))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, word := range []string{what, srv.Addr(), "too slow", "connection refused"} {
			assert.ErrorContains(t, err, word)
		}
		saidOnce(t, err)
	}
	for what, wait := range waits {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t)
				srv.Stop()
				check(t, srv, dial(t, srv), what, wait)
			})
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				srv.Stop()
				synctest.Wait()
				check(t, srv, c, what, wait)
			})
		})
	}
}

// The error also reports a first attempt that has not ended yet.
func TestADeadlineDuringTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.GetData().ForPath(ctx, "/x")
		assert.ErrorContains(t, err, "no connection to "+srv.Addr()+": the first attempt is in progress")
	})
}

// The time limit of an attempt to connect is not reported as the caller's deadline.
func TestATimeLimitOfAnAttemptIsNobodysDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithConnectionTimeout(10*time.Second), WithRetry(retry.RetryNTimes{}),
			WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
			}))
		_, err := c.GetData().ForPath(t.Context(), "/x")
		require.ErrorIs(t, err, ErrNotConnected)
		assert.ErrorContains(t, err, "last attempt: "+srv.Addr()+": dial tcp: timed out")
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		var op *net.OpError
		assert.ErrorAs(t, err, &op, "but it is there")
	})
	err := error(&attemptError{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}})
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// The error contains "not connected yet" only if the client never was connected.
func TestNotConnectedYetIsForTheFirstTime(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		srv.Stop()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.WaitConnected(ctx)
		require.ErrorIs(t, err, ErrNotConnected)
		assert.NotContains(t, err.Error(), "yet")
		assert.ErrorContains(t, err, "not connected at present")
	})
}

func TestTheCauseOfAContextIsToldOnce(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the shop is closed"))
	assert.EqualError(t, unsentError(ctx), "context canceled (the shop is closed): the operation was not "+
		"executed")
	assert.EqualError(t, (&Client{}).WaitError(ctx, nil), "context canceled (the shop is closed)")
}
