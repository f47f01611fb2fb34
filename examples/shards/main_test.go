package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
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
	synctest.Test(t, func(t *testing.T) { require.NoError(t, run(t.Context(), []string{"-shards", "6"}, &out), &out) })
	require.Contains(t, out.String(), "the plan: map[blue:2 green:2 red:2]")
	require.Contains(t, out.String(), "the plan: map[blue:3 green:3]")
}

// Processes start and stop for an hour, and one is cut off: no shard has two workers at a time, and tokens grow.
func TestAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		seen := &watcher{t: t, by: map[string]string{}, token: map[string]int64{}}
		var processes sync.WaitGroup
		for i := range 4 {
			client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial), framework.WithSessionTimeout(10*time.Second))
			require.NoError(t, err)
			processes.Go(func() {
				defer client.Close()
				for life := range 6 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(4+i+life)*time.Minute)
					err := index(ctx, client, fmt.Sprint("p", i), 10, seen)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					cancel()
					time.Sleep(time.Duration(i) * time.Minute)
				}
			})
		}
		go func() {
			for range 5 {
				time.Sleep(7 * time.Minute)
				s.Stop() // long enough that all sessions expire
				time.Sleep(time.Minute)
				assert.NoError(t, s.Start())
			}
		}()
		processes.Wait()
		require.Empty(t, seen.by)
		require.Greater(t, seen.lines, 100)
	})
}

// watcher reads the processes' output, and fails the test if two work on a shard.
type watcher struct {
	t     *testing.T
	mu    sync.Mutex
	by    map[string]string
	token map[string]int64
	lines int
}

func (w *watcher) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines++
	var id, shard string
	var token int64
	if strings.Contains(string(line), "begins") {
		_, err := fmt.Sscanf(strings.ReplaceAll(string(line), ",", ""), "%s begins with %s token %d", &id, &shard, &token)
		assert.NoError(w.t, err)
		assert.Empty(w.t, w.by[shard], shard)
		assert.Greater(w.t, token, w.token[shard])
		w.by[shard], w.token[shard] = id, token
		return len(line), nil
	}
	_, err := fmt.Sscanf(string(line), "%s ends with %s", &id, &shard)
	assert.NoError(w.t, err)
	assert.Equal(w.t, id, w.by[shard], shard)
	delete(w.by, shard)
	return len(line), nil
}

func TestArguments(t *testing.T) {
	require.Error(t, run(t.Context(), []string{"-shards", "many"}, io.Discard))
	require.Error(t, run(t.Context(), []string{"-servers", "a:b:c"}, io.Discard))
}
