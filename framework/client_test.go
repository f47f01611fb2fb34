package framework

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func TestNobodyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		srv.Stop()
		began := time.Now()
		c := dial(t, srv)
		assert.Zero(t, time.Since(began), "New does not wait")
		changes := c.StateChanges(t.Context())
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("start-up took too long"))
		defer cancel()
		err := c.WaitConnected(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNotConnected)
		for _, word := range []string{srv.Addr(), "connection refused", "start-up took too long"} {
			assert.ErrorContains(t, err, word)
		}
		assert.Equal(t, 20*time.Second, time.Since(began))
		assert.Equal(t, StateChange{}, c.State())
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case change := <-changes:
			t.Errorf("%v without ever having been connected", change)
		default:
		}
		assert.NoError(t, c.Close(), "there was no session to be closed")
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		s := connected(t, c)
		changes := c.StateChanges(t.Context())
		h := hold(t, s, "/lock", HoldOptions{})
		waiting := make(chan error, 1)
		srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/lock", Action: zktest.DropRequest})
		go func() {
			_, err := c.GetData().ForPath(context.Background(), "/lock")
			waiting <- err
		}()
		synctest.Wait()
		closing := srv.Inject(zktest.Fault{Op: "closeSession", Action: zktest.Hold})
		go c.Close()
		<-h.Context().Done()
		assert.ErrorIs(t, context.Cause(h.Context()), ErrClosed)
		<-closing.Struck()
		assert.True(t, srv.Exists("/lock"), "the hold ends before its node goes")
		closing.Release()
		assert.ErrorIs(t, <-waiting, ErrClosed)
		_ = c.Close() // waits for the other
		assert.Empty(t, srv.Sessions())
		for range changes { //nolint:revive // until it is closed
		}
		assert.ErrorIs(t, context.Cause(s.Context()), ErrClosed)

		ctx := t.Context()
		assert.ErrorIs(t, c.WaitConnected(ctx), ErrClosed)
		_, err := c.Session(ctx)
		assert.ErrorIs(t, err, ErrClosed)
		_, err = s.Client().Session(ctx)
		assert.ErrorIs(t, err, ErrClosed)
		_, err = s.Hold(ctx, HoldOptions{Path: "/lock"})
		assert.ErrorIs(t, err, ErrClosed)
		_, err = c.Create().ForPath(ctx, "/x", nil)
		assert.ErrorIs(t, err, ErrClosed)
		_, open := <-c.StateChanges(ctx)
		assert.False(t, open)
		c.Safety()
		c.State()
		assert.NotNil(t, c.Conn())
	})
}

func TestCloseIsQuickAndAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		began := time.Now()
		require.NoError(t, c.Close())
		assert.Less(t, time.Since(began), 100*time.Millisecond)
		assert.Empty(t, srv.Sessions())
		assert.NoError(t, c.Close())
	})
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		srv.Pause()
		began := time.Now()
		err := c.Close()
		assert.ErrorIs(t, err, ErrUnacknowledged)
		assert.LessOrEqual(t, time.Since(began), 5*time.Second+closeGrace)
		assert.Equal(t, err, c.Close())
		srv.Resume()
	})
}

func TestCloseWhileSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		srv.Stop()
		synctest.Wait()
		began := time.Now()
		assert.ErrorIs(t, c.Close(), ErrUnacknowledged)
		assert.Less(t, time.Since(began), 5*time.Second)
	})
}

func TestCloseWithADialerThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		stuck := make(chan struct{})
		c := dial(t, srv, WithDialer(func(context.Context, string, string) (net.Conn, error) {
			<-stuck
			return nil, errors.New("too late")
		}))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := c.CloseContext(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(began), time.Second+closeGrace)
		close(stuck)
	})
}

func TestNilContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, zktest.RunT(t))
		s := connected(t, c)
		var none context.Context
		assert.ErrorIs(t, c.WaitConnected(none), ErrNilContext)
		assert.ErrorIs(t, c.CloseContext(none), ErrNilContext)
		_, err := c.Session(none)
		assert.ErrorIs(t, err, ErrNilContext)
		_, err = s.Hold(none, HoldOptions{Path: "/x"})
		assert.ErrorIs(t, err, ErrNilContext)
		_, open := <-c.StateChanges(none)
		assert.False(t, open)
	})
}

func TestTwoClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		a, b := dial(t, srv), dial(t, srv)
		assert.NotEqual(t, connected(t, a).ID(), connected(t, b).ID())
		require.NoError(t, a.Close())
		_, err := b.Create().ForPath(t.Context(), "/b", nil)
		assert.NoError(t, err)
	})
}

func TestChrootAndNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		require.NoError(t, srv.Create("/app/ns", nil))
		c, err := New(srv.Addr()+"/app", WithDialer(srv.Dial), WithNamespace("ns"))
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Create().ForPath(t.Context(), "/x", nil)
		require.NoError(t, err)
		assert.True(t, srv.Exists("/app/ns/x"))
	})
}

