package zktest

import "time"

// link is one direction of the network between two members, and behaves like TCP. A message sent while the link is
// cut arrives when it is healed, if the receiver's side of the bond is still open. While the other direction is cut,
// acknowledgements are missing: messages sent until patience after the first arrive, later ones wait for the heal.
type link struct {
	cut     bool
	back    *link
	queue   []message
	unacked time.Time // when the first message without an acknowledgement was sent
}

// patience limits how long a sender without acknowledgements still sends new messages.
const patience = 200 * time.Millisecond

type message struct {
	sent    time.Time
	at      time.Time // not to arrive before
	deliver func()
}

// blocked reports whether the next message cannot arrive until a link is healed.
func (l *link) blocked() bool {
	return l.cut || l.back.cut && l.queue[0].sent.Sub(l.unacked) > patience
}

// heal ends the cut of this direction.
func (l *link) heal() {
	l.cut, l.back.unacked = false, time.Time{}
}

// bond is the connection of a follower to its leader. Each side closes separately.
type bond struct {
	leader, follower *member
	up, down         bool      // the leader's and the follower's side are open
	heardUp          time.Time // when the last message of the follower arrived at the leader
	heardDown        time.Time
}

// post sends a message, which run delivers.
func (e *Ensemble) post(from, to *member, deliver func()) {
	l, now := e.links[from.index][to.index], time.Now()
	if l.back.cut && l.unacked.IsZero() {
		l.unacked = now
	}
	l.queue = append(l.queue, message{now, now.Add(e.delay), deliver})
}

func (b *bond) toFollower(do func(f *member)) {
	b.leader.e.post(b.leader, b.follower, func() {
		if b.down {
			b.heardDown = time.Now()
			do(b.follower)
		}
	})
}

func (b *bond) toLeader(do func(l *member)) {
	b.leader.e.post(b.follower, b.leader, func() {
		if b.up {
			b.heardUp = time.Now()
			do(b.leader)
		}
	})
}

// acknowledge reports to the leader that the follower has the entry.
func (b *bond) acknowledge(e *entry) {
	b.toLeader(func(l *member) {
		e.acks |= b.follower.bit()
		l.tryCommit()
	})
}

// drop closes the leader's side of the bond, and notifies the follower over the link if tell is set.
func (b *bond) drop(tell bool) {
	if !b.up {
		return
	}
	b.up = false
	crew := make([]*bond, 0, len(b.leader.crew))
	for _, other := range b.leader.crew { // a copy: a loop over the crew may be running
		if other != b {
			crew = append(crew, other)
		}
	}
	b.leader.crew = crew
	if tell {
		b.leader.e.post(b.leader, b.follower, func() {
			b.quit("its leader has closed the connection", false)
		})
	}
}

// quit closes the follower's side of the bond, and notifies the leader over the link if tell is set.
func (b *bond) quit(why string, tell bool) {
	if !b.down {
		return
	}
	b.down = false
	if tell {
		b.leader.e.post(b.follower, b.leader, func() { b.drop(false) })
	}
	if b.follower.boss == b {
		b.follower.boss = nil
		b.follower.leave(why)
	}
}

// sound reports whether pings can arrive.
func (b *bond) sound() bool {
	paused := b.leader.s.paused || b.follower.s.paused
	return b.up && b.down && !paused && b.leader.e.connected(b.leader, b.follower)
}

// ping asks a follower for the sessions that have sent a request since the last ping, and touches them.
func (b *bond) ping() {
	b.toFollower(func(f *member) {
		moved := f.moved
		f.moved = map[int64]int64{}
		b.toLeader(func(l *member) {
			for id, timeout := range moved {
				if ses := l.s.sessions[id]; ses != nil && !ses.closing {
					l.s.touch(ses, timeout)
				}
			}
		})
	})
}
