package wire

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/explore"
)

// Promise P1 with the library's own Liveness, in a whole small session: its client, the server that it is connected to,
// that server's leader, and the authority: the leader with a quorum, which alone expires sessions.
//
// Modelled, in discrete time and every order of events: pings and writes at any moment, with any delay up to slow; a
// member's table of touches and the leader's pings that fetch it; links between members that are cut both ways or, with
// oneWay, one way only, at any moment; a new leader, which the old one, its members and the client have not noticed;
// connect requests to any server at any moment, also again to the same one, with or without a reply, with grants that
// differ (grants); a machine that is suspended (sleep).
//
// Left out: buckets (the authority expires the session at the first possible moment); more than one request in flight,
// delays between members and slow handling (explore_test.go has these); a touch lost in a member's table, observer masters,
// clocks that run apart. They are assumptions of Liveness.
//
// Wrong: the session has expired, and Left, which has been positive at all moments so far, still is. The margin is 0, so a
// unit less of Stale or Report is too little. The model has no states that must stay reachable.
type session struct {
	name    string
	timeout int   // with which the session is created; all times are in units
	grants  []int // the timeouts that servers grant to a connect request
	asked   int   // the timeout that the client requests
	tick    int
	limit   int // syncLimit
	j, jf   int // how late the leader's pings, and a member that gives up its leader, may be
	stale   int // Servers.Stale and Servers.Report
	report  int
	alone   bool // one standalone server
	oneWay  bool // links may fail one way
	again   bool // and later the other way; a deposed leader's member may be cut from it
	reign   int  // how long a deposed leader serves; 0: as long as tick, limit and j allow
	slow    int8 // how long a request or a reply is in flight at most; 0: for ever
	sleep   bool // the machine may be suspended
	late    bool // a former member's table may be reported after a reconnect
	calm    bool // no link is cut, and no leader is deposed
	full    bool // members whose leader pings them at any moment; a new leader at any moment; connections again to one member
}

// unit is the model's unit of time; it is large for Liveness, so that its limits in milliseconds play no part.
const unit = time.Second

// origin is now, for Liveness: the model's instants are relative to it.
const origin = 100

func instantAt(boot, mono int8) Instant {
	return Instant{Boot: (origin + time.Duration(boot)) * unit, Mono: (origin + time.Duration(mono)) * unit}
}

var modelNow = instantAt(0, 0)

// pair is a touch: when it was sent (Boot) and its reply received (Mono).
type pair struct{ sent, answered int8 }

// ledger holds the state of a Liveness that matters for Left, in units relative to now.
type ledger struct {
	timeout, lowest      int8
	claim, sent          int8
	connecting, attached bool
	attach               int8
	doubted              bool
	doubt                int8
	alone                bool
	fresh                pair
	n                    int8
	touches              [12]pair
}

const longAgo = -origin // earlier than all other instants

func (m session) servers(alone bool) Servers {
	return Servers{Standalone: alone, Report: time.Duration(m.report) * unit, Stale: time.Duration(m.stale) * unit}
}

// unpack returns the Liveness that was packed into p.
func (m session) unpack(p *ledger) *Liveness {
	boot := func(i int8) time.Duration { return instantAt(i, 0).Boot }
	of := func(p pair) serverTouch { return serverTouch{boot(p.sent), boot(p.answered)} }
	l := &Liveness{
		standing:      Standing{Timeout: time.Duration(p.timeout) * unit},
		servers:       m.servers(p.alone),
		lowestTimeout: time.Duration(p.lowest) * unit,
		countedTouch:  boot(p.claim), hasCounted: true, lastSent: boot(p.sent),
		connecting: p.connecting, timeoutUnproven: p.doubted, unprovenSince: boot(p.doubt), attachUnproven: p.attached, attachSent: boot(p.attach),
		touchAfterPause: of(p.fresh), touchCount: int(p.n),
	}
	for i := range l.touchCount {
		l.touches[i] = of(p.touches[i])
	}
	return l
}

