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
	// EventNodeDataChanged reports that the node's data was set.
	EventNodeDataChanged
	// EventNodeChildrenChanged reports that a child was created or deleted.
	EventNodeChildrenChanged
	// EventReset reports, only to persistent watches, that changes may not have been reported: the connection was lost
	// and is back, or more than [WatchBacklog] events were waiting to be received. It stands for all those changes.
	// Events before it report earlier changes; events after it report later changes, or repeat some. Read again
	// everything that the watch covers. Path is the path of the watch.
	EventReset
	// EventEnd is the last event of a watch whose session has ended. Err has the reason. To continue watching set a new
	// watch.
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
	// Err is set with EventEnd: ErrSessionLost or ErrClosed.
	Err error
}

// Watch is a watch that has been set. It survives reconnects within its session: a one-shot watch fires after
// the reconnect if the change happened in the meantime. The event of a change is delivered before the answer
// to any read of this client that shows the change.
//
// C and Stop are safe for concurrent use.
type Watch struct {
	// C delivers the events in order. It is closed after the first event (one-shot), after EventEnd (persistent), or by
	// Stop. Events wait in memory for the receiver, for a persistent watch up to [WatchBacklog] of them. Then one
	// EventReset, last in the queue, stands for the rest. A slow receiver delays no other. Close of the client closes C
	// and drops the events that have not been received. C is nil if the watch has a callback, whose events wait up to
	// the same limit.
	C <-chan Event

	c        *Client
	full     string
	fn       func(Event)
	overflow *watchOverflow // nil for a one-shot watch with a channel, whose only event always has room

	mu           sync.Mutex
	e            *sessionEpoch // the epoch of armed; guarded by mu
	armed        *wire.Watch   // guarded by mu
	ch           chan Event    // closed when noMoreEvents is set and no event waits
	kind         wire.WatchKind
	stopped      bool // Stop was called; guarded by mu
	noMoreEvents bool // no more events come; guarded by mu
	closed       bool // ch is closed; guarded by mu
}

// watchOverflow has the state of a watch whose receiver can fall behind. Most watches are set by waiters, whose
// receivers cannot: they do without it, to save memory.
type watchOverflow struct {
	stopped chan struct{} // closed by Stop
	queue   []Event       // events that did not fit into ch; guarded by Watch.mu
	backlog eventBacklog  // counts the events of queue, or the events that wait for fn; guarded by Watch.mu
	pumping bool          // a goroutine empties queue and alone sends to ch; guarded by Watch.mu
}

// newWatch makes the watch of one operation; fn may be nil.
func newWatch(c *Client, kind wire.WatchKind, full string, fn func(Event)) *Watch {
	w := &Watch{c: c, kind: kind, full: full, fn: fn}
	room, persistent := 1, kind == wire.Persistent || kind == wire.Recursive
	if persistent {
		room = 64 // so that a receiver that keeps up needs no goroutine
	}
	if persistent || fn != nil {
		w.overflow = &watchOverflow{stopped: make(chan struct{})}
		w.overflow.backlog.unbounded = fn != nil && !c.isZeroValue() && c.view.forRecipes
	}
	if w.fn == nil {
		w.ch = make(chan Event, room)
		w.C = w.ch
	}
	return w
}

func (w *Watch) armWatches(e *sessionEpoch, call *wire.Call) { call.Watch = w.newWireWatch(e) }

func (w *Watch) newWireWatch(e *sessionEpoch) *wire.Watch {
	armed := &wire.Watch{Kind: w.kind, Path: w.full}
	armed.Fn = func(ev wire.WatchEvent) { w.deliverEvent(armed, ev) }
	w.mu.Lock()
	defer w.mu.Unlock()
	w.e, w.armed = e, armed
	return armed
}

func (w *Watch) disarmWatches() {
	w.mu.Lock()
	e, armed := w.e, w.armed
	w.e, w.armed = nil, nil
	w.mu.Unlock()
	if armed != nil {
		e.wire.Unwatch(armed)
	}
}

