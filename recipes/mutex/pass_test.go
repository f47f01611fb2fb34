package mutex_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// four puts four clients in line. The first holds the lock; nodes are the paths of all four.
func four(t *testing.T, s *zktest.Server, opts ...framework.Option) (lock *mutex.Lock, next []*call, nodes []string) {
	t.Helper()
	lock = acquire(t, mutex.New(newClient(t, s, opts...), path))
	for range 3 {
		next = append(next, waiting(t, background, mutex.New(newClient(t, s, opts...), path)))
	}
	line, err := mutex.New(newClient(t, s, opts...), path).Participants(background)
	require.NoError(t, err)
	require.Len(t, line, 4)
	for _, p := range line {
		nodes = append(nodes, p.Path)
	}
	s.ResetCounts()
	return lock, next, nodes
}

// A predecessor's node is deleted in each possible way. The waiter needs no list only after a release by a holder that had
// waited, and no waiter is granted while another contender holds.
func TestWhoGoesLeavesAMark(t *testing.T) {
	for _, c := range []struct {
		name  string
		leave func(t *testing.T, s *zktest.Server, holder *mutex.Lock, own *framework.Client)
		lists int
	}{
		{"released", func(t *testing.T, _ *zktest.Server, holder *mutex.Lock, _ *framework.Client) {
			release(t, holder)
		}, 0},
		{"released in the background", func(t *testing.T, _ *zktest.Server, holder *mutex.Lock, _ *framework.Client) {
			holder.ReleaseInBackground(func(err error) { require.NoError(t, err) })
		}, 0},
		{"its session expires", func(t *testing.T, s *zktest.Server, _ *mutex.Lock, own *framework.Client) {
			s.Expire(session(t, own))
		}, 1},
		{"its client is closed", func(t *testing.T, _ *zktest.Server, _ *mutex.Lock, own *framework.Client) {
			require.NoError(t, own.Close())
		}, 1},
		{"an administrator deletes it", func(t *testing.T, s *zktest.Server, holder *mutex.Lock, _ *framework.Client) {
			require.NoError(t, s.Delete(holder.Path()))
		}, 1},
		{"its release is lost and repeated", func(t *testing.T, s *zktest.Server, holder *mutex.Lock, own *framework.Client) {
			s.Inject(zktest.Fault{Op: "multi", Session: session(t, own), Action: zktest.CutBefore})
			release(t, holder)
		}, 1},
		{"it may leave no mark", func(t *testing.T, s *zktest.Server, holder *mutex.Lock, _ *framework.Client) {
			s.Inject(zktest.Fault{Op: "multi", Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
			release(t, holder)
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				own := newClient(t, s)
				first := acquire(t, mutex.New(newClient(t, s), path))
				second := waiting(t, background, mutex.New(own, path))
				third := waiting(t, background, mutex.New(newClient(t, s), path))
				release(t, first)
				holder := second.End().OK()
				third.Waits()
				s.ResetCounts()
				c.leave(t, s, holder, own)
				last := third.End().OK()
				require.Equal(t, c.lists, s.Counts()["getChildren2"])
				release(t, last)
				time.Sleep(time.Minute)
				clean(t, s, path)
			})
		})
	}
}

// Waiters in the middle of the line leave, in each possible way: the next waiter lists, waits for its new predecessor, and gets
// the event of that one's mark.
func TestWhoGivesUpLeavesNoMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock := acquire(t, mutex.New(newClient(t, s), path))
		second := waiting(t, background, mutex.New(newClient(t, s), path))
		ctx, cancel := context.WithCancel(background)
		leaver, closer, dying := newClient(t, s), newClient(t, s), newClient(t, s)
		givesUp := waiting(t, ctx, mutex.New(leaver, path))
		closes := waiting(t, background, mutex.New(closer, path))
		expires := waiting(t, background, mutex.New(dying, path))
		last := waiting(t, background, mutex.New(newClient(t, s), path))
		for _, leave := range []func(){
			func() { s.Expire(session(t, dying)) }, func() { require.NoError(t, closer.Close()) }, cancel,
		} {
			s.ResetCounts()
			leave()
			synctest.Wait()
			require.NotZero(t, s.Counts()["getChildren2"])
			last.Waits()
			require.True(t, lock.Valid())
		}
		require.Error(t, givesUp.End().Err)
		require.Error(t, closes.End().Err)
		release(t, lock)
		holder := second.End().OK()
		s.ResetCounts()
		release(t, holder)
		holder = last.End().OK()
		require.Equal(t, map[string]int{"multi": 1}, s.Counts())
		release(t, holder)
		release(t, expires.End().OK()) // in its next session, at the end of the line
		time.Sleep(time.Second)
		clean(t, s, path)
	})
}

