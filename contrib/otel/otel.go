package curatorotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-curator/curator/framework"
)

const scope = "github.com/go-curator/curator/contrib/otel"

// Instrumentation reports any number of clients to OpenTelemetry. Safe for concurrent use.
type Instrumentation struct {
	tracer trace.Tracer
	meter  metric.Meter
	links  bool

	operations, acquisitions, waits, holds, roundTrips metric.Float64Histogram
	stateChanges                                       metric.Int64Counter
}

// Option changes what [New] makes. If one is given several times the last counts.
type Option func(*options)

type options struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	links   bool
}

// WithTracerProvider sets the provider of the spans' tracer. Default: the global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// WithMeterProvider sets the provider of the metrics' meter. Default: the global one.
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithLinks links the span of a wait to the acquisition that the predecessor's node names. For that the client writes the
// trace context of each acquisition ("traceparent=00-…") into the acquisition's node, if the recipe has no other use for
// the data. All clients that may read the node see the trace's id. Java Curator ignores the data. The data of the
// predecessor's node are only a claim: a client that may create nodes there can link a wait to any trace. They must be a
// well-formed W3C trace context with ids that are not zero, and become a link, never a parent. Default: off.
func WithLinks() Option { return func(o *options) { o.links = true } }

// New makes an Instrumentation. It returns the errors of the meter provider.
func New(opts ...Option) (*Instrumentation, error) {
	o := options{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, opt := range opts {
		opt(&o)
	}
	i := &Instrumentation{tracer: o.tracers.Tracer(scope), meter: o.meters.Meter(scope), links: o.links}
	return i, i.makeInstruments()
}

// Hooks returns the hooks for a client's [framework.WithHooks].
func (i *Instrumentation) Hooks() framework.Hooks {
	i.addZeros()
	h := framework.Hooks{
		Operation: i.operation, Acquire: i.acquire, Wait: i.wait, Hold: i.hold,
		State: i.state, RoundTrip: i.roundTrip,
	}
	if i.links {
		h.NodeData = nodeData
	}
	return h
}
