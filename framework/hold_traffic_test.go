package framework

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// slowLine is a connection that sends a limited number of bytes per second to the server.
type slowLine struct {
	net.Conn
	rate int
}

func (l slowLine) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(len(b)) * time.Second / time.Duration(l.rate))
	return l.Conn.Write(b)
}

// A client's own requests, however many, cost it neither its session nor its holds: pings and heartbeats are sent first,
// and few requests are in flight at one time.
func TestABurstOfOnesOwnCostsNoHold(t *testing.T) {
	many := 100_000
	if testing.Short() {
		many /= 2
	}
	reads := func(n int) func(c *Client) []*Pending[DataResult] {
		return func(c *Client) (all []*Pending[DataResult]) {
			for range n {
				all = append(all, c.GetData().InBackground().ForPath(context.Background(), "/lock"))
			}
			return all
		}
	}
	large := func(c *Client) (all []*Pending[DataResult]) {
		var wg sync.WaitGroup
		for i := range 200 {
			p := c.Create().InBackground().ForPath(context.Background(), fmt.Sprintf("/n%d", i), make([]byte, 100<<10))
			wg.Add(1)
			p.Then(func(_ CreateResult, err error) { assert.NoError(t, err); wg.Done() })
		}
		wg.Wait()
		return nil
	}
	for name, story := range map[string]struct {
		cfg   zktest.Config
		delay time.Duration
		rate  int
		burst func(c *Client) []*Pending[DataResult]
		opts  []Option
	}{
		"a server 25 ms away, and a small window": {
			delay: 25 * time.Millisecond, burst: reads(15_000), opts: []Option{WithWindow(100)},
		},
		"a server 25 ms away": {delay: 25 * time.Millisecond, burst: reads(many)},
		"a server that takes 2 ms for each": {
			cfg: zktest.Config{Pace: 2 * time.Millisecond}, burst: reads(5_000),
		},
		"a slow line and large requests": {rate: 1 << 20, burst: large},
	} {
		t.Run(name, func(t *testing.T) {
			for _, rule := range []Rule{RuleHeartbeat, RuleBound} {
				synctest.Test(t, func(t *testing.T) {
					story.cfg.EnsembleConfig = ensemble
					srv := zktest.RunT(t, story.cfg)
					opts := append(
						[]Option{WithSessionTimeout(6 * time.Second), WithRule(rule), WithStaleServerBound(time.Second)},
						story.opts...,
					)
					if story.rate > 0 {
						opts = append(opts, WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
							conn, err := srv.Dial(ctx, network, addr)
							return slowLine{conn, story.rate}, err
						}))
					}
					c := dial(t, srv, opts...)
					s := connected(t, c)
					srv.Delay(0, story.delay)
					h := hold(t, s, "/lock", HoldOptions{})
					before := time.Now()
					for _, p := range story.burst(c) {
						_, err := p.Wait(t.Context())
						require.NoError(t, err)
					}
					assert.Greater(t, time.Since(before), time.Second, "a burst that lasts")
					time.Sleep(10 * time.Second)
					assert.True(t, h.Valid(), "%v: %v", rule, context.Cause(h.Context()))
					assert.Equal(t, int64(1), c.State().Epoch)
					assert.Equal(t, Connected, c.State().State, "nor its connection")
				})
			}
		})
	}
}

// In a burst only the create of the node, a request of the caller, waits for its turn. The hold that follows does not wait.
func TestAHoldIsMadeInFrontOfABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble})
		c := dial(t, srv, WithSessionTimeout(6*time.Second), WithWindow(10))
		s := connected(t, c)
		_, err := c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
		require.NoError(t, err)
		srv.Delay(0, 25*time.Millisecond)
		var last *Pending[DataResult]
		for range 2000 {
			last = c.GetData().InBackground().ForPath(context.Background(), "/lock")
		}
		before := time.Now()
		_, err = s.Hold(t.Context(), HoldOptions{Path: "/lock"})
		require.NoError(t, err)
		assert.Less(t, time.Since(before), 200*time.Millisecond)
		_, err = last.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 5*time.Second, time.Since(before).Round(time.Second))
	})
}

