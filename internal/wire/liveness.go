package wire

import "time"

// Instant is a reading of two clocks since one origin. Boot includes the time during which the machine is suspended: an
// age by it is never too small. Mono does not count it, and is never set: a span by it is never too long.
type Instant struct{ Mono, Boot time.Duration }

// Proof is the strength of the proof that a reply gives about the server that sent it.
type Proof int8

const (
	// Local is the reply to a ping, a read or a sync: the server need not have been in contact with a quorum.
	Local Proof = iota
	// Committed is the reply to a write that has succeeded: a quorum has committed it.
	Committed
)

// Servers has the assumptions about the servers of a session.
type Servers struct {
	// Alone means that the connected server is standalone: it keeps the sessions' time itself.
	Alone bool
	// Report is the longest time that a member takes to report a touch to its leader while the two are in contact: half
	// a tick, since it reports with its answers to the leader's pings, and J: the delay of a leader's ping, and between
	// members.
	Report time.Duration
	// Stale is D: the longest time for which a member continues answering after its last contact with the leader, and
	// the time of a report. 0 if it is not known; then only committed writes prove anything.
	Stale time.Duration
	// Margin is the time before the servers' earliest expiry at which a hold ends.
	Margin time.Duration
}

// assumption returns the assumptions about the servers, for a session timeout and whether the connected server is
// standalone. It is a pure function.
type assumption = func(timeout time.Duration, alone bool) Servers

// Verdict is a server's answer to the question whether it is standalone.
type Verdict int8

const (
	// Alone: it is.
	Alone Verdict = iota + 1
	// Member: it is not, or its answer does not show it.
	Member
	// Later: it could not answer now.
	Later
)

// Standing is the knowledge about a session and its server.
type Standing struct {
	// Timeout is T, the session timeout that counts; 0 before the first handshake.
	Timeout time.Duration
	// Known means that a server of this session has answered whether it is standalone; Alone is the last answer.
	Known, Alone bool
	// Asked means that the server of this connection has answered. Until then it is taken for a member.
	Asked bool
}

// Liveness is the rule of promise P1: from the requests sent and the replies to them it computes the time until which
// no leader can have expired the session.
//
// A server touches a session when it receives a request of it. The leader expires a session T after the last touch
// reported to it. A member keeps its touches in a table, which it sends to the leader with its answer to the leader's
// next ping, every half tick. A member that has lost its leader continues answering pings, reads and syncs, until
// syncLimit ticks without a ping have passed. So a touch counts only when it has been reported, and the replies to
// later requests prove that. For a touch that was sent at u and answered at a, on one connection:
//
//	a standalone server                                      it counts at once
//	a later ping, read or sync, sent at t, is answered       it counts if t - a > D
//	a later write, sent at t, is committed                   it counts if t - a > tick/2 + J
//	a connect request that creates the session               it counts at once: the creation is committed
//	a connect request of an existing session                 u counts with the first write that is committed after it,
//	                                                         u - D counts at once (where D is known): the member has
//	                                                         asked its leader, which may have been deposed since
//
// A hold ends at (the latest u that counts) + T - margin. A touch that counts does so for good: no later reply, no
// other server and no other rule takes it back. This is a proof under these assumptions (J as in Report, Jf the delay
// with which a member gives up its leader, δ the delay between members):
//
//   - for pings, reads and syncs: J + Jf + 3δ is at most a tick, and J at most half a tick; one link between members
//     fails, both ways at the same time or one way. A link that fails one way and later the other way, and five members
//     that are cut twice in a row, need D = (2·syncLimit + 1.5) ticks.
//   - for committed writes: J + 2δ is at most the J given here. Nothing else.
//   - no touch gets lost in a member's table. (ZooKeeper has a race there, of nanoseconds in every half tick.)
//   - behind an observer master both need tick/2 + J more.
//   - clocks run at one rate, up to the margin.
//
// A sync is no stronger than a ping: a leader that has lost its quorum answers it. A member that is blocked in a write
// to its leader has no bound.
//
// Liveness is a value: no clock, no lock, no allocation. It is fed by one connection at a time, in the order of the
// replies. Once it has reported that the deadline has passed, it must not be asked again: a lapse is final (Validity).
type Liveness struct {
	standing      Standing
	evasiveServer bool // the server of this connection was asked and could not answer
	servers       Servers

	lowestTimeout time.Duration // lowest timeout ever granted or asked for

	claim    time.Duration // Boot: a leader has touched the session then or later
	claimed  bool
	lastSent time.Duration // Boot: when the last answered request was sent

	connecting     bool          // a connect request has no answer
	connectSent    time.Duration // Boot: when the oldest of these was sent
	doubted        bool          // nothing counts yet that was sent on a connection after some connect request
	doubtedFrom    time.Duration // Boot: when the oldest of these was sent
	attachUnproven bool          // no write was committed since this connection's connect request
	attachSent     time.Duration // Boot: when that was sent

	touches     [touchSlots]serverTouch // of this connection, not counted yet, oldest first
	touchCount  int
	firstTouch  serverTouch   // the first touch after the last gap that was too long for a hold
	countsAfter time.Duration // Mono: a committed write counts firstTouch if it was sent later

	hasWritten bool
	lastWrite  time.Duration // Boot: when the last committed write was sent

	holds     int
	heldSince time.Duration // Boot: when the first of holds began
}

