package operating

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curatorprom "github.com/go-curator/curator/contrib/prometheus"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// labelSet has the labels of a series.
type labelSet map[string]bool

// exported returns the series that a collector of clients can have, by name: its exports after a call of each hook.
func exported(t *testing.T) map[string]labelSet {
	t.Helper()
	series := map[string]labelSet{}
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := curatorprom.NewCollector(curatorprom.WithPaths(func(path string) string { return path }))
		client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial))
		require.NoError(t, err)
		defer client.Close()
		defer c.Watch("orders", client)()
		call(t.Context(), c.Hooks("orders"))
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(c))
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			has := labelSet{"job": true, "instance": true}
			for _, l := range family.GetMetric()[0].GetLabel() {
				has[l.GetName()] = true
			}
			if family.GetType() != dto.MetricType_HISTOGRAM {
				series[family.GetName()] = has
				continue
			}
			bucket := labelSet{"le": true}
			for l := range has {
				bucket[l] = true
			}
			series[family.GetName()+"_bucket"] = bucket
			series[family.GetName()+"_sum"], series[family.GetName()+"_count"] = has, has
		}
	})
	return series
}

// call calls each hook, within an acquisition that does not end, so that the metrics by path exist.
func call(ctx context.Context, h framework.Hooks) {
	h.Operation(ctx, framework.Operation{Name: "create"})(framework.OperationEnd{Attempts: 2})
	ctx, _ = h.Acquire(ctx, framework.Acquisition{Recipe: "mutex", Path: "/locks/a"})
	_, got := h.Acquire(ctx, framework.Acquisition{Recipe: "mutex", Path: "/locks/b"})
	got(nil)
	at := framework.Queue{Recipe: "mutex", Path: "/locks/a"}
	h.Queue(at)
	h.Wait(ctx, at)(nil)
	h.Wait(ctx, at) // does not end, nor does the next
	h.Hold(ctx, framework.HoldInfo{Recipe: "mutex", Path: "/locks/a"})
	_, ended := h.Hold(ctx, framework.HoldInfo{Recipe: "mutex", Path: "/locks/a"})
	ended(errors.New("lost"))
	h.State(framework.StateReport{})
	h.RoundTrip(framework.RoundTrip{Kind: "ping"})
}

// check returns the problems of a query: it does not parse, or uses a series or a label that is not exported.
func check(series map[string]labelSet, query string) (problems []string) {
	parsed, err := parser.ParseExpr(query)
	if err != nil {
		return []string{err.Error()}
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			has, known := series[n.Name]
			if !known {
				problems = append(problems, "no metric "+n.Name)
				return nil
			}
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName && !has[m.Name] {
					problems = append(problems, n.Name+" has no label "+m.Name)
				}
			}
		case *parser.AggregateExpr:
			problems = append(problems, grouping(series, n)...)
		}
		return nil
	})
	return problems
}

// grouping checks the labels of sum by (…) and the like against every metric below it.
func grouping(series map[string]labelSet, by *parser.AggregateExpr) (problems []string) {
	parser.Inspect(by.Expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			for _, label := range by.Grouping {
				if has := series[selector.Name]; has != nil && !has[label] {
					problems = append(problems, selector.Name+" has no label "+label)
				}
			}
		}
		return nil
	})
	return problems
}

func TestCheck(t *testing.T) {
	series := exported(t)
	for query, problem := range map[string]string{
		`sum by (client) (curator_holds)`:             "",
		`rate(curator_hold_duration_seconds_sum[5m])`: "",
		`curator_hold_duration_seconds > 1`:           "no metric curator_hold_duration_seconds",
		`curator_holds{path="/a"}`:                    "curator_holds has no label path",
		`sum by (le) (curator_holds)`:                 "curator_holds has no label le",
		`sum by (cause) (rate(curator_retries[5m]))`:  "no metric curator_retries",
		`sum by (client (curator_holds)`:              "parse error",
	} {
		problems := strings.Join(check(series, query), "; ")
		if problem == "" {
			assert.Empty(t, problems, query)
		} else {
			assert.Contains(t, problems, problem, query)
		}
	}
}

// The label values in the rules are values that the collector writes.
func TestValuesOfLabels(t *testing.T) {
	for value, got := range map[string]string{
		"suspended": curatorprom.Result(framework.ErrSuspended),
		"deadline":  curatorprom.Result(context.DeadlineExceeded), "canceled": curatorprom.Result(context.Canceled),
		"released": curatorprom.Result(framework.ErrReleased), "closed": curatorprom.Result(framework.ErrClosed),
		"auth_failed": curatorprom.Result(framework.ErrAuthFailed), "ok": curatorprom.Result(nil),
		"Lost": framework.Lost.String(), "Suspended": framework.Suspended.String(), "Connected": framework.Connected.String(),
	} {
		assert.Equal(t, value, got)
	}
}
