package framework

import (
	"context"
	"errors"
	"sync"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// EventType is the kind of change that a watch has seen.
type EventType int8

const (
	// EventNodeCreated reports that the node was created.
	EventNodeCreated EventType = iota + 1
	// EventNodeDeleted reports that the node was deleted.
	EventNodeDeleted
	// EventNodeDataChanged reports that the node's data was set, possibly to the same value.
	EventNodeDataChanged
	// EventNodeChildrenChanged reports that a child was created or deleted.
	EventNodeChildrenChanged
	// EventReset reports, only to persistent watches, that events may be missing: the client has reconnected, or more
	// than [WatchBacklog] events were waiting to be received. It stands for all the missing events. Events before it
	// report earlier changes; events after it report later changes, or repeat some. Read again everything that the
	// watch covers. Path is the path of the watch.
	EventReset
	// EventEnd is the last event of a watch whose session has ended. Err has the reason. To continue, set a new watch.
	EventEnd
)

func (t EventType) String() string {
	return enumName("EventType", t, "EventType(0)", "NodeCreated", "NodeDeleted", "NodeDataChanged",
		"NodeChildrenChanged", "Reset", "End")
}

// Event reports that a node has changed, but not its new state: read the node again.
type Event struct {
	Type EventType
	// Path is the path of the changed node, relative to the view's namespace and the chroot.
	Path string
	// Err is ErrSessionLost or ErrClosed with EventEnd, otherwise nil.
	Err error
}

// Watch is a watch that has been set. It survives reconnects within its session: a one-shot watch fires after the
// reconnect if the node has changed in the meantime. The event of a change is delivered before the reply to any read of
// this client that shows the change.
//
// C and Stop are safe for concurrent use.
type Watch struct {
	// C delivers the events in order. It is closed after the first event (one-shot), after EventEnd (persistent), or by
	// Stop. Events wait in memory for the receiver, for a persistent watch up to [WatchBacklog] of them. Then one
	// EventReset, the last that waits, stands for the rest. A slow receiver delays no other. Close of the client closes
	// C and drops the events that have not been received. C is nil if the watch has a callback, whose events wait up to
	// the same limit.
	C <-chan Event

	client   *Client
	fullPath string
	kind     wire.WatchKind
	callback func(Event)    // nil: events are sent to C
	channel  chan Event     // C, to send to; closed when noMoreEvents is set and no event waits
	overflow *watchOverflow // nil for a one-shot watch without a callback: its only event always fits into channel

	mu           sync.Mutex
	epoch        *sessionEpoch // the epoch of armed; guarded by mu
	armed        *wire.Watch   // nil while the watch is not armed; guarded by mu
	stopped      bool          // Stop was called; guarded by mu
	noMoreEvents bool          // guarded by mu
	closed       bool          // channel is closed; guarded by mu
}

// watchOverflow is the part of a watch that only a watch whose receiver can fall behind needs. It is separate to save
// memory: most watches are one-shot watches of waiters, which do without.
type watchOverflow struct {
	stopped chan struct{} // closed by Stop
	queue   []Event       // events that did not fit into the channel; guarded by Watch.mu
	backlog eventBacklog  // counts the events that wait in queue or for the callback; guarded by Watch.mu
	pumping bool          // pumpEvents runs, and alone sends to the channel; guarded by Watch.mu
}

// newWatch makes the watch of one operation; callback may be nil.
func newWatch(c *Client, kind wire.WatchKind, fullPath string, callback func(Event)) *Watch {
	w := &Watch{client: c, kind: kind, fullPath: fullPath, callback: callback}
	room, persistent := 1, kind == wire.Persistent || kind == wire.Recursive
	if persistent {
		room = 64 // so that a receiver that keeps up needs no goroutine
	}
	if persistent || callback != nil {
		w.overflow = &watchOverflow{stopped: make(chan struct{})}
		w.overflow.backlog.unbounded = callback != nil && !c.isZeroValue() && c.view.forRecipes
	}
	if callback == nil {
		w.channel = make(chan Event, room)
		w.C = w.channel
	}
	return w
}

func (w *Watch) armWatches(e *sessionEpoch, call *wire.Call) { call.Watch = w.newWireWatch(e) }

// newWireWatch returns the watch to arm with a request in epoch e. From now on only its events are delivered.
func (w *Watch) newWireWatch(e *sessionEpoch) *wire.Watch {
	armed := &wire.Watch{Kind: w.kind, Path: w.fullPath}
	armed.Fn = func(ev wire.WatchEvent) { w.deliverEvent(armed, ev) }
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch, w.armed = e, armed
	return armed
}

func (w *Watch) disarmWatches() {
	w.mu.Lock()
	e, armed := w.epoch, w.armed
	w.epoch, w.armed = nil, nil
	w.mu.Unlock()
	if armed != nil {
		e.wire.Unwatch(armed)
	}
}

// Stop ends the watch, and makes the client remove it from the server if no other watch needs it there. C is closed,
// and events that have not been received are dropped. Stop does not block: it waits neither for the server nor for a
// running callback. A second call does nothing, nor does a call after the watch has ended.
func (w *Watch) Stop() {
	if w == nil || w.client == nil {
		return // the zero value
	}
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return
	}
	w.stopped, w.noMoreEvents = true, true
	if w.overflow != nil {
		close(w.overflow.stopped)
		w.overflow.queue = nil
	}
	if w.overflow == nil || !w.overflow.pumping {
		w.closeChannel()
	}
	w.mu.Unlock()
	w.disarmWatches()
}

