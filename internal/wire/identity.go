package wire

import (
	"time"
)

// sessionIdentity has the session's id at the servers, and counts unused sessions: a handshake without a reply may have
// opened one, which lives until its timeout. Session.mu guards it.
type sessionIdentity struct {
	id          int64 // 0 before the first connection
	password    []byte
	timeout     time.Duration // granted by the last handshake
	zxid        int64         // the highest of any reply, this process's earlier sessions included
	eventsAhead bool          // an event has come since the last reply: its change may have a higher zxid

	handshake       chan struct{} // closed when the handshake before the first connection ends; nil if there is none
	maybeOpened     bool          // that handshake may have opened a session
	straySessions   int           // earlier handshakes that may have
	quorumConfirmed bool          // a member with a quorum has confirmed the session
}

// recordZxid records the zxid of a reply, which is not lower than the zxid of any event before it.
func (i *sessionIdentity) recordZxid(zxid int64) { i.zxid, i.eventsAhead = max(i.zxid, zxid), false }

// beginHandshake is called before a handshake. Only handshakes before the first connection can leave an unused session.
func (i *sessionIdentity) beginHandshake() {
	if i.id == 0 {
		i.maybeOpened, i.handshake = true, make(chan struct{})
	}
}

// endHandshake is called after a handshake.
func (i *sessionIdentity) endHandshake() {
	if i.handshake == nil {
		return
	}
	close(i.handshake)
	i.handshake = nil
	if i.maybeOpened {
		i.straySessions++
	}
}

// recordConnection is called when there is a connection. A member without a quorum does not know the sessions that
// others have opened.
func (i *sessionIdentity) recordConnection(id int64, password []byte, timeout time.Duration, quorum bool) {
	i.id, i.password, i.timeout, i.maybeOpened = id, password, timeout, false
	if quorum {
		i.straySessions, i.quorumConfirmed = 0, true
	}
}

// mayOutlive reports whether a session may stay on a server if this one ends without an acknowledgement.
func (i *sessionIdentity) mayOutlive() bool {
	return i.quorumConfirmed || i.straySessions > 0 || i.handshake != nil && i.maybeOpened
}
