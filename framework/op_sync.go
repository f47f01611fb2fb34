package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// SyncBuilder lets the connected member catch up with the leader.
type SyncBuilder struct{ c *Client }

// Sync begins a sync. Reads of this client that follow see everything that was written before the sync was.
// (The exception is a member whose leader has been deposed and does not know it yet. Only a write of one's
// own rules that out.)
//
// Corresponds to Curator's sync, which only exists in the background.
func (c *Client) Sync() SyncBuilder { return SyncBuilder{c} }

// ForPath waits until the member has caught up. Today's servers ignore the path.
func (b SyncBuilder) ForPath(ctx context.Context, path string) error {
	_, err := foreground(ctx, b.operation(path))
	return err
}

// InBackground makes the terminal return at once: a read queued after it sees what the sync has brought.
func (b SyncBuilder) InBackground() Background[SyncBuilder, struct{}] {
	return Background[SyncBuilder, struct{}]{b}
}

func (b SyncBuilder) operation(path string) *operation[struct{}] {
	full, err := b.c.fullPath(path)
	return &operation[struct{}]{
		c: b.c, name: "sync", path: path, fault: err, decode: nothing,
		request: func(*epoch) *wire.Call { return newCall(jute.OpSync, &jute.PathRequest{Path: full}) },
	}
}