// serverTouch is an answered request.
type serverTouch struct {
	sent     time.Duration // Boot
	answered time.Duration // Mono
}

// touchSlots bounds the touches that are kept; see touchDistance.
const touchSlots = 16

// Connecting records that a connect request is sent. Whatever server it reaches may replace the session's timeout.
func (l *Liveness) Connecting(at Instant) {
	if l.standing.Timeout == 0 {
		return
	}
	if !l.connecting {
		l.connecting, l.connectSent = true, at.Boot
	}
	if !l.doubted {
		l.doubted, l.doubtedFrom = true, at.Boot
	}
}

// Connected records the reply to the connect request sent at sent. granted is the session timeout that the server
// grants. A session counts for no longer than the least that was ever granted: a new leader, or a server that restarts,
// gives it the timeout with which it was created; and the previous member may yet report a touch with a smaller one.
// The grant of a member without a quorum (readOnly) is ignored for a session that a quorum knows.
func (l *Liveness) Connected(sent, now Instant, granted time.Duration, readOnly bool) {
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
	l.standing.Timeout, l.standing.Asked = min(l.standing.Timeout, granted), false
	l.evasiveServer, l.servers.Alone, l.touchCount = false, false, 0
	if readOnly {
		return
	}
	l.connecting, l.attachUnproven, l.attachSent = false, !first, sent.Boot
	l.firstTouch, l.countsAfter = serverTouch{sent.Boot, now.Mono}, now.Mono-1 // any committed write proves it
	switch {
	case first:
		l.raiseClaim(sent.Boot)
	case l.servers.Stale > 0:
		l.raiseClaim(sent.Boot - l.servers.Stale)
	}
	l.keepTouch(serverTouch{sent.Boot, now.Mono})
}

// Answer records that a request sent at sent was answered at now.
func (l *Liveness) Answer(p Proof, sent, now Instant) {
	if l.standing.Timeout == 0 {
		return
	}
	last, reported := l.lastSent, sent.Mono-l.servers.Stale // a touch that was answered before has been reported
	switch {
	case l.servers.Alone:
		l.raiseClaim(sent.Boot)
	case p == Committed:
		reported = sent.Mono - l.servers.Report
	case l.servers.Stale == 0:
		reported = 0
	}
	counted := 0
	for ; counted < l.touchCount && l.touches[counted].answered < reported; counted++ {
		l.raiseClaim(l.touches[counted].sent)
	}
	l.touchCount = copy(l.touches[:], l.touches[counted:l.touchCount])
	if l.firstTouch.answered < reported { // it may not be among the touches any more
		l.raiseClaim(l.firstTouch.sent)
	}
	if p == Committed {
		if l.attachUnproven {
			l.raiseClaim(l.attachSent)
		}
		l.attachUnproven, l.hasWritten, l.lastWrite = false, true, sent.Boot
	}
	if sent.Boot-last > 2*l.heldPingInterval() {
		l.firstTouch, l.countsAfter = serverTouch{sent.Boot, now.Mono}, now.Mono+l.servers.Report
	}
	l.keepTouch(serverTouch{sent.Boot, now.Mono})
}

// Judge records the connected server's answer to the question whether it is standalone, and reports whether to ask
// again.
func (l *Liveness) Judge(v Verdict) (again bool) {
	if v == Later {
		l.evasiveServer = true
		return true
	}
	l.standing.Known, l.standing.Alone, l.standing.Asked = true, v == Alone, true
	return false
}

// Assume sets the assumptions about the servers from now on. Touches that have counted still do.
func (l *Liveness) Assume(s Servers) {
	if l.servers = s; s.Alone && l.touchCount > 0 {
		l.raiseClaim(l.touches[l.touchCount-1].sent)
	}
}

// Hold counts holds: more is 1 or -1.
func (l *Liveness) Hold(more int, now Instant) {
	if l.holds += more; l.holds == 1 && more > 0 {
		l.heldSince = now.Boot
	}
}

// Left returns how long a hold is certain, if no further reply arrives.
func (l *Liveness) Left(now Instant) time.Duration {
	if !l.claimed {
		return 0
	}
	left := l.claim + l.standing.Timeout - l.servers.Margin - now.Boot
	if l.doubted && l.lowestTimeout < l.standing.Timeout { // the server that answered may follow a deposed leader
		left = min(left, l.doubtedFrom+l.lowestTimeout-l.servers.Margin-now.Boot)
	}
	return left
}

