package curatorotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/go-curator/curator/framework"
)

// A counter that appears with its first event hides that event from what counts from the first sample on, as PromQL's
// increase does. So the counter of state changes is there with 0 for each change as soon as there are hooks. Histograms
// have no such way.

// changes are the reasons that each state comes with, by [framework.StateReport].
var changes = map[framework.State][]string{
	framework.Connected:   {""},
	framework.Reconnected: {""},
	framework.Suspended: {
		"expired", "lapsed", "silent", "stuck", "protocol", "unlisted", "quorum", "unauthenticated", "closed", "network",
	},
	framework.Lost: {"expired", "lapsed", "unauthenticated", "closed"},
}

func (i *Instrumentation) zeros() {
	for state, reasons := range changes {
		for _, reason := range reasons {
			i.changed(state, reason, 0)
		}
	}
}

func (i *Instrumentation) changed(state framework.State, reason string, times int64) {
	i.stateChanges.Add(context.Background(), times, metric.WithAttributes(
		attribute.String("curator.state", state.String()), attribute.String("curator.reason", reason)))
}
