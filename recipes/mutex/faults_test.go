package mutex_test

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// In 1,000 acquires that are cancelled at random moments, some while the lock changes hands, nothing is left and nobody is stuck.
func TestCancelAtRandomMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		recipetest.CancelAtRandomMoments(t, s, 20, 40*time.Millisecond, func(c *framework.Client) recipetest.Take {
			m := mutex.New(c, path)
			return func(ctx context.Context, _ *rand.Rand) (func(context.Context) error, error) {
				lock, err := m.Acquire(ctx)
				return lock.Release, err
			}
		}, []string{path})
	})
}

// While the server hangs, every call returns when its context ends, and the node goes when the server is back.
func TestCancelWhileTheServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		m := mutex.New(a, path)
		lock := acquire(t, m)
		recipetest.CancelWhileTheServerHangs(t, s, []string{path},
			func(ctx context.Context) error { _, err := m.Acquire(ctx); return err },
			func(ctx context.Context) error { _, err := m.TryAcquire(ctx); return err },
			func(ctx context.Context) error { _, err := m.Participants(ctx); return err },
			lock.Release,
		)
	})
}

func TestForeignChildrenDoNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path+"/0", nil))
		require.NoError(t, s.Create(path+"/zzz", nil))
		var log strings.Builder
		var mu sync.Mutex
		c := newClient(t, s, framework.WithLogger(slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))))
		m := mutex.New(c, path)
		for range 3 {
			lock, err := m.TryAcquire(background)
			require.NoError(t, err)
			next := waiting(t, background, m)
			release(t, lock)
			release(t, next.End().OK())
		}
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 1, strings.Count(log.String(), "no contender"), "one warning for the path")
		require.Contains(t, log.String(), "child=0", "about the one that matters")
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *strings.Builder
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

func TestSequenceNearItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		m := mutex.New(newClient(t, s), path)
		for next, want := range map[int32]error{
			queue.Limit - 1: nil,
			queue.Limit:     mutex.ErrSequenceExhausted,
			math.MaxInt32:   mutex.ErrSequenceExhausted,
			math.MinInt32:   mutex.ErrSequenceExhausted,
			-1:              mutex.ErrSequenceExhausted,
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

// An administrator removes everything and somebody else takes number 0, while the waiter is disconnected: when it is back it hears that the
// node ahead of it is gone, but so is its own. It must not take the lock.
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

func TestOwnNodeDeletedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		ma := mutex.New(a, path)
		lock := acquire(t, ma)
		waiter := waiting(t, background, mutex.New(b, path))
		for range 5 { // an administrator deletes the waiter's node, again and again
			line, err := ma.Participants(background)
			require.NoError(t, err)
			require.Len(t, line, 2)
			require.NoError(t, s.Delete(line[1].Path))
			time.Sleep(2 * time.Second)
			waiter.Waits()
		}
		release(t, lock)
		next := waiter.End().OK()
		require.True(t, next.Valid())
		release(t, next)
		clean(t, s, path)
	})
}

// The waiter's node is deleted and another one of the same name is there when it looks: it is not its own, not even if it is of the
// same session.
func TestOwnNodeReplacedWhileWaiting(t *testing.T) {
	for owner := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			a, b := newClient(t, s), newClient(t, s)
			lock := acquire(t, mutex.New(a, path))
			look := s.Inject(zktest.Fault{Session: session(t, b), Op: "getData", PathPrefix: path, Action: zktest.Hold})
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
			if s.Exists(line[1].Path) { // the waiter may have removed it when it left its place
				require.NoError(t, s.Delete(line[1].Path))
			}
			release(t, done.End().OK())
			clean(t, s, path)
		})
	}
}

