package inspect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
)

// Quota limits the number of nodes, and of bytes of data, at a path and below it. A limit of -1 means none. A server
// refuses writes over a hard limit if zookeeper.enforceQuota is set, and logs a warning for the other limits.
type Quota struct {
	Path                 string
	Nodes, Bytes         int64 // in use
	MaxNodes, MaxBytes   int64
	HardNodes, HardBytes int64
}

const quotaRoot = "/zookeeper/quota"

// readQuotas reads the quotas. The walk ends after most nodes.
func (r *Report) readQuotas(ctx context.Context, client *framework.Client, most int) {
	limits, stats := map[string]map[string]int64{}, map[string]map[string]int64{}
	var order []string
	for node, err := range tree.Walk(client).ForPath(ctx, quotaRoot) {
		if err != nil {
			if !errors.Is(err, framework.ErrNoNode) && !errors.Is(err, framework.ErrNoAuth) {
				r.addAdvice("the quotas cannot be read: %v", err)
			}
			return
		}
		if most--; most < 0 {
			r.addAdvice("there are too many quotas to read them all")
			break
		}
		path := strings.TrimPrefix(node.Path, quotaRoot)
		if of, ok := strings.CutSuffix(path, "/zookeeper_limits"); ok {
			limits[of] = parseQuota(string(node.Data))
			order = append(order, of)
		} else if of, ok := strings.CutSuffix(path, "/zookeeper_stats"); ok {
			stats[of] = parseQuota(string(node.Data))
		}
	}
	r.QuotasKnown = true
	for _, path := range order {
		l, s := limits[path], stats[path]
		number := func(of map[string]int64, key string, missing int64) int64 {
			if n, ok := of[key]; ok {
				return n
			}
			return missing
		}
		if path == "" {
			path = "/"
		}
		r.Quotas = append(r.Quotas, Quota{Path: path,
			Nodes: number(s, "count", 0), Bytes: number(s, "bytes", 0),
			MaxNodes: number(l, "count", -1), MaxBytes: number(l, "bytes", -1),
			HardNodes: number(l, "countHardLimit", -1), HardBytes: number(l, "byteHardLimit", -1)})
	}
}

// parseQuota reads "count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=7", as the server writes it.
func parseQuota(text string) map[string]int64 {
	numbers := map[string]int64{}
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(pair, "=")
		if n, err := strconv.ParseInt(strings.TrimSuffix(value, "="), 10, 64); err == nil {
			numbers[key] = n
		}
	}
	return numbers
}

// describeUsage describes the parts of the quota that are used to nine tenths or more; "" if there are none.
func (q Quota) describeUsage() string {
	for _, l := range []struct {
		used, most int64
		what       string
	}{
		{q.Nodes, q.HardNodes, "nodes (hard limit)"}, {q.Bytes, q.HardBytes, "bytes (hard limit)"},
		{q.Nodes, q.MaxNodes, "nodes"}, {q.Bytes, q.MaxBytes, "bytes"},
	} {
		if l.most > 0 && l.used >= l.most-l.most/10 {
			return fmt.Sprintf("%d of %d %s", l.used, l.most, l.what)
		}
	}
	return ""
}
