package framework

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// protectedNodes returns the children with a protected name.
func protectedNodes(srv *zktest.Server) (paths []string) {
	for path := range srv.Tree() {
		if _, _, ok := zkpath.ParseProtected(zkpath.Base(path)); ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

func TestProtectedCreateAfterALostReply(t *testing.T) {
	for _, mode := range []CreateMode{Ephemeral, EphemeralSequential, Persistent, PersistentSequential} {
		for _, action := range []zktest.Action{zktest.LoseReply, zktest.CutBefore} {
			for _, background := range []bool{false, true} {
				name := mode.String() + action.String() + map[bool]string{true: "InBackground"}[background]
				t.Run(name, func(t *testing.T) {
					bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
						ctx := t.Context()
						require.NoError(t, c.CreateContainers(ctx, "/locks"))
						srv.ResetCounts()
						srv.Inject(zktest.Fault{Op: "create2", Action: action})
						var stat Stat
						b := c.Create().WithMode(mode).WithProtection().StoringStatIn(&stat)
						var path string
						var err error
						if background {
							var r CreateResult
							r, err = b.InBackground().ForPath(ctx, "/locks/lock-", nil).Wait(ctx)
							path = r.Path
							assert.Equal(t, stat, r.Stat)
						} else {
							path, err = b.ForPath(ctx, "/locks/lock-", nil)
						}
						require.NoError(t, err)
						nodes := protectedNodes(srv)
						require.Equal(t, []string{path}, nodes)
						assert.Equal(t, Stat(srv.Tree()[path].Stat), stat)
						assert.True(t, strings.HasPrefix(path, "/locks/_c_"))
						want := map[string]int{"create2": 1, "multi": 1, "getChildren2": 1, "exists": 1}
						if action == zktest.CutBefore {
							want = map[string]int{"create2": 2, "multi": 1, "getChildren2": 1}
						}
						counts := writes(srv)
						maps.DeleteFunc(counts, func(op string, _ int) bool { return op == "connect" || op == "getData" })
						assert.Equal(t, want, counts)
						assert.Zero(t, c.PendingCleanups())
					})
				})
			}
		}
	}
}

// The search has proved that there is no node. So when the repeat is refused, the error is that of the repeat alone: the
// outcome is known.
func TestProtectedCreateThatIsRefusedAfterTheSearch(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		srv.Inject(zktest.Fault{Op: "create2", Action: zktest.CutBefore})
		srv.Inject(zktest.Fault{Op: "create2", Times: -1, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
		srv.ResetCounts()
		_, err := c.Create().WithProtection().ForPath(t.Context(), "/lock-", nil)
		require.True(t, Retryable(err), err)
		assert.NotErrorIs(t, err, ErrConnectionLoss)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown)
		assert.Equal(t, 4, srv.Counts()["create2"])
		assert.Equal(t, 1, srv.Counts()["getChildren2"], "one search")
		assert.Empty(t, protectedNodes(srv))
		assert.Zero(t, c.PendingCleanups())
	}, WithRetry(retry.RetryNTimes{Retries: 3}))
}

// The search's own connection is lost, also between its write and its list: the search proves nothing, and there is one
// node in the end.
func TestProtectedCreateRecoveryIsInterrupted(t *testing.T) {
	for _, op := range []string{"multi", "getChildren2", "exists"} {
		for _, action := range []zktest.Action{zktest.LoseReply, zktest.CutBefore} {
			t.Run(op+action.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
					require.NoError(t, c.CreateContainers(t.Context(), "/locks"))
					srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
					struck := srv.Inject(zktest.Fault{Op: op, Action: action})
					path, err := c.Create().WithMode(EphemeralSequential).WithProtection().ForPath(
						t.Context(), "/locks/lock-", nil,
					)
					require.NoError(t, err)
					assert.Equal(t, []string{path}, protectedNodes(srv))
					assert.Equal(t, 1, struck.Hits())
				})
			})
		}
	}
}

func TestProtectedCreateInAParentThatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		other := dial(t, srv)
		connected(t, other)
		b := c.Create().CreatingParentContainersIfNeeded().WithMode(EphemeralSequential).WithProtection()
		lost := srv.Inject(zktest.Fault{Op: "create2", PathPrefix: "/locks", After: 1, Action: zktest.LoseReply})
		search := srv.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		done := b.InBackground().ForPath(t.Context(), "/locks/lock-", nil)
		<-lost.Struck()
		<-search.Struck()
		require.NoError(t, other.Delete().DeletingChildrenIfNeeded().ForPath(t.Context(), "/locks"))
		search.Release()
		r, err := done.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{r.Path}, protectedNodes(srv))
	})
}

