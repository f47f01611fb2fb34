package framework

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/wire"
)

// ErrTimeoutTooShort says that nothing can be held safely with the session timeout that the server granted; the message says which
// options decide it.
var ErrTimeoutTooShort = named("session timeout too short to hold anything safely")

// Rule is how the client makes sure that a hold ends, here, before the servers can give it to somebody else.
//
// Every hold ends at the latest one session timeout T after the last request was sent that the server answered. For a standalone server
// that is exact. A member of an ensemble goes on answering for up to D after it has lost touch with the others, while those may already
// have expired the session; hence one of two rules.
type Rule int8

const (
	// RuleAuto is RuleBound for a standalone server and wherever T is at least 2·D, and RuleHeartbeat otherwise.
	RuleAuto Rule = iota
	// RuleBound takes D off T (see [WithStaleServerBound]), and pings and changes servers at the pace of T - D.
	RuleBound
	// RuleHeartbeat counts only writes that a quorum has committed: while something is held, one small transaction every T/6 (for each 128 holds). It also
	// notices the deletion of the node that stands for the hold when its watch is lost. It is for a T that is short compared with D.
	RuleHeartbeat
)

func (r Rule) String() string {
	switch r {
	case RuleAuto:
		return "auto"
	case RuleBound:
		return "bound"
	case RuleHeartbeat:
		return "heartbeat"
	}
	return fmt.Sprintf("Rule(%d)", int8(r))
}

// Safety tells how the current session's holds are kept safe.
type Safety struct {
	Epoch int64
	// Rule is the rule in force, never RuleAuto. After a reconnect it stays what it was until the server has been asked whether it stands alone; it is
	// asked before anything else, and until it has answered nothing that it says prolongs a hold more than a member's answer would.
	Rule Rule
	// SessionTimeout is T: what the server granted, or what was asked for as long as there is no session.
	SessionTimeout time.Duration
	// Known says that the server has been asked whether it stands alone; until then it is taken for a member of an ensemble.
	Known bool
	// Standalone says that it does; then Bound is 0.
	Standalone bool
	// Bound is D, Margin the time taken off on top.
	Bound, Margin time.Duration
	// Heartbeat is the interval of RuleHeartbeat, 0 under RuleBound.
	Heartbeat time.Duration
	// Remaining is for how long a hold is still valid if no answer comes any more; 0 when none could be. Under RuleHeartbeat, with
	// nothing held, it is 0: the first hold brings it about.
	Remaining time.Duration
	// Holds is how many there are.
	Holds int
	// Refused is why nothing can be held, ErrTimeoutTooShort, or nil.
	Refused error
}

// plan is a rule worked out for a session timeout and what is known of the server. Nobody keeps one: the rule in force is its [wire.Validity]'s.
type plan struct {
	rule    wire.Rule
	every   time.Duration // of heartbeats; 0 under the bound rule
	covers  time.Duration // how long a hold lives from a heartbeat, counted from the one before
	refused error
}

// heartbeats is into how many intervals of the heartbeat rule a session timeout is cut.
const heartbeats = 6

// decide works out the rule for a session timeout. It is a pure function.
func (o *options) decide(timeout time.Duration, standalone bool) plan {
	bound := o.bound
	if standalone {
		bound = 0
	}
	p := plan{rule: wire.Rule{Kind: wire.RuleBound, Bound: bound, Tick: o.tickFor(timeout), Jitter: timeout / 8}}
	if o.rule == RuleHeartbeat || o.rule == RuleAuto && timeout < 2*bound {
		p.rule.Kind, p.every = wire.RuleHeartbeat, timeout/heartbeats
	}
	margin := o.marginOf(timeout, p.rule.Kind)
	p.rule.Margin = margin
	const advice = "the server granted %v; raise WithSessionTimeout (and maxSessionTimeout at the servers)"
	switch {
	case p.rule.Kind == wire.RuleHeartbeat:
		// A hold lives from the last but one heartbeat: two intervals, and half of one for the answer. The longest gap between two
		// packets is an interval too. What is left is for the pauses of a leader; of a short timeout that is less.
		need := p.every*2 + p.every/2
		left := timeout - p.rule.Tick/2 - timeout/heartbeats - margin - need
		least := timeout / leastJitter
		p.rule.Jitter = min(p.rule.Jitter, max(left, least))
		p.covers = need + left - p.rule.Jitter
		if left < least {
			p.refused = fmt.Errorf("%w: "+advice+", to %v or more, or say WithServerTick(%v), or less, if that is the servers' tickTime (it is taken for %v)",
				ErrTimeoutTooShort, timeout, o.shortest(), max(p.rule.Tick+2*(left-least), 0).Truncate(time.Millisecond), p.rule.Tick)
			if o.margin > 0 {
				p.refused = fmt.Errorf("%w, or lower WithSafetyMargin (%v)", p.refused, margin)
			}
		}
	case timeout-bound-margin < (timeout-bound)/2 || timeout <= bound:
		p.refused = fmt.Errorf("%w: "+advice+", to %v or more, or lower WithStaleServerBound (%v) if the servers' syncLimit × tickTime allows it, or WithSafetyMargin (%v), or choose RuleHeartbeat",
			ErrTimeoutTooShort, timeout, bound+2*max(margin, o.marginOf(time.Minute, wire.RuleBound)), bound, margin)
	}
	return p
}

