package zktest

import "time"

// memberLink is one direction of the network between two members, and behaves like TCP. A message sent while the
// link is cut arrives after the heal, if the receiver's side of the followerConn is still open. While the other
// direction is cut, no acknowledgement returns: messages sent within patience of the first arrive, later ones wait for
// the heal.
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
	at      time.Time // the earliest time of its arrival
	deliver func()
}

// isBlocked reports whether the first message in the queue cannot arrive before a heal.
func (l *memberLink) isBlocked() bool {
	return l.cut || l.back.cut && l.queue[0].sent.Sub(l.unacked) > patience
}

// healDirection ends the cut of this direction.
func (l *memberLink) healDirection() {
	l.cut, l.back.unacked = false, time.Time{}
}

// postMessage queues a message for deliverMessages, which calls deliver.
func (e *Ensemble) postMessage(from, to *ensembleMember, deliver func()) {
	l, now := e.links[from.index][to.index], time.Now()
	if l.back.cut && l.unacked.IsZero() {
		l.unacked = now
	}
	l.queue = append(l.queue, linkMessage{now, now.Add(e.delay), deliver})
}
