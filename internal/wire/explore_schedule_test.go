package wire

import (
	"os"
	"testing"
	"time"

	"github.com/go-curator/curator/internal/explore"
)

// The client's schedule with the library's own Liveness: a client that does what Rest, Pace, Short and WriteDue require, at
// servers that reply immediately and serve all the time.
//
// Modelled: a session with pings every Rest, or every Pace while there is a hold; a hold that begins at any moment, after
// the writes that Short requires, or ends; the writes that WriteDue requires; with moves, a connection that ends at any
// moment, and the next one. A step of time is the interval of pings during a hold, or a part of it (steps).
//
// Left out: replies that take time, requests that fail, other rules at other servers of one session.
//
// Wrong: a hold is granted with too little time remaining; a hold lapses; writes are due again and again at one moment when
// nothing else happens. Final: a hold begins, from every state.
type schedule struct {
	timeout time.Duration
	servers Servers
	steps   int  // in a ping of a held session
	moves   bool // the client connects to another server at any moment
}

// scheduleState has a Liveness whose instants are relative to now.
type scheduleState struct {
	live   Liveness
	writes int8 // committed at this moment, since anything else has happened
	wrong  string
}

func (m schedule) step() time.Duration {
	ping, _ := m.servers.Pace(m.timeout)
	return ping / time.Duration(m.steps)
}

func (m schedule) now() Instant { return Instant{10 * m.timeout, 10 * m.timeout} }

// pass lets a step of time pass: all instants become older, up to an age beyond which more makes no difference.
func (m schedule) pass(l *Liveness) {
	oldest := m.now().Boot - 3*m.timeout
	older := func(d *time.Duration) { *d = max(*d-m.step(), oldest) }
	older(&l.countedTouch)
	older(&l.lastSent)
	older(&l.attachSent)
	older(&l.connectSent)
	older(&l.unprovenSince)
	older(&l.touchAfterPause.sent)
	older(&l.touchAfterPause.replied)
	older(&l.countsAfter)
	older(&l.lastWrite)
	older(&l.heldSince)
	for i := range l.touchCount {
		older(&l.touches[i].sent)
		older(&l.touches[i].replied)
	}
}

// plain drops state that makes no difference any more.
func (m schedule) plain(l *Liveness) {
	clear(l.touches[l.touchCount:])
	if !l.connecting {
		l.connectSent = 0
	}
	if !l.timeoutUnproven {
		l.unprovenSince = 0
	}
	if !l.attachUnproven && !l.timeoutUnproven {
		l.attachSent = 0
	}
	if l.holds == 0 {
		l.heldSince = 0
	}
	if l.touchAfterPause.sent <= l.countedTouch {
		l.touchAfterPause, l.countsAfter = serverTouch{sent: l.countedTouch}, 0
	}
}

// connect begins a connection, to a server that reveals its kind immediately.
func (m schedule) connect(l *Liveness) {
	l.RecordConnecting(m.now())
	member := m.servers
	member.Standalone = false
	l.Assume(member)
	l.RecordConnected(m.now(), m.now(), m.timeout, false)
	if m.servers.Standalone {
		l.RecordVerdict(Standalone)
	} else {
		l.RecordVerdict(Member)
	}
	l.Assume(m.servers)
}

func (m schedule) model() explore.Model[scheduleState] {
	s := scheduleState{live: Liveness{lowestTimeout: m.timeout}}
	m.connect(&s.live)
	m.plain(&s.live)
	return explore.Model[scheduleState]{
		Start: []scheduleState{s}, Next: m.next, Most: 2_000_000, // a Liveness is large
		Wrong: func(s scheduleState) string { return s.wrong },
		Final: func(s scheduleState) bool { return s.live.holds > 0 },
	}
}

func (m schedule) next(s scheduleState, step func(string, scheduleState)) {
	now := m.now()
	then := func(what string, s scheduleState) {
		if s.wrong == "" && s.live.holds > 0 && s.live.SessionLeft(now) <= 0 {
			s.wrong = "the hold lapses"
		}
		m.plain(&s.live)
		step(what, s)
	}
	write := func(what string) {
		n := s
		n.live.RecordReply(Committed, now, now)
		if n.writes++; n.writes > 1 {
			n.wrong = "a write is due again at the moment of the last one"
		}
		then(what, n)
	}
	if in, due := s.live.WriteDue(now); due && in <= 0 {
		write("a write that is due")
		return
	}
	pace := m.servers.Rest(m.timeout)
	if s.live.holds > 0 {
		pace, _ = m.servers.Pace(m.timeout)
	}
	if now.Boot-s.live.lastSent >= pace {
		n := s
		n.live.RecordReply(Local, now, now)
		n.writes = 0
		then("a ping", n)
		return
	}
	if s.live.holds > 0 {
		n := s
		n.live.AddHolds(-1, now)
		n.writes = 0
		then("the hold ends", n)
	} else {
		wait, short := s.live.Short(now)
		n := s
		switch {
		case !short:
			if n.live.AddHolds(1, now); n.live.HoldLeft(now) < n.live.minHoldTime() {
				n.wrong = "a hold is granted with too little left"
			}
			n.writes = 0
			then("a hold begins", n)
		case wait <= 0:
			write("a write before a hold")
		}
	}
	if m.moves {
		n := s
		m.connect(&n.live)
		n.writes = 0
		then("the client connects to another server", n)
	}
	n := s
	m.pass(&n.live)
	n.writes = 0
	then("time passes", n)
}

func TestExploreTheSchedule(t *testing.T) {
	const tick = 2 * s
	models := []schedule{
		{timeout: 4 * s, servers: usual(4*s, tick, 5), steps: 1, moves: true}, // only writes count
		{timeout: 10 * s, servers: usual(10*s, tick, 5), steps: 1, moves: true},
		{timeout: 10 * s, servers: usual(10*s, s/2, 5), steps: 1},
		{timeout: 40 * s, servers: usual(40*s, tick, 5), steps: 1},
		{timeout: 120 * s, servers: usual(120*s, tick, 5), steps: 1, moves: true},
		{timeout: 120 * s, servers: usual(120*s, tick, 5), steps: 2},
	}
	if os.Getenv("LONG") != "" {
		models = append(models, []schedule{
			{timeout: 40 * s, servers: usual(40*s, tick, 5), steps: 2},
			{timeout: 120 * s, servers: usual(120*s, tick, 5), steps: 4},
		}...)
	}
	for _, m := range models {
		bugs := []string{"a hold begins with little left"}
		if m.servers.Stale > 0 { // else no write is due for the touches that the write before the hold has proved
			bugs = append(bugs, "a write is due until it counts")
		}
		explore.Test(t, m.model(), bugs...)
	}
	explore.Test(t, schedule{timeout: 10 * s, servers: Servers{Standalone: true, Margin: s}, steps: 2, moves: true}.model())
}
