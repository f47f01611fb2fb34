package framework

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Time may pass between the writes that make a hold certain and the grant. The clock is checked last, so that no hold
// begins that is not certain any more.
func TestHoldLooksAtTheClockLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := heartbeatServer(t)
		s := connected(t, c)
		hold(t, s, "/quick", HoldOptions{Loss: SessionOnly}).End(nil)
		var stat Stat
		_, err := c.Create().WithMode(Ephemeral).StoringStatIn(&stat).ForPath(t.Context(), "/slow", nil)
		require.NoError(t, err)

		_, err = s.epoch.awaitCertainty(t.Context(), "/slow", SessionOnly)
		require.NoError(t, err)
		time.Sleep(10 * time.Second) // no write in that time, but pings: the session lives
		assert.Equal(t, errUncertain, s.epoch.registerHold(newHold(s.epoch, "/slow", HoldOptions{Loss: SessionOnly})))
		assert.NoError(t, s.Context().Err())
		assert.Zero(t, c.Safety().Holds)
		hold(t, s, "/again", HoldOptions{Loss: SessionOnly})
	})
}

// A hold that is not certain any more is made certain again until the caller gives up.
func TestAHoldIsMadeCertainAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tried := 0
	err := repeatWhileUncertain(ctx, func() error {
		if tried++; tried == 100 {
			return nil
		}
		return errUncertain
	})
	assert.NoError(t, err)
	assert.Equal(t, 100, tried)
	assert.Equal(t, ErrNodeDeleted, repeatWhileUncertain(ctx, func() error { return ErrNodeDeleted }))
	err = repeatWhileUncertain(ctx, func() error { cancel(); return errUncertain })
	assert.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, ErrTimeoutTooShort)
}

// A heartbeat that fails for one node counts for no other node either: the others are checked again immediately, even if
// some of them are gone, too.
func TestHeartbeatChecksTheOthersAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := heartbeatServer(t)
		s := connected(t, c)
		opt := HoldOptions{Loss: SessionOnly, OwnWatchAfter: time.Hour}
		first, second, third := hold(t, s, "/1", opt), hold(t, s, "/2", opt), hold(t, s, "/3", opt)
		time.Sleep(5 * time.Second)
		require.NoError(t, srv.Delete("/1"))
		require.NoError(t, srv.Delete("/3"))
		srv.ResetCounts()
		select {
		case <-first.Context().Done():
		case <-third.Context().Done():
		}
		synctest.Wait()
		assert.Equal(t, 3, srv.Counts()["multi"], "two that failed, and the one that did not")
		over(t, first, ErrNodeDeleted)
		over(t, third, ErrNodeDeleted)
		zxid := srv.Zxid()
		require.True(t, second.Valid())
		left := second.Remaining()
		time.Sleep(4 * time.Second / heartbeatsPerTimeout / 2)
		assert.Equal(t, zxid, srv.Zxid(), "half a beat later nothing has been written")
		assert.Equal(t, left-4*time.Second/heartbeatsPerTimeout/2, second.Remaining(), "so it lives from that one")
	})
}