// pack is the reverse of unpack. It drops state that makes no difference any more.
func (m session) pack(l *Liveness) (p ledger) {
	rel := func(d time.Duration) int8 { return int8(d/unit - origin) }
	of := func(t serverTouch) pair { return pair{rel(t.sent), rel(t.replied)} }
	p = ledger{
		timeout: int8(l.standing.Timeout / unit), lowest: int8(l.lowestTimeout / unit),
		claim: rel(l.countedTouch), sent: rel(l.lastSent), connecting: l.connecting, attached: l.attachUnproven, alone: l.servers.Standalone,
		doubted: l.timeoutUnproven && l.lowestTimeout < l.standing.Timeout, doubt: longAgo, attach: longAgo, fresh: pair{longAgo, longAgo},
	}
	if p.doubted {
		p.doubt = rel(l.unprovenSince)
	}
	if p.attached && l.attachSent > l.countedTouch || p.doubted {
		p.attach = rel(l.attachSent)
	}
	var kept []serverTouch
	for i, t := range l.touches[:l.touchCount] {
		next := modelNow.Mono
		if i+1 < l.touchCount {
			next = l.touches[i+1].replied
		}
		if t.sent > l.countedTouch || p.doubted || next == t.replied { // else it counts already, and replaces none
			kept = append(kept, t)
		}
	}
	fresh := l.touchAfterPause.sent > l.countedTouch || p.doubted
	for i, t := range kept {
		p.touches[i] = of(t)
		replaced := i > 0 && i == len(kept)-1 && kept[i-1].replied == t.replied
		fresh = fresh && (replaced || t.replied > l.touchAfterPause.replied || t.sent < l.touchAfterPause.sent)
	}
	if p.n = int8(len(kept)); fresh {
		p.fresh = of(l.touchAfterPause)
	}
	return p
}

// pass lets a unit of time pass; the clock Mono stands still while asleep.
func (p *ledger) pass(m session, asleep bool) {
	older := func(i *int8) { *i = max(*i-1, longAgo) }
	mono := func(i *int8) {
		if !asleep {
			older(i)
		}
	}
	older(&p.claim)
	p.sent = max(p.sent-1, int8(-m.timeout)) // beyond any gap that is too long
	older(&p.doubt)
	older(&p.attach)
	if p.fresh.sent != longAgo {
		older(&p.fresh.sent)
		mono(&p.fresh.answered)
	}
	for i := range p.n {
		older(&p.touches[i].sent)
		mono(&p.touches[i].answered)
	}
}

type place int8

const (
	member   place = iota // its leader is the authority, as long as their link lasts
	leader                // the authority itself
	minority              // a member that follows a deposed leader
	deposed               // the deposed leader, which has not noticed yet
)

var placeNames = []string{"a member", "the leader", "a member of the deposed leader", "the deposed leader"}

type request struct {
	what       int8 // 0 is none
	boot, mono int8 // when it was sent
}

const (
	asPing = 1 + iota
	asWrite
	asConnect
)

var requestNames = []string{"", "ping", "write", "connect request"}

type sessionState struct {
	live    ledger
	expiry  int8 // the time until the authority expires the session
	at      place
	granted int8 // to the connection
	// The member's: when its leader pings it next, how long ago each of the two has received a packet of the other, the
	// timeout of a touch that is not reported yet, and which way the link is cut.
	timer, sinceLeader, sinceMember int8
	table                           int8
	down, up                        bool // cut: from the leader, to the leader
	dead                            bool // the connection's server has stopped serving
	reign                           int8 // how long a deposed leader serves; -1: there is none
	req, reply                      request
	waits                           bool // the request waits for the leader
	former, formerTimer             int8 // the table of the earlier member
}

