package node

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// touchName is the name of the child whose TTL keeps a node there, as in Curator.
const touchName = "touch"

// touch writes to the child of a node with a TTL, until ctx ends.
func (k *Keeper) touch(ctx context.Context, ttl time.Duration) {
	child := zkpath.Join(k.path, touchName)
	for ; ctx.Err() == nil; k.client.Pause(ctx, ttl/2) {
		if k.WaitCreated(ctx) != nil {
			continue
		}
		_, err := k.client.SetData().ForPath(ctx, child, nil)
		if errors.Is(err, framework.ErrNoNode) {
			make := k.client.Create().WithMode(framework.PersistentTTL).WithTTL(ttl)
			_, err = make.ForPath(ctx, child, nil)
		}
		if err != nil && ctx.Err() == nil && !queue.Transient(k.client)(err) {
			k.client.Logger().Warn("a node with a TTL cannot be kept", "path", child, "err", err)
		}
	}
}