// closeChannel closes the channel once. mu is held.
func (w *Watch) closeChannel() {
	if w.channel != nil && !w.closed {
		w.closed = true
		close(w.channel)
	}
}

// deliverEvent takes an event of the watch from, on the goroutine that reads from the server: so it must not block.
func (w *Watch) deliverEvent(from *wire.Watch, we wire.WatchEvent) {
	ev, ok := w.translateEvent(we)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || w.noMoreEvents || w.armed != from {
		return
	}
	w.noMoreEvents = ev.Type == EventEnd || w.kind == wire.Data || w.kind == wire.Child
	switch {
	case w.callback != nil:
		w.queueCallback(ev)
	case w.overflow == nil:
		w.channel <- ev // does not block: it is the only event
		w.closeChannel()
	default:
		w.sendEvent(ev)
	}
}

// sendEvent sends an event to the channel or, if that is full, queues it for pumpEvents. mu is held.
func (w *Watch) sendEvent(ev Event) {
	if !w.overflow.pumping {
		select {
		case w.channel <- ev:
			if w.noMoreEvents {
				w.closeChannel()
			}
			return
		default:
		}
	}
	if ev, ok := w.overflow.backlog.admitEvent(ev, w.client.userPath(w.fullPath)); ok {
		w.overflow.queue = append(w.overflow.queue, ev)
	}
	if !w.overflow.pumping {
		w.overflow.pumping = true
		w.client.core.ops.workers.spawn(w.pumpEvents)
	}
}

// queueCallback queues a call of the callback with an event. mu is held.
func (w *Watch) queueCallback(ev Event) {
	ev, ok := w.overflow.backlog.admitEvent(ev, w.client.userPath(w.fullPath))
	if !ok {
		return
	}
	w.client.executors().callbacks.enqueue(func() {
		w.mu.Lock()
		w.overflow.backlog.recordReceived(ev)
		ended := w.stopped
		w.mu.Unlock()
		if !ended {
			w.callback(ev)
		}
	})
}

// pumpEvents sends the queued events to a receiver that has fallen behind. It returns when the queue is empty, or Stop
// or Close of the client empties it.
func (w *Watch) pumpEvents() {
	o := w.overflow
	for {
		w.mu.Lock()
		if len(o.queue) == 0 {
			o.pumping, o.queue = false, nil
			if w.noMoreEvents {
				w.closeChannel()
			}
			w.mu.Unlock()
			return
		}
		ev := o.queue[0]
		o.queue = o.queue[1:]
		o.backlog.recordReceived(ev)
		w.mu.Unlock()
		select {
		case w.channel <- ev:
		case <-o.stopped:
		case <-w.client.core.ops.workers.ctx.Done():
			w.mu.Lock()
			w.noMoreEvents, o.queue = true, nil
			w.mu.Unlock()
		}
	}
}