// The connection timeout limits the wait for a connection. An operation that waits for its turn on a connection is not
// limited by it.
func TestABusyConnectionIsNoMissingOne(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		srv.Delay(0, 25*time.Millisecond)
		before := time.Now()
		var all []*Pending[CreateResult]
		for range 5000 {
			all = append(
				all, c.Create().WithMode(PersistentSequential).InBackground().ForPath(context.Background(), "/n-", nil),
			)
		}
		quick, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		impatient := c.GetData().InBackground().ForPath(quick, "/")
		_, err := c.GetData().ForPath(quick, "/")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrOutcomeUnknown, "it was never sent")
		_, err = impatient.Wait(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(before), "whoever gives up is not kept")
		_, err = c.GetData().ForPath(t.Context(), "/") // in the foreground, without a deadline
		require.NoError(t, err)
		for _, p := range all {
			_, err := p.Wait(t.Context())
			require.NoError(t, err)
		}
		assert.Greater(t, time.Since(before), 2*time.Second)
	}, WithConnectionTimeout(2*time.Second), WithWindow(50), WithRetry(retry.RetryNTimes{}))
}

// The time counts from the loss of the connection, not from the beginning of the wait for a turn.
func TestTheConnectionTimeoutCountsFromTheLossOfTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		srv.Delay(0, 25*time.Millisecond)
		var all []*Pending[DataResult]
		for range 5000 {
			all = append(all, c.GetData().InBackground().ForPath(context.Background(), "/"))
		}
		time.Sleep(1900 * time.Millisecond)
		last := all[len(all)-1]
		srv.Stop()
		time.Sleep(1900 * time.Millisecond)
		select {
		case <-last.Done():
			t.Fatal("3.8 s after its beginning, 1.9 s without a connection")
		default:
		}
		stopped := time.Now()
		_, err := last.Wait(t.Context())
		require.ErrorIs(t, err, ErrNotConnected)
		assert.Equal(t, 100*time.Millisecond, time.Since(stopped))
	}, WithConnectionTimeout(2*time.Second), WithWindow(10), WithRetry(retry.RetryNTimes{}))
}

// Close may be called while the first connection is being made. When it returns nil the server has no session left.
func TestCloseWhileTheFirstConnectionIsMade(t *testing.T) {
	for at := time.Duration(0); at <= 30*time.Millisecond; at += time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.RunT(t)
			srv.Delay(0, 10*time.Millisecond)
			c, err := New(srv.Addr(), WithDialer(srv.Dial), WithAuth("digest", []byte("a:b")))
			require.NoError(t, err)
			time.Sleep(at)
			before := time.Now()
			require.NoError(t, c.Close(), at)
			assert.Empty(t, srv.Sessions(), at)
			assert.Less(t, time.Since(before), 100*time.Millisecond)
		})
	}
	t.Run("a server that does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.RunT(t)
			held := srv.Inject(zktest.Fault{Op: "connect", Action: zktest.HoldReply})
			defer held.Release()
			c, err := New(srv.Addr(), WithDialer(srv.Dial), WithClosingTimeout(time.Second))
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
			before := time.Now()
			require.ErrorIs(t, c.Close(), ErrUnacknowledged)
			assert.Equal(t, time.Second, time.Since(before).Round(100*time.Millisecond))
			assert.Len(t, srv.Sessions(), 1)
		})
	})
}

