package line

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/golden"
)

func TestNextStateOfAFront(t *testing.T) {
	var (
		now   = time.Unix(1000, 0)
		plain = Limits{Users: 1, Turns: 2, Period: time.Second}
		kept  = Limits{Users: 1, Turns: 2, Period: time.Second, Idle: time.Minute}
		any   = Limits{Turns: 2, Period: time.Second}
		none  = frontFacts{valid: true, now: now}
		one   = frontFacts{waiting: 1, valid: true, now: now}
		three = frontFacts{waiting: 3, valid: true, now: now}
		tries = frontFacts{waiting: 1, try: true, valid: true, now: now}
		later = frontFacts{waiting: 2, try: true, valid: true, now: now}
		over  = frontFacts{waiting: 1, now: now}
		late  = frontFacts{waiting: 1, valid: true, now: now.Add(time.Second)}
		just  = frontFacts{waiting: 1, valid: true, now: now.Add(time.Second - 1)}
		lose  = frontFacts{waiting: 1, now: now, grace: time.Second}
	)
	phase := func(p frontPhase) frontState { return frontState{phase: p} }
	with := func(s frontState, change func(*frontState)) frontState { change(&s); return s }
	held := func(turns int, o frontOthers) frontState {
		return frontState{phase: nodeFull, users: 1, turns: turns, grantedAt: now, others: o}
	}
	idle := func(turns int, o frontOthers) frontState {
		return frontState{phase: nodeFree, turns: turns, grantedAt: now, idleSince: now, others: o}
	}
	shared := func(users, turns int) frontState {
		return frontState{phase: nodeFree, users: users, turns: turns, grantedAt: now}
	}
	leaving := func(s frontState) frontState { s.phase, s.users = nodeEnding, 0; return s }
	at := func(s frontState) frontState { s.idleSince = now; return s }
	behind := frontState{phase: nodeComing, others: othersSome}
	ended := with(held(1, othersUnknown), func(s *frontState) { s.deleteAt = now.Add(time.Second) })
	stale := with(idle(1, othersUnknown), func(s *frontState) { s.unlisted = true })
	asked := func(s frontState) frontState { s.revoked = true; return s }
	for _, c := range []struct {
		what  string
		l     Limits
		from  frontState
		event frontEvent
		facts frontFacts
		to    frontState
		does  frontAction
	}{
		{"the first caller", plain, phase(nodeNone), onArrival, one, phase(nodeComing), startOwner},
		{"a caller while the node is in line", plain, phase(nodeComing), onArrival, one, phase(nodeComing), doNothing},
		{"a caller while another has a turn", plain, held(1, othersUnknown), onArrival, one, held(1, othersUnknown), doNothing},
		{"a caller while the node is deleted", plain, phase(nodeEnding), onArrival, one, phase(nodeEnding), doNothing},
		{"a caller gets what is kept", kept, idle(1, othersNone), onArrival, one, at(held(2, othersNone)), serveCallers},
		{"it is lost", kept, idle(1, othersNone), onArrival, over, leaving(idle(1, othersNone)), retireNode},
		{"reconnected, and not listed", kept, stale, onArrival, one, stale, doNothing},
		{"reconnected, and lost", kept, stale, onArrival, over, leaving(stale), retireNode},
		{"a try while another has a turn", plain, held(1, othersUnknown), onArrival, tries, held(1, othersUnknown), refuseTries},
		{"a try while another waits", plain, phase(nodeComing), onArrival, later, phase(nodeComing), refuseTries},
		{"a try while the node is deleted", plain, phase(nodeEnding), onArrival, tries, phase(nodeEnding), doNothing},
		{"a try while a user has time to stop", plain, ended, onArrival, tries, ended, refuseTries},
		{"not the last one gives up", plain, phase(nodeComing), onGiveUp, one, phase(nodeComing), doNothing},
		{"the last one gives up", plain, phase(nodeComing), onGiveUp, none, phase(nodeComing), stopOwner},
		{"one gives up while another has a turn", plain, held(1, othersUnknown), onGiveUp, none, held(1, othersUnknown), doNothing},
		{"the grant", plain, phase(nodeComing), onGrant, three, held(1, othersUnknown), serveCallers},
		{"the grant that no caller wants", plain, phase(nodeComing), onGrant, none, frontState{phase: nodeEnding, grantedAt: now}, retireNode},
		{"the grant that no caller wants, kept", kept, phase(nodeComing), onGrant, none, idle(0, othersUnknown), doNothing},
		{"the grant that is lost already", any, phase(nodeComing), onGrant, over, frontState{phase: nodeEnding, grantedAt: now}, retireNode},
		{"a failure", plain, phase(nodeComing), onFailure, none, phase(nodeNone), doNothing},
		{"a failure, and another came", plain, phase(nodeComing), onFailure, one, phase(nodeComing), startOwner},
		{"passed on", plain, held(1, othersUnknown), onRelease, one, held(2, othersUnknown), serveCallers},
		{"the last turn", plain, held(2, othersUnknown), onRelease, one, leaving(held(2, othersUnknown)), retireNode},
		{"the time is over", plain, held(1, othersUnknown), onRelease, late, leaving(held(1, othersUnknown)), retireNode},
		{"no caller is next", plain, held(1, othersUnknown), onRelease, none, leaving(held(1, othersUnknown)), retireNode},
		{"lost", plain, held(1, othersUnknown), onRelease, over, leaving(held(1, othersUnknown)), retireNode},
		{"asked for", plain, asked(held(1, othersUnknown)), onRelease, one, asked(leaving(held(1, othersUnknown))), retireNode},
		{"no caller is next, kept", kept, held(1, othersNone), onRelease, none, idle(1, othersNone), doNothing},
		{"no caller is next, others not known", kept, held(1, othersUnknown), onRelease, none, idle(1, othersUnknown), doNothing},
		{"no caller is next, others wait", kept, held(1, othersSome), onRelease, none, leaving(held(1, othersSome)), retireNode},
		{"the last turn, and no other contender", kept, held(2, othersNone), onRelease, one, held(1, othersNone), serveCallers},
		{"the last turn, others not known", kept, held(2, othersUnknown), onRelease, one, leaving(held(2, othersUnknown)), retireNode},
		{"passed on, others wait", kept, held(1, othersSome), onRelease, one, held(2, othersSome), serveCallers},
		{"the loss", plain, held(1, othersUnknown), onLoss, one, leaving(held(1, othersUnknown)), retireNode},
		{"the loss in a session that continues", plain, held(1, othersUnknown), onLoss, lose, ended, doNothing},
		{"the user has stopped", plain, ended, onRelease, over, leaving(ended), retireNode},
		{"the user has time to stop", plain, ended, onTimer, just, ended, doNothing},
		{"the user has had time to stop", plain, ended, onTimer, late, leaving(ended), retireNode},
		{"a caller while a user has time to stop", plain, ended, onArrival, one, ended, doNothing},
		{"the session ends meanwhile", plain, ended, onLoss, one, leaving(ended), retireNode},
		{"the loss of what is kept, in a session that continues", kept, idle(1, othersNone), onLoss, lose, leaving(idle(1, othersNone)), retireNode},
		{"the loss of what is kept", kept, idle(1, othersNone), onLoss, none, leaving(idle(1, othersNone)), retireNode},
		{"the loss of what is deleted", plain, phase(nodeEnding), onLoss, one, phase(nodeEnding), doNothing},
		{"no other contender", kept, held(1, othersUnknown), onAlone, none, held(1, othersNone), doNothing},
		{"no other contender, and one waits for that", kept, stale, onAlone, one, at(held(2, othersNone)), serveCallers},
		{"another comes during a turn", kept, held(1, othersNone), onOthers, none, held(1, othersSome), doNothing},
		{"another comes for what is kept", kept, idle(1, othersNone), onOthers, none, leaving(idle(1, othersSome)), retireNode},
		{"reconnected", kept, idle(1, othersNone), onReconnect, none, stale, listContenders},
		{"reconnected, and others wait", kept, idle(1, othersSome), onReconnect, none, idle(1, othersSome), listContenders},
		{"asked for during a turn", plain, held(1, othersUnknown), onRevocation, none, asked(held(1, othersUnknown)), doNothing},
		{"what is kept is asked for", kept, idle(1, othersNone), onRevocation, none, asked(leaving(idle(1, othersNone))), retireNode},
		{"not idle for long", kept, idle(1, othersNone), onTimer, late, idle(1, othersNone), doNothing},
		{"idle for too long", kept, idle(1, othersNone), onTimer, frontFacts{now: now.Add(time.Minute)}, leaving(idle(1, othersNone)), retireNode},
		{"no idle time during a turn", kept, held(1, othersNone), onTimer, frontFacts{now: now.Add(time.Hour)}, held(1, othersNone), doNothing},
		{"deleted", plain, leaving(held(2, othersUnknown)), onDeletion, none, phase(nodeNone), doNothing},
		{"deleted, and others wait", plain, asked(leaving(held(2, othersUnknown))), onDeletion, one, phase(nodeComing), startOwner},

		{"the grant for all", any, phase(nodeComing), onGrant, three, shared(3, 0), serveCallers},
		{"it waits behind a writer", any, phase(nodeComing), onOthers, three, behind, refuseTries},
		{"a try behind a writer", any, behind, onArrival, later, behind, refuseTries},
		{"a try while the node is in line", any, phase(nodeComing), onArrival, later, phase(nodeComing), doNothing},
		{"one joins", any, shared(3, 0), onArrival, one, shared(4, 1), serveCallers},
		{"a try joins", any, shared(3, 0), onArrival, tries, shared(4, 1), serveCallers},
		{"the last that may", any, shared(1, 1), onArrival, just, shared(2, 2), serveCallers},
		{"one too many", any, shared(4, 2), onArrival, one, phase(nodeComing), retireNode},
		{"one too late", any, shared(1, 0), onArrival, late, phase(nodeComing), retireNode},
		{"one after a loss", any, shared(1, 0), onArrival, over, phase(nodeComing), retireNode},
		{"one after a request", any, asked(shared(1, 0)), onArrival, one, phase(nodeComing), retireNode},
		{"asked for while some read", any, shared(1, 0), onRevocation, none, asked(shared(1, 0)), doNothing},
		{"not the last one is done", any, shared(2, 2), onRelease, none, shared(1, 2), doNothing},
		{"the last one is done", any, shared(1, 0), onRelease, none, phase(nodeNone), retireNode},
	} {
		to, does := c.l.next(c.from, c.event, c.facts)
		require.Equal(t, c.to, to, c.what)
		require.Equal(t, c.does, does, c.what)
	}
}

