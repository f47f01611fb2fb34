package framework

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		s := connected(t, c)
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		id := s.ID()
		srv.Cut(0)
		next(StateChange{Suspended, 1}, StateChange{Reconnected, 1})
		assert.Equal(t, id, s.ID())
		assert.NoError(t, s.Context().Err(), "a session outlives its connections")
	})
}

func TestBlackHoleIsLostAtThePromisedInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		s := connected(t, c)
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		time.Sleep(time.Minute)
		synctest.Wait() // the reply to a ping arrives at this moment
		promised := time.Now().Add(c.Safety().Remaining)
		srv.BlackHole(0, zktest.Both)
		next(StateChange{Suspended, 1}, StateChange{Lost, 1})
		assert.WithinDuration(t, promised, time.Now(), 0)
		assert.ErrorIs(t, context.Cause(s.Context()), ErrSessionLost)
		require.Len(t, srv.Sessions(), 1, "the server does not know yet")
		srv.Heal()
		next(StateChange{Reconnected, 2})
		assert.Len(t, srv.Sessions(), 1, "the old session was closed before the new one began")
		assert.NotEqual(t, s.ID(), connected(t, c).ID())
	})
}

func TestExpiredByTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		s := connected(t, c)
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		began := time.Now()
		srv.Expire(s.ID())
		next(StateChange{Suspended, 1}, StateChange{Lost, 1}, StateChange{Reconnected, 2})
		assert.Less(t, time.Since(began), time.Second)
		<-s.Done()
	})
}

func TestPauseShorterThanTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		srv.Pause()
		next(StateChange{Suspended, 1})
		srv.Resume()
		next(StateChange{Reconnected, 1})
	})
}

func TestPauseLongerThanTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		next := changesOf(t, c)
		srv.Pause()
		next(StateChange{Connected, 1}, StateChange{Suspended, 1}, StateChange{Lost, 1})
		time.Sleep(time.Minute)
		srv.Resume()
		next(StateChange{Reconnected, 2})
	})
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		s := connected(t, c)
		next := changesOf(t, c)
		srv.Stop()
		next(StateChange{Connected, 1}, StateChange{Suspended, 1})
		require.NoError(t, srv.Start())
		next(StateChange{Reconnected, 1})
		srv.Stop()
		next(StateChange{Suspended, 1}, StateChange{Lost, 1})
		require.NoError(t, srv.Start())
		next(StateChange{Reconnected, 2})
		assert.Error(t, s.Context().Err())
	})
}

func TestWipedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		for range 10 {
			require.NoError(t, srv.Create("/a", nil))
			require.NoError(t, srv.Delete("/a"))
		}
		c := dial(t, srv)
		connected(t, c)
		next := changesOf(t, c)
		require.NoError(t, c.Sync().ForPath(t.Context(), "/"))
		srv.Wipe()
		next(
			StateChange{Connected, 1}, StateChange{Suspended, 1}, StateChange{Lost, 1}, StateChange{Reconnected, 2},
		)
		_, err := c.Create().ForPath(t.Context(), "/b", nil)
		assert.NoError(t, err)
	})
}

// Sessions follow each other: when the next one is announced, everything of the last one has ended.
func TestEpochsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithSessionTimeout(4*time.Second))
		changes := c.StateChanges(t.Context())
		var before *Session
		for n := int64(1); n <= 20; n++ {
			for change := range changes {
				if before != nil && change.Epoch == before.Epoch() && change.State == Lost {
					assert.Error(t, before.Context().Err(), "told of the loss before the session's end")
				}
				if change.State.IsConnected() && change.Epoch == n {
					break
				}
			}
			s, err := c.Session(t.Context())
			require.NoError(t, err)
			require.Equal(t, n, s.Epoch())
			require.Len(t, srv.Sessions(), 1, "the old session is closed")
			require.Equal(t, s.ID(), srv.Sessions()[0].ID)
			if before != nil {
				assert.NotEqual(t, before.ID(), s.ID())
				_, err = before.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/stale", nil)
				assert.ErrorIs(t, err, ErrSessionLost)
				_, err = before.Hold(t.Context(), HoldOptions{Path: "/a"})
				assert.ErrorIs(t, err, ErrSessionLost)
			}
			before = s
			if n%2 == 0 {
				srv.Expire(s.ID())
			} else {
				srv.BlackHole(0, zktest.Both)
				<-s.Done()
				srv.Heal()
			}
		}
	})
}

func TestFenceGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithFenceGrace(2*time.Second))
		s := connected(t, c)
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/held", nil)
		require.NoError(t, err)
		next := changesOf(t, c)
		srv.BlackHole(0, zktest.Both)
		next(StateChange{Connected, 1}, StateChange{Suspended, 1}, StateChange{Lost, 1})
		lost := time.Now()
		srv.Heal()
		synctest.Wait()
		assert.True(t, srv.Exists("/held"), "not handed over yet")
		next(StateChange{Reconnected, 2})
		assert.GreaterOrEqual(t, time.Since(lost), 2*time.Second)
		assert.False(t, srv.Exists("/held"))
	})
}

