package simulation_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// draft has the random draws for a fault. The meaning of the fields depends on the kind.
type draft struct {
	kind   string
	at     time.Duration
	lasts  time.Duration
	client int
	member int
	other  int
	dir    zktest.Direction
	op     zktest.Op
	action zktest.Action
	err    zktest.Error
	after  int
	times  int
	all    bool
	delay  time.Duration
	dice   int
}

var (
	clientFaults = []string{
		"cut",
		"silence",
		"silence",
		"delay",
		"away",
		"strike",
		"strike",
		"strike",
		"strike",
	}
	memberFaults = []string{"stop", "pause"}
	peerFaults   = []string{"part", "part", "oneway", "oneway", "reset", "lag", "peers", "leader", "wipe"}
	meddling     = []string{"delete", "delete", "expire", "skew"}

	struckOps = []zktest.Op{
		"create2",
		"create2",
		"getChildren2",
		"getData",
		"delete",
		"exists",
		"ping",
		"ping",
		"ping",
		"connect",
		"multi",
		"multi",
		"setData",
		"setWatches",
		"addWatch",
		"setWatches2",
		"multiRead",
		"sync",
		"closeSession",
		"create",
		"createContainer",
		"removeWatches",
		"auth",
		"sasl",
	}
	strikes = []zktest.Action{
		zktest.DropRequest,
		zktest.CutBefore,
		zktest.LoseReply,
		zktest.LoseReply,
		zktest.Hold,
		zktest.HoldReply,
		zktest.HoldReply,
		zktest.DelayReply,
		zktest.DelayReply,
		zktest.ReplyError,
		zktest.HalfHandshake,
	}
	// Errors that a server may reply without having executed anything. It may reply "expired" by mistake until it
	// notices that it has no quorum.
	answers = []zktest.Error{
		zktest.ErrThrottledOp,
		zktest.ErrSessionMoved,
		zktest.ErrRequestTimeout,
		zktest.ErrSessionExpired,
	}
)

// faults draws the faults of the plan.
func (p *plan) faults(r *rand.Rand) (faults []draft) {
	kinds := slices.Clone(clientFaults)
	for range 2 {
		kinds = append(kinds, memberFaults...)
	}
	if p.Members > 1 {
		kinds = append(kinds, peerFaults...)
	}
	if p.Meddling {
		kinds = append(kinds, meddling...)
		kinds = append(kinds, meddling...)
	}
	pace := pick(r, 1, 2, 4)
	for at := time.Second; at < p.Trouble; at += below(r, time.Duration(pace)*2*time.Second) {
		f := draft{
			kind:   pick(r, kinds...),
			at:     at,
			client: r.IntN(p.Clients),
			member: r.IntN(p.Members),
			other:  r.IntN(p.Members),
			dice:   r.IntN(1 << 20),
		}
		f.dir = pick(r, zktest.Both, zktest.FromClient, zktest.ToClient)
		f.op, f.action, f.after = pick(r, struckOps...), pick(r, strikes...), r.IntN(3)
		if f.err = pick(r, answers...); f.action == zktest.HalfHandshake {
			f.op = zktest.OpConnect
		}
		f.delay = below(r, pick(r, 100*time.Millisecond, time.Second, 3*time.Second))
		f.lasts = below(r, pick(r, time.Second, p.SessionTimeout, 2*p.SessionTimeout+p.bound()))
		if f.kind == "away" { // long enough for a session to end
			f.lasts *= 3
			if f.dice%4 == 0 {
				// Long enough that the client loses its session by its clock. The servers got the last ping later, so
				// they may still have the session; then the delayed packets arrive.
				f.lasts, f.dir = p.SessionTimeout*2/3+below(r, p.SessionTimeout/3+p.TickTime), zktest.Both
			}
		}
		if f.kind == "strike" && f.action == zktest.ReplyError &&
			(f.err == zktest.ErrSessionExpired || f.op == zktest.OpConnect) {
			// Only a leader that has lost its quorum, and has not noticed yet, calls a living session expired. A server
			// that has just opened a session, and is then asked to close the session before, has a quorum and never
			// replies so.
			f.lasts = min(f.lasts, p.bound())
			if p.Members == 1 || f.op == zktest.OpConnect || f.op == zktest.OpCloseSession {
				continue
			}
		}
		faults = append(faults, f)
	}
	return faults
}

