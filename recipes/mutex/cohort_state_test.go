package mutex

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/golden"
)

func TestNextStateOfACohort(t *testing.T) {
	var (
		now   = time.Unix(1000, 0)
		plain = limits{turns: 2, howLong: time.Second}
		kept  = limits{turns: 2, howLong: time.Second, idle: time.Minute}
		none  = facts{valid: true, now: now}
		one   = facts{waiting: 1, valid: true, now: now}
		over  = facts{waiting: 1, valid: false, now: now}
		late  = facts{waiting: 1, valid: true, now: now.Add(time.Second)}
		just  = facts{waiting: 1, now: now.Add(time.Second - 1)}
		lose  = facts{waiting: 1, now: now, grace: time.Second}
	)
	held := func(turns int, w who) state { return state{phase: taken, turns: turns, began: now, others: w} }
	idle := func(turns int, w who) state {
		return state{phase: free, turns: turns, began: now, idle: now, others: w}
	}
	with := func(s state, change func(*state)) state { change(&s); return s }
	phase := func(p phase) func(*state) { return func(s *state) { s.phase = p } }
	ended := with(held(1, unknown), func(s *state) { s.phase, s.until = ending, now.Add(time.Second) })
	stale := with(idle(1, unknown), func(s *state) { s.stale = true })
	for _, c := range []struct {
		what  string
		l     limits
		from  state
		event event
		facts facts
		to    state
		does  action
	}{
		{"the first caller", plain, state{}, onArrival, one, state{phase: coming}, start},
		{
			"a caller while the node is in line", plain, state{phase: coming}, onArrival, one,
			state{phase: coming}, nothing,
		},
		{"a caller while another has a turn", plain, held(1, unknown), onArrival, one, held(1, unknown), nothing},
		{
			"a caller while the node is given back", plain, state{phase: going}, onArrival, one,
			state{phase: going}, nothing,
		},
		{"a caller takes what is kept", kept, idle(1, nobody), onArrival, one, held(2, nobody).at(now), pass},
		{"it is lost", kept, idle(1, nobody), onArrival, over, with(idle(1, nobody), phase(going)), end},
		{"reconnected, and not listed", kept, stale, onArrival, one, stale, nothing},
		{"reconnected, and lost", kept, stale, onArrival, over, with(stale, phase(going)), end},
		{"not the last one leaves", plain, state{phase: coming}, onLeave, one, state{phase: coming}, nothing},
		{"the last one leaves", plain, state{phase: coming}, onLeave, none, state{phase: coming}, stop},
		{"one leaves while another has a turn", plain, held(1, unknown), onLeave, none, held(1, unknown), nothing},
		{"the grant", plain, state{phase: coming}, onGrant, one, held(1, unknown), pass},
		{
			"the grant that nobody wants", plain, state{phase: coming}, onGrant, none,
			state{phase: going, began: now}, end,
		},
		{"the grant that nobody wants, kept", kept, state{phase: coming}, onGrant, none, idle(0, unknown), nothing},
		{"a failure", plain, state{phase: coming}, onFailure, none, state{}, nothing},
		{
			"a failure, and somebody came", plain, state{phase: coming}, onFailure, one,
			state{phase: coming}, nothing,
		},
		{"passed on", plain, held(1, unknown), onRelease, one, held(2, unknown), pass},
		{"the last turn", plain, held(2, unknown), onRelease, one, with(held(2, unknown), phase(going)), end},
		{"the time is over", plain, held(1, unknown), onRelease, late, with(held(1, unknown), phase(going)), end},
		{"nobody is next", plain, held(1, unknown), onRelease, none, with(held(1, unknown), phase(going)), end},
		{"lost", plain, held(1, unknown), onRelease, over, with(held(1, unknown), phase(going)), end},
		{"asked for", plain, with(held(1, unknown), func(s *state) { s.asked = true }), onRelease, one,
			with(held(1, unknown), func(s *state) { s.asked, s.phase = true, going }), end},
		{"nobody is next, kept", kept, held(1, nobody), onRelease, none, idle(1, nobody), nothing},
		{"nobody is next, others not known", kept, held(1, unknown), onRelease, none, idle(1, unknown), nothing},
		{
			"nobody is next, others wait", kept, held(1, others), onRelease, none,
			with(held(1, others), phase(going)), end,
		},
		{"the last turn, and nobody else wants it", kept, held(2, nobody), onRelease, one, held(1, nobody), pass},
		{
			"the last turn, others not known", kept, held(2, unknown), onRelease, one,
			with(held(2, unknown), phase(going)), end,
		},
		{"passed on, others wait", kept, held(1, others), onRelease, one, held(2, others), pass},
		{"the loss", plain, held(1, unknown), onLoss, one, with(held(1, unknown), phase(going)), end},
		{"the loss in a session that goes on", plain, held(1, unknown), onLoss, lose, ended, nothing},
		{"the user has stopped", plain, ended, onRelease, over, with(ended, phase(going)), end},
		{"the user has time to stop", plain, ended, onTick, just, ended, nothing},
		{"the user has had time to stop", plain, ended, onTick, late, with(ended, phase(going)), end},
		{"a caller while a user has time to stop", plain, ended, onArrival, one, ended, nothing},
		{"the session ends meanwhile", plain, ended, onLoss, one, with(ended, phase(going)), end},
		{"the loss of what is kept, in a session that goes on", kept, idle(1, nobody), onLoss, lose,
			with(idle(1, nobody), phase(going)), end},
		{"the loss of what is kept", kept, idle(1, nobody), onLoss, none, with(idle(1, nobody), phase(going)), end},
		{"the loss of what is given back", plain, state{phase: going}, onLoss, one, state{phase: going}, nothing},
		{"nobody else", kept, held(1, unknown), onAlone, none, held(1, nobody), nothing},
		{"nobody else, and one waits for that", kept, stale, onAlone, one, held(2, nobody).at(now), pass},
		{"somebody comes during a turn", kept, held(1, nobody), onSought, none, held(1, others), nothing},
		{"somebody comes for what is kept", kept, idle(1, nobody), onSought, none,
			with(idle(1, others), phase(going)), end},
		{"reconnected", kept, idle(1, nobody), onReconnect, none, stale, look},
		{"reconnected, and others wait", kept, idle(1, others), onReconnect, none, idle(1, others), look},
		{"asked for during a turn", plain, held(1, unknown), onAsked, none,
			with(held(1, unknown), func(s *state) { s.asked = true }), nothing},
		{"what is kept is asked for", kept, idle(1, nobody), onAsked, none,
			with(idle(1, nobody), func(s *state) { s.asked, s.phase = true, going }), end},
		{"not idle for long", kept, idle(1, nobody), onTick, late, idle(1, nobody), nothing},
		{"idle for too long", kept, idle(1, nobody), onTick, facts{now: now.Add(time.Minute)},
			with(idle(1, nobody), phase(going)), end},
		{
			"no idle time during a turn", kept, held(1, nobody), onTick, facts{now: now.Add(time.Hour)},
			held(1, nobody), nothing,
		},
		{"gone", plain, state{phase: going, turns: 2}, onGone, none, state{}, nothing},
		{
			"gone, and others wait", plain, state{phase: going, turns: 2, asked: true}, onGone, one,
			state{phase: coming}, nothing,
		},
	} {
		to, does := c.l.next(c.from, c.event, c.facts)
		require.Equal(t, c.to, to, c.what)
		require.Equal(t, c.does, does, c.what)
	}
}

