package wire

import (
	"sync"
	"time"
)

// Validity says until when the server cannot have expired the session: promise P1, in one place. It owns the rule, too; see [Standing] for how that
// changes.
//
// The rules: only answers to requests of ours count, from the moment they were sent (R1, R2). An answer that comes too late is no answer: once
// the time has run out the session is lost for good (R3). While a connect request is unanswered the lowest timeout ever seen is assumed (R4).
// Under [RuleBound] the time that a member cut from its leader may go on answering is taken off (R5). Under [RuleHeartbeat] a hold lives from
// committed writes instead (R6): the send time of the last but one, less what the leader may not know yet. Time includes suspend (R8).
//
// While something is held the session lapses at the very instant at which the hold is not certain any more, whoever looks at the clock first: no
// hold is ever lost in a session that goes on.
//
// Safe for concurrent use.
type Validity struct {
	mu       sync.Mutex
	plan     func(timeout time.Duration, alone bool) Rule // pure
	standing Standing
	rule     Rule          // what plan says of standing
	lowest   time.Duration // lowest timeout ever negotiated or asked for
	answered instant       // when the last answered request was sent
	attach   instant       // when the oldest unanswered connect request was sent; zero if there is none
	commit   instant       // when the last committed write was sent
	previous instant       // and the one before it
	kept     time.Duration // what was certain, at
	keptAt   instant       // the last change of the rule; zero if nothing was
	holds    int
	lapsed   bool
	why      error         // of lapsed
	changed  chan struct{} // closed and replaced when the time may have become shorter
}

func newValidity(plan func(time.Duration, bool) Rule, asked time.Duration) *Validity {
	return &Validity{plan: plan, rule: plan(asked, false), lowest: asked, changed: make(chan struct{})}
}

// always is the plan that knows one rule.
func always(r Rule) func(time.Duration, bool) Rule {
	return func(time.Duration, bool) Rule { return r }
}

// Remaining is how long a hold of this session is still certain; 0 or less when it is not, or not yet.
func (v *Validity) Remaining() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	if v.standing.Timeout == 0 || v.lapsed || v.holds > 0 && v.lapseNow(at) {
		return 0
	}
	return v.holdLeft(at)
}

// Until is the instant at which Remaining reaches 0.
func (v *Validity) Until() time.Time { return time.Now().Add(v.Remaining()) }

// Valid says whether a hold of this session is certain now.
func (v *Validity) Valid() bool { return v.Remaining() > 0 }

// Lapsed says whether the time has run out, or the session has ended otherwise. It never becomes false again.
func (v *Validity) Lapsed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lapseNow(now())
}

// Why is nil until Lapsed, and then why: ErrLapsed, or what has ended the session before.
func (v *Validity) Why() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.why
}

// Changed returns a channel that is closed when the remaining time may have become shorter than it was.
func (v *Validity) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// Standing is what the rule rests on.
func (v *Validity) Standing() Standing {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.standing
}

// Hold tells that something is held from now on, if a hold is certain now; otherwise it returns false. Unhold ends it.
func (v *Validity) Hold() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	if v.standing.Timeout == 0 || v.lapseNow(at) || v.holdLeft(at) <= 0 {
		return false
	}
	v.holds++
	v.signal()
	return true
}

// Unhold undoes one Hold. What has run out before stays so.
func (v *Validity) Unhold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lapseNow(now())
	v.holds--
}

// Answered tells what the server has said to the question whether it stands alone, and returns whether it is to be asked again. It must be called before
// the connection that carried the answer is gone: inside the call's Done.
func (v *Validity) Answered(verdict Verdict) (again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	if v.lapseNow(at) {
		return false
	}
	return v.turn(news{verdict: verdict}, at).ask
}

// turn changes the rule.
func (v *Validity) turn(n news, at instant) outcome {
	left := v.holdLeft(at)
	var o outcome
	v.standing, o = v.standing.next(n, v.plan, v.holds, left)
	v.rule, v.kept, v.keptAt = o.rule, 0, instant{}
	if o.keep {
		v.kept, v.keptAt = left, at
	}
	v.signal()
	return o
}

// signal wakes those who wait for the time's end.
func (v *Validity) signal() {
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *Validity) ruleNow() Rule {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.rule
}

// sessionLeft is what is left by answers alone.
func (v *Validity) sessionLeft(at instant) time.Duration {
	return v.attaching(v.standing.Timeout-v.rule.cut()-elapsed(v.answered, at), at)
}