// clocks draws faults of the clients' machines, and of the replies that decide the clients' rule for holds.
func (p *plan) clocks(r *rand.Rand) (faults []draft) {
	for at := time.Second; at < p.Trouble; at += 5*time.Second + below(r, 40*time.Second) {
		f := draft{
			kind:   pick(r, "wallclock", "config", "config"),
			at:     at,
			lasts:  time.Second,
			client: r.IntN(p.Clients),
			dice:   r.IntN(8),
			delay:  pick(r, 5*time.Second, time.Minute, 24*time.Hour),
		}
		f.err = pick(r, zktest.ErrThrottledOp, zktest.ErrRequestTimeout)
		faults = append(faults, f)
	}
	return faults
}

// more adds to every other plan faults of single processes, operators' changes, and a peer like Curator for Java. A
// time without faults stays without faults.
func (p *plan) more(r *rand.Rand, faults []draft) []draft {
	if r.IntN(2) > 0 {
		return faults
	}
	kinds := []string{"pauseclient", "pauseclient", "swarm", "setback"}
	if p.Members > 1 && p.Rule == "" {
		kinds = append(kinds, "replace")
		p.Tracks = r.IntN(2) == 0
	}
	if p.SessionTimeout >= 4*p.TickTime && p.Rule == "" && p.Before == "" && r.IntN(2) == 0 {
		kinds = append(kinds, "shorten")
		p.Shorter = true
		p.keepUp(p.SessionTimeout / 2)
	}
	victims := p.Clients
	if p.Java = len(p.javaWorks()) > 0 && r.IntN(2) == 0; p.Java {
		kinds = append(kinds, "cut", "silence", "away")
		victims++
	}
	if p.onlyRights() { // other works keep a state that a killed process would lose
		kinds = append(kinds, "kill", "kill", "restart")
	}
	for at := p.Calm + time.Second; at < p.Trouble; at += 3*time.Second + below(r, 20*time.Second) {
		f := draft{
			kind:   pick(r, kinds...),
			at:     at,
			client: r.IntN(victims),
			member: r.IntN(p.Members),
			dir:    pick(r, zktest.Both, zktest.FromClient, zktest.ToClient),
			dice:   r.IntN(1 << 20),
			delay:  pick(r, time.Second, time.Minute, 24*time.Hour),
		}
		f.lasts = below(r, pick(r, p.SessionTimeout, 2*p.SessionTimeout+p.bound()))
		faults = append(faults, f)
	}
	return faults
}

// onlyRights reports whether the clients do nothing but contend.
func (p *plan) onlyRights() bool {
	return !slices.ContainsFunc(p.Works, func(work string) bool { return !crowded[work] })
}

// schedule makes the plan's faults of the drafts. None lasts longer than the time of trouble.
func (p *plan) schedule(drafts []draft) {
	for _, d := range drafts {
		f := p.fault(d)
		if f.At+f.Lasts > p.Trouble {
			f.Lasts = max(p.Trouble-f.At, 0)
		}
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b chaos.Fault) int { return cmp.Compare(a.At, b.At) })
}