// at is the state with the time since when it was free, which nobody asks for then.
func (s state) at(idle time.Time) state {
	s.idle = idle
	return s
}

// Whatever happens: a turn passes only with a valid hold, to somebody who waits, when nobody has one; nobody
// has more than his share while others may wait; nothing is kept from those who are known; and what is kept
// after a reconnect is not used before a list.
func FuzzNextStateOfACohort(f *testing.F) {
	f.Add([]byte{0, 1, 2, 1, 4, 1, 4, 0, 6, 0}, true)
	f.Add([]byte{0, 1, 2, 1, 4, 0, 8, 0, 0, 1}, false)
	f.Fuzz(func(t *testing.T, script []byte, keep bool) {
		l := limits{turns: 3, howLong: 10 * time.Second}
		if keep {
			l.idle = 20 * time.Second
		}
		s, now := state{}, time.Unix(0, 0)
		turns, since := 0, now // of this node while others may wait
		for len(script) > 1 {
			e, b := event(script[0]%12), script[1]
			script = script[2:]
			f := facts{waiting: int(b & 3), valid: b&4 == 0, now: now.Add(time.Duration(b>>3) * time.Second)}
			now = f.now
			if e == onArrival {
				f.waiting++
			}
			if e == onLoss {
				f.grace = time.Duration(b>>3) * time.Second
			}
			if !happens(e, s.phase, l.idle > 0) {
				continue
			}
			before := s
			var does action
			s, does = l.next(s, e, f)
			if e == onGrant || does == pass && (before.others == nobody || e == onAlone) {
				turns, since = 0, now
			}
			switch {
			case does == pass:
				require.True(t, f.valid && f.waiting > 0 && s.phase == taken && !s.asked)
				require.True(t, before.phase != taken || e == onRelease, "two turns at a time")
				require.NotEqual(t, ending, before.phase, "a turn with what is lost")
				require.False(t, before.stale && before.phase == free && e == onArrival, "not listed after a reconnect")
				turns++
				require.LessOrEqual(t, turns, l.turns)
				require.Less(t, now.Sub(since), l.howLong)
			case s.phase == free:
				require.True(t, l.idle > 0 && s.others != others && !s.asked)
			case does == start:
				require.Equal(t, away, before.phase)
			case s.phase == away:
				require.Zero(t, f.waiting*b2i(e == onFailure || e == onGone), "somebody is forgotten")
			}
			require.Equal(t, does == end, before.phase != going && s.phase == going)
		}
	})
}

