package zktest

import "time"

// followerConn is the connection of a follower to its leader. Each side closes separately.
type followerConn struct {
	leader, follower *ensembleMember

	leaderOpen, followerOpen     bool      // the sides that are open
	lastAtLeader, lastAtFollower time.Time // when the last message from the other side arrived there
}

func (c *followerConn) sendToFollower(do func(f *ensembleMember)) {
	c.leader.e.postMessage(c.leader, c.follower, func() {
		if c.followerOpen {
			c.lastAtFollower = time.Now()
			do(c.follower)
		}
	})
}

func (c *followerConn) sendToLeader(do func(l *ensembleMember)) {
	c.leader.e.postMessage(c.follower, c.leader, func() {
		if c.leaderOpen {
			c.lastAtLeader = time.Now()
			do(c.leader)
		}
	})
}

// acknowledgeEntry reports to the leader that the follower has the entry.
func (c *followerConn) acknowledgeEntry(e *logEntry) {
	c.sendToLeader(func(l *ensembleMember) {
		e.acks |= c.follower.indexBit()
		l.tryCommit()
	})
}

// closeLeaderSide closes the leader's side of the connection. If notify is set, the follower learns of it by a message.
func (c *followerConn) closeLeaderSide(notify bool) {
	if !c.leaderOpen {
		return
	}
	c.leaderOpen = false
	crew := make([]*followerConn, 0, len(c.leader.crew)) // a copy: a loop over the leader's crew may be running
	for _, other := range c.leader.crew {
		if other != c {
			crew = append(crew, other)
		}
	}
	c.leader.crew = crew
	if notify {
		c.leader.e.postMessage(c.leader, c.follower, func() {
			c.closeFollowerSide("its leader has closed the connection", false)
		})
	}
}

// closeFollowerSide closes the follower's side of the connection. If notify is set, the leader learns of it by a
// message. A follower that loses its side stops serving.
func (c *followerConn) closeFollowerSide(why string, notify bool) {
	if !c.followerOpen {
		return
	}
	c.followerOpen = false
	if notify {
		c.leader.e.postMessage(c.follower, c.leader, func() { c.closeLeaderSide(false) })
	}
	if c.follower.boss == c { // otherwise resignRole has called this method
		c.follower.boss = nil
		c.follower.resignRole(why)
	}
}

// carriesPings reports whether pings can arrive.
func (c *followerConn) carriesPings() bool {
	paused := c.leader.s.paused || c.follower.s.paused
	return c.leaderOpen && c.followerOpen && !paused && c.leader.e.linksAreOpen(c.leader, c.follower)
}

// pingFollower sends a leader's ping. The follower replies with the sessions that have sent a request since the last
// ping, and the leader touches them.
func (c *followerConn) pingFollower() {
	c.sendToFollower(func(f *ensembleMember) {
		moved := f.moved
		f.moved = map[int64]int64{}
		c.sendToLeader(func(l *ensembleMember) {
			for id, timeout := range moved {
				if ses := l.s.sessions[id]; ses != nil && !ses.closing {
					l.s.touchSession(ses, timeout)
				}
			}
		})
	})
}
