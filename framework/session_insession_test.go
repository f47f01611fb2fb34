package framework

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func TestInSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		require.NoError(t, c.InSession(ctx, func(ctx context.Context, s *Session) error {
			_, err := s.Client().Create().WithMode(Ephemeral).ForPath(ctx, "/a", nil)
			return err
		}))
		mine := errors.New("mine")
		assert.Equal(
			t, mine, c.InSession(ctx, func(context.Context, *Session) error { return mine }),
			"f's own error, as it is",
		)
		assert.ErrorIs(t, c.InSession(ctx, nil), ErrBadArguments)
		var none context.Context
		assert.ErrorIs(t, c.InSession(none, func(context.Context, *Session) error { return nil }), ErrNilContext)

		// The session ends in the middle: f's context ends, and its next step is not executed in the next session.
		var epoch int64
		err := c.InSession(ctx, func(ctx context.Context, s *Session) error {
			epoch = s.Epoch()
			srv.Expire(s.ID())
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), ErrSessionLost)
			_, err := s.Client().Create().ForPath(t.Context(), "/b", nil)
			assert.ErrorIs(t, err, ErrSessionLost)
			return nil // f may not have noticed the end
		})
		assert.ErrorIs(t, err, ErrSessionLost)
		assert.NotContains(t, srv.Tree(), "/b")

		// InSession with retries runs f again from the start, as Mode.RETRY does.
		var epochs []int64
		require.NoError(t, retry.Do(ctx, retry.RetryNTimes{
			Retries: 3, Sleep: time.Second,
		}, func(ctx context.Context) error {
			return c.InSession(ctx, func(ctx context.Context, s *Session) error {
				if epochs = append(epochs, s.Epoch()); len(epochs) == 1 {
					srv.Expire(s.ID())
					<-s.Done()
					return mine
				}
				return nil
			})
		}, retry.WithRetryable(func(err error) bool { return errors.Is(err, ErrSessionLost) })))
		assert.Equal(t, []int64{epoch + 1, epoch + 2}, epochs)
	})
}

func TestInSessionWhenClosed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		begun, got := make(chan struct{}), make(chan error)
		go func() {
			got <- c.InSession(t.Context(), func(ctx context.Context, s *Session) error {
				close(begun)
				<-ctx.Done()
				return nil
			})
		}()
		<-begun
		require.NoError(t, c.Close())
		assert.ErrorIs(t, <-got, ErrClosed)
		assert.ErrorIs(t, c.InSession(t.Context(), func(context.Context, *Session) error { return nil }), ErrClosed)
	})
}

func TestUsingRetry(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		make1(t, c, "/a", "")
		quick := c.UsingRetry(retry.RetryNTimes{})
		busy := srv.Inject(
			zktest.Fault{Op: "getData", Times: -1, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp},
		)
		began := time.Now()
		_, err := quick.GetData().ForPath(ctx, "/a")
		assert.ErrorIs(t, err, ErrThrottled)
		assert.Equal(t, 1, busy.Hits())
		assert.Zero(t, time.Since(began))

		// The retry policy also holds in views of this view, until UsingRetry replaces it.
		_, err = quick.UsingNamespace("a").GetData().ForPath(ctx, "/")
		assert.ErrorIs(t, err, ErrThrottled)
		assert.Equal(t, 2, busy.Hits())
		s, err := quick.Session(ctx)
		require.NoError(t, err)
		assert.Equal(t, retry.RetryNTimes{}, s.Client().view.retry)
		_, err = quick.UsingRetry(retry.RetryNTimes{Retries: 2}).GetData().ForPath(ctx, "/a")
		assert.ErrorIs(t, err, ErrThrottled)
		assert.Equal(t, 5, busy.Hits())
		assert.Nil(t, quick.UsingRetry(nil).view.retry, "the client's own")
	})
}

// The error also contains the error that the function returned after the end of its session.
func TestInSessionReturnsBothErrors(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		mine := errors.New("mine")
		err := c.InSession(t.Context(), func(ctx context.Context, s *Session) error {
			srv.Expire(s.ID())
			<-ctx.Done()
			return mine
		})
		assert.ErrorIs(t, err, mine)
		assert.ErrorIs(t, err, ErrSessionLost)
	})
}

// The time limit of a try is the client's, not the caller's.
func TestSessionSoonWithoutAServer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		id := connected(t, c).ID()
		srv.Stop()
		time.Sleep(time.Minute) // the session is lost
		_, err := c.SessionSoon(t.Context())
		assert.ErrorIs(t, err, ErrNotConnected)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.SessionSoon(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		require.NoError(t, srv.Start())
		require.NoError(t, c.WaitConnected(t.Context()))
		s, err := c.SessionSoon(t.Context())
		require.NoError(t, err)
		assert.NotEqual(t, id, s.ID())
	}, WithConnectionTimeout(2*time.Second), WithRetry(retry.RetryNTimes{}))
}

func TestSessionsInText(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Server, c *Client) {
		assert.Equal(t, "{ZooKeeper session of epoch 1}", fmt.Sprint(*connected(t, c)))
		assert.Equal(t, "{no ZooKeeper session}", fmt.Sprint(Session{}))
	})
}
