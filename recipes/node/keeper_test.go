package node_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
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

// Two requests create the node and arm its watch; SetData sends two: setData and exists; at rest there is only one read per
// session timeout; Close sends one.
func TestPlainUseAndTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, s.Create("/services", nil))
		synctest.Wait()
		s.ResetCounts()
		k := keep(t, c, "a")
		counts(t, s, "create", map[string]int{"create2": 1, "exists": 1})
		has(t, s, session(t, c), "a")
		status := k.Status()
		assert.Equal(t, node.There, status.State)
		assert.Equal(t, path, k.Path())
		assert.Equal(t, s.Tree()[path].Stat.Czxid, status.Czxid)
		require.NoError(t, k.SetData(background, []byte("b")))
		counts(t, s, "set data", map[string]int{"setData": 1, "exists": 1})
		has(t, s, session(t, c), "b")
		assert.Equal(t, "b", string(k.Data()))
		time.Sleep(5 * time.Minute)
		reads := s.Counts()["exists"]
		assert.InDelta(t, 30, reads, 8, "about one per session timeout")
		counts(t, s, "at rest", map[string]int{"exists": reads})
		require.NoError(t, k.Close(background))
		counts(t, s, "close", map[string]int{"delete": 1})
		ends(t, s, k)
		require.ErrorIs(t, k.SetData(background, nil), node.ErrClosed)
		require.ErrorIs(t, k.WaitCreated(background), node.ErrClosed)
	})
}

func TestMissingParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		k := keep(t, newClient(t, s), "a")
		assert.Equal(t, zktest.Container, s.Tree()["/services"].Mode)
		ends(t, s, k)
	})
}

// The reply to the create is lost, before or after the execution. The node exists, with its data, and is created once.
func TestLostReplyOfTheCreate(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		for _, opts := range [][]node.Option{
			nil,
			{node.WithProtection()},
			{node.WithMode(framework.EphemeralSequential)},
			{node.WithMode(framework.PersistentSequential)},
			{node.WithMode(framework.Persistent)},
			{node.WithTakeover(node.AtStart)},
		} {
			t.Run(fmt.Sprint(action, len(opts)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					c := newClient(t, s)
					require.NoError(t, s.Create("/services", nil))
					s.Inject(zktest.Fault{Session: session(t, c), Op: "create2", Action: action})
					k := keep(t, c, "a", opts...)
					children, err := s.Children("/services")
					require.NoError(t, err)
					require.Len(t, children, 1)
					data, stat, err := s.Get(k.Path())
					require.NoError(t, err)
					assert.Equal(t, "a", string(data))
					if k.Path() != path || stat.EphemeralOwner != 0 { // otherwise it may be another client's
						assert.Zero(t, stat.Version, "its data need not be set")
					}
					ends(t, s, k)
				})
			})
		}
	}
}

// The connection is lost and restored: in between the state is unknown, and then one read finds the node.
func TestConnectionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "a")
		id, before := session(t, c), k.Status()
		away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
		s.Cut(id)
		<-away.Struck()
		synctest.Wait()
		assert.Equal(t, node.Unknown, state(k))
		s.ResetCounts()
		away.Release()
		soon(t, "there again", func() bool { return state(k) == node.There })
		assert.Equal(t, before, k.Status())
		assert.Equal(t, 1, s.Counts()["exists"])
		assert.Zero(t, s.Counts()["create2"])
		ends(t, s, k)
	})
}

// Deleted while the keeper is disconnected: it creates the node again.
func TestDeletedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "a")
		id, before := session(t, c), k.Status().Czxid
		away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
		s.Cut(id)
		<-away.Struck()
		require.NoError(t, s.Delete(path))
		away.Release()
		soon(t, "there again", func() bool { return state(k) == node.There && k.Status().Czxid > before })
		has(t, s, id, "a")
		ends(t, s, k)
	})
}

// Deleted by an administrator: the keeper creates the node again, with the last data, and Follow yields the changes.
func TestForeignDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "a")
		require.NoError(t, k.SetData(background, []byte("b")))
		var told []node.Status
		followed := make(chan error, 1)
		ctx, cancel := context.WithCancel(background)
		go func() {
			for status, err := range k.Follow(ctx) {
				if err != nil {
					followed <- err
					return
				}
				told = append(told, status)
			}
		}()
		time.Sleep(5 * time.Minute) // no status is yielded twice in this time
		for range 3 {
			require.NoError(t, s.Delete(path))
			soon(t, "there again", func() bool { return state(k) == node.There && s.Exists(path) })
		}
		has(t, s, session(t, c), "b")
		cancel()
		require.ErrorIs(t, <-followed, context.Canceled)
		var states []string
		var czxids []int64
		for _, status := range told {
			if states = append(states, status.State.String()); status.State == node.There {
				czxids = append(czxids, status.Czxid)
			}
		}
		assert.Equal(t, []string{"there", "missing", "unknown", "there", "missing", "unknown", "there", "missing",
			"unknown", "there"}, states)
		assert.IsIncreasing(t, czxids)
		ends(t, s, k)
	})
}

