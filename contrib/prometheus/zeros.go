package curatorprom

import (
	"context"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

// A counter that appears with its first event hides that event from PromQL: increase counts from the first
// sample on. So counters are there with 0 before anything can be counted, as far as their labels are known: state
// changes, repeated tries and round trips from [Collector.Hooks] on, lost holds, acquisitions and waits from the first
// acquisition of their recipe on. How operations and holds end has too many words for that.

// causes end a hold unless a recipe has its own cause.
var causes = []error{
	framework.ErrSessionLost, framework.ErrNodeDeleted, framework.ErrSuspended, framework.ErrTimeoutTooShort,
}

// changes are the reasons that each state comes with, by [framework.StateReport].
var changes = map[framework.State][]string{
	framework.Connected:   {""},
	framework.Reconnected: {""},
	framework.Suspended: {
		"expired", "lapsed", "silent", "stuck", "protocol", "unlisted", "quorum", "unauthenticated", "closed", "network",
	},
	framework.Lost: {"expired", "lapsed", "unauthenticated", "closed"},
}

// operations are the names that [framework.Operation] can have.
var operations = []string{
	"addWatch", "create", "createContainers", "delete", "ensure", "exists", "getACL", "getChildren", "getConfig", "getData",
	"multiRead", "reconfig", "setACL", "setData", "setWatches", "sync", "transaction",
}

// roundTrips are the kinds of [framework.RoundTrip].
var roundTrips = []string{"ping", "heartbeat"}

// ends are the usual results of acquisitions, among them all that alerts use.
var ends = []error{nil, context.DeadlineExceeded, context.Canceled, mutex.ErrNotAcquired}

// watched makes a client's counters.
func (c *Collector) watched(client string) {
	for state, reasons := range changes {
		for _, reason := range reasons {
			c.stateChanges.counter.WithLabelValues(client, state.String(), reason)
		}
	}
	for _, op := range operations {
		c.retries.counter.WithLabelValues(client, op)
	}
	for _, kind := range roundTrips {
		c.roundTrips.histogram.WithLabelValues(client, kind)
	}
}

// held makes a recipe's counters of lost holds.
func (c *Collector) held(client, recipe string) {
	for _, cause := range causes {
		c.lost.counter.WithLabelValues(client, recipe, Result(cause))
	}
}

// acquired makes all counters of a recipe, when it acquires for the first time.
func (c *Collector) acquired(client, recipe string) {
	if _, known := c.recipes.LoadOrStore(kind{client: client, recipe: recipe}, nil); known {
		return
	}
	c.held(client, recipe)
	c.waits.histogram.WithLabelValues(client, recipe)
	for _, end := range ends {
		c.acquisitions.histogram.WithLabelValues(client, recipe, Result(end))
	}
}

// ended counts a hold that its holder did not end.
func (c *Collector) ended(client, recipe, cause string) {
	if cause != Result(framework.ErrReleased) && cause != Result(framework.ErrClosed) {
		c.lost.counter.WithLabelValues(client, recipe, cause).Inc()
	}
}
