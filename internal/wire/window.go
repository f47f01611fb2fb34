package wire

import "time"

// window bounds how many calls of a connection may be without an answer. A server answers one client in
// order, so an urgent call still waits for all that was written before it: in our buffers, on the network, at
// the server. How long that takes depends on the server, the network and the sizes, so it is measured: the
// window grows while calls wait and answers come soon, and shrinks when they come late. Session.mu guards it.
type window struct {
	most  int           // it never grows beyond this
	size  int           // what it is
	used  int           // how much of it is taken
	base  time.Duration // the shortest time that an answer has taken: the round trip
	known bool          // there has been an answer
	stale int           // calls of a larger window without an answer: theirs say nothing about the present size
}

const (
	// windowAtFirst and windowAtLeast are a connection's first and smallest window.
	windowAtFirst = 32
	windowAtLeast = 8
	// windowUnit is how many bytes of a request cost one more unit of the window.
	windowUnit = 16 << 10
	// windowShare is the fraction of the ping interval by which our own calls may delay answers.
	windowShare = 4
)

func newWindow(most int) window { return window{most: most, size: min(windowAtFirst, most)} }

// cost is how much of the window a call takes.
func (c *Call) cost() int { return 1 + len(c.Body)/windowUnit }

// open says whether another call may be written.
func (w *window) open() bool { return w.used < w.size }

// answered notes the answer to a call of this cost: how long it took, and how much longer than the quickest
// it may take. flying is how many calls have no answer yet; wanted says that others wait for the window.
func (w *window) answered(cost int, took, late time.Duration, flying int, wanted bool) {
	w.used -= cost
	stale := w.stale > 0
	w.stale = max(w.stale-1, 0)
	if !w.known || took < w.base {
		w.base, w.known = took, true
	}
	switch {
	case took-w.base <= late:
		if wanted {
			w.size = min(w.size+cost, w.most)
		}
	case stale:
	case w.size > windowAtLeast:
		w.size, w.stale = max(w.size/2, windowAtLeast), flying
	default:
		w.base = took // not our doing: the server, or the network, has become slower
	}
}
