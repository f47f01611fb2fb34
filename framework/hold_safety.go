package framework

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/wire"
)

// ErrTimeoutTooShort means that the session timeout that the server granted is too short to hold anything safely. The
// message names the options that decide this.
var ErrTimeoutTooShort = newSentinel("session timeout too short to hold locks, leases or leadership safely")

// Rule is the method by which the client makes sure that a [Hold] ends before the servers can expire the session, so
// that another client gets the lock.
//
// A hold ends one session timeout T, less a margin, after the client sent the last request that provably restarted the
// servers' clock of the session. A standalone server restarts it with each request: every reply is a proof. A member of
// an ensemble reports to its leader, twice in a tick, which sessions have sent requests; and for up to D after it has
// lost its leader it may continue to reply. So there a reply is no proof for its own request. It proves that earlier
// requests have reached the leader: after a ping or a read, the requests whose replies came more than D before it was
// sent; after a committed write, the requests whose replies came more than half a tick and J before. (J is the tolerated
// pause of a leader: T/8, but at most a tick, and less where [RuleHeartbeat] leaves less.) docs/timeouts.md has the
// assumptions. The rule determines which requests the client sends for these proofs.
type Rule int8

const (
	// RuleAuto chooses RuleBound for a standalone server and where T is at least 2·D, otherwise
	// RuleHeartbeat.
	RuleAuto Rule = iota
	// RuleBound relies on D (see [WithStaleServerBound]): pings are enough to keep a hold. The intervals of pings, and
	// the time after which the client gives up a silent server, are fractions of T - D. A hold that begins after a time
	// without requests, and lives longer than half a tick and J, costs one small write.
	RuleBound
	// RuleHeartbeat accepts only committed writes as proofs. While something is held, the client sends a small
	// transaction every T/6 (one for each 128 holds, eight at most), which also finds that a hold's node was deleted if
	// the event was lost. It is meant for a T that is short compared with D.
	RuleHeartbeat
)

func (r Rule) String() string { return enumName("Rule", r, "auto", "bound", "heartbeat") }

// Safety describes how the current session's holds are kept safe.
type Safety struct {
	Epoch int64
	// Rule is the rule in force, never RuleAuto. After a reconnect the reported rule stays the same until the client
	// knows whether the new server is standalone, which it reads first. Until then the server counts as a member of an
	// ensemble: its replies prolong holds no further than a member's replies.
	Rule Rule
	// SessionTimeout is T: the timeout that the server granted or, while there is no session, the timeout that the
	// client requests. If the session was granted several timeouts, it is the shortest, because any of them may be in
	// force at the servers: a new leader, or a restarted server, knows only the first, and a member may still report a
	// request with a shorter one.
	SessionTimeout time.Duration
	// Known reports whether the client has found out, from a server of this session, whether the server is standalone.
	// Until then the client takes the server for a member of an ensemble.
	Known bool
	// Standalone reports whether the server is standalone; then Bound is 0.
	Standalone bool
	// Bound is D. Margin is the safety margin: a hold ends that much before T has passed.
	Bound, Margin time.Duration
	// Heartbeat is the interval of the heartbeats under RuleHeartbeat, 0 under RuleBound.
	Heartbeat time.Duration
	// Remaining is the time for which a hold stays valid if no further reply arrives; 0 if none could be valid.
	Remaining time.Duration
	// Steady is the value below which the Remaining of a hold does not fall while the servers reply without delay. So a
	// program may stop its work when less than Steady remains, and will not stop while all is well. Slow replies reduce
	// Remaining by up to their delay on a standalone server, by up to twice their delay on an ensemble. A hold that begins
	// after a time without requests has at least half of T - D, and less than Steady during its first seconds: until the
	// write that the client sends for it is committed. 0 if nothing can be held.
	Steady time.Duration
	// Holds is the number of current holds.
	Holds int
	// Refused is the reason why nothing can be held (it matches ErrTimeoutTooShort); nil if holds are possible.
	Refused error
}

type safetyOptions struct {
	sessionTimeout time.Duration // requested
	rule           Rule
	bound          time.Duration // D
	tick           time.Duration // 0: unknown, see serverTick
	margin         time.Duration // negative: derived from the session timeout
	fenceGrace     time.Duration // negative: derived from the session timeout
}

// safetyPlan has the assumptions about the servers for a session timeout, and the client's intervals that follow
// from them. Plans are computed when they are needed; [wire.Validity] has the assumptions in force.
type safetyPlan struct {
	servers   wire.Servers
	bound     time.Duration // D; 0 for a standalone server
	heartbeat time.Duration // the interval of heartbeats; 0 under RuleBound
	refused   error         // why nothing can be held; nil if holds are possible
}

