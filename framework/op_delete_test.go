package framework

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func TestDelete(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		make1(t, c, "/a", "")
		_, err := c.SetData().ForPath(ctx, "/a", []byte("x"))
		require.NoError(t, err)
		assert.ErrorIs(t, c.Delete().WithVersion(0).ForPath(ctx, "/a"), ErrBadVersion)
		assert.NoError(t, c.Delete().WithVersion(1).ForPath(ctx, "/a"))
		assert.ErrorIs(t, c.Delete().ForPath(ctx, "/a"), ErrNoNode)
		assert.NoError(t, c.Delete().Quietly().ForPath(ctx, "/a"))
		assert.NoError(t, errOf(c.Delete().Quietly().InBackground().ForPath(ctx, "/a").Wait(ctx)))
		assert.ErrorIs(t, errOf(c.Delete().InBackground().ForPath(ctx, "/a").Wait(ctx)), ErrNoNode)
		assert.Empty(t, srv.Tree()["/a"])
	})
}

func TestDeleteChildren(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		grow := func() {
			for i := range 300 {
				make1(t, c, fmt.Sprintf("/a/%d", i), "")
			}
			for _, p := range []string{"/a/b/c/d/e", "/a/b/c/f", "/a/g/h"} {
				make1(t, c, p, "")
			}
		}
		grow()
		assert.ErrorIs(t, c.Delete().DeletingChildrenIfNeeded().WithVersion(9).ForPath(ctx, "/a"), ErrBadVersion)
		assert.Len(t, srv.Tree(), 309, "a version conflict is seen before anything is deleted")
		require.NoError(t, c.Delete().DeletingChildrenIfNeeded().WithVersion(0).ForPath(ctx, "/a"))
		assert.Len(t, srv.Tree(), 1)
		grow()
		require.NoError(t, errOf(c.Delete().DeletingChildrenIfNeeded().InBackground().ForPath(ctx, "/a").Wait(ctx)))
		assert.Len(t, srv.Tree(), 1)

		make1(t, c, "/a"+strings.Repeat("/deep", 100), "")
		require.NoError(t, c.Delete().DeletingChildrenIfNeeded().ForPath(ctx, "/a"))
		assert.Len(t, srv.Tree(), 1)

		// Other clients delete nodes of the subtree while the client deletes it, and add new ones.
		make1(t, c, "/a/x/y", "")
		hold := srv.Inject(zktest.Fault{Op: "delete", PathPrefix: "/a/x/y", Action: zktest.Hold})
		done := c.Delete().DeletingChildrenIfNeeded().InBackground().ForPath(ctx, "/a")
		<-hold.Struck()
		other := dial(t, srv)
		require.NoError(t, other.Delete().ForPath(ctx, "/a/x/y"))
		make1(t, other, "/a/x/z", "")
		make1(t, other, "/a/w/z", "")
		hold.Release()
		require.NoError(t, errOf(done.Wait(ctx)))
		assert.Len(t, srv.Tree(), 1)

		// A node that may not be deleted makes the delete fail.
		make1(t, c, "/a/x", "")
		_, err := c.SetACL().WithACL(ReadACL()...).ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.ErrorIs(t, c.Delete().DeletingChildrenIfNeeded().ForPath(ctx, "/a"), ErrNoAuth)
	})
}

func TestDeleteAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		for i, tc := range []struct {
			name   string
			b      DeleteBuilder
			action zktest.Action
			want   error
		}{
			{"executed", c.Delete(), zktest.LoseReply, ErrConnectionLoss},
			{"executed, with a version", c.Delete().WithVersion(0), zktest.LoseReply, ErrConnectionLoss},
			{"executed, guaranteed", c.Delete().Guaranteed(), zktest.LoseReply, ErrConnectionLoss},
			{"executed, quietly", c.Delete().Quietly(), zktest.LoseReply, nil},
			{"not executed", c.Delete().WithVersion(0), zktest.CutBefore, nil},
		} {
			path := fmt.Sprintf("/a%d", i)
			make1(t, c, path, "")
			srv.Inject(zktest.Fault{Op: "delete", PathPrefix: path, Action: tc.action})
			err := tc.b.ForPath(ctx, path)
			if tc.want == nil {
				assert.NoError(t, err, tc.name)
			} else {
				assert.ErrorIs(t, err, tc.want, tc.name)
				assert.ErrorIs(t, err, ErrOutcomeUnknown, tc.name)
				assert.NotErrorIs(t, err, ErrNoNode, tc.name)
			}
			assert.NotContains(t, srv.Tree(), path, tc.name)
			assert.Zero(t, c.PendingCleanups(), tc.name)
		}

		// Another client creates the node again in between, with another version: it stays, and the error is the lost
		// connection.
		make1(t, c, "/v", "")
		_, err := c.SetData().ForPath(ctx, "/v", nil)
		require.NoError(t, err)
		other := dial(t, srv)
		connected(t, other)
		lost := srv.Inject(zktest.Fault{Op: "delete", PathPrefix: "/v", Action: zktest.LoseReply})
		done := make(chan error, 1)
		go func() { done <- c.Delete().WithVersion(1).ForPath(ctx, "/v") }()
		<-lost.Struck()
		synctest.Wait()
		make1(t, other, "/v", "")
		err = <-done
		assert.ErrorIs(t, err, ErrConnectionLoss)
		assert.NotErrorIs(t, err, ErrBadVersion)
		assert.Contains(t, srv.Tree(), "/v")
	})
}

// A guaranteed delete is executed as soon as that is possible, after the caller has given up or stopped waiting; with its
// version, with its children.
func TestGuaranteedDeleteOverAnOutage(t *testing.T) {
	for name, leave := range map[string]func(b DeleteBuilder, c *Client) error{
		"gives up": func(b DeleteBuilder, c *Client) error { return b.ForPath(context.Background(), "/a") },
		"leaves": func(b DeleteBuilder, c *Client) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return b.ForPath(ctx, "/a")
		},
		"has left before": func(b DeleteBuilder, c *Client) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return b.ForPath(ctx, "/a")
		},
		"is in the background": func(b DeleteBuilder, c *Client) error {
			return errOf(b.InBackground().ForPath(context.Background(), "/a").Wait(context.Background()))
		},
		"leaves in the background": func(b DeleteBuilder, c *Client) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return errOf(b.InBackground().ForPath(ctx, "/a").Wait(context.Background()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				make1(t, c, "/a/b/c", "")
				other := dial(t, srv)
				connected(t, other)
				srv.Stop()
				synctest.Wait()
				b := c.Delete().Guaranteed().DeletingChildrenIfNeeded().WithVersion(0)
				require.ErrorContains(t, leave(b, c), "the client continues the delete in the background")
				assert.Equal(t, 1, c.PendingCleanups())
				require.Error(t, leave(b, c))
				assert.Equal(t, 1, c.PendingCleanups(), "the same request is kept once")
				require.NoError(t, srv.Start())
				connected(t, c)
				time.Sleep(5 * time.Second)
				assert.Len(t, srv.Tree(), 1)
				assert.Zero(t, c.PendingCleanups())

				// A newer version is not deleted.
				make1(t, c, "/a", "")
				_, err := c.SetData().ForPath(t.Context(), "/a", nil)
				require.NoError(t, err)
				srv.Stop()
				synctest.Wait()
				require.Error(t, leave(b, c))
				require.NoError(t, srv.Start())
				connected(t, c)
				time.Sleep(5 * time.Second)
				assert.Contains(t, srv.Tree(), "/a")
				assert.Zero(t, c.PendingCleanups())
			}, WithRetry(retry.RetryNTimes{}), WithConnectionTimeout(2*time.Second),
				WithSessionTimeout(40*time.Second))
		})
	}
}

// The request is repeated until it is executed, also after the loss of a session.
func TestGuaranteedDeleteIsStubborn(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		make1(t, c, "/a", "")
		srv.Inject(zktest.Fault{Op: "delete", Times: 5, Action: zktest.CutBefore})
		srv.Inject(
			zktest.Fault{Op: "delete", Times: 2, Action: zktest.ReplyError, Err: zktest.Error(jute.CodeThrottledOp)},
		)
		require.Error(t, c.Delete().Guaranteed().ForPath(t.Context(), "/a"))
		time.Sleep(time.Second)
		srv.BlackHole(0, zktest.Both)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, c.PendingCleanups())
		srv.Heal()
		time.Sleep(time.Minute)
		assert.Equal(t, int64(2), c.State().Epoch)
		assert.NotContains(t, srv.Tree(), "/a")
		assert.Zero(t, c.PendingCleanups())
	}, WithRetry(retry.RetryNTimes{}))
}