var eventTypes = map[int32]EventType{
	jute.EventNodeCreated:         EventNodeCreated,
	jute.EventNodeDeleted:         EventNodeDeleted,
	jute.EventNodeDataChanged:     EventNodeDataChanged,
	jute.EventNodeChildrenChanged: EventNodeChildrenChanged,
	wire.EventReset:               EventReset,
	wire.EventEnd:                 EventEnd,
}

// translateEvent returns the Event for an event of package wire. ok is false for a type that is not reported.
func (w *Watch) translateEvent(we wire.WatchEvent) (ev Event, ok bool) {
	if ev.Type, ok = eventTypes[we.Type]; ev.Type != EventEnd {
		ev.Path = w.client.userPath(we.Path)
		return ev, ok
	}
	ev.Path, ev.Err = w.client.userPath(w.fullPath), ErrSessionLost
	if errors.Is(we.Err, wire.ErrClosed) {
		ev.Err = ErrClosed
	}
	return ev, true
}

// WatchMode selects the nodes that a persistent watch covers.
type WatchMode int8

const (
	// PersistentRecursiveWatch covers the node and every node below it: it reports creations, deletions and changes of
	// data. Default, as in Curator.
	PersistentRecursiveWatch WatchMode = iota
	// PersistentWatch covers one node: it reports its creation, its deletion, changes of its data, and the creation and
	// deletion of its children.
	PersistentWatch
)

// WatchesBuilder sets persistent watches, which need ZooKeeper 3.6.
type WatchesBuilder struct{ c *Client }

// Watches begins to set a persistent watch. Corresponds to Curator's watchers().
func (c *Client) Watches() WatchesBuilder { return WatchesBuilder{c} }

// Add begins to add a persistent watch.
func (b WatchesBuilder) Add() AddWatchBuilder { return AddWatchBuilder{c: b.c} }

// AddWatchBuilder adds a persistent watch. It is a value: each method returns a changed copy.
type AddWatchBuilder struct {
	c        *Client
	mode     WatchMode
	callback func(Event)
}

// WithMode sets which nodes the watch covers. Default PersistentRecursiveWatch.
func (b AddWatchBuilder) WithMode(mode WatchMode) AddWatchBuilder { b.mode = mode; return b }

// Watching makes the client call f with each event, in order, instead of sending the events to C; see [Pending.Then]
// for the goroutine. Of the Watch then only Stop is of use.
func (b AddWatchBuilder) Watching(f func(Event)) AddWatchBuilder { b.callback = f; return b }

// ForPath sets a watch on the node, which need not exist, and blocks until the server has replied or ctx ends. The
// watch reports events in order until Stop, or until the session ends, which it reports as EventEnd. It reports
// EventReset after each reconnect, because servers do not send a persistent watch the events that it has missed, and
// when more than [WatchBacklog] events wait to be received. The error is ErrUnimplemented before ZooKeeper 3.6, as it
// is for [Client.MultiRead].
func (b AddWatchBuilder) ForPath(ctx context.Context, path string) (*Watch, error) {
	return runForeground(ctx, b.operation(path))
}

// InBackground makes ForPath return immediately.
func (b AddWatchBuilder) InBackground() Background[AddWatchBuilder, *Watch] {
	return Background[AddWatchBuilder, *Watch]{builder: b}
}

func (b AddWatchBuilder) operation(path string) *operation[*Watch] {
	full, err := b.c.fullPath(path)
	kind, mode := wire.Recursive, jute.WatchPersistentRecursive
	switch b.mode {
	case PersistentRecursiveWatch:
	case PersistentWatch:
		kind, mode = wire.Persistent, jute.WatchPersistent
	default:
		err = badArguments("unknown watch mode %d", b.mode)
	}
	w := newWatch(b.c, kind, full, b.callback)
	return &operation[*Watch]{
		c: b.c, name: "addWatch", path: path, argumentError: err, watch: w,
		procedure: functionProcedure[*Watch]{makeRequest: func() *wire.Call {
			return newCall(jute.OpAddWatch, &jute.PathIntRequest{Path: full, Value: mode})
		}, decode: func(int64, []byte) (*Watch, error) { return w, nil }},
	}
}