func (m session) model() explore.Model[sessionState] {
	l := &Liveness{lowestTimeout: time.Duration(m.asked) * unit}
	l.Assume(m.servers(false))
	l.RecordConnected(modelNow, modelNow, time.Duration(m.timeout)*unit, false)
	s := sessionState{live: m.pack(l), expiry: int8(m.timeout), granted: int8(m.timeout), timer: int8(m.tick / 2), reign: -1}
	if m.alone {
		s.at, s.timer = leader, 0
	}
	return explore.Model[sessionState]{Start: []sessionState{s}, Next: m.next, Wrong: func(s sessionState) string {
		if s.expiry <= 0 && m.certain(&s) {
			return "the session has expired, and is still taken for certain"
		}
		return ""
	}}
}

func (m session) certain(s *sessionState) bool { return m.unpack(&s.live).HoldLeft(modelNow) > 0 }

func (m session) next(s sessionState, step func(string, sessionState)) {
	if s.expiry <= 0 || !m.certain(&s) {
		return // a lapse is final
	}
	m.client(s, step)
	m.server(s, step)
	if s.at == member || s.at == minority {
		m.link(s, step)
	}
	m.time(s, step)
}

// feed passes an event to the Liveness of s.
func (m session) feed(s *sessionState, f func(*Liveness)) {
	l := m.unpack(&s.live)
	f(l)
	s.live = m.pack(l)
}

func (m session) client(s sessionState, step func(string, sessionState)) {
	if s.req.what == 0 && s.reply.what == 0 && !s.dead {
		for _, what := range []int8{asPing, asWrite} {
			n := s
			n.req = request{what: what}
			step("the client sends a "+requestNames[what], n)
		}
	}
	if s.reply.what != 0 {
		n := s
		n.reply = request{}
		sent := instantAt(s.reply.boot, s.reply.mono)
		m.feed(&n, func(l *Liveness) {
			switch s.reply.what {
			case asPing:
				l.RecordReply(Local, sent, modelNow)
			case asWrite:
				l.RecordReply(Committed, sent, modelNow)
			case asConnect:
				l.RecordConnected(sent, modelNow, time.Duration(s.granted)*unit, false)
				l.Assume(m.servers(false))
			}
		})
		step("the client reads the reply to its "+requestNames[s.reply.what], n)
	}
	if m.alone && !s.live.alone && !s.dead && s.req.what == 0 && s.reply.what == 0 {
		n := s
		m.feed(&n, func(l *Liveness) {
			l.RecordVerdict(Standalone)
			l.Assume(m.servers(true))
		})
		step("the server says that it is standalone", n)
	}
	connect := func(at place, granted, timer int) {
		n := s
		if n.former = 0; m.late && s.at == member && !s.dead && !s.down && !s.up {
			n.former, n.formerTimer = s.table, s.timer
		}
		n.at, n.granted, n.timer = at, int8(granted), int8(timer)
		n.dead, n.waits, n.down, n.up, n.table, n.sinceLeader, n.sinceMember = false, false, false, false, 0, 0, 0
		n.req, n.reply = request{what: asConnect}, request{}
		m.feed(&n, func(l *Liveness) { l.RecordConnecting(modelNow) })
		step("the client connects to "+placeNames[at], n)
	}
	for _, g := range m.grants {
		connect(leader, g, 0)
		if m.alone {
			continue
		}
		for timer := m.tick / 2; timer == m.tick/2 || m.full && timer >= 0; timer-- {
			connect(member, g, timer)
			if s.reign >= 0 {
				connect(minority, g, timer)
			}
		}
		if s.reign >= 0 {
			connect(deposed, g, 0)
		}
	}
	if m.full && (s.at == member || s.at == minority) && !s.dead {
		n := s
		n.req, n.reply, n.waits = request{what: asConnect}, request{}, false
		m.feed(&n, func(l *Liveness) { l.RecordConnecting(modelNow) })
		step("the client connects to the same member again", n)
	}
}

