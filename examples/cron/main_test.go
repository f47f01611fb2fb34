package main

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDemonstration(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) { require.NoError(t, run(t.Context(), []string{"-every", "50ms"}, &out), &out) })
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.GreaterOrEqual(t, len(lines), 3)
	assert.Equal(t, len(lines), len(slices.Compact(slices.Sorted(slices.Values(lines)))), "none twice:\n%s", &out)
}

// Three processes run for some hours, and again later; each report is made once, also the reports of the hours without
// any process.
func TestHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var out output
		for _, hours := range []time.Duration{2, 5} {
			ctx, stop := context.WithTimeout(t.Context(), hours*time.Hour)
			var processes sync.WaitGroup
			for range 3 {
				client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial))
				require.NoError(t, err)
				processes.Go(func() {
					defer client.Close()
					assert.NoError(t, reports(ctx, client, time.Hour, &out))
				})
			}
			processes.Wait()
			stop()
			time.Sleep(3 * time.Hour)
		}
		lines := slices.Clone(out.lines)
		slices.Sort(lines)
		require.Equal(t, slices.Compact(slices.Clone(lines)), out.lines, "in order, and none twice")
		require.GreaterOrEqual(t, len(lines), 9)
	})
}

type output struct {
	mu    sync.Mutex
	lines []string
}

func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, string(line))
	return len(line), nil
}

func TestArguments(t *testing.T) {
	require.Error(t, run(t.Context(), []string{"-every", "often"}, io.Discard))
	require.Error(t, run(t.Context(), []string{"-servers", "a:b:c"}, io.Discard))
}
