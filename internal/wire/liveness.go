package wire

import "time"

// Instant is a reading of two clocks since one origin. Boot includes the machine's sleep: an age by it
// is never too small. Mono does not, and is never set: a span by it is never too long.
type Instant struct{ Mono, Boot time.Duration }

// Proof is the strength of the proof that a reply gives about the server that sent it.
type Proof int8

const (
	// Local is the reply to a ping, a read or a sync: the server need not have been in contact with a quorum.
	Local Proof = iota
	// Committed is the reply to a write that has succeeded: a quorum has committed it.
	Committed
)

// Servers has the assumptions about the servers of a session. Package framework computes them (planFor in
// hold_safety.go).
type Servers struct {
	// Standalone means that the connected server is in no ensemble: it expires the sessions itself.
	Standalone bool
	// Report is the longest time after which a touch has been reported to the leader, while the two are in contact: half
	// a tick, since a member reports with its replies to the leader's pings, and J: the delays of a leader's ping, and
	// between members.
	Report time.Duration
	// Stale is D: the longest time that a member continues to reply after its last contact with the leader, plus
	// Report. 0 if it is not known; then only committed writes prove anything.
	Stale time.Duration
	// Margin is the time before the servers' earliest expiry at which a hold ends, and a session is lost by the clock.
	Margin time.Duration
}

// assumption returns the assumptions about the servers, for a session timeout and whether the connected server is
// standalone. It is a pure function.
type assumption = func(timeout time.Duration, alone bool) Servers

// Verdict is a server's answer to the question whether it is standalone.
type Verdict int8

const (
	// Standalone: it is.
	Standalone Verdict = iota + 1
	// Member: it is not, or its answer does not show it.
	Member
	// Later: it could not answer now, and has to be asked again.
	Later
)

// Standing has the facts that the client has about a session and its server.
type Standing struct {
	// Timeout is T, the session timeout that counts; 0 before the first handshake.
	Timeout time.Duration
	// Known means that a server of this session has answered whether it is standalone; Standalone is the last answer.
	Known, Standalone bool
	// Current means that the server of this connection gave that answer. Until it has, it counts as a member.
	Current bool
}

// Liveness is the rule of promise P1: from the requests sent and the replies to them it computes the time until which
// no leader can have expired the session.
//
// A server touches a session when it receives a request of it. The leader expires a session T after the last touch
// reported to it. A member keeps its touches in a table, which it sends to the leader with its reply to the leader's
// next ping, every half tick. A member that has lost its leader continues replying to pings, reads and syncs, until
// syncLimit ticks without a ping have passed. So a touch counts only when it has been reported, and the replies to
// later requests prove that. For a request sent at u, whose reply came at a, on one connection, the touch counts:
//
//	any, if the server is standalone             immediately
//	any                                          when a ping, read or sync, sent after a + D, has a reply
//	any                                          when a write, sent after a + tick/2 + J, is committed
//	a connect request that creates the session   immediately: the creation is committed
//	a connect request of an existing session     when any later write is committed
//
// The last one immediately proves a touch at u - D (where D is known): the member has asked a leader that led at u - D.
//
// A hold ends at (the latest u that counts) + T - margin. A touch that counts does so for good: no later reply, no
// other server and no other rule makes it count no longer. This is a proof under these assumptions (J as in Report, Jf
// the delay until a member gives up its leader, δ the delay between members):
//
//   - for pings, reads and syncs: J + Jf + 3δ is at most a tick, and J at most half a tick; one link between members
//     fails, both ways at the same time or one way. A link that fails one way and later the other way, and five members
//     that are cut twice in a row, need D = (2·syncLimit + 1.5) ticks.
//   - for committed writes: J + 2δ is at most the J given here. Nothing else.
//   - no touch gets lost in a member's table. (ZooKeeper has a race there, of nanoseconds in every half tick.)
//   - behind an observer master both need tick/2 + J more.
//   - clocks run at one rate, up to the margin.
//
// A sync is no stronger than a ping: a leader that has lost its quorum replies to it. A member that is blocked in a
// write to its leader may reply without a limit of time.
//
// Liveness is a value: no clock, no lock, no allocation. Replies are recorded in their order, of one connection at a
// time. After SessionLeft has returned 0 or less it must not be used: a loss is final (Validity).
type Liveness struct {
	standing     Standing
	verdictLater bool // a verdict on the server of this connection was Later
	servers      Servers

	lowestTimeout time.Duration // lowest timeout ever granted or requested

	countedTouch time.Duration // Boot: when the latest touch that counts was sent
	hasCounted   bool
	lastSent     time.Duration // Boot: when the latest request with a reply was sent

	connecting     bool          // no connect request since connectSent has a reply from a member with a quorum
	connectSent    time.Duration // Boot
	attachUnproven bool          // no write was committed since this connection's connect request
	attachSent     time.Duration // Boot: when that was sent
	// timeoutUnproven: there were connect requests since unprovenSince (Boot), and no touch from the last connection
	// counts yet, so the servers may use lowestTimeout.
	timeoutUnproven bool
	unprovenSince   time.Duration

	touches         [touchSlots]serverTouch // of this connection, not counted yet, oldest first
	touchCount      int
	touchAfterPause serverTouch   // the first after the last pause of two held ping intervals or more, or of this connection
	countsAfter     time.Duration // Mono: a committed write counts touchAfterPause if it was sent later

	hasWritten bool
	lastWrite  time.Duration // Boot: when the last committed write was sent

	holds     int
	heldSince time.Duration // Boot: when the first of holds began
}

