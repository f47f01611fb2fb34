package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestKeptTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		m := mutex.NewCohort(newClient(t, s), path, mutex.WithKept(time.Hour))
		other := mutex.New(newClient(t, s), path)
		synctest.Wait()
		s.ResetCounts()
		end(t, turnOf(t, m))
		counts(t, s, "the first cycle", map[string]int{"create2": 1, "getChildren2": 2})
		time.Sleep(time.Second)
		counts(t, s, "the watch on the own node", map[string]int{"exists": 1})
		for range 5000 {
			end(t, turnOf(t, m))
			time.Sleep(time.Millisecond)
		}
		turn, err := m.TryAcquire(background)
		require.NoError(t, err)
		waiters := []*recipetest.Call[*mutex.Turn]{lining(t, m), lining(t, m)}
		end(t, turn)
		for _, waiter := range waiters {
			end(t, waiter.OK())
		}
		counts(t, s, "free cycles", map[string]int{})

		turn = turnOf(t, m)
		waiter := waiting(t, background, other)
		counts(t, s, "somebody comes",
			map[string]int{"create2": 1, "getChildren2": 1, "getData": 1, "setWatches": 1})
		end(t, turn)
		lock := waiter.OK()
		counts(t, s, "and gets it", map[string]int{"delete": 1})
		release(t, lock)
		counts(t, s, "and goes", map[string]int{"multi": 1})
		clean(t, s, path)
	})
}

// No contender has to wait for a child that is not one: the lock stays kept if the child was there before the turn, and if it is
// created after it.
func TestALockIsKeptAlthoughAChildIsNoContender(t *testing.T) {
	for name, before := range map[string]bool{"before the turn": true, "after the turn": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create(path, nil))
				if before {
					require.NoError(t, s.Create(path+"/notes", nil))
				}
				m := mutex.NewCohort(newClient(t, s), path, mutex.WithKept(time.Hour))
				first := turnOf(t, m)
				end(t, first)
				synctest.Wait()
				if !before {
					require.NoError(t, s.Create(path+"/notes", nil))
					synctest.Wait()
					end(t, turnOf(t, m)) // the event of the child has ended the first node's hold
					synctest.Wait()
				}
				s.ResetCounts()
				for range 100 {
					end(t, turnOf(t, m))
				}
				counts(t, s, "kept", map[string]int{})
			})
		})
	}
}

// A newcomer waits for the event and the delete, or, during a turn, only for the turn's end.
func TestKeptIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = time.Second
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		m := mutex.NewCohort(newClient(t, s), path, mutex.WithKept(time.Hour), mutex.WithTurns(2, time.Hour))
		other := mutex.New(newClient(t, s), path)
		s.Delay(0, trip)
		end(t, turnOf(t, m))
		time.Sleep(10 * trip)
		began := time.Now()
		lock := acquire(t, other)
		require.LessOrEqual(t, time.Since(began), 3*trip, "one flight if it were free")
		release(t, lock)

		turn := turnOf(t, m)
		time.Sleep(10 * trip)
		waiter := waiting(t, background, other)
		time.Sleep(10 * trip)
		waiter.Waits()
		next, after := lining(t, m), lining(t, m)
		began = time.Now()
		turn.ReleaseInBackground()
		next.OK().ReleaseInBackground()
		release(t, waiter.End().OK())
		require.LessOrEqual(t, time.Since(began), 3*trip, "after two turns")
		end(t, after.End().OK())
		time.Sleep(time.Hour + 10*trip)
		clean(t, s, path)

		// A contender that came before the grant is in the first list: no event is needed.
		lock = acquire(t, other)
		first := lining(t, m)
		time.Sleep(10 * trip)
		waiter = waiting(t, background, other)
		time.Sleep(10 * trip)
		release(t, lock)
		turn = first.End().OK()
		time.Sleep(10 * trip)
		waiter.Waits()
		began = time.Now()
		turn.ReleaseInBackground()
		release(t, waiter.End().OK())
		require.LessOrEqual(t, time.Since(began), 3*trip)
	})
}

func TestKeptForTheIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		m := mutex.NewCohort(newClient(t, s), path, mutex.WithKept(time.Minute))
		end(t, turnOf(t, m))
		for range 5 {
			time.Sleep(50 * time.Second)
			end(t, turnOf(t, m))
		}
		time.Sleep(time.Minute - time.Millisecond)
		require.Len(t, nodesOf(t, s), 1)
		time.Sleep(2 * time.Millisecond)
		clean(t, s, path)
		turn := turnOf(t, m)
		time.Sleep(time.Hour) // the idle time does not count during a turn
		require.True(t, turn.Valid())
		end(t, turn)
		require.Len(t, nodesOf(t, s), 1)
	})
}

// Without other contenders the local line keeps the node after its turns are used up.
func TestKeptWithALocalLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		m := mutex.NewCohort(newClient(t, s), path, mutex.WithKept(time.Hour), mutex.WithTurns(2, time.Hour))
		turn := turnOf(t, m)
		synctest.Wait()
		s.ResetCounts()
		for range 10 {
			next := lining(t, m)
			end(t, turn)
			turn = next.OK()
		}
		counts(t, s, "twenty turns", map[string]int{})
		waiter := waiting(t, background, mutex.New(newClient(t, s), path))
		for n := 0; waiter.Pending(); n++ {
			require.Less(t, n, 2)
			next := lining(t, m)
			end(t, turn)
			if next.Pending() {
				defer func() { end(t, next.End().OK()) }()
				break
			}
			turn = next.OK()
		}
		release(t, waiter.OK())
	})
}