// For any events: a turn begins only with a valid hold, for a waiting caller; a node with a limit has no more users; no user gets
// more than its share while others may wait; nothing is kept from known contenders; a kept node is not used after a reconnect
// before a list; and no waiting caller is forgotten.
func FuzzNextStateOfAFront(f *testing.F) {
	f.Add([]byte{0, 1, 2, 1, 4, 1, 4, 0, 6, 0}, true, false)
	f.Add([]byte{0, 1, 2, 1, 4, 0, 8, 0, 0, 1}, false, false)
	f.Add([]byte{0, 0, 0, 0, 2, 3, 0, 0, 4, 0, 4, 0, 4, 0}, false, true)
	f.Fuzz(func(t *testing.T, script []byte, keep, together bool) {
		l := Limits{Users: 1, Turns: 3, Period: 10 * time.Second}
		switch {
		case together:
			l.Users = 0
		case keep:
			l.Idle = 20 * time.Second
		}
		s, now := frontState{}, time.Unix(0, 0)
		turns, since := 0, now // of this node while others may wait
		for ; len(script) > 1; script = script[2:] {
			e, b := frontEvent(script[0]%12), script[1]
			x := frontFacts{waiting: int(b & 3), valid: b&4 == 0, now: now.Add(time.Duration(b>>3) * time.Second)}
			now = x.now
			switch e {
			case onArrival:
				x.waiting++
				x.try = b&8 != 0
			case onLoss:
				x.grace = time.Duration(b>>3) * time.Second
			}
			if !happens(e, s, l) || together && s.phase == nodeFree && x.waiting > 1 {
				continue
			}
			before := s
			var does frontAction
			s, does = l.next(s, e, x)
			if e == onGrant || does == serveCallers && (before.others == othersNone || e == onAlone) {
				turns, since = 0, now
			}
			switch {
			case does == serveCallers:
				require.True(t, x.valid && x.waiting > 0 && !s.revoked)
				require.True(t, before.deleteAt.IsZero(), "a turn with what is lost")
				require.False(t, before.unlisted && before.phase == nodeFree && e == onArrival, "not listed after a reconnect")
				require.Less(t, now.Sub(since), l.Period)
				if together && e == onGrant {
					require.Equal(t, x.waiting, s.users)
					break
				}
				require.True(t, together || s.phase == nodeFull && (before.phase != nodeFull || e == onRelease), "two turns at a time")
				turns++
				require.LessOrEqual(t, turns, l.Turns)
			case s.phase == nodeFree && s.users == 0:
				require.True(t, l.Idle > 0 && s.others != othersSome && !s.revoked)
			case does == startOwner:
				require.True(t, before.phase == nodeNone || x.waiting > 0 && (e == onFailure || e == onDeletion))
			case does == refuseTries:
				require.True(t, x.try || e == onOthers)
			case s.phase == nodeNone && before.phase != nodeNone:
				require.Zero(t, x.waiting, "a caller is forgotten")
			}
			require.LessOrEqual(t, s.users*l.Users, 1)
			require.Equal(t, s.phase == nodeFull, l.Users == 1 && s.users == 1)
			if does == retireNode {
				require.True(t, s.phase == nodeEnding || together && before.users > 0)
			} else {
				require.Equal(t, before.phase == nodeEnding && e != onDeletion, s.phase == nodeEnding)
			}
		}
	})
}

