package curatorotel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	curatorotel "github.com/go-curator/curator/contrib/otel"
	"github.com/go-curator/curator/framework"
)

// A name that is not UTF-8 would make an exporter drop the whole batch; a name with control characters could harm the
// terminal of its reader.
func TestNamesThatOthersHaveChosen(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	observed, err := curatorotel.New(curatorotel.WithTracerProvider(provider))
	require.NoError(t, err)
	hooks, evil := observed.Hooks(), "\xff\x1b[2J\u202e"+strings.Repeat("x", 1<<20)
	hooks.Wait(context.Background(), framework.Queue{Recipe: "mutex", Path: "/locks", Node: evil,
		Predecessor: evil})(errors.New(evil))
	hooks.Operation(context.Background(), framework.Operation{Name: "delete", Path: "/" +
		evil})(framework.OperationEnd{})
	_, held := hooks.Hold(context.Background(), framework.HoldInfo{Recipe: "mutex", Path: "/" + evil})
	held(nil)
	_, acquired := hooks.Acquire(context.Background(), framework.Acquisition{Recipe: evil, Path: "/" + evil})
	acquired(nil)
	require.Len(t, spans.Ended(), 4)
	for _, span := range spans.Ended() {
		texts := []string{span.Name(), span.Status().Description}
		for _, a := range span.Attributes() {
			if a.Value.Type() == attribute.STRING {
				texts = append(texts, a.Value.AsString())
			}
		}
		for _, s := range texts {
			require.True(t, utf8.ValidString(s))
			require.NotContains(t, s, "\x1b")
			require.NotContains(t, s, "\u202e")
			require.Less(t, len(s), 8<<10)
		}
	}
}

// The same holds for the names of clients and recipes in metrics.
func TestNamesInMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	observed, err := curatorotel.New(curatorotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	_, acquired := observed.Hooks().Acquire(t.Context(), framework.Acquisition{Recipe: "\xff", Path: "/"})
	acquired(nil)
	stop, err := observed.Watch("\xff", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	names := 0
	check := func(by attribute.Set) {
		for _, a := range by.ToSlice() {
			require.True(t, utf8.ValidString(a.Value.AsString()), "%s", a.Key)
			if a.Value.AsString() == `\xff` {
				names++
			}
		}
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				check(data.DataPoints[0].Attributes)
			case metricdata.Histogram[float64]:
				check(data.DataPoints[0].Attributes)
			}
		}
	}
	require.Equal(t, 9, names, "eight gauges, and what it took to acquire")
}
