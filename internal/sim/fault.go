package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/sim/mutant"
	"github.com/go-curator/curator/zktest"
)

// fault is one fault and when it happens. What the fields mean depends on the kind.
type fault struct {
	kind   string
	at     time.Duration
	lasts  time.Duration
	client int
	member int
	other  int
	dir    zktest.Direction
	op     string
	action zktest.Action
	err    zktest.Error
	after  int
	delay  time.Duration
	dice   int
}

func (f fault) String() string {
	switch f.kind {
	case "strike":
		return fmt.Sprintf("strike %s %s after %d, %d times, of client %d, delay %v, %v, for %v", f.op, f.action, f.after, f.times(), f.struck(), f.delay, f.err, f.lasts)
	case "cut", "silence", "delay", "away", "expire", "burst":
		return fmt.Sprintf("%s client %d (%v, %v) for %v", f.kind, f.client, f.dir, f.delay, f.lasts)
	case "config", "wallclock":
		return fmt.Sprintf("%s client %d (%v, %v, %d times)", f.kind, f.client, f.err, f.delay, 1+f.dice)
	case "part", "oneway", "link":
		return fmt.Sprintf("%s member %d, %d for %v", f.kind, f.member, f.other, f.lasts)
	}
	return fmt.Sprintf("%s member %d (%v) for %v", f.kind, f.member, f.delay, f.lasts)
}

var (
	clientFaults = []string{"cut", "silence", "silence", "delay", "away", "strike", "strike", "strike", "strike"}
	memberFaults = []string{"stop", "pause"}
	peerFaults   = []string{"part", "part", "oneway", "oneway", "reset", "lag", "peers", "leader", "wipe"}
	meddling     = []string{"delete", "delete", "expire", "skew"}

	struckOps = []string{"create2", "create2", "getChildren2", "getData", "delete", "exists", "ping", "ping", "ping", "connect", "multi", "multi", "setData", "setWatches",
		"addWatch", "setWatches2", "multiRead", "sync", "closeSession", "create", "createContainer", "removeWatches", "auth", "sasl"}
	strikes = []zktest.Action{zktest.DropRequest, zktest.CutBefore, zktest.LoseReply, zktest.LoseReply, zktest.Hold, zktest.HoldReply, zktest.HoldReply, zktest.DelayReply,
		zktest.DelayReply, zktest.ReplyError, zktest.HalfHandshake}
	// What a server may answer without having done anything. It may say "expired" by mistake as long as it
	// does not know that it is alone.
	answers = []zktest.Error{zktest.ErrThrottledOp, zktest.ErrSessionMoved, zktest.ErrRequestTimeout, zktest.ErrSessionExpired}
)

// times is how often a strike strikes.
func (f fault) times() int {
	if f.dice%8 == 7 {
		return -1
	}
	return 1 + f.dice%2
}

// struck is the client whose requests are struck, -1 for all.
func (f fault) struck() int {
	if f.dice>>4%3 == 0 {
		return f.client
	}
	return -1
}

// faults makes the schedule.
func (p *Plan) faults(r *rand.Rand) []fault {
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
	var faults []fault
	pace := pick(r, 1, 2, 4)
	for at := time.Second; at < p.Trouble; at += below(r, time.Duration(pace)*2*time.Second) {
		f := fault{kind: pick(r, kinds...), at: at, client: r.IntN(p.Clients), member: r.IntN(p.Members), other: r.IntN(p.Members), dice: r.IntN(1 << 20)}
		f.dir = pick(r, zktest.Both, zktest.FromClient, zktest.ToClient)
		f.op, f.action, f.after = pick(r, struckOps...), pick(r, strikes...), r.IntN(3)
		if f.err = pick(r, answers...); f.action == zktest.HalfHandshake {
			f.op = "connect"
		}
		f.delay = below(r, pick(r, 100*time.Millisecond, time.Second, 3*time.Second))
		f.lasts = below(r, pick(r, time.Second, p.Timeout, 2*p.Timeout+p.bound()))
		if f.kind == "away" { // long enough for a session to end
			f.lasts *= 3
			if f.dice%4 == 0 { // for its client, but perhaps not yet for the servers, which had the last ping later; then late packets arrive
				f.lasts, f.dir = p.Timeout*2/3+below(r, p.Timeout/3+p.Tick), zktest.Both
			}
		}
		if f.kind == "strike" && f.action == zktest.ReplyError && (f.err == zktest.ErrSessionExpired || f.op == "connect") {
			// Only a leader that has lost the others calls a living session expired, for as long as it takes
			// it to notice that. So a server that has just opened a session, and is then asked to close the
			// one before, never does.
			if f.lasts = min(f.lasts, p.bound()); p.Members == 1 || f.op == "connect" || f.op == "closeSession" {
				continue
			}
		}
		faults = append(faults, f)
	}
	return faults
}

