package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestRevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s, framework.WithDefaultData([]byte("10.0.0.1"))), newClient(t, s)
		_, err := a.Create().CreatingParentContainersIfNeeded().ForPath(background, "/store", nil)
		require.NoError(t, err)
		m := mutex.New(a, path, mutex.WithRevocation())
		lock := acquire(t, m)
		inner, err := m.Acquire(lock.Context())
		require.NoError(t, err)
		data, _, err := s.Get(lock.Path())
		require.NoError(t, err)
		require.Empty(t, data, "as Curator's")
		time.Sleep(time.Second)
		require.False(t, revoked(lock))

		// Other data is no request to release.
		require.NoError(t, s.Set(lock.Path(), []byte("hello")))
		require.False(t, revoked(lock))

		waiter := waiting(t, background, mutex.New(b, path))
		holder, _, err := mutex.New(b, path).Holder(background)
		require.NoError(t, err)
		require.NoError(t, mutex.Revoke(background, b, holder.Path))
		require.True(t, revoked(lock))
		require.True(t, revoked(inner), "it is one hold")
		data, _, err = s.Get(lock.Path())
		require.NoError(t, err)
		require.Equal(t, "__REVOKE__", string(data), "as Curator's Revoker")

		// It is only a request: the lock is held, and its guard succeeds, until the release.
		require.NoError(t, mutex.Revoke(background, b, holder.Path), "again")
		require.True(t, revoked(lock))
		require.NoError(t, s.Set(lock.Path(), []byte("changed once more")))
		time.Sleep(time.Minute)
		waiter.Waits()
		require.True(t, lock.Valid())
		_, err = a.Transaction(background, lock.Guard(), a.TransactionOp().SetData().ForPath("/store", []byte("1")))
		require.NoError(t, err)
		release(t, inner)
		release(t, lock)
		granted := waiter.End().OK()
		require.Nil(t, granted.Revoked(), "this one does not listen")
		require.NoError(t, mutex.Revoke(background, a, granted.Path()))
		require.True(t, granted.Valid())
		require.NoError(t, mutex.Revoke(background, a, lock.Path()), "it has left already")
		release(t, granted)

		// The request was for the earlier lock, not for the next one of this Mutex.
		lock = acquire(t, m)
		require.False(t, revoked(lock))
		release(t, lock)
		clean(t, s, path)
	})
}

func TestRevocationKeepsNodeData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		lock := acquire(t, mutex.New(c, path, mutex.WithNodeData([]byte("me")), mutex.WithRevocation()))
		data, _, err := s.Get(lock.Path())
		require.NoError(t, err)
		require.Equal(t, "me", string(data))
		require.NoError(t, mutex.Revoke(background, c, lock.Path()))
		require.True(t, revoked(lock))
		release(t, lock)
		clean(t, s, path)
	})
}

// A request that arrives while the contender still waits is reported as soon as it holds the lock.
func TestRevokedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		ma := mutex.New(a, path)
		first := acquire(t, ma)
		waiter := waiting(t, background, mutex.New(b, path, mutex.WithRevocation()))
		line, err := ma.Participants(background)
		require.NoError(t, err)
		require.NoError(t, mutex.Revoke(background, a, line[1].Path))
		require.True(t, waiter.Pending(), "it stays in line")
		release(t, first)
		next := waiter.End().OK()
		require.True(t, revoked(next))
		release(t, next)
		clean(t, s, path)
	})
}

