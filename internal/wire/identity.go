package wire

import (
	"time"
)

// identity has the session's id at the servers, and records unused sessions that handshakes may have opened there: they
// live until their timeouts. Session.mu guards it.
type identity struct {
	id       int64 // 0 before the first connection
	password []byte
	timeout  time.Duration // granted by the last handshake
	zxid     int64         // the highest of any reply, this process's earlier sessions included
	ahead    bool          // an event has shown a later change, and no reply since then has said which

	handshake chan struct{} // of a handshake before the first connection: closed at its end; nil if none is in progress
	unsure    bool          // its server may have opened a session
	strays    int           // earlier handshakes that ended so
	agreed    bool          // a member with a quorum has confirmed the session
}

// saw records the zxid of a reply, which is not lower than the zxid of any event before it.
func (i *identity) saw(zxid int64) { i.zxid, i.ahead = max(i.zxid, zxid), false }

// beginHandshake is called before a handshake. Only handshakes before the first connection can leave an unused session.
func (i *identity) beginHandshake() {
	if i.id == 0 {
		i.unsure, i.handshake = true, make(chan struct{})
	}
}

// endHandshake is called after a handshake.
func (i *identity) endHandshake() {
	if i.handshake == nil {
		return
	}
	close(i.handshake)
	i.handshake = nil
	if i.unsure {
		i.strays++
	}
}

// connected is called when there is a connection. A member without a quorum does not know the sessions that others have
// opened.
func (i *identity) connected(id int64, password []byte, timeout time.Duration, quorum bool) {
	i.id, i.password, i.timeout, i.unsure = id, password, timeout, false
	if quorum {
		i.strays, i.agreed = 0, true
	}
}

// outlives reports whether a session may stay on a server if this one ends without an acknowledgement.
func (i *identity) outlives() bool { return i.agreed || i.strays > 0 || i.handshake != nil && i.unsure }
