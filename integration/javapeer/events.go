package javapeer

import (
	"context"
	"fmt"
	"time"
)

// Event is something that happened at the peer without being asked for.
type Event struct {
	Time  time.Time // when it was read
	Name  string    // "state": the connection's state changed
	Words []string  // of a state: CONNECTED, SUSPENDED, RECONNECTED, LOST, READ_ONLY
}

// Events are all events so far, in order.
func (p *Peer) Events() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Event(nil), p.events...)
}

// AwaitEvent waits for an event that matches and comes after the first seen ones, and returns it with the number of
// events up to it: the next wait's seen.
func (p *Peer) AwaitEvent(ctx context.Context, seen int, match func(Event) bool) (Event, int, error) {
	for {
		p.mu.Lock()
		events, more, ended := p.events, p.more, p.ended
		p.mu.Unlock()
		for ; seen < len(events); seen++ {
			if match(events[seen]) {
				return events[seen], seen + 1, nil
			}
		}
		if ended {
			return Event{}, seen, p.endedErr()
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Event{}, seen, fmt.Errorf("javapeer: no such event, only %v: %w", events, ctx.Err())
		}
	}
}

// AwaitState waits for a state of the connection after the first seen events,
// and returns the next wait's seen.
func (p *Peer) AwaitState(ctx context.Context, seen int, state string) (int, error) {
	_, seen, err := p.AwaitEvent(ctx, seen,
		func(e Event) bool { return e.Name == "state" && len(e.Words) == 1 && e.Words[0] == state })
	return seen, err
}
