package curatorotel

import (
	"bytes"
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-curator/curator/framework"
)

// prefix is the beginning of a node's data that name a trace. The rest is the value of the W3C's header.
var prefix = []byte("traceparent=")

// nodeData returns the data for the node of an acquisition. In an election the data are the participant's id,
// which others read.
func nodeData(ctx context.Context, a framework.Acquisition) []byte {
	if a.Recipe == "latch" || a.Recipe == "selector" {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if parent := carrier["traceparent"]; parent != "" {
		return append(bytes.Clone(prefix), parent...)
	}
	return nil
}

// writtenIn reads that back. Any client may have written the data: if they are not a trace context, the result is
// empty.
func writtenIn(data []byte) trace.SpanContext {
	parent, found := bytes.CutPrefix(data, prefix)
	if !found {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": string(parent)})
	return trace.SpanContextFromContext(ctx)
}