// Deleted between the create and the arming of the watch.
func TestDeletedBeforeItIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		look := s.Inject(zktest.Fault{Session: session(t, c), Op: "exists", PathPrefix: path, Action: zktest.Hold})
		k, err := node.NewKeeper(c, path, nil)
		require.NoError(t, err)
		<-look.Struck()
		require.NoError(t, s.Delete(path))
		look.Release()
		require.NoError(t, k.WaitCreated(background))
		assert.True(t, s.Exists(path))
		ends(t, s, k)
	})
}

// The session expires. After the servers have deleted its node, the keeper immediately creates one in the next session.
func TestSessionExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "a")
		old := session(t, c)
		s.Expire(old)
		soon(t, "a node of the next session", func() bool {
			_, stat, err := s.Get(path)
			return state(k) == node.There && err == nil && stat.EphemeralOwner != old
		})
		has(t, s, session(t, c), "a")
		ends(t, s, k)
	})
}

// The client's session is lost by its own clock, while the servers still have that session's node: the keeper does not take it
// for its own, and waits until it is deleted.
func TestOldSessionsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "a")
		require.NoError(t, k.Close(background))
		owner := newClient(t, s)
		_, err := owner.Create().WithMode(framework.Ephemeral).ForPath(background, path, []byte("a"))
		require.NoError(t, err)
		k, err = node.NewKeeper(c, path, []byte("a"))
		require.NoError(t, err)
		synctest.Wait()
		status := k.Status()
		assert.Equal(t, node.Missing, status.State)
		assert.True(t, status.Other)
		assert.Equal(t, session(t, owner), status.Owner)
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		err = k.WaitCreated(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, fmt.Sprintf("the node of session %#x is in its place", session(t, owner)))
		require.NoError(t, owner.Close())
		require.NoError(t, k.WaitCreated(background))
		has(t, s, session(t, c), "a")
		ends(t, s, k)
	})
}

// With AtStart a predecessor's ephemeral node is replaced at the start: other clients never see the path empty.
func TestTakeover(t *testing.T) {
	for _, action := range []zktest.Action{0, zktest.CutBefore, zktest.LoseReply} {
		t.Run(fmt.Sprint(action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				first := keep(t, newClient(t, s), "first", node.WithTakeover(node.AtStart))
				c := newClient(t, s)
				if action != 0 {
					s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: action})
				}
				second := keep(t, c, "second", node.WithTakeover(node.AtStart))
				has(t, s, session(t, c), "second")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, node.There, state(second), "nobody steals it back")
				assert.Equal(t, node.Missing, state(first))
				assert.Equal(t, session(t, c), first.Status().Owner)
				_, stat, err := s.Get(path)
				require.NoError(t, err)
				assert.Zero(t, stat.Version)
				require.NoError(t, second.Close(background))
				require.NoError(t, first.WaitCreated(background), "it has waited")
				require.NoError(t, first.Close(background))
				recipetest.Clean(t, s)
			})
		})
	}
}

// Many keepers start at the same time, and each wants to take over: the take-overs end.
func TestManyTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var all []*node.Keeper
		for range 6 {
			c := newClient(t, s)
			s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.LoseReply})
			k, err := node.NewKeeper(c, path, nil, node.WithTakeover(node.AtStart))
			require.NoError(t, err)
			all = append(all, k)
		}
		time.Sleep(time.Minute)
		for left := len(all); left > 0; left-- {
			synctest.Wait()
			czxid := s.Tree()[path].Stat.Czxid
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, czxid, s.Tree()[path].Stat.Czxid, "at rest")
			for i, k := range all {
				if state(k) == node.There {
					require.NoError(t, k.Close(background))
					all = append(all[:i], all[i+1:]...)
					break
				}
			}
			require.Len(t, all, left-1)
		}
		recipetest.Clean(t, s)
	})
}

// A keeper waits for a node of no session until it is deleted.
func TestForeignPersistentNode(t *testing.T) {
	for _, takeover := range []node.Takeover{node.Never, node.AtStart} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s)
			require.NoError(t, s.Create(path, []byte("theirs")))
			k, err := node.NewKeeper(c, path, []byte("ours"), node.WithTakeover(takeover))
			require.NoError(t, err)
			require.ErrorIs(t, k.WaitCreated(background), framework.ErrNodeExists)
			later := func() (int, error) { return 0, k.SetData(background, []byte("later")) }
			set := recipetest.Begin(t, later).Waits()
			has(t, s, 0, "theirs")
			require.NoError(t, s.Delete(path))
			synctest.Wait()
			require.NoError(t, k.WaitCreated(background))
			set.End().OK()
			has(t, s, session(t, c), "later")
			ends(t, s, k)
			require.NoError(t, s.Create(path, nil))
			k, err = node.NewKeeper(c, path, nil)
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, k.Close(background))
			assert.True(t, s.Exists(path), "it is not ours")
		})
	}
}

