package wire

import (
	"time"
)

// RuleKind is how promise P1 is kept.
type RuleKind int8

const (
	// RuleBound counts every answer of the connected member, less the longest time that a member cut from its
	// leader goes on answering.
	RuleBound RuleKind = iota
	// RuleHeartbeat counts only committed writes while something is held.
	RuleHeartbeat
)

// Rule is the rule of promise P1 in force.
type Rule struct {
	Kind RuleKind
	// Bound is D: how long a member may go on answering after it lost its leader; 0 for a standalone server.
	Bound time.Duration
	// Margin is subtracted for scheduling and clock rate.
	Margin time.Duration
	// Tick is the server's tickTime, used by RuleHeartbeat.
	Tick time.Duration
	// Jitter is the pause of a leader that RuleHeartbeat tolerates.
	Jitter time.Duration
}

// pace is how often to ping and after how much silence to close a connection, so that there is time to find
// another before the session lapses.
func (r Rule) pace(timeout time.Duration) (ping, silence time.Duration) {
	usable := timeout
	if r.Kind == RuleBound && timeout > r.Bound {
		usable = timeout - r.Bound
	}
	return max(usable/6, time.Millisecond), max(usable/3, 2*time.Millisecond)
}

// rest is how often to ping while nothing is held: as seldom as leaves two thirds of what a hold that begins
// right before the next ping needs.
func (r Rule) rest(timeout time.Duration) time.Duration {
	ping, silence := r.pace(timeout)
	return max(silence-r.Margin/3, ping/2)
}

// Ping is how often a session with that timeout pings while something is held.
func (r Rule) Ping(timeout time.Duration) time.Duration {
	ping, _ := r.pace(timeout)
	return ping
}

// Verdict is a server's answer to the question whether it stands alone.
type Verdict int8

const (
	// Alone: it does.
	Alone Verdict = iota + 1
	// Member: it does not, or will not say.
	Member
	// Later: it could not say right now.
	Later
)

// Standing is what the rule rests on.
type Standing struct {
	// Timeout is the session timeout that counts, 0 before the first handshake: what the last one granted,
	// but not more than the first, nor more than before it without a committed write.
	Timeout time.Duration
	// Known says that a server of this session has said whether it stands alone; Alone is what the last of
	// them said.
	Known, Alone bool
	// Asked says that it was the server of the last connection. Until then a server counts as a member,
	// whatever the one before it was.
	Asked bool
}

// planner gives the rule for a session timeout and whether the server stands alone. It is a pure function.
type planner = func(timeout time.Duration, alone bool) Rule

// always is the planner with one rule.
func always(r Rule) planner { return func(time.Duration, bool) Rule { return r } }

// news is what changes a standing: a handshake that has granted a timeout, a timeout that has been proved, or
// else a verdict.
type news struct {
	granted, grown time.Duration
	verdict        Verdict
}

// outcome is the consequence of news.
type outcome struct {
	rule Rule
	keep bool // what was certain by the old rule stays certain for that long, whatever the new rule says
	ask  bool // the server is to be asked, or asked again
}

// next is the transition function of the rule. plan gives the rule for a timeout and a server; held is how
// many holds there are, and left is how much longer they are certain by what was known so far.
//
// A hold never ends by a change of the rule alone: what was proven under the old rule stays true under the
// new one. Within that time the new rule's own proof comes, or the session lapses. (A handshake replaces the
// session's time; what it may take away is not in left.)
func (s Standing) next(n news, plan planner, held int, left time.Duration) (Standing, outcome) {
	o := outcome{keep: held > 0 && left > 0}
	switch {
	case n.granted > 0:
		s.Timeout, s.Asked = n.granted, false
		o.ask = true
	case n.grown > 0:
		s.Timeout = n.grown
	case n.verdict == Later:
		o.ask = true
	default:
		s.Known, s.Alone, s.Asked = true, n.verdict == Alone, true
	}
	o.rule = plan(s.Timeout, s.Alone && s.Asked)
	return s, o
}