// The request is written while the holder is disconnected, or before its first read; and each read may fail.
func TestRevocationThroughTrouble(t *testing.T) {
	for _, failure := range []string{"disconnected", "first look lost", "later looks fail",
		"look refused for a while"} {
		t.Run(failure, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				a, b := newClient(t, s), newClient(t, s)
				m := mutex.New(a, path, mutex.WithRevocation())
				fault := zktest.Fault{Session: session(t, a), Op: "getData", PathPrefix: path, Action: zktest.LoseReply}
				var lock *mutex.Lock
				var faults *zktest.Injection
				switch failure {
				case "disconnected":
					lock = acquire(t, m)
					refused := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
					synctest.Wait()
					s.Cut(session(t, a))
					require.NoError(t, s.Set(lock.Path(), []byte("__REVOKE__")))
					require.False(t, revoked(lock))
					refused.Remove()
				case "first look lost":
					faults = s.Inject(fault)
					lock = acquire(t, m)
					require.NoError(t, mutex.Revoke(background, b, lock.Path()))
				case "later looks fail":
					lock = acquire(t, m)
					synctest.Wait()
					fault.Times = 3
					faults = s.Inject(fault)
					require.NoError(t, mutex.Revoke(background, b, lock.Path()))
				case "look refused for a while":
					fault.Action, fault.Err, fault.Times = zktest.ReplyError, zktest.ErrThrottledOp, 5
					faults = s.Inject(fault)
					lock = acquire(t, m)
					require.NoError(t, mutex.Revoke(background, b, lock.Path()))
				}
				select {
				case <-lock.Revoked():
				case <-time.After(20 * time.Second):
					require.Fail(t, "not noticed")
				}
				if faults != nil {
					require.NotZero(t, faults.Hits())
				}
				require.True(t, lock.Valid())
				release(t, lock)
				time.Sleep(5 * time.Second)
				clean(t, s, path)
			})
		})
	}
}

// A lost or released lock reports no request any more, and stops reading its node.
func TestRevocationEndsWithTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		m := mutex.New(a, path, mutex.WithRevocation())
		lock := acquire(t, m)
		require.NoError(t, s.Delete(lock.Path()))
		<-lock.Context().Done()
		require.ErrorIs(t, lock.Release(background), mutex.ErrNodeDeleted)
		require.False(t, revoked(lock))

		lock = acquire(t, m)
		s.Expire(session(t, a))
		<-lock.Context().Done()
		require.ErrorIs(t, lock.Release(background), mutex.ErrSessionLost)
		require.False(t, revoked(lock))

		fault := s.Inject(zktest.Fault{Op: "getData", PathPrefix: path, Times: -1, Action: zktest.ReplyError,
			Err: zktest.ErrThrottledOp})
		lock = acquire(t, m)
		time.Sleep(10 * time.Second)
		release(t, lock)
		time.Sleep(2 * time.Second)
		looks := fault.Hits()
		require.GreaterOrEqual(t, looks, 5)
		time.Sleep(time.Minute)
		require.Equal(t, looks, fault.Hits())
		require.Empty(t, s.Watches())

		fault.Remove()
		lock = acquire(t, m)
		require.NoError(t, a.Close())
		require.ErrorIs(t, lock.Release(background), framework.ErrClosed)
	})
}

func TestRevocationTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		a, b := newClient(t, s), newClient(t, s)
		m := mutex.New(a, path, mutex.WithRevocation())
		synctest.Wait()
		s.ResetCounts()
		lock := acquire(t, m)
		counts(t, s, "acquire", map[string]int{"create2": 1, "getChildren2": 1, "getData": 1})
		time.Sleep(time.Minute)
		counts(t, s, "the watch on the own node of a long one", map[string]int{"exists": 1})
		require.NoError(t, mutex.Revoke(background, b, lock.Path()))
		counts(t, s, "revoke", map[string]int{"setData": 1, "getData": 1, "exists": 1})
		release(t, lock)
		counts(t, s, "release", map[string]int{"delete": 1})
		clean(t, s, path)
	})
}

func TestRevokersMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.ErrorContains(t, mutex.Revoke(background, nil, path), "framework.New")
		require.ErrorIs(t, mutex.Revoke(background, c, "locks"), framework.ErrInvalidPath)
		var none context.Context
		require.ErrorIs(t, mutex.Revoke(none, c, path), framework.ErrNilContext)
	})
}

func TestWithoutReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.New(c, path, mutex.WithoutReentry())
		lock := acquire(t, m)
		_, err := m.TryAcquire(lock.Context())
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		second := waiting(t, context.WithoutCancel(lock.Context()), m)
		release(t, lock)
		next := second.End().OK()
		require.NotEqual(t, lock.Node(), next.Node())
		release(t, next)
		clean(t, s, path)
	})
}
