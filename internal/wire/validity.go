package wire

import (
	"cmp"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/flow"
)

// Validity determines the time until which the servers cannot have expired the session: promise P1. The rule is in
// [Liveness]; Validity adds the clock, and makes a loss final: once the time has run out the session has lapsed,
// whatever reply comes later. Only replies to this client's requests count, from the time that the requests were
// sent. The steps after a loss are in ending.go.
//
// While something is held the session lapses at the instant when the hold is not certain any more, so no hold is ever
// lost by the clock in a session that continues.
//
// Safe for concurrent use.
type Validity struct {
	requested time.Duration // the session timeout that the client requests

	mu         sync.Mutex
	assume     assumption
	origin     clockReading // of the Instants of liveness
	liveness   Liveness
	lossReason error       // why the session is lost; nil if it is not
	changed    flow.Signal // the time may have become shorter: for guardValidity and keepAlive
}

func newValidity(assume assumption, asked time.Duration) *Validity {
	v := &Validity{requested: asked, assume: assume, origin: readClock(), liveness: Liveness{lowestTimeout: asked}}
	v.liveness.Assume(assume(asked, false))
	return v
}

// toInstant converts a reading of the clock for Liveness. Go's monotonic clock is never set.
func (v *Validity) toInstant(i clockReading) Instant {
	return Instant{Mono: i.t.Sub(v.origin.t), Boot: elapsed(v.origin, i)}
}

// Remaining returns the time for which a hold of this session is still certain; 0 or less when it is not, or not yet.
func (v *Validity) Remaining() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.toInstant(readClock())
	if v.lossReason != nil || v.liveness.holds > 0 && v.checkLoss(at) {
		return 0
	}
	return v.liveness.HoldLeft(at)
}

// Valid reports whether a hold of this session is certain now.
func (v *Validity) Valid() bool { return v.Remaining() > 0 }

// Short reports whether a hold that began now would have too little time left, and after how long a committed write
// helps; see [Liveness.Short].
func (v *Validity) Short() (wait time.Duration, short bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.liveness.Short(v.toInstant(readClock()))
}

// WriteDue returns in how long a committed write has to be sent for the holds; see [Liveness.WriteDue].
func (v *Validity) WriteDue() (in time.Duration, due bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.liveness.WriteDue(v.toInstant(readClock()))
}

// Lost reports whether the session has ended, by the clock or in another way. It never becomes false again.
func (v *Validity) Lost() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.checkLoss(v.toInstant(readClock()))
}

// LossReason returns ErrLapsed or what ended the session before, nil while Lost has not reported true.
func (v *Validity) LossReason() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lossReason
}

// Standing returns the facts about the session and its server.
func (v *Validity) Standing() Standing {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.liveness.standing
}

// effectiveTimeout is the session timeout that counts; granted for a session that no quorum knows.
func (v *Validity) effectiveTimeout(granted time.Duration) time.Duration {
	return cmp.Or(v.Standing().Timeout, granted)
}

// assumedServers returns the present assumptions about the servers.
func (v *Validity) assumedServers() Servers {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.liveness.servers
}

// pingPace returns the ping interval while something is held, and the silence after which the connection is closed. A
// server may grant a month to a client that has requested ten seconds: then the requested timeout counts.
func (v *Validity) pingPace(granted time.Duration) (ping, silence time.Duration) {
	ping, silence = v.assumedServers().Pace(granted)
	often, soon := Servers{Standalone: true}.Pace(v.requested)
	return min(ping, often), min(silence, soon)
}

// restInterval returns the ping interval while nothing is held; see pingPace.
func (v *Validity) restInterval(granted time.Duration) time.Duration {
	return min(v.assumedServers().Rest(granted), Servers{Standalone: true}.Rest(v.requested))
}

