package framework

import (
	"crypto/tls"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// Health reports whether a client uses TLS before there is a connection.
func TestHealthSaysWhetherConnectionsAreEncrypted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		assert.False(t, dial(t, srv).Health().Encrypted)
		assert.True(t, dial(t, srv, WithTLS(&tls.Config{})).Health().Encrypted)
		assert.False(t, (*Client)(nil).Health().Encrypted)
	})
}

func TestHealthThroughTheLifeOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		srv.Stop()
		c := dial(t, srv)
		time.Sleep(3 * time.Second)
		h := c.Health()
		assert.Equal(t, NeverConnected, h.State)
		assert.Empty(t, h.Server)
		assert.ErrorIs(t, h.Err(), ErrNotConnected)
		assert.ErrorIs(t, h.Err(), h.Trouble, "it says why")
		assert.NoError(t, h.Check(time.Minute))

		require.NoError(t, srv.Start())
		s := connected(t, c)
		time.Sleep(time.Second)
		h = c.Health()
		assert.NoError(t, h.Err())
		assert.NoError(t, h.Trouble)
		assert.Equal(t, srv.Addr(), h.Server)
		assert.Equal(t, uint64(1), h.Connections)
		assert.Positive(t, h.Safety.Remaining)
		assert.Zero(t, h.Queued+h.InFlight+h.Cleanups)
		assert.Contains(t, h.String(), "Connected in epoch 1 at "+srv.Addr()+", rule bound, valid for ")

		srv.Pause()
		c.GetData().InBackground().ForPath(t.Context(), "/")
		assert.Equal(t, 1, c.Health().InFlight)
		srv.Resume()

		srv.Stop()
		time.Sleep(time.Second)
		c.GetData().InBackground().ForPath(t.Context(), "/")
		h = c.Health()
		assert.ErrorIs(t, h.Err(), ErrSuspended)
		assert.Error(t, h.Trouble)
		assert.NoError(t, h.Check(s.Timeout()), "a server that restarts makes no probe fail")
		assert.Equal(t, 1, h.Queued-1, "the question whether the server stands alone, and ours")
		assert.Positive(t, h.Safety.Remaining, "what is held is held")

		time.Sleep(time.Minute)
		h = c.Health()
		assert.ErrorIs(t, h.Err(), ErrSessionLost)
		assert.ErrorIs(t, h.Check(s.Timeout()), ErrSessionLost)
		assert.Zero(t, h.Safety.Remaining)

		require.ErrorIs(t, c.Close(), ErrUnacknowledged)
		assert.ErrorIs(t, c.Health().Err(), ErrClosed)
		assert.ErrorIs(t, c.Health().Check(time.Hour), ErrClosed)
	})
}

func TestHealthAsText(t *testing.T) {
	const held = "Connected in epoch 1, rule bound, valid for 2s, 3 held"
	h := Health{StateChange: StateChange{Connected, 1},
		Safety: Safety{Rule: RuleBound, Remaining: 2 * time.Second, Holds: 3}}
	assert.Equal(t, held, h.String())
	h.InFlight, h.Queued, h.Cleanups, h.Closed = 4, 4, 5, true
	assert.Equal(t, held+", requests 4 in flight and 4 queued, 5 clean-ups pending: "+ErrClosed.Error(), h.String())
}

// The tolerance counts from the loss of the connection, also if the session is lost during that time.
func TestToleranceCountsFromTheLossOfTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		assert.Zero(t, c.Health().Away)
		srv.Stop()
		synctest.Wait()
		lost := time.Now()
		states := map[State]bool{}
		for range 40 {
			time.Sleep(500 * time.Millisecond)
			h := c.Health()
			states[h.State] = true
			assert.Equal(t, lost, h.Away)
			for _, tolerance := range []time.Duration{4 * time.Second, 6 * time.Second, 12 * time.Second} {
				assert.Equal(t, time.Since(lost) <= tolerance, h.Check(tolerance) == nil, "%v after %v in state %v",
					tolerance, time.Since(lost), h.State)
			}
		}
		assert.Equal(t, map[State]bool{Suspended: true, Lost: true}, states)
		assert.ErrorContains(t, c.Health().Err(), "for 20s")
		require.NoError(t, srv.Start())
		require.NoError(t, c.WaitConnected(t.Context()))
		assert.Zero(t, c.Health().Away)
	})
}