// Data that are set while the node cannot be written are written later.
func TestDataAcrossGaps(t *testing.T) {
	for _, lose := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s)
			k := keep(t, c, "a")
			id := session(t, c)
			away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
			s.Cut(id)
			<-away.Struck()
			set := recipetest.Begin(t, func() (int, error) { return 0, k.SetData(background, []byte("b")) }).Waits()
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			require.ErrorIs(t, k.SetData(ctx, []byte("c")), context.DeadlineExceeded)
			if lose {
				s.Expire(id)
			}
			away.Release()
			require.NoError(t, set.End().Err, "overtaken, and then written")
			soon(t, "there", func() bool { return state(k) == node.There })
			has(t, s, session(t, c), "c")
			ends(t, s, k)
		})
	}
}

// The reply to a setData is lost; other clients' data stay until the next SetData.
func TestSetDataAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "a")
		s.Inject(zktest.Fault{Session: session(t, c), Op: "setData", Action: zktest.LoseReply})
		require.NoError(t, k.SetData(background, []byte("b")))
		has(t, s, session(t, c), "b")
		require.NoError(t, s.Set(path, []byte("theirs")))
		time.Sleep(time.Minute)
		has(t, s, session(t, c), "theirs")
		assert.Equal(t, node.There, state(k))
		require.NoError(t, k.SetData(background, []byte("c")))
		has(t, s, session(t, c), "c")
		require.NoError(t, s.Set(path, []byte("theirs")))
		require.NoError(t, s.Delete(path))
		soon(t, "made anew", func() bool { return s.Exists(path) })
		has(t, s, session(t, c), "c")
		ends(t, s, k)
	})
}

// Data that are too large are refused, and the node keeps its data.
func TestDataTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		large := bytes.Repeat([]byte("x"), 2<<20)
		k, err := node.NewKeeper(c, path, large)
		require.NoError(t, err)
		require.ErrorIs(t, k.WaitCreated(background), framework.ErrTooLarge)
		assert.Equal(t, node.Missing, state(k))
		require.NoError(t, k.SetData(background, []byte("small")))
		require.ErrorIs(t, k.SetData(background, large), framework.ErrTooLarge)
		assert.Equal(t, "small", string(k.Data()))
		require.NoError(t, s.Delete(path))
		soon(t, "made anew", func() bool { return s.Exists(path) })
		has(t, s, session(t, c), "small")
		require.NoError(t, k.SetData(background, []byte("next")))
		ends(t, s, k)
	})
}

// Data refused after a later SetData has begun do not replace the later data.
func TestDataAreRefusedAfterALaterSetDataHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "a")
		s.Delay(session(t, c), time.Second)
		refused := s.Inject(zktest.Fault{Op: zktest.OpSetData, Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		first := make(chan error, 1)
		go func() { first <- k.SetData(background, []byte("b")) }()
		<-refused.Struck()
		require.NoError(t, k.SetData(background, []byte("c")))
		require.ErrorIs(t, <-first, framework.ErrNoAuth)
		assert.Equal(t, "c", string(k.Data()))
		has(t, s, session(t, c), "c")
		ends(t, s, k)
	})
}

func TestNoAuth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, s.Create("/services", nil))
		require.NoError(t, s.SetACL("/services", zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		k, err := node.NewKeeper(c, path, nil)
		require.NoError(t, err)
		require.ErrorIs(t, k.WaitCreated(background), framework.ErrNoAuth)
		require.ErrorIs(t, k.Status().Err, framework.ErrNoAuth)
		all := zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}
		require.NoError(t, s.SetACL("/services", all))
		soon(t, "it goes on trying", func() bool { return state(k) == node.There })
		require.NoError(t, k.Status().Err, "before that time")
		require.NoError(t, s.SetACL("/services", zktest.ACL{Perms: 4 | 1, Scheme: "world", ID: "anyone"}))
		require.ErrorIs(t, k.Close(background), framework.ErrNoAuth)
		require.ErrorIs(t, k.Close(background), framework.ErrNoAuth)
	})
}

// Closed while disconnected: Close returns when its context ends, and the node is deleted after the reconnect.
func TestCloseWhileCutOff(t *testing.T) {
	for _, mode := range []framework.CreateMode{framework.Ephemeral, framework.Persistent} {
		for _, lose := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, lose), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					c := newClient(t, s)
					k := keep(t, c, "a", node.WithMode(mode))
					id := session(t, c)
					away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
					s.Cut(id)
					<-away.Struck()
					ctx, cancel := context.WithTimeout(background, time.Second)
					defer cancel()
					began := time.Now()
					require.ErrorIs(t, k.Close(ctx), context.DeadlineExceeded)
					assert.Equal(t, time.Second, time.Since(began))
					assert.True(t, s.Exists(path))
					if lose {
						s.Expire(id)
					}
					away.Release()
					<-k.Done()
					ends(t, s, k)
				})
			})
		}
	}
}

