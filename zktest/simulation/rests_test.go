package simulation_test

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// Plans of rests: clients are idle for up to a session timeout before they contend, or wait in line for as long, and
// faults strike right at a grant. The leader last saw a request of a session that pings slowly long before such a
// grant. No two faults strike the members at one time, except for a short pause of the leader when a link fails. So
// these plans stay within the assumptions of promise P1, and the promised margin is checked; see [plan.exact].

// Kinds of faults that wait for a grant, or a release, and then strike once. Delay is the time until the strike; Times is the
// duration in milliseconds, 0: until the fault's end.
const (
	// cutAtGrant cuts the member of the client that gets the grant from all other members: both ways, or only for
	// packets from it (FromClient) or to it (ToClient). With All the client reaches no other member. With After the
	// other members notice immediately, and elect another leader if it was the leader.
	cutAtGrant   chaos.Kind = "cut at a grant"
	moveAtGrant  chaos.Kind = "move at a grant"  // the client's connection is closed, and its member is not reachable again
	stallAtGrant chaos.Kind = "stall at a grant" // packets of the connection arrive later, all together
	pauseAtGrant chaos.Kind = "pause at a grant" // the leader pauses
	// moveAtRelease is moveAtGrant for a client that may be granted next.
	moveAtRelease chaos.Kind = "move at a release"
)

// atGrant adds these kinds to the kinds of a chaos configuration.
func atGrant(s *stage, kinds map[chaos.Kind]func(*chaos.World, chaos.Fault) func()) {
	for kind, strike := range map[chaos.Kind]func(*world, chaos.Fault, int) func(){
		cutAtGrant: (*world).cutOff, moveAtGrant: (*world).move, stallAtGrant: (*world).stall,
		pauseAtGrant: (*world).pauseLeader, moveAtRelease: (*world).move,
	} {
		kinds[kind] = func(_ *chaos.World, f chaos.Fault) func() {
			return s.w.await(f, func(client int) func() { return strike(s.w, f, client) })
		}
	}
}

// rests reports whether the seed's plan is one of rests.
func (p *plan) rests(v variant) bool {
	crowds := len(v.works) > 0 && slices.ContainsFunc(v.works, func(work string) bool { return !crowded[work] })
	return !v.still && !v.crowd && !crowds &&
		(v.rests || rand.New(rand.NewPCG(p.Seed, 1<<46)).IntN(5) == 0)
}

// drawRests draws a plan of rests.
func (p *plan) drawRests(v variant) (drafts []draft) {
	r := rand.New(rand.NewPCG(p.Seed, 1<<47))
	p.Rests, p.Abreast, p.Works = true, 1, v.works
	if len(v.works) == 0 {
		p.Works = []string{pick(r, "mutex", "mutex", "mutex", "latch", "selector", "rwlock", "semaphore", "readers")}
	}
	p.Members, p.Clients = pick(r, 3, 3, 3, 5), 2+r.IntN(4)
	p.TickTime = pick(r, 500*time.Millisecond, 500*time.Millisecond, time.Second, 2*time.Second)
	p.SyncLimit = pick(r, 2, 3, 4, 2+r.IntN(9))
	p.drawTimeout(r)
	p.Asked, p.Profile = p.SessionTimeout, pick(r, zktest.V37, zktest.V38, zktest.V39, zktest.V35)
	p.Loss = pick(r, framework.SessionOnly, framework.SessionOnly, framework.SessionOnly, framework.SuspendedIsLoss)
	p.Election = pick(r, 400*time.Millisecond, 100*time.Millisecond, 3*time.Second)
	p.Pace = pick(r, 0, 0, below(r, time.Millisecond))
	p.Lag = pick(r, 0, 0, below(r, 50*time.Millisecond))
	p.PeerDelay = pick(r, 0, 0, below(r, min(p.TickTime/12, 50*time.Millisecond)))
	p.keepUp(p.SessionTimeout)

	// The fault lasts until other contenders have had the lock: the members notice that a link fails, elect a leader,
	// and expire the session at a multiple of the tick.
	lasts := p.SessionTimeout + p.bound() + p.Election + 2*p.TickTime + time.Second
	episodes := 3
	if p.SessionTimeout > 20*time.Second {
		episodes = 1 + r.IntN(2)
	}
	at := time.Second
	for range episodes {
		at += below(r, p.SessionTimeout)
		window := p.SessionTimeout/2 + below(r, p.SessionTimeout/2)
		drafts = append(drafts, p.episode(r, at, window+lasts)...)
		at += window + lasts + p.Election + 2*p.TickTime + 2*time.Second
	}
	p.Trouble = at
	if r.IntN(2) == 0 {
		drafts = append(drafts, p.links(r)...)
	}
	return drafts
}

