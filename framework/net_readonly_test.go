package framework

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// readOnlyClient starts three members that serve reads without a quorum, and a client that may use them so. It must be
// called in a bubble.
func readOnlyClient(t *testing.T, timeout time.Duration) (*zktest.Ensemble, *Client) {
	e := zktest.RunEnsembleT(t, 3, zktest.Config{ReadOnlyMode: true, LocalSessions: true})
	require.NoError(t, e.AwaitSettled(t.Context()))
	return e, dialReadOnly(t, e, WithSessionTimeout(timeout))
}

func dialReadOnly(t *testing.T, e *zktest.Ensemble, opts ...Option) *Client {
	c, err := New(e.ConnectString(), append(opts, WithDialer(e.Dial), WithReadOnly())...)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		time.Sleep(2 * time.Second)
	})
	return c
}

// A client that may read from a member without a quorum does so, announces the state, refuses to write, and connects to the
// others as soon as they have a quorum.
func TestReadOnlyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		e, c := readOnlyClient(t, 10*time.Second)
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		make1(t, c, "/a", "x")

		// Only one member is left: it can be read, and nothing can be held, so that the session lapses.
		e.Member(1).Stop()
		e.Member(2).Stop()
		next(StateChange{Suspended, 1}, StateChange{ReadOnly, 1}, StateChange{Lost, 1}, StateChange{ReadOnly, 2})
		require.NoError(t, c.WaitConnected(ctx))
		data, err := c.GetData().ForPath(ctx, "/a")
		require.NoError(t, err)
		assert.Equal(t, "x", string(data))
		_, err = c.SetData().ForPath(ctx, "/a", nil)
		assert.ErrorIs(t, err, ErrNotReadOnly)
		time.Sleep(10 * time.Minute)
		assert.Equal(t, StateChange{ReadOnly, 2}, c.State(), "for as long as it takes")

		// The others are back, without this member: the client connects to them, although its own member still serves.
		e.Partition(0)
		require.NoError(t, e.Member(1).Start())
		require.NoError(t, e.Member(2).Start())
		began := time.Now()
		require.Eventually(t, func() bool {
			return c.State().State == Reconnected
		}, time.Hour, 100*time.Millisecond)
		assert.Less(t, time.Since(began), 2*time.Minute)
		_, err = c.SetData().ForPath(ctx, "/a", nil)
		require.NoError(t, err)
	})
}

// A member without a quorum that lags does not prove that all data were wiped: the client does not read older data from it
// (found by the simulation).
func TestReadOnlyMemberIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		e, c := readOnlyClient(t, 10*time.Second)
		make1(t, c, "/a", "old")
		e.Member(0).Stop()
		require.NoError(t, c.WaitConnected(ctx))
		time.Sleep(5 * time.Second) // the others elect a leader
		_, err := c.SetData().ForPath(ctx, "/a", []byte("new"))
		require.NoError(t, err)

		e.Member(1).Stop()
		e.Member(2).Stop()
		require.NoError(t, e.Member(0).Start())
		for range 100 { // ten minutes
			limited, cancel := context.WithTimeout(ctx, 6*time.Second)
			data, err := c.GetData().ForPath(limited, "/a")
			cancel()
			require.Error(t, err, "%s", data)
		}
		require.NoError(t, e.Member(1).Start())
		require.NoError(t, e.Member(2).Start())
		require.NoError(t, c.WaitConnected(ctx))
		data, err := c.GetData().ForPath(ctx, "/a")
		require.NoError(t, err)
		require.Equal(t, "new", string(data))
	})
}

// A session without a quorum has held nothing: after its loss the next one is opened without the grace.
func TestASessionWithoutAQuorumHasNoGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{ReadOnlyMode: true, LocalSessions: true})
		require.NoError(t, e.AwaitSettled(t.Context()))
		e.Member(1).Stop()
		e.Member(2).Stop()
		time.Sleep(time.Minute)
		c := dialReadOnly(t, e, WithFenceGrace(time.Minute))
		next := changesOf(t, c)
		next(StateChange{ReadOnly, 1})
		e.Member(0).Stop()
		require.NoError(t, e.Member(0).Start()) // it does not have the session any more
		began := time.Now()
		next(StateChange{Suspended, 1}, StateChange{Lost, 1}, StateChange{ReadOnly, 2})
		assert.Less(t, time.Since(began), 30*time.Second)
	})
}

// A session is lost, and then the next one, at a member without a quorum, which could not close the first. The first is closed
// before the session after them is announced.
func TestASessionBeforeOneWithoutAQuorumIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := readOnlyClient(t, 40*time.Second)
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		_, err := c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/here", nil)
		require.NoError(t, err)
		e.Member(1).Stop()
		e.Member(2).Stop()
		next(StateChange{Suspended, 1}, StateChange{ReadOnly, 1}, StateChange{Lost, 1}, StateChange{ReadOnly, 2})
		require.NoError(t, e.Heal())
		next(StateChange{Suspended, 2}, StateChange{Lost, 2}, StateChange{Reconnected, 3})
		here, err := c.CheckExists().ForPath(t.Context(), "/here")
		require.NoError(t, err)
		assert.Nil(t, here, "the first session lives on")
	})
}

