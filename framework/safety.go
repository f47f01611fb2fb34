package framework

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/mutant"
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
	// Rule is the rule in force, never RuleAuto.
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

// plan is a rule worked out for a session timeout.
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
	if standalone || mutant.On("a member's answer is the leader's") {
		bound = 0
	}
	margin := o.marginOf(timeout)
	p := plan{rule: wire.Rule{Kind: wire.RuleBound, Bound: bound, Margin: margin, Tick: o.tick, Jitter: timeout / 8}}
	if o.rule == RuleHeartbeat || o.rule == RuleAuto && timeout < 2*bound {
		p.rule.Kind, p.every = wire.RuleHeartbeat, timeout/heartbeats
	}
	advice := fmt.Sprintf("the server granted %v; raise WithSessionTimeout (and maxSessionTimeout at the servers)", timeout)
	switch {
	case p.rule.Kind == wire.RuleHeartbeat:
		// A hold lives from the last but one heartbeat: two intervals, and half of one for the answer. The longest gap between two
		// packets is an interval too.
		p.covers = timeout - o.tick/2 - timeout/heartbeats - p.rule.Jitter - margin
		if need := p.every*2 + p.every/2; p.covers < need {
			p.refused = fmt.Errorf("%w: %s, or lower WithServerTick (%v) if the servers' tickTime is shorter, or WithSafetyMargin (%v): a heartbeat covers %v, and %v is needed",
				ErrTimeoutTooShort, advice, o.tick, margin, max(p.covers, 0), need)
		}
	case timeout-bound-margin < (timeout-bound)/2 || timeout <= bound:
		p.refused = fmt.Errorf("%w: %s, or lower WithStaleServerBound (%v) if the servers' syncLimit × tickTime allows it, or WithSafetyMargin (%v), or choose RuleHeartbeat",
			ErrTimeoutTooShort, advice, bound, margin)
	}
	return p
}

// marginOf is the safety margin for a session timeout.
func (o *options) marginOf(timeout time.Duration) time.Duration {
	if o.margin >= 0 {
		return o.margin
	}
	return min(max(timeout/40, 10*time.Millisecond), 250*time.Millisecond)
}

// grace is how long those who held something in a lost session have to stop before what may be left of it is closed.
func (o *options) grace(timeout time.Duration) time.Duration {
	if o.fenceGrace >= 0 {
		return o.fenceGrace
	}
	return o.marginOf(timeout)
}

// kind is the plan's rule as users know it.
func (p plan) kind() Rule {
	if p.rule.Kind == wire.RuleHeartbeat {
		return RuleHeartbeat
	}
	return RuleBound
}

// configPath is the node in which an ensemble lists its members. It stands outside every chroot.
const configPath = "/zookeeper/config"

// standsAlone reads the answer to a getData of configPath. Whoever may not read it, or finds none, is careful.
func standsAlone(r wire.Reply) bool {
	if r.Err != nil || r.Code != jute.CodeOK {
		return false
	}
	var config jute.GetDataResponse
	if jute.Unmarshal(r.Body, &config) != nil {
		return false
	}
	for line := range strings.Lines(string(config.Data)) {
		if strings.HasPrefix(strings.TrimSpace(line), "server.") {
			return false
		}
	}
	return true
}

// Safety tells how the current session's holds are kept safe, for logs, metrics and readiness checks. After Close it tells about the last one.
func (c *Client) Safety() Safety {
	if c.none() {
		return Safety{}
	}
	e := c.epochView()
	s := Safety{Epoch: e.n, SessionTimeout: e.wire.Timeout(), Remaining: max(e.wire.Validity().Remaining(), 0)}
	if s.SessionTimeout <= 0 {
		s.SessionTimeout = c.core.cfg.sessionTimeout
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Rule, s.Known, s.Standalone = e.plan.kind(), e.known, e.standalone
	s.Bound, s.Margin, s.Heartbeat = e.plan.rule.Bound, e.plan.rule.Margin, e.plan.every
	s.Refused, s.Holds = e.plan.refused, len(e.holds)
	return s
}