// server lets the server handle the request.
func (m session) server(s sessionState, step func(string, sessionState)) {
	if s.req.what == 0 || s.waits || s.dead {
		return
	}
	n := s
	answered := true
	switch s.at {
	case leader:
		n.expiry = s.granted
	case deposed:
		answered = s.req.what != asWrite
	default:
		if s.req.what == asConnect { // the leader touches the session, the member does not
			if s.at == member && !s.up {
				n.expiry = s.granted
			}
			answered = !s.up && !s.down
			break
		}
		n.table = s.granted
		answered = s.req.what == asPing || s.at == member && !s.up && !s.down
	}
	if n.waits = !answered; answered {
		n.req, n.reply = request{}, s.req
	}
	step("the server handles the "+requestNames[s.req.what], n)
}

// link has the steps between a member and its leader.
func (m session) link(s sessionState, step func(string, sessionState)) {
	if s.dead {
		return
	}
	ping := func(n sessionState) sessionState { // with the member's reply
		n.timer, n.sinceLeader = int8(m.tick/2), 0
		if !s.up {
			if n.sinceMember = 0; s.table != 0 && s.at == member {
				n.expiry = s.table
			}
		}
		n.table = 0
		return n
	}
	if s.timer <= 0 && !s.down {
		step("the leader pings, the member answers with its table", ping(s))
	}
	cut := func(down, up bool, how string) {
		n := s
		n.down, n.up = s.down || down, s.up || up
		step("CUT "+how, n)
		if s.timer <= 0 && !s.down && n.up {
			p := ping(s)
			p.down, p.up, p.expiry, p.sinceMember = n.down, n.up, s.expiry, s.sinceMember
			step("CUT "+how+", between the leader's ping and the answer", p)
		}
	}
	if whole := !s.down && !s.up; m.calm {
	} else if s.at == member || m.again {
		if whole {
			cut(true, true, "both ways")
		}
		if m.oneWay && !s.down && (whole || m.again) {
			cut(true, false, "from the leader")
		}
		if m.oneWay && !s.up && (whole || m.again) {
			cut(false, true, "to the leader")
		}
	}
	if int(s.sinceLeader) >= m.limit {
		step("the member gives up its leader", m.stop(s))
	}
	if s.up && !s.down && int(s.sinceMember) >= m.limit {
		step("the leader gives up the member", m.stop(s))
	}
}

// stop stops the connection's server. A reply may still be in flight.
func (m session) stop(s sessionState) sessionState {
	s.dead, s.waits, s.req = true, false, request{}
	s.timer, s.sinceLeader, s.sinceMember, s.table, s.down, s.up = 0, 0, 0, 0, false, false
	return s
}

// time has the steps without a cause: a new leader, and the passing of a unit of time unless something is due.
func (m session) time(s sessionState, step func(string, sessionState)) {
	if s.former != 0 {
		n := s
		n.expiry, n.former, n.formerTimer = s.former, 0, 0
		step("the member before reports its table", n)
		n = s
		n.former, n.formerTimer = 0, 0
		step("the member before does not report its table", n)
	}
	if m.alone {
		n := m.stop(s)
		n.expiry = int8(m.timeout)
		step("the server restarts", n)
	} else if s.reign < 0 && !m.calm && (m.full || s.at == leader || s.at == member && !s.dead && !s.down && !s.up) {
		n := s
		n.expiry, n.reign = int8(m.timeout), int8(m.limit+m.tick+m.j)
		if m.reign > 0 {
			n.reign = int8(m.reign)
		}
		switch {
		case s.at == leader:
			n.at = deposed
		case s.at == member && !s.down && !s.up:
			c := n
			c.down, c.up, c.reign = true, true, -1
			step("another leader begins, the old one has stepped down without the member's notice", c)
			n.at = minority
		}
		step("another leader begins, without the old one's notice", n)
	}
	links := (s.at == member || s.at == minority) && !s.dead
	switch {
	case m.slow > 0 && (!s.waits && !s.dead && -s.req.boot >= m.slow || -s.reply.boot >= m.slow),
		links && int(s.sinceLeader) >= m.limit+m.jf,
		links && !s.down && (int(s.timer) <= -m.j || s.up && int(s.sinceMember) >= m.limit+m.j),
		s.former != 0 && int(s.formerTimer) <= -m.j:
		return
	}
	pass := func(asleep bool, what string) {
		n := s
		if links {
			n.sinceLeader++
			if !s.down {
				n.timer--
			}
			if s.up && !s.down {
				n.sinceMember++
			}
		}
		if s.former != 0 {
			n.formerTimer--
		}
		if n.reign >= 0 {
			if n.reign--; n.reign < 0 && (s.at == deposed || s.at == minority) {
				n = m.stop(n)
			}
		}
		n.expiry--
		for _, r := range []*request{&n.req, &n.reply} {
			if r.what != 0 {
				if r.boot--; !asleep {
					r.mono--
				}
			}
		}
		n.live.pass(m, asleep)
		step(what, n)
	}
	pass(false, "a unit of time passes")
	if m.sleep {
		pass(true, "a unit of time passes in which the machine is suspended")
	}
}

