package inspect

import (
	"context"
	"errors"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// WhyIn is [Why] for the content of a cache. It sends no request and does not block, so a page or a gauge can call it
// after each event of the cache. If the cache is in sync, the lines are of one moment. Data are returned as the cache
// has them: give it a decoder if participants compress theirs.
//
// If the cache's client may not read a participant's node, Participant.Err has the error, and only the node's name is
// known, not even its session: a cache reads nothing else of such a node.
//
// Errors: framework.ErrNoClient if c is nil, and the errors of the cache's root: framework.ErrNoNode,
// framework.ErrNoAuth.
func WhyIn(c *cache.Cache, opts ...Option) (Graph, error) {
	l, err := applyOptions(opts)
	if err == nil && c == nil {
		err = framework.ErrNoClient
	}
	if err != nil {
		return Graph{}, pathError("why in", "", err)
	}
	found, err := newTreeReader(copyTree(c), l).findLines(context.Background(), c.Root())
	if err != nil {
		return Graph{}, pathError("why in", c.Root(), err)
	}
	return buildGraph(found), nil
}

// copiedTree is a copy of the tree, by path.
type copiedTree map[string]*copiedNode

type copiedNode struct {
	node     cache.Node
	known    bool // the cache has the node
	err      error
	children []string
}

func copyTree(c *cache.Cache) copiedTree {
	all := make(copiedTree, c.Len())
	join := func(path string, n *copiedNode) {
		all[path] = n
		if path == c.Root() {
			return
		}
		if above := all[zkpath.Parent(path)]; above != nil {
			name := path[len(zkpath.Join(zkpath.Parent(path), "x"))-1:]
			above.children = append(above.children, name)
		}
	}
	for path, n := range c.All() {
		join(path, &copiedNode{node: n, known: true})
	}
	for path, err := range c.Failures() {
		switch n := all[path]; {
		case n != nil:
			n.err = err
		case !errors.Is(err, framework.ErrNoNode):
			join(path, &copiedNode{err: err})
		}
	}
	return all
}

// listChildren returns the error of a node that cannot be read, and the list of a node whose data cannot be decoded.
func (c copiedTree) listChildren(_ context.Context, paths ...string) ([]nodeResult[framework.ChildrenResult], error) {
	return copiedResults(c, paths, func(n *copiedNode) (framework.ChildrenResult, error) {
		if !n.known || errors.Is(n.err, framework.ErrNoAuth) {
			return framework.ChildrenResult{}, n.err
		}
		return framework.ChildrenResult{Names: n.children, Stat: n.node.Stat}, nil
	}), nil
}

func (c copiedTree) readStats(_ context.Context, paths ...string) ([]nodeResult[framework.ExistsResult], error) {
	all := copiedResults(c, paths, func(n *copiedNode) (framework.ExistsResult, error) {
		if !n.known {
			return framework.ExistsResult{}, n.err
		}
		return framework.ExistsResult{Stat: &n.node.Stat}, nil
	})
	for i := range all {
		if errors.Is(all[i].err, framework.ErrNoNode) {
			all[i].err = nil // exists reports a missing node by a nil Stat
		}
	}
	return all, nil
}

func (c copiedTree) readContents(_ context.Context, paths ...string) ([]nodeResult[framework.DataResult], error) {
	return copiedResults(c, paths, func(n *copiedNode) (framework.DataResult, error) {
		return framework.DataResult{Data: n.node.Data, Stat: n.node.Stat}, n.err
	}), nil
}

func (c copiedTree) unpackData(_ string, data []byte) ([]byte, error) { return data, nil }

func copiedResults[T any](c copiedTree, paths []string, of func(*copiedNode) (T, error)) []nodeResult[T] {
	all := make([]nodeResult[T], len(paths))
	for i, path := range paths {
		if n := c[path]; n == nil {
			all[i].err = framework.ErrNoNode
		} else {
			all[i].value, all[i].err = of(n)
		}
	}
	return all
}
