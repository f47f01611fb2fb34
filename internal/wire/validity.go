package wire

import (
	"cmp"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/flow"
)

// Validity determines the time until which the server cannot have expired the session: promise P1. The rule is in
// [Liveness]; Validity adds the clock, and makes a lapse final: once the time has run out the session is lost for good,
// whatever reply comes later (R3). Only replies to this client's requests count, from the time that the requests were
// sent (R1, R2).
//
// While something is held the session lapses at the instant when the hold is not certain any more, so no hold is ever
// lost by the clock in a session that continues. The steps after a lapse are in ending.go.
//
// Safe for concurrent use.
type Validity struct {
	asked time.Duration // the session timeout that the client requests

	mu      sync.Mutex
	assume  assumption
	origin  instant // of the clocks of live
	live    Liveness
	why     error       // why it has lapsed; nil if it has not
	changed flow.Signal // the time may have become shorter: for guard, which waits for its end, and the keeper
}

func newValidity(assume assumption, asked time.Duration) *Validity {
	v := &Validity{asked: asked, assume: assume, origin: now(), live: Liveness{lowest: asked}}
	v.live.Assume(assume(asked, false))
	return v
}

// at converts a reading of the clock for Liveness. Go's monotonic clock is never set.
func (v *Validity) at(i instant) Instant {
	return Instant{Mono: i.t.Sub(v.origin.t), Boot: elapsed(v.origin, i)}
}

// Remaining returns the time for which a hold of this session is still certain; 0 or less when it is not, or not yet.
func (v *Validity) Remaining() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.at(now())
	if v.why != nil || v.live.holds > 0 && v.lapseNow(at) {
		return 0
	}
	return v.live.Left(at)
}

// Valid reports whether a hold of this session is certain now.
func (v *Validity) Valid() bool { return v.Remaining() > 0 }

// Short reports whether a hold that began now would have too little time left, and after how long a committed write
// helps; see [Liveness.Short].
func (v *Validity) Short() (wait time.Duration, short bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live.Short(v.at(now()))
}

// WriteDue returns in how long a committed write has to be sent for the holds; see [Liveness.WriteDue].
func (v *Validity) WriteDue() (in time.Duration, due bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live.WriteDue(v.at(now()))
}

// Lapsed reports whether the time has run out, or the session has ended in another way. It never becomes false again.
func (v *Validity) Lapsed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lapseNow(v.at(now()))
}

// Why is the reason once Lapsed is true: ErrLapsed, or what ended the session before. Until then it is nil.
func (v *Validity) Why() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.why
}

// Standing returns the knowledge about the session and its server.
func (v *Validity) Standing() Standing {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live.standing
}

// timeout is the session timeout that counts; granted for a session that no quorum knows.
func (v *Validity) timeout(granted time.Duration) time.Duration {
	return cmp.Or(v.Standing().Timeout, granted)
}

// servers returns the present assumptions about the servers.
func (v *Validity) servers() Servers {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live.servers
}

// pace returns the ping interval while something is held, and the silence after which the connection is closed. A server
// may grant a month to a client that has requested ten seconds: then the requested timeout counts.
func (v *Validity) pace(granted time.Duration) (ping, silence time.Duration) {
	ping, silence = v.servers().Pace(granted)
	often, soon := Servers{Alone: true}.Pace(v.asked)
	return min(ping, often), min(silence, soon)
}

// rest returns the ping interval while nothing is held; see pace.
func (v *Validity) rest(granted time.Duration) time.Duration {
	return min(v.servers().Rest(granted), Servers{Alone: true}.Rest(v.asked))
}

// Hold counts a hold from now on, if one is certain now; otherwise it returns false. Unhold takes it back.
func (v *Validity) Hold() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.at(now())
	if v.live.standing.Timeout == 0 || v.lapseNow(at) || v.live.Left(at) <= 0 {
		return false
	}
	ping := v.live.heldPing()
	rested := at.Boot-v.live.sent > ping // the keeper pings immediately
	if v.live.Hold(1, at); v.live.holds == 1 && (rested || v.live.Left(at) < ping) {
		v.changed.Fire()
	}
	return true
}

// Unhold undoes one Hold. It revives nothing that has lapsed.
func (v *Validity) Unhold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.at(now())
	v.lapseNow(at)
	v.live.Hold(-1, at)
}

// Answered records the server's answer to the question whether it is standalone, and reports whether to ask again. It
// must be called before the connection that carried the answer is gone: inside the call's Done.
func (v *Validity) Answered(verdict Verdict) (again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lapseNow(v.at(now())) {
		return false
	}
	again = v.live.Judge(verdict)
	v.assumed()
	return again
}

// assumed sets the assumptions for another session timeout or server.
func (v *Validity) assumed() {
	s := v.live.standing
	v.live.Assume(v.assume(s.Timeout, s.Alone && s.Asked))
	v.changed.Fire()
}

// held reports whether something is held; changed is closed when a hold has begun after a rest, among others.
func (v *Validity) held() (held bool, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live.holds > 0, v.changed.C()
}

// lapseNow makes a lapse final if the time has run out, for the session and its holds, and wakes guard. It reports
// whether the validity has lapsed.
func (v *Validity) lapseNow(at Instant) bool {
	if v.why == nil && v.live.standing.Timeout != 0 && v.live.SessionLeft(at) <= 0 {
		v.why = ErrLapsed
		v.changed.Fire()
	}
	return v.why != nil
}

// lapseIn returns the time until the session lapses with its holds, and false before there is a session.
func (v *Validity) lapseIn() (left time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.why == nil {
		left = v.live.SessionLeft(v.at(now()))
	}
	return left, v.live.standing.Timeout != 0
}

// watch is for guard: how long to wait until the next look at the clock, what ends that wait earlier, and,
// once the validity has lapsed, why. It looks more often than the session could lapse: timers stand still
// while a machine sleeps.
func (v *Validity) watch() (wait time.Duration, changed <-chan struct{}, why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.at(now())
	switch {
	case v.lapseNow(at):
		return 0, nil, v.why
	case v.live.standing.Timeout == 0:
		return time.Hour, v.changed.C(), nil
	}
	return min(v.live.SessionLeft(at), max(v.live.heldPing(), 50*time.Millisecond)), v.changed.C(), nil
}

// end makes the validity lapse, whatever the clock says.
func (v *Validity) end(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.why == nil {
		v.why = why
	}
	v.changed.Fire()
}

// answer counts the reply to a request sent at sent; false if it came too late (R3).
func (v *Validity) answer(sent instant, proof Proof) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.at(now())
	if v.lapseNow(at) {
		return false
	}
	before := v.live.standing.Timeout
	if v.live.Answer(proof, v.at(sent), at); v.live.standing.Timeout != before {
		v.assumed()
	}
	return true
}

// connecting records that a connect request is sent.
func (v *Validity) connecting(at instant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.live.Connecting(v.at(at))
	v.changed.Fire()
}

// connected records the reply to the connect request sent at sent; false if it came too late. timeout is the granted
// session timeout.
func (v *Validity) connected(sent instant, timeout time.Duration, readOnly bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.at(now())
	if v.lapseNow(at) {
		return false
	}
	v.live.Connected(v.at(sent), at, timeout, readOnly)
	v.assumed()
	return true
}
