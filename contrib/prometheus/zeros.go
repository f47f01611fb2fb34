package curatorprom

import (
	"context"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

// A counter that appears with its first event hides that event from PromQL, whose increase counts from the first sample
// on. So counters are made, with the value 0, before anything is counted, as far as their labels are known: those of
// state changes, repeated tries and round trips by [Collector.Hooks]; those of lost holds, acquisitions and waits at
// the first acquisition of their recipe. The results of operations and of holds have too many values for that.

// lossCauses are the causes of a lost hold that every recipe can have.
var lossCauses = []error{
	framework.ErrSessionLost, framework.ErrNodeDeleted, framework.ErrSuspended, framework.ErrTimeoutTooShort,
}

// stateReasons has the reasons that each state can come with, see [framework.StateReport].
var stateReasons = map[framework.State][]string{
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

// roundTripKinds are the kinds of [framework.RoundTrip].
var roundTripKinds = []string{"ping", "heartbeat"}

// acquireResults are the usual results of acquisitions, among them all that alerts use.
var acquireResults = []error{nil, context.DeadlineExceeded, context.Canceled, mutex.ErrNotAcquired}

// addClientZeros makes the counters of a client.
func (c *Collector) addClientZeros(client string) {
	for state, reasons := range stateReasons {
		for _, reason := range reasons {
			c.stateChanges.counter.WithLabelValues(client, state.String(), reason)
		}
	}
	for _, op := range operations {
		c.retries.counter.WithLabelValues(client, op)
	}
	for _, kind := range roundTripKinds {
		c.roundTrips.histogram.WithLabelValues(client, kind)
	}
}

// addHoldZeros makes the counters of a recipe's lost holds.
func (c *Collector) addHoldZeros(client, recipe string) {
	for _, cause := range lossCauses {
		c.lost.counter.WithLabelValues(client, recipe, Result(cause))
	}
}

// addRecipeZeros makes the counters of a recipe at its first acquisition.
func (c *Collector) addRecipeZeros(client, recipe string) {
	if _, known := c.recipes.LoadOrStore(ageSeries{client: client, recipe: recipe}, nil); known {
		return
	}
	c.addHoldZeros(client, recipe)
	c.waits.histogram.WithLabelValues(client, recipe)
	for _, result := range acquireResults {
		c.acquisitions.histogram.WithLabelValues(client, recipe, Result(result))
	}
}

// countLoss counts a hold that has ended, unless it was released or the client was closed.
func (c *Collector) countLoss(client, recipe, cause string) {
	if cause != Result(framework.ErrReleased) && cause != Result(framework.ErrClosed) {
		c.lost.counter.WithLabelValues(client, recipe, cause).Inc()
	}
}
