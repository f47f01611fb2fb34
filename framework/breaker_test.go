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

// The machine, step by step: what it hears, or that its wait is over, what it tells and how long it waits.
func TestBreaker(t *testing.T) {
	connected, suspended, again := StateChange{Connected, 1}, StateChange{Suspended, 1}, StateChange{Reconnected, 1}
	lost, renewed, suspended2, lost2 := StateChange{Lost, 1}, StateChange{Reconnected, 2}, StateChange{Suspended, 2}, StateChange{Lost, 2}
	due := StateChange{}
	type step struct {
		hear StateChange
		tell StateChange
		wait time.Duration
	}
	nothing := StateChange{}
	for name, steps := range map[string][]step{
		"a blip": {{connected, connected, noWait}, {suspended, suspended, time.Second}, {again, nothing, noWait}, {due, again, noWait},
			{suspended, suspended, time.Second}},
		"flaps":                 {{suspended, suspended, time.Second}, {again, nothing, noWait}, {suspended, nothing, noWait}, {due, nothing, time.Second}, {again, nothing, noWait}, {due, again, noWait}},
		"nothing since":         {{suspended, suspended, time.Second}, {due, nothing, noWait}, {again, again, noWait}},
		"flaps to where it was": {{suspended, suspended, time.Second}, {again, nothing, noWait}, {suspended, nothing, noWait}, {due, nothing, time.Second}, {due, nothing, noWait}, {again, again, noWait}},
		"only the first loss": {{suspended, suspended, time.Second}, {lost, lost, noWait}, {renewed, nothing, noWait}, {suspended2, nothing, noWait}, {lost2, nothing, noWait},
			{due, nothing, time.Second}, {due, lost2, noWait}},
		"a new session shows": {{suspended, suspended, time.Second}, {lost, lost, noWait}, {renewed, nothing, noWait}, {due, renewed, noWait}},
		"opened by a loss":    {{lost, lost, time.Second}, {renewed, nothing, noWait}, {lost2, nothing, noWait}, {due, nothing, time.Second}},
	} {
		b := &breaker{policy: retry.RetryNTimes{Retries: 2, Sleep: time.Second}}
		for i, s := range steps {
			before := b.told
			var tell bool
			var wait time.Duration
			if s.hear == due {
				tell, wait = b.due()
			} else {
				tell, wait = b.hears(s.hear)
			}
			assert.Equal(t, s.tell != nothing, tell, "%s, step %d", name, i)
			assert.Equal(t, s.wait, wait, "%s, step %d", name, i)
			if tell {
				assert.Equal(t, s.tell, b.told, "%s, step %d", name, i)
			} else {
				assert.Equal(t, before, b.told, "%s, step %d", name, i)
			}
		}
	}
	never := &breaker{policy: retry.RetryNTimes{}}
	for range 3 {
		tell, wait := never.hears(suspended)
		assert.True(t, tell && wait == noWait, "a policy without a wait never opens it")
	}
}

func TestStateChangesBehindBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		changes := c.StateChangesBehindBreaker(ctx, retry.RetryForever{Sleep: 30 * time.Second})
		all := c.StateChangesBehindBreaker(t.Context(), nil)
		require.Equal(t, StateChange{Connected, 1}, <-changes)
		for range 5 { // nobody receives meanwhile
			srv.Cut(0)
			time.Sleep(3 * time.Second)
		}
		require.Equal(t, StateChange{Suspended, 1}, <-changes)
		began := time.Now()
		require.Equal(t, StateChange{Reconnected, 1}, <-changes)
		assert.Equal(t, 15*time.Second, time.Since(began), "when the wait is over")
		for _, s := range srv.Sessions() {
			srv.Expire(s.ID)
		}
		require.Equal(t, StateChange{Suspended, 1}, <-changes)
		require.Equal(t, StateChange{Lost, 1}, <-changes, "at once")
		require.Equal(t, StateChange{Reconnected, 2}, <-changes)
		cancel()
		for range changes { //nolint:revive // until it is closed
		}
		for range 1 + 5*2 + 3 {
			<-all
		}
		require.NoError(t, c.Close())
		_, open := <-c.StateChangesBehindBreaker(t.Context(), retry.RetryForever{})
		assert.False(t, open)
	})
}