// WaitQuorum ends with a member that has a quorum, with the session, with the client, or with its context.
func TestWaitQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := readOnlyClient(t, 30*time.Second)
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.WaitQuorum(t.Context()))
		var none context.Context
		require.ErrorIs(t, s.WaitQuorum(none), ErrNilContext)

		readOnly := func() {
			e.Member(1).Stop()
			e.Member(2).Stop()
			for c.State().State != ReadOnly {
				time.Sleep(10 * time.Millisecond)
			}
		}
		readOnly()
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = s.WaitQuorum(limited)
		require.ErrorIs(t, err, ErrNotConnected)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.AfterFunc(2*time.Second, func() { _ = e.Heal() })
		require.NoError(t, s.WaitQuorum(t.Context()))
		require.Equal(t, Reconnected, c.State().State)

		readOnly()
		began := time.Now()
		require.ErrorIs(t, s.WaitQuorum(t.Context()), ErrSessionLost)
		require.LessOrEqual(t, time.Since(began), 30*time.Second)
		require.NoError(t, e.Heal())
		s, err = c.Session(t.Context())
		require.NoError(t, err)
		readOnly()
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		require.ErrorIs(t, s.WaitQuorum(t.Context()), ErrClosed)
		time.Sleep(time.Minute) // the client has closed
	})
}

// A member without a quorum cannot close a session, and is not asked to: a real one would delete its nodes
// from its own copy alone.
func TestCloseAtAReadOnlyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := readOnlyClient(t, 10*time.Second)
		_, err := c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/here", nil)
		require.NoError(t, err)
		e.Member(1).Stop()
		e.Member(2).Stop()
		for c.State().State != ReadOnly {
			time.Sleep(10 * time.Millisecond)
		}
		require.ErrorIs(t, c.Close(), ErrUnacknowledged)
		require.True(t, e.Member(0).Exists("/here"))
		for _, line := range e.Trace() {
			require.NotContains(t, line, "closeSession")
		}
		require.NoError(t, e.Heal())
		time.Sleep(30 * time.Second)
		require.False(t, e.Member(0).Exists("/here"), "it has expired")
	})
}

// A session that only a member without a quorum has owns no nodes: there is nothing to confirm, and the next member may not
// have the session.
func TestSessionOfAReadOnlyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 5, zktest.Config{ReadOnlyMode: true, LocalSessions: true})
		require.NoError(t, e.AwaitSettled(t.Context()))
		for _, i := range []int{2, 3, 4} {
			e.Member(i).Stop()
		}
		c, err := New(e.Member(0).Addr()+","+e.Member(1).Addr(), WithDialer(e.Dial),
			WithSessionTimeout(10*time.Second), WithReadOnly())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		next := changesOf(t, c)
		next(StateChange{ReadOnly, 1})
		_, err = c.GetChildren().ForPath(t.Context(), "/")
		require.NoError(t, err)
		e.Member(0).Stop()
		e.Member(1).Stop()
		require.NoError(t, e.Member(1).Start()) // after its restart it has none of the sessions that it opened
		next(StateChange{Suspended, 1}, StateChange{Lost, 1}, StateChange{ReadOnly, 2})
		_, err = c.GetChildren().ForPath(t.Context(), "/")
		require.NoError(t, err)
		require.NoError(t, c.Close())
	})
}

// The only member has no quorum, and may not open sessions for readers either: the client reports why it is not connected,
// and connects when there is a quorum.
func TestAReadOnlyMemberThatMayOpenNoSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3, zktest.Config{ReadOnlyMode: true})
		require.NoError(t, e.AwaitSettled(t.Context()))
		e.Member(1).Stop()
		e.Member(2).Stop()
		time.Sleep(10 * time.Second)
		c, err := New(e.Member(0).Addr(), WithDialer(e.Dial), WithReadOnly())
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err = c.WaitConnected(ctx)
		require.ErrorIs(t, err, ErrNotConnected)
		require.ErrorIs(t, err, ErrNotReadOnly)
		assert.ErrorContains(t, err, "localSessionsEnabled")
		_, err = c.UsingRetry(retry.RetryNTimes{}).GetData().ForPath(t.Context(), "/")
		require.ErrorIs(t, err, ErrNotConnected)
		require.ErrorIs(t, err, ErrNotReadOnly)
		require.ErrorIs(t, c.Health().Err(), ErrNotReadOnly)

		require.NoError(t, e.Member(1).Start())
		require.NoError(t, c.WaitConnected(t.Context()))
		assert.Equal(t, Connected, c.State().State)
	})
}