// The waiter's own node is deleted, and then the one ahead goes; of both it hears at once. Its own matters: without that the turn is not its own, but that of
// the next.
func TestOwnDeletionCountsBeforeThePredecessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		waits, goOn := make(chan struct{}, 1), make(chan struct{})
		a, c := newClient(t, s), newClient(t, s)
		b := newClient(t, s, framework.WithHooks(framework.Hooks{Wait: func(context.Context, framework.Queue) func(error) {
			waits <- struct{}{}
			<-goOn
			return nil
		}}))
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

// The request that would arm the watch on the own node is lost with its connection. It is made again on the next one: the holder hears of the deletion of
// its node, and the waiter, too, long before its turn.
func TestOwnWatchIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		looks := s.Inject(zktest.Fault{Session: session(t, a), Op: "exists", PathPrefix: path, Action: zktest.CutBefore, Times: 3})
		lock := acquire(t, mutex.New(a, path))
		time.Sleep(20 * time.Second)
		require.Equal(t, 3, looks.Hits())

		armed := s.Inject(zktest.Fault{Session: session(t, b), Op: "getData", PathPrefix: path, Action: zktest.CutBefore, Times: 3})
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

// Somebody sets the data of a waiter's node (as a revoker does to a holder's): the waiter looks again and goes on waiting.
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
	for _, profile := range []zktest.Profile{zktest.V38, zktest.V384} {
		t.Run(profile.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t, zktest.Config{Profile: profile})
				require.NoError(t, s.Create(path, nil))
				a := newClient(t, s, framework.WithAuth("digest", []byte("a:a")), framework.WithDefaultACL(framework.CreatorACL()...))
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
		b := newClient(t, s, framework.WithDefaultACL(framework.ACL{Perms: framework.PermWrite, Scheme: "world", ID: "anyone"}))
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

// On servers that drop events for want of rights, an ACL that is set while somebody waits costs it the event. The slow check finds out.
func TestEventThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{Profile: zktest.V384})
		a, b := newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(a, path))
		waiter := waiting(t, background, mutex.New(b, path))
		require.NoError(t, s.SetACL(lock.Path(), zktest.ACL{Perms: 2, Scheme: "world", ID: "anyone"}))
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

func TestClientClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(a, path))
		mb := mutex.New(b, path)
		waiter := waiting(t, background, mb)
		began := time.Now()
		require.NoError(t, b.Close())
		o := waiter.End()
		require.ErrorIs(t, o.Err, framework.ErrClosed)
		require.Equal(t, began, time.Now())
		_, err := mb.Acquire(background)
		require.ErrorIs(t, err, framework.ErrClosed)
		_, err = mb.TryAcquire(background)
		require.ErrorIs(t, err, framework.ErrClosed)

		require.NoError(t, a.Close())
		require.ErrorIs(t, context.Cause(lock.Context()), framework.ErrClosed)
		require.ErrorIs(t, lock.Release(background), framework.ErrClosed)
		clean(t, s, path)
	})
}

// The server has created the node and the connection breaks before the reply: the node is found again, not made twice.
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
		{Op: "create2"}, {Op: "getChildren2"}, {Op: "getData", PathPrefix: path}, {Op: "getData", PathPrefix: path, After: 1}, {Op: "getData", PathPrefix: path, Times: 3},
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

// The node ahead goes while the waiter is disconnected: the event comes with the reconnect, and the list decides.
func TestHandOverWhileDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(a, path))
		waiter := waiting(t, background, mutex.New(b, path))
		refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		s.Cut(session(t, b))
		release(t, lock)
		waiter.Waits()
		s.ResetCounts()
		refused.Remove()
		next := waiter.End().OK()
		require.Equal(t, 1, s.Counts()["getChildren2"], "no grant without a list after a reconnect")
		release(t, next)
		clean(t, s, path)
	})
}

func TestExpiryWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b, c := newClient(t, s), newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(a, path))
		second := waiting(t, background, mutex.New(b, path))
		third := waiting(t, background, mutex.New(c, path))
		s.Expire(session(t, b))
		time.Sleep(time.Second)
		second.Waits()
		line, err := mutex.New(a, path).Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 3)
		require.Equal(t, session(t, b), line[2].SessionID, "at the end of the line, in its new session")
		release(t, lock)
		next := third.End().OK()
		second.Waits()
		release(t, next)
		release(t, second.End().OK())
		clean(t, s, path)
	})
}

// CURATOR-604: the waiter's session is over for the client, which is connected again, while the server still has the old node in front. The
// lock is granted to no node but the new session's.
func TestNoGrantOnTheNodeOfADeadSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(a, path))
		waiter := waiting(t, background, mutex.New(b, path))
		old := session(t, b)
		refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		s.BlackHole(old, zktest.Both)
		for change := range b.StateChanges(t.Context()) {
			if change.State == framework.Lost {
				break
			}
		}
		line, err := s.Children(path)
		require.NoError(t, err)
		require.Len(t, line, 2, "the server still has the old node")
		refused.Remove()
		require.NotEqual(t, old, session(t, b))
		waiter.Waits()
		release(t, lock)
		next := waiter.End().OK()
		_, stat, err := s.Get(next.Path())
		require.NoError(t, err)
		require.Equal(t, session(t, b), stat.EphemeralOwner)
		release(t, next)
		clean(t, s, path)
	})
}

func TestExpiryWhileHolding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		ma := mutex.New(a, path)
		lock := acquire(t, ma)
		waiter := waiting(t, background, mutex.New(b, path))
		s.Expire(session(t, a))
		<-lock.Context().Done()
		require.ErrorIs(t, context.Cause(lock.Context()), mutex.ErrSessionLost)
		require.False(t, lock.Valid())
		granted := waiter.End().OK()
		_, err := ma.Acquire(lock.Context())
		require.ErrorIs(t, err, mutex.ErrSessionLost, "no re-entry into what is lost")
		require.ErrorIs(t, lock.Release(background), mutex.ErrSessionLost)
		require.ErrorIs(t, lock.Release(background), mutex.ErrReleased)
		require.True(t, granted.Valid(), "the release of the former holder does not touch the next one's node")
		release(t, granted)
		clean(t, s, path)
	})
}

// P1: the holder is cut off without a sign. Its context ends before the next one is granted the lock.
func TestBlackHoleWhileHolding(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := zktest.RunT(t)
			a, b := newClient(t, s, framework.WithSessionTimeout(4*time.Second)), newClient(t, s)
			lock := acquire(t, mutex.New(a, path))
			waiter := waiting(t, background, mutex.New(b, path))
			time.Sleep(time.Duration(random.Int64N(int64(5 * time.Second))))
			direction := []zktest.Direction{zktest.Both, zktest.FromClient, zktest.ToClient}[random.IntN(3)]
			s.BlackHole(0, 0)
			s.BlackHole(session(t, a), direction)
			blind := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore}) // no way back either
			lost := make(chan time.Time, 1)
			context.AfterFunc(lock.Context(), func() { lost <- time.Now() })
			o := waiter.End()
			require.NoError(t, o.Err)
			ended := <-lost
			require.True(t, ended.Before(o.At), "the context ended at %v, the next grant was at %v", ended, o.At)
			require.ErrorIs(t, context.Cause(lock.Context()), mutex.ErrSessionLost)
			blind.Remove()
			release(t, o.Value)
		})
	}
}

func TestLossPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		stays := acquire(t, mutex.New(a, "/stays"))
		ends := acquire(t, mutex.New(a, "/ends", mutex.WithLossPolicy(framework.SuspendedIsLoss)))
		s.Cut(session(t, a))
		time.Sleep(3 * time.Second)
		require.True(t, stays.Valid())
		require.NoError(t, stays.Context().Err())
		require.False(t, ends.Valid())
		require.ErrorIs(t, context.Cause(ends.Context()), mutex.ErrSuspended)
		require.True(t, s.Exists(ends.Path()), "it has to be released all the same")
		require.ErrorIs(t, ends.Release(background), mutex.ErrSuspended)
		require.False(t, s.Exists(ends.Path()))
		release(t, stays)
	})
}

