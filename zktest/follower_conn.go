package zktest

import "time"

// memberLink is one direction of the network between two members, and behaves like TCP. A message sent while the
// link is cut arrives when it is healed, if the receiver's side of the bond is still open. While the other
// direction is cut, acknowledgements are missing: messages sent until patience after the first arrive, later ones
// wait for the heal.
type memberLink struct {
	cut     bool
	back    *memberLink
	queue   []linkMessage
	unacked time.Time // when the first message without an acknowledgement was sent
}

// patience limits how long a sender without acknowledgements still sends new messages.
const patience = 200 * time.Millisecond

type linkMessage struct {
	sent    time.Time
	at      time.Time // not to arrive before
	deliver func()
}

// isBlocked reports whether the next message cannot arrive until a link is healed.
func (l *memberLink) isBlocked() bool {
	return l.cut || l.back.cut && l.queue[0].sent.Sub(l.unacked) > patience
}

// healDirection ends the cut of this direction.
func (l *memberLink) healDirection() {
	l.cut, l.back.unacked = false, time.Time{}
}

// followerConn is the connection of a follower to its leader. Each side closes separately.
type followerConn struct {
	leader, follower *ensembleMember
	up, down         bool      // the leader's and the follower's side are open
	heardUp          time.Time // when the last message of the follower arrived at the leader
	heardDown        time.Time
}

// postMessage sends a message, which run delivers.
func (e *Ensemble) postMessage(from, to *ensembleMember, deliver func()) {
	l, now := e.links[from.index][to.index], time.Now()
	if l.back.cut && l.unacked.IsZero() {
		l.unacked = now
	}
	l.queue = append(l.queue, linkMessage{now, now.Add(e.delay), deliver})
}

func (b *followerConn) sendToFollower(do func(f *ensembleMember)) {
	b.leader.e.postMessage(b.leader, b.follower, func() {
		if b.down {
			b.heardDown = time.Now()
			do(b.follower)
		}
	})
}

func (b *followerConn) sendToLeader(do func(l *ensembleMember)) {
	b.leader.e.postMessage(b.follower, b.leader, func() {
		if b.up {
			b.heardUp = time.Now()
			do(b.leader)
		}
	})
}

// acknowledgeEntry reports to the leader that the follower has the entry.
func (b *followerConn) acknowledgeEntry(e *logEntry) {
	b.sendToLeader(func(l *ensembleMember) {
		e.acks |= b.follower.indexBit()
		l.tryCommit()
	})
}

// closeLeaderSide closes the leader's side of the bond, and notifies the follower over the link if tell is set.
func (b *followerConn) closeLeaderSide(tell bool) {
	if !b.up {
		return
	}
	b.up = false
	crew := make([]*followerConn, 0, len(b.leader.crew))
	for _, other := range b.leader.crew { // a copy: a loop over the crew may be running
		if other != b {
			crew = append(crew, other)
		}
	}
	b.leader.crew = crew
	if tell {
		b.leader.e.postMessage(b.leader, b.follower, func() {
			b.closeFollowerSide("its leader has closed the connection", false)
		})
	}
}

// closeFollowerSide closes the follower's side of the bond, and notifies the leader over the link if tell is set.
func (b *followerConn) closeFollowerSide(why string, tell bool) {
	if !b.down {
		return
	}
	b.down = false
	if tell {
		b.leader.e.postMessage(b.follower, b.leader, func() { b.closeLeaderSide(false) })
	}
	if b.follower.boss == b {
		b.follower.boss = nil
		b.follower.resignRole(why)
	}
}

// carriesPings reports whether pings can arrive.
func (b *followerConn) carriesPings() bool {
	paused := b.leader.s.paused || b.follower.s.paused
	return b.up && b.down && !paused && b.leader.e.linksAreOpen(b.leader, b.follower)
}

// pingFollower asks a follower for the sessions that have sent a request since the last ping, and touches them.
func (b *followerConn) pingFollower() {
	b.sendToFollower(func(f *ensembleMember) {
		moved := f.moved
		f.moved = map[int64]int64{}
		b.sendToLeader(func(l *ensembleMember) {
			for id, timeout := range moved {
				if ses := l.s.sessions[id]; ses != nil && !ses.closing {
					l.s.touchSession(ses, timeout)
				}
			}
		})
	})
}
