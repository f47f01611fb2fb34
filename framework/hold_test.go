package framework

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/zktest"
)

// hold makes an ephemeral node and holds it.
func hold(t *testing.T, s *Session, path string, opt HoldOptions) *Hold {
	t.Helper()
	var stat Stat
	_, err := s.Client().Create().WithMode(Ephemeral).StoringStatIn(&stat).ForPath(t.Context(), path, nil)
	require.NoError(t, err)
	opt.Path, opt.Czxid = path, stat.Czxid
	h, err := s.Hold(t.Context(), opt)
	require.NoError(t, err)
	require.True(t, h.Valid())
	require.NoError(t, h.Context().Err())
	require.Positive(t, h.Remaining())
	return h
}

// over checks that the hold has ended for the reason, by each of its methods.
func over(t *testing.T, h *Hold, why error) {
	t.Helper()
	<-h.Context().Done()
	assert.False(t, h.Valid())
	assert.Zero(t, h.Remaining())
	assert.ErrorIs(t, h.Context().Err(), context.Canceled)
	assert.ErrorIs(t, context.Cause(h.Context()), why)
}

func TestHoldEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := connected(t, dial(t, zktest.RunT(t)))
		h := hold(t, s, "/lock", HoldOptions{})
		child, cancel := context.WithCancel(h.Context())
		defer cancel()
		ran := make(chan error, 1)
		context.AfterFunc(h.Context(), func() { ran <- context.Cause(h.Context()) })
		h.End(nil)
		over(t, h, ErrReleased)
		h.End(errors.New("the first counts"))
		over(t, h, ErrReleased)
		<-child.Done()
		assert.ErrorIs(t, context.Cause(child), ErrReleased)
		assert.ErrorIs(t, <-ran, ErrReleased)

		why := errors.New("resigned")
		h = hold(t, s, "/other", HoldOptions{})
		h.End(why)
		over(t, h, why)
		assert.Zero(t, s.epoch.core.currentEpoch().wire.Validity().Remaining()-s.Client().Safety().Remaining)
		assert.Zero(t, s.Client().Safety().Holds)
	})
}

func TestHoldContextValuesAndDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := connected(t, dial(t, zktest.RunT(t)))
		type key struct{}
		values, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		h := hold(t, s, "/lock", HoldOptions{Values: values})
		cancel()
		assert.Equal(t, "v", h.Context().Value(key{}))
		assert.NoError(t, h.Context().Err(), "the wait's end is not the hold's")
		_, ok := h.Context().Deadline()
		assert.False(t, ok)
	})
}

func TestHoldEndsWhenSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		s := connected(t, c)
		strict := hold(t, s, "/strict", HoldOptions{Loss: SuspendedIsLoss})
		lenient := hold(t, s, "/lenient", HoldOptions{Loss: SessionOnly})
		changes := c.StateChanges(t.Context())
		<-changes
		srv.Stop()
		require.Equal(t, Suspended, (<-changes).State)
		assert.False(t, strict.Valid(), "it has ended when the change is told")
		over(t, strict, ErrSuspended)
		assert.True(t, lenient.Valid())
		_, err := s.Hold(t.Context(), HoldOptions{Path: "/strict"})
		assert.ErrorIs(t, err, ErrSuspended)
		again, err := s.Hold(t.Context(), HoldOptions{Path: "/lenient", Loss: SessionOnly})
		require.NoError(t, err)
		assert.True(t, again.Valid())
		require.NoError(t, srv.Start())
		require.Equal(t, Reconnected, (<-changes).State)
		assert.True(t, lenient.Valid())
		assert.False(t, strict.Valid())
	})
}

