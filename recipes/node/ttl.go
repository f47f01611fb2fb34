package node

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// touchName is the name of the child whose TTL keeps a node alive, as in Curator.
const touchName = "touch"

// createTTLNode creates a node with a TTL together with its child, and missing parents, and returns the node's czxid.
// A server never deletes a container that has had no child, so the process must not be able to end between the two
// creates.
func createTTLNode(
	ctx context.Context, view *framework.Client, path string, data []byte, ttl time.Duration,
) (czxid int64, err error) {
	to := view.TransactionOp()
	node := to.Create().WithMode(framework.Container).ForPath(path, data)
	child := to.Create().WithMode(framework.PersistentTTL).WithTTL(ttl).ForPath(zkpath.Join(path, touchName), nil)
	results, err := line.AwaitResult(view.TransactionInBackground(ctx, node, child))
	if errors.Is(err, framework.ErrNoNode) {
		// A server without TTLs refuses the create before it checks the parents. Do not create them in vain.
		if _, err = line.AwaitResult(view.TransactionInBackground(ctx, child)); errors.Is(err, framework.ErrNoNode) {
			err = view.CreateContainers(ctx, zkpath.Parent(path))
		}
		if err == nil {
			results, err = line.AwaitResult(view.TransactionInBackground(ctx, node, child))
		}
	}
	if err != nil {
		return 0, err
	}
	return results[0].Stat.Czxid, nil
}

// touchChild writes to the child of a node with a TTL, until ctx ends.
func (k *Keeper) touchChild(ctx context.Context, ttl time.Duration) {
	child := zkpath.Join(k.path, touchName)
	there := func() (bool, error) { return k.status.State == There, k.refusal }
	for ; ctx.Err() == nil; k.client.Pause(ctx, ttl/2) {
		if k.awaitStatus(ctx, there) != nil {
			continue
		}
		_, err := k.client.SetData().ForPath(ctx, child, nil)
		if errors.Is(err, framework.ErrNoNode) { // the node may be a former process's
			create := k.client.Create().WithMode(framework.PersistentTTL).WithTTL(ttl)
			_, err = create.ForPath(ctx, child, nil)
		}
		refused := err != nil && !line.IsTransient(k.client)(err)
		if refused && ctx.Err() == nil {
			k.client.Logger().Warn("cannot refresh a node with a TTL", "path", child, "err", err)
		}
		if err == nil || refused {
			k.mu.Lock()
			k.childWritten, k.childErr = err == nil, err
			k.changed.Fire()
			k.mu.Unlock()
		}
	}
}