// fault returns a draft as a fault of chaos.
func (p *plan) fault(d draft) chaos.Fault {
	toTheEnd := p.Trouble - d.at
	other := d.other
	if other == d.member && p.Members > 1 {
		other = (other + 1) % p.Members
	}
	// A client's visitor has a process of its own, in addition to the client's.
	victim, visited := d.client, slices.Contains(p.Works, visits)
	switch {
	case d.client == p.Clients: // Java's
		victim = p.javas()
	case visited && d.dice%3 > 0:
		victim += p.Clients
	}
	f := chaos.Fault{At: d.at, Lasts: d.lasts, Process: victim, Member: d.member, Delay: d.delay}
	switch d.kind {
	case "cut":
		f.Kind = chaos.Cut
	case "silence":
		f.Kind, f.Dir = chaos.Stall, d.dir
		if d.dice%2 > 0 { // otherwise the stalled packets arrive late
			f.Lasts = toTheEnd
		}
	case "delay":
		f.Kind = chaos.Slow
	case "away":
		f.Kind, f.Dir = chaos.Ghosts, d.dir
		if d.dice%2 > 0 {
			f.Delay = toTheEnd
		}
	case "strike":
		f.Kind, f.Op, f.Action, f.Err, f.After = chaos.Strike, d.op, d.action, d.err, d.after
		if f.Times = 1 + d.dice%2; d.dice%8 == 7 {
			f.Times = -1
		}
		f.All = d.dice>>4%3 > 0
	case "commits":
		f.Kind, f.Op, f.Action, f.Times, f.All = chaos.Strike, d.op, zktest.DelayReply, -1, true
	case "stop":
		f.Kind = chaos.StopMember
	case "pause":
		f.Kind = chaos.PauseMember
	case "leader":
		if f.Kind = chaos.StopLeader; d.dice%2 == 0 {
			f.Kind = chaos.PauseLeader
		}
	case "part":
		f.Kind, f.Other, f.After = chaos.Partition, other, d.after
	case "oneway":
		if f.Kind, f.Other = chaos.OneWay, other; d.dice%2 == 0 {
			f.Kind = chaos.DeafLeader
		}
	case "reset":
		f.Kind = chaos.Reset
	case "lag":
		f.Kind = chaos.Lag
	case "peers":
		f.Kind, f.Delay = chaos.PeerDelay, d.delay/10
	case "wipe":
		f.Kind = chaos.WipeMember
	case "expire":
		f.Kind = chaos.Expire
	case "skew":
		f.Kind, f.Delay = chaos.SkewServer, 20*d.delay
	case "delete":
		f.Kind = chaos.DeleteNode
		if f.All = d.dice>>13%2 == 0; f.All {
			f.After = d.dice % 2
		} else {
			f.After, f.Times = d.dice>>10%3, d.dice%5040
		}
	case grows:
		f.Kind, f.All = chaos.Grow, true
	case shrinks:
		f.Kind, f.All, f.Lasts = chaos.Shrink, true, toTheEnd
	case "config":
		f.Kind, f.Err, f.Times = question, d.err, 1+d.dice
	case "burst":
		f.Kind = flood
	case "wallclock":
		f.Kind = wallClock
	case "setback":
		f.Kind, f.Delay = wallClock, -d.delay
	case "swarm":
		f.Kind = swarm
	case "parents":
		f.Kind, f.Times, f.After = lostParents, 1+d.dice%3, d.dice/3
	case "stranger":
		f.Kind, f.Times = stranger, d.dice
	case "anew":
		f.Kind = anew
	case "kill":
		f.Kind, f.Process = chaos.Kill, d.client%p.Clients
	case "restart":
		f.Kind, f.Process = chaos.Restart, d.client%p.Clients
	case "pauseclient":
		f.Kind = chaos.PauseProcess
	case "replace":
		f.Kind = chaos.ReplaceMember
	case "shorten":
		f.Kind, f.All = chaos.Shrink, d.dice%2 == 0
	default: // the kinds that wait for a grant
		f.Kind, f.Dir, f.After, f.Times, f.All = chaos.Kind(d.kind), d.dir, d.after, d.times, d.all
	}
	return f
}

// javas returns the index of the Java-like peer among the processes.
func (p *plan) javas() int {
	if slices.Contains(p.Works, visits) {
		return 2 * p.Clients
	}
	return p.Clients
}
