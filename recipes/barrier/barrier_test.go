package barrier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func waiting(t *testing.T, ctx context.Context, b *barrier.Barrier) *call[struct{}] {
	return recipetest.Begin(t, func() (struct{}, error) { return struct{}{}, b.Wait(ctx) })
}

func TestBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := barrier.New(newClient(t, s), path), barrier.New(newClient(t, s), path)
		require.Equal(t, path, a.Path())
		require.NoError(t, b.Wait(background), "nobody has set it")
		require.NoError(t, b.Remove(background))
		require.NoError(t, a.Set(background))
		require.NoError(t, b.Set(background), "it is set already")
		first, second := waiting(t, background, a), waiting(t, background, b)
		time.Sleep(time.Hour)
		first.Waits()
		second.Waits()
		require.NoError(t, b.Remove(background))
		first.OK()
		second.OK()
		require.NoError(t, a.Remove(background), "it is removed already")
		require.Empty(t, s.Watches())
	})
}

// Curator reads twice for each waiter, and leaves the watch of the second read armed (CURATOR-654).
func TestBarrierTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/barriers", nil))
		b := barrier.New(newClient(t, s), path)
		synctest.Wait()
		s.ResetCounts()
		require.NoError(t, b.Wait(background))
		counts(t, s, "wait, not set", map[string]int{"sync": 1, "getData": 1})
		require.Empty(t, s.Watches())
		require.NoError(t, b.Set(background))
		counts(t, s, "set", map[string]int{"create2": 1})
		w := waiting(t, background, b).Waits()
		counts(t, s, "wait", map[string]int{"sync": 1, "getData": 1})
		time.Sleep(7 * time.Second)
		counts(t, s, "waiting", map[string]int{})
		time.Sleep(6 * time.Second)
		counts(t, s, "a look about once in a session timeout", map[string]int{"exists": 1})
		require.NoError(t, b.Remove(background))
		w.OK()
		counts(t, s, "remove", map[string]int{"delete": 1})
		require.Empty(t, s.Watches())
	})
}

// memberClient returns a client that connects only to one member.
func memberClient(t *testing.T, e *zktest.Ensemble, s *zktest.Server) *framework.Client {
	c, err := framework.New(s.Addr(), framework.WithDialer(e.Dial))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.WaitConnected(background))
	return c
}

// The barrier is set, and then a client waits at a member that lags behind.
func TestBarrierWaitAtAMemberThatLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{Lag: time.Second})
		setter := barrier.New(memberClient(t, e, e.Member(e.Leader())), path)
		waiter := barrier.New(memberClient(t, e, e.Member((e.Leader()+1)%3)), path)
		time.Sleep(10 * time.Second)
		require.NoError(t, setter.Set(background))
		w := waiting(t, background, waiter)
		time.Sleep(time.Minute)
		w.Waits()
		require.NoError(t, setter.Remove(background))
		time.Sleep(2 * time.Second)
		w.OK()
	})
}

// Without a sync it is unknown whether the barrier is set.
func TestBarrierWaitWithoutASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		b := barrier.New(newClient(t, s), path)
		s.Inject(zktest.Fault{Op: "sync", Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
		require.ErrorIs(t, b.Wait(background), framework.ErrNoAuth)
		require.NoError(t, b.Set(background))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		require.ErrorIs(t, b.Wait(ctx), framework.ErrNoAuth)
		synctest.Wait()
		require.Empty(t, s.Watches())
	})
}

// The barrier is removed and set again, and then a client waits at a member that lags behind both and refuses to sync for now:
// the event that it gets is of the earlier removal.
func TestBarrierWaitAtAMemberThatShowsTheNodeBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{Lag: time.Second})
		behind := e.Member((e.Leader() + 1) % 3)
		setter, waiter := barrier.New(memberClient(t, e, e.Member(e.Leader())), path),
			barrier.New(memberClient(t, e, behind), path)
		time.Sleep(10 * time.Second)
		require.NoError(t, setter.Set(background))
		time.Sleep(10 * time.Second)
		require.NoError(t, setter.Remove(background))
		require.NoError(t, setter.Set(background))
		behind.Inject(zktest.Fault{Op: "sync", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp, Times: 1})
		w := waiting(t, background, waiter)
		time.Sleep(time.Minute)
		w.Waits()
		require.NoError(t, setter.Remove(background))
		time.Sleep(2 * time.Second)
		w.OK()
	})
}

func TestBarrierWaitCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		b := barrier.New(newClient(t, s), path)
		require.NoError(t, b.Set(background))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, b.Wait(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))
		synctest.Wait()
		require.Empty(t, s.Watches())
		require.ErrorIs(t, b.Wait(ctx), context.DeadlineExceeded, "also when it is over already")

		s.BlackHole(0, zktest.Both)
		ctx, cancel = context.WithTimeout(background, time.Second)
		defer cancel()
		began = time.Now()
		require.ErrorIs(t, b.Wait(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began), "also when the server hangs")
		s.Heal()
	})
}

