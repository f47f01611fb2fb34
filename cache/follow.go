package cache

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/go-curator/curator/framework"
)

// Follow yields the contents of a cache whenever they have changed: by path, or by name for a PathChildren. The
// iteration begins as soon as the cache is in sync. From then on it yields the nodes of one moment each time: a slow
// loop misses states in between, but never the last one. Do not change the yielded maps.
//
// While there is no connection nothing is yielded, and after a reconnect only if something has changed: another node,
// or other data. Use [Cache.Events] for the individual changes, and for changes of the connection.
//
// The iteration ends when the loop breaks, and with one error when ctx or the cache ends, as Events does.
func Follow(ctx context.Context, source Source) iter.Seq2[map[string]Node, error] {
	return func(yield func(map[string]Node, error) bool) {
		var last map[string]Node // nil before the first
		loaded, changed := false, true
		onDrained := func() bool {
			if !loaded || !changed {
				return true
			}
			changed = false
			nodes := maps.Collect(source.entries()) // may be ahead of the events
			if last != nil && maps.EqualFunc(last, nodes, sameState) {
				return true
			}
			last = nodes
			return yield(nodes, nil)
		}
		source.nonNilEngine().streamEvents(ctx, onDrained, func(ev Event, err error) bool {
			switch ev.Type {
			case Initialized:
				loaded = true
			case Created, Changed, Deleted:
				changed = true
			}
			return err == nil || yield(nil, err)
		})
	}
}

func sameState(a, b Node) bool { return sameNode(a.Stat, b.Stat) && sameData(a.Stat, b.Stat) }

func (e *engine) eventStream(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		e.streamEvents(ctx, func() bool { return true }, yield)
	}
}

// streamEvents calls yield with each event until yield returns false, and with the error that ends the stream. Whenever no event
// waits it calls onDrained, which ends the stream, too, by returning false.
func (e *engine) streamEvents(ctx context.Context, onDrained func() bool, yield func(Event, error) bool) {
	if ctx == nil {
		yield(Event{}, framework.ErrNilContext)
		return
	}
	sub := e.store.subscribe(e.cfg.eventBuffer)
	defer e.store.unsubscribe(sub)
	for {
		if ctx.Err() != nil {
			yield(Event{}, fmt.Errorf("cache %s: the event subscription has ended: %w",
				e.cfg.root, e.cfg.client.WaitError(ctx, nil))) // ctx's error, and why there is no connection
			return
		}
		ev, ok, endErr := sub.nextEvent()
		switch {
		case endErr != nil:
			yield(Event{}, endErr)
			return
		case ok:
			if !yield(ev, nil) {
				return
			}
			continue
		case !onDrained():
			return
		}
		select {
		case <-sub.wakeup:
		case <-ctx.Done():
		}
	}
}
