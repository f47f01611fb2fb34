package leader_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

type spanKey struct{}

// A term's context is derived from the context that the hooks return for its hold, and contains the term as before.
func TestHooksSeeTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		tell := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf(format, args...))
		}
		hooks := framework.Hooks{
			Acquire: func(ctx context.Context, a framework.Acquisition) (context.Context, func(error)) {
				tell("acquire %s", a.Recipe)
				return context.WithValue(ctx, spanKey{}, a.Recipe),
					func(err error) { tell("acquired %s: %v", a.Recipe, err) }
			},
			Hold: func(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
				tell("hold inside %v", ctx.Value(spanKey{}))
				return context.WithValue(ctx, spanKey{}, "term"),
					func(cause error) { tell("held %s: %v", h.Recipe, cause) }
			},
		}
		c := newClient(t, zktest.RunT(t), framework.WithHooks(hooks))
		latch, err := leader.NewLatch(c, path)
		require.NoError(t, err)
		term, err := latch.Await(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "term", term.Context().Value(spanKey{}))
		assert.Same(t, term, leader.TermOf(term.Context()))
		require.NoError(t, latch.Leave(t.Context(), leader.Silent))

		selector := leader.NewSelector(c, path, func(ctx context.Context) error {
			assert.Equal(t, "term", ctx.Value(spanKey{}))
			assert.NotNil(t, leader.TermOf(ctx))
			return nil
		})
		require.NoError(t, selector.RunOnce(t.Context()))
		assert.Equal(t, []string{
			"acquire latch", "hold inside latch", "acquired latch: <nil>", "held latch: released",
			"acquire selector", "hold inside selector", "acquired selector: <nil>", "held selector: released",
		}, told)
	})
}
