package framework

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/wire"
)

// ErrTimeoutTooShort means that the session timeout that the server granted is too short to hold anything safely. The
// message names the options that decide this.
var ErrTimeoutTooShort = newSentinel("session timeout too short to hold locks, leases or leadership safely")

// Rule is the method by which the client makes sure that a [Hold] ends here before the servers can give the lock to
// another client.
//
// A hold ends one session timeout T, less a margin, after the client sent a request that provably restarted the
// servers' clock of the session. For a standalone server every answered request is that proof. The member of an
// ensemble reports to its leader which sessions have sent something, twice in a tick, and may continue answering for up
// to D after it has lost its leader. So a request counts once a later one has been answered: a ping or a read that was
// sent more than D after it, or a write, which a quorum has committed, that was sent more than half a tick and J after
// it (J is the pause of a leader that is tolerated, T/8, and at most a tick). docs/timeouts.md has the assumptions. The
// rule determines the requests that the client sends for that.
type Rule int8

const (
	// RuleAuto chooses RuleBound for a standalone server and where T is at least 2·D, otherwise
	// RuleHeartbeat.
	RuleAuto Rule = iota
	// RuleBound relies on D (see [WithStaleServerBound]): pings are enough to keep a hold, and the client pings and
	// changes servers at the pace of T - D. After a rest, a hold that lives longer than half a tick and J costs one
	// small write.
	RuleBound
	// RuleHeartbeat counts only writes that a quorum has committed. While something is held, the client sends
	// a small transaction every T/6 (one for each 128 holds, eight at most). It also notices that a hold's node
	// was deleted when the watch on that node is lost. Meant for a T that is short compared with D.
	RuleHeartbeat
)

func (r Rule) String() string { return enumName("Rule", r, "auto", "bound", "heartbeat") }

// Safety describes how the current session's holds are kept safe.
type Safety struct {
	Epoch int64
	// Rule is the rule in force, never RuleAuto. After a reconnect the rule stays the same until the new
	// server has said whether it is standalone; the client asks that first. Until then no answer prolongs a
	// hold more than the answer of an ensemble's member would.
	Rule Rule
	// SessionTimeout is T: the timeout that the server granted or, while there is no session, the timeout
	// that the client asks for. It is the shortest that the session was ever granted: a new leader, or a restarted
	// server, knows only that of its creation, and a member may yet report a request with a shorter one.
	SessionTimeout time.Duration
	// Known reports whether a server of this session has answered whether it is standalone. Until then the client takes
	// the server for a member of an ensemble.
	Known bool
	// Standalone reports whether the server is standalone; then Bound is 0.
	Standalone bool
	// Bound is D. Margin is the safety margin, which is also subtracted from T.
	Bound, Margin time.Duration
	// Heartbeat is the interval of the heartbeats under RuleHeartbeat, 0 under RuleBound.
	Heartbeat time.Duration
	// Remaining is the time for which a hold stays valid if no further answer arrives; 0 if none could be valid.
	Remaining time.Duration
	// Steady is the value below which the Remaining of a hold does not fall while the servers answer without delay:
	// work that stops when less than Steady remains is never stopped without need. Slow answers take their delay off
	// it, under RuleHeartbeat up to three times. A hold that begins when little was sent for a while begins with at
	// least half of T - D, and has less than Steady for its first seconds: until the write that the client then sends
	// for it is committed. 0 if nothing can be held.
	Steady time.Duration
	// Holds is the number of current holds.
	Holds int
	// Refused is the reason why nothing can be held (it matches ErrTimeoutTooShort); nil if holds are possible.
	Refused error
}

type safetyOptions struct {
	sessionTimeout time.Duration // asked for
	rule           Rule
	bound          time.Duration // D
	tick           time.Duration
	margin         time.Duration // negative: derived from the session timeout and the rule
	fenceGrace     time.Duration // negative: derived from the session timeout
}

// safetyPlan has the assumptions about the servers for a session timeout, and the client's intervals that follow
// from them. Plans are not stored: [wire.Validity] has the one in force.
type safetyPlan struct {
	servers   wire.Servers
	bound     time.Duration // D; 0 for a standalone server
	heartbeat time.Duration // of heartbeats; 0 under the bound rule
	refused   error
}

const heartbeats = wire.WritesPerTimeout