// A node of a lost session is not the caller's: a new one is created, with a new UUID, and the result is the node of the
// new session. The search for a node that was never created ends, too.
func TestProtectedCreateOverASession(t *testing.T) {
	for _, mode := range []CreateMode{EphemeralSequential, PersistentSequential} {
		for _, action := range []zktest.Action{zktest.HoldReply, zktest.DropRequest} {
			t.Run(fmt.Sprint(mode, " ", action), func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
					require.NoError(t, c.CreateContainers(t.Context(), "/locks"))
					first := connected(t, c)
					lost := srv.Inject(zktest.Fault{Op: "create2", PathPrefix: "/locks", Action: action})
					go func() {
						<-lost.Struck()
						srv.Expire(first.ID())
					}()
					var stat Stat
					path, err := c.Create().WithMode(mode).WithProtection().StoringStatIn(&stat).ForPath(
						t.Context(), "/locks/lock-", nil,
					)
					require.NoError(t, err)
					second := connected(t, c)
					require.NotEqual(t, first.ID(), second.ID())
					if mode.isEphemeral() {
						assert.Equal(t, second.ID(), stat.EphemeralOwner)
					}
					time.Sleep(2 * time.Minute)
					assert.Equal(t, []string{path}, protectedNodes(srv))
					assert.Zero(t, c.PendingCleanups())
				})
			})
		}
	}
}

// After the loss of the session a member of the ensemble may still execute the create: the next session searches for its
// node until that is impossible.
func TestProtectedCreateThatIsExecutedAfterItsSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		first := connected(t, c)
		lost := srv.Inject(zktest.Fault{Op: "create2", Action: zktest.HoldReply})
		var late string
		go func() {
			<-lost.Struck()
			late = protectedNodes(srv)[0]
			assert.NoError(t, srv.Delete(late)) // as if the create had not been executed yet
			srv.Expire(first.ID())
		}()
		path, err := c.Create().WithMode(PersistentSequential).WithProtection().ForPath(t.Context(), "/lock-", nil)
		require.NoError(t, err)
		require.NotEqual(t, first.ID(), connected(t, c).ID())
		time.Sleep(10 * time.Second)
		assert.Equal(t, 1, c.PendingCleanups())
		require.NoError(t, srv.Create(late, nil))
		assert.Len(t, protectedNodes(srv), 2)
		time.Sleep(20 * time.Second)
		assert.Equal(t, []string{path}, protectedNodes(srv))
		assert.Zero(t, c.PendingCleanups())
	})
}

// A create through a session's view is not executed in another session.
func TestPinnedCreateOverASession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		require.NoError(t, c.CreateContainers(t.Context(), "/locks"))
		s := connected(t, c)
		lost := srv.Inject(zktest.Fault{Op: "create2", PathPrefix: "/locks", Action: zktest.HoldReply})
		go func() {
			<-lost.Struck()
			srv.Expire(s.ID())
		}()
		_, err := s.Client().Create().WithMode(EphemeralSequential).WithProtection().ForPath(
			t.Context(), "/locks/lock-", nil,
		)
		assert.ErrorIs(t, err, ErrSessionLost)
		assert.ErrorIs(t, err, ErrConnectionLoss, "outcome unknown")
		connected(t, c)
		_, err = s.Client().GetData().ForPath(t.Context(), "/locks")
		assert.ErrorIs(t, err, ErrSessionLost)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown)
		_, err = s.Client().GetData().InBackground().ForPath(t.Context(), "/locks").Wait(t.Context())
		assert.ErrorIs(t, err, ErrSessionLost)
		synctest.Wait()
		assert.Empty(t, protectedNodes(srv))
		_, err = c.GetData().ForPath(t.Context(), "/locks")
		assert.NoError(t, err)
	})
}

// The caller stops waiting at each point of a protected create; the node that it created is removed.
func TestProtectedCreateIsLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		fault zktest.Fault
		heal  func(*zktest.Server, *zktest.Injection)
	}{
		"before it is executed": {
			zktest.Fault{Op: "create2", Action: zktest.Hold},
			func(_ *zktest.Server, i *zktest.Injection) { i.Release() },
		},
		"before the reply": {
			zktest.Fault{Op: "create2", Action: zktest.HoldReply},
			func(_ *zktest.Server, i *zktest.Injection) { i.Release() },
		},
		"before the connection is lost": {
			zktest.Fault{Op: "create2", Action: zktest.HoldReply},
			func(srv *zktest.Server, i *zktest.Injection) { srv.Cut(0); i.Release() },
		},
		"while it looks for its node": {
			zktest.Fault{Op: "multi", Action: zktest.Hold},
			func(_ *zktest.Server, i *zktest.Injection) { i.Release() },
		},
		"while the search is undecided": {
			zktest.Fault{Op: "getChildren2", Action: zktest.HoldReply},
			func(srv *zktest.Server, i *zktest.Injection) { srv.Cut(0); i.Release() },
		},
		"while the server does not move": {zktest.Fault{
			Op: "create2", Action: zktest.HoldReply,
		}, func(srv *zktest.Server, i *zktest.Injection) {
			i.Release()
			srv.Pause()
			time.Sleep(time.Second)
			srv.Resume()
		}},
	} {
		for _, mode := range []CreateMode{EphemeralSequential, PersistentSequential} {
			for _, background := range []bool{false, true} {
				t.Run(name+mode.String()+map[bool]string{true: "InBackground"}[background], func(t *testing.T) {
					bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
						require.NoError(t, c.CreateContainers(t.Context(), "/locks"))
						if tc.fault.Op != "create2" {
							srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
						}
						struck := srv.Inject(tc.fault)
						ctx, cancel := context.WithCancel(t.Context())
						done := make(chan error, 1)
						b := c.Create().WithMode(mode).WithProtection()
						if background {
							b.InBackground().ForPath(ctx, "/locks/lock-", nil).Then(
								func(_ CreateResult, err error) { done <- err },
							)
						} else {
							go func() {
								_, err := b.ForPath(ctx, "/locks/lock-", nil)
								done <- err
							}()
						}
						<-struck.Struck()
						synctest.Wait()
						cancel()
						synctest.Wait()
						select { // no time has passed
						case err := <-done:
							assert.ErrorIs(t, err, context.Canceled)
							assert.ErrorIs(t, err, ErrOutcomeUnknown)
						default:
							assert.Fail(t, "still waiting")
						}
						tc.heal(srv, struck)
						time.Sleep(20 * time.Second)
						assert.Empty(t, protectedNodes(srv))
						assert.Zero(t, c.PendingCleanups())
						connected(t, c)
						assert.Len(t, srv.Sessions(), 1)
					})
				})
			}
		}
	}
}

