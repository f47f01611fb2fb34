package mutex_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestForeignChildrenDoNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		// All but the first sort behind the numbers of contenders.
		for _, name := range []string{"0", "zzz", "größe", "ffffffffffffffffffffffffffffffff__lock__0000000000"} {
			require.NoError(t, s.Create(path+"/"+name, nil))
		}
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		m := mutex.New(c, path)
		for range 3 {
			lock, err := m.TryAcquire(background)
			require.NoError(t, err)
			next := waiting(t, background, m)
			release(t, lock)
			release(t, next.End().OK())
		}
		require.Equal(t, 1, strings.Count(log.String(), "not a contender"), "one warning for the path")
		require.Contains(t, log.String(), "child=0", "about the one that matters")
	})
}

func TestSequenceNearItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		m := mutex.New(newClient(t, s), path)
		for next, want := range map[int32]error{
			line.SequenceLimit - 1: nil,
			line.SequenceLimit:     mutex.ErrSequenceExhausted,
			math.MaxInt32:          mutex.ErrSequenceExhausted,
			math.MinInt32:          mutex.ErrSequenceExhausted,
			-1:                     mutex.ErrSequenceExhausted,
		} {
			require.NoError(t, s.SetSequence(path, next))
			lock, err := m.Acquire(background)
			if want == nil {
				require.NoError(t, err)
				release(t, lock)
			} else {
				require.ErrorIs(t, err, want, "%d", next)
				require.NoError(t, s.SetSequence(path, next))
				_, err = m.TryAcquire(background)
				require.ErrorIs(t, err, want, "%d", next)
			}
			clean(t, s, path)
		}
	})
}

// While the waiter is disconnected, an administrator deletes the whole directory and another client creates number 0. After its
// reconnect the waiter learns that its predecessor's node is deleted. Its own node is, too, so it must not acquire.
func TestDirectoryMadeAnewWhileDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b, c := newClient(t, s), newClient(t, s), newClient(t, s)
		first := acquire(t, mutex.New(a, path))
		waiter := waiting(t, background, mutex.New(b, path))
		time.Sleep(time.Second)

		refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		s.Cut(session(t, b))
		require.NoError(t, s.DeleteAll(path))
		second := acquire(t, mutex.New(c, path))
		synctest.Wait()
		require.False(t, first.Valid(), "the first holder is told")
		require.ErrorIs(t, context.Cause(first.Context()), mutex.ErrNodeDeleted)
		refused.Remove()
		time.Sleep(3 * time.Second) // it reconnects
		waiter.Waits()
		require.True(t, second.Valid())
		children, err := s.Children(path)
		require.NoError(t, err)
		require.Len(t, children, 2, "it is in the new line")
		release(t, second)
		next := waiter.End().OK()
		require.Greater(t, next.FencingToken(), second.FencingToken())
		release(t, next)
		require.ErrorIs(t, first.Release(background), mutex.ErrNodeDeleted)
		clean(t, s, path)
	})
}

// The waiter's node is deleted, and another client creates a node of the same name before the waiter reads it. The waiter must
// not take that node for its own, not even if its session owns it.
func TestOwnNodeReplacedWhileWaiting(t *testing.T) {
	for i, at := range []zktest.Fault{
		{Op: "getData", PathPrefix: path}, {Op: "setWatches"}, {Op: "getData", PathPrefix: path}, {Op: "setWatches"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			a, b := newClient(t, s), newClient(t, s)
			owner := i / 2
			lock := acquire(t, mutex.New(a, path))
			at.Session, at.Action = session(t, b), zktest.Hold
			look := s.Inject(at)
			done := begin(t, background, mutex.New(b, path))
			<-look.Struck()
			line, err := mutex.New(a, path).Participants(background)
			require.NoError(t, err)
			require.NoError(t, s.Delete(line[1].Path))
			_, err = s.CreateNode(line[1].Path, nil, zktest.Ephemeral, []int64{session(t, a), session(t, b)}[owner])
			require.NoError(t, err)
			look.Release()
			done.Waits()
			now, err := mutex.New(a, path).Participants(background)
			require.NoError(t, err)
			require.Equal(t, session(t, b), now[len(now)-1].SessionID)
			require.NotEqual(t, line[1].Name, now[len(now)-1].Name, "it has begun again")
			release(t, lock)
			require.NoError(t, s.Delete(line[1].Path), "it has not removed what is not its own")
			release(t, done.End().OK())
			clean(t, s, path)
		})
	}
}

