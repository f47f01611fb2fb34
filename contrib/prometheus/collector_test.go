package curatorprom_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	curatorprom "github.com/go-curator/curator/contrib/prometheus"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/locks/orders"

// client creates a client in the bubble that the collector watches.
func client(t *testing.T, s *zktest.Server, c *curatorprom.Collector, name string) *framework.Client {
	t.Helper()
	client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial),
		framework.WithSessionTimeout(10*time.Second), framework.WithHooks(c.Hooks(name)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	t.Cleanup(c.Watch(name, client))
	require.NoError(t, client.WaitConnected(t.Context()))
	return client
}

// The documentation shows a scrape of two services at one lock: the lines of the service that waits for the other. The
// times are those of the virtual clock.
func TestScrapeOfAContendedLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := curatorprom.NewCollector(curatorprom.WithPaths(func(path string) string { return path }))
		billing := mutex.New(client(t, s, c, "billing"), path)
		shipping := mutex.New(client(t, s, c, "shipping"), path)
		ctx := t.Context()

		// One after the other.
		lock, err := shipping.Acquire(ctx)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, lock.Release(ctx))

		// And at the same time.
		lock, err = billing.Acquire(ctx)
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			lock, err := shipping.Acquire(ctx)
			if err == nil {
				err = lock.Release(ctx)
			}
			done <- err
		}()
		time.Sleep(1500 * time.Millisecond)
		var waits strings.Builder
		for line := range strings.Lines(scrape(t, c)) {
			if strings.Contains(line, `client="shipping"`) {
				waits.WriteString(line)
			}
		}
		assert.Equal(t, block(t, "../../docs/observability.md", "```text scrape"), waits.String())

		require.NoError(t, lock.Release(ctx))
		require.NoError(t, <-done)
		assert.Contains(t, scrape(t, c), `curator_queue_waiting{client="shipping",recipe="mutex"} 0`)
	})
}

// scrape returns the text that Prometheus would read, without the buckets, the metrics of operations, and counts and
// sums that are still zero.
func scrape(t *testing.T, c *curatorprom.Collector) string {
	t.Helper()
	text := exposed(t, c, names...)
	never := map[string]bool{} // the sums and counts that are zero
	for line := range strings.Lines(text) {
		if count, none := strings.CutSuffix(line, " 0\n"); none && strings.Contains(line, "_count{") {
			never[count], never[strings.Replace(count, "_count{", "_sum{", 1)] = true, true
		}
	}
	var kept strings.Builder
	for line := range strings.Lines(text) {
		series, none := strings.CutSuffix(line, " 0\n")
		none = none && (never[series] || strings.Contains(line, "_total{"))
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") && !none {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// exposed returns the text that Prometheus would read, or the part of it with these names.
func exposed(t *testing.T, c *curatorprom.Collector, names ...string) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, f := range families {
		if len(names) == 0 || slices.Contains(names, f.GetName()) {
			_, err := expfmt.MetricFamilyToText(&text, f)
			require.NoError(t, err)
		}
	}
	return text.String()
}

var names = []string{
	"curator_acquire_duration_seconds", "curator_cleanups_pending", "curator_connected",
	"curator_foreign_children", "curator_hold_duration_seconds",
	"curator_holds", "curator_holds_lost_total", "curator_longest_wait_seconds", "curator_oldest_hold_seconds", "curator_queue_ahead", "curator_queue_length", "curator_queue_waiting",
	"curator_safety_rule", "curator_sequence_left",
	"curator_session_timeout_seconds", "curator_stale_server_bound_seconds", "curator_state_changes_total",
	"curator_validity_remaining_seconds",
}

// block returns a document's text from a line to the end of the code block that the line begins.
func block(t *testing.T, file, from string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), from+"\n")
	require.True(t, found, "%s has no block %q", file, from)
	inside, _, _ := strings.Cut(rest, "```")
	return inside
}

func TestWhatWentWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := zktest.RunT(t), curatorprom.NewCollector()
		cl := client(t, s, c, "a")
		ctx := t.Context()
		require.NoError(t, s.Create("/a", nil))

		s.Inject(zktest.Fault{Op: "getData", PathPrefix: "/a", Action: zktest.LoseReply, Times: 1})
		_, err := cl.GetData().ForPath(ctx, "/a")
		require.NoError(t, err)
		_, err = cl.GetData().ForPath(ctx, "/none")
		require.ErrorIs(t, err, framework.ErrNoNode)
		lock, err := mutex.New(cl, path).Acquire(ctx)
		require.NoError(t, err)
		session, err := cl.Session(ctx)
		require.NoError(t, err)
		s.Expire(session.ID())
		<-lock.Context().Done()
		time.Sleep(time.Minute)

		text := exposed(t, c)
		for _, want := range []string{
			`curator_operation_retries_total{client="a",op="getData"} 1`,
			`curator_operation_duration_seconds_count{client="a",op="getData",result="ok"} 1`,
			`curator_operation_duration_seconds_count{client="a",op="getData",result="no_node"} 1`,
			`curator_hold_duration_seconds_count{cause="session_lost",client="a",recipe="mutex"} 1`,
			`curator_state_changes_total{client="a",reason="expired",state="Lost"} 1`,
			`curator_session_epoch{client="a"} 2`,
			`curator_round_trip_seconds_count{client="a",kind="ping"}`,
		} {
			assert.Contains(t, text, want)
		}
		assert.NotContains(t, text, "path=", "paths may be many: only who asks for them gets them")

		s.Stop()
		time.Sleep(time.Second)
		assert.Contains(t, exposed(t, c), `curator_connected{client="a"} 0`)
		require.NoError(t, s.Start())
	})
}