// happens reports whether an event can happen in a state.
func happens(e frontEvent, s frontState, l Limits) bool {
	switch e {
	case onGrant, onFailure:
		return s.phase == nodeComing
	case onDeletion:
		return s.phase == nodeEnding
	case onAlone:
		return l.Idle > 0 && (s.phase == nodeFree || s.phase == nodeFull)
	case onOthers:
		return l.Idle > 0 && (s.phase == nodeFree || s.phase == nodeFull) || s.phase == nodeComing
	case onReconnect:
		return l.Idle > 0 && s.phase == nodeFree
	case onLoss, onTimer:
		return l.Users > 0
	}
	return true
}

// oldCohort is a state in the words of the golden table, which has a phase for a node that is lost during a turn.
type oldCohort struct {
	phase              string
	turns              int
	began, idle, until time.Time
	others             frontOthers
	stale, asked       bool
}

// now returns the state of a Front.
func (c oldCohort) now() frontState {
	s := frontState{turns: c.turns, grantedAt: c.began, idleSince: c.idle, others: c.others, unlisted: c.stale, revoked: c.asked}
	switch c.phase {
	case "coming":
		s.phase = nodeComing
	case "free":
		s.phase = nodeFree
	case "going":
		s.phase = nodeEnding
	case "ending":
		s.deleteAt = c.until
		fallthrough
	case "taken":
		s.phase, s.users = nodeFull, 1
	}
	return s
}