// After the loss of a connection the first retry is sent on the next one; later retries, and those after other errors, wait
// as the policy says.
func TestTheFirstRetryComesWithTheReconnect(t *testing.T) {
	policy := retry.RetryNTimes{Retries: 3, Sleep: time.Second}
	for name, tc := range map[string]struct {
		fault zktest.Fault
		min   time.Duration
	}{
		"one reply lost":   {zktest.Fault{Op: "exists", Action: zktest.LoseReply}, 0},
		"two replies lost": {zktest.Fault{Op: "exists", Action: zktest.LoseReply, Times: 2}, time.Second},
		"throttled": {
			zktest.Fault{Op: "exists", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp}, time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				srv.Inject(tc.fault)
				before := time.Now()
				_, err := c.CheckExists().ForPath(t.Context(), "/")
				require.NoError(t, err)
				took := time.Since(before)
				assert.GreaterOrEqual(t, took, tc.min)
				assert.Less(t, took, tc.min+200*time.Millisecond)
			}, WithRetry(policy))
		})
	}
	t.Run("away for a while", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			held := srv.Inject(zktest.Fault{Op: "exists", Action: zktest.Hold})
			p := make(chan error, 1)
			go func() {
				_, err := c.CheckExists().ForPath(context.Background(), "/")
				p <- err
			}()
			<-held.Struck()
			srv.Stop()
			before := time.Now()
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, srv.Start())
			require.NoError(t, <-p)
			assert.Less(t, time.Since(before), 1500*time.Millisecond, "it does not wait for ten seconds")
		}, WithRetry(retry.RetryNTimes{Retries: 1, Sleep: 10 * time.Second}))
	})
	t.Run("a new session", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
			s := connected(t, c)
			held := srv.Inject(zktest.Fault{Op: "exists", Action: zktest.Hold})
			p := make(chan error, 1)
			go func() {
				_, err := c.CheckExists().ForPath(context.Background(), "/")
				p <- err
			}()
			<-held.Struck()
			before := time.Now()
			srv.Expire(s.ID())
			require.NoError(t, <-p)
			assert.Less(t, time.Since(before), 2*time.Second)
		}, WithRetry(retry.RetryNTimes{Retries: 2, Sleep: 10 * time.Second}))
	})
}

// A connection is lost before the manager has handled the event of its beginning. The operation that fails then is
// repeated with the next connection, not before.
func TestTheEventOfALostConnectionStartsNoRetry(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		connected(t, c)
		srv.Stop()
		synctest.Wait()
		ready, session := c.core.retryReady(ErrConnectionLoss), c.core.latestEpoch().wire
		isReady := func() bool {
			select {
			case <-ready:
				return true
			default:
				return false
			}
		}
		c.core.signalConnection(session) // late
		require.False(t, isReady())
		require.NoError(t, srv.Start())
		require.NoError(t, c.WaitConnected(t.Context()))
		synctest.Wait()
		require.True(t, isReady())
	})
}

// Client.Retry takes the same options as retry.Do.
func TestRetryTakesOptions(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		broken, tries, told := errors.New("broken"), 0, 0
		op := func(context.Context) error { tries++; return broken }
		require.ErrorIs(t, c.Retry(t.Context(), op), broken)
		assert.Equal(t, 1, tries, "no error of the way to the server")
		require.ErrorIs(
			t,
			c.Retry(
				t.Context(), op, retry.WithRetryable(func(error) bool { return true }),
				retry.WithNotify(func(error, time.Duration) { told++ }),
			),
			broken,
		)
		assert.Equal(t, 1+3, tries)
		assert.Equal(t, 2, told)
	}, WithRetry(retry.RetryNTimes{Retries: 2}))
}

// soonAfter is the longest time until a client is back after an outage: half as much again as the longest pause.
func soonAfter(outage time.Duration) time.Duration {
	return max(time.Second, min(outage/10, 5*time.Second)) * 3 / 2
}

// However long no server could be reached, the client is connected soon after one can.
func TestAClientIsBackSoonAfterAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{6 * time.Second, 20 * time.Second, time.Minute, time.Hour} {
		for range 10 {
			bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
				srv.Stop()
				time.Sleep(outage)
				require.NoError(t, srv.Start())
				before := time.Now()
				require.NoError(t, c.WaitConnected(t.Context()))
				assert.LessOrEqual(t, time.Since(before), soonAfter(outage))
			}, WithSessionTimeout(40*time.Second))
		}
	}
}

// Members that have lost their quorum take connections and close them: that is an outage as any other.
func TestAClientIsBackSoonWhenThereIsAQuorumAgain(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			e := zktest.RunEnsembleT(t, 3)
			require.NoError(t, e.AwaitSettled(t.Context()))
			c, err := New(e.Member(0).Addr(), WithDialer(e.Dial), WithSessionTimeout(40*time.Second))
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			require.NoError(t, c.WaitConnected(t.Context()))
			e.Member(1).Stop()
			e.Member(2).Stop()
			time.Sleep(20 * time.Second)
			require.Equal(t, Suspended, c.State().State)
			require.NoError(t, e.Member(1).Start())
			require.NoError(t, e.AwaitSettled(t.Context()))
			before := time.Now()
			require.NoError(t, c.WaitConnected(t.Context()))
			assert.LessOrEqual(t, time.Since(before), soonAfter(21*time.Second))
		})
	}
}
