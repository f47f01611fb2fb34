package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// ChildrenResult is what GetChildren returns in the background.
type ChildrenResult struct {
	// Names are those of the children, in no particular order.
	Names []string
	Stat  Stat
	// Watch is set when one was asked for.
	Watch *Watch
}

// GetChildrenBuilder lists a node's children. It is a value: each method returns a changed copy.
type GetChildrenBuilder struct {
	c        *Client
	stat     *Stat
	watching watching
}

// GetChildren begins to list a node's children. Corresponds to Curator's getChildren.
func (c *Client) GetChildren() GetChildrenBuilder { return GetChildrenBuilder{c: c} }

// StoringStatIn has the node's Stat written to stat when the operation succeeds.
func (b GetChildrenBuilder) StoringStatIn(stat *Stat) GetChildrenBuilder { b.stat = stat; return b }

// Watching has f called once, when a child comes or goes, or with the deletion of the node or the end of the
// session; see [Pending.Then] for where and when. It is not called when the read fails. Use WithWatch for a
// watch that can be stopped.
func (b GetChildrenBuilder) Watching(f func(Event)) GetChildrenBuilder {
	b.watching = watched(f)
	return b
}

// WithWatch has the terminal return a watch for the next child that comes or goes and the deletion of the
// node.
func (b GetChildrenBuilder) WithWatch() Watched[GetChildrenBuilder, ChildrenResult, []string] {
	b.watching = watching{wanted: true}
	return Watched[GetChildrenBuilder, ChildrenResult, []string]{b}
}

// ForPath returns the names of the children, in no particular order; ErrNoNode if there is no node.
func (b GetChildrenBuilder) ForPath(ctx context.Context, path string) ([]string, error) {
	r, err := foreground(ctx, b.operation(path))
	return r.Names, err
}

// InBackground makes the terminal return at once.
func (b GetChildrenBuilder) InBackground() Background[GetChildrenBuilder, ChildrenResult] {
	return Background[GetChildrenBuilder, ChildrenResult]{b}
}

func (b GetChildrenBuilder) parts(r ChildrenResult) ([]string, *Watch) { return r.Names, r.Watch }

func (b GetChildrenBuilder) operation(path string) *operation[ChildrenResult] {
	full, err := b.c.fullPath(path)
	w := b.watching.start(b.c, wire.Child, full)
	return &operation[ChildrenResult]{
		c: b.c, name: "getChildren", path: path, fault: err, root: true, watch: w,
		request: func(*epoch) *wire.Call { return readCall(jute.OpGetChildren2, full) },
		decode: func(_ int64, body []byte) (r ChildrenResult, err error) {
			var res jute.Children2Response
			if err := decode(body, &res); err != nil {
				return r, err
			}
			store(b.stat, Stat(res.Stat))
			return ChildrenResult{res.Children, Stat(res.Stat), w}, nil
		},
	}
}
