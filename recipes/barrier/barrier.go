package barrier

import (
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/retry"
)

// Causes of the end of a membership in a [Double]. Use errors.Is.
var (
	// ErrReleased is returned by a second Leave, and is the cause of the end of a member's context after Leave.
	ErrReleased = framework.ErrReleased
	// ErrSessionLost is the cause if the session was lost, or may have expired, and the membership with it.
	ErrSessionLost = framework.ErrSessionLost
	// ErrNodeDeleted is the cause if another client has deleted the member's node.
	ErrNodeDeleted = framework.ErrNodeDeleted
)

// Barrier is a gate at a path: it is closed while the node at the path exists. It has no state but its
// configuration: share one Barrier, or make a new one for each use. Safe for concurrent use. Corresponds to
// Curator's DistributedBarrier.
type Barrier struct {
	client *framework.Client
	path   string
	err    error // the mistake in New's arguments: every method returns it
}

// New makes the barrier at path. It sends nothing. If an argument is wrong (a nil client, an invalid path or
// the root), every method returns that error, before it sends anything.
func New(client *framework.Client, path string) *Barrier {
	return &Barrier{client, path, line.CheckArguments(client, path)}
}

// Path returns the barrier's path.
func (b *Barrier) Path() string { return b.path }

// Set sets the barrier: it creates a persistent node, which stays when this process ends. Missing parents are
// created as containers. If the barrier is set already, Set returns nil.
//
// Set is repeated by the retry policy. Errors: ErrNotConnected; ErrConnectionLoss if it is unknown whether the
// barrier was set; ErrNoAuth; ErrClosed; ctx's; and the errors that every operation can return.
func (b *Barrier) Set(ctx context.Context) error {
	err := line.CheckCall(ctx, b.client, b.err)
	if err == nil {
		// InBackground sends once, so Retry repeats: if the node was created and the reply lost, the next attempt
		// gets ErrNodeExists, which is success.
		create := b.client.Create().CreatingParentContainersIfNeeded().InBackground()
		err = b.client.Retry(ctx, func(ctx context.Context) error {
			_, err := line.AwaitResult(create.ForPath(ctx, b.path, nil))
			return line.IgnoreError(err, framework.ErrNodeExists)
		}, retry.WithRetryable(line.IsTransient(b.client)))
	}
	return b.wrapError("set", err)
}

// Remove removes the barrier, so that the waiters return. If the barrier is not set, Remove returns nil. It returns
// the errors of Set, and ErrNotEmpty if a client has created nodes below the barrier's node.
func (b *Barrier) Remove(ctx context.Context) error {
	err := line.CheckCall(ctx, b.client, b.err)
	if err == nil {
		err = b.client.Delete().Quietly().ForPath(ctx, b.path)
	}
	return b.wrapError("remove", err)
}

// Wait returns nil if the barrier is not set, and otherwise waits until it is removed or ctx ends. A removal counts
// even if the barrier is set again immediately. Wait sees a barrier that was set before the call, also on a server
// that lags behind. (The exception is a deposed leader that has not detected yet that it is deposed, with its
// followers: see [framework.Client.Sync].)
//
// For the first read the retry policy limits the attempts; the error after the last is ErrNotConnected or
// ErrConnectionLoss. From then on Wait waits through lost connections and lost sessions. Other errors: ctx's;
// ErrSessionLost if the client is the view of a session; ErrClosed; ErrNoAuth if the client lacks READ permission on
// the barrier's node, since the server would not send it the event of the removal. (If READ is revoked later, Wait
// detects the removal within about a session timeout.)
func (b *Barrier) Wait(ctx context.Context) (err error) {
	defer func() { err = b.wrapError("wait", err) }()
	if err := line.CheckCall(ctx, b.client, b.err); err != nil {
		return err
	}
	var first int64 // czxid of the node whose deletion Wait waits for
	for {
		var node framework.DataResult
		var err error
		if first == 0 {
			err = b.client.Retry(ctx, func(ctx context.Context) error {
				node, err = b.readFresh(ctx)
				return err
			}, retry.WithRetryable(line.IsTransient(b.client)))
		} else {
			// No sync here: the first read was fresh, and the client connects only to members that have executed as
			// much.
			err = line.RetryThrough(ctx, b.client, line.Outages, func(ctx context.Context) error {
				node, err = line.AwaitResult(b.readAndWatch(ctx))
				return err
			})
		}
		switch {
		case errors.Is(err, framework.ErrNoNode):
			return nil
		case err != nil:
			return err
		case first == 0:
			first = node.Stat.Czxid
		case first != node.Stat.Czxid: // removed and set again while we had no connection
			node.Watch.Stop()
			return nil
		}
		ev, err := line.AwaitDeletion(ctx, b.client, node.Watch, b.path, first)
		if err != nil || ev.Type == framework.EventNodeDeleted {
			return err
		}
	}
}

// readAndWatch reads the node with a watch. Unlike exists, getData leaves no watch on a missing node.
func (b *Barrier) readAndWatch(ctx context.Context) *framework.Pending[framework.DataResult] {
	return b.client.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, b.path)
}

// readFresh is readAndWatch together with a sync. Without the sync a member that lags might not show yet that the
// barrier was set or removed.
func (b *Barrier) readFresh(ctx context.Context) (framework.DataResult, error) {
	synced, reading := b.client.Sync().InBackground().ForPath(ctx, b.path), b.readAndWatch(ctx)
	_, stale := line.AwaitResult(synced)
	node, err := line.AwaitResult(reading)
	if stale == nil {
		return node, err
	}
	if err == nil {
		node.Watch.Stop()
	}
	return framework.DataResult{}, stale
}

func (b *Barrier) wrapError(verb string, err error) error { return wrapError(b.path, verb, err) }

func wrapError(path, verb string, err error) error { return line.WrapError("barrier", path, verb, err) }
