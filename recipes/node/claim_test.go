package node_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/zktest"
)

func claim(t *testing.T, c *framework.Client, opts ...node.ClaimOption) *node.Claim {
	t.Helper()
	held, err := node.TryClaim(background, c, path, []byte("owner"), opts...)
	require.NoError(t, err)
	return held
}

// Only one caller holds the name; others, also of the same client, get it only after the release.
func TestClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		require.NoError(t, s.Create("/services", nil))
		held := claim(t, c)
		has(t, s, session(t, c), "owner")
		assert.True(t, held.Valid())
		assert.Positive(t, held.Remaining())
		assert.Equal(t, path, held.Path())
		for _, client := range []*framework.Client{c, other, c.UsingNamespace("")} {
			_, err := node.TryClaim(background, client, path, nil)
			require.ErrorIs(t, err, node.ErrNotAcquired)
		}
		time.Sleep(time.Second) // until a watch on its node is armed
		s.ResetCounts()
		_, err := node.TryClaim(background, other, path, nil)
		require.ErrorIs(t, err, node.ErrNotAcquired)
		counts(t, s, "it has the name", map[string]int{"create2": 1})
		require.NoError(t, held.Release(background))
		counts(t, s, "released", map[string]int{"exists": 1, "delete": 1})
		assert.ErrorIs(t, context.Cause(held.Context()), node.ErrReleased)
		assert.False(t, held.Valid())
		require.ErrorIs(t, held.Release(background), node.ErrReleased)
		next := claim(t, other)
		assert.Greater(t, next.FencingToken(), held.FencingToken())
		require.NoError(t, next.Release(background))
		require.NoError(t, claim(t, c).Release(background))
		time.Sleep(2 * time.Second)
		recipetest.Clean(t, s, "/services")
	})
}

// The reply to the create is lost, before or after its execution, in two concurrent calls of one client with the same data:
// exactly one succeeds.
func TestClaimWithLostReplies(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		for losses := range 4 {
			t.Run(fmt.Sprint(action, losses), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					c := newClient(t, s)
					require.NoError(t, s.Create("/services", nil))
					if losses > 0 {
						s.Inject(zktest.Fault{Op: "create2", PathPrefix: path, Action: action, Times: losses})
					}
					var got atomic.Int64
					var wg sync.WaitGroup
					for _, client := range []*framework.Client{c, c, c, newClient(t, s)} {
						wg.Go(func() {
							held, err := node.TryClaim(background, client, path, nil)
							if err == nil {
								got.Add(1)
								time.Sleep(time.Minute)
								assert.NoError(t, held.Release(background))
							} else if !assert.True(t, framework.Retryable(err) || assert.ErrorIs(t, err, node.ErrNotAcquired)) {
								t.Log(err)
							}
						})
					}
					wg.Wait()
					assert.LessOrEqual(t, got.Load(), int64(1))
					if losses == 0 || action == zktest.CutBefore {
						assert.EqualValues(t, 1, got.Load())
					}
					time.Sleep(time.Minute)
					recipetest.Clean(t, s, "/services")
				})
			})
		}
	}
}

// A claim is lost before its session can expire, and the next owner can hold the name after that.
func TestClaimLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		held := claim(t, c)
		id := session(t, c)
		s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.DropRequest, Times: -1})
		s.Cut(id)
		select {
		case <-held.Context().Done():
		case <-time.After(time.Minute):
			t.Fatal("not lost")
		}
		assert.True(t, s.Exists(path), "it is known before the servers know")
		require.ErrorIs(t, context.Cause(held.Context()), node.ErrSessionLost)
		soon(t, "the next owner", func() bool {
			next, err := node.TryClaim(background, other, path, nil)
			return err == nil && next.Valid()
		})
		require.ErrorIs(t, held.Release(background), node.ErrSessionLost)
		has(t, s, session(t, other), "")
	})
}

func TestClaimDeletedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		held := claim(t, c)
		time.Sleep(time.Second)
		require.NoError(t, s.Delete(path))
		<-held.Context().Done()
		require.ErrorIs(t, context.Cause(held.Context()), node.ErrNodeDeleted)
		next := claim(t, other)
		require.ErrorIs(t, held.Release(background), node.ErrNodeDeleted)
		has(t, s, session(t, other), "owner")
		assert.True(t, next.Valid())
		require.NoError(t, next.Release(background))
		require.NoError(t, claim(t, c).Release(background))
	})
}

// The node is deleted, and another part of the same process creates one at its path: Release does not delete that.
func TestClaimReplacedInItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		held := claim(t, c)
		require.NoError(t, s.Delete(path))
		_, err := c.Create().WithMode(framework.Ephemeral).ForPath(background, path, []byte("another"))
		require.NoError(t, err)
		require.NoError(t, held.Release(background), "the deletion is not known yet")
		has(t, s, session(t, c), "another")
	})
}

// Released while disconnected: the client retries the delete, and deletes no other client's node.
func TestClaimReleasedWhileCutOff(t *testing.T) {
	for _, stolen := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c, other := newClient(t, s), newClient(t, s)
			held := claim(t, c)
			id := session(t, c)
			away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
			s.Cut(id)
			<-away.Struck()
			assert.True(t, held.Valid(), "the session lives")
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			require.ErrorIs(t, held.Release(ctx), context.DeadlineExceeded)
			_, err := node.TryClaim(background, c, path, nil)
			require.ErrorIs(t, err, node.ErrNotAcquired)
			if stolen {
				require.NoError(t, s.Delete(path))
				claim(t, other)
			}
			away.Release()
			if stolen {
				time.Sleep(time.Minute)
				has(t, s, session(t, other), "owner")
				return
			}
			soon(t, "gone", func() bool { return !s.Exists(path) })
			require.NoError(t, claim(t, c).Release(background))
		})
	}
}

func TestClaimLossPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		held := claim(t, c, node.WithLossPolicy(framework.SuspendedIsLoss))
		recipetest.Cut(t, s, c)
		<-held.Context().Done()
		require.ErrorIs(t, context.Cause(held.Context()), node.ErrSuspended)
		require.ErrorIs(t, held.Release(background), node.ErrSuspended)
		require.NoError(t, claim(t, c).Release(background))
		recipetest.Clean(t, s)
	})
}

// When a caller's context ends nothing is left, and no call outlives its context.
func TestClaimGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		recipetest.CancelWhileTheServerHangs(t, s, []string{"/services"}, func(ctx context.Context) error {
			_, err := node.TryClaim(ctx, c, path, nil)
			return err
		})
		require.NoError(t, claim(t, c).Release(background))
		held := claim(t, c)
		require.NoError(t, c.Close())
		require.ErrorIs(t, context.Cause(held.Context()), framework.ErrClosed)
		require.ErrorIs(t, held.Release(background), framework.ErrClosed)
		_, err := node.TryClaim(background, c, path, nil)
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

// Contexts end at random moments: nothing is left, and at most one caller holds the name at a time.
func TestClaimAtRandomMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		clients := []*framework.Client{newClient(t, s), newClient(t, s), newClient(t, s)}
		s.Delay(0, 3*time.Millisecond)
		var holders, got atomic.Int64
		var wg sync.WaitGroup
		for worker := range 9 {
			wg.Go(func() {
				for i := range 50 {
					ctx, cancel := context.WithTimeout(background, time.Duration(1+(worker*7+i*3)%20)*time.Millisecond)
					claim := node.TryClaim
					if worker%2 == 1 {
						claim = node.AwaitClaim
					}
					held, err := claim(ctx, clients[worker%3], path, nil)
					cancel()
					time.Sleep(time.Duration(worker) * time.Millisecond)
					if err != nil {
						continue
					}
					got.Add(1)
					assert.EqualValues(t, 1, holders.Add(1))
					time.Sleep(3 * time.Millisecond)
					assert.True(t, held.Valid())
					holders.Add(-1)
					assert.NoError(t, held.Release(background))
				}
			})
		}
		wg.Wait()
		assert.Greater(t, got.Load(), int64(20))
		s.Heal()
		time.Sleep(2 * time.Second)
		recipetest.Clean(t, s, "/services")
		recipetest.Tidy(t, clients...)
	})
}