// attaching is left, or what a connect request that is on its way leaves of it: whoever it reaches may replace the session's time.
func (v *Validity) attaching(left time.Duration, at instant) time.Duration {
	if v.attach.zero() {
		return left
	}
	return min(left, v.lowest-v.rule.Margin-elapsed(v.attach, at))
}

// beatFrom is what is left by committed writes if the last but one was sent at from; 0 if there was none.
func (v *Validity) beatFrom(from, at instant) time.Duration {
	if from.zero() {
		return 0
	}
	gap, _ := v.rule.pace(v.standing.Timeout)
	return v.standing.Timeout - v.rule.Tick/2 - gap - v.rule.Jitter - v.rule.Margin - elapsed(from, at)
}

// holdLeft is what is left of a hold: by the rule in force, or by what was certain when it came into force.
func (v *Validity) holdLeft(at instant) time.Duration {
	left := v.standing.Timeout - v.rule.cut() - elapsed(v.answered, at)
	if v.rule.Kind == RuleHeartbeat {
		left = min(left, v.beatFrom(v.previous, at))
	}
	if !v.keptAt.zero() {
		left = max(left, v.kept-elapsed(v.keptAt, at))
	}
	return v.attaching(left, at)
}

// left is the time until the session lapses: with its holds, if there are any.
func (v *Validity) left(at instant) time.Duration {
	switch {
	case v.holds > 0:
		return v.holdLeft(at)
	case v.rule.cut() >= v.standing.Timeout:
		// A rule that leaves no room for any hold: nothing is ever valid, and the session lives as long as the server may keep it.
		return v.standing.Timeout - elapsed(v.answered, at)
	}
	return v.sessionLeft(at)
}

// lapseNow makes a lapse final, and known to whoever has to act on it.
func (v *Validity) lapseNow(at instant) bool {
	if !v.lapsed && v.standing.Timeout != 0 && v.left(at) <= 0 {
		v.lapsed, v.why = true, ErrLapsed
		v.signal()
	}
	return v.lapsed
}

// lapseIn returns the time until the session lapses, and false before there is a session.
func (v *Validity) lapseIn() (time.Duration, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lapsed {
		return 0, v.standing.Timeout != 0
	}
	return v.left(now()), v.standing.Timeout != 0
}

// glance is how often to look at the clock: a timer stands still while the machine sleeps.
func (v *Validity) glance() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	ping, _ := v.rule.pace(v.standing.Timeout)
	return max(ping/2, 50*time.Millisecond)
}

// end makes the lapse final whatever the clock says.
func (v *Validity) end(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.lapsed {
		v.lapsed, v.why = true, why
	}
	v.signal()
}

// answer counts an answer to a request sent at sent; false if it came too late (R3).
func (v *Validity) answer(sent instant) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lapseNow(now()) {
		return false
	}
	if v.answered.zero() || elapsed(v.answered, sent) > 0 {
		v.answered = sent
	}
	return true
}

// committed counts a committed write sent at sent. Call it after answer.
func (v *Validity) committed(sent instant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.lapsed {
		if v.beatFrom(v.commit, now()) > 0 {
			v.previous = v.commit
		} else {
			v.previous = instant{} // too old to count: this one is the first
		}
		v.commit = sent
	}
}

// SinceCommit is how long ago the last committed write was sent; 0 if there was none.
func (v *Validity) SinceCommit() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.commit.zero() {
		return 0
	}
	return elapsed(v.commit, now())
}

// connecting tells that a connect request is sent.
func (v *Validity) connecting(at instant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.standing.Timeout != 0 && v.attach.zero() {
		v.attach = at
		v.signal()
	}
}

// connected tells that the connect request sent at sent was answered; false if that came too late. A member without a quorum has no say about
// the session's life (R1).
func (v *Validity) connected(sent instant, timeout time.Duration, readOnly bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := now()
	if v.lapseNow(at) {
		return false
	}
	if v.standing.Timeout == 0 && readOnly {
		return true // a session that no quorum knows: nothing in it is ever valid, and nothing can lapse
	}
	v.lowest = min(v.lowest, timeout)
	if readOnly {
		timeout = v.standing.Timeout // what those with a quorum have granted is the session's time
	}
	if timeout > v.standing.Timeout {
		// Writes from before prove what was granted before; and it may be a member that has lost its leader which grants more now.
		v.commit, v.previous = instant{}, instant{}
	}
	v.turn(news{granted: timeout}, at)
	if !readOnly {
		v.attach, v.answered = instant{}, sent
	}
	return true
}
