package curatorprom

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/recipes/mutex"
)

// Collector is a [prometheus.Collector] for one or several clients. Make each client with its hooks
// ([Collector.Hooks]), and then give it to the collector ([Collector.Watch]). Safe for concurrent use.
type Collector struct {
	paths func(string) string // nil: no metrics by path

	operations, retries, stateChanges, roundTrips, holds, lost, waits, acquisitions metricVector
	waiting, ahead, length, foreign, sequenceLeft                                   *prometheus.GaugeVec

	longestWait, oldestHold *prometheus.Desc

	lines   lineGauges
	ages    currentAges
	recipes sync.Map // keys: an ageSeries without a label for each recipe of a client that has its counters

	mu      sync.Mutex
	clients map[string]*framework.Client // guarded by mu
}

// metricVector is a counter or a histogram; the other one is nil.
type metricVector struct {
	prometheus.Collector
	counter   *prometheus.CounterVec
	histogram *prometheus.HistogramVec
}

// Option changes what [NewCollector] makes. If one is given several times the last counts.
type Option func(*Collector)

// WithPaths adds metrics for each directory that has a line: the position in the line, the length of the line, the
// remaining sequence numbers and the foreign children. It also separates the longest wait and the oldest hold by
// directory. label returns the value of the label "path" for a directory: its path or, where paths contain order
// numbers, one of a few values; with "" the directory is left out of all these metrics. The series of a directory exist
// only while the client holds something there or tries to. Invalid UTF-8 in a label is escaped. Default: no such
// metrics.
func WithPaths(label func(path string) string) Option { return func(c *Collector) { c.paths = label } }

// NewCollector makes a collector without clients. Register it once.
func NewCollector(opts ...Option) *Collector {
	c := &Collector{clients: map[string]*framework.Client{}}
	c.lines.init()
	c.ages.init()
	for _, opt := range opts {
		opt(c)
	}
	c.operations = histogram("operation_duration_seconds", "How long operations took, all their tries together.",
		"op", "result")
	c.retries = counter("operation_retries_total", "Tries of operations beyond the first.", "op")
	c.stateChanges = counter("state_changes_total", "State changes of the connection, and why.", "state",
		"reason")
	c.roundTrips = histogram("round_trip_seconds", "Time between a ping or a heartbeat and its reply.", "kind")
	c.acquisitions = histogram("acquire_duration_seconds",
		"How long acquires took, until the grant or the error.", "recipe", "result")
	c.waits = histogram("queue_wait_seconds", "How long waiters waited for their predecessors.", "recipe")
	c.holds = histogram("hold_duration_seconds", "How long something was held, and how that ended.", "recipe",
		"cause")
	c.lost = counter("holds_lost_total", "Holds that ended before they were released or the client was closed, and why.",
		"recipe", "cause")
	c.waiting = gauge("queue_waiting", "How many acquires of this process wait for a predecessor.", "recipe")
	c.ahead = gauge("queue_ahead", "How many contenders were ahead in the last list.", "recipe", "path")
	c.length = gauge("queue_length", "How many contenders were in the line, holders included, when it was last listed.",
		"recipe", "path")
	c.foreign = gauge("foreign_children", "How many children of the directory were no contenders when it was "+
		"last listed.", "path")
	c.sequenceLeft = gauge("sequence_left", "How many sequential nodes can still be created in the directory before it "+
		"has to be deleted.", "path")
	c.longestWait, c.oldestHold = ageDescs(c.paths != nil)
	return c
}

func metricOptions(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "curator", Name: name, Help: help}
}

// labelNames returns the names of a metric's labels: every metric has the client.
func labelNames(names []string) []string { return append([]string{"client"}, names...) }

func gauge(name, help string, by ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts(metricOptions(name, help)), labelNames(by))
}

func counter(name, help string, by ...string) metricVector {
	v := prometheus.NewCounterVec(prometheus.CounterOpts(metricOptions(name, help)), labelNames(by))
	return metricVector{Collector: v, counter: v}
}

// buckets cover durations from one request in a data centre to a wait in a slow line.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

func histogram(name, help string, by ...string) metricVector {
	o := metricOptions(name, help)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: o.Namespace, Name: o.Name, Help: o.Help,
		Buckets: buckets}, labelNames(by))
	return metricVector{Collector: v, histogram: v}
}

