// Package curatorprom reports to Prometheus what clients of package framework do: the remaining validity of their
// holds and the rule that it follows from, latencies, lines, losses and their reasons. The metrics are listed in
// docs/observability.md.
//
//	metrics := curatorprom.NewCollector()
//	prometheus.MustRegister(metrics)
//	client, err := framework.New(connect, framework.WithHooks(metrics.Hooks("orders")))
//	…
//	defer metrics.Watch("orders", client)()
//
// It is a separate module, so that users of the library do not get Prometheus.
package curatorprom