// A caller that stops waiting while the request is in flight gets an error that reports that the delete continues.
func TestGuaranteedDeleteSaysThatItGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		make1(t, c, "/a", "")
		srv.Delay(0, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := c.Delete().Guaranteed().ForPath(ctx, "/a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrOutcomeUnknown)
		assert.ErrorContains(t, err, "the client continues the delete in the background")
		time.Sleep(5 * time.Second)
		assert.NotContains(t, srv.Tree(), "/a")
		require.NoError(t, c.Close())
		err = c.Delete().Guaranteed().ForPath(t.Context(), "/a")
		require.ErrorIs(t, err, ErrClosed)
		assert.NotContains(t, err.Error(), "goes on")
	})
}

// Through a session's view the guaranteed delete ends with the session: the next session's node of that name stays.
func TestGuaranteedDeleteOfASession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		s := connected(t, c)
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/leader", nil)
		require.NoError(t, err)
		other := dial(t, srv)
		srv.BlackHole(s.ID(), zktest.Both)
		require.Error(t, s.Client().Delete().Guaranteed().ForPath(t.Context(), "/leader"))
		srv.Expire(s.ID())
		<-s.Done()
		_, err = other.Create().WithMode(Ephemeral).ForPath(t.Context(), "/leader", nil)
		require.NoError(t, err)
		connected(t, c)
		time.Sleep(time.Minute)
		assert.Contains(t, srv.Tree(), "/leader")
		assert.Zero(t, c.PendingCleanups())
	}, WithRetry(retry.RetryNTimes{}), WithConnectionTimeout(time.Second))
}

func TestCleanupsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		srv.Stop()
		synctest.Wait()
		j := &c.core.ops.cleanups
		for i := range maxCleanups {
			require.NoError(t, j.addCleanup(nodeCleanup{path: fmt.Sprintf("/%d", i), version: -1}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := c.Delete().Guaranteed().ForPath(ctx, "/x")
		assert.ErrorIs(t, err, ErrCleanupFull)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, maxCleanups, c.PendingCleanups())
		assert.LessOrEqual(t, j.cleaners, maxCleaners)
	}, WithSessionTimeout(40*time.Second))
}

// A clean-up that fails again and again is repeated at growing pauses, and one of a node is enough for all its deletes.
func TestACleanupThatFailsForLong(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		make1(t, c, "/a", "")
		refusal := srv.Inject(zktest.Fault{Op: "delete", Times: -1, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
		for range 3 {
			require.Error(t, c.Delete().Guaranteed().ForPath(t.Context(), "/a"))
		}
		assert.Equal(t, 1, c.PendingCleanups())
		srv.ResetCounts()
		time.Sleep(10 * time.Minute)
		assert.InDelta(t, 85, srv.Counts()["delete"], 20, "every 5 to 10 s in the end")
		refusal.Remove()
		time.Sleep(maxCleanupPause)
		assert.False(t, srv.Exists("/a"))
		assert.Zero(t, c.PendingCleanups())
	}, WithRetry(retry.RetryNTimes{}))
}

// Close waits for pending clean-ups.
func TestCloseDrainsCleanups(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		for i := range 100 {
			make1(t, c, fmt.Sprintf("/a%d", i), "")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 100 {
			require.Error(t, c.Delete().Guaranteed().ForPath(ctx, fmt.Sprintf("/a%d", i)))
		}
		require.NoError(t, c.Close())
		assert.Len(t, srv.Tree(), 1)
	})
}

// The caller stops waiting while the delete is in flight, and then its outcome is lost.
func TestGuaranteedDeleteIsLeft(t *testing.T) {
	for _, background := range []bool{false, true} {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			make1(t, c, "/a/b", "")
			for _, path := range []string{"/a/b", "/a"} {
				hold := srv.Inject(zktest.Fault{Op: "delete", PathPrefix: path, Action: zktest.Hold})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				b := c.Delete().Guaranteed()
				if background {
					b.InBackground().ForPath(ctx, path).Then(func(_ struct{}, err error) { done <- err })
				} else {
					go func() { done <- b.ForPath(ctx, path) }()
				}
				<-hold.Struck()
				synctest.Wait()
				cancel()
				err := <-done
				assert.ErrorIs(t, err, context.Canceled)
				assert.ErrorIs(t, err, ErrOutcomeUnknown)
				assert.Equal(t, 1, c.PendingCleanups(), "the answer may still come")
				srv.Cut(0)
				hold.Release()
				hold.Remove()
				time.Sleep(5 * time.Second)
				assert.NotContains(t, srv.Tree(), path)
				assert.Zero(t, c.PendingCleanups())
			}
		})
	}
}

