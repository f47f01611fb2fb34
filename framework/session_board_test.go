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

func TestSlowSubscriberDelaysNobodyAndMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		var hook []StateChange
		c := dial(t, srv, OnStateChange(func(change StateChange) { hook = append(hook, change) }))
		slow := c.StateChanges(t.Context())
		next := changesOf(t, c)
		next(StateChange{Connected, 1})
		want := []StateChange{{Connected, 1}}
		epoch := int64(1)
		for i := range 100 {
			storm := []StateChange{{Suspended, epoch}, {Reconnected, epoch}}
			if s := connected(t, c); i%10 == 9 {
				storm = []StateChange{{Suspended, epoch}, {Lost, epoch}, {Reconnected, epoch + 1}}
				srv.Expire(s.ID())
				epoch++
			} else {
				srv.Cut(s.ID())
			}
			next(storm...)
			want = append(want, storm...)
		}
		var got []StateChange
		for range want {
			got = append(got, <-slow)
		}
		assert.Equal(t, want, got)
		synctest.Wait()
		assert.Equal(t, want, hook)

		late := c.StateChanges(t.Context())
		assert.Equal(t, want[len(want)-1], <-late, "the current state first")
	})
}

func TestSubscriptionEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		changes := c.StateChanges(ctx)
		srv.Cut(0)
		time.Sleep(time.Second)
		cancel() // with changes that were not received
		synctest.Wait()
		for range changes { //nolint:revive // until it is closed
		}
		c.core.board.mu.Lock()
		defer c.core.board.mu.Unlock()
		require.Empty(t, c.core.board.subscribers)
	})
}

// A hook that blocks, against its contract, delays state changes and nothing else: holds end in time, and Close does not
// wait longer than its limit.
func TestBlockedHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		block := make(chan struct{})
		c := dial(t, srv, OnStateChange(func(change StateChange) {
			if change.State == Suspended {
				<-block
			}
		}))
		h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
		left := h.Remaining()
		srv.BlackHole(0, zktest.Both)
		time.Sleep(left - time.Nanosecond)
		assert.True(t, h.Valid())
		assert.NoError(t, h.Context().Err())
		time.Sleep(time.Nanosecond)
		assert.False(t, h.Valid())
		assert.ErrorIs(t, context.Cause(h.Context()), ErrSessionLost)
		srv.Heal()
		assert.ErrorIs(t, c.Close(), ErrUnacknowledged)
		close(block)
	})
}

func TestWhenStateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		var heard []State
		stop := c.ForRecipes().WhenStateChanges(func() { heard = append(heard, c.State().State) })
		srv.Cut(0)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, heard, 2, "of the loss and of the return, and not of how it was before")
		assert.Equal(t, Reconnected, heard[1])
		stop()
		srv.Cut(0)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, heard, 2)
	})
	new(Client).WhenStateChanges(func() {})()
	(*Client)(nil).WhenStateChanges(nil)()
}