// act is the beginning or the end of a fault.
type act struct {
	at time.Duration
	do func()
}

// torment plays the schedule and undoes all faults in the end.
func (w *world) torment() {
	var acts []act
	for _, f := range w.plan.Faults {
		acts = append(acts, act{f.at, func() {
			w.tell("FAULT %v", f)
			if undo := w.begin(f); undo != nil {
				w.later(f.lasts, func() { w.tell("END of %v", f); undo() })
			}
		}})
	}
	start := time.Now()
	w.acts = acts
	for {
		slices.SortStableFunc(w.acts, func(a, b act) int { return cmp.Compare(a.at, b.at) })
		if len(w.acts) == 0 || w.acts[0].at >= w.plan.Trouble {
			break
		}
		next := w.acts[0]
		w.acts = w.acts[1:]
		time.Sleep(time.Until(start.Add(next.at)))
		w.now = max(next.at, time.Since(start))
		next.do()
	}
	time.Sleep(time.Until(start.Add(w.plan.Trouble)))
	for _, a := range w.acts { // what would still last
		a.do()
	}
	w.heal()
}

func (w *world) later(d time.Duration, do func()) { w.acts = append(w.acts, act{w.now + d, do}) }

func (w *world) heal() {
	for i := range w.away {
		w.away[i].ends()
	}
	w.ens.SetPeerDelay(w.plan.PeerDelay)
	for i, m := range w.ens.Members() {
		m.Heal()
		w.ens.SetLag(i, w.plan.Lag)
	}
	for i := range w.still {
		w.still[i].resumed(time.Now())
	}
	if err := w.ens.Heal(); err != nil {
		w.violate("the ensemble does not heal: %v", err)
	}
	for i, m := range w.ens.Members() {
		if w.skews[i] != 0 { // a clock that goes back keeps sessions alive, and their nodes
			w.doubt()
			m.SkewClock(w.skews[i])
		}
	}
	w.tell("HEALED")
}

// victim is the id of the session of a client, or of its visitor, 0 when there is none right now.
func (w *world) victim(f fault) int64 {
	w.mu.Lock()
	visitor := w.visitors[f.client]
	w.mu.Unlock()
	if visitor != nil && f.dice%3 > 0 {
		return sessionOf(visitor)
	}
	return w.session(f.client)
}

func (w *world) session(client int) int64 { return sessionOf(w.clients[client]) }

func sessionOf(c *framework.Client) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	s, err := c.Session(ctx)
	if err != nil {
		return 0
	}
	return s.ID()
}

