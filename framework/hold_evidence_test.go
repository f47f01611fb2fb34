package framework

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// unanswered starts a server that does not reveal whether it is standalone until answer is called.
func unanswered(t *testing.T) (srv *zktest.Server, answer func()) {
	srv = zktest.RunT(t)
	f := srv.Inject(zktest.Fault{
		Op: "getData", PathPrefix: configPath, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp, Times: -1,
	})
	return srv, func() { f.Remove() }
}

// A hold may have to wait for its grant, here for a server that does not reveal whether it is standalone. By then the
// caller's knowledge is old: the node may have been deleted, and another contender may hold.
func TestANodeThatIsDeletedWhileItsHoldWaitsIsNotHeld(t *testing.T) {
	for name, opt := range map[string]HoldOptions{
		"by default":  {},
		"beyond cuts": {Loss: SessionOnly},
		"watched":     {Loss: SessionOnly, OwnWatchAfter: -1},
		"no czxid":    {Czxid: -1},
	} {
		for _, again := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv, answer := unanswered(t)
					s := connected(t, dial(t, srv))
					var stat Stat
					_, err := s.Client().Create().WithMode(Ephemeral).StoringStatIn(&stat).ForPath(t.Context(), "/lock", nil)
					require.NoError(t, err)
					if opt.Path = "/lock"; opt.Czxid == 0 {
						opt.Czxid = stat.Czxid
					} else {
						opt.Czxid = 0
					}
					done := make(chan error, 1)
					go func() {
						_, err := s.Hold(t.Context(), opt)
						done <- err
					}()
					time.Sleep(time.Second)
					require.NoError(t, srv.Delete("/lock"))
					if again { // another node of that name, in this session if the czxid distinguishes them
						owner, mode := s.ID(), zktest.Ephemeral
						if opt.Czxid == 0 {
							owner, mode = 0, zktest.Persistent
						}
						_, err := srv.CreateNode("/lock", nil, mode, owner)
						require.NoError(t, err)
					}
					time.Sleep(time.Second)
					require.Empty(t, done)
					answer()
					assert.ErrorIs(t, <-done, ErrNodeDeleted)
					assert.Zero(t, s.Client().Safety().Holds)
				})
			})
		}
	}
}

// If the node is still there the hold is granted, whatever temporary refusals and cuts the check of the node meets.
func TestANodeThatIsThereWhenItsHoldHasWaitedIsHeld(t *testing.T) {
	for _, cuts := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			srv, answer := unanswered(t)
			s := connected(t, dial(t, srv))
			refused := zktest.Fault{Op: "exists", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp, Times: 2}
			looked := srv.Inject(refused)
			if cuts > 0 {
				cut := srv.Inject(zktest.Fault{Op: "exists", Action: zktest.CutBefore})
				defer func() { <-cut.Struck() }()
			}
			time.AfterFunc(time.Second, answer)
			refusedAt := make(chan time.Time, 1)
			go func() { <-looked.Struck(); refusedAt <- time.Now() }()
			h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
			assert.Positive(t, time.Since(<-refusedAt), "the look is repeated after a pause")
			time.Sleep(time.Second)
			assert.Equal(t, 4+cuts, srv.CountsOf(s.ID())["exists"], "two refusals, a cut, the look, and the watch")
			require.NoError(t, srv.Delete("/lock"))
			over(t, h, ErrNodeDeleted)
		})
	}
}

// The check of the node ends when the caller gives up, when the client closes, and, under SuspendedIsLoss, when the
// connection is lost.
func TestTheLookAtANodeEnds(t *testing.T) {
	cut := func(srv *zktest.Server, _ *Client, _ context.CancelFunc) { srv.Cut(0) }
	stops := func(srv *zktest.Server, _ *Client, _ context.CancelFunc) { srv.Stop() }
	expire := func(srv *zktest.Server, _ *Client, _ context.CancelFunc) { srv.Expire(srv.Sessions()[0].ID) }
	closes := func(_ *zktest.Server, c *Client, _ context.CancelFunc) { _ = c.Close() }
	leaves := func(_ *zktest.Server, _ *Client, cancel context.CancelFunc) { cancel() }
	for name, end := range map[string]struct {
		loss LossPolicy
		by   func(*zktest.Server, *Client, context.CancelFunc)
		want error
	}{
		"the caller":     {SessionOnly, leaves, context.Canceled},
		"the client":     {SessionOnly, closes, ErrClosed},
		"the session":    {SessionOnly, expire, ErrSessionLost},
		"the connection": {SuspendedIsLoss, cut, ErrSuspended},
		"the server":     {SuspendedIsLoss, stops, ErrSuspended},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, answer := unanswered(t)
				c := dial(t, srv)
				s := connected(t, c)
				looking := srv.Inject(zktest.Fault{Op: "exists", Action: zktest.Hold})
				_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Second, answer)
				time.AfterFunc(3*time.Second, func() { end.by(srv, c, cancel) })
				_, err = s.Hold(ctx, HoldOptions{Path: "/lock", Loss: end.loss})
				<-looking.Struck()
				assert.ErrorIs(t, err, end.want)
			})
		})
	}
}