// If no server closes the lost session, the next one waits for the grace and twice the session timeout: after that no
// request of the lost session is in flight.
func TestALostSessionThatCannotBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithFenceGrace(5*time.Second))
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		srv.BlackHole(0, zktest.Both)
		next(StateChange{Suspended, 1}, StateChange{Lost, 1})
		lost := time.Now()
		srv.Inject(zktest.Fault{Op: "closeSession", Action: zktest.ReplyError, Err: zktest.ErrUnimplemented, Times: -1})
		srv.Heal()
		next(StateChange{Reconnected, 2})
		assert.GreaterOrEqual(t, time.Since(lost), 25*time.Second)
		assert.Less(t, time.Since(lost), 40*time.Second)
	})
}

// A client that has lost a lock has a second, or a tenth of a shorter session timeout, to stop its work before another
// client can acquire it: whether the servers expire the session first, in whatever phase of their tick, or the client
// itself closes it.
func TestWhoHasLostALockHasTimeToStop(t *testing.T) {
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		for phase := range 10 {
			for _, back := range []bool{true, false} {
				t.Run(fmt.Sprint(timeout, phase, back), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						srv := zktest.RunT(t)
						c := dial(t, srv, WithSessionTimeout(timeout))
						h := hold(t, connected(t, c), "/held", HoldOptions{Loss: SessionOnly})
						time.Sleep(time.Minute + time.Duration(phase)*200*time.Millisecond)
						srv.BlackHole(0, zktest.Both)
						<-h.Context().Done()
						lost := time.Now()
						if back {
							srv.Heal()
						}
						for srv.Exists("/held") {
							time.Sleep(5 * time.Millisecond)
						}
						assert.GreaterOrEqual(t, time.Since(lost), min(timeout/10, time.Second))
						srv.Heal()
					})
				})
			}
		}
	}
}

func TestSessionWaitsForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		srv.Stop()
		c := dial(t, srv)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.Session(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNotConnected)
		assert.ErrorContains(t, err, "connection refused")
		require.NoError(t, srv.Start())
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int64(1), s.Epoch())
		assert.Equal(t, 10*time.Second, s.Timeout())

		again, err := s.Client().Session(t.Context())
		require.NoError(t, err)
		assert.Equal(t, s.ID(), again.ID())
		srv.Expire(s.ID())
		<-s.Done()
		_, err = s.Client().Session(t.Context())
		assert.ErrorIs(t, err, ErrSessionLost)
		assert.ErrorIs(t, s.Client().WaitConnected(t.Context()), ErrSessionLost)
		s2, err := c.Session(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int64(2), s2.Epoch())
	})
}

func TestSessionInASuspendedTimeIsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		s := connected(t, c)
		srv.Stop()
		synctest.Wait()
		require.Equal(t, Suspended, c.State().State)
		again, err := c.Session(t.Context())
		require.NoError(t, err)
		assert.Equal(t, s.ID(), again.ID())
	})
}

func TestRefusedCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithAuth("no such scheme", []byte("user:password")))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		<-ctx.Done()
		err := c.core.connectWaitError(ctx)
		assert.ErrorIs(t, err, ErrAuthFailed)
		assert.ErrorIs(t, err, ErrNotConnected)
		assert.NotContains(t, err.Error(), "password")
	})
}

// A leader that has lost its quorum, and has not noticed yet, reports a session expired on its own. The session lives on
// with the next leader: the client closes it there, before its next session is announced (found by the simulation).
func TestExpiredByALeaderAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3)
		require.NoError(t, e.AwaitSettled(t.Context()))
		old := e.Leader()
		c, err := New(e.Member(old).Addr(), WithDialer(e.Dial), WithSessionTimeout(40*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = c.Close()
			time.Sleep(2 * time.Second)
		})
		s := connected(t, c)
		_, err = c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/here", nil)
		require.NoError(t, err)
		synctest.Wait()

		for i := range e.Members() {
			if i != old {
				e.Partition(old, i)
			}
		}
		e.Member(old).Expire(s.ID())
		e.Cut(s.ID())
		<-s.Done()
		require.ErrorContains(t, context.Cause(s.Context()), "expired")
		require.NoError(t, c.SetServers(e.ConnectString()))
		require.NoError(t, c.WaitConnected(t.Context()))
		next := e.Leader()
		require.NotEqual(t, old, next)
		require.False(t, e.Member(next).Exists("/here"))
		require.NoError(t, e.Heal())
	})
}
