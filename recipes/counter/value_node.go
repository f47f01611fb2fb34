package counter

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/retry"
)

// valueNode reads and writes a node's data as a whole; all types of this package build on it.
type valueNode struct {
	client *framework.Client
	path   string
	err    error // of the constructor: every method returns it

	// slot has room for one: the goroutine that uses the mark, whose version has to be tracked.
	slot chan struct{}
	mark *ownMark // used only by the goroutine in the slot
}

// nodeContent is the data of the node, and the Stat that they came with.
type nodeContent struct {
	data []byte
	stat framework.Stat
}

func newValueNode(client *framework.Client, path string) *valueNode {
	return &valueNode{client: client, path: path, err: line.CheckArguments(client, path), slot: make(chan struct{}, 1)}
}

// checkReady returns an error if no method can be called. The zero values of the exported types have no valueNode.
func (r *valueNode) checkReady(ctx context.Context) error {
	if r == nil {
		return framework.ErrNoClient
	}
	return line.CheckCall(ctx, r.client, r.err)
}

// acquireSlot waits for the slot.
func (r *valueNode) acquireSlot(ctx context.Context) error {
	select {
	case r.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return r.client.WaitError(ctx, nil)
	}
}

func (r *valueNode) releaseSlot() { <-r.slot }

func (r *valueNode) readContent(ctx context.Context) (c nodeContent, err error) {
	c.data, err = r.client.GetData().Undecompressed().StoringStatIn(&c.stat).ForPath(ctx, r.path)
	c.data, err = line.UnpackData(r.client, r.path, c.data, err)
	return c, err
}

// overwriteData replaces the data, whatever they were. A repeat writes the same data.
func (r *valueNode) overwriteData(ctx context.Context, data []byte) error {
	_, err := r.client.Create().CreatingParentContainersIfNeeded().OrSetData().ForPath(ctx, r.path, data)
	return err
}

// createNode makes the node if there is none, through a view of the client.
func (r *valueNode) createNode(ctx context.Context, view *framework.Client, data []byte) error {
	// One attempt at a time, so that a repeat takes the node of an earlier attempt for success.
	create := view.Create().CreatingParentContainersIfNeeded().InBackground()
	return view.Retry(ctx, func(ctx context.Context) error {
		_, err := line.AwaitResult(create.ForPath(ctx, r.path, data))
		return line.IgnoreError(err, framework.ErrNodeExists)
	})
}

// readOrCreate reads the node, after making it if there is none.
func (r *valueNode) readOrCreate(ctx context.Context, data []byte) (nodeContent, error) {
	for {
		c, err := r.readContent(ctx)
		if errors.Is(err, framework.ErrNoNode) {
			if err = r.createNode(ctx, r.client, data); err == nil {
				continue
			}
		}
		return c, err
	}
}

// checkUnchanged returns nil if the node's last change was the transaction mzxid.
func (r *valueNode) checkUnchanged(ctx context.Context, mzxid int64) error {
	synced := r.client.Sync().InBackground().ForPath(ctx, r.path)
	looking := r.client.CheckExists().InBackground().ForPath(ctx, r.path)
	_, stale := line.AwaitResult(synced)
	now, err := line.AwaitResult(looking)
	return compareMzxid(now.Stat, cmp.Or(stale, err), mzxid)
}

// proveUnchanged is checkUnchanged with a transaction instead of the sync, to which a leader that has lost its quorum
// replies as well. The transaction changes nothing, so it can be repeated.
func (r *valueNode) proveUnchanged(ctx context.Context, mzxid int64) error {
	return r.client.Retry(ctx, func(ctx context.Context) error {
		committed := r.client.TransactionInBackground(ctx, r.client.TransactionOp().Check().ForPath(r.path))
		looking := r.client.CheckExists().InBackground().ForPath(ctx, r.path)
		_, failed := line.AwaitResult(committed)
		now, err := line.AwaitResult(looking)
		return compareMzxid(now.Stat, cmp.Or(failed, err), mzxid)
	}, retry.WithRetryable(line.IsTransient(r.client)))
}

func compareMzxid(now *framework.Stat, err error, mzxid int64) error {
	switch {
	case err != nil:
		return err
	case now == nil:
		return framework.ErrNoNode
	case now.Mzxid != mzxid:
		return errChanged
	}
	return nil
}

var errChanged = explainError("it was changed, or created again, since it was read", framework.ErrBadVersion)