// leastJitter is the part of the session timeout, one in so many, that must be left for the pauses of a leader under the heartbeat rule.
const leastJitter = 24

// usualTick is the servers' tickTime unless they are configured otherwise.
const usualTick = 2 * time.Second

// tickFor is the servers' tickTime: what the client was told, or else the usual one. It is not taken for shorter on any other evidence, since that would
// have holds end too late where the evidence misleads. But a server that grants more than it was asked for says what its shortest timeout is, which is two
// ticks unless set otherwise; a longer tick is believed.
func (o *options) tickFor(timeout time.Duration) time.Duration {
	switch {
	case o.tick > 0:
		return o.tick
	case timeout > o.sessionTimeout:
		return max(usualTick, timeout/2)
	}
	return usualTick
}

// shortest is a session timeout that is enough for the heartbeat rule, rounded up: the shortest that is unless the margin is the default.
func (o *options) shortest() time.Duration {
	tick := max(o.tick, 0)
	if tick == 0 {
		tick = usualTick
	}
	// 3/8 of it are left when a sixth, two and a half intervals, and what a leader's pauses need are taken off; a fortieth is the default margin.
	if o.margin >= 0 {
		return roundUp((tick/2 + o.margin) * 8 / 3)
	}
	return roundUp(max(tick*10/7, min((tick/2+10*time.Millisecond)*8/3, 400*time.Millisecond)))
}

func roundUp(d time.Duration) time.Duration {
	const unit = 10 * time.Millisecond
	return (d + unit).Truncate(unit)
}

// marginOf is the safety margin for a session timeout: under the bound rule it is all that those who have lost something have to stop in. The heartbeat
// rule takes T/8 for a leader's pause off as well, and has little to spare.
func (o *options) marginOf(timeout time.Duration, kind wire.RuleKind) time.Duration {
	switch {
	case o.margin >= 0:
		return o.margin
	case kind == wire.RuleBound:
		return notice(timeout)
	}
	return min(max(timeout/40, 10*time.Millisecond), 250*time.Millisecond)
}

// grace is how long those who held something in a lost session have to stop before what may be left of it is closed. Of one that a server has called expired
// hardly anything is: others have had the locks for a while.
func (o *options) grace(timeout time.Duration, why error) time.Duration {
	switch {
	case o.fenceGrace >= 0:
		return o.fenceGrace
	case errors.Is(why, wire.ErrExpired):
		return o.marginOf(timeout, wire.RuleHeartbeat)
	}
	return notice(timeout)
}

// notice is how long whoever has lost something has to stop in before anybody else can have it, unless the options say otherwise.
func notice(timeout time.Duration) time.Duration {
	return min(max(timeout/10, 10*time.Millisecond), time.Second)
}

// kind is the plan's rule as users know it.
func (p plan) kind() Rule {
	if p.rule.Kind == wire.RuleHeartbeat {
		return RuleHeartbeat
	}
	return RuleBound
}

// plan is the rule in force, worked out.
func (e *epoch) plan() plan {
	p, _ := e.settled()
	return p
}

// settled is plan, and whether the server of this connection has said what it is. Until then what the plan refuses may be allowed in a moment.
func (e *epoch) settled() (p plan, asked bool) {
	standing := e.wire.Validity().Standing()
	return e.planFor(standing, standing.Alone && standing.Asked), standing.Asked
}

// planFor is the plan for what is granted, or asked for as long as there is no session.
func (e *epoch) planFor(standing wire.Standing, alone bool) plan {
	timeout := standing.Timeout
	if timeout <= 0 {
		timeout = e.core.cfg.sessionTimeout
	}
	return e.core.cfg.decide(timeout, alone)
}

// Safety tells how the current session's holds are kept safe, for logs, metrics and readiness checks. After Close it tells about the last one.
func (c *Client) Safety() Safety {
	if c.none() {
		return Safety{}
	}
	e := c.epochView()
	v := e.wire.Validity()
	standing := v.Standing()
	p := e.planFor(standing, standing.Alone)
	s := Safety{
		Epoch: e.n, Rule: p.kind(), SessionTimeout: standing.Timeout, Known: standing.Known, Standalone: standing.Alone,
		Bound: p.rule.Bound, Margin: p.rule.Margin, Heartbeat: p.every, Remaining: max(v.Remaining(), 0), Holds: len(e.held()), Refused: p.refused,
	}
	if s.SessionTimeout <= 0 {
		s.SessionTimeout = c.core.cfg.sessionTimeout
	}
	return s
}