// A caller that stops waiting for a create that was never sent leaves no clean-up.
func TestProtectedCreateIsLeftUnsent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		srv.Stop()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Create().WithMode(EphemeralSequential).WithProtection().ForPath(ctx, "/lock-", nil)
		assert.Equal(t, time.Second, time.Since(began))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown)
		assert.Zero(t, c.PendingCleanups())
		require.NoError(t, srv.Start())
		time.Sleep(5 * time.Second)
		assert.Empty(t, protectedNodes(srv))
	})
}

// The clean-up has found the node, and its delete is lost, or refused for a temporary reason: it is repeated.
func TestProtectedCreateIsLeftAndItsDeleteFails(t *testing.T) {
	for _, fault := range []zktest.Fault{
		{Action: zktest.CutBefore}, {Action: zktest.ReplyError, Err: zktest.ErrThrottledOp},
	} {
		t.Run(fault.Action.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				srv.Inject(zktest.Fault{Op: "create2", Action: zktest.LoseReply})
				fault.Op = "delete"
				struck := srv.Inject(fault)
				_, err := c.Create().WithMode(EphemeralSequential).WithProtection().ForPath(t.Context(), "/lock-", nil)
				require.ErrorIs(t, err, ErrConnectionLoss)
				time.Sleep(5 * time.Second)
				assert.Equal(t, 1, struck.Hits())
				assert.Empty(t, protectedNodes(srv))
				assert.Zero(t, c.PendingCleanups())
			}, WithRetry(retry.RetryNTimes{}))
		})
	}
}

// The policy is exhausted while the outcome is unknown: the node is removed when the connection is back.
func TestProtectedCreateGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		lost := srv.Inject(zktest.Fault{Op: "create2", Action: zktest.HoldReply})
		go func() {
			<-lost.Struck()
			srv.Stop()
		}()
		_, err := c.Create().WithMode(EphemeralSequential).WithProtection().ForPath(t.Context(), "/lock-", nil)
		assert.ErrorIs(t, err, ErrConnectionLoss)
		assert.Equal(t, 1, c.PendingCleanups())
		assert.Len(t, protectedNodes(srv), 1)
		require.NoError(t, srv.Start())
		time.Sleep(5 * time.Second)
		assert.Empty(t, protectedNodes(srv))
		assert.Zero(t, c.PendingCleanups())
		assert.Equal(t, int64(1), c.State().Epoch)
	}, WithRetry(retry.RetryNTimes{}))
}

// A node with the UUID of the create in another session, of this client or not, is not the caller's (CURATOR-498,
// CURATOR-604).
func TestProtectedNodeOfAnotherSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		require.NoError(t, c.CreateContainers(ctx, "/locks"))
		other := dial(t, srv)
		e := connected(t, c).epoch
		o := c.Create().WithMode(EphemeralSequential).WithProtection().operation("/locks/lock-", nil)
		p, r := o.leftovers.(*protectedCreate), &operationRun[CreateResult]{operation: o, epoch: e}
		path := func() string { return "/locks/" + zkpath.Protect(p.guid, "lock-") }
		lost := func(in *sessionEpoch) {
			p.newRequest(in)
			p.recordOutcome(ErrConnectionLoss)
		}
		lost(e)
		_, err := other.Create().WithMode(EphemeralSequential).ForPath(ctx, path(), nil)
		require.NoError(t, err)
		_, done, err := p.recoverOutcome(ctx, r)
		require.NoError(t, err)
		assert.False(t, done)
		synctest.Wait()
		assert.Empty(t, protectedNodes(srv), "and it is removed")

		guid := p.guid
		lost(connected(t, other).epoch)
		_, err = c.Create().WithMode(EphemeralSequential).ForPath(ctx, path(), nil)
		require.NoError(t, err)
		_, done, err = p.recoverOutcome(ctx, r)
		require.NoError(t, err)
		assert.False(t, done, "made in another epoch, whoever owns it")
		assert.NotEqual(t, guid, p.guid)
	})
}