// begin injects the fault. The function that it returns, if any, undoes it.
func (w *world) begin(f fault) (undo func()) {
	e, member := w.ens, w.ens.Member(f.member)
	id := int64(0)
	switch f.kind {
	case "cut", "silence", "delay", "away", "expire", "config":
		if id = w.victim(f); id == 0 {
			return nil
		}
	case "strike":
		if f.struck() >= 0 {
			id = w.victim(f) // all, if it has none
		}
	}
	each := func(do func(*zktest.Server)) {
		for _, m := range e.Members() {
			do(m)
		}
	}
	switch f.kind {
	case "cut":
		e.Cut(id)
	case "silence":
		each(func(m *zktest.Server) { m.BlackHole(id, f.dir) })
		if f.dice%2 == 0 { // what was sent arrives late; else only when all is healed
			return func() { each(func(m *zktest.Server) { m.HealSession(id) }) }
		}
	case "delay":
		each(func(m *zktest.Server) { m.Delay(id, f.delay) })
	case "away":
		w.away[f.client].begins()
		each(func(m *zktest.Server) { m.BlackHole(id, f.dir) })
		return func() {
			w.away[f.client].ends()
			if f.dice%2 == 0 {
				w.later(f.delay, func() { each(func(m *zktest.Server) { m.HealSession(id) }) })
			}
		}
	case "strike":
		var struck []*zktest.Injection
		each(func(m *zktest.Server) {
			struck = append(struck, m.Inject(zktest.Fault{Session: id, Op: f.op, Action: f.action, After: f.after, Delay: f.delay, Err: f.err, Times: f.times()}))
		})
		return func() {
			for _, i := range struck {
				i.Remove()
				i.Release()
			}
		}
	case "stop":
		member.Stop()
		return func() { w.must(member.Start()) }
	case "pause":
		return w.still[f.member].pause(member)
	case "skew":
		w.doubt()
		w.skews[f.member] += 20 * f.delay // and never back: sessions would live for ever
		member.SkewClock(w.skews[f.member])
	case "leader":
		if l := e.Leader(); l >= 0 {
			m := e.Member(l)
			if f.dice%2 == 0 {
				return w.still[l].pause(m)
			}
			m.Stop()
			return func() { w.must(m.Start()) }
		}
	case "part":
		var others []int
		for i := range e.Size() {
			if i != f.member && (f.dice>>i)%3 > 0 {
				others = append(others, i)
			}
		}
		if len(others) == 0 {
			others = append(others, (f.member+1)%e.Size())
		}
		e.Partition(f.member, others...)
		return func() {
			for _, i := range others {
				e.HealLink(f.member, i)
				e.HealLink(i, f.member)
			}
		}
	case "oneway":
		from, to := f.member, f.other
		if l := e.Leader(); l >= 0 && f.dice%2 == 0 {
			to = l
		}
		if from == to {
			to = (to + 1) % e.Size()
		}
		e.CutLink(from, to)
		return func() { e.HealLink(from, to) }
	case "reset":
		e.ResetPeers(f.member)
	case "lag":
		e.SetLag(f.member, f.delay)
		return func() { e.SetLag(f.member, w.plan.Lag) }
	case "peers":
		e.SetPeerDelay(f.delay / 10)
		return func() { e.SetPeerDelay(w.plan.PeerDelay) }
	case "wipe":
		w.wipe(f.member)
	case "turn":
		w.turn()
	case "config":
		return w.question(f, id)
	case "burst":
		return w.burst(f)
	case "wallclock":
		w.setWallClock(f.delay)
	case "delete":
		if f.dice>>13%2 == 0 { // those at the head; all clients learn of all of it at once, on the next connection
			w.ens.Cut(0)
			w.meddle(func(int) (first, last int) { return 0, 1 + f.dice%2 })
			break
		}
		w.meddle(func(n int) (first, last int) { // a few successive ones
			last = f.dice % n
			return last - f.dice>>10%3, last
		})
	case "expire":
		w.expire(id)
	}
	return nil
}

// turn changes what the clients' rule rests on, while nothing else is wrong, and makes all clients connect
// anew: only then can they know.
func (w *world) turn() {
	switch {
	case w.plan.Grows:
		var config strings.Builder
		for i, addr := range w.ens.Addrs() {
			fmt.Fprintf(&config, "server.%d=%s\n", i+1, addr)
		}
		w.must(w.ens.Member(0).Set("/zookeeper/config", []byte(config.String())))
		time.Sleep(w.plan.Lag + 4*w.plan.PeerDelay + 10*time.Millisecond) // a member that does not know it yet would deny it
	case w.plan.Shrinks:
		for _, m := range w.ens.Members() {
			m.LimitSessions(w.plan.Timeout / 2)
		}
	}
	w.ens.Cut(0)
}

