package chaos

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/zktest"
)

// Kind is a kind of fault.
type Kind string

// Kinds of faults. Faults of a process strike it or its network; faults of a member strike a server or the network
// between servers.
const (
	Cut     Kind = "cut"     // a process's connections are closed
	Silence Kind = "silence" // no packet arrives from a process, or at it, or both, for a while
	Away    Kind = "away"    // the same in both directions, and for so long that its session may expire
	Slow    Kind = "slow"    // replies and events arrive late at a process
	// Stall: no packet arrives on a process's present connections for a while. New connections work, and the packets of
	// the old ones arrive late.
	Stall Kind = "stall"
	// Ghosts: like Stall, but until the fault ends new connections do not work either, and the old packets arrive Delay
	// after its end.
	Ghosts Kind = "ghosts"
	// Strike: requests of a process, or their replies, are lost, parked or refused. With All, or if the process has no
	// session at that time, the requests of all processes are struck.
	Strike  Kind = "strike"
	Kill    Kind = "kill"    // a process dies without cleaning up, and starts again later
	Restart Kind = "restart" // a process is asked to stop, and starts again
	// PauseProcess: a process's packets, and its calls of this package, wait for a while. Not in Usual.
	PauseProcess Kind = "pause process"
	ClockStep    Kind = "clock step"   // a process's wall clock ([Process.Now]) is set
	StopMember   Kind = "stop member"  // a server stops, and starts again
	PauseMember  Kind = "pause member" // a server hangs
	StopLeader   Kind = "stop leader"  // the leader stops, and starts again
	PauseLeader  Kind = "pause leader"
	Partition    Kind = "partition"   // a member and some others cannot reach each other
	OneWay       Kind = "one way"     // no message of a member arrives at another
	Reset        Kind = "reset"       // a member's connections to others break
	DeafLeader   Kind = "deaf leader" // no message of a member arrives at the leader
	Lag          Kind = "lag"         // a member shows old data
	PeerDelay    Kind = "peer delay"  // messages between members arrive late
	// WipeMember: a server loses its data and copies the leader's. All other faults of servers and networks are undone
	// first.
	WipeMember Kind = "wipe member"
)

// Kinds of changes that operators make to servers, also by mistake. None is in [Usual].
const (
	// Shrink: servers grant half the session timeout at each handshake. With All each client has to reconnect.
	Shrink Kind = "shrink timeouts"
	// Grow: /zookeeper/config, which was a standalone server's, lists the members of an ensemble. With All each client
	// has to reconnect.
	Grow Kind = "grow"
	// ReplaceMember: a server is removed from the configuration and stops, and is added again later, without its data
	// if no write is lost by that.
	ReplaceMember Kind = "replace member"
	SkewServer    Kind = "skew server" // a server's clock jumps ahead by Delay, for good: sessions end early
	Expire        Kind = "expire"      // an operator ends a process's session
	// DeleteNode: an operator deletes ephemeral nodes, with All those at the head of a line, while each client has to
	// reconnect.
	DeleteNode Kind = "delete node"
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
	At      time.Duration    `json:"at"`                // since the run began
	Lasts   time.Duration    `json:"lasts"`             // then it is undone
	Process int              `json:"process,omitempty"` // modulo the number of processes
	Member  int              `json:"member,omitempty"`  // modulo the number of members
	Other   int              `json:"other,omitempty"`   // another member
	Dir     zktest.Direction `json:"dir,omitempty"`

	// Op, Action and Err are a Strike's: see [zktest.Fault].
	Op     zktest.Op     `json:"op,omitempty"`
	Action zktest.Action `json:"action,omitempty"`
	Err    zktest.Error  `json:"err,omitempty"`

	// After is, of a Strike, the number of requests that pass first. Of a DeleteNode it is the number of nodes that are
	// deleted as well, the next ones ahead of the node of Times; with All the first two nodes are deleted, or three if
	// After is odd. Of a Partition it decides which members, besides Other, are cut off from Member: those with an even
	// number if After is even, those with an odd number if it is odd.
	After int `json:"after,omitempty"`
	// Times is, of a Strike, the number of requests that are struck, as in [zktest.Fault]. Of a DeleteNode without All
	// it selects a node by its place among all ephemeral nodes, sorted by their sequence numbers: 0 is the first, -1 the
	// last, and places beyond an end count on from the other end.
	Times int `json:"times,omitempty"`
	// All strikes all processes: see Strike, Shrink, Grow and DeleteNode.
	All bool `json:"all,omitempty"`
	// Delay is a Strike's, as in [zktest.Fault]. Of a Slow, Ghosts, Lag or PeerDelay it is the time by which packets,
	// changes or messages are late, and of a ClockStep or SkewServer the step of the clock.
	Delay time.Duration `json:"delay,omitempty"`
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
		whose, times := victim+"'s", fmt.Sprintf("%d times", max(f.Times, 1))
		if f.All {
			whose = "all processes'"
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
		which := fmt.Sprintf("%d of them, up to no. %d", 1+f.After, 1+f.Times)
		switch {
		case f.All:
			which = "at the head"
		case f.Times < 0:
			which = fmt.Sprintf("%d of them, up to no. %d from the end", 1+f.After, -f.Times)
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
		return "packets from it"
	case zktest.ToClient:
		return "packets to it"
	}
	return "packets in both directions"
}
