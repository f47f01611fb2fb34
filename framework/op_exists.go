package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// ExistsResult is what CheckExists returns in the background.
type ExistsResult struct {
	// Stat is nil when there is no node.
	Stat *Stat
	// Watch is set when one was asked for.
	Watch *Watch
}

// ExistsBuilder looks whether a node exists. It is a value: each method returns a changed copy.
type ExistsBuilder struct {
	c        *Client
	watching watching
}

// CheckExists begins to look whether a node exists. Corresponds to Curator's checkExists.
func (c *Client) CheckExists() ExistsBuilder { return ExistsBuilder{c: c} }

// Watching has f called once, with the creation, the next change or the deletion of the node, or the end of
// the session; see [Pending.Then] for where and when. It is not called when the read fails. Use WithWatch for
// a watch that can be stopped.
func (b ExistsBuilder) Watching(f func(Event)) ExistsBuilder { b.watching = watched(f); return b }

// WithWatch has the terminal return a watch for the creation, the next change or the deletion of the node.
func (b ExistsBuilder) WithWatch() Watched[ExistsBuilder, ExistsResult, *Stat] {
	b.watching = watching{wanted: true}
	return Watched[ExistsBuilder, ExistsResult, *Stat]{b}
}

// ForPath returns the node's Stat, nil if there is no node.
func (b ExistsBuilder) ForPath(ctx context.Context, path string) (*Stat, error) {
	r, err := foreground(ctx, b.operation(path))
	return r.Stat, err
}

// InBackground makes the terminal return at once.
func (b ExistsBuilder) InBackground() Background[ExistsBuilder, ExistsResult] {
	return Background[ExistsBuilder, ExistsResult]{b}
}

func (b ExistsBuilder) parts(r ExistsResult) (*Stat, *Watch) { return r.Stat, r.Watch }

func (b ExistsBuilder) operation(path string) *operation[ExistsResult] {
	full, err := b.c.fullPath(path)
	w := b.watching.start(b.c, wire.Data, full)
	return &operation[ExistsResult]{
		c: b.c, name: "exists", path: path, fault: err, root: true, watch: w, empty: &ExistsResult{Watch: w},
		request: func(*epoch) *wire.Call { return readCall(jute.OpExists, full) },
		decode: func(_ int64, body []byte) (r ExistsResult, err error) {
			var res jute.StatResponse
			if err := decode(body, &res); err != nil {
				return r, err
			}
			stat := Stat(res.Stat)
			return ExistsResult{&stat, w}, nil
		},
	}
}