const heartbeatsPerTimeout = wire.WritesPerTimeout

// planFor returns the plan for a session timeout. It is a pure function.
func (o *safetyOptions) planFor(timeout time.Duration, standalone bool) safetyPlan {
	bound, margin, tick := o.bound, o.safetyMargin(timeout), o.serverTick(timeout)
	if standalone {
		bound = 0
	}
	p := safetyPlan{bound: bound, servers: wire.Servers{Margin: margin, Standalone: standalone,
		Stale: max(o.bound, 1)}} // 0 would mean that D is not known
	byHeartbeat := o.rule == RuleHeartbeat || o.rule == RuleAuto && timeout < 2*bound
	if byHeartbeat {
		p.servers.Stale, p.servers.Standalone, p.heartbeat = 0, false, timeout/heartbeatsPerTimeout
	}
	// left is the part of the timeout that remains for jitter (J) under RuleHeartbeat. The margin and half a tick are
	// fixed. Two intervals are for the heartbeats: the longest gap between two requests (half an interval), the interval
	// to the next heartbeat, and half an interval for its reply.
	left, least := timeout-p.heartbeat*2-margin-tick/2, timeout/minJitterDivisor
	jitter := min(timeout/8, tick)
	if byHeartbeat {
		jitter = min(jitter, max(left, least))
	}
	p.servers.Report = tick/2 + jitter
	const advice = "the server granted %v; raise WithSessionTimeout (and maxSessionTimeout at the servers)"
	switch {
	case byHeartbeat && left < least:
		shorter := max(tick+2*(left-least), 0).Truncate(time.Millisecond)
		p.refused = fmt.Errorf("%w: "+advice+" to %v or more; or give WithServerTick(%v) or less, "+
			"if that is the servers' tickTime (now assumed: %v)",
			ErrTimeoutTooShort, timeout, o.shortestTimeout(), shorter, tick)
		if o.margin > 0 {
			p.refused = fmt.Errorf("%w; or lower WithSafetyMargin (now %v)", p.refused, margin)
		}
	case !byHeartbeat && (timeout-bound-margin < (timeout-bound)/2 || timeout <= bound):
		p.refused = fmt.Errorf("%w: "+advice+" to %v or more; or lower WithStaleServerBound (now %v), if "+
			"the servers' syncLimit × tickTime allows that; or lower WithSafetyMargin (now %v); or choose "+
			"RuleHeartbeat",
			ErrTimeoutTooShort, timeout, bound+2*max(margin, o.safetyMargin(time.Minute)), bound, margin)
	}
	return p
}

// minJitterDivisor determines the least J for which RuleHeartbeat allows holds: the session timeout / minJitterDivisor.
const minJitterDivisor = 24

// usualTick is the servers' tickTime unless they are configured otherwise.
const usualTick = 2 * time.Second

// serverTick returns the servers' tickTime: the value of WithServerTick, or else the usual one or a longer one. A server
// that grants more than the client requested has granted its minSessionTimeout, which is two ticks unless configured
// otherwise: so its tick may be half of that. serverTick never guesses a shorter tick than the usual one, because holds
// would end too late if the guess was wrong.
func (o *safetyOptions) serverTick(timeout time.Duration) time.Duration {
	switch {
	case o.tick > 0:
		return o.tick
	case timeout > o.sessionTimeout:
		return max(usualTick, timeout/2)
	}
	return usualTick
}

// shortestTimeout returns the shortest session timeout that is enough for RuleHeartbeat, rounded up.
func (o *safetyOptions) shortestTimeout() time.Duration {
	tick := cmp.Or(o.tick, usualTick)
	// After the heartbeats (1/3) and the least jitter (1/24), 5/8 of the timeout are left for half a tick and the margin.
	// With the default margin of a tenth, timeout·(5/8 - 1/10) = tick/2: the timeout is tick·20/21. That margin is at
	// least 10 ms and at most a second.
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

// safetyMargin returns the safety margin for a session timeout: the time between the end of a hold, when its holder has
// to stop, and the earliest expiry of the session.
func (o *safetyOptions) safetyMargin(timeout time.Duration) time.Duration {
	if o.margin >= 0 {
		return o.margin
	}
	return defaultGrace(timeout)
}

// graceAfterLoss returns the time for which the client waits before it closes a lost session at the servers, so that the
// holders can stop. The time is shorter if a server has reported the session expired, because then other clients may
// have the locks already.
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

// defaultGrace returns the default of safetyMargin and graceAfterLoss.
func defaultGrace(timeout time.Duration) time.Duration {
	return min(max(timeout/10, 10*time.Millisecond), time.Second)
}

// steadyRemaining returns [Safety.Steady].
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
