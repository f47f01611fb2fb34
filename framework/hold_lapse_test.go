package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/zktest"
)

// A hold that lapses takes its session with it, whichever call was the first to look at the clock: no node of the session
// may stay in the way of other contenders.
func TestWhoeverNoticesTheLapseEndsTheSession(t *testing.T) {
	for name, look := range map[string]func(*Session, *Hold){
		"nobody":    func(*Session, *Hold) {},
		"Valid":     func(_ *Session, h *Hold) { h.Valid() },
		"Remaining": func(_ *Session, h *Hold) { h.Remaining() },
		"Err":       func(_ *Session, h *Hold) { h.Context().Err() },
		"Safety":    func(s *Session, _ *Hold) { s.Client().Safety() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, c := heartbeatServer(t)
				s := connected(t, c)
				h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
				time.Sleep(10 * time.Second)
				// The server replies to reads and pings, and commits no write.
				stale := srv.Inject(zktest.Fault{Op: "multi", Times: -1, Action: zktest.DropRequest})
				ends := time.Now().Add(h.Remaining())
				for time.Now().Before(ends) {
					time.Sleep(min(2*time.Millisecond, time.Until(ends)))
					look(s, h) // also at the exact instant of the lapse, before or after any timer
				}
				synctest.Wait()
				over(t, h, ErrSessionLost)
				assert.ErrorIs(t, h.endCause(), wire.ErrLapsed)
				assert.Error(t, s.Context().Err(), "the session has ended with its hold")
				stale.Remove()
				time.Sleep(3 * time.Second)
				assert.False(t, srv.Exists("/lock"), "the next session has closed it")
				require.NoError(t, c.WaitConnected(t.Context()))
				assert.Equal(t, int64(2), c.State().Epoch)
			})
		})
	}
}

// After a long pause of the process, or the machine's sleep, the client may read the effects of the session's end before
// any timer fires. The cause is the session's end, not these effects.
func TestTheCauseAfterAPauseIsTheSessionsEnd(t *testing.T) {
	for name, strike := range map[string]func(*testing.T, *zktest.Server, *Session){
		"its node is gone": func(
			t *testing.T, srv *zktest.Server, _ *Session,
		) {
			require.NoError(t, srv.Delete("/lock"))
		},
		"its connection is gone": func(_ *testing.T, srv *zktest.Server, s *Session) { srv.Cut(s.ID()) },
		"its session is gone":    func(_ *testing.T, srv *zktest.Server, s *Session) { srv.Expire(s.ID()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t)
				s := connected(t, dial(t, srv))
				h := hold(t, s, "/lock", HoldOptions{OwnWatchAfter: -1})
				time.Sleep(time.Second)
				wire.Sleep(time.Minute)
				strike(t, srv, s)
				over(t, h, ErrSessionLost)
				assert.ErrorIs(t, h.endCause(), wire.ErrLapsed)
				assert.NotErrorIs(t, h.endCause(), ErrNodeDeleted)
			})
		})
	}
}

// If the server has reported the session expired, that is the cause of its holds' end, also for a caller that asks before
// the client has announced it.
func TestTheCauseIsWhatEndedTheSession(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.RunT(t)
			s := connected(t, dial(t, srv))
			h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
			go func() {
				for h.Valid() {
					time.Sleep(time.Nanosecond)
				}
			}()
			s.epoch.wire.Abort(wire.ErrExpired)
			over(t, h, wire.ErrExpired)
		})
	}
}

// The machine has slept for longer than the session lives. Every method of a hold reports the end immediately, and its
// context ends within a moment.
func TestAMachineThatHasSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		s := connected(t, c)
		h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
		asked := hold(t, s, "/asked", HoldOptions{Loss: SessionOnly})
		srv.BlackHole(0, zktest.Both)
		wire.Sleep(8 * time.Hour)
		assert.False(t, asked.Valid())
		assert.Error(t, h.Context().Err())
		synctest.Wait()
		over(t, h, ErrSessionLost)

		srv.Heal()
		time.Sleep(10 * time.Second)
		h = hold(t, connected(t, c), "/again", HoldOptions{Loss: SessionOnly})
		srv.BlackHole(0, zktest.Both)
		wire.Sleep(8 * time.Hour)
		began := time.Now()
		over(t, h, ErrSessionLost)
		assert.Less(t, time.Since(began), time.Second)
	})
}

// A machine has slept for longer than a server may be silent, but not for as long as the session lives. The replies that
// arrived in that time count first: the connection stays, and the hold with it.
func TestAMachineThatHasSleptKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv))
		h := hold(t, s, "/lock", HoldOptions{})
		for range 3 {
			srv.Delay(0, 900*time.Millisecond) // longer than the ping interval: a reply is missing at any time
			time.Sleep(time.Second)
			wire.Sleep(5 * time.Second)
			time.Sleep(5 * time.Second)
			srv.Delay(0, 0)
			time.Sleep(5 * time.Second)
			require.True(t, h.Valid())
			require.Equal(t, uint64(1), s.Connections())
		}
	})
}
