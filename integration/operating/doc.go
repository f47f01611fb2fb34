// Package operating has the tests of the operator's kit in docs/operating: the dashboard and the alerts use only
// metrics that contrib/prometheus exports, every message of the log has a row. Package manifests decodes the
// manifests. Package live plays an incident before a real Prometheus.
package operating