// serverTouch is a request with a reply.
type serverTouch struct {
	sent    time.Duration // Boot
	replied time.Duration // Mono
}

// touchSlots is the greatest number of touches kept; see touchDistance.
const touchSlots = 16

// RecordConnecting records that a connect request is sent. The server that it reaches may change the session's timeout.
func (l *Liveness) RecordConnecting(at Instant) {
	if l.standing.Timeout == 0 {
		return
	}
	if !l.connecting {
		l.connecting, l.connectSent = true, at.Boot
	}
	if !l.timeoutUnproven {
		l.timeoutUnproven, l.unprovenSince = true, at.Boot
	}
}

// RecordConnected records the reply to the connect request sent at sent. granted is the session timeout that the server
// grants. The least that was ever granted counts: a new leader, or a server that restarts, uses the timeout of the
// session's creation; and the previous member may still report a touch with a smaller one. The grant of a member
// without a quorum (readOnly) is ignored for a session that a quorum knows.
func (l *Liveness) RecordConnected(sent, now Instant, granted time.Duration, readOnly bool) {
	first := l.standing.Timeout == 0
	if first && readOnly {
		return // no quorum knows the session: nothing in it is ever valid, and nothing can lapse
	}
	l.lowestTimeout = min(l.lowestTimeout, granted)
	if readOnly {
		granted = l.standing.Timeout
	}
	if first {
		l.standing.Timeout = granted
	}
	l.standing.Timeout, l.standing.Current = min(l.standing.Timeout, granted), false
	l.verdictLater, l.servers.Standalone, l.touchCount = false, false, 0
	if readOnly {
		return
	}
	l.connecting, l.attachUnproven, l.attachSent = false, !first, sent.Boot
	l.touchAfterPause, l.countsAfter = serverTouch{sent.Boot, now.Mono}, now.Mono-1 // any committed write proves it
	switch {
	case first:
		l.countTouch(sent.Boot)
	case l.servers.Stale > 0:
		l.countTouch(sent.Boot - l.servers.Stale)
	}
	l.keepTouch(serverTouch{sent.Boot, now.Mono})
}

// RecordReply records that the reply to a request sent at sent came at now. sent is read before the request is written:
// by writeCall (requests.go), for a ping by checkPulse (connection.go).
func (l *Liveness) RecordReply(p Proof, sent, now Instant) {
	if l.standing.Timeout == 0 {
		return
	}
	last, reported := l.lastSent, sent.Mono-l.servers.Stale // a touch with a reply before that has been reported
	switch {
	case l.servers.Standalone:
		l.countTouch(sent.Boot)
	case p == Committed:
		reported = sent.Mono - l.servers.Report
	case l.servers.Stale == 0:
		reported = 0
	}
	counted := 0
	for ; counted < l.touchCount && l.touches[counted].replied < reported; counted++ {
		l.countTouch(l.touches[counted].sent)
	}
	l.touchCount = copy(l.touches[:], l.touches[counted:l.touchCount])
	if l.touchAfterPause.replied < reported { // it may not be among the touches any more
		l.countTouch(l.touchAfterPause.sent)
	}
	if p == Committed {
		if l.attachUnproven {
			l.countTouch(l.attachSent)
		}
		l.attachUnproven, l.hasWritten, l.lastWrite = false, true, sent.Boot
	}
	if sent.Boot-last > 2*l.heldPingInterval() {
		l.touchAfterPause, l.countsAfter = serverTouch{sent.Boot, now.Mono}, now.Mono+l.servers.Report
	}
	l.keepTouch(serverTouch{sent.Boot, now.Mono})
}

