package line

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
)

// AwaitResult waits for an operation in the background, whose own context bounds it. A caller that stopped waiting earlier
// would not stop the operation's watch.
func AwaitResult[T any](p *framework.Pending[T]) (T, error) { return p.Wait(context.Background()) }

// AwaitEvent waits for an event of watch, and returns it. It returns the zero Event when stop, which may be nil, is closed,
// and an error when ctx ends. Events can get lost, since servers drop the events of nodes that the client may not read.
// So it also calls look, at the intervals that every returns; if look reports a change it returns the event of look. A
// waiter in line has several watches: see awaitPredecessor.
func AwaitEvent(
	ctx context.Context, client *framework.Client, watch *framework.Watch, stop <-chan struct{},
	every func() time.Duration, look func() (framework.Event, bool),
) (framework.Event, error) {
	check := time.NewTimer(every())
	defer check.Stop()
	for {
		select {
		case event := <-watch.C:
			return event, nil
		case <-stop:
			return framework.Event{}, nil
		case <-ctx.Done():
			return framework.Event{}, client.WaitError(ctx, nil)
		case <-check.C:
			if event, changed := look(); changed {
				return event, nil
			}
			check.Reset(every())
		}
	}
}

// AwaitDeletion waits for an event of watch, which is on the node at path, and stops the watch. It also returns an
// EventEnd, when the session ends: then the caller reads again. Events can get lost, so about once per session timeout
// it checks whether the node is gone, or was created again, with a czxid above since. Without READ permission newer
// servers show only whether it is gone.
func AwaitDeletion(
	ctx context.Context, client *framework.Client, watch *framework.Watch, path string, since int64,
) (framework.Event, error) {
	defer watch.Stop()
	return AwaitEvent(ctx, client, watch, nil, SessionTimeoutInterval(client), func() (framework.Event, bool) {
		found, err := client.CheckExists().ForPath(ctx, path) // an error is temporary, or also ends the watch
		gone := err == nil && (found == nil || found.Czxid > since)
		return framework.Event{Type: framework.EventNodeDeleted, Path: path}, gone
	})
}

// SessionTimeoutInterval returns an interval for [AwaitEvent]: about a session timeout, random so that waiters do not look
// at the same time.
func SessionTimeoutInterval(client *framework.Client) func() time.Duration {
	return func() time.Duration { return Jittered(client.Safety().SessionTimeout) }
}

// Jittered returns a random duration around d, or around ten seconds if d is not known.
func Jittered(d time.Duration) time.Duration {
	if d <= 0 {
		d = 10 * time.Second
	}
	return chance.Around(d)
}

// WatchEvents returns the channel of a watch; nil, which never receives, without one.
func WatchEvents(w *framework.Watch) <-chan framework.Event {
	if w == nil {
		return nil
	}
	return w.C
}