// An administrator deletes the node of a waiter, long before it is first in line. The waiter gets that event immediately, and is
// not granted by the mark of its old predecessor.
func TestOwnNodeDeletedLongBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock, next, nodes := four(t, s)
		require.NoError(t, s.Delete(nodes[2]))
		synctest.Wait()
		for i, which := range []int{0, 2, 1} { // the third client is at the end now
			release(t, lock)
			lock = next[which].End().OK()
			number := func(node string) string { return node[len(node)-10:] }
			require.Equal(t, i == 2, number(lock.Path()) > number(nodes[3]))
			for _, other := range next {
				require.True(t, other == next[which] || other.Value != nil || other.Pending())
			}
		}
		release(t, lock)
		clean(t, s, path)
	})
}

// If the predecessor's node is not of this library, the waiter arms no watch for a mark.
func TestNoMarkOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		java, c := newClient(t, s), newClient(t, s)
		first := acquire(t, mutex.New(newClient(t, s), path))
		theirs, err := s.CreateNode(path+"/_c_8d5a4d4c-1111-4111-8111-111111111111-lock-", nil,
			zktest.EphemeralSequential, session(t, java))
		require.NoError(t, err)
		session(t, c)
		synctest.Wait()
		s.ResetCounts()
		waiter := waiting(t, background, mutex.New(c, path))
		require.Equal(t, map[string]int{"create2": 1, "getChildren2": 1, "getData": 1}, s.Counts())
		release(t, first)
		waiter.Waits()
		require.NoError(t, s.Delete(theirs))
		release(t, waiter.End().OK())
		clean(t, s, path)
	})
}

// From ZooKeeper 3.8.4 on the server sends no events of a node that the client may not read. A client that may not read its own
// node is granted by a list.
func TestMarkWithoutPermissionToRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		opts := []framework.Option{framework.WithAuth("digest", []byte("user:secret"))}
		for _, perms := range []framework.Perm{framework.PermAll, framework.PermAll &^ framework.PermRead} {
			provider := func(full string) []framework.ACL {
				if !strings.Contains(full, "lock-") {
					return framework.OpenACL()
				}
				return []framework.ACL{framework.DigestACL(perms, "user", "secret")}
			}
			lock, next, _ := four(t, s, append(opts, framework.WithACLProvider(provider))...)
			for _, waiter := range next {
				release(t, lock)
				lock = waiter.End().OK()
			}
			if perms == framework.PermAll {
				require.Zero(t, s.Counts()["getChildren2"], "%v", s.Counts())
			} else {
				require.GreaterOrEqual(t, s.Counts()["getChildren2"], 3, "%v", s.Counts())
			}
			release(t, lock)
			time.Sleep(time.Second)
			clean(t, s, path)
		}
	})
}

// A proxy between client and server breaks the connection at each setWatches: after some attempts the waiter sends none.
func TestMarkWhereSetWatchesBreaksConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock := acquire(t, mutex.New(newClient(t, s), path))
		c := newClient(t, s)
		broken := s.Inject(zktest.Fault{Op: "setWatches", Session: session(t, c), Action: zktest.CutBefore, Times: -1})
		waiter := waiting(t, background, mutex.New(c, path))
		time.Sleep(time.Minute)
		require.LessOrEqual(t, broken.Hits(), 10)
		before := broken.Hits()
		time.Sleep(time.Hour)
		require.Equal(t, before, broken.Hits())
		broken.Remove()
		release(t, lock)
		release(t, waiter.End().OK())
		clean(t, s, path)
	})
}