// PromQL's increase counts from a counter's first sample. A counter that appears with its first loss hides that loss.
func TestTheFirstLossOfAProcessCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := zktest.RunT(t), curatorprom.NewCollector()
		cl := client(t, s, c, "a")
		counters := func() map[string]string {
			of := map[string]string{}
			for line := range strings.Lines(exposed(t, c, "curator_holds_lost_total", "curator_state_changes_total")) {
				if series, value, is := strings.Cut(strings.TrimSpace(line), "} "); is && line[0] != '#' {
					of[series+"}"] = value
				}
			}
			return of
		}
		hold := func() *mutex.Lock {
			lock, err := mutex.New(cl, path).Acquire(t.Context())
			require.NoError(t, err)
			return lock
		}
		lock := hold()
		before := counters()
		require.NoError(t, s.Delete(lock.Path()))
		<-lock.Context().Done()
		lock = hold()
		s.Cut(0)
		time.Sleep(time.Second)
		session, err := cl.Session(t.Context())
		require.NoError(t, err)
		s.Expire(session.ID())
		<-lock.Context().Done()
		time.Sleep(time.Minute)
		require.NoError(t, hold().Release(t.Context()))
		hold()
		require.NoError(t, cl.Close())
		synctest.Wait()

		after := counters()
		for series, value := range after {
			if value != before[series] {
				assert.Equal(t, "0", before[series], "%s is %s now", series, value)
			}
		}
		for _, series := range []string{
			`curator_holds_lost_total{cause="node_deleted",client="a",recipe="mutex"}`,
			`curator_holds_lost_total{cause="session_lost",client="a",recipe="mutex"}`,
			`curator_state_changes_total{client="a",reason="expired",state="Lost"}`,
		} {
			assert.Equal(t, "1", after[series], series)
		}
		for series := range after {
			assert.NotRegexp(t, `lost_total{cause="(released|closed)`, series, "that is no loss")
		}
	})
}

// Other counters begin with zero too, as far as their labels are known: retries when the hooks are made, and results of
// acquisitions with the first acquisition of the recipe.
func TestWhatIsCountedBeginsWithZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := zktest.RunT(t), curatorprom.NewCollector()
		before := exposed(t, c)
		_ = c.Hooks("b")
		for _, zero := range []string{
			`curator_operation_retries_total{client="b",op="getData"} 0`,
			`curator_round_trip_seconds_count{client="b",kind="ping"} 0`,
			`curator_round_trip_seconds_count{client="b",kind="heartbeat"} 0`,
		} {
			assert.NotContains(t, before, zero)
			assert.Contains(t, exposed(t, c), zero)
		}

		cl := client(t, s, c, "a")
		s.Pause()
		acquiring(t, mutex.New(cl, path), time.Hour, time.Second)
		during := exposed(t, c)
		for _, result := range []string{"ok", "deadline", "canceled", "not_acquired"} {
			assert.Contains(t, during,
				fmt.Sprintf(`curator_acquire_duration_seconds_count{client="a",recipe="mutex",result=%q} 0`, result))
		}
		assert.Contains(t, during, `curator_queue_wait_seconds_count{client="a",recipe="mutex"} 0`)
		s.Resume()
		time.Sleep(time.Minute)
		assert.Contains(t, exposed(t, c), `curator_acquire_duration_seconds_count{client="a",recipe="mutex",result="ok"} 1`)
	})
}

func TestResultsHaveFewWords(t *testing.T) {
	assert.Equal(t, "ok", curatorprom.Result(nil))
	assert.Equal(t, "released", curatorprom.Result(framework.ErrReleased))
	assert.Equal(t, "canceled", curatorprom.Result(context.Canceled))
	assert.Equal(t, "not_acquired", curatorprom.Result(fmt.Errorf("try: %w", mutex.ErrNotAcquired)))
	assert.Equal(t, "error", curatorprom.Result(os.ErrInvalid))
}

func TestWatchingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := zktest.RunT(t), curatorprom.NewCollector()
		cl := client(t, s, c, "a")
		stop := c.Watch("b", cl)
		assert.Equal(t, 2, testutil.CollectAndCount(c, "curator_connected"))
		stop()
		assert.Equal(t, 1, testutil.CollectAndCount(c, "curator_connected"))
	})
}