// An administrator deletes the node, and the reply to the create of the next one is lost with the connection: Close does not rely
// on the deletion (found by the simulation).
func TestCloseAfterTheReplyOfASecondCreateIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithHooks(framework.Hooks{
			Operation: func(context.Context, framework.Operation) func(framework.OperationEnd) {
				return func(end framework.OperationEnd) {
					if end.Err != nil { // the keeper learns of the connection's loss before the create's
						time.Sleep(time.Millisecond)
					}
				}
			},
		}))
		k := keep(t, c, "a")
		id := session(t, c)
		lost := s.Inject(zktest.Fault{Op: "create2", PathPrefix: path, Action: zktest.HoldReply})
		require.NoError(t, s.Delete(path))
		<-lost.Struck()
		synctest.Wait()
		s.Cut(id)
		assert.True(t, s.Exists(path))
		ends(t, s, k)
	})
}

// Closed at any moment, even before it was ever connected, a keeper leaves nothing.
func TestCloseAtAnyMoment(t *testing.T) {
	for _, mode := range []framework.CreateMode{framework.Ephemeral, framework.EphemeralSequential,
		framework.PersistentSequential} {
		for after := range 12 {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s)
				s.Delay(0, 3*time.Millisecond)
				k, err := node.NewKeeper(c, path, nil, node.WithMode(mode))
				require.NoError(t, err)
				time.Sleep(time.Duration(after) * time.Millisecond)
				require.NoError(t, k.Close(background))
				s.Heal()
				time.Sleep(time.Minute)
				recipetest.Clean(t, s, "/services")
				recipetest.Tidy(t, c)
			})
		}
	}
}

// Another client's node at the path stays.
func TestCloseLeavesWhatIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		k := keep(t, c, "ours")
		id := session(t, c)
		away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
		s.Cut(id)
		<-away.Struck()
		require.NoError(t, s.Delete(path))
		_, err := other.Create().WithMode(framework.Ephemeral).ForPath(background, path, []byte("theirs"))
		require.NoError(t, err)
		closing := recipetest.Begin(t, func() (int, error) { return 0, k.Close(background) }).Waits()
		away.Release()
		closing.End().OK()
		has(t, s, session(t, other), "theirs")
	})
}

func TestClientClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "a")
		require.NoError(t, c.Close())
		<-k.Done()
		assert.False(t, s.Exists(path), "it goes with the session")
		require.ErrorIs(t, k.Status().Err, framework.ErrClosed)
		require.ErrorIs(t, k.Close(background), framework.ErrClosed)
		require.ErrorIs(t, k.SetData(background, nil), framework.ErrClosed)
		for _, err := range k.Follow(background) {
			if err != nil {
				require.ErrorIs(t, err, framework.ErrClosed)
			}
		}
		k, err := node.NewKeeper(c, path, nil)
		require.NoError(t, err)
		require.ErrorIs(t, k.WaitCreated(background), framework.ErrClosed)
		<-k.Done()
	})
}

// A loop that is slow when the keeper ends gets all earlier statuses before the reason.
func TestFollowYieldsTheLastStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for range 20 { // the end and the last statuses arrive at the same time
			k := keep(t, c, "a")
			var last node.Status
			for status, err := range k.Follow(background) {
				if err != nil {
					require.ErrorIs(t, err, node.ErrClosed)
					continue
				}
				if last = status; status.State == node.There {
					require.NoError(t, k.Close(background))
				}
			}
			require.Equal(t, node.Missing, last.State)
			require.ErrorIs(t, last.Err, node.ErrClosed)
		}
	})
}

// With the view of a session the keeper ends with that session.
func TestSessionsView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		view, err := c.Session(background)
		require.NoError(t, err)
		k := keep(t, view.Client(), "a")
		s.Expire(view.ID())
		<-k.Done()
		require.ErrorIs(t, k.Status().Err, framework.ErrSessionLost)
		require.NoError(t, c.WaitConnected(background))
		late, err := node.NewKeeper(view.Client(), path, nil)
		require.NoError(t, err)
		require.ErrorIs(t, late.WaitCreated(background), framework.ErrSessionLost)
		<-late.Done()
		time.Sleep(time.Minute)
		assert.False(t, s.Exists(path))
	})
}

func TestBadArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for _, client := range []*framework.Client{nil, {}} {
			_, err := node.NewKeeper(client, path, nil)
			require.ErrorIs(t, err, framework.ErrNoClient)
			_, err = node.TryClaim(background, client, path, nil)
			require.ErrorIs(t, err, framework.ErrNoClient)
		}
		for _, bad := range []string{"", "/", "x", "/x/"} {
			for _, view := range []*framework.Client{c, c.UsingNamespace("team")} {
				_, err := node.NewKeeper(view, bad, nil)
				require.ErrorIs(t, err, framework.ErrInvalidPath)
				_, err = node.TryClaim(background, view, bad, nil)
				require.ErrorIs(t, err, framework.ErrInvalidPath)
			}
		}
		for _, opt := range []node.Option{nil, node.WithMode(framework.Container), node.WithMode(99),
			node.WithTTL(0), node.WithTTL(time.Microsecond), node.WithTakeover(7)} {
			_, err := node.NewKeeper(c, path, nil, opt)
			require.ErrorIs(t, err, framework.ErrInvalidOption)
		}
		shortest, err := node.NewKeeper(c, path, nil, node.WithTTL(2*time.Millisecond))
		require.NoError(t, err)
		require.NoError(t, shortest.Close(background))
		_, err = node.NewKeeper(c, path, nil, node.WithTTL(time.Minute), node.WithProtection())
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		_, err = node.TryClaim(background, c, path, nil, nil)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		_, err = node.TryClaim(background, c, path, nil, node.WithLossPolicy(9))
		require.ErrorIs(t, err, framework.ErrInvalidOption)

		made := keep(t, c, "")
		var none context.Context
		require.ErrorIs(t, made.SetData(none, nil), framework.ErrNilContext)
		require.ErrorContains(t, made.SetData(none, nil), path)
		require.ErrorIs(t, made.Close(none), framework.ErrNilContext)
		ends(t, s, made)
	})
}

// Each keeper of a sequential node has its own name, and keeps it.
func TestSequential(t *testing.T) {
	for _, mode := range []framework.CreateMode{framework.EphemeralSequential, framework.PersistentSequential} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s)
			a, b := keep(t, c, "a", node.WithMode(mode)), keep(t, c, "b", node.WithMode(mode))
			name := regexp.MustCompile(`^/services/_c_[0-9a-f-]{36}-web000000000[01]$`)
			assert.Regexp(t, name, a.Path())
			assert.Regexp(t, name, b.Path())
			assert.NotEqual(t, a.Path(), b.Path())
			before := a.Path()
			require.NoError(t, s.Delete(before))
			soon(t, "made anew", func() bool { return s.Exists(before) && state(a) == node.There })
			s.Expire(session(t, c))
			soon(t, "made anew", func() bool {
				return s.Exists(before) && state(a) == node.There && state(b) == node.There
			})
			children, err := s.Children("/services")
			require.NoError(t, err)
			assert.Len(t, children, 2)
			assert.Equal(t, before, a.Path())
			require.NoError(t, b.Close(background))
			ends(t, s, a)
		})
	}
}

// A keeper adopts an existing persistent node, and writes its data.
func TestPersistent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, s.Create(path, []byte("theirs")))
		k := keep(t, c, "ours", node.WithMode(framework.Persistent))
		has(t, s, 0, "ours")
		s.Expire(session(t, c))
		soon(t, "there again", func() bool { return state(k) == node.There })
		_, stat, err := s.Get(path)
		require.NoError(t, err)
		assert.EqualValues(t, 1, stat.Version, "set once")
		require.NoError(t, s.Delete(path))
		soon(t, "made anew", func() bool { return s.Exists(path) && state(k) == node.There })
		has(t, s, 0, "ours")
		ends(t, s, k)
	})
}

// WaitCreated waits for the data, too: before that write the node has a predecessor's.
func TestPersistentHasItsDataWhenItIsCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, s.Create(path, []byte("theirs")))
		held := s.Inject(zktest.Fault{Session: session(t, c), Op: "setData", Action: zktest.Hold})
		k, err := node.NewKeeper(c, path, []byte("ours"), node.WithMode(framework.Persistent))
		require.NoError(t, err)
		<-held.Struck()
		created := recipetest.Begin(t, func() (int, error) { return 0, k.WaitCreated(background) }).Waits()
		held.Release()
		created.End().OK()
		data, _, err := s.Get(path)
		require.NoError(t, err)
		assert.Equal(t, "ours", string(data))
		ends(t, s, k)
	})
}

// An existing persistent node that may not be written is not the keeper's: WaitCreated returns the error, and Close does not
// delete the node, even if that is allowed.
func TestPersistentThatMayNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, s.Create(path, []byte("theirs")))
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: int32(framework.PermRead), Scheme: "world", ID: "anyone"}))
		k, err := node.NewKeeper(c, path, []byte("ours"), node.WithMode(framework.Persistent))
		require.NoError(t, err)
		require.ErrorIs(t, k.WaitCreated(background), framework.ErrNoAuth)
		require.NoError(t, k.Close(background))
		has(t, s, 0, "theirs")

		k, err = node.NewKeeper(c, path, []byte("ours"), node.WithMode(framework.Persistent))
		require.NoError(t, err)
		require.ErrorIs(t, k.WaitCreated(background), framework.ErrNoAuth)
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: int32(framework.PermAll), Scheme: "world", ID: "anyone"}))
		soon(t, "the keeper's", func() bool { return k.WaitCreated(background) == nil })
		has(t, s, 0, "ours")
		ends(t, s, k)
	})
}

