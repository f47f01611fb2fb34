package curatorotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-curator/curator/framework"
)

const scope = "github.com/go-curator/curator/contrib/otel"

// Instrumentation is one for any number of clients. Safe for concurrent use.
type Instrumentation struct {
	tracer trace.Tracer
	meter  metric.Meter
	links  bool

	operations, acquisitions, waits, holds, roundTrips metric.Float64Histogram
	stateChanges                                       metric.Int64Counter
}

// Option changes what [New] makes.
type Option func(*options)

type options struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	links   bool
}

// WithTracerProvider says where the spans go. Default: the global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// WithMeterProvider says where the metrics go. Default: the global one.
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithLinks writes the trace context of an acquisition ("traceparent=00-…") into the node that it makes, for the locks whose nodes' data have no other use, and links a
// wait to the acquisition of the node in front when that says which. All clients who may read the directory see the trace's id. Clients
// with Java Curator do not look at the data. Default: off.
func WithLinks() Option { return func(o *options) { o.links = true } }

// New makes the instruments. An error is the meter provider's.
func New(opts ...Option) (*Instrumentation, error) {
	o := options{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, opt := range opts {
		opt(&o)
	}
	i := &Instrumentation{tracer: o.tracers.Tracer(scope), meter: o.meters.Meter(scope), links: o.links}
	return i, i.instruments()
}

// Hooks returns what a client is made with, by [framework.WithHooks].
func (i *Instrumentation) Hooks() framework.Hooks {
	h := framework.Hooks{
		Operation: i.operation, Acquire: i.acquire, Wait: i.wait, Hold: i.hold,
		State: i.state, RoundTrip: i.roundTrip,
	}
	if i.links {
		h.NodeData = nodeData
	}
	return h
}
