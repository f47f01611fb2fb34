package chaos

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/zktest"
)

// Kind is a kind of fault.
type Kind string

// Kinds of faults. Those of a process strike its network or itself, those of a member a server or the network
// between servers.
const (
	Cut     Kind = "cut"     // a process's connections are closed
	Silence Kind = "silence" // nothing arrives from a process, or at it, for a while
	Away    Kind = "away"    // the same both ways, and for so long that its session may end
	Slow    Kind = "slow"    // answers for a process come late
	// Stall: nothing arrives on a process's present connections for a while. New ones work, and what was sent
	// on the old ones arrives late.
	Stall Kind = "stall"
	// Ghosts: nor do new ones work, and what was sent arrives by Delay later than the process's return.
	Ghosts       Kind = "ghosts"
	Strike       Kind = "strike"        // requests of a process, or of all, or their answers, are lost, parked, refused
	Kill         Kind = "kill"          // a process ends without a word, and starts again later
	Restart      Kind = "restart"       // a process is asked to stop, and starts again
	PauseProcess Kind = "pause process" // nothing leaves or reaches a process; then it goes on. Not in Usual
	ClockStep    Kind = "clock step"    // a process's wall clock ([Process.Now]) is set
	StopMember   Kind = "stop member"   // a server stops, and starts again
	PauseMember  Kind = "pause member"  // a server hangs
	StopLeader   Kind = "stop leader"   // the same for whoever leads
	PauseLeader  Kind = "pause leader"
	Partition    Kind = "partition"   // a member and some others cannot reach each other
	OneWay       Kind = "one way"     // nothing that a member sends arrives at another
	Reset        Kind = "reset"       // a member's connections to others break
	DeafLeader   Kind = "deaf leader" // nothing that a member sends arrives at whoever leads
	Lag          Kind = "lag"         // a member shows old data
	PeerDelay    Kind = "peer delay"
	// WipeMember: a server loses its data and gets it back from the others. All else that is wrong with
	// servers is healed for that.
	WipeMember Kind = "wipe member"
)

// Kinds of changes that operators make to servers, also by mistake. None is in [Usual].
const (
	// Shrink: servers grant half the session timeout to those that connect. With All all have to.
	Shrink Kind = "shrink timeouts"
	// Grow: servers that said that they stand alone say that they are an ensemble. With All all connect anew.
	Grow Kind = "grow"
	// ReplaceMember: a server leaves the configuration, and comes back without its data.
	ReplaceMember Kind = "replace member"
	SkewServer    Kind = "skew server" // a server's clock jumps ahead by Delay, for good: sessions end early
	Expire        Kind = "expire"      // somebody ends a process's session
	DeleteNode    Kind = "delete node" // somebody deletes ephemeral nodes, with All at the head of a line
)

// Usual are faults that a correct service survives without a fenced store. [PauseProcess] is not among them:
// its victim may write what it had checked before. Nor are [SkewServer], [Expire] and [DeleteNode], which
// take from clients what they rightly believe they have: see [World.Removed]. [Stall], [Ghosts],
// [DeafLeader], [WipeMember], [ReplaceMember], [Shrink] and [Grow] are there to be added.
func Usual() []Kind {
	return []Kind{
		Cut,
		Silence,
		Silence,
		Slow,
		Away,
		Strike,
		Strike,
		Strike,
		Strike,
		Kill,
		Restart,
		ClockStep,
		StopMember,
		PauseMember,
		StopLeader,
		PauseLeader,
		Partition,
		Partition,
		OneWay,
		OneWay,
		Reset,
		Lag,
		PeerDelay,
	}
}

// Fault is one fault and when it happens. Which fields count depends on the kind.
type Fault struct {
	Kind    Kind             `json:"kind"`
	At      time.Duration    `json:"at"`    // since the run began
	Lasts   time.Duration    `json:"lasts"` // then it is undone
	Process int              `json:"process,omitempty"`
	Member  int              `json:"member,omitempty"`
	Other   int              `json:"other,omitempty"` // member
	Dir     zktest.Direction `json:"dir,omitempty"`
	Op      zktest.Op        `json:"op,omitempty"` // of a Strike: which requests,
	Action  zktest.Action    `json:"action,omitempty"`
	Err     zktest.Error     `json:"err,omitempty"`
	After   int              `json:"after,omitempty"`
	Times   int              `json:"times,omitempty"`
	All     bool             `json:"all,omitempty"` // and of all processes
	Delay   time.Duration    `json:"delay,omitempty"`
}