const (
	// WatchBacklog is the number of events of one persistent watch that can wait to be received: 16384. One EventReset
	// stands for all further events.
	WatchBacklog = 16 << 10
	// WatchBacklogBytes limits the total size of the paths of those events: 4 MiB.
	WatchBacklogBytes = 4 << 20
)

// eventBacklog limits the events of a watch that wait to be received. Without a limit, every client that may write
// below the watched path could fill the memory. At the limit an EventReset is added, which stands for all further
// events: until it is received only EventEnd is added, since the receiver will then read everything again.
type eventBacklog struct {
	unbounded  bool // there is no limit: the receiver is a recipe or a cache, whose callbacks do not block
	events     int  // how many events wait
	bytes      int  // the total length of their paths
	resets     int  // how many of them are EventReset
	overflowed bool // the last EventReset stands for all further events
}

// admitEvent returns the event to queue: ev or, at the limit, an EventReset of the watched path in its place. It
// returns false if an EventReset that waits already stands for ev.
func (b *eventBacklog) admitEvent(ev Event, watched string) (Event, bool) {
	switch {
	case b.unbounded:
		return ev, true
	case ev.Type == EventEnd:
	case b.overflowed:
		return ev, false
	case b.events >= WatchBacklog, b.bytes+len(ev.Path) > WatchBacklogBytes:
		b.overflowed = true
		ev = Event{Type: EventReset, Path: watched}
	}
	b.events++
	b.bytes += len(ev.Path)
	if ev.Type == EventReset {
		b.resets++
	}
	return ev, true
}

// recordReceived records that ev, which has waited longest, was received.
func (b *eventBacklog) recordReceived(ev Event) {
	if b.unbounded {
		return
	}
	b.events--
	b.bytes -= len(ev.Path)
	if ev.Type == EventReset {
		if b.resets--; b.resets == 0 {
			b.overflowed = false
		}
	}
}

// Arm arms one-shot watches, all by one request, without reading the nodes: of the data of nodes that exist, and of the
// creation of nodes that are missing. since is a [Session.Zxid] from before these nodes were read or listed: a watch
// whose node has changed since then fires immediately, possibly before the Pending is done. If the request fails, no
// watch is armed. The result has the watches in the order of the paths. Arm does not report whether the client has
// permission to read a node; without it, newer servers send no events of the node. For authors of recipes.
func (s *Session) Arm(ctx context.Context, since int64, existing, missing []string) *Pending[[]*Watch] {
	o := &operation[[]*Watch]{c: s.Client().ForRecipes(), name: "setWatches"}
	a := &watchListArmer{since: since, existing: len(existing)}
	for _, path := range append(existing[:len(existing):len(existing)], missing...) {
		full, err := o.c.fullPath(path)
		if o.path = path; err != nil {
			o.argumentError = err
			break
		}
		a.watches = append(a.watches, newWatch(o.c, wire.Data, full, nil))
	}
	o.watch, o.procedure = a, functionProcedure[[]*Watch]{
		makeRequest: setWatches, decode: func(int64, []byte) ([]*Watch, error) { return a.watches, nil },
	}
	return startBackground(ctx, o)
}

// watchListArmer arms single watches by one setWatches.
type watchListArmer struct {
	since    int64
	watches  []*Watch
	existing int // how many of the watches, the first ones, are on existing nodes
}

func (a *watchListArmer) armWatches(e *sessionEpoch, call *wire.Call) {
	call.Rearm = &wire.Rearming{Since: a.since}
	for i, w := range a.watches {
		armed := w.newWireWatch(e)
		armed.Absent = i >= a.existing
		call.Rearm.Watches = append(call.Rearm.Watches, armed)
	}
}

func (a *watchListArmer) disarmWatches() {
	for _, w := range a.watches {
		w.disarmWatches()
	}
}
