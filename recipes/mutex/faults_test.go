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

// An administrator removes everything and somebody else takes number 0, while the waiter is disconnected:
// when it is back it hears that the node ahead of it is gone, but so is its own. It must not take the lock.
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

// The waiter's node is deleted and another one of the same name is there when it looks: it is not its own,
// not even if it is of the same session.
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

// The waiter's own node is deleted, and then the one ahead goes; of both it hears at once. Its own matters:
// without that the turn is not its own, but that of the next.
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
		for range 30 { // it took either event, as it came
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
			synctest.Wait() // both events are there
			goOn <- struct{}{}
			synctest.Wait()
			require.True(t, holder.Valid())
			require.True(t, second.Pending(), "two hold the lock")
			<-waits // at the end of the line
			goOn <- struct{}{}
			release(t, holder)
			release(t, second.End().OK())
		}
		clean(t, s, path)
	})
}

// The request that would arm the watch on the own node is lost with its connection. It is made again on the
// next one: the holder hears of the deletion of its node, and the waiter, too, long before its turn.
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

// Somebody sets the data of a waiter's node (as a revoker does to a holder's): the waiter looks again and
// goes on waiting.
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
		require.NoError(t, s.Set(line[0].Path, []byte("x"))) // and the one ahead, too
		waiter.Waits()
		release(t, lock)
		release(t, waiter.End().OK())
		clean(t, s, path)
	})
}

// The caller gives up after another client has replaced the waiter's node, and before the waiter has read that: the other
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

// The directory is reaped between two users, and while one is about to queue.
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
		// Reaped at the worst moment: the parents are made, and gone before the node is created.
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

// Without the right to read the node ahead the waiter watches the directory.
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

// A waiter that may not read its own node would not hear of its deletion: it takes no turn without a list.
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

// On servers that drop events for want of rights, an ACL that is set while somebody waits costs it the event.
// The slow check finds out.
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

// The node of a namespace is one that somebody has named, and so a lock may use it.
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

// The server has created the node and the connection breaks before the reply: the node is found again, not
// made twice.
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

// Every request of a waiter may lose its reply, one after the other.
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

// The holder's node is deleted and another one of the same name is there when it first looks: it is not its
// own, not even if it is of the same session.
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