// Requests for watches are lost now and then, never twice in a row: the waiter retries each, so it needs no list in the end.
func TestMarkAfterRequestsForWatchesWereLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock, next, _ := four(t, s)
		var ahead []context.CancelFunc
		for range 7 {
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			waiting(t, ctx, mutex.New(newClient(t, s), path))
			ahead = append(ahead, cancel)
		}
		c := newClient(t, s)
		last := waiting(t, background, mutex.New(c, path))
		for _, giveUp := range slices.Backward(ahead[1:]) {
			lost := s.Inject(zktest.Fault{Op: "setWatches", Session: session(t, c), Action: zktest.CutBefore})
			giveUp()
			time.Sleep(5 * time.Second)
			require.Equal(t, 1, lost.Hits())
		}
		ahead[0]()
		time.Sleep(time.Second)
		for _, n := range next {
			release(t, lock)
			lock = n.End().OK()
		}
		s.ResetCounts()
		release(t, lock)
		lock = last.End().OK()
		require.Zero(t, s.Counts()["getChildren2"])
		release(t, lock)
		clean(t, s, path)
	})
}

// A waiter gets no event of its node's deletion, since the node was made unreadable first: the waiter reads it once per session
// timeout, and loses its place.
func TestMarkOfAWaiterThatCannotHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{Profile: zktest.V38})
		lock, next, nodes := four(t, s)
		require.NoError(t, s.SetACL(nodes[2], zktest.ACL{Perms: 1 << 4, Scheme: "world", ID: "anyone"}))
		require.NoError(t, s.Delete(nodes[2]))
		time.Sleep(15 * time.Second)
		for _, which := range []int{0, 2, 1} {
			release(t, lock)
			lock = next[which].End().OK()
		}
		release(t, lock)
		clean(t, s, path)
	})
}

// Only the waiter counts contenders of another implementation. The predecessor does not, so its mark proves nothing.
func TestMarkOfAHolderThatKnowsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		old := newClient(t, s)
		foreign, err := s.CreateNode(path+"/", nil, zktest.EphemeralSequential, session(t, old))
		require.NoError(t, err)
		first := acquire(t, mutex.New(newClient(t, s), path))
		second := waiting(t, background, mutex.New(newClient(t, s), path))
		knows := mutex.New(newClient(t, s), path, mutex.WithForeignContenders(func(string) bool { return true }))
		third := waiting(t, background, knows)
		release(t, first)
		release(t, second.End().OK())
		third.Waits()
		require.NoError(t, s.Delete(foreign))
		release(t, third.End().OK())
		clean(t, s, path)
	})
}

// The server does not support setWatches: each hand-over needs a list.
func TestMarkWithoutSetWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Inject(zktest.Fault{Op: "setWatches", Action: zktest.ReplyError, Err: zktest.ErrUnimplemented, Times: -1})
		lock, next, _ := four(t, s)
		for _, waiter := range next {
			release(t, lock)
			lock = waiter.End().OK()
		}
		require.Equal(t, 3, s.Counts()["getChildren2"])
		release(t, lock)
		clean(t, s, path)
	})
}

// A request to release is written into a waiter's node. The waiter is still granted in its order, and does not list for each
// write.
func TestMarkOfAWaiterThatIsAskedToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock, next, nodes := four(t, s)
		for range 3 {
			require.NoError(t, s.Set(nodes[2], []byte("__REVOKE__")))
			synctest.Wait()
		}
		require.LessOrEqual(t, s.Counts()["getChildren2"], 3, "of the one behind it")
		s.ResetCounts()
		for _, waiter := range next {
			release(t, lock)
			lock = waiter.End().OK()
		}
		require.Equal(t, 1, s.Counts()["getChildren2"], "its own")
		release(t, lock)
		clean(t, s, path)
	})
}

// The waiter's own node is replaced while it is disconnected.
func TestOwnNodeReplacedInAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock := acquire(t, mutex.New(newClient(t, s), path))
		c, other := newClient(t, s), newClient(t, s)
		waiter := waiting(t, background, mutex.New(c, path))
		line, err := mutex.New(other, path).Participants(background)
		require.NoError(t, err)
		own, id := line[1].Path, session(t, other)
		require.NoError(t, s.Restart())
		require.NoError(t, s.Delete(own))
		_, err = s.CreateNode(own, nil, zktest.Ephemeral, id)
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		release(t, lock)
		require.NoError(t, s.Delete(own), "it has not removed what is not its own")
		next := waiter.End().OK()
		require.NotEqual(t, own, next.Path())
		release(t, next)
		clean(t, s, path)
	})
}