// A try that only reads is not noticed by the keeper. A try that creates its node is, and the next try succeeds. The same holds
// for Curator for Java, which always creates.
func TestKeptAndTheTriesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Delay(0, time.Millisecond) // the keeper gets the event of a try only after the server has replied to the try
		m := mutex.NewCohort(newClient(t, s), path, mutex.WithKept(time.Hour))
		end(t, turnOf(t, m))
		time.Sleep(time.Second)
		looks := mutex.New(newClient(t, s), path)
		for range 3 {
			_, err := looks.TryAcquire(background)
			require.ErrorIs(t, err, mutex.ErrNotAcquired)
			time.Sleep(time.Second)
		}
		c := newClient(t, s)
		creating := mutex.New(c, path, mutex.WithCreatingTry())
		_, err := creating.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		time.Sleep(time.Second)
		lock, err := creating.TryAcquire(background)
		require.NoError(t, err)
		time.Sleep(time.Second)
		release(t, lock)
		clean(t, s, path)

		end(t, turnOf(t, m))
		time.Sleep(time.Second)
		kept := mutex.NewCohort(c, path, mutex.WithKept(time.Hour))
		_, err = kept.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		time.Sleep(time.Second)
		turn, err := kept.TryAcquire(background)
		require.NoError(t, err)
		end(t, turn)
	})
}

// Another contender arrives while the keeper is disconnected: the keeper releases the lock after its reconnect.
func TestKeptWhileDisconnected(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c, other := newClient(t, s), mutex.New(newClient(t, s), path)
			m := mutex.NewCohort(c, path, mutex.WithKept(time.Hour), mutex.WithTurns(1, time.Hour))
			end(t, turnOf(t, m))
			time.Sleep(time.Second)
			away := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
			s.Cut(session(t, c))
			waiter := waiting(t, background, other)
			time.Sleep(time.Second)
			if busy {
				end(t, turnOf(t, m)) // the session is still certain
			}
			waiter.Waits()
			away.Remove()
			release(t, waiter.End().OK())
			time.Sleep(time.Second)
			clean(t, s, path)
		})
	}
}

// After a reconnect the first turn needs a list.
func TestKeptAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.NewCohort(c, path, mutex.WithKept(time.Hour))
		end(t, turnOf(t, m))
		time.Sleep(time.Second)
		recipetest.Cut(t, s, c)
		time.Sleep(3 * time.Second)
		s.ResetCounts()
		lists := s.Inject(zktest.Fault{Op: "getChildren2", Action: zktest.Hold})
		next := lining(t, m)
		<-lists.Struck()
		next.Waits()
		lists.Release()
		turn := next.End().OK()
		counts(t, s, "a list", map[string]int{"getChildren2": 1, "removeWatches": 1})
		end(t, turn)
		end(t, turnOf(t, m))
		counts(t, s, "free again", map[string]int{})
		release(t, acquire(t, mutex.New(newClient(t, s), path)))
		clean(t, s, path)
	})
}

func TestKeptIsLost(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, s *zktest.Server, c *framework.Client, node string){
		"expired": func(t *testing.T, s *zktest.Server, c *framework.Client, _ string) { s.Expire(session(t, c)) },
		"deleted": func(t *testing.T, s *zktest.Server, _ *framework.Client, node string) {
			require.NoError(t, s.Delete(node))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s)
				m := mutex.NewCohort(c, path, mutex.WithKept(time.Hour))
				turn := turnOf(t, m)
				end(t, turn)
				time.Sleep(time.Second)
				lose(t, s, c, turn.Path())
				time.Sleep(time.Second)
				clean(t, s, path)
				again := turnOf(t, m)
				require.NotEqual(t, turn.Path(), again.Path())
				end(t, again)
			})
		})
	}
}

// The process loses its network and does not notice at first: its kept lock is lost before another client can acquire it.
func TestKeptIsLostByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.NewCohort(c, path, mutex.WithKept(time.Hour))
		end(t, turnOf(t, m))
		time.Sleep(time.Second)
		s.BlackHole(session(t, c), zktest.Both)
		away := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		for n := 0; ; n++ {
			ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
			turn, err := m.Acquire(ctx)
			cancel()
			if err != nil {
				require.NotZero(t, n)
				break
			}
			require.Less(t, n, 300)
			require.True(t, turn.Valid())
			require.Len(t, nodesOf(t, s), 1, "the server has the node of what is valid")
			end(t, turn)
			time.Sleep(50 * time.Millisecond)
		}
		away.Remove()
	})
}

func TestKeptClientCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.NewCohort(c, path, mutex.WithKept(time.Hour))
		end(t, turnOf(t, m))
		require.NoError(t, c.Close())
		clean(t, s, path)
		_, err := m.Acquire(background)
		require.ErrorIs(t, err, framework.ErrClosed)
		_, err = m.TryAcquire(background)
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

// The machine sleeps for longer than the session lasts, and Go's clock stands still meanwhile. The kept lock is lost, although
// the client has got no event.
func TestKeptWhileTheMachineSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		m := mutex.NewCohort(newClient(t, s), path, mutex.WithKept(time.Hour))
		before := turnOf(t, m)
		wire.Sleep(time.Hour)
		require.False(t, before.Valid())
		require.ErrorIs(t, before.Release(background), mutex.ErrSessionLost)

		before = turnOf(t, m)
		end(t, before)
		time.Sleep(time.Millisecond)
		wire.Sleep(time.Hour)
		after := turnOf(t, m)
		require.NotEqual(t, before.Path(), after.Path())
		end(t, after)
	})
}