// members returns a session at members, with the smallest figures: nothing is late, and syncLimit is half a tick.
func members(name string, timeout int, with func(*session)) session {
	m := session{name: name, timeout: timeout, asked: timeout, tick: 2, limit: 1, report: 1, slow: 1}
	with(&m)
	return m
}

func anywhere(m *session) { m.grants = []int{m.timeout} }

// Only committed writes count.
func TestExploreASessionByWrites(t *testing.T) {
	explore.Test(t, members("writes", 4, func(m *session) { anywhere(m); m.slow = 0 }).model(),
		"a write proves what was sent just before it", "a reconnect counts at once", "time of the answer instead of the request")
	explore.Test(t, members("a machine that is suspended", 4, func(m *session) { anywhere(m); m.sleep = true }).model())
	explore.Test(t, members("late pings, cuts of all kinds", 5, func(m *session) { m.j, m.report, m.oneWay, m.again = 1, 2, true, true }).model())
	explore.Test(t, members("grants", 4, func(m *session) { m.asked, m.grants = 3, []int{4, 3} }).model(),
		"a deposed leader's grant counts")
	explore.Test(t, members("a former member grants less", 5, func(m *session) { m.asked, m.grants, m.calm, m.late = 3, []int{5, 3}, true, true }).model(),
		"a larger grant counts")
}

// Pings count as well, by the bound.
func TestExploreASessionByPings(t *testing.T) {
	explore.Test(t, members("pings and writes", 8, func(m *session) { m.stale = 3 }).model(), "slow pings at rest with the old rule")
	explore.Test(t, members("reconnects", 5, func(m *session) { anywhere(m); m.stale, m.reign = 2, 2 }).model())
}

// A larger set, for a night.
func TestExploreALongerSession(t *testing.T) {
	if os.Getenv("LONG") == "" {
		return
	}
	full := func(stale int, grants ...int) func(*session) {
		return func(m *session) {
			m.full, m.slow, m.stale, m.grants, m.asked = true, 0, stale, grants, slices.Min(grants)
		}
	}
	for _, m := range []session{
		members("all of it, by writes", 6, func(m *session) { full(0, 6)(m); m.limit = 2 }),
		members("all of it, by pings", 6, func(m *session) { full(4, 6)(m); m.limit = 2 }),
		members("all of it, with two grants", 4, full(0, 4, 3)),
		members("reconnects by pings", 6, func(m *session) { anywhere(m); m.stale = 3 }),
		members("reconnects by pings, with two grants", 5, func(m *session) { m.stale, m.reign, m.asked, m.grants = 2, 2, 4, []int{5, 4} }),
		members("all cuts, late pings", 7, func(m *session) { m.j, m.jf, m.limit, m.stale, m.report, m.oneWay, m.slow = 1, 1, 2, 5, 2, true, 2 }),
	} {
		t.Run(m.name, func(t *testing.T) { explore.Test(t, m.model(), "time of the answer instead of the request") })
	}
}

