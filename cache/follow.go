package cache

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"time"

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
		f := follower{source: source}
		onDrained := func() bool {
			nodes, changed := f.takeChange()
			return !changed || yield(nodes, nil)
		}
		source.nonNilEngine().streamEvents(ctx, onDrained, func(ev Event, err error) bool {
			f.addEvent(ev)
			return err == nil || yield(nil, err)
		})
	}
}

// FollowNode returns the node at path, and a channel for its later states; nil means that there is no node. It waits until
// the node has been read. The channel has room for one state, and a newer state replaces it: a slow receiver misses states
// in between, but never the last one. A state may be equal to the one before. Nothing is sent while there is no connection.
//
// The channel is closed when ctx ends, when the client is closed or, for the view of a session, when that session ends:
// until then the node is watched, by a goroutine of the cache. The error is that of [Single.WaitSynced], or of the options,
// or the reason why the node cannot be read, such as framework.ErrNoAuth; later the last state that could be read remains.
func FollowNode(
	ctx context.Context, client *framework.Client, path string, opts ...Option,
) (*Node, <-chan *Node, error) {
	c, err := NewNode(client, path, opts...)
	if err != nil {
		return nil, nil, err
	}
	return followInBackground(ctx, c, func(nodes map[string]Node) *Node {
		if n, exists := nodes[path]; exists {
			return &n
		}
		return nil
	})
}

// FollowChildren is [FollowNode] for the children of the node at path, by name. Each state is that of one moment. A child
// that cannot be read is missing. Do not change the maps. A map of many children takes a while to make, so after each the
// next is made only after ten times as long: changes come a little later, and the cache is not slowed down.
func FollowChildren(
	ctx context.Context, client *framework.Client, path string, opts ...Option,
) (map[string]Node, <-chan map[string]Node, error) {
	c, err := NewPathChildren(client, path, opts...)
	if err != nil {
		return nil, nil, err
	}
	return followInBackground(ctx, c, func(nodes map[string]Node) map[string]Node { return nodes })
}

// followInBackground waits for the contents of a cache, and has the cache's goroutine send views of the later ones, until
// ctx ends. Then the cache is closed.
func followInBackground[T any](
	ctx context.Context, source Source, view func(map[string]Node) T,
) (first T, states <-chan T, err error) {
	e := source.nonNilEngine()
	if err = e.waitSynced(ctx); err == nil {
		err = e.store.rootFailure()
	}
	if err != nil {
		e.cancel(ErrClosed) // and does not wait for functions of the options
		return first, nil, err
	}
	begun, later := make(chan T, 1), make(chan T, 1)
	e.postCall(func() {
		f := &follower{source: source, loaded: true, changed: true}
		nodes, _ := f.takeChange()
		begun <- view(nodes)
		stop := context.AfterFunc(ctx, e.close)
		e.following = &following{
			subscription: e.store.subscribe(1),
			follower:     f,
			send: func(nodes map[string]Node) {
				select {
				case <-later: // the receiver has missed it
				default:
				}
				later <- view(nodes)
			},
			end: func() { stop(); close(later) },
		}
	})
	select {
	case first = <-begun:
		return first, later, nil
	case <-e.ctx.Done():
		return first, nil, context.Cause(e.ctx)
	}
}

// following is a subscription that the cache's own goroutine receives.
type following struct {
	*subscription
	*follower
	send   func(nodes map[string]Node)
	end    func()
	nextAt time.Time // when the next state may be made; zero: immediately
}

// receiveEvents receives the events that wait, and sends a state if they have changed the contents. The states take at most
// about a tenth of the goroutine's time.
func (f *following) receiveEvents() {
	for {
		ev, ok, _ := f.nextEvent()
		if !ok {
			break
		}
		f.addEvent(ev)
	}
	began := time.Now()
	if !f.changed || began.Before(f.nextAt) {
		return
	}
	if nodes, changed := f.takeChange(); changed {
		f.send(nodes)
	}
	f.nextAt = time.Now().Add(10 * time.Since(began))
}

// dueAt returns when a state has to be made for changes that wait; zero without such changes.
func (f *following) dueAt() time.Time {
	if f == nil || !f.changed {
		return time.Time{}
	}
	return f.nextAt
}

// follower decides whether a cache's contents have changed, from the cache's events.
type follower struct {
	source          Source
	last            map[string]Node // nil before the first
	loaded, changed bool
}

func (f *follower) addEvent(ev Event) {
	switch ev.Type {
	case Initialized:
		f.loaded = true
	case Created, Changed, Deleted:
		f.changed = true
	}
}

// takeChange returns the contents if they have changed since the last call. No event waits.
func (f *follower) takeChange() (nodes map[string]Node, changed bool) {
	if !f.loaded || !f.changed && f.last != nil {
		return nil, false
	}
	f.changed = false
	nodes = maps.Collect(f.source.entries()) // may be ahead of the events
	if f.last != nil && maps.EqualFunc(f.last, nodes, sameState) {
		return nil, false
	}
	f.last = nodes
	return nodes, true
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
