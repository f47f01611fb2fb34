package chaos

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/zktest"
)

// Kind is a kind of fault.
type Kind string

// Kinds of faults. Faults of a process strike the process or its network, faults of a member a server or the network
// between servers.
const (
	Cut     Kind = "cut"     // a process's connections are closed
	Silence Kind = "silence" // no packet arrives from a process, or at it, or both, for a while
	Away    Kind = "away"    // the same in both directions, and for so long that its session may expire
	Slow    Kind = "slow"    // replies and events arrive late at a process
	// Stall: no packet arrives on a process's present connections for a while. New connections work, and the packets of
	// the old ones arrive late.
	Stall Kind = "stall"
	// Ghosts: like Stall, but new connections do not work either until the end, and the old packets arrive later than
	// that, by Delay.
	Ghosts       Kind = "ghosts"
	Strike       Kind = "strike"        // requests of a process, or of all, or their replies, are lost, parked, refused
	Kill         Kind = "kill"          // a process dies without cleaning up, and starts again later
	Restart      Kind = "restart"       // a process is asked to stop, and starts again
	PauseProcess Kind = "pause process" // a process's packets and calls of this package wait for a while. Not in Usual
	ClockStep    Kind = "clock step"    // a process's wall clock ([Process.Now]) is set
	StopMember   Kind = "stop member"   // a server stops, and starts again
	PauseMember  Kind = "pause member"  // a server hangs
	StopLeader   Kind = "stop leader"   // the leader stops, and starts again
	PauseLeader  Kind = "pause leader"
	Partition    Kind = "partition"   // a member and some others cannot reach each other
	OneWay       Kind = "one way"     // no message of a member arrives at another
	Reset        Kind = "reset"       // a member's connections to others break
	DeafLeader   Kind = "deaf leader" // no message of a member arrives at the leader
	Lag          Kind = "lag"         // a member shows old data
	PeerDelay    Kind = "peer delay"
	// WipeMember: a server loses its data and copies the leader's. All other faults of servers and networks are undone
	// first.
	WipeMember Kind = "wipe member"
)

// Kinds of changes that operators make to servers, also by mistake. None is in [Usual].
const (
	// Shrink: servers grant half the session timeout at each handshake. With All all clients have to reconnect.
	Shrink Kind = "shrink timeouts"
	// Grow: /zookeeper/config, which was a standalone server's, lists the members of an ensemble. With All all clients
	// have to reconnect.
	Grow Kind = "grow"
	// ReplaceMember: a server leaves the configuration, and comes back without its data.
	ReplaceMember Kind = "replace member"
	SkewServer    Kind = "skew server" // a server's clock jumps ahead by Delay, for good: sessions end early
	Expire        Kind = "expire"      // an operator ends a process's session
	DeleteNode    Kind = "delete node" // an operator deletes ephemeral nodes, with All at the head of a line
)

// Usual returns faults that a correct service survives without a fenced store. [PauseProcess] is not among them: a
// paused process may have checked its hold before the pause, and write after it. Nor are [SkewServer], [Expire] and
// [DeleteNode]: they remove holds that the client still regards as valid, rightly; see [World.Removed]. [Stall],
// [Ghosts], [DeafLeader], [WipeMember], [ReplaceMember], [Shrink] and [Grow] can be added.
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

// Fault is one fault and its time. The fields that count depend on the kind.
type Fault struct {
	Kind    Kind             `json:"kind"`
	At      time.Duration    `json:"at"`    // since the run began
	Lasts   time.Duration    `json:"lasts"` // then it is undone
	Process int              `json:"process,omitempty"`
	Member  int              `json:"member,omitempty"`
	Other   int              `json:"other,omitempty"` // member
	Dir     zktest.Direction `json:"dir,omitempty"`
	Op      zktest.Op        `json:"op,omitempty"` // of a Strike: the requests,
	Action  zktest.Action    `json:"action,omitempty"`
	Err     zktest.Error     `json:"err,omitempty"`
	After   int              `json:"after,omitempty"`
	Times   int              `json:"times,omitempty"`
	All     bool             `json:"all,omitempty"` // of all processes
	Delay   time.Duration    `json:"delay,omitempty"`
}

// strikesProcess reports whether a kind strikes a process.
func (k Kind) strikesProcess() bool {
	switch k {
	case Cut, Silence, Away, Slow, Stall, Ghosts, Strike, Kill, Restart, PauseProcess, ClockStep, Expire:
		return true
	}
	return false
}

// needsPeers reports whether a kind needs several members.
func (k Kind) needsPeers() bool {
	switch k {
	case Partition, OneWay, DeafLeader, Reset, Lag, PeerDelay, WipeMember, ReplaceMember, Grow:
		return true
	}
	return false
}

func (f Fault) String() string { return f.describe(fmt.Sprintf("process %d", f.Process)) }

// describeAmong is String with the name of the process that the fault strikes.
func (f Fault) describeAmong(names []string) string {
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
		s := fmt.Sprintf("%v: %s, %s, %s, for %v", at, f.Kind, victim, directionText(f.Dir), lasts)
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
	if f.Kind.strikesProcess() {
		return fmt.Sprintf("%v: %s, %s, for %v", at, f.Kind, victim, lasts)
	}
	return fmt.Sprintf("%v: %s, member %d, for %v", at, f.Kind, f.Member, lasts)
}

func directionText(d zktest.Direction) string {
	switch d {
	case zktest.FromClient:
		return "what it sends"
	case zktest.ToClient:
		return "what it is sent"
	}
	return "both ways"
}