// RecordVerdict records the connected server's verdict, and reports whether to ask again.
func (l *Liveness) RecordVerdict(v Verdict) (again bool) {
	if v == Later {
		l.verdictLater = true
		return true
	}
	l.standing.Known, l.standing.Standalone, l.standing.Current = true, v == Standalone, true
	return false
}

// Assume sets the assumptions about the servers from now on. Touches that have counted still do.
func (l *Liveness) Assume(s Servers) {
	if l.servers = s; s.Standalone && l.touchCount > 0 {
		l.countTouch(l.touches[l.touchCount-1].sent)
	}
}

// AddHolds changes the number of holds by more: 1 or -1.
func (l *Liveness) AddHolds(more int, now Instant) {
	if l.holds += more; l.holds == 1 && more > 0 {
		l.heldSince = now.Boot
	}
}

// HoldLeft returns how long a hold is certain, if no further reply comes.
func (l *Liveness) HoldLeft(now Instant) time.Duration {
	if !l.hasCounted {
		return 0
	}
	left := l.countedTouch + l.standing.Timeout - l.servers.Margin - now.Boot
	if l.timeoutUnproven && l.lowestTimeout < l.standing.Timeout { // the server that granted more may follow a deposed leader
		left = min(left, l.unprovenSince+l.lowestTimeout-l.servers.Margin-now.Boot)
	}
	return left
}

// SessionLeft returns the time until the client gives the session up: with holds, as long as these are certain; without,
// Timeout less Margin after the sending of the last request with a reply, whether that counts for holds or not.
func (l *Liveness) SessionLeft(now Instant) time.Duration {
	if l.holds > 0 {
		return l.HoldLeft(now)
	}
	left := l.lastSent + l.standing.Timeout - l.servers.Margin - now.Boot
	if l.connecting { // its request may have made the session's timeout smaller
		left = min(left, l.connectSent+l.lowestTimeout-l.servers.Margin-now.Boot)
	}
	return left
}

// Short reports whether a hold that began now would have too little time left: less than minHoldTime. Then a write has to
// be committed first; it helps if it is sent after wait (0 or less: now).
func (l *Liveness) Short(now Instant) (wait time.Duration, short bool) {
	left := l.HoldLeft(now)
	if l.servers.Standalone {
		return 0, left <= 0
	}
	if left > 0 && left >= l.minHoldTime() {
		return 0, false
	}
	if !l.attachUnproven && l.touchCount > 0 {
		wait = l.touches[0].replied + l.servers.Report + 1 - now.Mono
	}
	return wait, true
}

// minHoldTime returns the least time that a hold must have left when it begins: half of what remains of the timeout after
// the time of a proof.
func (l *Liveness) minHoldTime() time.Duration {
	lag := l.servers.Stale
	if lag == 0 {
		lag = l.servers.Report
	}
	return (l.standing.Timeout - lag) / 2
}

// WriteDue returns the time until a write has to be sent for the holds, and false if none has to be. If D is not known,
// one is due every T/6. Otherwise one is due for touchAfterPause (after a time without holds, a reconnect, or a stalled
// network), which counts by a write much sooner than by pings. A hold that ends before that costs no write.
func (l *Liveness) WriteDue(now Instant) (in time.Duration, due bool) {
	maybeStandalone := l.standing.Standalone && !l.standing.Current && !l.verdictLater // then no write is needed
	if l.holds == 0 || !l.hasCounted || l.servers.Standalone || maybeStandalone {
		return 0, false
	}
	if l.countedTouch < l.touchAfterPause.sent {
		in, due = max(l.countsAfter+1-now.Mono, l.heldSince+l.servers.Report-now.Boot), true
	}
	if l.servers.Stale == 0 {
		next := now.Boot
		if l.hasWritten {
			next = l.lastWrite + l.standing.Timeout/WritesPerTimeout
		}
		if next -= now.Boot; !due || next < in {
			in, due = next, true
		}
	}
	return max(in, 0), due
}