// The request to delete the node, or the read before it, is lost with its connection: Release returns only when the node is
// deleted.
func TestReleaseOutlastsALostConnection(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpExists, zktest.OpDelete} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			held := claim(t, newClient(t, s))
			time.Sleep(time.Second)
			cut := s.Inject(zktest.Fault{Op: op, PathPrefix: path, Action: zktest.CutBefore})
			require.NoError(t, held.Release(background))
			assert.Equal(t, 1, cut.Hits())
			assert.False(t, s.Exists(path))
		})
	}
}

// The session timeout is too short for a hold: the node stays neither after the call nor for the next one, and other clients can
// claim the name.
func TestClaimThatCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{
			EnsembleConfig: "server.1=a:2888:3888:participant;0.0.0.0:2181\n" +
				"server.2=b:2888:3888:participant;0.0.0.0:2181\nversion=100000000",
			TickTime: 500 * time.Millisecond,
		})
		c := newClient(t, s, framework.WithSessionTimeout(1500*time.Millisecond))
		for range 2 {
			_, err := node.TryClaim(background, c, path, nil)
			require.ErrorIs(t, err, framework.ErrTimeoutTooShort)
			time.Sleep(time.Second)
			assert.False(t, s.Exists(path))
		}
		require.NoError(t, claim(t, newClient(t, s)).Release(background))
	})
}

// A hook panics at the beginning or at the end of a claim: the client can claim the name afterwards.
func TestANameCanBeClaimedAfterAHookThatPanics(t *testing.T) {
	for _, atEnd := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			panics := true
			c := newClient(t, s, framework.WithHooks(framework.Hooks{
				Acquire: func(ctx context.Context, _ framework.Acquisition) (context.Context, func(error)) {
					if panics && !atEnd {
						panic("hook")
					}
					return ctx, func(error) {
						if panics {
							panic("hook")
						}
					}
				},
			}))
			require.PanicsWithValue(t, "hook", func() { _, _ = node.TryClaim(background, c, path, nil) })
			panics = false
			time.Sleep(time.Second)
			require.NoError(t, claim(t, c).Release(background))
		})
	}
}

// Holder returns the node's owner and data, also with compressed data, and for a node of no session.
func TestHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithCompression())
		_, held, err := node.Holder(background, c, path)
		require.NoError(t, err)
		assert.False(t, held)

		claimed, err := node.TryClaim(background, c, path, []byte("host-1"))
		require.NoError(t, err)
		p, held, err := node.Holder(background, newClient(t, s), path)
		require.NoError(t, err)
		assert.True(t, held)
		assert.NotEqual(t, "host-1", string(p.Data), "a client that does not compress")
		s.ResetCounts()
		p, _, err = node.Holder(background, c, path)
		require.NoError(t, err)
		counts(t, s, "one read", map[string]int{"getData": 1})
		assert.Equal(t, node.Participant{
			Name: "web", Path: path, Data: []byte("host-1"), SessionID: session(t, c), Czxid: claimed.FencingToken(),
			Since: p.Since,
		}, p)
		assert.WithinDuration(t, time.Now(), p.Since, time.Second)
		require.NoError(t, claimed.Release(background))

		require.NoError(t, s.Create(path, []byte("by hand")))
		p, held, err = node.Holder(background, c, path)
		require.NoError(t, err)
		assert.True(t, held)
		assert.Zero(t, p.SessionID)
		assert.Equal(t, "by hand", string(p.Data))
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: int32(framework.PermWrite), Scheme: "world", ID: "anyone"}))
		_, _, err = node.Holder(background, c, path)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		_, _, err = node.Holder(background, nil, path)
		require.ErrorIs(t, err, framework.ErrNoClient)
		_, _, err = node.Holder(background, c, "web")
		require.ErrorIs(t, err, framework.ErrInvalidPath)
	})
}