// After a loss the next session is opened immediately: an operation that was in progress succeeds there.
func TestOperationOverALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithRetry(retry.RetryForever{Sleep: time.Second}))
		connected(t, c)
		srv.BlackHole(0, zktest.Both)
		go func() {
			time.Sleep(time.Minute)
			srv.Heal()
		}()
		_, err := c.Create().ForPath(t.Context(), "/x", nil)
		require.NoError(t, err)
		synctest.Wait() // states are announced on a goroutine of their own
		assert.Equal(t, int64(2), c.State().Epoch)
	})
}

func TestLogsKeepSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		var log bytes.Buffer
		c := dial(t, srv, WithAuth("digest", []byte("user:hush")),
			WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		s := connected(t, c)
		_, password := s.epoch.wire.Identity()
		srv.Expire(s.ID())
		<-s.Done()
		connected(t, c)
		require.NoError(t, c.Close())
		text := log.String()
		for _, want := range []string{"session=0x", "server=", "epoch=1", "epoch=2", "err="} {
			assert.Contains(t, text, want)
		}
		assert.NotContains(t, text, "hush")
		assert.NotContains(t, text, string(password))
	})
}

// After a loss the ephemeral nodes of a client may still exist at the server: Close must not return success then (found by
// the simulation).
func TestCloseAfterALossIsUnacknowledged(t *testing.T) {
	lost := func(t *testing.T, srv *zktest.Server, c *Client) {
		_, err := c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/here", nil)
		require.NoError(t, err)
		srv.BlackHole(0, zktest.Both)
		for c.State().State != Lost {
			time.Sleep(10 * time.Millisecond)
		}
		require.True(t, srv.Exists("/here"))
	}
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		lost(t, srv, c)
		assert.ErrorIs(t, c.Close(), ErrUnacknowledged)
		assert.ErrorIs(t, c.Close(), ErrUnacknowledged, "once more")
		srv.Heal()
	})
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		lost(t, srv, c)
		time.Sleep(30 * time.Second)
		assert.ErrorIs(t, c.Close(), ErrUnacknowledged,
			"it has expired, unless the server has been started anew, which nobody can know here")
		srv.Heal()
	})
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		lost(t, srv, c)
		srv.Heal()
		require.NoError(t, c.WaitConnected(t.Context()))
		assert.False(t, srv.Exists("/here"), "the next session has closed the last")
		assert.NoError(t, c.Close())
	})
}

// Close ends every pause between two tries immediately.
func TestCloseEndsPauses(t *testing.T) {
	patient := WithRetry(retry.RetryForever{Sleep: time.Hour})
	calls := map[string]func(ctx context.Context, c *Client, s *Session) error{
		"operation": func(ctx context.Context, c *Client, _ *Session) error {
			_, err := c.GetData().ForPath(ctx, "/a")
			return err
		},
		"of a session": func(ctx context.Context, _ *Client, s *Session) error {
			_, err := s.Client().GetData().ForPath(ctx, "/a")
			return err
		},
		"session soon": func(ctx context.Context, c *Client, _ *Session) error {
			_, err := c.SessionSoon(ctx)
			return err
		},
		"of a recipe": func(ctx context.Context, c *Client, s *Session) error {
			return c.Retry(ctx, func(context.Context) error {
				_, err := s.Client().Sync().InBackground().ForPath(ctx, "/a").Wait(ctx)
				return err
			})
		},
		"recipe's own": func(ctx context.Context, c *Client, _ *Session) error {
			c.Pause(ctx, time.Hour)
			return ErrClosed
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t)
				c := dial(t, srv, patient, WithSessionTimeout(40*time.Second), WithConnectionTimeout(5*time.Second))
				s := connected(t, c)
				srv.Stop()
				if name == "session soon" {
					time.Sleep(time.Minute) // there is no session any more
				} else {
					time.Sleep(time.Second)
				}
				done := make(chan error, 1)
				go func() { done <- call(t.Context(), c, s) }()
				time.Sleep(10 * time.Second) // that was the first try
				select {
				case err := <-done:
					require.FailNow(t, "over too early", err)
				default:
				}
				began := time.Now()
				_ = c.Close()
				assert.ErrorIs(t, <-done, ErrClosed)
				assert.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
			})
		})
	}
}

// A server that refuses to close the session has not closed it.
func TestCloseIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		_, err := c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/here", nil)
		require.NoError(t, err)
		srv.Inject(zktest.Fault{Op: "closeSession", Action: zktest.ReplyError, Err: zktest.ErrSystemError})
		assert.ErrorIs(t, c.Close(), ErrUnacknowledged)
		assert.True(t, srv.Exists("/here"))
	})
}

// A caller that keeps the view of a lost session, and takes the loss for temporary, gets ErrClosed once the client is
// closed.
func TestViewOfALostSessionAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		s := connected(t, c)
		srv.Expire(s.ID())
		<-s.Done()
		_, err := s.Client().GetData().ForPath(t.Context(), "/")
		assert.ErrorIs(t, err, ErrSessionLost)
		require.NoError(t, c.WaitConnected(t.Context()))
		require.NoError(t, c.Close())
		_, err = s.Client().GetData().ForPath(t.Context(), "/")
		assert.ErrorIs(t, err, ErrClosed)
	})
}
