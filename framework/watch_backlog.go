package framework

const (
	// WatchBacklog is how many events of one persistent watch wait for whoever receives them: 16384. Beyond
	// that they become one EventReset.
	WatchBacklog = 16 << 10
	// WatchBacklogBytes is how many bytes the paths of those events have at most, in sum: 4 MiB.
	WatchBacklogBytes = 4 << 20
)

// backlog counts the events of a watch that have not been received. Whoever may write where the watch looks
// decides how many there are. The EventReset that stands for what has no room is the last one that waits,
// but for the EventEnd; until it is received nothing comes behind it, since whoever reads then sees it all.
type backlog struct {
	unbounded     bool // whoever receives them never waits for anything
	events, bytes int
	resets        int  // EventResets among them
	covered       bool // the last of those stands for all that comes
}

// admit takes an event, or what stands for it in its place; false if there is one already. root is the
// watch's path.
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

// received lets go of the first event.
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
