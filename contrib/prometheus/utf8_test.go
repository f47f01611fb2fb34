package curatorprom_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curatorprom "github.com/go-curator/curator/contrib/prometheus"
	"github.com/go-curator/curator/framework"
)

// Prometheus panics at a label value that is not valid UTF-8. Names and labels come from the user.
func TestLabelsThatAreNoUTF8(t *testing.T) {
	const bad = "a\xff"
	c := curatorprom.NewCollector(curatorprom.WithPaths(func(path string) string { return path }))
	hooks, ctx := c.Hooks(bad), t.Context()
	defer c.Watch(bad, nil)()
	hooks.Operation(ctx, framework.Operation{Name: bad})(framework.OperationEnd{Attempts: 2})
	hooks.State(framework.StateReport{StateChange: framework.StateChange{State: framework.Lost}, Reason: bad})
	hooks.RoundTrip(framework.RoundTrip{Kind: bad})
	inner, acquired := hooks.Acquire(ctx, framework.Acquisition{Recipe: bad, Path: "/" + bad})
	line := framework.Queue{Recipe: bad, Path: "/" + bad, Node: bad}
	hooks.Queue(line)
	waited := hooks.Wait(inner, line)
	_, held := hooks.Hold(inner, framework.HoldInfo{Recipe: bad, Path: "/" + bad + "/" + bad})
	_, loose := hooks.Hold(context.Background(), framework.HoldInfo{Recipe: bad, Path: "/" + bad + "/" + bad})
	text := exposed(t, c)
	assert.Contains(t, text, `curator_queue_ahead{client="a\\xff",path="/a\\xff",recipe="a\\xff"} 0`)
	assert.Contains(t, text, `curator_longest_wait_seconds{client="a\\xff",path="/a\\xff",recipe="a\\xff"}`)
	assert.Contains(t, text, `curator_connected{client="a\\xff"} 0`)
	waited(nil)
	acquired(nil)
	held(framework.ErrSessionLost)
	loose(nil)
	require.Zero(t, byPath(t, c))
}
