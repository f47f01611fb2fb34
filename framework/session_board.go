package framework

import (
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/flow"
)

// board has the state of the client and sends every change to every subscriber, in order and without loss:
// each has a queue of its own.
type board struct {
	spawn func(func()) bool // a goroutine that Close waits for; false after Close has begun
	done  <-chan struct{}   // the client is closed

	mu      sync.Mutex
	now     StateChange
	since   time.Time // of now
	away    time.Time // the end of the last connection to a quorum; zero with one
	changed flow.Signal
	subs    map[*flow.Queue[StateChange]]struct{} // of the subscribers
}

func newBoard(spawn func(func()) bool, done <-chan struct{}) *board {
	began := time.Now()
	return &board{spawn: spawn, done: done, since: began, away: began,
		subs: map[*flow.Queue[StateChange]]struct{}{}}
}

// announce never waits.
func (b *board) announce(change StateChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now, b.since = change, time.Now()
	if quorum := change.State == Connected || change.State == Reconnected; quorum {
		b.away = time.Time{}
	} else if b.away.IsZero() {
		b.away = b.since
	}
	b.changed.Fire()
	for s := range b.subs {
		s.Put(change)
	}
}

// age returns the state, when it began, and since when there is no connection to a member with a quorum:
// since New if there has been none.
func (b *board) age() (now StateChange, since, away time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.since, b.away
}

// look returns the state and a channel that is closed when it is no longer the current one.
func (b *board) look() (StateChange, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.changed.C()
}

func (b *board) subscribe(ctx context.Context) <-chan StateChange {
	out := make(chan StateChange)
	s := flow.NewQueue[StateChange]()
	b.mu.Lock()
	if b.now.State != NeverConnected {
		s.Put(b.now)
	}
	b.subs[s] = struct{}{}
	b.mu.Unlock()
	if !b.spawn(func() { b.pump(ctx, s, out) }) {
		b.drop(s)
		close(out)
	}
	return out
}

func (b *board) pump(ctx context.Context, s *flow.Queue[StateChange], out chan<- StateChange) {
	defer close(out)
	defer b.drop(s)
	for {
		select {
		case <-s.More():
		case <-ctx.Done():
			return
		case <-b.done:
			return
		}
		for _, change := range s.Take() {
			select {
			case out <- change:
			case <-ctx.Done():
				return
			case <-b.done:
				return
			}
		}
	}
}

func (b *board) drop(s *flow.Queue[StateChange]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, s)
}