// Stop ends the watch, and removes it from the server if no other watch needs it there. C is closed, and
// events that have not been received are lost. Stop waits neither for the server nor for a running callback.
// Another Stop, or a Stop after the end, does nothing.
func (w *Watch) Stop() {
	if w == nil || w.c == nil {
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

// closeChannel closes ch once. mu is held.
func (w *Watch) closeChannel() {
	if w.ch != nil && !w.closed {
		w.closed = true
		close(w.ch)
	}
}

// deliverEvent takes an event on the goroutine that reads from the server. It does not block.
func (w *Watch) deliverEvent(from *wire.Watch, we wire.WatchEvent) {
	ev, ok := w.translateEvent(we)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || w.noMoreEvents || w.armed != from {
		return
	}
	w.noMoreEvents = ev.Type == EventEnd || w.kind == wire.Data || w.kind == wire.Child
	switch {
	case w.fn != nil:
		w.queueCallback(ev)
	case w.overflow == nil:
		w.ch <- ev // its only one
		w.closeChannel()
	default:
		w.sendEvent(ev)
	}
}

// sendEvent gives an event to the receiver, or to the goroutine that does when the receiver is ready. mu is held.
func (w *Watch) sendEvent(ev Event) {
	if !w.overflow.pumping {
		select {
		case w.ch <- ev:
			if w.noMoreEvents {
				w.closeChannel()
			}
			return
		default:
		}
	}
	if ev, ok := w.overflow.backlog.admitEvent(ev, w.c.userPath(w.full)); ok {
		w.overflow.queue = append(w.overflow.queue, ev)
	}
	if !w.overflow.pumping {
		w.overflow.pumping = true
		w.c.core.ops.workers.spawn(w.pumpEvents)
	}
}

// queueCallback queues a call of the callback. mu is held.
func (w *Watch) queueCallback(ev Event) {
	ev, ok := w.overflow.backlog.admitEvent(ev, w.c.userPath(w.full))
	if !ok {
		return
	}
	w.c.executors().callbacks.enqueue(func() {
		w.mu.Lock()
		w.overflow.backlog.recordReceived(ev)
		ended := w.stopped
		w.mu.Unlock()
		if !ended {
			w.fn(ev)
		}
	})
}

// pumpEvents sends the queue to a receiver that has fallen behind.
func (w *Watch) pumpEvents() {
	l := w.overflow
	for {
		w.mu.Lock()
		if len(l.queue) == 0 {
			l.pumping, l.queue = false, nil
			if w.noMoreEvents {
				w.closeChannel()
			}
			w.mu.Unlock()
			return
		}
		ev := l.queue[0]
		l.queue = l.queue[1:]
		l.backlog.recordReceived(ev)
		w.mu.Unlock()
		select {
		case w.ch <- ev:
		case <-l.stopped:
		case <-w.c.core.ops.workers.ctx.Done():
			w.mu.Lock()
			w.noMoreEvents, l.queue = true, nil
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

// translateEvent translates an event of the session layer. ok is false if the event is not reported.
func (w *Watch) translateEvent(we wire.WatchEvent) (ev Event, ok bool) {
	if ev.Type, ok = eventTypes[we.Type]; ev.Type != EventEnd {
		ev.Path = w.c.userPath(we.Path)
		return ev, ok
	}
	ev.Path, ev.Err = w.c.userPath(w.full), ErrSessionLost
	if errors.Is(we.Err, wire.ErrClosed) {
		ev.Err = ErrClosed
	}
	return ev, true
}

// WatchMode selects the nodes that a persistent watch covers.
type WatchMode int8

const (
	// PersistentRecursiveWatch reports the creation, change and deletion of the node and of every node below
	// it. Default, as in Curator.
	PersistentRecursiveWatch WatchMode = iota
	// PersistentWatch reports every event of the node and of its list of children.
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
	c    *Client
	mode WatchMode
	fn   func(Event)
}

// WithMode sets which nodes the watch covers. Default PersistentRecursiveWatch.
func (b AddWatchBuilder) WithMode(mode WatchMode) AddWatchBuilder { b.mode = mode; return b }

// Watching makes the client call f with each event, in order, instead of sending the events to C; see
// [Pending.Then] for where f runs. The Watch then only serves to stop it.
func (b AddWatchBuilder) Watching(f func(Event)) AddWatchBuilder { b.fn = f; return b }

// ForPath sets a watch on the node, which need not exist. The watch reports events in order until Stop, or until the
// session ends, which it reports as EventEnd. It reports EventReset after each reconnect, because servers do not send a
// persistent watch the events that it has missed, and when more than [WatchBacklog] events wait to be received. The
// error is ErrUnimplemented before ZooKeeper 3.6, as of [Client.MultiRead].
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
	w := newWatch(b.c, kind, full, b.fn)
	return &operation[*Watch]{
		c: b.c, operationKind: operationKind{name: "addWatch"}, path: path, argumentError: err, watch: w,
		procedure: functionProcedure[*Watch]{makeRequest: func(*sessionEpoch) *wire.Call {
			return newCall(jute.OpAddWatch, &jute.PathIntRequest{Path: full, Value: mode})
		}, decode: func(int64, []byte) (*Watch, error) { return w, nil }},
	}
}

const (
	// WatchBacklog is the number of events of one persistent watch that can wait to be received: 16384. Further events
	// become one EventReset.
	WatchBacklog = 16 << 10
	// WatchBacklogBytes limits the total size of the paths of those events: 4 MiB.
	WatchBacklogBytes = 4 << 20
)

// eventBacklog limits the events of a watch that have not been received. Without it, every client that may write
// below the watched path could fill the memory. The EventReset that stands for the rest is the last waiting event,
// except for EventEnd. Until it is received no other event is added, since its receiver reads everything again.
type eventBacklog struct {
	unbounded     bool // no limit, because the receiver never waits
	events, bytes int
	resets        int  // how many of them are EventReset
	covered       bool // the last EventReset stands for all further events
}

// admitEvent returns the event to put into the queue, possibly an EventReset in its place. It returns false if the
// last EventReset already stands for the event. root is the watch's path.
func (b *eventBacklog) admitEvent(ev Event, root string) (Event, bool) {
	switch {
	case b.unbounded:
		return ev, true
	case ev.Type == EventEnd:
	case b.covered:
		return ev, false
	case b.events >= WatchBacklog, b.bytes+len(ev.Path) > WatchBacklogBytes:
		b.covered = true
		ev = Event{Type: EventReset, Path: root}
	}
	b.events++
	b.bytes += len(ev.Path)
	if ev.Type == EventReset {
		b.resets++
	}
	return ev, true
}

// recordReceived records that the first waiting event was received.
func (b *eventBacklog) recordReceived(ev Event) {
	if b.unbounded {
		return
	}
	b.events--
	b.bytes -= len(ev.Path)
	if ev.Type == EventReset {
		if b.resets--; b.resets == 0 {
			b.covered = false
		}
	}
}
