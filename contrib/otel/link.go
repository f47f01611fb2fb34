package curatorotel

import (
	"bytes"
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-curator/curator/framework"
)

// tracePrefix is the beginning of a node's data that name a trace. The rest is the value of the header traceparent (W3C).
var tracePrefix = []byte("traceparent=")

// nodeData returns the data for the node of an acquisition; nil if there is no trace. In an election it returns nil, since
// there the data are the contender's id, which other contenders read.
func nodeData(ctx context.Context, a framework.Acquisition) []byte {
	if a.Recipe == "latch" || a.Recipe == "selector" {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if parent := carrier["traceparent"]; parent != "" {
		return append(bytes.Clone(tracePrefix), parent...)
	}
	return nil
}

// traceIn returns the trace context that a node's data name. Any client may have written the data: if they are not a
// trace context, the result is not valid.
func traceIn(data []byte) trace.SpanContext {
	parent, found := bytes.CutPrefix(data, tracePrefix)
	if !found {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": string(parent)})
	return trace.SpanContextFromContext(ctx)
}