// With SuspendedIsLoss a turn that comes while the connection is away is taken when it is back.
func TestTurnComesWhileSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(a, path))
		waiter := waiting(t, background, mutex.New(b, path, mutex.WithLossPolicy(framework.SuspendedIsLoss)))
		refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		s.Cut(session(t, b))
		time.Sleep(time.Second)
		release(t, lock)
		waiter.Waits()
		refused.Remove()
		next := waiter.End().OK()
		require.True(t, next.Valid())
		release(t, next)
		clean(t, s, path)
	})
}

// The connection goes at the very moment of the grant: with SuspendedIsLoss that is no error of Acquire, and no hold that is over at once
// without its context saying so.
func TestSuspendedAtTheMomentOfTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, s.Create(path, nil))
		m := mutex.New(c, path, mutex.WithLossPolicy(framework.SuspendedIsLoss))
		random := rand.New(rand.NewPCG(1, 1))
		for range 300 {
			done := begin(t, background, m)
			for range random.IntN(40) {
				runtime.Gosched()
			}
			s.Cut(session(t, c))
			next := done.End().OK()
			if err := next.Release(background); err != nil {
				require.ErrorIs(t, err, mutex.ErrSuspended)
				require.ErrorIs(t, context.Cause(next.Context()), mutex.ErrSuspended)
			}
			time.Sleep(5 * time.Second)
			clean(t, s, path)
		}
	})
}

func TestAdministratorDeletesTheHoldersNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		mb := mutex.New(b, path)
		for _, waited := range []bool{false, true} {
			var lock *mutex.Lock
			if waited {
				first := acquire(t, mutex.New(a, path))
				next := waiting(t, background, mb)
				release(t, first)
				lock = next.End().OK()
			} else {
				lock = acquire(t, mb)
				time.Sleep(100 * time.Millisecond)
			}
			require.NoError(t, s.Delete(lock.Path()))
			<-lock.Context().Done()
			require.ErrorIs(t, context.Cause(lock.Context()), mutex.ErrNodeDeleted)
			require.False(t, lock.Valid())
			require.ErrorIs(t, lock.Release(background), mutex.ErrNodeDeleted)
			clean(t, s, path)
		}
	})
}

// The holder's node is deleted and another one of the same name is there when it first looks: it is not its own, not even if it is of the same session.
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
		}
	})
}

// Nobody there: the retry policy decides how long to try, and the error says what was tried.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Stop()
		c, err := framework.New(s.Addr(), framework.WithDialer(s.Dial))
		require.NoError(t, err)
		defer c.Close()
		m := mutex.New(c, path)
		for _, call := range []func(context.Context) (*mutex.Lock, error){m.Acquire, m.TryAcquire} {
			began := time.Now()
			_, err = call(background)
			require.ErrorIs(t, err, framework.ErrNotConnected)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, s.Addr())
			require.Greater(t, time.Since(began), time.Minute)
			require.Less(t, time.Since(began), 2*time.Minute)

			ctx, cancel := context.WithTimeout(background, time.Second)
			began = time.Now()
			_, err = call(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(began))
			cancel()
		}
	})
}

// A long outage does not cost a waiter its call: it is in the line again when the servers are back.
func TestOutageWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		lock := acquire(t, mutex.New(a, path))
		waiter := waiting(t, background, mutex.New(b, path))
		s.Stop()
		time.Sleep(10 * time.Minute)
		waiter.Waits()
		require.False(t, lock.Valid())
		require.NoError(t, s.Start())
		next := waiter.End().OK()
		require.True(t, next.Valid())
		release(t, next)
		time.Sleep(time.Second)
		clean(t, s, path)
	})
}
