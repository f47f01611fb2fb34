package framework

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

func existsBody(path string) []byte {
	return jute.Marshal(&jute.PathWatchRequest{Path: path, Watch: true})
}

func TestSafetyFollowsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		srv.Stop()
		alone := dial(t, srv)
		before := alone.Safety()
		assert.False(t, before.Known)
		assert.Equal(t, 10*time.Second, before.SessionTimeout)
		assert.Equal(t, RuleHeartbeat, before.Rule, "careful until it is known better")
		require.NoError(t, srv.Start())
		connected(t, alone)
		synctest.Wait()
		s := alone.Safety()
		assert.True(t, s.Known && s.Standalone)
		assert.Equal(t, RuleBound, s.Rule)
		assert.Zero(t, s.Bound)
		assert.Equal(t, 10*time.Second-s.Margin, s.Remaining)

		member := dial(
			t, zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble}), WithSessionTimeout(30*time.Second),
		)
		connected(t, member)
		synctest.Wait()
		s = member.Safety()
		assert.True(t, s.Known && !s.Standalone)
		assert.Equal(t, RuleBound, s.Rule)
		assert.Equal(t, 13*time.Second, s.Bound)
		assert.Equal(t, 30*time.Second-s.Margin, s.Remaining, "a quorum has just created it")
	})
}

func TestServerMadeAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		var log bytes.Buffer
		c := dial(t, srv, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
		next := changesOf(t, c)
		require.NoError(t, srv.Set(configPath, []byte(ensemble)))
		srv.Cut(0)
		next(StateChange{Connected, 1}, StateChange{Suspended, 1}, StateChange{Reconnected, 1})
		synctest.Wait()
		assert.Equal(t, RuleHeartbeat, c.Safety().Rule)
		srv.Cut(0)
		next(StateChange{Suspended, 1}, StateChange{Reconnected, 1})
		assert.True(t, h.Valid())
		require.NoError(t, c.Close())
		assert.Equal(t, 2, strings.Count(log.String(), "safety rule of holds changed"), "once for each")
		assert.NotContains(t, log.String(), "level=ERROR")
	})
}

func heartbeatServer(t *testing.T) (*zktest.Server, *Client) {
	srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble})
	return srv, dial(t, srv, WithSessionTimeout(4*time.Second))
}

func TestHeartbeatKeepsHoldsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		s := connected(t, c)
		time.Sleep(time.Minute)
		assert.Zero(t, srv.Counts()["multi"], "nothing is held, nothing is written")
		h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
		assert.LessOrEqual(t, srv.Counts()["multi"], 2)
		assert.Equal(t, RuleHeartbeat, c.Safety().Rule)
		srv.ResetCounts()
		for range 120 {
			time.Sleep(500 * time.Millisecond)
			require.True(t, h.Valid())
			require.Positive(t, h.Remaining())
		}
		assert.InDelta(t, 90, srv.Counts()["multi"], 2, "one every 4 s/6")
		h.End(nil)
		time.Sleep(time.Second)
		srv.ResetCounts()
		time.Sleep(time.Minute)
		assert.Zero(t, srv.Counts()["multi"], "nor after it")
		assert.Equal(t, Connected, c.State().State, "an idle session lives on")
		hold(t, s, "/again", HoldOptions{})
	})
}

// A member cut from its leader replies to pings and reads, but to no write.
func TestHeartbeatNoticesAStaleMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		s := connected(t, c)
		h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
		time.Sleep(10 * time.Second)
		for _, op := range []string{"multi", "create2"} {
			srv.Inject(zktest.Fault{Op: op, Times: -1, Action: zktest.DropRequest})
		}
		cut, left := time.Now(), h.Remaining()
		over(t, h, ErrSessionLost)
		assert.Equal(t, left, time.Since(cut))
		assert.Less(
			t, time.Since(cut), 4*time.Second-time.Second-500*time.Millisecond,
			"before the leader can have expired the session",
		)
		<-s.Done()
	})
}

func TestHeartbeatNoticesADeletedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		s := connected(t, c)
		var holds []*Hold
		for i := range 2*batchMaxNodes + 10 {
			holds = append(
				holds, hold(t, s, fmt.Sprintf("/lock%d", i), HoldOptions{Loss: SessionOnly, OwnWatchAfter: time.Hour}),
			)
		}
		time.Sleep(5 * time.Second)
		gone := map[int]bool{0: true, 1: true, 77: true, batchMaxNodes: true, 2*batchMaxNodes + 9: true}
		for i := range gone {
			require.NoError(t, srv.Delete(fmt.Sprintf("/lock%d", i)))
		}
		time.Sleep(4 * time.Second / heartbeatsPerTimeout)
		synctest.Wait()
		for i, h := range holds {
			if gone[i] {
				over(t, h, ErrNodeDeleted)
			} else {
				require.True(t, h.Valid(), i)
			}
		}
		time.Sleep(time.Minute)
		assert.True(t, holds[2].Valid())
		assert.Equal(t, len(holds)-len(gone), c.Safety().Holds)
	})
}

// With very many holds each heartbeat checks the nodes of only some of them, so that its cost is limited. Each node gets
// its turn, and all holds stay valid.
func TestTheNodesOfVeryManyHoldsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		s := connected(t, c)
		var holds []*Hold
		for i := range 3*heartbeatMaxNodes + 10 {
			holds = append(
				holds, hold(t, s, fmt.Sprintf("/lock%d", i), HoldOptions{Loss: SessionOnly, OwnWatchAfter: time.Hour}),
			)
		}
		const interval = 4 * time.Second / heartbeatsPerTimeout
		time.Sleep(5 * time.Second)
		srv.ResetCounts()
		time.Sleep(60 * interval)
		assert.LessOrEqual(t, srv.Counts()["multi"], 61*heartbeatMaxNodes/batchMaxNodes)
		gone := []int{0, 1, heartbeatMaxNodes, 2 * heartbeatMaxNodes, 3*heartbeatMaxNodes + 9}
		for _, i := range gone {
			require.NoError(t, srv.Delete(fmt.Sprintf("/lock%d", i)))
		}
		time.Sleep(9 * interval) // to the end of the round, and the next
		synctest.Wait()
		for _, i := range gone {
			over(t, holds[i], ErrNodeDeleted)
		}
		holds[2].End(nil) // ended before its turn: that does not cost the other holds their turns
		require.NoError(t, srv.Delete("/lock2"))
		time.Sleep(time.Minute)
		assert.Equal(t, len(holds)-len(gone)-1, c.Safety().Holds)
	})
}

// Writes that count only a moment longer do not make a hold that lapses before its first heartbeat.
func TestHoldOnOldWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := heartbeatServer(t)
		s := connected(t, c)
		for i := range 50 {
			h := hold(t, s, fmt.Sprintf("/lock%d", i), HoldOptions{Loss: SessionOnly})
			time.Sleep(3 * time.Second)
			require.True(t, h.Valid(), i)
			h.End(nil)
			time.Sleep(time.Duration(i) * 50 * time.Millisecond)
		}
	})
}

// If a hold could begin without a write, its first heartbeat is due by the time of the last write, not by the hold's
// beginning.
func TestTheFirstHeartbeatOfAHoldOnOldWrites(t *testing.T) {
	for _, old := range []time.Duration{
		0, 50 * time.Millisecond, 100 * time.Millisecond, time.Second/heartbeatsPerTimeout - time.Millisecond,
	} {
		t.Run(fmt.Sprint(old), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble, TickTime: 500 * time.Millisecond})
				// two ticks: no heartbeat may be missed
				c := dial(t, srv, WithSessionTimeout(time.Second), WithServerTick(500*time.Millisecond))
				s := connected(t, c)
				for _, path := range []string{"/lock", "/other"} {
					_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), path, nil)
					require.NoError(t, err)
				}
				time.Sleep(old)
				h, err := s.Hold(t.Context(), HoldOptions{Path: "/lock", Loss: SessionOnly})
				require.NoError(t, err)
				require.Zero(t, srv.Counts()["multi"], "nothing was to be written")
				time.Sleep(10 * time.Second)
				assert.NoError(t, h.Context().Err())
				assert.InDelta(t, 60, srv.Counts()["multi"], 2, "one every T/6")
			})
		})
	}
}

func TestHeartbeatOverACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
		for range 30 {
			srv.Cut(0)
			time.Sleep(1500 * time.Millisecond)
			require.True(t, h.Valid())
		}
	})
}

func TestHeartbeatWithoutTheRightToCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		s := connected(t, c)
		h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
		require.NoError(t, srv.SetACL("/lock", zktest.ACL{Perms: jute.PermWrite, Scheme: "world", ID: "anyone"}))
		time.Sleep(time.Minute)
		assert.True(t, h.Valid(), "the root is checked instead")
	})
}

// Without the permission to check the root either, the check of every heartbeat fails. The failed transaction is committed
// nevertheless, and extends the session.
func TestHeartbeatsThatMayCheckNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
		for _, path := range []string{"/lock", "/"} {
			require.NoError(t, srv.SetACL(path, zktest.ACL{Perms: jute.PermWrite, Scheme: "world", ID: "anyone"}))
		}
		time.Sleep(time.Minute)
		assert.True(t, h.Valid())
	})
}

// The first node of a heartbeat is checked as the others are.
func TestTheHeartbeatOfASingleHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly, OwnWatchAfter: time.Hour})
		time.Sleep(5 * time.Second)
		require.NoError(t, srv.Delete("/lock"))
		began := time.Now()
		over(t, h, ErrNodeDeleted)
		assert.LessOrEqual(t, time.Since(began), 4*time.Second/heartbeatsPerTimeout)
	})
}

func TestHoldRefusedWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble, TickTime: 500 * time.Millisecond})
		c := dial(t, srv, WithSessionTimeout(1500*time.Millisecond))
		s := connected(t, c)
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
		require.NoError(t, err)
		_, err = s.Hold(t.Context(), HoldOptions{Path: "/lock"})
		require.ErrorIs(t, err, ErrTimeoutTooShort)
		assert.ErrorContains(t, err, "WithServerTick")
		assert.ErrorIs(t, c.Safety().Refused, ErrTimeoutTooShort)
		time.Sleep(time.Minute)
		assert.NoError(t, s.Context().Err(), "the session itself lives")

		faster := dial(t, srv, WithSessionTimeout(2*time.Second), WithServerTick(500*time.Millisecond))
		hold(t, connected(t, faster), "/lock2", HoldOptions{})
	})
}

func TestForcedBoundWithoutRoomKeepsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble})
		c := dial(t, srv, WithRule(RuleBound))
		s := connected(t, c)
		time.Sleep(time.Minute)
		assert.NoError(t, s.Context().Err())
		_, err := s.Hold(t.Context(), HoldOptions{Path: "/lock"})
		assert.ErrorIs(t, err, ErrTimeoutTooShort)
	})
}

// The grant under the heartbeat rule ends with its context while the quorum stalls.
func TestHoldWaitsForCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		s := connected(t, c)
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
		require.NoError(t, err)
		time.Sleep(3 * time.Second) // so long after the last write another one is needed
		stall := srv.Inject(zktest.Fault{Op: "multi", Times: -1, Action: zktest.HoldReply})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err = s.Hold(ctx, HoldOptions{Path: "/lock"})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 500*time.Millisecond, time.Since(began))
		assert.Zero(t, c.Safety().Holds)
		stall.Remove()
		stall.Release()
		h, err := s.Hold(t.Context(), HoldOptions{Path: "/lock"})
		require.NoError(t, err)
		assert.True(t, h.Valid())
		_, err = s.Hold(t.Context(), HoldOptions{Path: "/gone"})
		require.NoError(t, err) // there is a recent write, so only the watch finds out that the node is not there

		// The last write is too old to count.
		h.End(nil)
		time.Sleep(time.Minute)
		_, err = s.Hold(t.Context(), HoldOptions{Path: "/gone"})
		assert.ErrorIs(t, err, ErrNodeDeleted)
	})
}