// A hold that ends with its connection does not wait for the next connection, whatever it still needed.
func TestWithoutAConnectionNothingIsMadeCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv, WithRule(RuleHeartbeat)))
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
		require.NoError(t, err)
		time.Sleep(8 * time.Second) // so long after the last write another one is needed
		writing := srv.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		began := time.Now()
		time.AfterFunc(time.Second, srv.Stop)
		_, err = s.Hold(t.Context(), HoldOptions{Path: "/lock", Loss: SuspendedIsLoss})
		<-writing.Struck()
		assert.ErrorIs(t, err, ErrSuspended)
		assert.Less(t, time.Since(began), time.Second+time.Millisecond)
	})
}

// Knowledge about the node is old also after a slow hook.
func TestANodeThatIsDeletedWhileAHookRunsIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		var ended error
		c := dial(t, srv, WithHooks(Hooks{Hold: func(ctx context.Context, _ HoldInfo) (context.Context, func(error)) {
			time.Sleep(time.Second)
			return ctx, func(err error) { ended = err }
		}}))
		s := connected(t, c)
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
		require.NoError(t, err)
		time.AfterFunc(time.Second/2, func() { assert.NoError(t, srv.Delete("/lock")) })
		_, err = s.Hold(t.Context(), HoldOptions{Path: "/lock"})
		assert.ErrorIs(t, err, ErrNodeDeleted)
		assert.ErrorIs(t, ended, ErrNodeDeleted)
		assert.Zero(t, c.Safety().Holds)
	})
}

// A caller that gives up while the write is in flight has no hold, whatever the outcome of the write. The error is only
// that of its context.
func TestWhoGivesUpDuringTheWriteHasNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		s := connected(t, dial(t, srv, WithRule(RuleHeartbeat)))
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
		require.NoError(t, err)
		time.Sleep(8 * time.Second) // so long after the last write another one is needed
		writing := srv.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = s.Hold(ctx, HoldOptions{Path: "/lock", Loss: SessionOnly})
		<-writing.Struck()
		writing.Release()
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown)
		assert.NotContains(t, err.Error(), "too long to commit")
	})
}

// The connection is lost between the proof and the grant, so no hold begins. The session then counts no hold, and the next
// hold counts as one.
func TestAGrantThatALossOvertakesIsNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{EnsembleConfig: ensemble})
		lose := true
		var away *zktest.Injection
		c := dial(t, srv, WithSessionTimeout(4*time.Second), WithHooks(Hooks{
			Hold: func(ctx context.Context, _ HoldInfo) (context.Context, func(error)) {
				if lose {
					away = srv.Inject(zktest.Fault{Op: "connect", Action: zktest.Hold})
					srv.Cut(0)
					time.Sleep(time.Millisecond) // the client has noticed the loss
				}
				return ctx, func(error) {}
			},
		}))
		s := connected(t, c)
		_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
		require.NoError(t, err)
		_, err = s.Hold(t.Context(), HoldOptions{Path: "/lock"})
		require.ErrorIs(t, err, ErrSuspended)
		away.Release()
		require.NoError(t, c.WaitConnected(t.Context()))
		writesInAMinute := func() int {
			srv.ResetCounts()
			time.Sleep(time.Minute)
			return srv.Counts()["multi"]
		}
		assert.Zero(t, writesInAMinute(), "nothing is held")
		lose = false
		h, err := s.Hold(t.Context(), HoldOptions{Path: "/lock"})
		require.NoError(t, err)
		assert.InDelta(t, 90, writesInAMinute(), 2, "one every 4 s/6")
		assert.True(t, h.Valid())
		h.End(nil)
		assert.Zero(t, writesInAMinute(), "nor after it")
		assert.NoError(t, s.Context().Err())
	})
}