// A request in flight whose caller has stopped waiting counts as owed, and Close waits for it as for any other clean-up.
func TestCloseAwaitsWhatIsUnderWay(t *testing.T) {
	for _, background := range []bool{false, true} {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			make1(t, c, "/a", "")
			leave := func(op string, do func(ctx context.Context) error) *zktest.Injection {
				hold := srv.Inject(zktest.Fault{Op: op, Action: zktest.HoldReply})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- do(ctx) }()
				<-hold.Struck()
				synctest.Wait()
				cancel()
				assert.ErrorIs(t, <-done, ErrOutcomeUnknown)
				return hold
			}
			hold := leave("create2", func(ctx context.Context) error {
				b := c.Create().WithProtection()
				if background {
					_, err := b.InBackground().ForPath(ctx, "/a/x", nil).Wait(t.Context())
					return err
				}
				_, err := b.ForPath(ctx, "/a/x", nil)
				return err
			})
			assert.Equal(t, 1, c.PendingCleanups(), "the answer may still come, and tell of a node")
			time.AfterFunc(time.Second, hold.Release)
			require.NoError(t, c.Close())
			left, err := srv.Children("/a")
			require.NoError(t, err)
			assert.Empty(t, left)
			assert.Zero(t, c.PendingCleanups())
		})
	}
}

// Owed clean-ups keep Close neither from returning when no session is left that could do them, nor from closing the session
// in time.
func TestCloseDoesNotAwaitWhatCannotBeDone(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		leaveDelete(t, c, srv.Pause)
		began := time.Now()
		assert.ErrorIs(t, c.CloseContext(context.Background()), ErrUnacknowledged)
		assert.LessOrEqual(t, time.Since(began), 10*time.Second, "the session timeout")
		srv.Resume()
	})
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		var hold *zktest.Injection
		leaveDelete(t, c, func() { hold = srv.Inject(zktest.Fault{Op: "delete", Action: zktest.HoldReply}) })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		assert.Error(t, c.CloseContext(ctx))
		assert.InDelta(t, 2, time.Since(began).Seconds(), 0.1)
		assert.False(t, srv.Exists("/a"))
		assert.False(t, srv.Exists("/here"), "the session was closed behind the delete")
		hold.Release()
		hold.Remove()
	})
}

// leaveDelete creates a node of the session, and stops waiting for a guaranteed delete of another node while trouble delays
// the reply.
func leaveDelete(t *testing.T, c *Client, trouble func()) {
	make1(t, c, "/a", "")
	_, err := c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/here", nil)
	require.NoError(t, err)
	trouble()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Delete().Guaranteed().ForPath(ctx, "/a"), ErrOutcomeUnknown)
	require.Equal(t, 1, c.PendingCleanups())
}

// When the context ends, the rest of a batch is not sent any more: neither the deletes that wait for the window nor
// those that wait for a connection are executed after the call has returned.
func TestADeleteOfManyChildrenEndsWithItsContext(t *testing.T) {
	bothWays(t, func(t *testing.T, background bool) {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			for i := range 100 {
				plant(t, srv, fmt.Sprintf("/a/%d", i))
			}
			ctx, cancel := context.WithCancel(t.Context())
			first := srv.Inject(zktest.Fault{Op: "delete", PathPrefix: "/a/", Action: zktest.Hold})
			done := make(chan error, 1)
			go func() { done <- deleteThe(ctx, c.Delete().DeletingChildrenIfNeeded(), background, "/a") }()
			<-first.Struck()
			synctest.Wait()
			sent := c.Health().InFlight
			require.Positive(t, c.Health().Queued, "the window has no room for all")
			cancel()
			assert.ErrorIs(t, <-done, context.Canceled)
			synctest.Wait()
			assert.Zero(t, c.Health().Queued)
			first.Release()
			require.NoError(t, c.Sync().ForPath(t.Context(), "/a"))
			names, err := srv.Children("/a")
			require.NoError(t, err)
			assert.Len(t, names, 100-sent)
		})
	})
}