// A grant under the heartbeat rule survives the loss of the connection on which it waits for a commit.
func TestHoldCommitsAgainAfterACut(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		synctest.Test(t, func(t *testing.T) {
			srv, c := heartbeatServer(t)
			s := connected(t, c)
			srv.Inject(zktest.Fault{Op: "multi", Times: 2, Action: action})
			h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
			time.Sleep(10 * time.Second)
			require.True(t, h.Valid())
		})
	}
}

// A server that is overloaded for a moment delays a new hold for a moment, and does not cost the contender its place in
// line; nor does a node that may not be checked.
func TestHeartbeatsBeginDespiteRefusals(t *testing.T) {
	for name, code := range map[string]zktest.Error{
		"throttled": zktest.ErrThrottledOp, "timeout": zktest.ErrRequestTimeout, "no right": zktest.ErrNoAuth,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, c := heartbeatServer(t)
				s := connected(t, c)
				refused := srv.Inject(
					zktest.Fault{Op: "multi", PathPrefix: "/lock", Action: zktest.ReplyError, Err: code},
				)
				h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
				<-refused.Struck()
				time.Sleep(time.Minute)
				assert.True(t, h.Valid())

				// The same before a hold that needs a write to begin.
				h.End(nil)
				time.Sleep(time.Minute)
				refused = srv.Inject(
					zktest.Fault{Op: "multi", PathPrefix: "/lock", Action: zktest.ReplyError, Err: code},
				)
				h, err := s.Hold(t.Context(), HoldOptions{Path: "/lock", Loss: SessionOnly})
				require.NoError(t, err)
				<-refused.Struck()
				time.Sleep(time.Minute)
				assert.True(t, h.Valid())
			})
		})
	}
}

// During a slow hook the writes that made the hold certain grow too old. That does not cost the session: there are new
// writes.
func TestAHoldIsCertainAgainAfterASlowHook(t *testing.T) {
	for name, slow := range map[string]func(*zktest.Server){
		"old writes":           func(*zktest.Server) { time.Sleep(10 * time.Second) },
		"another connection":   func(srv *zktest.Server) { srv.Cut(0); time.Sleep(time.Second) },
		"no connection at all": func(srv *zktest.Server) { srv.Cut(0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, began, d := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble}), 0, &diary{}
				c := dial(t, srv, WithSessionTimeout(4*time.Second), WithHooks(Hooks{Hold: func(
					ctx context.Context, _ HoldInfo,
				) (context.Context, func(error)) {
					if began++; began == 1 {
						slow(srv)
					}
					return ctx, func(err error) { d.add("%v", err) }
				}}))
				s := connected(t, c)
				h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
				time.Sleep(time.Minute)
				assert.True(t, h.Valid())
				assert.Equal(t, 1, began)
				h.End(nil)
				assert.Equal(t, []string{ErrReleased.Error()}, d.read())
				assert.Zero(t, c.Safety().Holds)
			})
		})
	}
}