// A standalone server touches the session immediately; it restarts.
func TestExploreASessionAlone(t *testing.T) {
	explore.Test(t, session{timeout: 4, asked: 3, grants: []int{4, 3}, alone: true, sleep: true, slow: 1}.model(),
		"time of the answer instead of the request")
}

// The limits of the assumptions.
func TestExploreASessionBeyondItsAssumptions(t *testing.T) {
	for _, m := range []session{
		members("report is one unit too short", 4, func(m *session) { m.report = 0 }),
		members("stale is one unit too short", 6, func(m *session) { m.stale = 1 }),
		members("a pause of the leader that is one unit longer", 5, func(m *session) { m.j, m.limit = 1, 2 }),
		members("stale is shorter than a deposed leader serves", 6, func(m *session) { anywhere(m); m.stale, m.reign = 2, 3 }),
		members("a server grants less than any before, unseen", 4, func(m *session) { m.grants = []int{4, 3} }),
	} {
		t.Run(m.name, func(t *testing.T) { explore.Finds(t, m.model()) })
	}
}

// The state that pack drops makes no difference: a Liveness that is packed after each event returns the same as one that is
// not.
func TestPackingALivenessChangesNothing(t *testing.T) {
	counted := 0 // how often a reply has raised the counted touch
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := session{timeout: 8, asked: 6, stale: r.IntN(4), report: r.IntN(3), alone: r.IntN(4) == 0}
		var clock, sent Instant // now; when the last request was sent
		live := &Liveness{lowestTimeout: 6 * unit}
		live.Assume(m.servers(false))
		live.RecordConnected(clock, clock, 8*unit, false)
		packed := m.pack(&Liveness{standing: live.standing, servers: live.servers, lowestTimeout: live.lowestTimeout,
			hasCounted: true, countedTouch: modelNow.Boot, lastSent: modelNow.Boot, touchAfterPause: serverTouch{modelNow.Boot, modelNow.Mono},
			touches: [touchSlots]serverTouch{{modelNow.Boot, modelNow.Mono}}, touchCount: 1})
		both := func(f func(l *Liveness, now Instant)) {
			before := live.countedTouch
			f(live, clock)
			if live.countedTouch > before {
				counted++
			}
			l := m.unpack(&packed)
			f(l, modelNow)
			packed = m.pack(l)
		}
		for range 60 {
			switch r.IntN(6) {
			case 0, 1:
				asleep := m.alone && r.IntN(4) == 0
				if clock.Boot += unit; !asleep {
					clock.Mono += unit
				}
				packed.pass(m, asleep)
			case 2:
				granted := time.Duration(6+2*r.IntN(2)) * unit
				both(func(l *Liveness, now Instant) { l.RecordConnecting(now) })
				if sent = clock; r.IntN(3) > 0 {
					both(func(l *Liveness, now Instant) {
						l.RecordConnected(now, now, granted, false)
						if l.Assume(m.servers(false)); m.alone {
							l.Assume(m.servers(true))
						}
					})
				}
			default:
				if live.connecting {
					break
				}
				late := min(time.Duration(r.IntN(3))*unit, clock.Mono-sent.Mono, clock.Boot-sent.Boot)
				sent = Instant{Mono: clock.Mono - late, Boot: clock.Boot - late}
				proof := Proof(r.IntN(2))
				both(func(l *Liveness, now Instant) {
					l.RecordReply(proof, Instant{Mono: now.Mono - late, Boot: now.Boot - late}, now)
				})
			}
			left := live.HoldLeft(clock)
			require.Equal(t, max(left, 0), max(m.unpack(&packed).HoldLeft(modelNow), 0), seed)
			if left <= 0 {
				break // a lapse is final
			}
		}
	}
	require.Greater(t, counted, 3000)
}
