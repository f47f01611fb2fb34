package barrier

import (
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
	"github.com/go-curator/curator/retry"
)

// Errors that tell how a membership was lost, or given back. Use errors.Is.
var (
	// ErrReleased is what a second Leave returns, and the cause of the context of a member that has left.
	ErrReleased = framework.ErrReleased
	// ErrSessionLost says that the session was lost, or may have expired, and the membership with it.
	ErrSessionLost = framework.ErrSessionLost
	// ErrNodeDeleted says that somebody else has deleted the member's node.
	ErrNodeDeleted = framework.ErrNodeDeleted
)

// Barrier is a gate at a path: closed while there is a node. It has no state but its configuration: make it
// once and share it, or make it anew each time. Safe for concurrent use. Corresponds to Curator's
// DistributedBarrier.
type Barrier struct {
	client *framework.Client
	path   string
	err    error // of New: every method returns it
}

// New makes the barrier at path. It sends nothing. A mistake in the arguments (a nil client, a path that is
// none or the root) is reported by every method, before anything is sent.
func New(client *framework.Client, path string) *Barrier {
	return &Barrier{client, path, queue.Check(client, path)}
}

// Path returns the barrier's path.
func (b *Barrier) Path() string { return b.path }

// Set sets the barrier: a persistent node, which stays when this process ends. Missing parents are made as
// containers. A barrier that is set already is no error.
//
// It is repeated as the retry policy says. Errors: ErrNotConnected; ErrConnectionLoss, and then it may be set
// or not; ErrNoAuth; ErrClosed; ctx's; and those of every operation.
func (b *Barrier) Set(ctx context.Context) error {
	err := queue.Ready(ctx, b.client, b.err)
	if err == nil {
		// One attempt at a time, so that a repeat that meets the node of the one before takes it for done.
		create := b.client.Create().CreatingParentContainersIfNeeded().InBackground()
		err = b.client.Retry(ctx, func(ctx context.Context) error {
			_, err := queue.Result(create.ForPath(ctx, b.path, nil))
			return queue.Unless(err, framework.ErrNodeExists)
		}, retry.WithRetryable(queue.Transient(b.client)))
	}
	return b.wrap("set", err)
}

// Remove removes the barrier and lets those that wait go on. A barrier that is not set is no error. Errors as
// for Set, and ErrNotEmpty if somebody has put nodes below.
func (b *Barrier) Remove(ctx context.Context) error {
	err := queue.Ready(ctx, b.client, b.err)
	if err == nil {
		err = b.client.Delete().Quietly().ForPath(ctx, b.path)
	}
	return b.wrap("remove", err)
}

// Wait returns nil when the barrier is not set, or has been removed while it waited, even if it was set again
// at once. It waits until then or until ctx ends. What was set before the call is seen, also at a member that
// lags behind. (The exception is a leader that was deposed and does not know yet, with those that follow it:
// see [framework.Client.Sync].)
//
// Before it waits, the retry policy decides how long to try: then ErrNotConnected or ErrConnectionLoss. After
// that it waits through lost connections and lost sessions. Other errors: ctx's; ErrSessionLost if the client
// is a session's view; ErrClosed; ErrNoAuth without READ on the barrier's node, since a server tells nobody
// else of its removal. (If READ is taken away later, the removal is noticed within about a session timeout.)
func (b *Barrier) Wait(ctx context.Context) (err error) {
	defer func() { err = b.wrap("wait", err) }()
	if err := queue.Ready(ctx, b.client, b.err); err != nil {
		return err
	}
	var first int64 // czxid of the node that we wait for
	for {
		var node framework.DataResult
		var err error
		if first == 0 {
			err = b.client.Retry(ctx, func(ctx context.Context) error {
				node, err = b.readFresh(ctx)
				return err
			}, retry.WithRetryable(queue.Transient(b.client)))
		} else {
			// The first read was fresh, and the client connects to no member that knows less.
			err = queue.ThroughOutages(ctx, b.client, func(ctx context.Context) error {
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
		case first != node.Stat.Czxid: // removed and set again while no event could reach us
			node.Watch.Stop()
			return nil
		}
		ev, err := awaitDeletion(ctx, b.client, node.Watch, b.path, first)
		if err != nil || ev.Type == framework.EventNodeDeleted {
			return err
		}
	}
}

// read reads the node with a watch. Unlike exists, getData leaves no watch on a node that is not there.
func (b *Barrier) read(ctx context.Context) *framework.Pending[framework.DataResult] {
	return b.client.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, b.path)
}

// readFresh is the first read, in one flight with a sync. Without the sync a member that lags behind might
// not know yet that the barrier is set, or show a node whose removal it has yet to hear of.
func (b *Barrier) readFresh(ctx context.Context) (framework.DataResult, error) {
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

func (b *Barrier) wrap(verb string, err error) error { return wrap(b.path, verb, err) }

func wrap(path, verb string, err error) error { return queue.Wrap("barrier", path, verb, err) }

// awaitDeletion waits for an event of the node at path, and stops the watch. Its end with the session is an
// event, too: the next request tells. If the event gets lost, a look once in a while finds that the node is
// gone or was made anew after the transaction since; for that one needs no right.
func awaitDeletion(
	ctx context.Context, client *framework.Client, watch *framework.Watch, path string, since int64,
) (framework.Event, error) {
	defer watch.Stop()
	return queue.Await(ctx, client, watch, nil, queue.PerTimeout(client), func() (framework.Event, bool) {
		there, err := client.CheckExists().ForPath(ctx, path) // an error passes, or ends the watch too
		gone := err == nil && (there == nil || there.Czxid > since)
		return framework.Event{Type: framework.EventNodeDeleted, Path: path}, gone
	})
}
