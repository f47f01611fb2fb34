package growth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
)

// Caches of trees whose nodes have twelve bytes of data each, in directories of a hundred.
func TestCaches(t *testing.T) {
	node := server(t)
	c := &curve{id: "caches", of: "nodes", plotted: 0, columns: []string{
		"loaded, nodes a second", "requests per 1,000 nodes", "bytes received each", "heap, bytes each",
		"heap at most, bytes each"}}
	m := &meter{}
	clients := m.connect(t, node.Addr(), 1, kit.Patience/2)
	defer end(clients)
	ctx := patience(t)
	for _, n := range sizes(1_000_000) {
		if n < 100 {
			continue
		}
		root := fmt.Sprintf("/tree-%d", n)
		plant(t, clients[0], root, n)
		m.rest(t)
		requests, bytes, before := m.requests.Load(), m.in.Load(), live()
		most, begin := peak(), time.Now()
		tree, err := cache.New(clients[0], root)
		require.NoError(t, err)
		require.NoError(t, tree.WaitSynced(ctx))
		took := time.Since(begin)
		nodes := float64(tree.Len())
		require.Equal(t, 1+n/100+n, tree.Len())
		c.add(t, "cache", n, nodes/took.Seconds(), 1000*float64(m.requests.Load()-requests)/nodes,
			float64(m.in.Load()-bytes)/nodes, (live()-before)/nodes, (most()-before)/nodes)
		require.NoError(t, tree.Close())
	}
	for _, r := range c.rows {
		requests := r.figures[1] * float64(1+r.n/100+r.n) / 1000
		require.LessOrEqual(t, requests, 10+0.02*float64(r.n), "requests for %d nodes", r.n)
	}
	c.save(t)
}

// plant makes a tree of a root, directories and n leaves.
func plant(t *testing.T, client *framework.Client, root string, n int) {
	t.Helper()
	op := client.TransactionOp().Create()
	ops := []framework.TransactionOp{op.ForPath(root, nil)}
	for i := range n {
		if i%100 == 0 {
			ops = append(ops, op.ForPath(fmt.Sprintf("%s/dir-%05d", root, i/100), nil))
		}
		ops = append(ops, op.ForPath(fmt.Sprintf("%s/dir-%05d/node-%07d", root, i/100, i), fmt.Appendf(nil, "data %7d", i)))
		if len(ops) >= 1000 || i == n-1 {
			_, err := client.Transaction(patience(t), ops...)
			require.NoError(t, err)
			ops = ops[:0]
		}
	}
}
