package curatorotel_test

import (
	"context"
	"fmt"
	"log"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	curatorotel "github.com/go-curator/curator/contrib/otel"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A service that acquires a lock while it handles a request. Its spans are inside the request's span; the exporter and
// the reader are in the place of your collector's.
func Example() {
	server, err := zktest.NewServer(zktest.Config{}) // stands for "zk1:2181,zk2:2181,zk3:2181"
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	spans, reader := tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	observed, err := curatorotel.New(curatorotel.WithTracerProvider(tracers), curatorotel.WithMeterProvider(meters))
	if err != nil {
		log.Fatal(err)
	}
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial),
		framework.WithHooks(observed.Hooks()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	stop, err := observed.Watch("orders", client) // the gauges
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = stop() }()

	tracer := tracers.Tracer("orders")
	ctx, request := tracer.Start(context.Background(), "request")
	lock, err := mutex.New(client, "/locks/orders").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, work := tracer.Start(lock.Context(), "work")
	var now metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &now); err != nil {
		log.Fatal(err)
	}
	work.End()
	if err := lock.Release(ctx); err != nil {
		log.Fatal(err)
	}
	request.End()

	names := map[string]string{"0000000000000000": "nothing"}
	for _, s := range spans.GetSpans() {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	for _, s := range spans.GetSpans() {
		switch s.Name {
		case "request", "work", "curator mutex acquire", "curator mutex hold":
			fmt.Printf("%q in %q\n", s.Name, names[s.Parent.SpanID().String()])
		}
	}
	for _, scope := range now.ScopeMetrics {
		for _, m := range scope.Metrics {
			if gauge, ok := m.Data.(metricdata.Gauge[float64]); ok && m.Name == "curator.holds" {
				fmt.Println(m.Name, "=", gauge.DataPoints[0].Value)
			}
		}
	}
	// Output:
	// "curator mutex acquire" in "request"
	// "work" in "curator mutex hold"
	// "curator mutex hold" in "curator mutex acquire"
	// "request" in "nothing"
	// curator.holds = 1
}
