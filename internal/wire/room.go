package wire

import "time"

// room says how many calls a connection has room for: how many may be without an answer at once. A server answers one client in order, so what goes in
// front of the queue, a heartbeat, still waits for all that was written before it: in our buffers, on the network, at the server. How long that takes
// nobody can tell beforehand, for it depends on the server, the line, and the size of requests and answers. So it is measured: the room grows while there
// is need and answers come soon, and becomes smaller when they come late. Session.mu guards it.
type room struct {
	most  int           // what it never grows beyond
	size  int           // what it is
	load  int           // how much of it is taken
	base  time.Duration // how long the quickest answer has taken: the way to the server and back
	known bool          // there has been one
	stale int           // how many answers are to come to what was written in a larger room: they say nothing about the present size
}

const (
	// roomAtFirst and roomAtLeast are a connection's first and smallest room.
	roomAtFirst = 32
	roomAtLeast = 8
	// roomUnit is for how many bytes of a request it takes one place more.
	roomUnit = 16 << 10
	// roomShare is which part of the time between two pings answers may come late by because of what we have written ourselves.
	roomShare = 4
)

func newRoom(most int) room { return room{most: most, size: min(roomAtFirst, most)} }

// places is how much room a call takes.
func (c *Call) places() int { return 1 + len(c.Body)/roomUnit }

// free says whether there is room for another call.
func (r *room) free() bool { return r.load < r.size }

// answered notes the answer to a call of so many places: how long it has taken, and how much longer than the quickest it may take. flying is how many calls
// have no answer yet; wanted says that others are waiting for room.
func (r *room) answered(places int, took, late time.Duration, flying int, wanted bool) {
	r.load -= places
	stale := r.stale > 0
	r.stale = max(r.stale-1, 0)
	if !r.known || took < r.base {
		r.base, r.known = took, true
	}
	switch {
	case took-r.base <= late:
		if wanted {
			r.size = min(r.size+places, r.most)
		}
	case stale:
	case r.size > roomAtLeast:
		r.size, r.stale = max(r.size/2, roomAtLeast), flying
	default:
		r.base = took // that is not our doing: the server, or the way to it, has become slower
	}
}
