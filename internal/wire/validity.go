package wire

import (
	"sync"
	"time"

	"github.com/go-curator/curator/internal/mutant"
)

// Validity says until when the server cannot have expired the session: promise P1, in one place.
//
// The rules: only answers to requests of ours count, from the moment they were sent (R1, R2). An answer that comes too late is no answer: once
// the time has run out the session is lost for good (R3). While a connect request is unanswered the lowest timeout ever seen is assumed (R4).
// Under [RuleBound] the time that a member cut from its leader may go on answering is taken off (R5). Under [RuleHeartbeat] a hold lives from
// committed writes instead (R6): the send time of the last but one, less what the leader may not know yet. Time includes suspend (R8).
//
// Safe for concurrent use.
type Validity struct {
	mu       sync.Mutex
	rule     Rule
	timeout  time.Duration // negotiated, 0 before the first handshake
	lowest   time.Duration // lowest timeout ever negotiated or asked for
	answered time.Time     // when the last answered request was sent
	attach   time.Time     // when the oldest unanswered connect request was sent; zero if there is none
	commit   time.Time     // when the last committed write was sent
	previous time.Time     // and the one before it
	holds    int
	lapsed   bool
	changed  chan struct{} // closed and replaced when the time may have become shorter
}

func newValidity(rule Rule, asked time.Duration) *Validity {
	return &Validity{rule: rule, lowest: asked, changed: make(chan struct{})}
}

// Remaining is how long a hold of this session is still certain; 0 or less when it is not, or not yet.
func (v *Validity) Remaining() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lapsed || v.timeout == 0 {
		return 0
	}
	return v.holdLeft(time.Now())
}

// Until is the instant at which Remaining reaches 0.
func (v *Validity) Until() time.Time { return time.Now().Add(v.Remaining()) }

// Valid says whether a hold of this session is certain now.
func (v *Validity) Valid() bool { return v.Remaining() > 0 }

// Lapsed says whether the time has run out, or the session has ended otherwise. It never becomes false again.
func (v *Validity) Lapsed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lapsed || v.lapseNow(time.Now())
}

// Changed returns a channel that is closed when the remaining time may have become shorter than it was.
func (v *Validity) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// Hold tells that something is (about to be) held; Unhold ends it. Under [RuleHeartbeat] the first Hold forgets committed writes that are too
// old to count: Remaining is 0 until two new ones are answered.
func (v *Validity) Hold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holds == 0 && !v.previous.IsZero() && v.beatLeft(time.Now()) <= 0 {
		v.commit, v.previous = time.Time{}, time.Time{}
	}
	v.holds++
	v.signal()
}

// Unhold undoes one Hold.
func (v *Validity) Unhold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.holds--
}

// pace is how often to ping and after how much silence to give a connection up, so that there is time to find another before the session lapses.
func (r Rule) pace(timeout time.Duration) (ping, silence time.Duration) {
	usable := timeout
	if r.Kind == RuleBound && timeout > r.Bound {
		usable = timeout - r.Bound
	}
	return max(usable/6, time.Millisecond), max(usable/3, 2*time.Millisecond)
}

// cut is what the rule takes off the time that answers give.
func (r Rule) cut() time.Duration {
	if r.Kind == RuleBound {
		return r.Bound + r.Margin
	}
	return r.Margin
}

func (v *Validity) signal() {
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *Validity) setRule(r Rule) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lapseNow(time.Now()) // what has run out under the old rule stays so
	v.rule = r
	v.signal()
}

func (v *Validity) ruleNow() Rule {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.rule
}

// sessionLeft is what is left by answers alone.
func (v *Validity) sessionLeft(now time.Time) time.Duration {
	cut := v.rule.cut()
	left := v.timeout - cut - elapsed(v.answered, now)
	if !v.attach.IsZero() {
		left = min(left, v.lowest-cut-elapsed(v.attach, now))
	}
	return left
}

// beatLeft is what is left by committed writes; 0 without two of them.
func (v *Validity) beatLeft(now time.Time) time.Duration { return v.beatFrom(v.previous, now) }

// beatFrom is what is left if the last committed write but one was sent at at.
func (v *Validity) beatFrom(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	gap, _ := v.rule.pace(v.timeout)
	return v.timeout - v.rule.Tick/2 - gap - v.rule.Jitter - v.rule.Margin - elapsed(at, now)
}

func (v *Validity) holdLeft(now time.Time) time.Duration {
	left := v.sessionLeft(now)
	if v.rule.Kind == RuleHeartbeat {
		left = min(left, v.beatLeft(now))
	}
	return left
}

// left is the time until the session lapses: with holds that are established under RuleHeartbeat, theirs.
func (v *Validity) left(now time.Time) time.Duration {
	if v.rule.Kind == RuleHeartbeat && v.holds > 0 && !v.previous.IsZero() {
		return v.holdLeft(now)
	}
	if v.rule.cut() >= v.timeout {
		// A rule that leaves no room for any hold: nothing is ever valid, and the session lives as long as the server may keep it.
		return v.timeout - elapsed(v.answered, now)
	}
	return v.sessionLeft(now)
}

func (v *Validity) lapseNow(now time.Time) bool {
	if v.timeout != 0 && v.left(now) <= 0 && !mutant.On("extended after a lapse") {
		v.lapsed = true
	}
	return v.lapsed
}

// lapseIn returns the time until the session lapses, and false before there is a session.
func (v *Validity) lapseIn() (time.Duration, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.left(time.Now()), v.timeout != 0
}

// end makes the lapse final whatever the clock says.
func (v *Validity) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lapsed = true
	v.signal()
}

// answer counts an answer to a request sent at sent; false if it came too late (R3).
func (v *Validity) answer(sent time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lapsed || v.lapseNow(time.Now()) {
		return false
	}
	if sent.After(v.answered) {
		v.answered = sent
	}
	return true
}

// committed counts a committed write sent at sent. Call it after answer.
func (v *Validity) committed(sent time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.lapsed {
		if v.beatFrom(v.commit, time.Now()) > 0 {
			v.previous = v.commit
		} else {
			v.previous = time.Time{} // too old to count: this one is the first
		}
		v.commit = sent
	}
}

// connecting tells that a connect request is sent.
func (v *Validity) connecting(at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.timeout != 0 && v.attach.IsZero() {
		v.attach = at
		v.signal()
	}
}

// connected tells that the connect request sent at sent was answered; false if that came too late. A member without a quorum has no say about
// the session's life (R1). The rule is the one that goes with the timeout.
func (v *Validity) connected(sent time.Time, timeout time.Duration, readOnly bool, rule Rule) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lapsed || v.lapseNow(time.Now()) {
		return false
	}
	if v.timeout == 0 && readOnly {
		return true // a session that no quorum knows: nothing in it is ever valid, and nothing can lapse
	}
	v.timeout, v.lowest, v.rule = timeout, min(v.lowest, timeout), rule
	if !readOnly {
		v.attach, v.answered = time.Time{}, sent
	}
	v.signal()
	return true
}