// after returns the state that follows c.
func (c oldCohort) after(s frontState, e frontEvent) oldCohort {
	to := oldCohort{
		phase: strings.Fields("away coming free taken going")[s.phase], turns: s.turns, began: s.grantedAt, idle: s.idleSince,
		others: s.others, stale: s.unlisted, asked: s.revoked,
	}
	switch {
	case s.phase == nodeFull && !s.deleteAt.IsZero():
		to.phase, to.until = "ending", s.deleteAt
	case e != onGrant && e != onFailure && e != onDeletion:
		to.until = c.until // it has no meaning
	}
	return to
}

// The actions of a Cohort's Front for each event, in each state, with two turns per node; and the actions of the node's owner.
func TestDecisionsOfACohort(t *testing.T) {
	phases, whos := strings.Fields("away coming free taken ending going"), strings.Fields("unknown none others")
	events := strings.Fields("onArrival onGiveUp onGrant onFailure onRelease onLoss onAlone onOthers onReconnect onRevocation onTimer onDeletion")
	actions := strings.Fields("doNothing startOwner stopOwner serveCallers listContenders retireNode refuseTries")
	began := time.Unix(1000, 0)
	idle, until := began.Add(time.Second), began.Add(5*time.Second)
	times := []struct {
		name string
		now  time.Time
	}{{"early", began.Add(4 * time.Second)}, {"over", began.Add(5 * time.Second)}, {"later", began.Add(11 * time.Second)}}
	var table golden.Table
	for _, kept := range []bool{false, true} {
		l := Limits{Users: 1, Turns: 2, Period: 5 * time.Second}
		if kept {
			l.Idle = 10 * time.Second
		}
		for _, where := range phases {
			for w, others := range whos {
				from := oldCohort{phase: where, began: began, idle: idle, until: until, others: frontOthers(w)}
				for n := range 4 {
					does := l.ownerAction(from.now(), n&1 > 0, n&2 > 0)
					table.Row("owner", actions[does], "given", n&2 > 0, "giving", n&1 > 0, "", where, "kept", kept, "others", others)
				}
				for waiting := range 3 {
					if where == "coming" && frontOthers(w) != othersUnknown {
						continue
					}
					_, does := l.next(from.now(), onArrival, frontFacts{waiting: waiting + 1, try: true, valid: true, now: began})
					table.Row("a try", fmt.Sprint("refused ", does == refuseTries), "", where, "ahead in line", waiting, "kept", kept, "others", others)
				}
				for e, on := range events {
					if e := frontEvent(e); !happens(e, from.now(), l) || where == "ending" && (e == onAlone || e == onOthers) ||
						where == "coming" && e == onOthers {
						continue
					}
					for n := range 2 * 2 * 3 * 3 * 2 * 2 * 3 {
						next := func(of int) int { v := n % of; n /= of; return v }
						from.stale, from.asked, from.turns = next(2) == 1, next(2) == 1, next(3)
						x := frontFacts{waiting: next(3), valid: next(2) == 1}
						if next(2) == 1 {
							x.grace = time.Second
						}
						at := times[next(3)]
						x.now = at.now
						s, does := l.next(from.now(), frontEvent(e), x)
						if on == "onFailure" || on == "onDeletion" {
							does = doNothing // the owner continued
						}
						to := from.after(s, frontEvent(e))
						table.Row(where+", "+on, actions[does]+cohortChanges(from, to, x, whos),
							"kept", kept, "waiting", x.waiting, "valid", x.valid, "others", others, "asked", from.asked,
							"stale", from.stale, "grace", x.grace > 0, "time", at.name, "turns", from.turns)
					}
				}
			}
		}
	}
	table.Compare(t, "cohort")
}