// A change of the node's data wakes a waiter, which reads the node and keeps waiting.
func TestBarrierSpuriousWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		b := barrier.New(newClient(t, s), path)
		require.NoError(t, b.Set(background))
		w := waiting(t, background, b).Waits()
		require.NoError(t, s.Set(path, []byte("still shut")))
		w.Waits()
		require.NoError(t, s.Delete(path))
		w.OK()
	})
}

// In Curator a lost connection ends the wait with an exception; here neither that nor the loss of the session ends it.
func TestBarrierWaitSurvives(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server, int64){
		"cut":           func(s *zktest.Server, id int64) { s.Cut(id) },
		"expiry":        func(s *zktest.Server, id int64) { s.Expire(id) },
		"long outage":   func(s *zktest.Server, _ int64) { s.Stop(); time.Sleep(10 * time.Minute); _ = s.Start() },
		"short outage":  func(s *zktest.Server, _ int64) { s.Stop(); time.Sleep(time.Second); _ = s.Start() },
		"hanging reply": func(s *zktest.Server, _ int64) { s.Pause(); time.Sleep(time.Minute); s.Resume() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{}),
					framework.WithConnectionTimeout(time.Second))
				b := barrier.New(c, path)
				require.NoError(t, b.Set(background))
				w := waiting(t, background, b).Waits()
				fault(s, session(t, c))
				time.Sleep(30 * time.Second)
				w.Waits()
				require.NoError(t, s.Delete(path))
				w.OK()
				require.Empty(t, s.Watches())
			})
		})
	}
}

// A waiter notices after its reconnect that the barrier was removed, even if it was set again.
func TestBarrierRemovedMeanwhile(t *testing.T) {
	for name, again := range map[string]bool{"removed": false, "removed and set again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s)
				b := barrier.New(c, path)
				require.NoError(t, b.Set(background))
				w := waiting(t, background, b).Waits()
				id := session(t, c)
				hold := s.Inject(zktest.Fault{Op: "connect", Action: zktest.Hold})
				s.Cut(id)
				<-hold.Struck()
				require.NoError(t, s.Delete(path))
				if again {
					require.NoError(t, s.Create(path, nil))
				}
				w.Waits()
				hold.Release()
				w.OK()
				synctest.Wait()
				require.Empty(t, s.Watches())
			})
		})
	}
}

// A lost reply is no error: the retry of Set finds the barrier set, the retry of Remove finds it removed.
func TestBarrierLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		b := barrier.New(newClient(t, s), path)
		set := s.Inject(zktest.Fault{Op: "create2", PathPrefix: path, After: 1, Action: zktest.LoseReply})
		require.NoError(t, b.Set(background))
		require.Equal(t, 1, set.Hits(), "behind the one that found no parent")
		require.True(t, s.Exists(path))
		removed := s.Inject(zktest.Fault{Op: "delete", Action: zktest.LoseReply})
		require.NoError(t, b.Remove(background))
		require.Equal(t, 1, removed.Hits())
		require.False(t, s.Exists(path))
		read := s.Inject(zktest.Fault{Op: "getData", PathPrefix: path, Action: zktest.LoseReply})
		require.NoError(t, b.Wait(background))
		require.Equal(t, 1, read.Hits())
	})
}

func TestBarrierErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for _, b := range []*barrier.Barrier{barrier.New(c, "no/slash"), barrier.New(c, "")} {
			require.ErrorIs(t, b.Set(background), framework.ErrInvalidPath)
			require.ErrorIs(t, b.Remove(background), framework.ErrInvalidPath)
			require.ErrorIs(t, b.Wait(background), framework.ErrInvalidPath)
		}
		require.ErrorContains(t, barrier.New(nil, path).Wait(background), "client is nil")
		b := barrier.New(c, path)
		require.ErrorIs(t, b.Wait(none), framework.ErrNilContext)
		require.NoError(t, b.Set(background))
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 4, Scheme: "world", ID: "anyone"}))
		require.ErrorIs(t, b.Wait(background), framework.ErrNoAuth)
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}))
		require.NoError(t, s.Create(path+"/child", nil))
		require.ErrorIs(t, b.Remove(background), framework.ErrNotEmpty)

		w := waiting(t, background, b).Waits()
		require.NoError(t, c.Close())
		_, err := w.Returned()
		require.ErrorIs(t, err, framework.ErrClosed)
		require.ErrorIs(t, b.Set(background), framework.ErrClosed)
	})
}

func TestBarrierUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{}),
			framework.WithConnectionTimeout(3*time.Second))
		s.Stop()
		synctest.Wait()
		began := time.Now()
		err := barrier.New(c, path).Wait(background)
		require.ErrorIs(t, err, framework.ErrNotConnected)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}
