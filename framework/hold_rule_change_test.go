package framework

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// A temporary refusal proves nothing about the server: the client asks again, and keeps its earlier knowledge.
func TestAnOverloadedServerIsAskedAgainWhetherItStandsAlone(t *testing.T) {
	for name, code := range map[string]zktest.Error{
		"throttled": zktest.ErrThrottledOp, "timeout": zktest.ErrRequestTimeout,
	} {
		for _, times := range []int{1, 3, 12} {
			t.Run(fmt.Sprintf("%s %d times", name, times), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.RunT(t)
					c := dial(t, srv, WithSessionTimeout(4*time.Second))
					s := connected(t, c)
					_, err := s.Client().Create().ForPath(t.Context(), "/one", nil)
					require.NoError(t, err)
					h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly}) // the second write
					time.Sleep(time.Minute)                                  // both are old
					require.Equal(t, RuleBound, c.Safety().Rule)
					asked := srv.Inject(
						zktest.Fault{Op: "getData", PathPrefix: configPath, Action: zktest.ReplyError, Err: code, Times: times},
					)
					srv.Cut(0)
					<-asked.Struck()
					for range 600 {
						time.Sleep(100 * time.Millisecond)
						require.True(t, h.Valid())
						require.Equal(t, RuleBound, c.Safety().Rule, "what was known is kept")
						require.True(t, c.Safety().Standalone)
					}
					assert.NoError(t, s.Context().Err())
					require.NoError(t, h.Context().Err())
				})
			})
		}
	}
}

// The first question is repeated, too: no hold begins on a guess.
func TestNothingIsHeldBeforeTheServerHasSaidWhetherItStandsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		srv.Inject(
			zktest.Fault{
				Op: "getData", PathPrefix: configPath, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp, Times: 3,
			},
		)
		c := dial(t, srv, WithSessionTimeout(4*time.Second))
		h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
		s := c.Safety()
		assert.True(t, s.Known && s.Standalone)
		assert.Equal(t, RuleBound, s.Rule)
		assert.True(t, h.Valid())
		assert.Zero(t, srv.Counts()["multi"])
	})
}

// Each refusal in a row lengthens the pause before the question is repeated. After a reply the pauses begin short again.
func TestTheQuestionIsRepeatedSoonAfterALaterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		refuse := func(times int) *zktest.Injection {
			return srv.Inject(zktest.Fault{
				Op: "getData", PathPrefix: configPath, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp, Times: times,
			})
		}
		refuse(12)
		c := dial(t, srv)
		s := connected(t, c)
		hold(t, s, "/lock", HoldOptions{Loss: SessionOnly}).End(nil)
		refused := refuse(1)
		srv.Cut(0)
		<-refused.Struck()
		began := time.Now()
		hold(t, s, "/again", HoldOptions{Loss: SessionOnly})
		assert.LessOrEqual(t, time.Since(began), 20*time.Millisecond)
	})
}

// A server that refuses the question for lack of permission is taken for a member, as before.
func TestAServerThatDoesNotSayIsTakenForAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		srv.Inject(
			zktest.Fault{
				Op: "getData", PathPrefix: configPath, Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1,
			},
		)
		c := dial(t, srv, WithSessionTimeout(4*time.Second))
		h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
		assert.Equal(t, RuleHeartbeat, c.Safety().Rule)
		time.Sleep(time.Minute)
		assert.True(t, h.Valid())
	})
}

// doneAndValidAgree checks a hold in fine steps until it has ended: whenever no goroutine has work left, Done and Valid
// report the same.
func doneAndValidAgree(t *testing.T, h *Hold) (lost time.Duration) {
	t.Helper()
	began := time.Now()
	for {
		synctest.Wait()
		done := false
		select {
		case <-h.Context().Done():
			done = true
		default:
		}
		valid := h.Valid()
		require.Equal(t, done, !valid, "after %v", time.Since(began))
		if done {
			return time.Since(began)
		}
		require.Less(t, time.Since(began), time.Minute)
		time.Sleep(time.Millisecond)
	}
}

// A standalone server comes back as a member, which is cut from the others right after that: it replies to reads and pings,
// and to no write. In whatever phase that happens, a hold ends before the others can have expired the session, and Done and
// Valid report it at the same instant.
func TestAStandaloneServerBecomesAMemberThatIsCutOff(t *testing.T) {
	for phase := range 20 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t)
				c := dial(t, srv, WithSessionTimeout(4*time.Second))
				h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
				time.Sleep(10*time.Second + time.Duration(phase)*50*time.Millisecond)
				require.NoError(t, srv.Set(configPath, []byte(ensemble)))
				last := time.Now() // the leader's last request of the session is not later than this
				srv.Inject(zktest.Fault{Op: "multi", Times: -1, Action: zktest.DropRequest})
				srv.Cut(0)
				lost := doneAndValidAgree(t, h)
				assert.Less(t, time.Since(last), 4*time.Second)
				assert.Greater(t, lost, 2*time.Second, "what the server alone had answered for still counts")
			})
		})
	}
}

// The same with a member that commits: the hold changes to heartbeats without an end.
func TestAStandaloneServerBecomesAMemberThatCommits(t *testing.T) {
	for phase := range 20 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t)
				c := dial(t, srv, WithSessionTimeout(4*time.Second))
				h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
				time.Sleep(10*time.Second + time.Duration(phase)*50*time.Millisecond)
				require.NoError(t, srv.Set(configPath, []byte(ensemble)))
				srv.Cut(0)
				for range 600 {
					time.Sleep(50 * time.Millisecond)
					require.True(t, h.Valid())
					require.NoError(t, h.Context().Err())
				}
				assert.Equal(t, RuleHeartbeat, c.Safety().Rule)
			})
		})
	}
}

// The client does not assume that the next connection's server is of the same kind. But a hold that only a member makes
// impossible is not lost before the server has replied.
func TestNothingIsRefusedBeforeTheServerHasSaidWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, stands, free := zktest.RunT(t), make(chan struct{}), make(chan struct{})
		var slow atomic.Bool
		var c *Client
		c = dial(t, srv, WithRule(RuleBound), WithSessionTimeout(10*time.Second), WithDialer(func(
			ctx context.Context, network, addr string,
		) (net.Conn, error) {
			// the manager has handled the loss, and is busy when the event of the connection comes
			if slow.CompareAndSwap(true, false) {
				c.core.manager.inbox.Put(func() {
					close(stands)
					<-free
				})
			}
			return srv.Dial(ctx, network, addr)
		})) // a member would have to be bound by 13 s
		s := connected(t, c)
		h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
		slow.Store(true)
		srv.Cut(0)
		<-stands
		synctest.Wait() // the server has replied that it is standalone, and the client has not handled that yet
		srv.Inject(
			zktest.Fault{
				Op: "getData", PathPrefix: configPath, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp, Times: 1,
			},
		)
		srv.Cut(0)
		time.Sleep(time.Second)
		require.False(t, s.epoch.wire.Validity().Standing().Current)
		close(free)
		time.Sleep(time.Minute)
		assert.NoError(t, h.Context().Err())
		assert.NoError(t, c.Safety().Refused)
	})
}
