package curatorotel_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	curatorotel "github.com/go-curator/curator/contrib/otel"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reader := zktest.RunT(t), sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		observed, err := curatorotel.New(curatorotel.WithMeterProvider(provider))
		require.NoError(t, err)
		client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial),
			framework.WithSessionTimeout(10*time.Second), framework.WithHooks(observed.Hooks()))
		require.NoError(t, err)
		defer client.Close()
		stop, err := observed.Watch("orders", client)
		require.NoError(t, err)
		require.NoError(t, client.WaitConnected(t.Context()))
		m := mutex.New(client, path)

		released, err := m.Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, released.Release(t.Context()))
		lock, err := m.Acquire(t.Context())
		require.NoError(t, err)
		_, err = m.TryAcquire(t.Context())
		require.ErrorIs(t, err, mutex.ErrNotAcquired)

		got := collect(t, reader)
		assert.Equal(t, 1.0, got["curator.connected"])
		assert.Equal(t, 1.0, got["curator.holds"])
		assert.Greater(t, got["curator.validity.remaining"], 8.0)
		assert.Equal(t, 2.0, got["curator.hold.duration"], "in sum")
		assert.Equal(t, 1.0, got["curator.state.changes"])
		assert.Contains(t, got, "curator.operation.duration")
		assert.Contains(t, got, "curator.round_trip.duration")
		assert.Contains(t, got, "curator.acquire.duration")
		assert.Equal(t, map[string]uint64{"ok": 2, "not_acquired": 1}, results(t, reader))

		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, stop())
		assert.NotContains(t, collect(t, reader), "curator.holds")
	})
}

// PromQL's increase counts from a counter's first sample. A counter that begins with the first change of a process
// hides that change.
func TestStateChangesBeginWithZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reader := zktest.RunT(t), sdkmetric.NewManualReader()
		observed, err := curatorotel.New(curatorotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
		require.NoError(t, err)
		hooks := observed.Hooks()
		before := changes(t, reader)
		client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial),
			framework.WithSessionTimeout(10*time.Second), framework.WithHooks(hooks))
		require.NoError(t, err)
		defer client.Close()
		session, err := client.Session(t.Context())
		require.NoError(t, err)
		s.Cut(0)
		time.Sleep(time.Second)
		s.Expire(session.ID())
		time.Sleep(time.Minute)
		s.Stop()
		time.Sleep(time.Minute)
		_ = client.Close()
		synctest.Wait()

		after := changes(t, reader)
		for change, times := range after {
			was, known := before[change]
			assert.True(t, known && was == 0, "%s, %d times, begins with %d, if at all", change, times, was)
		}
		assert.Equal(t, int64(1), after["Lost expired"])
		assert.Equal(t, int64(1), after["Lost lapsed"])
		assert.Equal(t, int64(1), after["Connected "])
	})
}

// The reasons are the documented ones.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	_, row, found := strings.Cut(string(text), "| `state_changes_total` |")
	require.True(t, found)
	row, _, _ = strings.Cut(row, "\n")
	documented := map[string]bool{"": true}
	for _, word := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row, -1) {
		documented[word[1]] = true
	}
	reader := sdkmetric.NewManualReader()
	observed, err := curatorotel.New(curatorotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	observed.Hooks()
	known := map[string]bool{}
	for change := range changes(t, reader) {
		_, reason, _ := strings.Cut(change, " ")
		known[reason] = true
	}
	assert.Equal(t, documented, known)
}

// changes returns the number of changes to each state, by reason.
func changes(t *testing.T, reader sdkmetric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != "curator.state.changes" {
				continue
			}
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				state, _ := p.Attributes.Value("curator.state")
				reason, _ := p.Attributes.Value("curator.reason")
				got[state.AsString()+" "+reason.AsString()] = p.Value
			}
		}
	}
	return got
}

// collect returns the sum of each metric's points.
func collect(t *testing.T, reader sdkmetric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	got := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					got[m.Name] += p.Value
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					got[m.Name] += float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					got[m.Name] += p.Sum
				}
			}
		}
	}
	return got
}

// results returns the number of acquisitions by result.
func results(t *testing.T, reader sdkmetric.Reader) map[string]uint64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	got := map[string]uint64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != "curator.acquire.duration" {
				continue
			}
			for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
				word, _ := p.Attributes.Value("curator.result")
				got[word.AsString()] += p.Count
			}
		}
	}
	return got
}
