package framework

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// counted is a context that counts how often it is asked for its end.
type counted struct {
	context.Context
	times *atomic.Int32
}

func (a counted) Done() <-chan struct{} {
	a.times.Add(1)
	return a.Context.Done()
}

func (a counted) Err() error {
	a.times.Add(1)
	return a.Context.Err()
}

func (a counted) Deadline() (time.Time, bool) {
	a.times.Add(1)
	return a.Context.Deadline()
}

// A hold has only the values of the context that a hook returns, and calls none of its other methods: Valid and its like
// may end a hold by the clock, and the caller may have locked a mutex then.
func TestAHoldTakesOnlyTheValuesOfAHooksContext(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		var times atomic.Int32
		c := dial(t, srv, WithHooks(Hooks{
			Hold: func(ctx context.Context, _ HoldInfo) (context.Context, func(error)) {
				ctx, cancel := context.WithTimeout(context.WithValue(ctx, key{}, "hook"), time.Second)
				return counted{ctx, &times}, func(error) { cancel() }
			},
		}))
		h := hold(t, connected(t, c), "/a", HoldOptions{Values: context.WithValue(t.Context(), key{}, "caller")})
		time.Sleep(2 * time.Second)
		require.True(t, h.Valid())
		require.NoError(t, h.Context().Err(), "it goes on when the hook's context has ended")
		_, deadline := h.Context().Deadline()
		assert.False(t, deadline)
		assert.Equal(t, "hook", h.Context().Value(key{}))
		h.End(nil)
		assert.ErrorIs(t, context.Cause(h.Context()), ErrReleased)
		assert.Zero(t, times.Load())
	})
}