// happens reports whether an event can happen in a phase.
func happens(e event, p phase, kept bool) bool {
	switch e {
	case onGrant, onFailure:
		return p == coming
	case onGone:
		return p == going
	case onAlone, onSought:
		return kept && (p == free || p == taken)
	case onReconnect:
		return kept && p == free
	}
	return true
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// What a Cohort does about each event, in every state, with two turns a node; and what the owner of the node has to do.
func TestDecisionsOfACohort(t *testing.T) {
	phases, whos := strings.Fields("away coming free taken ending going"), strings.Fields("unknown nobody others")
	events := strings.Fields("onArrival onLeave onGrant onFailure onRelease onLoss onAlone onSought onReconnect onAsked onTick onGone")
	actions := strings.Fields("nothing start stop pass look end")
	began := time.Unix(1000, 0)
	idle, until := began.Add(time.Second), began.Add(5*time.Second)
	times := []struct {
		name string
		now  time.Time
	}{{"early", began.Add(4 * time.Second)}, {"over", began.Add(5 * time.Second)}, {"later", began.Add(11 * time.Second)}}
	var table golden.Table
	for _, kept := range []bool{false, true} {
		l := limits{turns: 2, howLong: 5 * time.Second}
		if kept {
			l.idle = 10 * time.Second
		}
		for p, where := range phases {
			for w, others := range whos {
				from := state{phase: phase(p), began: began, idle: idle, until: until, others: who(w)}
				for n := range 4 {
					table.Row("owner", actions[l.duty(from, n&1 > 0, n&2 > 0)], "given", n&2 > 0, "giving", n&1 > 0, "", where,
						"kept", kept, "others", others)
				}
				for e, on := range events {
					if !happens(event(e), from.phase, kept) {
						continue
					}
					for n := range 2 * 2 * 3 * 3 * 2 * 2 * 3 {
						next := func(of int) int { v := n % of; n /= of; return v }
						from.stale, from.asked, from.turns = next(2) == 1, next(2) == 1, next(3)
						f := facts{waiting: next(3), valid: next(2) == 1}
						if next(2) == 1 {
							f.grace = time.Second
						}
						at := times[next(3)]
						f.now = at.now
						to, does := l.next(from, event(e), f)
						table.Row(where+", "+on, actions[does]+changed(from, to, f, phases, whos),
							"kept", kept, "waiting", f.waiting, "valid", f.valid, "others", others, "asked", from.asked,
							"stale", from.stale, "grace", f.grace > 0, "time", at.name, "turns", from.turns)
					}
				}
			}
		}
	}
	table.Compare(t, "cohort")
}

// changed returns in what a state differs from that before it.
func changed(from, to state, f facts, phases, whos []string) (text string) {
	switch to {
	case from:
		return ""
	case state{phase: to.phase}:
		return ", " + phases[to.phase] + " anew"
	}
	base := from
	if to.began.Equal(f.now) && to.until.IsZero() { // of a grant
		base, text = state{began: f.now}, " of a new node"
	}
	if to.phase != base.phase {
		text = ", " + phases[to.phase] + text
	}
	if to.turns != base.turns {
		text += fmt.Sprintf(", turn %d", to.turns)
	}
	if !to.began.Equal(base.began) {
		text += ", began now"
	}
	if !to.idle.Equal(base.idle) {
		text += ", idle since now"
	}
	if !to.until.Equal(base.until) {
		text += fmt.Sprintf(", until %v", to.until.Sub(f.now))
	}
	if to.others != base.others {
		text += ", others " + whos[to.others]
	}
	if to.stale != base.stale {
		text += fmt.Sprintf(", stale %v", to.stale)
	}
	if to.asked != base.asked {
		text += fmt.Sprintf(", asked %v", to.asked)
	}
	return text
}