// SessionLeft returns how long the session lives on here: with holds, as long as these are certain; without, as long as
// a server may keep it.
func (l *Liveness) SessionLeft(now Instant) time.Duration {
	if l.holds > 0 {
		return l.Left(now)
	}
	left := l.lastSent + l.standing.Timeout - l.servers.Margin - now.Boot
	if l.connecting { // its request may have made the session's timeout smaller
		left = min(left, l.connectSent+l.lowestTimeout-l.servers.Margin-now.Boot)
	}
	return left
}

// Short reports whether a hold that began now would have too little time left: less than half of the timeout after the
// time of a proof is deducted. Then a committed write has to come first; it helps if it is sent after wait, which is 0
// or less if it helps now.
func (l *Liveness) Short(now Instant) (wait time.Duration, short bool) {
	left := l.Left(now)
	if l.servers.Alone {
		return 0, left <= 0
	}
	if left > 0 && left >= l.minHoldTime() {
		return 0, false
	}
	if !l.attachUnproven && l.touchCount > 0 {
		wait = l.touches[0].answered + l.servers.Report + 1 - now.Mono
	}
	return wait, true
}

// minHoldTime is the least that a hold must have left when it begins.
func (l *Liveness) minHoldTime() time.Duration {
	lag := l.servers.Stale
	if lag == 0 {
		lag = l.servers.Report
	}
	return (l.standing.Timeout - lag) / 2
}

// WriteDue returns the time until a committed write has to be sent for the holds, and false if none has to be. If D is
// not known, one is due every T/6. Otherwise one is due after a time with few requests: after a rest, a reconnect, or a
// stalled link. The first touch after it counts by a write much sooner than by pings. A hold that ends before that time
// costs no write.
func (l *Liveness) WriteDue(now Instant) (in time.Duration, due bool) {
	hopeful := l.standing.Alone && !l.standing.Asked && !l.evasiveServer // its reply may make a write needless
	if l.holds == 0 || !l.claimed || l.servers.Alone || hopeful {
		return 0, false
	}
	if l.claim < l.firstTouch.sent {
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

// WritesPerTimeout is the number of writes committed for the holds in a session timeout, if only writes count.
const WritesPerTimeout = 6

// usableTime returns the part of the timeout that the client can use: the ping interval, and the time after which it
// gives up a silent server, follow from it.
func (s Servers) usableTime(timeout time.Duration) time.Duration {
	if !s.Alone && timeout > s.Stale {
		return timeout - s.Stale
	}
	return timeout
}

// Pace returns how often a session sends something at least while something is held, and after how much silence its
// connection is closed, so that there is time to find another before the session lapses.
func (s Servers) Pace(timeout time.Duration) (ping, silence time.Duration) {
	usable := s.usableTime(timeout)
	return max(usable/12, time.Millisecond/2), max(usable/3, 2*time.Millisecond)
}

// heldPingInterval returns the session's ping interval while something is held.
func (l *Liveness) heldPingInterval() time.Duration {
	ping, _ := l.servers.Pace(l.standing.Timeout)
	return ping
}

// Rest returns how often a session pings while nothing is held. It is as seldom as a hold allows that begins right
// before the next ping, and without a write: it has enough left, see minHoldTime. (In the last hundredth of the timeout
// before the ping a write comes first.) With pings every R, the last touch that counts by them is up to (n+1)·R old,
// where n·R > D: n is as small as possible.
func (s Servers) Rest(timeout time.Duration) time.Duration {
	ping, silence := s.Pace(timeout)
	switch {
	case s.Alone:
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
		if n*rest > s.Stale+timeout/100 { // and the time that an answer takes
			return rest
		}
	}
}

// Steady returns the value below which the time left of a hold older than Report does not fall while the servers answer
// without delay.
func (s Servers) Steady(timeout time.Duration) time.Duration {
	ping, _ := s.Pace(timeout)
	left := timeout - s.Margin - 2*ping
	switch {
	case s.Alone:
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

func (l *Liveness) raiseClaim(to time.Duration) {
	if !l.claimed || to > l.claim {
		l.claim, l.claimed = to, true
	}
	if to >= l.attachSent { // the authority has the timeout of this connection
		l.doubted = false
	}
}

// keepTouch keeps a touch. The last one is replaced while it is less than touchDistance after the one before it, so
// that the slots reach back far enough.
func (l *Liveness) keepTouch(t serverTouch) {
	l.lastSent = max(l.lastSent, t.sent)
	n := l.touchCount
	switch {
	case n >= 2 && l.touches[n-1].answered-l.touches[n-2].answered < l.servers.touchDistance(l.standing.Timeout):
		l.touchCount--
	case l.touchCount == touchSlots:
		l.touchCount = copy(l.touches[:], l.touches[1:])
	}
	l.touches[l.touchCount] = t
	l.touchCount++
}