// The create is not executed, and its outcome is unknown; then another client creates the node. The keeper adopts it, as always,
// and sets its data, although its version is that of a new node.
func TestPersistentMadeByAnotherAfterALostCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, s.Create("/services", nil))
		cut := s.Inject(zktest.Fault{Session: session(t, c), Op: "create2", Action: zktest.CutBefore})
		k, err := node.NewKeeper(c, path, []byte("ours"), node.WithMode(framework.Persistent))
		require.NoError(t, err)
		<-cut.Struck()
		require.NoError(t, s.Create(path, []byte("theirs")))
		soon(t, "there", func() bool { return state(k) == node.There })
		time.Sleep(time.Second)
		has(t, s, 0, "ours")
		ends(t, s, k)
	})
}

// Two keepers of one path: one has the node, the other waits, and has it later.
func TestTwoKeepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		first := keep(t, newClient(t, s), "first")
		c := newClient(t, s)
		second, err := node.NewKeeper(c, path, []byte("second"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, node.There, state(first))
		assert.Equal(t, node.Missing, state(second))
		require.NoError(t, first.Close(background))
		require.NoError(t, second.WaitCreated(background))
		has(t, s, session(t, c), "second")
		ends(t, s, second)
	})
}

// The path is in the namespace, and below the chroot.
func TestNamespaceAndChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/prod", nil))
		c, err := framework.New(s.Addr()+"/prod", framework.WithDialer(s.Dial))
		require.NoError(t, err)
		defer c.Close()
		view := c.UsingNamespace("team")
		k := keep(t, view, "a")
		assert.True(t, s.Exists("/prod/team"+path))
		assert.Equal(t, path, k.Path())
		require.NoError(t, s.Delete("/prod/team"+path))
		soon(t, "made anew", func() bool { return s.Exists("/prod/team"+path) && state(k) == node.There })
		require.NoError(t, k.Close(background))
		claim, err := node.TryClaim(background, view, path, nil)
		require.NoError(t, err)
		assert.True(t, s.Exists("/prod/team"+path))
		require.NoError(t, claim.Release(background))
		recipetest.Clean(t, s, "/prod/team/services")
	})
}

// A node with a TTL lives as long as its keeper, and the TTL longer.
func TestTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{ExtendedTypes: true})
		c := newClient(t, s)
		k := keep(t, c, "a", node.WithTTL(time.Minute))
		assert.Equal(t, zktest.Container, s.Tree()[path].Mode)
		synctest.Wait()
		assert.Equal(t, zktest.TTL, s.Tree()[path+"/touch"].Mode)
		time.Sleep(10 * time.Minute)
		has(t, s, 0, "a")
		version := s.Tree()[path+"/touch"].Stat.Version
		assert.InDelta(t, 20, version, 1)
		require.NoError(t, s.DeleteAll(path))
		soon(t, "made anew", func() bool { return s.Exists(path) })
		require.NoError(t, k.SetData(background, []byte("b")))
		time.Sleep(time.Minute)
		require.NoError(t, k.Close(background))
		has(t, s, 0, "b")
		time.Sleep(5 * time.Minute)
		s.Reap()
		assert.False(t, s.Exists(path))
	})
}

// A keeper that waits for another session's node logs that session once. A keeper that waits for its own earlier session's node
// logs nothing.
func TestWarnsOfAnothersNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		first, c := newClient(t, s), newClient(t, s, framework.WithLogger(log.Logger()))
		k := keep(t, first, "a")
		second, err := node.NewKeeper(c, path, []byte("b"))
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		cutOff(t, s, c)
		time.Sleep(5 * time.Minute)
		require.NoError(t, k.SetData(background, []byte("c")))
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), "waiting until it is deleted"), log.String())
		assert.Contains(t, log.String(), fmt.Sprintf("session=%#x", session(t, first)))
		require.NoError(t, k.Close(background))
		require.NoError(t, second.WaitCreated(background))
		s.Expire(session(t, c))
		require.NoError(t, second.WaitCreated(background))
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), "waiting until it is deleted"), log.String())

		// The next wait for a node of the same session is logged again.
		soon(t, "made anew", func() bool { return s.Exists(path) && state(second) == node.There })
		away := s.Inject(zktest.Fault{Session: session(t, c), Op: zktest.OpConnect, Action: zktest.Hold})
		s.Cut(session(t, c))
		<-away.Struck()
		require.NoError(t, s.Delete(path))
		_, err = s.CreateNode(path, nil, zktest.Ephemeral, session(t, first))
		require.NoError(t, err)
		away.Release()
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 2, strings.Count(log.String(), "waiting until it is deleted"), log.String())
		require.NoError(t, s.Delete(path))
		require.NoError(t, second.Close(background))
	})
}