// drawTimeout draws a session timeout for either rule, seldom a long one, which takes long to play.
func (p *plan) drawTimeout(r *rand.Rand) {
	rare := r.IntN(12) == 0
	for {
		d := p.bound()
		p.SessionTimeout = 2*p.TickTime + below(r, 2*d-2*p.TickTime) // heartbeats
		if r.IntN(3) > 0 {
			p.SessionTimeout = 2*d + below(r, pick(r, d, 4*d, 8*d))
		}
		switch {
		case rare && r.IntN(3) == 0:
			p.SessionTimeout = 40*time.Second + below(r, 80*time.Second)
		case !rare && p.SessionTimeout > 40*time.Second:
			p.TickTime = max(p.TickTime/2, 500*time.Millisecond)
			continue
		}
		p.SessionTimeout = min(p.SessionTimeout, 2*time.Minute).Round(time.Millisecond)
		return
	}
}

// episode draws faults that strike at one grant.
func (p *plan) episode(r *rand.Rand, at, lasts time.Duration) (drafts []draft) {
	soon := func(most time.Duration) time.Duration {
		return pick(r, 0, time.Millisecond, below(r, most), below(r, most), below(r, most)).Round(time.Millisecond)
	}
	pause := time.Duration(0)
	if r.IntN(4) == 0 {
		pause = below(r, p.pause())
		drafts = append(drafts, draft{kind: string(pauseAtGrant), times: milliseconds(pause)})
	}
	drafts = append(drafts, draft{
		kind:  string(cutAtGrant),
		delay: soon(p.TickTime/2 + pause),
		dir:   pick(r, zktest.Both, zktest.Both, zktest.FromClient, zktest.ToClient),
		all:   r.IntN(4) > 0,
		after: r.IntN(2),
	})
	switch r.IntN(6) {
	case 0, 1:
		drafts = append(drafts, draft{
			kind:  string(stallAtGrant),
			delay: soon(p.TickTime),
			times: milliseconds(below(r, p.SessionTimeout/2)),
			dir:   pick(r, zktest.ToClient, zktest.ToClient, zktest.FromClient, zktest.Both),
		})
	case 2:
		drafts = append(drafts, draft{
			kind:   pick(r, string(moveAtGrant), string(moveAtRelease)),
			delay:  soon(p.TickTime / 2),
			times:  milliseconds(below(r, p.SessionTimeout)),
			client: r.IntN(p.Clients),
		})
	}
	for i := range drafts {
		drafts[i].at, drafts[i].lasts = at, lasts
	}
	return drafts
}

// pause returns how long the leader may pause, in addition to the delay between members, by the clients' assumption J.
func (p *plan) pause() time.Duration {
	return min(p.TickTime/2, p.SessionTimeout/8-2*p.PeerDelay).Truncate(time.Millisecond)
}

// links draws faults of the clients' connections, at any time.
func (p *plan) links(r *rand.Rand) (drafts []draft) {
	for at := time.Second; at < p.Trouble; at += below(r, p.SessionTimeout) {
		f := draft{
			kind:   pick(r, "silence", "silence", "silence", "cut", "delay", "away"),
			at:     at,
			client: r.IntN(p.Clients),
			dir:    pick(r, zktest.ToClient, zktest.ToClient, zktest.FromClient, zktest.Both),
			delay:  below(r, p.SessionTimeout/8),
			dice:   2 * r.IntN(2), // delayed packets arrive late
		}
		if f.lasts = below(r, p.SessionTimeout/2); f.kind == "away" {
			f.lasts = below(r, 2*p.SessionTimeout)
		}
		drafts = append(drafts, f)
	}
	return drafts
}

func milliseconds(d time.Duration) int { return max(int(d.Milliseconds()), 1) }

// exact reports whether the plan stays within the assumptions of promise P1.
func (p *plan) exact() bool {
	alone := p.Members == 1 && !p.Meddling && p.Rule == "" && !p.Shorter
	return p.Rests || alone
}

// kind returns the kind of the plan, for statistics.
func (p *plan) kind() string {
	switch {
	case p.Members == 1:
		return "one server"
	case !p.Rests:
		return "any faults"
	case p.SessionTimeout < 2*p.bound():
		return "rests, heartbeats"
	}
	return "rests, bound"
}

// idle pauses between two turns, in plans of rests at times for long.
func (a *actor) idle() {
	if !a.w.plan.Rests {
		time.Sleep(below(a.r, 200*time.Millisecond))
		return
	}
	select {
	case <-time.After(below(a.r, a.w.plan.SessionTimeout)):
	case <-a.w.Calm():
	case <-a.p.Context().Done():
	}
}

// trap is a fault that waits for a grant or a release.
type trap struct {
	w       *world
	release bool
	f       chaos.Fault
	strike  func(client int) (undo func())

	mu    sync.Mutex
	over  bool
	undos []func()
}

// await makes a fault wait for the next grant, or release, and strike then.
func (w *world) await(f chaos.Fault, strike func(client int) (undo func())) (undo func()) {
	t := &trap{w: w, release: f.Kind == moveAtRelease, f: f, strike: strike}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.traps = append(w.traps, t)
	return t.end
}