// When a hold ends with its connection, before the change is announced, WaitConnected must not return as if there were
// still a connection.
func TestNobodyIsConnectedWhenAHoldEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		var c *Client
		var seen []error
		c = dial(t, srv, WithHooks(Hooks{Hold: func(
			ctx context.Context, _ HoldInfo,
		) (context.Context, func(error)) {
			return ctx, func(error) {
				over, cancel := context.WithCancel(context.Background())
				cancel()
				seen = append(seen, c.WaitConnected(over))
			}
		}}))
		s := connected(t, c)
		hold(t, s, "/strict", HoldOptions{Loss: SuspendedIsLoss})
		srv.Cut(s.ID())
		synctest.Wait()
		require.Len(t, seen, 1)
		require.ErrorIs(t, seen[0], ErrNotConnected)
	})
}

// The session has recorded the loss of its connection, and the change is not announced yet.
func TestWaitConnectedBeforeALossIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, zktest.RunT(t))
		s := connected(t, c)
		record := func(suspended bool) { s.epoch.changeState(func() { s.epoch.suspended = suspended }) }
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, c.WaitConnected(over))
		record(true)
		require.Equal(t, Connected, c.State().State)
		require.ErrorIs(t, c.WaitConnected(over), ErrNotConnected)
		record(false)
	})
}

func TestHoldEndsBeforeTheServerExpiresTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv, WithSessionTimeout(4*time.Second))
		s := connected(t, c)
		h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
		for range 50 {
			time.Sleep(777 * time.Millisecond)
			require.True(t, h.Valid())
			require.Greater(t, h.Remaining(), 4*time.Second*2/3)
		}
		changes := c.StateChanges(t.Context())
		<-changes
		srv.BlackHole(0, zktest.FromClient)
		<-h.Context().Done()
		assert.True(t, srv.Exists("/lock"))
		over(t, h, ErrSessionLost)
		assert.ErrorIs(t, context.Cause(h.Context()), wire.ErrLapsed)
		for change := range changes {
			if change.State == Lost {
				break
			}
		}
		assert.False(t, h.Valid())
	})
}

// Remaining goes down to about Steady while the servers reply immediately, and not below. Slow replies reduce it by their
// delay: once, or twice on an ensemble.
func TestSteady(t *testing.T) {
	for name, tt := range map[string]struct {
		members        int
		timeout, delay time.Duration
		opts           []Option
	}{
		"standalone":       {members: 1, timeout: 4 * time.Second},
		"standalone slow":  {members: 1, timeout: 10 * time.Second, delay: 1500 * time.Millisecond},
		"heartbeat":        {members: 3, timeout: 4 * time.Second},
		"heartbeat slow":   {members: 3, timeout: 10 * time.Second, delay: 300 * time.Millisecond},
		"heartbeat slower": {members: 3, timeout: 10 * time.Second, delay: 1500 * time.Millisecond},
		"bound":            {members: 3, timeout: 30 * time.Second},
		"bound slow": {members: 3, timeout: 10 * time.Second, delay: 1500 * time.Millisecond,
			opts: []Option{WithStaleServerBound(4 * time.Second)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ensemble := zktest.RunEnsembleT(t, tt.members)
				connect, dialer := ensemble.ConnectString(), ensemble.Dial
				var servers []*zktest.Server
				for i := range tt.members {
					servers = append(servers, ensemble.Member(i))
				}
				if tt.members == 1 {
					srv := zktest.RunT(t)
					connect, dialer, servers = srv.Addr(), srv.Dial, []*zktest.Server{srv}
				}
				c, err := New(connect, append(tt.opts, WithDialer(dialer), WithSessionTimeout(tt.timeout))...)
				require.NoError(t, err)
				defer c.Close()
				h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
				time.Sleep(2 * tt.timeout)
				for _, srv := range servers {
					srv.Delay(0, tt.delay)
				}
				steady, least := c.Safety().Steady, time.Hour
				require.Positive(t, steady)
				for range 10 * tt.timeout / (10 * time.Millisecond) {
					time.Sleep(10 * time.Millisecond)
					least = min(least, h.Remaining())
				}
				assert.GreaterOrEqual(t, least, steady-tt.delay*time.Duration(min(tt.members, 2)))
				if tt.delay == 0 {
					assert.Less(t, least, steady+steady/5)
				}
				assert.True(t, h.Valid())
			})
		})
	}
}