// The waiter's own node is deleted, and then its predecessor's: both events arrive together. The waiter must handle its own
// deletion first: without a node it has no right to the lock, and the next waiter has it.
func TestOwnDeletionCountsBeforeThePredecessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		waits, goOn := make(chan struct{}, 1), make(chan struct{})
		a, c := newClient(t, s), newClient(t, s)
		wait := func(context.Context, framework.Queue) func(error) {
			waits <- struct{}{}
			<-goOn
			return nil
		}
		b := newClient(t, s, framework.WithHooks(framework.Hooks{Wait: wait}))
		for range 30 { // repeated: if the order were not fixed, either event could be taken first
			first := acquire(t, mutex.New(a, path))
			second := begin(t, background, mutex.New(b, path))
			<-waits
			third := waiting(t, background, mutex.New(c, path))
			line, err := mutex.New(a, path).Participants(background)
			require.NoError(t, err)
			require.Len(t, line, 3)
			require.NoError(t, s.Delete(line[1].Path))
			release(t, first)
			holder := third.End().OK()
			synctest.Wait() // both events have arrived
			goOn <- struct{}{}
			synctest.Wait()
			require.True(t, holder.Valid())
			require.True(t, second.Pending(), "two hold the lock")
			<-waits // it waits at the end of the line
			goOn <- struct{}{}
			release(t, holder)
			release(t, second.End().OK())
		}
		clean(t, s, path)
	})
}

// The request that arms the watch on the own node is lost with its connection, and is retried on the next one. So the holder gets
// the event of its node's deletion, and so does the waiter, long before it is first in line.
func TestOwnWatchIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		looks := s.Inject(zktest.Fault{Session: session(t, a), Op: "exists", PathPrefix: path,
			Action: zktest.CutBefore, Times: 3})
		lock := acquire(t, mutex.New(a, path))
		time.Sleep(20 * time.Second)
		require.Equal(t, 3, looks.Hits())

		armed := s.Inject(zktest.Fault{Session: session(t, b), Op: "getData", PathPrefix: path,
			Action: zktest.CutBefore, Times: 3})
		waiter := waiting(t, background, mutex.New(b, path))
		time.Sleep(5 * time.Second)
		require.Equal(t, 3, armed.Hits())
		line, err := mutex.New(a, path).Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		require.NoError(t, s.Delete(line[1].Path))
		synctest.Wait()
		line, err = mutex.New(a, path).Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2, "it stands in line again")

		require.NoError(t, s.Delete(lock.Path()))
		synctest.Wait()
		require.ErrorIs(t, context.Cause(lock.Context()), mutex.ErrNodeDeleted)
		require.ErrorIs(t, lock.Release(background), mutex.ErrNodeDeleted)
		release(t, waiter.End().OK())
		clean(t, s, path)
	})
}

// Another client sets the data of a waiter's node (as a revoker does with a holder's): the waiter reads the node and keeps
// waiting.
func TestOwnNodeChangedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		ma := mutex.New(a, path)
		lock := acquire(t, ma)
		waiter := waiting(t, background, mutex.New(b, path))
		line, err := ma.Participants(background)
		require.NoError(t, err)
		require.NoError(t, s.Set(line[1].Path, []byte("x")))
		require.NoError(t, s.Set(line[0].Path, []byte("x"))) // and the predecessor's, too
		waiter.Waits()
		release(t, lock)
		release(t, waiter.End().OK())
		clean(t, s, path)
	})
}

