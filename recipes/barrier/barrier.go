package barrier

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
	"github.com/go-curator/curator/retry"
)

// Errors that tell how a membership was lost, or given back. Use errors.Is.
var (
	// ErrReleased is what a second Leave returns, and the cause of the context of a member that has left.
	ErrReleased = framework.ErrReleased
	// ErrSessionLost says that the session was lost, or cannot be trusted to live any more, and the membership with it.
	ErrSessionLost = framework.ErrSessionLost
	// ErrNodeDeleted says that somebody else has deleted the member's node.
	ErrNodeDeleted = framework.ErrNodeDeleted
)

// Barrier is a gate at a path: closed while there is a node. It has no state but its configuration, and sharing it or making it anew
// makes no difference. Safe for concurrent use.
//
// Corresponds to Curator's DistributedBarrier.
type Barrier struct {
	client *framework.Client
	path   string
	err    error // of New: every method returns it
}

// New makes the barrier at path. It sends nothing. A mistake in the arguments (a nil client, a path that cannot be one or is the root) is reported by
// every method, before anything is sent.
func New(client *framework.Client, path string) *Barrier {
	return &Barrier{client, path, queue.Check(client, path)}
}

// Path returns the barrier's path.
func (b *Barrier) Path() string { return b.path }

// Set sets the barrier: a persistent node, which stays when this process ends. Missing parents are made as containers. A barrier that is
// set already is fine.
//
// It is repeated as the retry policy says. Errors: ErrNotConnected; ErrConnectionLoss, and then it may be set or not; ErrNoAuth; ErrClosed;
// ctx's; and those of every operation.
func (b *Barrier) Set(ctx context.Context) error {
	err := queue.Ready(ctx, b.client, b.err)
	if err == nil {
		// One attempt at a time, so that a repeat that meets the node of the one before sees just that.
		create := b.client.Create().CreatingParentContainersIfNeeded().InBackground()
		err = b.client.Retry(ctx, func(ctx context.Context) error {
			_, err := queue.Result(create.ForPath(ctx, b.path, nil))
			return unless(err, framework.ErrNodeExists)
		}, retry.WithRetryable(queue.Passing(b.client)))
	}
	return b.failed("set", err)
}

// Remove removes the barrier and lets those who wait go on. A barrier that is not set is fine. Errors as for Set, and ErrNotEmpty if
// somebody has put nodes below.
func (b *Barrier) Remove(ctx context.Context) error {
	err := queue.Ready(ctx, b.client, b.err)
	if err == nil {
		err = b.client.Delete().Quietly().ForPath(ctx, b.path)
	}
	return b.failed("remove", err)
}

// Wait returns nil when the barrier is not set, or has been removed while it waited, even if it was set again at once. What was set before the call
// is seen, also at a member that lags behind. (A leader that has been deposed without noticing yet, as after a standstill, is the exception, with those that follow it: see
// [framework.Client.Sync].) It waits until then or until ctx ends. Lost connections and lost sessions are sat out once it waits; before that the retry policy decides.
//
// Errors: ctx's; ErrSessionLost if the client is a session's view; ErrNotConnected and ErrConnectionLoss; ErrNoAuth without READ on the barrier's node, since a server tells nobody else of its
// removal (if it is taken away later, the removal is noticed within about a session timeout); ErrClosed.
func (b *Barrier) Wait(ctx context.Context) error {
	err := queue.Ready(ctx, b.client, b.err)
	if err == nil {
		err = b.wait(ctx)
	}
	return b.failed("wait", err)
}

func (b *Barrier) wait(ctx context.Context) error {
	var first int64 // czxid of the node that we wait for
	for {
		var node framework.DataResult
		var err error
		if first == 0 {
			err = b.client.Retry(ctx, func(ctx context.Context) error {
				node, err = b.look(ctx)
				return err
			}, retry.WithRetryable(queue.Passing(b.client)))
		} else {
			// The first look was fresh, and no member that shows less is connected to after it.
			err = queue.Patiently(ctx, b.client, func(ctx context.Context) error {
				node, err = queue.Result(b.read(ctx))
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
		case first != node.Stat.Czxid: // removed and set again while nobody could tell us
			node.Watch.Stop()
			return nil
		}
		ev, err := next(ctx, b.client, node.Watch, b.path, first)
		if err != nil || ev.Type == framework.EventNodeDeleted {
			return err
		}
	}
}

// read reads the node with a watch. Of a node that is not there getData leaves none behind, unlike exists.
func (b *Barrier) read(ctx context.Context) *framework.Pending[framework.DataResult] {
	return b.client.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, b.path)
}

// look is the first read, in one flight with the sync without which a member that lags behind might not know yet that the barrier is set. Nor is it
// enough without the sync that there is a node: it may be one that was there before, whose removal has yet to be heard of.
func (b *Barrier) look(ctx context.Context) (framework.DataResult, error) {
	synced, reading := b.client.Sync().InBackground().ForPath(ctx, b.path), b.read(ctx)
	_, stale := queue.Result(synced)
	node, err := queue.Result(reading)
	if stale == nil {
		return node, err
	}
	if err == nil {
		node.Watch.Stop()
	}
	return framework.DataResult{}, stale
}

func (b *Barrier) failed(verb string, err error) error { return failed(b.path, verb, err) }

func failed(path, verb string, err error) error { return queue.Failed("barrier", path, verb, err) }

// next waits for a watch's event, and takes the watch back if it does not come. That it ended with its session is for the next request to deal
// with. Events get lost for reasons that are nobody's fault here: a newer server drops those of nodes that we may not READ any more. So once in a while
// it looks at the node at path, for which one needs no right, and makes the event up if that is gone, or was made anew after the transaction since.
func next(ctx context.Context, client *framework.Client, watch *framework.Watch, path string, since int64) (framework.Event, error) {
	defer watch.Stop()
	check := time.NewTimer(queue.Jittered(client.Safety().SessionTimeout))
	defer check.Stop()
	for {
		select {
		case ev := <-watch.C:
			return ev, nil
		case <-check.C:
			there, err := client.CheckExists().ForPath(ctx, path)
			if err == nil && (there == nil || there.Czxid > since) {
				return framework.Event{Type: framework.EventNodeDeleted, Path: path}, nil
			}
			check.Reset(queue.Jittered(client.Safety().SessionTimeout)) // an error passes, or ends the watch too
		case <-ctx.Done():
			return framework.Event{}, client.Left(ctx, nil)
		}
	}
}

// unless takes an expected error for success.
func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