// question makes a client connect anew to servers that cannot tell it at the moment whether they stand alone.
func (w *world) question(f fault, id int64) (undo func()) {
	for _, m := range w.ens.Members() {
		m.Inject(zktest.Fault{Session: id, Op: "getData", PathPrefix: "/zookeeper/config", Action: zktest.ReplyError, Err: f.err, Times: 1 + f.dice})
	}
	w.ens.Cut(id)
	return func() {
		for i, c := range w.clients {
			if s := c.Safety(); w.plan.Members == 1 && s.Known && !s.Standalone {
				w.violate("client %d takes a server that stands alone, and never said otherwise, for a member", i)
			}
		}
	}
}

// burst makes a client that holds something, if there is one, ask a distant server for very much. It must
// cost neither the session nor a read.
func (w *world) burst(f fault) (undo func()) {
	client := f.client
	for i := range w.clients {
		if n := (f.client + i) % len(w.clients); w.clients[n].Safety().Holds > 0 {
			client = n
			break
		}
	}
	c, id := w.clients[client], w.session(client)
	for _, m := range w.ens.Members() {
		m.Delay(id, f.delay)
	}
	for range burst {
		c.GetData().InBackground().ForPath(background, root).Then(func(_ framework.DataResult, err error) {
			if err != nil {
				w.violate("client %d: a read among many, while nothing is wrong: %v", client, err)
			}
		})
	}
	return func() {
		for _, m := range w.ens.Members() {
			m.Delay(id, 0)
		}
		if now := w.session(client); now != id {
			w.violate("client %d has lost its session %#x by nothing but many reads of its own, and has %#x", client, id, now)
		}
	}
}

// setWallClock sets the wall clocks of the clients' machines, which must have no effect.
func (w *world) setWallClock(d time.Duration) {
	var before, after []time.Duration
	for _, c := range w.clients {
		before = append(before, c.Safety().Remaining)
	}
	mutant.SetWallClock(d)
	for _, c := range w.clients {
		after = append(after, c.Safety().Remaining)
	}
	if !slices.Equal(before, after) {
		w.violate("wall clocks were set ahead by %v, and what is held is certain for %v instead of %v", d, after, before)
	}
}

// expire ends a session early, if there is a server that can.
func (w *world) expire(id int64) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	lives := func() bool {
		return slices.ContainsFunc(w.ens.Member(l).Sessions(), func(s zktest.SessionInfo) bool { return s.ID == id })
	}
	if !lives() {
		return
	}
	w.force(id, true) // until it is certain
	w.ens.Expire(id)
	if !lives() {
		w.force(id, false)
	}
}

// wipe deletes a member's data. On a majority that would lose committed data, which no client can repair; so
// all members are whole before and after.
func (w *world) wipe(member int) {
	w.heal()
	settled := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return w.ens.AwaitSettled(ctx) == nil
	}
	if !settled() {
		return
	}
	w.ens.Member(member).Wipe()
	w.must(w.ens.Member(member).Start())
	settled()
}

// meddle deletes nodes of some sessions: of n nodes those from first to last, from the end.
func (w *world) meddle(which func(n int) (first, last int)) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	var paths []string
	for path, node := range w.ens.Member(l).Tree() {
		if node.Mode == zktest.Ephemeral && strings.HasPrefix(path, root) {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		return
	}
	slices.Sort(paths) // names hold random identifiers; their numbers decide
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	first, last := which(len(paths))
	for _, victim := range slices.Backward(paths[max(first, 0):min(last+1, len(paths))]) {
		sure := w.forceNode(victim)
		err := w.ens.Member(l).Delete(victim)
		w.tell("ADMIN deletes %s: %v", victim, err)
		if err == nil {
			sure()
		}
	}
}