// A member that replies to pings and commits nothing costs no hold that outlives a lost connection: there is time to
// connect to another member.
func TestAMemberThatCommitsNothingCostsNoHold(t *testing.T) {
	for _, timeout := range []time.Duration{6 * time.Second, 10 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			e := zktest.RunEnsembleT(t, 3)
			c, err := New(e.ConnectString(), WithDialer(e.Dial), WithSessionTimeout(timeout), WithRule(RuleHeartbeat))
			require.NoError(t, err)
			defer c.Close()
			s := connected(t, c)
			h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
			time.Sleep(30 * time.Second)
			for _, m := range e.Members() {
				if m.Addr() == s.epoch.wire.Server() {
					m.Inject(zktest.Fault{Op: "multi", Times: -1, Action: zktest.Hold})
				}
			}
			time.Sleep(time.Minute)
			assert.True(t, h.Valid(), "%v: %v", timeout, context.Cause(h.Context()))
			assert.EqualValues(t, 2, s.Connections())
		})
	}
}

// Servers that commit slowly for a while do not prove that the timeout is too short: the caller waits until they are
// faster.
func TestHoldOutlastsSlowCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble})
		c := dial(t, srv, WithSessionTimeout(8*time.Second))
		s := connected(t, c)
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		slow := srv.Inject(zktest.Fault{Op: "multi", Times: -1, Action: zktest.DelayReply, Delay: 3 * time.Second})
		time.AfterFunc(30*time.Second, slow.Remove)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = s.Hold(ctx, HoldOptions{Path: "/lock"})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, ErrTimeoutTooShort)
		assert.ErrorContains(t, err, "too long to commit")

		began := time.Now()
		h, err := s.Hold(t.Context(), HoldOptions{Path: "/lock"})
		require.NoError(t, err)
		assert.True(t, h.Valid())
		assert.InDelta(t, 13*time.Second, time.Since(began), float64(4*time.Second))
		assert.NoError(t, s.Context().Err())
	})
}

// Servers that commit slowly all the time delay a hold, until it is clear that they stay so. The writes have shown that
// the node exists: it is not read again.
func TestServersThatCommitSlowlyDelayAHold(t *testing.T) {
	for _, tt := range []struct {
		margin, idle, delay time.Duration
		writes              int
		took                time.Duration
	}{
		{400 * time.Millisecond, 10 * time.Second, 700 * time.Millisecond, strictWrites, 2800 * time.Millisecond},
		{ // more than a session timeout
			1500 * time.Millisecond, 10100 * time.Millisecond, 429 * time.Millisecond, 8, 4049 * time.Millisecond,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble})
			c := dial(t, srv, WithSessionTimeout(4*time.Second), WithSafetyMargin(tt.margin), WithRule(RuleHeartbeat))
			s := connected(t, c)
			_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
			require.NoError(t, err)
			time.Sleep(tt.idle)
			srv.Inject(zktest.Fault{Op: "multi", Times: -1, Action: zktest.DelayReply, Delay: tt.delay})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			h, err := s.Hold(ctx, HoldOptions{Path: "/lock", Loss: SessionOnly})
			require.NoError(t, err)
			assert.GreaterOrEqual(t, h.Remaining(), tt.delay)
			assert.Contains(t, []int{tt.writes, tt.writes + 1}, srv.Counts()["multi"], "a heartbeat may follow at once")
			assert.Equal(t, tt.took, time.Since(began).Round(time.Millisecond))
			assert.Zero(t, srv.Counts()["exists"])
		})
	}
}

func TestMayBegin(t *testing.T) {
	const every = 667 * time.Millisecond // at a timeout of 4 s
	for _, tt := range []struct {
		left, took time.Duration
		late, want bool
	}{
		{762 * time.Millisecond, 473 * time.Millisecond, false, true}, // the heartbeat is sent 194 ms later
		{667 * time.Millisecond, 473 * time.Millisecond, false, false},
		{667 * time.Millisecond, 473 * time.Millisecond, true, true},
		{667 * time.Millisecond, 667 * time.Millisecond, true, true},
		{762 * time.Millisecond, 700 * time.Millisecond, false, true}, // immediately
		{762 * time.Millisecond, 800 * time.Millisecond, false, false},
		{0, 0, true, false},
	} {
		assert.Equal(t, tt.want, mayHoldBegin(tt.left, every, tt.took, tt.late), tt)
	}
}