// planFor returns the plan for a session timeout. It is a pure function.
func (o *safetyOptions) planFor(timeout time.Duration, standalone bool) safetyPlan {
	bound, margin, tick := o.bound, o.safetyMargin(timeout), o.serverTick(timeout)
	if standalone {
		bound = 0
	}
	p := safetyPlan{bound: bound, servers: wire.Servers{Margin: margin, Stale: max(o.bound, 1), Standalone: standalone}}
	beats := o.rule == RuleHeartbeat || o.rule == RuleAuto && timeout < 2*bound
	if beats {
		p.servers.Stale, p.servers.Standalone, p.heartbeat = 0, false, timeout/heartbeats
	}
	// Of the timeout, a heartbeat needs the longest gap between two requests, the interval to the next heartbeat, and
	// half an interval for its answer. The rest is for pauses of a leader; a short timeout leaves less for them.
	left, least := timeout-p.heartbeat*2-margin-tick/2, timeout/leastJitter
	jitter := min(timeout/8, tick)
	if beats {
		jitter = min(jitter, max(left, least))
	}
	p.servers.Report = tick/2 + jitter
	const advice = "the server granted %v; raise WithSessionTimeout (and maxSessionTimeout at the servers)"
	switch {
	case beats && left < least:
		shorter := max(tick+2*(left-least), 0).Truncate(time.Millisecond)
		p.refused = fmt.Errorf("%w: "+advice+" to %v or more; or give WithServerTick(%v) or less, "+
			"if that is the servers' tickTime (now assumed: %v)",
			ErrTimeoutTooShort, timeout, o.shortestTimeout(), shorter, tick)
		if o.margin > 0 {
			p.refused = fmt.Errorf("%w; or lower WithSafetyMargin (now %v)", p.refused, margin)
		}
	case !beats && (timeout-bound-margin < (timeout-bound)/2 || timeout <= bound):
		p.refused = fmt.Errorf("%w: "+advice+" to %v or more; or lower WithStaleServerBound (now %v), if "+
			"the servers' syncLimit × tickTime allows that; or lower WithSafetyMargin (now %v); or choose "+
			"RuleHeartbeat",
			ErrTimeoutTooShort, timeout, bound+2*max(margin, o.safetyMargin(time.Minute)), bound, margin)
	}
	return p
}

// leastJitter is the part of the session timeout (1/leastJitter) that must be left for pauses of a leader under the
// heartbeat rule.
const leastJitter = 24

// usualTick is the servers' tickTime unless they are configured otherwise.
const usualTick = 2 * time.Second

// serverTick returns the servers' tickTime: the value of WithServerTick, or else the usual one. It never guesses
// a shorter tick: a wrong guess would let holds end too late. But a server that grants more than it was asked
// for shows its shortest timeout, which is two ticks unless configured otherwise: that is evidence for a
// longer tick.
func (o *safetyOptions) serverTick(timeout time.Duration) time.Duration {
	switch {
	case o.tick > 0:
		return o.tick
	case timeout > o.sessionTimeout:
		return max(usualTick, timeout/2)
	}
	return usualTick
}

// shortestTimeout returns a session timeout that is enough for the heartbeat rule, rounded up.
func (o *safetyOptions) shortestTimeout() time.Duration {
	tick := max(o.tick, 0)
	if tick == 0 {
		tick = usualTick
	}
	// Of the timeout, 5/8 are left after a third for the heartbeats, and the least jitter. The default margin is a
	// tenth, at least 10 ms and at most a second.
	with := func(margin time.Duration) time.Duration { return (tick/2 + margin) * 8 / 5 }
	if o.margin >= 0 {
		return roundUpDuration(with(o.margin))
	}
	return roundUpDuration(min(max(tick*20/21, with(10*time.Millisecond)), with(time.Second)))
}

func roundUpDuration(d time.Duration) time.Duration {
	const unit = 10 * time.Millisecond
	return (d + unit).Truncate(unit)
}

// safetyMargin returns the safety margin for a session timeout: the time that a holder has to stop after a loss.
func (o *safetyOptions) safetyMargin(timeout time.Duration) time.Duration {
	if o.margin >= 0 {
		return o.margin
	}
	return defaultGrace(timeout)
}

// graceAfterLoss returns the time that the holders of a lost session have to stop before the client closes that
// session at the servers. It is shorter if a server has reported the session expired: other clients have the locks
// by then.
func (o *safetyOptions) graceAfterLoss(timeout time.Duration, why error) time.Duration {
	switch {
	case o.fenceGrace >= 0:
		return o.fenceGrace
	case !errors.Is(why, wire.ErrExpired):
		return defaultGrace(timeout)
	case o.margin >= 0:
		return o.margin
	}
	return defaultGrace(timeout) / 4
}

// defaultGrace returns the default of the time that a holder has to stop after a loss before another client can get
// the lock.
func defaultGrace(timeout time.Duration) time.Duration {
	return min(max(timeout/10, 10*time.Millisecond), time.Second)
}

// steadyRemaining returns the value of [Safety.Steady].
func (p safetyPlan) steadyRemaining(timeout time.Duration) time.Duration {
	if p.refused != nil {
		return 0
	}
	return p.servers.Steady(timeout)
}

// ruleInForce returns the plan's rule as an exported [Rule].
func (p safetyPlan) ruleInForce() Rule {
	if p.heartbeat > 0 {
		return RuleHeartbeat
	}
	return RuleBound
}