// cutOff cuts the client's connection.
func cutOff(t *testing.T, s *zktest.Server, c *framework.Client) {
	t.Helper()
	s.Cut(session(t, c))
	require.NoError(t, c.WaitConnected(background))
}

// After a single refusal a keeper tries again within a tenth of a second, also if it was refused more often before.
func TestTheFirstRetryComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		refused := s.Inject(zktest.Fault{Op: zktest.OpCreate2, Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		k, err := node.NewKeeper(newClient(t, s), path, nil)
		require.NoError(t, err)
		require.ErrorIs(t, k.WaitCreated(background), framework.ErrNoAuth)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, refused.Hits())
		assert.Equal(t, node.There, state(k))
		for _, refusals := range []int{10, 1} { // the pauses begin with short ones each time
			refused = s.Inject(zktest.Fault{
				Op: zktest.OpCreate2, Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: refusals,
			})
			require.NoError(t, s.Delete(path))
			if refusals > 1 {
				time.Sleep(time.Minute)
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			assert.Equal(t, refusals, refused.Hits())
			assert.Equal(t, node.There, state(k))
		}
		ends(t, s, k)
	})
}

// The refusal of the create is the status's error, also with the next connection, until the node exists.
func TestARefusalOutlastsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		s.Inject(zktest.Fault{Op: zktest.OpCreate2, Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		next := s.Inject(zktest.Fault{Op: zktest.OpCreate2, Action: zktest.Hold})
		k, err := node.NewKeeper(c, path, nil)
		require.NoError(t, err)
		require.ErrorIs(t, k.WaitCreated(background), framework.ErrNoAuth)
		cutOff(t, s, c)
		<-next.Struck()
		synctest.Wait()
		require.ErrorIs(t, k.Status().Err, framework.ErrNoAuth)
		next.Release()
		soon(t, "there", func() bool { return state(k) == node.There })
		require.NoError(t, k.Status().Err)
		ends(t, s, k)
	})
}

// The node is deleted before new data can be written to it: the keeper creates it again with them, and then SetData returns.
func TestDeletedBeforeItsDataAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "a")
		held := s.Inject(zktest.Fault{Op: zktest.OpSetData, Action: zktest.Hold})
		set := recipetest.Begin(t, func() (int, error) { return 0, k.SetData(background, []byte("b")) })
		<-held.Struck()
		require.NoError(t, s.Delete(path))
		held.Release()
		require.NoError(t, set.End().Err)
		has(t, s, session(t, c), "b")
		ends(t, s, k)
	})
}

// The reply to the create, or to the take-over, is lost, and the keeper finds its node. If later data are refused, it returns to
// those of the create.
func TestRevertsToTheDataOfALostCreate(t *testing.T) {
	for _, takeover := range []node.Takeover{node.Never, node.AtStart} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c, former, op := newClient(t, s), newClient(t, s), zktest.OpCreate2
			require.NoError(t, s.Create("/services", nil))
			if takeover == node.AtStart {
				op = zktest.OpMulti
				_, err := s.CreateNode(path, nil, zktest.Ephemeral, session(t, former))
				require.NoError(t, err)
			}
			lost := s.Inject(zktest.Fault{Session: session(t, c), Op: op, Action: zktest.LoseReply})
			k := keep(t, c, "a", node.WithTakeover(takeover))
			assert.Equal(t, 1, lost.Hits())
			require.ErrorIs(t, k.SetData(background, bytes.Repeat([]byte("x"), 2<<20)), framework.ErrTooLarge)
			assert.Equal(t, "a", string(k.Data()))
			ends(t, s, k)
		})
	}
}

// The reply to the create is lost, and SetData comes before the keeper finds its node. Those data are not the node's: they are
// refused, and the node keeps the data that were sent with the create.
func TestDataRefusedAfterALostCreate(t *testing.T) {
	for _, takeover := range []node.Takeover{node.Never, node.AtStart} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c, former, op := newClient(t, s), newClient(t, s), zktest.OpCreate2
			require.NoError(t, s.Create("/services", nil))
			if takeover == node.AtStart {
				op = zktest.OpMulti
				_, err := s.CreateNode(path, nil, zktest.Ephemeral, session(t, former))
				require.NoError(t, err)
			}
			away := s.Inject(zktest.Fault{Op: zktest.OpConnect, Action: zktest.Hold})
			s.Inject(zktest.Fault{Session: session(t, c), Op: op, Action: zktest.LoseReply})
			k, err := node.NewKeeper(c, path, []byte("a"), node.WithTakeover(takeover))
			require.NoError(t, err)
			<-away.Struck()
			set := make(chan error, 1)
			go func() { set <- k.SetData(background, bytes.Repeat([]byte("x"), 2<<20)) }()
			synctest.Wait()
			away.Release()
			require.ErrorIs(t, <-set, framework.ErrTooLarge)
			assert.Equal(t, "a", string(k.Data()))
			has(t, s, session(t, c), "a")
			ends(t, s, k)
		})
	}
}

