package wire

import (
	"cmp"
	"sync"
	"time"
)

// Validity says until when the server cannot have expired the session: promise P1, in one place. It owns the
// rule, too; see [Standing] for how that changes.
//
// The rules: only answers to requests of ours count, from the moment they were sent (R1, R2). An answer that
// comes too late is no answer: once the time has run out the session is lost for good (R3). While a connect
// request is unanswered the lowest timeout ever seen is assumed (R4). Under [RuleBound] the time that a
// member cut off from its leader may go on answering is subtracted (R5). Under [RuleHeartbeat] committed
// writes keep a hold instead (R6): the send time of the last but one counts, less what the leader may not
// know yet. Time includes suspend (R8).
//
// While something is held the session lapses at the very instant at which the hold is not certain any more,
// whoever looks at the clock first: no hold is ever lost in a session that goes on. What follows is in
// ending.go.
//
// Safe for concurrent use.
type Validity struct {
	mu       sync.Mutex
	plan     planner
	standing Standing
	rule     Rule          // what plan says of standing
	ping     time.Duration // how often it pings
	lowest   time.Duration // lowest timeout ever negotiated or asked for
	created  time.Duration // the timeout with which the session was created; 0 before that
	offered  time.Duration // what the last handshake has granted, created at most
	answered instant       // when the last answered request was sent
	attach   instant       // when the oldest unanswered connect request was sent; zero if there is none
	commit   instant       // when the last committed write was sent
	previous instant       // and the one before it
	kept     time.Duration // what was certain at keptAt
	keptAt   instant       // the last change of the rule; zero if nothing was certain then
	holds    int
	why      error         // why it has lapsed; nil if it has not
	changed  chan struct{} // closed and replaced when the time may have become shorter
}

func newValidity(plan planner, asked time.Duration) *Validity {
	return &Validity{plan: plan, rule: plan(asked, false), lowest: asked, changed: make(chan struct{})}
}

// Remaining is how long a hold of this session is still certain; 0 or less when it is not, or not yet.
func (v *Validity) Remaining() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	if v.standing.Timeout == 0 || v.why != nil || v.holds > 0 && v.lapseNow(at) {
		return 0
	}
	return v.left(true, at)
}

// Valid says whether a hold of this session is certain now.
func (v *Validity) Valid() bool { return v.Remaining() > 0 }

// Lapsed says whether the time has run out, or the session has ended in another way. It never becomes false
// again.
func (v *Validity) Lapsed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lapseNow(now())
}

// Why is the reason once Lapsed is true: ErrLapsed, or what ended the session before. Until then it is nil.
func (v *Validity) Why() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.why
}

// Standing is what the rule rests on.
func (v *Validity) Standing() Standing {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.standing
}

// timeout is the session timeout that counts; granted for a session that no quorum knows.
func (v *Validity) timeout(granted time.Duration) time.Duration {
	return cmp.Or(v.Standing().Timeout, granted)
}

// Hold counts a hold from now on, if one is certain now; otherwise it returns false. Unhold takes it back.
func (v *Validity) Hold() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	left := v.left(true, at)
	if v.standing.Timeout == 0 || v.lapseNow(at) || left <= 0 {
		return false
	}
	rested := elapsed(v.answered, at) > v.ping/2 // the keeper pings at once
	if v.holds++; v.holds == 1 && (rested || left < v.left(false, at)) {
		v.signal()
	}
	return true
}

// Unhold undoes one Hold. It revives nothing that has lapsed.
func (v *Validity) Unhold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lapseNow(now())
	v.holds--
}

// Answered notes the server's answer to the question whether it stands alone, and returns whether to ask
// again. It must be called before the connection that carried the answer is gone: inside the call's Done.
func (v *Validity) Answered(verdict Verdict) (again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	if v.lapseNow(at) {
		return false
	}
	return v.changeRule(news{verdict: verdict}, at).ask
}

func (v *Validity) changeRule(n news, at instant) outcome {
	left := v.left(true, at)
	var o outcome
	v.standing, o = v.standing.next(n, v.plan, v.holds, left)
	v.rule, v.kept, v.keptAt = o.rule, 0, instant{}
	v.ping, _ = o.rule.pace(v.standing.Timeout)
	if o.keep {
		v.kept, v.keptAt = left, at
	}
	v.signal()
	return o
}

// signal wakes guard, which waits for the time's end, and the keeper.
func (v *Validity) signal() {
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *Validity) ruleNow() Rule {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.rule
}

// held says whether something is held; changed is closed when a hold has begun after a rest, among others.
func (v *Validity) held() (held bool, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.holds > 0, v.changed
}