// The caller's context ends after another client has replaced the waiter's node, and before the waiter has read it: the other
// client's node stays.
func TestOwnNodeReplacedBeforeTheCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca, cb, other := newClient(t, s), newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(ca, path))
		ctx, cancel := context.WithCancel(background)
		waiter := waiting(t, ctx, mutex.New(cb, path))
		node := func() string {
			children, err := s.Children(path)
			require.NoError(t, err)
			for _, name := range children {
				if name != lock.Node() {
					return path + "/" + name
				}
			}
			return ""
		}
		own := node()
		read := s.Inject(zktest.Fault{Op: "exists", PathPrefix: own, Action: zktest.Hold})
		require.NoError(t, s.Set(own, nil))
		<-read.Struck()
		require.NoError(t, s.Delete(own))
		_, err := s.CreateNode(own, nil, zktest.Ephemeral, session(t, other))
		require.NoError(t, err)
		cancel()
		require.ErrorIs(t, waiter.End().Err, context.Canceled)
		read.Release()
		synctest.Wait()
		require.Equal(t, own, node())
		require.NoError(t, s.Delete(own))
		release(t, lock)
		clean(t, s, path)
	})
}

// The servers delete the empty container between two holds, and while a contender is about to create its node.
func TestContainerReaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{ReapInterval: time.Second})
		c := newClient(t, s)
		m := mutex.New(c, path)
		last := int64(0)
		for range 3 {
			lock := acquire(t, m)
			require.Greater(t, lock.FencingToken(), last, "tokens grow although the numbers begin again")
			require.True(t, strings.HasSuffix(lock.Node(), "0000000000"))
			last = lock.FencingToken()
			release(t, lock)
			time.Sleep(10 * time.Second)
			require.False(t, s.Exists(path))
		}
		// Deleted at the worst moment: after the parents are created, and before the node is.
		hold := s.Inject(zktest.Fault{Op: "create2", After: 1, Action: zktest.Hold})
		done := make(chan error, 1)
		go func() {
			lock, err := m.Acquire(background)
			if err == nil {
				err = lock.Release(background)
			}
			done <- err
		}()
		<-hold.Struck()
		require.NoError(t, s.Delete(path))
		hold.Release()
		require.NoError(t, <-done)
	})
}

// A waiter without the right to read its predecessor's node watches the directory.
func TestNoRightToReadThePredecessor(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V37, zktest.V38} {
		t.Run(profile.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t, zktest.Config{Profile: profile})
				require.NoError(t, s.Create(path, nil))
				a := newClient(t, s, framework.WithAuth("digest", []byte("a:a")),
					framework.WithDefaultACL(framework.CreatorACL()...))
				b := newClient(t, s)
				ma, mb := mutex.New(a, path), mutex.New(b, path)
				for range 3 {
					first := acquire(t, ma)
					middle := waiting(t, background, ma)
					waiter := waiting(t, background, mb)
					release(t, first)
					granted := middle.End().OK()
					time.Sleep(time.Second)
					waiter.Waits()
					began := time.Now()
					release(t, granted)
					granted = waiter.End().OK()
					require.Equal(t, began, time.Now(), "at once, not at the next check")
					release(t, granted)
					clean(t, s, path)
				}
			})
		})
	}
}

// A waiter that may not read its own node gets no event of its deletion: it is granted only after a list.
func TestNoRightToReadOwnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		b := newClient(t, s, framework.WithDefaultACL(framework.ACL{Perms: framework.PermWrite, Scheme: "world",
			ID: "anyone"}))
		require.NoError(t, s.Create(path, nil))
		lock := acquire(t, mutex.New(a, path))
		waiter := waiting(t, background, mutex.New(b, path))
		s.ResetCounts()
		release(t, lock)
		next := waiter.End().OK()
		require.Equal(t, 1, s.Counts()["getChildren2"])
		release(t, next)
		clean(t, s, path)
	})
}

// Servers that send no events to clients without the right to read: if the ACL changes during a wait, the waiter misses the
// event. Its slow check finds the change.
func TestEventThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{Profile: zktest.V38})
		a, b := newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(a, path))
		waiter := waiting(t, background, mutex.New(b, path))
		require.NoError(t, s.SetACL(lock.Path(), zktest.ACL{Perms: 2, Scheme: "world", ID: "anyone"}))
		time.Sleep(time.Minute) // it checks again and again
		release(t, lock)
		require.True(t, waiter.Pending(), "the server has dropped the event")
		released := time.Now()
		next := waiter.End().OK()
		require.Less(t, time.Since(released), 13*time.Second, "5/4 of the session timeout")
		release(t, next)
	})
}

