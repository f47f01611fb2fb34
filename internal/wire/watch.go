package wire

import (
	"slices"

	"github.com/go-curator/curator/internal/jute"
)

// WatchKind is the kind of a watch.
type WatchKind int8

const (
	// Data fires once on creation, change and deletion of the node itself.
	Data WatchKind = iota + 1
	// Child fires once when children are created or deleted, and on the node's deletion.
	Child
	// Persistent fires on every event of the node and of its list of children.
	Persistent
	// Recursive fires on creation, change and deletion of every node from the path down.
	Recursive
)

// Watch is one subscriber of a watch.
type Watch struct {
	Path string
	// Fn is called on wire's goroutines, one call at a time, in order with replies. It must not block; it may call
	// Submit.
	Fn func(WatchEvent)
	// Set, if not nil, is the set of the watch: then Fn is nil.
	Set *WatchSet

	entry *watchEntry
	Kind  WatchKind
	// Absent, for a watch of a Rearming, means that the node does not exist: the watch is for its creation.
	Absent  bool
	stopped bool
}

// WatchSet is a subscriber of many one-shot watches, which share a function and are ended by path (UnwatchPath). If a set
// has several watches of one kind on a path, it gets their event once.
type WatchSet struct {
	// Fn is like Watch.Fn.
	Fn func(WatchEvent)
}

func (w *Watch) deliver(ev WatchEvent) {
	if w.Set != nil {
		w.Set.Fn(ev)
	} else {
		w.Fn(ev)
	}
}

// Rearming is a request that arms one-shot watches without reading the nodes: setWatches. A watch on a node that has
// changed since a transaction, or on an absent node that exists now, fires instead. Its event may come before the
// reply.
type Rearming struct {
	// Since is the zxid of a transaction that the server had executed when the nodes were read.
	Since   int64
	Watches []*Watch
}

// encodeBody returns the body of a setWatches for all watches but those in without.
func (a *Rearming) encodeBody(without map[*Watch]bool) []byte {
	req := jute.SetWatches{RelativeZxid: a.Since}
	for _, w := range a.Watches {
		switch {
		case without[w]:
		case w.Kind == Child:
			req.Child = append(req.Child, w.Path)
		case w.Absent:
			req.Exist = append(req.Exist, w.Path)
		default:
			req.Data = append(req.Data, w.Path)
		}
	}
	return jute.Marshal(&req)
}

// Types of WatchEvent beyond ZooKeeper's own.
const (
	// EventReset reports to a persistent watch that it was armed again after a gap: events may have been missed, so its
	// owner has to read again.
	EventReset int32 = 100
	// EventEnd is a watch's last event: the session has ended, Err has the cause.
	EventEnd int32 = 101
)

// WatchEvent is an event of a watch.
type WatchEvent struct {
	Type int32
	Path string
	Err  error
}

// eventDelivery is an event on its way to a subscriber.
type eventDelivery struct {
	to *Watch
	ev WatchEvent
}

// watchKey identifies a watch on the server. Persistent and Recursive watches have the kind Persistent.
type watchKey struct {
	path string
	kind WatchKind
}

func watchKeyOf(w *Watch) watchKey {
	kind := w.Kind
	if kind == Recursive {
		kind = Persistent
	}
	return watchKey{w.Path, kind}
}

// watchEntry is a watch that is or will be armed on the server. A cache may have two for each of hundreds of thousands of
// nodes, so its size matters: 80 bytes.
type watchEntry struct {
	key         watchKey
	subscribers []*Watch
	prev, next  *watchEntry // in watchRegistry.order
	pending     int32       // calls in flight that arm it
	recursive   int32       // subscribers, attached or pending, that want the whole subtree
	mode        int8        // Persistent: as it was last written
	armed       bool        // there is a watch on the server, or will be after the next reconnect
	nodeAbsent  bool        // Data: the node was absent when it was armed
	isServed    bool        // one-shot: served from the path's persistent watch
	guestWatch  bool        // one-shot: the guest may have its own watch there
	written     bool        // Persistent: a request that arms it has been written to this connection
	armedDeep   bool        // Persistent: it is armed as recursive, as far as replies show
}

// attachTo makes e the entry of w; detachWatch undoes it.
func (w *Watch) attachTo(e *watchEntry) {
	w.entry = e
	if w.Kind == Recursive {
		e.recursive++
	}
}

// wantedMode returns the mode in which a persistent watch serves all its subscribers.
func (e *watchEntry) wantedMode() int32 {
	if e.recursive > 0 {
		return jute.WatchPersistentRecursive
	}
	return jute.WatchPersistent
}

// isIdle reports whether the watch is unused.
func (e *watchEntry) isIdle() bool { return len(e.subscribers) == 0 && e.pending == 0 && !e.guestWatch }

// entryList is a list of entries. It needs no allocation for an entry.
type entryList struct {
	first, last *watchEntry
	count       int
}

func (l *entryList) pushBack(e *watchEntry) {
	if e.prev, e.next = l.last, nil; l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.count++
}

func (l *entryList) unlinkEntry(e *watchEntry) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.count--
}

// pathLengths counts paths by their length. A path that a server names is looked up only if one of its length is
// registered: otherwise a long path with many names would cost a hash for every node above it, under the
// session's mutex. Session.mu guards it.
type pathLengths struct {
	counts map[int]int
	sorted []int // the longest first
}

func (l *pathLengths) addLength(length int) {
	if l.counts == nil {
		l.counts = map[int]int{}
	}
	if l.counts[length]++; l.counts[length] == 1 {
		at, _ := slices.BinarySearchFunc(l.sorted, length, longerFirst)
		l.sorted = slices.Insert(l.sorted, at, length)
	}
}

func (l *pathLengths) removeLength(length int) {
	if l.counts[length]--; l.counts[length] > 0 {
		return
	}
	delete(l.counts, length)
	if at, found := slices.BinarySearchFunc(l.sorted, length, longerFirst); found {
		l.sorted = slices.Delete(l.sorted, at, at+1)
	}
}

func (l *pathLengths) hasLength(length int) bool { return l.counts[length] > 0 }

func longerFirst(a, b int) int { return b - a }

// pathPrefix returns path, or the path above it, that has so many bytes, if there is one.
func pathPrefix(path string, length int) (at string, ok bool) {
	switch {
	case length > len(path):
		return "", false
	case length == len(path):
		return path, true
	case length == 1:
		return path[:1], true // the root
	}
	return path[:length], path[length] == '/'
}

// splitToFit splits all after the paths that fit into room bytes, but at least one.
func splitToFit(all []string, room int) (now, later []string) {
	size := 0
	for i, s := range all {
		if size += 4 + len(s); size > room && i > 0 {
			return all[:i], all[i:]
		}
	}
	return all, nil
}