// WritesPerTimeout is the number of writes sent for the holds in a session timeout, if D is not known.
const WritesPerTimeout = 6

// usableTime returns the part of the timeout that the client can use: the ping interval, and the time after which it
// gives up a silent server, follow from it.
func (s Servers) usableTime(timeout time.Duration) time.Duration {
	if !s.Standalone && timeout > s.Stale {
		return timeout - s.Stale
	}
	return timeout
}

// Pace returns the longest pause between two requests while something is held, and the silence after which a connection
// is closed, so that there is time for another before the session lapses.
func (s Servers) Pace(timeout time.Duration) (ping, silence time.Duration) {
	usable := s.usableTime(timeout)
	return max(usable/12, time.Millisecond/2), max(usable/3, 2*time.Millisecond)
}

// heldPingInterval returns the session's ping interval while something is held.
func (l *Liveness) heldPingInterval() time.Duration {
	ping, _ := l.servers.Pace(l.standing.Timeout)
	return ping
}

// Rest returns the ping interval while nothing is held: the longest with which a hold that begins right before the next
// ping needs no write, since it has minHoldTime left. (In the last hundredth of the timeout before the ping it needs
// one.) With pings every R, the last touch that counts by them is up to (n+1)·R old, where n·R > D: n is as small as
// possible.
func (s Servers) Rest(timeout time.Duration) time.Duration {
	ping, silence := s.Pace(timeout)
	switch {
	case s.Standalone:
		return max(silence-s.Margin/3, ping)
	case s.Stale == 0:
		return max(timeout/6, ping)
	}
	oldest := timeout - s.Margin - s.usableTime(timeout)/2 + timeout/100
	for n := time.Duration(1); ; n++ {
		rest := oldest / (n + 1)
		if rest <= ping {
			return ping
		}
		if n*rest > s.Stale+timeout/100 { // the hundredth is for the latency
			return rest
		}
	}
}

// Steady returns the least HoldLeft of a hold older than Report while the servers reply without delay. A delay d of the
// replies takes up to d from it on a standalone server, otherwise up to 2d: a touch counts from its sending, and so late
// by d, and its proof arrives late by d.
func (s Servers) Steady(timeout time.Duration) time.Duration {
	ping, _ := s.Pace(timeout)
	left := timeout - s.Margin - 2*ping
	switch {
	case s.Standalone:
		return left
	case s.Stale > 0:
		return left - s.Stale - s.touchDistance(timeout)
	}
	return timeout - s.Margin - ping - timeout/WritesPerTimeout - s.Report
}

// touchDistance returns the distance of the touches that are kept, so that the slots cover more than the time of a
// proof.
func (s Servers) touchDistance(timeout time.Duration) time.Duration {
	return max(s.Stale, s.Report+timeout/WritesPerTimeout) / (touchSlots - 4)
}

func (l *Liveness) countTouch(to time.Duration) {
	if !l.hasCounted || to > l.countedTouch {
		l.countedTouch, l.hasCounted = to, true
	}
	if to >= l.attachSent { // the leader has the timeout of this connection
		l.timeoutUnproven = false
	}
}

// keepTouch keeps a touch. It replaces the last one if that is less than touchDistance after the one before it, so that
// the slots reach back far enough.
func (l *Liveness) keepTouch(t serverTouch) {
	l.lastSent = max(l.lastSent, t.sent)
	n := l.touchCount
	switch {
	case n >= 2 && l.touches[n-1].replied-l.touches[n-2].replied < l.servers.touchDistance(l.standing.Timeout):
		l.touchCount--
	case l.touchCount == touchSlots:
		l.touchCount = copy(l.touches[:], l.touches[1:])
	}
	l.touches[l.touchCount] = t
	l.touchCount++
}