// A lock may use the root of a namespace: the namespace names a node.
func TestPathRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s).UsingNamespace("one"), newClient(t, s).UsingNamespace("one")
		ma, mb := mutex.New(a, "/"), mutex.New(b, "/")
		lock := acquire(t, ma)
		require.Equal(t, "/"+lock.Node(), lock.Path())
		_, err := mb.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		waiter := waiting(t, background, mb)
		line, err := mb.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		s.ResetCounts()
		release(t, lock)
		next := waiter.End().OK()
		require.Equal(t, "map[delete:1]", requests(s))
		release(t, next)
		children, err := s.Children("/")
		require.NoError(t, err)
		require.Equal(t, []string{"one", "zookeeper"}, children)

		// The root of a namespace, which does not exist yet.
		mc := mutex.New(a.UsingNamespace("team/app"), "/")
		lock = acquire(t, mc)
		require.True(t, s.Exists("/team/app/"+lock.Node()))
		require.Equal(t, "/"+lock.Node(), lock.Path())
		release(t, lock)
	})
}

// The server has created the node, and the connection breaks before the reply: the client finds the node, and creates no second
// one.
func TestReplyLostAfterCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.New(c, path)
		require.NoError(t, c.CreateContainers(background, path))
		for _, op := range []string{"create2", "getChildren2", "delete"} {
			fault := s.Inject(zktest.Fault{Op: op, Action: zktest.LoseReply})
			lock := acquire(t, m)
			_, stat, err := s.Get(lock.Path())
			require.NoError(t, err)
			require.Equal(t, stat.Czxid, lock.FencingToken())
			children, err := s.Children(path)
			require.NoError(t, err)
			require.Equal(t, []string{lock.Node()}, children)
			release(t, lock)
			require.Equal(t, 1, fault.Hits(), op)
			fault.Remove()
			time.Sleep(time.Second)
			clean(t, s, path)
		}
	})
}

// Each request of a waiter loses its reply in turn.
func TestRepliesLostWhileWaiting(t *testing.T) {
	for _, fault := range []zktest.Fault{
		{Op: "create2"}, {Op: "getChildren2"}, {Op: "getData", PathPrefix: path}, {Op: "setWatches"},
		{Op: "getData", PathPrefix: path, Times: 3}, {Op: "setWatches", Times: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			a, b := newClient(t, s), newClient(t, s)
			lock := acquire(t, mutex.New(a, path))
			fault.Session, fault.Action = session(t, b), zktest.LoseReply
			struck := s.Inject(fault)
			done := begin(t, background, mutex.New(b, path))
			time.Sleep(30 * time.Second)
			require.Equal(t, max(fault.Times, 1), struck.Hits())
			done.Waits()
			release(t, lock)
			next := done.End().OK()
			require.True(t, next.Valid())
			release(t, next)
			clean(t, s, path)
		})
	}
}

// The holder's node is deleted and replaced by one of the same name before the holder first reads it. The holder must not take
// that node for its own, not even if its session owns it.
func TestAdministratorReplacesTheHoldersNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		for _, owner := range []int64{session(t, a), session(t, b)} {
			lock := acquire(t, mutex.New(a, path))
			require.NoError(t, s.Delete(lock.Path()))
			_, err := s.CreateNode(lock.Path(), nil, zktest.Ephemeral, owner)
			require.NoError(t, err)
			require.True(t, lock.Valid(), "it has not looked yet")
			time.Sleep(time.Second)
			require.ErrorIs(t, context.Cause(lock.Context()), mutex.ErrNodeDeleted)
			require.ErrorIs(t, lock.Release(background), mutex.ErrNodeDeleted)
			require.NoError(t, s.Delete(lock.Path()), "the release has not removed what is not its own")
		}
	})
}
