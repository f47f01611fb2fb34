package zktest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func connectFrom(t *testing.T, e *Ensemble, h *Host) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(
		e.Addrs(),
		4*time.Second,
		zk.WithDialer(h.Dialer()),
		zk.WithLogInfo(false),
		zk.WithLogger(quiet{}),
	)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.Eventually(
		t,
		func() bool { return c.State() == zk.StateHasSession },
		time.Minute,
		10*time.Millisecond,
	)
	return c
}

// A fault of one machine's network does not affect other machines.
func TestAHostsNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := RunEnsembleT(t, 3)
		one, two := e.NewHost("one"), e.NewHost("two")
		a, b := connectFrom(t, e, one), connectFrom(t, e, two)
		assert.Equal(t, []int64{a.SessionID()}, one.Sessions())
		assert.Equal(t, "two", two.Name())

		one.Delay(time.Second)
		start := time.Now()
		_, _, err := a.Exists("/")
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start))
		_, _, err = b.Exists("/")
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start))
		one.Delay(0)

		// Blocked for less than the session timeout: the requests sent arrive after it.
		one.Block(FromClient)
		done := make(chan error, 1)
		go func() {
			_, err := a.Create("/late", nil, 0, zk.WorldACL(zk.PermAll))
			done <- err
		}()
		time.Sleep(time.Second)
		assert.False(t, e.Member(0).Exists("/late"))
		one.Heal()
		require.NoError(t, <-done)

		// Blocked for longer: the session is lost, the other's is not.
		lost, kept := a.SessionID(), b.SessionID()
		one.Block(Both)
		time.Sleep(time.Minute)
		assert.Empty(t, one.Sessions())
		one.Heal()
		back := func() bool { return len(one.Sessions()) == 1 }
		require.Eventually(t, back, time.Minute, 10*time.Millisecond)
		assert.NotEqual(t, lost, one.Sessions()[0])
		assert.Equal(t, kept, b.SessionID())
	})
}

// A host that is down is refused by all members until it is up; a host that is cut connects again.
func TestAHostIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := RunEnsembleT(t, 3)
		h := e.NewHost("h")
		c := connectFrom(t, e, h)
		h.Cut()
		require.Eventually(t, func() bool { return len(h.Sessions()) == 1 }, time.Minute, 10*time.Millisecond)
		h.SetDown(true)
		h.Cut()
		time.Sleep(time.Second)
		assert.Empty(t, h.Sessions())
		_, err := h.Dial(t.Context(), "tcp", e.Addrs()[0])
		assert.ErrorContains(t, err, "refused")
		_, err = h.Dial(t.Context(), "tcp", "10.9.9.9:1")
		assert.ErrorContains(t, err, "no member of the ensemble")
		h.SetDown(false)
		require.Eventually(
			t,
			func() bool { return c.State() == zk.StateHasSession },
			time.Minute,
			10*time.Millisecond,
		)
	})
}

// One member is not reachable: the client finds another.
func TestAHostThatIsBlockedFromOneMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := RunEnsembleT(t, 3)
		h := e.NewHost("h")
		c := connectFrom(t, e, h)
		id := c.SessionID()
		for i, m := range e.Members() {
			m.mu.Lock()
			mine := len(m.conns) == 1
			m.mu.Unlock()
			if mine {
				h.Block(Both, i)
			}
		}
		time.Sleep(time.Minute)
		_, _, err := c.Exists("/")
		require.NoError(t, err)
		assert.Equal(t, id, c.SessionID())
		require.NoError(t, e.Heal())
	})
}

// The host's events are the members' records of this host, and of no other.
func TestAHostsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := RunEnsembleT(t, 3)
		h, other := e.NewHost("h"), e.NewHost("other")
		c := connectFrom(t, e, h)
		id := c.SessionID()
		_, err := connectFrom(t, e, other).Create("/other", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = c.Create("/mine-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = c.Create("/other", nil, 0, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		h.SetDown(true)
		h.Cut()
		time.Sleep(time.Minute)
		h.SetDown(false)
		var seen []string
		for _, ev := range h.Events() {
			if ev.Session != id || ev.Op == OpPing {
				continue
			}
			switch {
			case ev.Note != "":
				seen = append(seen, ev.Note)
			case ev.Err != nil:
				seen = append(seen, ev.Op+" "+ev.Path+": "+ev.Err.Error())
			default:
				seen = append(seen, ev.Op+" "+ev.Path)
			}
		}
		assert.Equal(
			t,
			[]string{
				"connect ",
				"create /mine-0000000001",
				"create /other: zktest: node exists (-110)",
				"session expires",
			},
			slices.DeleteFunc(seen, func(s string) bool { return s == "setWatches " }),
		)
	})
}