func TestHoldEndsWithItsNode(t *testing.T) {
	for name, wait := range map[string]time.Duration{
		"watched": 100 * time.Millisecond, "young": 10 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t)
				s := connected(t, dial(t, srv))
				h := hold(t, s, "/lock", HoldOptions{})
				time.Sleep(wait)
				require.NoError(t, srv.Delete("/lock"))
				began := time.Now()
				over(t, h, ErrNodeDeleted)
				assert.LessOrEqual(t, time.Since(began), ownWatchAfter)
				assert.NoError(t, s.Context().Err())
				time.Sleep(time.Second)
				assert.Empty(t, srv.Watches(), "none is left")
			})
		})
	}
}

// Young holds share a timer. Each is watched at its own age, whichever others begin and end before it.
func TestHoldsThatBeginOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv))
		for round := range 2 {
			var holds []*Hold
			path := func(i int) string { return fmt.Sprintf("/%d-%d", round, i) }
			for i := range 6 {
				holds = append(holds, hold(t, s, path(i), HoldOptions{}))
				time.Sleep(ownWatchAfter / 10)
			}
			holds[0].End(nil)
			holds[2].End(nil)
			srv.ResetCounts()
			time.Sleep(ownWatchAfter*3/10 + time.Millisecond)
			for i, watched := range []int{0, 1, 1, 2, 3, 4} { // at the age of the hold i
				time.Sleep(ownWatchAfter / 10)
				synctest.Wait()
				assert.Equal(t, watched, srv.CountsOf(s.ID())["exists"], "at the age of hold %d", i)
			}
			for i, h := range holds {
				require.NoError(t, srv.Delete(path(i)))
				synctest.Wait()
				assert.False(t, h.Valid(), "hold %d", i)
			}
		}
	})
}

func TestHoldSurvivesWritesToItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv))
		h := hold(t, s, "/lock", HoldOptions{})
		time.Sleep(time.Second)
		for range 3 {
			require.NoError(t, srv.Set("/lock", []byte("revoke")))
			time.Sleep(time.Second)
			require.True(t, h.Valid())
			require.Len(t, srv.Watches(), 1, "armed again")
		}
		require.NoError(t, srv.Delete("/lock"))
		over(t, h, ErrNodeDeleted)
	})
}

// In a gap the deletion and a new node of the same name look like a change of data.
func TestHoldIsNotFooledByAnotherNodeOfTheName(t *testing.T) {
	for name, mode := range map[string]zktest.Mode{
		"another session's": zktest.Ephemeral, "nobody's": zktest.Persistent,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t)
				c := dial(t, srv)
				s, other := connected(t, c), connected(t, dial(t, srv))
				next := changesOf(t, c)
				h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
				time.Sleep(time.Second)
				srv.BlackHole(s.ID(), zktest.Both)
				next(StateChange{Connected, 1})
				require.NoError(t, srv.Delete("/lock"))
				_, err := srv.CreateNode("/lock", nil, mode, other.ID())
				require.NoError(t, err)
				next(StateChange{Suspended, 1}, StateChange{Reconnected, 1})
				began := time.Now()
				over(t, h, ErrNodeDeleted)
				assert.Less(t, time.Since(began), time.Second)
				time.Sleep(time.Second)
				assert.Empty(t, srv.Watches())
			})
		})
	}
}

func TestHoldOfAnotherNodeIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv))
		require.NoError(t, srv.Create("/persistent", nil))
		h, err := s.Hold(t.Context(), HoldOptions{Path: "/persistent"})
		require.NoError(t, err)
		over(t, h, ErrNodeDeleted)
		h, err = s.Hold(t.Context(), HoldOptions{Path: "/absent", OwnWatchAfter: -1})
		require.NoError(t, err)
		over(t, h, ErrNodeDeleted)
		_, err = s.Hold(t.Context(), HoldOptions{Path: "absent"})
		assert.ErrorIs(t, err, ErrInvalidPath)
		time.Sleep(time.Second)
		assert.Empty(t, srv.Watches())
	})
}

