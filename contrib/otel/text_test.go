package curatorotel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	curatorotel "github.com/go-curator/curator/contrib/otel"
	"github.com/go-curator/curator/framework"
)

// A name that is no UTF-8 would cost the exporter's whole batch; one with control characters, whoever reads
// it his terminal.
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
	require.Len(t, spans.Ended(), 3)
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
