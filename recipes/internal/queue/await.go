package queue

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
)

// Await waits for an event of watch, until ctx ends, which is its error, or until over, if not nil, is
// closed, which is no event. Events can get lost, since servers drop those of nodes that the client may not
// read. So after each time that every returns it calls look, and when that finds a change, returns the event
// that look makes of it.
func Await(
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

// PerTimeout is an interval for [Await]: about one session timeout, random so that waiters do not look all at
// the same time.
func PerTimeout(client *framework.Client) func() time.Duration {
	return func() time.Duration { return Jittered(client.Safety().SessionTimeout) }
}

// Jittered returns a random duration around d, or around ten seconds if d is not known.
func Jittered(d time.Duration) time.Duration {
	if d <= 0 {
		d = 10 * time.Second
	}
	return chance.Around(d)
}

// Events is the channel of a watch; without one it is nil, and nothing ever comes.
func Events(w *framework.Watch) <-chan framework.Event {
	if w == nil {
		return nil
	}
	return w.C
}