// beatFrom is what committed writes leave if the last but one was sent at from; 0 if there was none.
func (v *Validity) beatFrom(from, at instant) time.Duration {
	if from.t.IsZero() {
		return 0
	}
	return v.standing.Timeout - v.rule.Tick/2 - v.ping - v.rule.Jitter - v.rule.Margin - elapsed(from, at)
}

// left is how long a hold is certain, or how long a session lives that has none.
func (v *Validity) left(hold bool, at instant) time.Duration {
	cut := v.rule.Margin
	if v.rule.Kind == RuleBound {
		cut += v.rule.Bound
	}
	if !hold && cut >= v.standing.Timeout {
		// The rule allows no hold at all: nothing is ever valid, and the session lives as long as the server
		// may keep it.
		return v.standing.Timeout - elapsed(v.answered, at)
	}
	left := v.standing.Timeout - cut - elapsed(v.answered, at)
	if hold && v.rule.Kind == RuleHeartbeat {
		left = min(left, v.beatFrom(v.previous, at))
	}
	if hold && !v.keptAt.t.IsZero() { // what was certain when the rule came into force stays so
		left = max(left, v.kept-elapsed(v.keptAt, at))
	}
	if !v.attach.t.IsZero() { // whatever server the connect request reaches may replace the session's time
		left = min(left, v.lowest-v.rule.Margin-elapsed(v.attach, at))
	}
	return left
}

// lapseNow makes a lapse final if the time has run out, for the session and its holds, and wakes guard. It
// says whether the validity has lapsed.
func (v *Validity) lapseNow(at instant) bool {
	if v.why == nil && v.standing.Timeout != 0 && v.left(v.holds > 0, at) <= 0 {
		v.why = ErrLapsed
		v.signal()
	}
	return v.why != nil
}

// lapseIn returns the time until the session lapses with its holds, and false before there is a session.
func (v *Validity) lapseIn() (left time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.why == nil {
		left = v.left(v.holds > 0, now())
	}
	return left, v.standing.Timeout != 0
}

// watch is for guard: how long to wait until the next look at the clock, what ends that wait earlier, and,
// once the validity has lapsed, why. It looks more often than the session could lapse: timers stand still
// while a machine sleeps.
func (v *Validity) watch() (wait time.Duration, changed <-chan struct{}, why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	switch {
	case v.lapseNow(at):
		return 0, nil, v.why
	case v.standing.Timeout == 0:
		return time.Hour, v.changed, nil
	}
	return min(v.left(v.holds > 0, at), max(v.ping/2, 50*time.Millisecond)), v.changed, nil
}

// end makes the validity lapse, whatever the clock says.
func (v *Validity) end(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.why == nil {
		v.why = why
	}
	v.signal()
}

// answer counts an answer to a request sent at sent; false if it came too late (R3). committed says that it
// is that of a write which went through the quorum.
func (v *Validity) answer(sent instant, committed bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	if v.lapseNow(at) {
		return false
	}
	if v.answered.t.IsZero() || elapsed(v.answered, sent) > 0 {
		v.answered = sent
	}
	if committed && v.offered > v.standing.Timeout {
		// The leader that has granted more has a quorum. Earlier writes prove what was granted before.
		v.commit, v.previous = instant{}, instant{}
		v.changeRule(news{grown: v.offered}, at)
	}
	if committed {
		if v.previous = v.commit; v.beatFrom(v.previous, at) <= 0 {
			v.previous = instant{} // too old to count: this one is the first
		}
		v.commit = sent
	}
	return true
}

// SinceCommit is how long ago the last committed write was sent; 0 if there was none.
func (v *Validity) SinceCommit() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.commit.t.IsZero() {
		return 0
	}
	return elapsed(v.commit, now())
}

// connecting notes that a connect request is sent.
func (v *Validity) connecting(at instant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.standing.Timeout != 0 && v.attach.t.IsZero() {
		v.attach = at
		v.signal()
	}
}

// connected notes that the connect request sent at sent was answered; false if that came too late. A member
// without a quorum has no say about the session's life (R1). timeout is what was granted.
func (v *Validity) connected(sent instant, timeout time.Duration, readOnly bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	if v.lapseNow(at) {
		return false
	}
	if v.standing.Timeout == 0 && readOnly {
		return true // no quorum knows the session: nothing in it is ever valid, and nothing can lapse
	}
	v.lowest = min(v.lowest, timeout)
	if readOnly {
		timeout = v.standing.Timeout // the session's time is what members with a quorum have granted
	}
	if v.created == 0 {
		v.created = timeout
	}
	v.offered = min(timeout, v.created)
	timeout = v.offered
	if before := v.standing.Timeout; before != 0 {
		timeout = min(timeout, before) // until it is proved: see answer
	}
	v.changeRule(news{granted: timeout}, at)
	if !readOnly {
		v.attach, v.answered = instant{}, sent
	}
	return true
}
