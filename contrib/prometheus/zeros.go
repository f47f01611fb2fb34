package curatorprom

import "github.com/go-curator/curator/framework"

// A counter that appears with its first event hides that event from PromQL: increase counts from the first
// sample on. So the counters of losses are there with 0 before anything can be lost, as far as their labels are
// known: state changes from [Collector.Hooks] on, lost holds from the first acquisition of their recipe on.

// causes are those that a hold ends with unless a recipe gives one of its own.
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

// watched makes a client's counters of state changes.
func (c *Collector) watched(client string) {
	for state, reasons := range changes {
		for _, reason := range reasons {
			c.stateChanges.counter.WithLabelValues(client, state.String(), reason)
		}
	}
}

// used makes a recipe's counters of lost holds.
func (c *Collector) used(client, recipe string) {
	for _, cause := range causes {
		c.lost.counter.WithLabelValues(client, recipe, Result(cause))
	}
}

// ended counts a hold that its holder did not end.
func (c *Collector) ended(client, recipe, cause string) {
	if cause != Result(framework.ErrReleased) && cause != Result(framework.ErrClosed) {
		c.lost.counter.WithLabelValues(client, recipe, cause).Inc()
	}
}