// happens is called when a client gets a grant, or releases: the faults that wait for that strike.
func (w *world) happens(release bool, client int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.traps = slices.DeleteFunc(w.traps, func(t *trap) bool {
		if t.release != release {
			return false
		}
		victim := client
		if release {
			if victim = t.f.Process % w.plan.Clients; victim == client {
				victim = (victim + 1) % w.plan.Clients
			}
		}
		time.AfterFunc(t.f.Delay, func() { t.strikes(victim) })
		return true
	})
}

func (t *trap) strikes(client int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.w.Logf("%s strikes client %d", t.f.Kind, client)
	t.w.Count("strikes at a grant", 1)
	undo := t.strike(client)
	if undo == nil {
		return
	}
	undo = sync.OnceFunc(undo)
	t.undos = append(t.undos, undo)
	if t.f.Times > 0 {
		time.AfterFunc(time.Duration(t.f.Times)*time.Millisecond, undo)
	}
}

// end undoes the fault, or removes it if it has not struck.
func (t *trap) end() {
	t.w.mu.Lock()
	t.w.traps = slices.DeleteFunc(t.w.traps, func(other *trap) bool { return other == t })
	t.w.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, undo := range t.undos {
		undo()
	}
}

// member returns the member that a client is connected to, -1 if there is none, and the client's session.
func (w *world) member(client int) (n int, session int64) {
	id := w.session(client)
	return slices.IndexFunc(w.ens.Members(), func(m *zktest.Server) bool {
		return slices.ContainsFunc(m.Sessions(), func(s zktest.SessionInfo) bool { return s.ID == id && s.Connected })
	}), id
}

func (w *world) cutOff(f chaos.Fault, client int) (undo func()) {
	n, _ := w.member(client)
	if n < 0 {
		return nil
	}
	w.Logf("member %d is cut off, what it sends is lost: %t, what it is sent: %t; its client reaches no other: %t", n,
		f.Dir&zktest.FromClient != 0, f.Dir&zktest.ToClient != 0, f.All)
	leads := n == w.ens.Leader()
	var others []int
	for i := range w.ens.Size() {
		if i == n {
			continue
		}
		others = append(others, i)
		if f.Dir&zktest.FromClient != 0 {
			w.ens.CutLink(n, i)
		}
		if f.Dir&zktest.ToClient != 0 {
			w.ens.CutLink(i, n)
		}
	}
	reach := func() {}
	if f.All {
		reach = w.confine(client, others...)
	}
	if leads && f.After > 0 && f.Dir == zktest.Both {
		for _, i := range others {
			w.ens.ResetPeers(i)
		}
	}
	w.keeps(client, 1)
	return func() {
		for _, i := range others {
			w.ens.HealLink(n, i)
			w.ens.HealLink(i, n)
		}
		reach()
		w.keeps(client, -1)
	}
}

func (w *world) move(_ chaos.Fault, client int) (undo func()) {
	n, session := w.member(client)
	if n < 0 {
		return nil
	}
	undo = w.confine(client, n)
	w.ens.Member(n).Cut(session)
	return undo
}

func (w *world) stall(f chaos.Fault, client int) (undo func()) {
	n, session := w.member(client)
	if n < 0 {
		return nil
	}
	w.ens.Member(n).BlackHole(session, f.Dir)
	return func() { w.ens.Member(n).HealSession(session) }
}

func (w *world) pauseLeader(chaos.Fault, int) (undo func()) {
	l := w.ens.Leader()
	if l < 0 {
		return nil
	}
	w.ens.Member(l).Pause()
	return w.ens.Member(l).Resume
}

// keeps counts the faults during which a client keeps its hold.
func (w *world) keeps(client, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keeping[client] += n
}

func (w *world) keptOn(client int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keeping[client] > 0
}

// confine makes new connections of a client to these members wait until reach is called.
func (w *world) confine(client int, members ...int) (reach func()) {
	down := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range members {
		w.walls[client] = append(w.walls[client], wall{w.ens.Addrs()[n], down})
	}
	return func() { close(down) }
}

// cutOffNow reports whether a client reaches one member at most.
func (w *world) cutOffNow(client int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	up := map[string]bool{}
	for _, l := range w.walls[client] {
		select {
		case <-l.down:
		default:
			up[l.addr] = true
		}
	}
	return len(up) > 0 && len(up) >= w.plan.Members-1
}

// wall blocks connections of a client to a member, until down is closed.
type wall struct {
	addr string
	down chan struct{}
}

// dial connects a client's process to a member, after waiting for the walls before it.
func (w *world) dial(p *chaos.Process, client int) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.mu.Lock()
		walls := slices.Clone(w.walls[client])
		w.mu.Unlock()
		for _, l := range walls {
			if l.addr != addr {
				continue
			}
			select {
			case <-l.down:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return p.Dial(ctx, network, addr)
	}
}