// While the keeper is disconnected, its persistent node is replaced by one that may not be written, with other data. The keeper
// reports that, although its data were accepted before.
func TestPersistentReplacedByOneThatMayNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		k := keep(t, c, "ours", node.WithMode(framework.Persistent))
		away := s.Inject(zktest.Fault{Op: zktest.OpConnect, Action: zktest.Hold})
		s.Cut(session(t, c))
		<-away.Struck()
		require.NoError(t, s.Delete(path))
		require.NoError(t, s.Create(path, []byte("theirs")))
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: int32(framework.PermRead), Scheme: "world", ID: "anyone"}))
		away.Release()
		time.Sleep(time.Minute)
		require.ErrorIs(t, k.WaitCreated(background), framework.ErrNoAuth)
		has(t, s, 0, "theirs")
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: int32(framework.PermAll), Scheme: "world", ID: "anyone"}))
		time.Sleep(time.Minute)
		require.NoError(t, k.WaitCreated(background))
		has(t, s, 0, "ours")
		ends(t, s, k)
	})
}

// The session is lost by the client's clock, and the client cannot close it. A slow server still has its node during the next
// session. It is not another client's node: nothing is logged, and Close waits until it is deleted.
func TestCloseWaitsForTheNodeOfALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{TickTime: time.Minute, MinSessionTimeout: time.Second})
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		k := keep(t, c, "a")
		old := session(t, c)
		s.Inject(zktest.Fault{Session: old, Op: zktest.OpConnect, Times: -1, Action: zktest.CutBefore})
		s.BlackHole(old, zktest.Both)
		soon(t, "another session", func() bool { return c.State().Epoch == 2 && c.State().State.IsConnected() })
		has(t, s, old, "a")
		assert.Equal(t, node.Missing, state(k))
		assert.Equal(t, old, k.Status().Owner)
		assert.NotContains(t, log.String(), "waiting until it is deleted")
		ends(t, s, k)
	})
}

// The same after two lost sessions: in the third session the first one's node is still not another client's.
func TestCloseWaitsForTheNodeOfTheSessionBeforeTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{TickTime: time.Minute, MinSessionTimeout: time.Second})
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		k := keep(t, c, "a")
		first := session(t, c)
		s.Inject(zktest.Fault{Session: first, Op: zktest.OpConnect, Times: -1, Action: zktest.CutBefore})
		s.BlackHole(first, zktest.Both)
		soon(t, "the second session", func() bool { return c.State().Epoch == 2 && c.State().State.IsConnected() })
		has(t, s, first, "a")
		s.Expire(session(t, c))
		soon(t, "the third session", func() bool { return c.State().Epoch == 3 && c.State().State.IsConnected() })
		has(t, s, first, "a")
		assert.Equal(t, first, k.Status().Owner)
		assert.NotContains(t, log.String(), "waiting until it is deleted")
		ends(t, s, k)
	})
}

// Without servers, Close and a set's Close wait for a session timeout, unless ctx has a deadline. The keepers continue.
func TestCloseHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		timeout := c.Safety().SessionTimeout
		k, set := keep(t, c, "a"), node.NewSet(c)
		for i := range 3 {
			require.NoError(t, set.Keep(background, fmt.Sprintf("/services/%d", i), nil))
		}
		s.Stop()
		for _, closeAll := range []func(context.Context) error{k.Close, set.Close} {
			began := time.Now()
			err := closeAll(background)
			require.ErrorIs(t, err, framework.ErrOutcomeUnknown)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, timeout, time.Since(began))
			ctx, cancel := context.WithTimeout(background, 2*timeout)
			err = closeAll(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
		}
		require.NoError(t, s.Start())
		require.NoError(t, k.Close(background))
		require.NoError(t, set.Close(background))
		recipetest.Clean(t, s, "/services")
	})
}

// The call returns immediately, even in an outage, and the callback gets Close's error.
func TestCloseInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		results := make(chan error, 1)
		report := func(err error) { results <- err }
		k := keep(t, c, "a")
		s.Stop()
		began := time.Now()
		k.CloseInBackground(nil, report)
		assert.Zero(t, time.Since(began))
		time.Sleep(time.Minute)
		assert.Empty(t, results)
		require.NoError(t, s.Start())
		require.NoError(t, <-results)
		ends(t, s, k)
		k.CloseInBackground(report)
		require.NoError(t, <-results)

		k = keep(t, c, "a")
		require.NoError(t, s.SetACL("/services", zktest.ACL{Perms: int32(framework.PermRead), Scheme: "world", ID: "anyone"}))
		k.CloseInBackground(report)
		require.ErrorIs(t, <-results, framework.ErrNoAuth)

		require.NoError(t, c.Close())
		k.CloseInBackground(report)
		require.ErrorIs(t, <-results, framework.ErrNoAuth, "the result of the first Close")
		k.CloseInBackground()
	})
}
