package curatorotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

// makeInstruments makes the instruments of the meter.
func (i *Instrumentation) makeInstruments() (err error) {
	histogram := func(name, help string) metric.Float64Histogram {
		h, failed := i.meter.Float64Histogram("curator."+name, metric.WithUnit("s"), metric.WithDescription(help))
		err = errors.Join(err, failed)
		return h
	}
	i.operations = histogram("operation.duration", "How long operations took, all their tries together.")
	i.acquisitions = histogram("acquire.duration", "How long acquires took, until the grant or the error.")
	i.waits = histogram("queue.wait.duration", "How long waiters waited for their predecessors.")
	i.holds = histogram("hold.duration", "How long something was held, and how that ended.")
	i.roundTrips = histogram("round_trip.duration", "Time between a ping or a heartbeat and its reply.")
	counter, failed := i.meter.Int64Counter("curator.state.changes",
		metric.WithDescription("State changes of the connection, and why."))
	i.stateChanges = counter
	return errors.Join(err, failed)
}

// recordTime records the time since began.
func (i *Instrumentation) recordTime(ctx context.Context, h metric.Float64Histogram, began time.Time,
	by ...attribute.KeyValue) {
	h.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(by...))
}

func (i *Instrumentation) state(s framework.StateReport) { i.countChange(s.State, s.Reason, 1) }

func (i *Instrumentation) roundTrip(r framework.RoundTrip) {
	i.roundTrips.Record(context.Background(), r.Took.Seconds(),
		metric.WithAttributes(attribute.String("curator.kind", r.Kind)))
}

type health = framework.Health

// Watch makes the meter read gauges of the client at each collection, with name as the attribute curator.client, until
// stop is called. Call stop when the client is closed.
func (i *Instrumentation) Watch(name string, client *framework.Client) (stop func() error, err error) {
	var all []metric.Observable
	var observations []func(framework.Health) (metric.Float64Observable, float64)
	gauge := func(name, unit, help string, value func(framework.Health) float64) {
		g, failed := i.meter.Float64ObservableGauge("curator."+name, metric.WithUnit(unit),
			metric.WithDescription(help))
		err = errors.Join(err, failed)
		all = append(all, g)
		observations = append(observations, func(h framework.Health) (metric.Float64Observable, float64) { return g, value(h) })
	}
	gauge("connected", "1", "1 with a connection to a quorum.", func(h health) float64 {
		if h.Err() != nil {
			return 0
		}
		return 1
	})
	gauge("session.epoch", "1", "Number of the session in the client's life.",
		func(h health) float64 { return float64(h.Safety.Epoch) })
	gauge("session.timeout", "s", "The session timeout that the server granted.",
		func(h health) float64 { return h.Safety.SessionTimeout.Seconds() })
	gauge("validity.remaining", "s", "How long holds are still certain if no further reply comes.",
		func(h health) float64 { return h.Safety.Remaining.Seconds() })
	gauge("holds", "1", "Locks, leases and terms that are held.",
		func(h health) float64 { return float64(h.Safety.Holds) })
	gauge("cleanups.pending", "1", "Nodes that the client still has to remove.",
		func(h health) float64 { return float64(h.Cleanups) })
	gauge("requests.queued", "1", "Requests that wait for a connection or for room in the window.",
		func(h health) float64 { return float64(h.Queued) })
	gauge("requests.in_flight", "1", "Requests that wait for a reply.",
		func(h health) float64 { return float64(h.InFlight) })
	if err != nil {
		return nil, err
	}
	registration, err := i.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		h := client.Health()
		by := metric.WithAttributes(text("curator.client", name),
			attribute.String("curator.rule", h.Safety.Rule.String()))
		for _, observe := range observations {
			g, v := observe(h)
			o.ObserveFloat64(g, v, by)
		}
		return nil
	}, all...)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}

func recipeAttribute(name string) attribute.KeyValue { return text("curator.recipe", name) }

func resultAttribute(err error) attribute.KeyValue {
	return attribute.String("curator.result", resultOf(err))
}

// resultOf returns "ok" for nil, one of a few words for the errors that the framework defines, else "error".
func resultOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, r := range results {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return "error"
}

var results = []struct {
	err  error
	word string
}{
	{framework.ErrReleased, "released"}, {framework.ErrSuspended, "suspended"},
	{framework.ErrNodeDeleted, "node_deleted"},
	{framework.ErrClosed, "closed"}, {framework.ErrSessionLost, "session_lost"},
	{framework.ErrAuthFailed, "auth_failed"},
	{context.Canceled, "canceled"}, {context.DeadlineExceeded, "deadline"},
	{framework.ErrNotConnected, "not_connected"}, {framework.ErrConnectionLoss, "connection_loss"},
	{framework.ErrOutcomeUnknown, "outcome_unknown"},
	{framework.ErrNoNode, "no_node"}, {framework.ErrNodeExists, "node_exists"},
	{framework.ErrBadVersion, "bad_version"}, {framework.ErrNotEmpty, "not_empty"},
	{framework.ErrNoAuth, "no_auth"}, {framework.ErrTimeoutTooShort, "timeout_too_short"},
	{framework.ErrThrottled, "throttled"}, {mutex.ErrNotAcquired, "not_acquired"}, // the same value in all recipes
}
