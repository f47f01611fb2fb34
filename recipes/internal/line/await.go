package line

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
)

// AwaitResult waits for an operation that was queued with a separate context, which bounds it. A caller that stopped waiting
// earlier would leave the operation's watches behind.
func AwaitResult[T any](p *framework.Pending[T]) (T, error) { return p.Wait(context.Background()) }

// AwaitEvent waits for an event of watch, until ctx ends, which is its error, or until over, if not nil, is closed; then it
// returns the zero Event. Events can get lost, since servers drop the events of nodes that the client may not read. So
// it also calls look, at the intervals that every returns, and returns its event if look has found a change.
func AwaitEvent(
	ctx context.Context, client *framework.Client, watch *framework.Watch, over <-chan struct{},
	every func() time.Duration, look func() (framework.Event, bool),
) (framework.Event, error) {
	check := time.NewTimer(every())
	defer check.Stop()
	for {
		select {
		case event := <-watch.C:
			return event, nil
		case <-over:
			return framework.Event{}, nil
		case <-ctx.Done():
			return framework.Event{}, client.Left(ctx, nil)
		case <-check.C:
			if event, changed := look(); changed {
				return event, nil
			}
			check.Reset(every())
		}
	}
}

// SessionTimeoutInterval is an interval for [AwaitEvent]: about one session timeout, random so that waiters do not look all at
// the same time.
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

// WatchEvents is the channel of a watch; without one it is nil, and nothing ever comes.
func WatchEvents(w *framework.Watch) <-chan framework.Event {
	if w == nil {
		return nil
	}
	return w.C
}
