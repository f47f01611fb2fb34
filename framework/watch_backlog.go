package framework

const (
	// WatchBacklog is how many events of one persistent watch wait to be received: 16384. Further ones become
	// one EventReset.
	WatchBacklog = 16 << 10
	// WatchBacklogBytes is how many bytes the paths of those events have at most, in total: 4 MiB.
	WatchBacklogBytes = 4 << 20
)

// backlog counts the events of a watch that have not been received, because whoever may write where the
// watch looks decides how many there are. The EventReset that stands for the rest is the last one that
// waits, except for EventEnd. Until it is received nothing comes after it, since its receiver reads
// everything again.
type backlog struct {
	unbounded     bool // the receiver never waits for anything
	events, bytes int
	resets        int  // EventResets among them
	covered       bool // the last EventReset stands for all that comes
}

// admit returns the event to put into the queue, which may be an EventReset in its place, or false if the
// last EventReset stands for it already. root is the watch's path.
func (b *backlog) admit(ev Event, root string) (Event, bool) {
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

// received notes that the first event was received.
func (b *backlog) received(ev Event) {
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
