package curatorotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/go-curator/curator/framework"
)

// A counter that appears with its first event hides that event from functions that count from the first sample on, such
// as PromQL's increase. So the counter of state changes is made, with the value 0 for each change, by
// [Instrumentation.Hooks]. For histograms that is not possible.

// stateReasons has the reasons that each state can come with, see [framework.StateReport].
var stateReasons = map[framework.State][]string{
	framework.Connected:   {""},
	framework.Reconnected: {""},
	framework.Suspended: {
		"expired", "lapsed", "silent", "stuck", "protocol", "unlisted", "quorum", "unauthenticated", "closed", "network",
	},
	framework.Lost: {"expired", "lapsed", "unauthenticated", "closed"},
}

// addZeros makes the counter of each state change.
func (i *Instrumentation) addZeros() {
	for state, reasons := range stateReasons {
		for _, reason := range reasons {
			i.countChange(state, reason, 0)
		}
	}
}

func (i *Instrumentation) countChange(state framework.State, reason string, times int64) {
	i.stateChanges.Add(context.Background(), times, metric.WithAttributes(
		attribute.String("curator.state", state.String()), attribute.String("curator.reason", reason)))
}