// ofProcess says whether a kind strikes a process.
func (k Kind) ofProcess() bool {
	switch k {
	case Cut, Silence, Away, Slow, Stall, Ghosts, Strike, Kill, Restart, PauseProcess, ClockStep, Expire:
		return true
	}
	return false
}

// ofPeers says whether a kind needs several members.
func (k Kind) ofPeers() bool {
	switch k {
	case Partition, OneWay, DeafLeader, Reset, Lag, PeerDelay, WipeMember, ReplaceMember, Grow:
		return true
	}
	return false
}

func (f Fault) String() string { return f.describe(fmt.Sprintf("process %d", f.Process)) }

// among is String with the name of the process that the fault strikes.
func (f Fault) among(names []string) string {
	if len(names) == 0 {
		return f.String()
	}
	return f.describe(names[f.Process%len(names)])
}

func (f Fault) describe(victim string) string {
	at := f.At.Round(time.Millisecond)
	lasts := f.Lasts.Round(time.Millisecond)
	switch f.Kind {
	case Strike:
		whose, times := victim+"'s", fmt.Sprintf("%d times", f.Times)
		if f.All {
			whose = "anybody's"
		}
		if f.Times < 0 {
			times = "always"
		}
		s := fmt.Sprintf("%v: %s %s %s, %s, for %v", at, whose, f.Op, f.Action, times, lasts)
		if f.After > 0 {
			s += fmt.Sprintf(", after %d", f.After)
		}
		switch f.Action {
		case zktest.ReplyError:
			s += ": " + f.Err.Error()
		case zktest.DelayReply:
			s += ": by " + f.Delay.Round(time.Millisecond).String()
		}
		return s
	case Silence, Stall, Ghosts:
		s := fmt.Sprintf("%v: %s, %s, %s, for %v", at, f.Kind, victim, direction(f.Dir), lasts)
		if f.Kind == Ghosts {
			s += ", and " + f.Delay.Round(time.Millisecond).String()
		}
		return s
	case DeleteNode:
		which := fmt.Sprintf("%d of them, from no. %d backwards", 1+f.After, f.Times)
		if f.All {
			which = "at the head"
		}
		return fmt.Sprintf("%v: delete nodes, %s", at, which)
	case Expire:
		return fmt.Sprintf("%v: expire, %s", at, victim)
	case SkewServer:
		return fmt.Sprintf("%v: skew server, member %d, by %v", at, f.Member, f.Delay)
	case Grow:
		return fmt.Sprintf("%v: grow", at)
	case Slow:
		return fmt.Sprintf("%v: slow, %s, by %v, for %v", at, victim, f.Delay.Round(time.Millisecond), lasts)
	case ClockStep:
		return fmt.Sprintf("%v: %s's wall clock is moved by %v", at, victim, f.Delay)
	case Cut:
		return fmt.Sprintf("%v: cut, %s", at, victim)
	case Partition, OneWay:
		return fmt.Sprintf("%v: %s, member %d and %d, for %v", at, f.Kind, f.Member, f.Other, lasts)
	case StopLeader, PauseLeader, PeerDelay, Shrink:
		return fmt.Sprintf("%v: %s, for %v", at, f.Kind, lasts)
	}
	if f.Kind.ofProcess() {
		return fmt.Sprintf("%v: %s, %s, for %v", at, f.Kind, victim, lasts)
	}
	return fmt.Sprintf("%v: %s, member %d, for %v", at, f.Kind, f.Member, lasts)
}

func direction(d zktest.Direction) string {
	switch d {
	case zktest.FromClient:
		return "what it sends"
	case zktest.ToClient:
		return "what it is sent"
	}
	return "both ways"
}