// The cost of a hold: nothing for 50 ms, then one read, and no request to remove a watch that a delete uses up.
func TestHoldTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv))
		count := func(f func()) map[string]int {
			synctest.Wait()
			srv.ResetCounts()
			f()
			counts := srv.CountsOf(s.ID())
			delete(counts, "ping")
			return counts
		}
		assert.Equal(t, map[string]int{"create2": 1, "delete": 1}, count(func() {
			h := hold(t, s, "/short", HoldOptions{})
			time.Sleep(49 * time.Millisecond)
			h.End(nil)
			require.NoError(t, s.Client().Delete().ForPath(t.Context(), "/short"))
			time.Sleep(time.Second)
		}))
		assert.Equal(t, map[string]int{"create2": 1, "exists": 1, "delete": 1}, count(func() {
			h := hold(t, s, "/long", HoldOptions{})
			time.Sleep(time.Minute)
			h.End(nil)
			require.NoError(t, s.Client().Delete().ForPath(t.Context(), "/long"))
			time.Sleep(time.Second)
		}))
		assert.Equal(t, map[string]int{"create2": 1, "exists": 1}, count(func() {
			_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/watched", nil)
			require.NoError(t, err)
			waiting := &wire.Watch{Kind: wire.Data, Path: "/watched", Fn: func(wire.WatchEvent) {}}
			armed := make(chan struct{})
			s.epoch.wire.Submit(
				&wire.Call{Op: 3, Body: existsBody("/watched"), Watch: waiting, Done: func(wire.Reply) { close(armed) }},
			)
			<-armed
			h, err := s.Hold(t.Context(), HoldOptions{Path: "/watched", OwnWatchAfter: -1})
			require.NoError(t, err)
			s.epoch.wire.Unwatch(waiting)
			time.Sleep(time.Minute)
			require.NoError(t, srv.Delete("/watched"))
			over(t, h, ErrNodeDeleted)
		}))
	})
}

func TestHoldAfterTheServerForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv))
		h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
		srv.Expire(s.ID())
		over(t, h, ErrSessionLost)
		assert.ErrorIs(t, context.Cause(h.Context()), wire.ErrExpired)
		h.End(nil)
	})
}

// A read that a member refuses for a temporary reason is repeated.
func TestHoldLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv))
		srv.Inject(zktest.Fault{Op: "exists", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
		h := hold(t, s, "/lock", HoldOptions{})
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, srv.Watches())
		time.Sleep(rereadPause)
		require.Len(t, srv.Watches(), 1)
		require.NoError(t, srv.Delete("/lock"))
		over(t, h, ErrNodeDeleted)
	})
}

func TestHoldMayNotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv))
		srv.Inject(zktest.Fault{Op: "exists", Times: -1, Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
		h := hold(t, s, "/lock", HoldOptions{})
		time.Sleep(time.Minute)
		assert.True(t, h.Valid())
		h.End(nil)
	})
}

// Holds that end while their node stays leave no watch on it, whenever they end. Where the node is deleted, as usual, that
// costs no request.
func TestEndedHoldsLeaveNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv))
		first := hold(t, s, "/a", HoldOptions{})
		for i := range 100 {
			h, err := s.Hold(
				t.Context(), HoldOptions{Path: "/a", OwnWatchAfter: time.Duration(i%3) * time.Millisecond},
			)
			require.NoError(t, err)
			time.Sleep(time.Duration(i%5) * time.Millisecond)
			h.End(nil)
		}
		time.Sleep(2 * time.Second)
		assert.Len(t, srv.Watches(), 1, "of the first")
		first.End(nil)
		time.Sleep(2 * time.Second)
		assert.Empty(t, srv.Watches())

		h := hold(t, s, "/b", HoldOptions{})
		time.Sleep(time.Second)
		srv.ResetCounts()
		h.End(nil)
		require.NoError(t, s.Client().Delete().ForPath(t.Context(), "/b"))
		time.Sleep(5 * time.Second)
		assert.Empty(t, srv.Watches())
		assert.Zero(t, srv.Counts()["removeWatches"])
	})
}