// BeginHold counts a hold from now on, until EndHold, if one is certain now; otherwise it returns false.
func (v *Validity) BeginHold() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.toInstant(readClock())
	if v.liveness.standing.Timeout == 0 || v.checkLoss(at) || v.liveness.HoldLeft(at) <= 0 {
		return false
	}
	ping := v.liveness.heldPingInterval()
	rested := at.Boot-v.liveness.lastSent > ping // the keeper pings immediately
	if v.liveness.AddHolds(1, at); v.liveness.holds == 1 && (rested || v.liveness.HoldLeft(at) < ping) {
		v.changed.Fire()
	}
	return true
}

// EndHold undoes one BeginHold. A session that has lapsed stays lost.
func (v *Validity) EndHold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.toInstant(readClock())
	v.checkLoss(at)
	v.liveness.AddHolds(-1, at)
}

// RecordVerdict records a verdict on the connected server, and reports whether to ask again. It must be called before the
// connection of the reply has ended: inside the call's Done.
func (v *Validity) RecordVerdict(verdict Verdict) (again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.checkLoss(v.toInstant(readClock())) {
		return false
	}
	again = v.liveness.RecordVerdict(verdict)
	v.updateAssumptions()
	return again
}

// updateAssumptions sets the assumptions for another session timeout or server.
func (v *Validity) updateAssumptions() {
	s := v.liveness.standing
	v.liveness.Assume(v.assume(s.Timeout, s.Standalone && s.Current))
	v.changed.Fire()
}

// holdState reports whether something is held. changed is closed when the time may have become shorter, and when a hold
// begins after a rest.
func (v *Validity) holdState() (held bool, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.liveness.holds > 0, v.changed.C()
}

// checkLoss records the loss, and wakes guardValidity, if the time has run out. It reports whether the session is lost.
func (v *Validity) checkLoss(at Instant) bool {
	if v.lossReason == nil && v.liveness.standing.Timeout != 0 && v.liveness.SessionLeft(at) <= 0 {
		v.lossReason = ErrLapsed
		v.changed.Fire()
	}
	return v.lossReason != nil
}

// timeToLapse returns the time until the session lapses with its holds, and false before there is a session.
func (v *Validity) timeToLapse() (left time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lossReason == nil {
		left = v.liveness.SessionLeft(v.toInstant(readClock()))
	}
	return left, v.liveness.standing.Timeout != 0
}

// nextCheck reads the clock for guardValidity. It returns how long to wait before the next reading, what ends that wait
// earlier, and the reason if the session is lost. The wait is shorter than the time left: timers stand still while a
// machine sleeps.
func (v *Validity) nextCheck() (wait time.Duration, changed <-chan struct{}, why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.toInstant(readClock())
	switch {
	case v.checkLoss(at):
		return 0, nil, v.lossReason
	case v.liveness.standing.Timeout == 0:
		return time.Hour, v.changed.C(), nil
	}
	return min(v.liveness.SessionLeft(at), max(v.liveness.heldPingInterval(), 50*time.Millisecond)), v.changed.C(), nil
}

// recordLoss makes the session lost, whatever the clock reads.
func (v *Validity) recordLoss(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lossReason == nil {
		v.lossReason = why
	}
	v.changed.Fire()
}

// recordReply records the reply to a request sent at sent, and returns false if it came too late.
func (v *Validity) recordReply(sent clockReading, proof Proof) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.toInstant(readClock())
	if v.checkLoss(at) {
		return false
	}
	v.liveness.RecordReply(proof, v.toInstant(sent), at)
	return true
}

// recordConnecting records that a connect request is sent.
func (v *Validity) recordConnecting(at clockReading) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.liveness.RecordConnecting(v.toInstant(at))
	v.changed.Fire()
}

// recordConnected records the reply to the connect request sent at sent; false if it came too late. timeout is the
// granted session timeout.
func (v *Validity) recordConnected(sent clockReading, timeout time.Duration, readOnly bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.toInstant(readClock())
	if v.checkLoss(at) {
		return false
	}
	v.liveness.RecordConnected(v.toInstant(sent), at, timeout, readOnly)
	v.updateAssumptions()
	return true
}