// Hooks returns the hooks for the [framework.WithHooks] of a client. client is the value of the label "client".
func (c *Collector) Hooks(client string) framework.Hooks {
	client = printable(client)
	c.addClientZeros(client)
	observe := func(m metricVector, began time.Time, by ...string) {
		m.histogram.WithLabelValues(append([]string{client}, by...)...).Observe(time.Since(began).Seconds())
	}
	return framework.Hooks{
		Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
			began := time.Now()
			op.Name = printable(op.Name)
			return func(end framework.OperationEnd) {
				observe(c.operations, began, op.Name, Result(end.Err))
				if end.Attempts > 1 {
					c.retries.counter.WithLabelValues(client, op.Name).Add(float64(end.Attempts - 1))
				}
			}
		},
		Acquire: func(ctx context.Context, a framework.Acquisition) (context.Context, func(error)) {
			began := time.Now()
			a.Recipe = printable(a.Recipe)
			c.addRecipeZeros(client, a.Recipe)
			inner, end := c.beginAcquisition(ctx, client, a)
			return inner, func(err error) {
				end(err)
				observe(c.acquisitions, began, a.Recipe, Result(err))
			}
		},
		Queue: func(q framework.Queue) {
			q.Recipe = printable(q.Recipe)
			c.recordLine(client, q)
		},
		Wait: func(ctx context.Context, q framework.Queue) func(error) {
			q.Recipe = printable(q.Recipe)
			began, waiting := time.Now(), c.waiting.WithLabelValues(client, q.Recipe)
			waiting.Inc()
			end := c.ages.beginWait(c.waitOf(ctx, client, q), q.Node)
			return func(error) {
				waiting.Dec()
				end()
				observe(c.waits, began, q.Recipe)
			}
		},
		Hold: func(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
			h.Recipe = printable(h.Recipe)
			began, end := time.Now(), c.beginHold(ctx, client, h)
			c.addHoldZeros(client, h.Recipe)
			return nil, func(cause error) {
				end()
				observe(c.holds, began, h.Recipe, Result(cause))
				c.countLoss(client, h.Recipe, Result(cause))
			}
		},
		State: func(s framework.StateReport) {
			c.stateChanges.counter.WithLabelValues(client, s.State.String(), printable(s.Reason)).Inc()
		},
		RoundTrip: func(r framework.RoundTrip) {
			c.roundTrips.histogram.WithLabelValues(client, printable(r.Kind)).Observe(r.Took.Seconds())
		},
	}
}

// printable returns s with invalid UTF-8 escaped, for which the Prometheus client would panic.
func printable(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return plain.Text(s)
}

// Watch makes the collector read the client's gauges at each scrape until stop is called. name is the value of the
// label "client", as for [Collector.Hooks]. Call stop when the client is closed. A client replaces another one of the
// same name.
func (c *Collector) Watch(name string, client *framework.Client) (stop func()) {
	name = printable(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[name] = client
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.clients[name] == client {
			delete(c.clients, name)
		}
	}
}

func (c *Collector) vectors() []prometheus.Collector {
	return []prometheus.Collector{
		c.operations, c.retries, c.stateChanges, c.roundTrips, c.acquisitions, c.waits, c.holds, c.lost,
		c.waiting, c.ahead, c.length, c.foreign, c.sequenceLeft,
	}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range c.vectors() {
		v.Describe(ch)
	}
	for _, g := range gauges {
		ch <- g.desc
	}
	ch <- ruleDesc
	ch <- c.longestWait
	ch <- c.oldestHold
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, v := range c.vectors() {
		v.Collect(ch)
	}
	c.collectAges(ch)
	c.mu.Lock()
	clients := maps.Clone(c.clients)
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		h := clients[name].Health()
		for _, g := range gauges {
			ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(h), name)
		}
		ch <- prometheus.MustNewConstMetric(ruleDesc, prometheus.GaugeValue, 1, name, h.Safety.Rule.String())
	}
}

func desc(name, help string, by ...string) *prometheus.Desc {
	return prometheus.NewDesc("curator_"+name, help, labelNames(by), nil)
}

var ruleDesc = desc("safety_rule", "1 for the rule by which holds are kept safe.", "rule")

type health = framework.Health

// gauges are read at each scrape.
var gauges = []struct {
	desc  *prometheus.Desc
	value func(framework.Health) float64
}{
	{desc("connected", "1 with a connection to a quorum."),
		func(h health) float64 { return boolValue(h.Err() == nil) }},
	{desc("session_epoch", "Number of the session in the client's life."),
		func(h health) float64 { return float64(h.Safety.Epoch) }},
	{desc("session_connections", "Connections that the session has had."),
		func(h health) float64 { return float64(h.Connections) }},
	{desc("session_timeout_seconds", "T, the session timeout that the server granted."),
		func(h health) float64 { return h.Safety.SessionTimeout.Seconds() }},
	{desc("stale_server_bound_seconds", "D, how long a member may send replies after it was cut off."),
		func(h health) float64 { return h.Safety.Bound.Seconds() }},
	{desc("validity_remaining_seconds", "How long holds are still certain if no further reply comes."),
		func(h health) float64 { return h.Safety.Remaining.Seconds() }},
	{desc("holding_refused", "1 if the session timeout is too short to hold locks or leases safely."),
		func(h health) float64 { return boolValue(h.Safety.Refused != nil) }},
	{desc("holds", "Locks, leases and terms that are held."),
		func(h health) float64 { return float64(h.Safety.Holds) }},
	{desc("cleanups_pending", "Nodes that the client still has to remove."),
		func(h health) float64 { return float64(h.Cleanups) }},
	{desc("requests_queued", "Requests that wait for a connection or for room in the window."),
		func(h health) float64 { return float64(h.Queued) }},
	{desc("requests_in_flight", "Requests that wait for a reply."),
		func(h health) float64 { return float64(h.InFlight) }},
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Result returns the value of the labels "result" and "cause" for an error: "ok" for nil, one of a few words for the
// errors that the framework defines, else "error".
func Result(err error) string {
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