// A client writes to a waiter's node, which fires the watch on it, and then replaces the node. The waiter notices the other owner
// when it arms the watch again.
func TestOwnNodeReplacedAfterAWrite(t *testing.T) {
	for _, of := range []int{1, 3} { // owned by another session, and by the waiter's
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			lock, next, nodes := four(t, s)
			line, err := mutex.New(newClient(t, s), path).Participants(background)
			require.NoError(t, err)
			require.NoError(t, s.Set(nodes[3], []byte("x")))
			synctest.Wait()
			require.NoError(t, s.Delete(nodes[3]))
			_, err = s.CreateNode(nodes[3], nil, zktest.Ephemeral, line[of].SessionID)
			require.NoError(t, err)
			require.NoError(t, s.Delete(nodes[2]))
			synctest.Wait()
			names, err := s.Children(path)
			require.NoError(t, err)
			require.Len(t, names, 5, "both stand in line again, behind what is not their own")
			release(t, lock)
			lock = next[0].End().OK()
			require.NoError(t, s.Delete(nodes[3]))
			release(t, lock)
			for range 2 {
				synctest.Wait()
				for _, waiter := range next[1:] {
					if !waiter.Pending() && waiter.Value.Valid() {
						release(t, waiter.Value)
					}
				}
			}
			clean(t, s, path)
		})
	}
}

// A client writes to a waiter's node. The waiter arms the watch on its own node again when it waits for a new predecessor, by a
// read: so the earlier write costs no list at the next release.
func TestMarkAfterAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock, next, nodes := four(t, s)
		require.NoError(t, s.Set(nodes[3], []byte("x")))
		synctest.Wait()
		require.NoError(t, s.Delete(nodes[2])) // its owner creates a new node, at the end of the line
		synctest.Wait()
		release(t, lock)
		lock = next[0].End().OK()
		s.ResetCounts()
		release(t, lock)
		lock = next[2].End().OK()
		require.Zero(t, s.Counts()["getChildren2"])
		release(t, lock)
		release(t, next[1].End().OK())
		clean(t, s, path)
	})
}

// A recursive watch of the session reports the mark before the waiter's own watch is armed: no watch stays armed.
func TestMarkBeforeItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		c := newClient(t, s)
		all, err := c.Watches().Add().ForPath(background, path)
		require.NoError(t, err)
		lock := acquire(t, mutex.New(newClient(t, s), path))
		second := waiting(t, background, mutex.New(newClient(t, s), path))
		held := s.Inject(zktest.Fault{Op: "setWatches", Session: session(t, c), Action: zktest.Hold})
		third := begin(t, background, mutex.New(c, path))
		<-held.Struck()
		release(t, lock)
		release(t, second.End().OK())
		synctest.Wait()
		held.Release()
		release(t, third.End().OK())
		all.Stop()
		synctest.Wait()
		require.Empty(t, s.Watches())
		clean(t, s, path)
	})
}

// The reply that arms the watches does not wait for a hook of the user.
func TestMarkWaitsForNoHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/user", nil))
		lock := acquire(t, mutex.New(newClient(t, s), path))
		slow := framework.Hooks{Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
			return func(framework.OperationEnd) {
				if op.Path == "/user" {
					time.Sleep(time.Minute)
				}
			}
		}}
		c := newClient(t, s, framework.WithHooks(slow))
		c.GetData().InBackground().ForPath(background, "/user")
		synctest.Wait()
		waiter := begin(t, background, mutex.New(c, path))
		synctest.Wait()
		began := time.Now()
		release(t, lock)
		release(t, waiter.End().OK())
		require.Zero(t, time.Since(began))
		time.Sleep(2 * time.Minute) // until the hook has returned
	})
}

// A hook ends the waiter's goroutine while its watches are being armed: no watch stays armed.
func TestMarkOfAWaiterWhoseHookDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock := acquire(t, mutex.New(newClient(t, s), path))
		ctx, cancel := context.WithCancel(background)
		ahead := waiting(t, ctx, mutex.New(newClient(t, s), path))
		arming := false
		ends := framework.Hooks{Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
			if op.Name == "getData" && arming {
				arming = false
				runtime.Goexit()
			}
			arming = op.Name == "setWatches"
			return func(framework.OperationEnd) {}
		}}
		c := newClient(t, s, framework.WithHooks(ends))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = mutex.New(c, path).Acquire(background)
		}()
		<-done
		cancel()
		require.Error(t, ahead.End().Err)
		release(t, lock)
		synctest.Wait()
		require.Empty(t, s.Watches())
		clean(t, s, path)
	})
}
