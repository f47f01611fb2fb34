package cache

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inDirectory is the number of nodes in a directory.
const inDirectory = 100

func directory(root string, i int) string { return fmt.Sprintf("%s/dir-%04d", root, i) }

func leaf(root string, i int) string {
	return fmt.Sprintf("%s/node-%08d", directory(root, i/inDirectory), i)
}

// grow creates a root with n nodes in directories of a hundred, and returns the number of all nodes.
func grow(t testing.TB, client *framework.Client, root string, n int) int {
	t.Helper()
	ctx := kit.Context(t)
	op := client.TransactionOp().Create()
	ops := []framework.TransactionOp{op.ForPath(root, []byte("root"))}
	for i := range n {
		if i%inDirectory == 0 {
			ops = append(ops, op.ForPath(directory(root, i/inDirectory), []byte("directory")))
		}
		ops = append(ops, op.ForPath(leaf(root, i), fmt.Appendf(nil, "value %d", i)))
	}
	nodes := len(ops)
	for len(ops) > 0 {
		now := min(len(ops), 1000)
		_, err := client.Transaction(ctx, ops[:now]...)
		require.NoError(t, err)
		ops = ops[now:]
	}
	return nodes
}

// tree reads all nodes from root down.
func tree(t testing.TB, client *framework.Client, root string) map[string]cache.Node {
	t.Helper()
	ctx := kit.Context(t)
	all := map[string]cache.Node{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	var visit func(path string)
	read := func(path string) error {
		slots <- struct{}{}
		defer func() { <-slots }()
		n := cache.Node{Path: path}
		var err error
		if n.Data, err = client.GetData().StoringStatIn(&n.Stat).ForPath(ctx, path); err != nil {
			if errors.Is(err, framework.ErrNoNode) {
				return nil
			}
			return err
		}
		mu.Lock()
		all[path] = n
		mu.Unlock()
		if n.Stat.NumChildren == 0 {
			return nil
		}
		names, err := client.GetChildren().ForPath(ctx, path)
		if errors.Is(err, framework.ErrNoNode) {
			return nil
		}
		for _, name := range names {
			wg.Go(func() { visit(strings.TrimSuffix(path, "/") + "/" + name) })
		}
		return err
	}
	var failures []error
	visit = func(path string) {
		if err := read(path); err != nil {
			mu.Lock()
			failures = append(failures, err)
			mu.Unlock()
		}
	}
	visit(root)
	wg.Wait()
	require.NoError(t, errors.Join(failures...))
	return all
}

// state is the state of a node that all caches in all languages report.
type state = javapeer.CachedNode

func stateOf(n cache.Node) state {
	return state{Data: string(n.Data), Version: n.Stat.Version, Mzxid: n.Stat.Mzxid}
}

// differences describes where got differs from want.
func differences[V comparable](want, got map[string]V) (lines []string) {
	for path, w := range want {
		if g, held := got[path]; !held {
			lines = append(lines, fmt.Sprintf("%s is missing", path))
		} else if g != w {
			lines = append(lines, fmt.Sprintf("%s is %.100v and should be %.100v", path, fmt.Sprint(g), fmt.Sprint(w)))
		}
	}
	for path := range got {
		if _, there := want[path]; !there {
			lines = append(lines, fmt.Sprintf("%s should not be there", path))
		}
	}
	return lines
}