// cohortChanges returns the differences between a state and the one before.
func cohortChanges(from, to oldCohort, x frontFacts, whos []string) (text string) {
	switch to {
	case from:
		return ""
	case oldCohort{phase: to.phase}:
		return ", " + to.phase + " again"
	}
	base := from
	if to.began.Equal(x.now) && to.until.IsZero() { // after a grant
		base, text = oldCohort{began: x.now}, " of a new node"
	}
	if to.phase != base.phase {
		text = ", " + to.phase + text
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
		text += fmt.Sprintf(", until %v", to.until.Sub(x.now))
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

// The actions of Readers' Front for each event, in the words of the golden table: for a node that is in line; that holds, and is
// open to more readers or closed; and that is lost or released; with bounds of two.
func TestDecisionsOfReaders(t *testing.T) {
	events := strings.Fields("onArrival onTry onGrant onFailure onLeave")
	l, now := Limits{Turns: 2, Period: time.Second}, time.Unix(1000, 0)
	var table golden.Table
	for _, where := range strings.Fields("coming open closed over") {
		for _, on := range events {
			if has := where == "open" || where == "closed"; has && on == "onGrant" || where != "coming" && on == "onFailure" {
				continue // it cannot happen
			}
			for n := range 2 * 2 * 2 * 2 * 3 * 3 * 3 {
				next := func(of int) int { v := n % of; n /= of; return v }
				certain, asked, late, behind := next(2) == 1, next(2) == 1, next(2) == 1, next(2) == 1
				waiting, readers, joins := next(3), next(3), next(3)
				if where == "coming" && waiting == 0 && (on == "onLeave" || on == "onGrant") ||
					where == "open" && readers == 0 || where == "closed" && readers == 0 && on == "onLeave" {
					continue // no such caller exists
				}
				x := frontFacts{waiting: waiting, valid: certain, now: now.Add(time.Second - 1)}
				if late {
					x.now = x.now.Add(1)
				}
				table.Row(where+", "+on, readersDo(l, where, on, x, asked, behind, readers, joins), "certain", certain, "asked", asked,
					"late", late, "behind", behind, "joins", joins, "waiting", waiting, "readers", readers)
			}
		}
	}
	table.Compare(t, "readers")
}

func readersDo(l Limits, where, on string, x frontFacts, asked, behind bool, readers, joins int) string {
	s := frontState{} // a closed or lost node does not belong to the Front any more
	switch where {
	case "coming":
		if s.phase = nodeComing; behind {
			s.others = othersSome
		}
	case "open":
		s = frontState{phase: nodeFree, users: readers, turns: joins, grantedAt: x.now.Truncate(time.Second)}
		if s.grantedAt.Equal(x.now) {
			s.grantedAt = x.now.Add(-l.Period)
		}
		x.waiting = 0
	default:
		x.waiting = 0
	}
	switch on {
	case "onArrival", "onTry":
		if asked && where == "open" {
			s, _ = l.next(s, onRevocation, x)
		}
		x.waiting, x.try = x.waiting+1, on == "onTry"
		to, does := l.next(s, onArrival, x)
		switch does {
		case doNothing:
			return "wait, waiting +1"
		case serveCallers:
			return fmt.Sprintf("read, readers %+d, joins %+d", to.users-s.users, to.turns-s.turns)
		case refuseTries:
			return "refuse"
		case retireNode:
			return "renew, closed"
		}
		return "renew"
	case "onGrant":
		to, does := l.next(frontState{phase: nodeComing}, onGrant, x)
		switch {
		case to == frontState{phase: nodeFree, users: x.waiting, grantedAt: x.now}:
			return "read, open for those who wait"
		case does == retireNode && x.waiting > 0:
			return "again"
		}
		return "end"
	case "onFailure":
		x.waiting = 0 // they have already got the error
		if to, _ := l.next(s, onFailure, x); to == (frontState{}) {
			return "nothing, all is over"
		}
	}
	if where == "coming" {
		x.waiting--
		if _, does := l.next(s, onGiveUp, x); does == stopOwner {
			return "stop, over, waiting -1"
		}
		return "nothing, waiting -1"
	}
	f := &Front{limits: l, state: s}
	n := &frontNode{Grant: &Grant{}, front: f}
	switch where {
	case "open":
		f.node = n
	case "closed":
		n.users = readers
	default:
		if last, _ := f.recordTurnEnd(n, x.now, x.now); !last {
			return "nothing"
		}
	}
	if last, _ := f.recordTurnEnd(n, x.now, x.now); last {
		return "end, over, readers -1"
	}
	return "nothing, readers -1"
}
