package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// SyncBuilder lets the connected member catch up with the leader.
type SyncBuilder struct{ c *Client }

// Sync begins a sync. Reads of this client that follow see everything that was written before the sync was. (A member that follows a leader
// which has been deposed without noticing yet is the exception; only a write of one's own is proof against it.)
//
// Corresponds to Curator's sync, which only exists in the background.
func (c *Client) Sync() SyncBuilder { return SyncBuilder{c} }

// ForPath waits until the member has caught up. The path decides nothing in today's servers.
func (b SyncBuilder) ForPath(ctx context.Context, path string) error {
	_, err := foreground(ctx, b.c, b.operation(path))
	return err
}

// InBackground makes the terminal return at once: a read queued behind it sees what the sync has brought.
func (b SyncBuilder) InBackground() Background[SyncBuilder, struct{}] {
	return Background[SyncBuilder, struct{}]{b}
}

func (b SyncBuilder) client() *Client { return b.c }

func (b SyncBuilder) operation(path string) *operation[struct{}] {
	full, err := b.c.fullPath(path)
	return &operation[struct{}]{
		name: "sync", path: path, fault: err, decode: nothing,
		request: func(*epoch) *wire.Call { return newCall(jute.OpSync, &jute.PathRequest{Path: full}) },
	}
}
