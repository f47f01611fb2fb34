package line

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-curator/curator/internal/explore"
)

// The model of a [Front] whose callers hold the lock in turn (mutex.Cohort), and of a kept lock. It calls Limits.next and
// Limits.ownerAction; it simulates the code around them (front.go), the servers, the connection and a contender of another
// client.
//
// Bounds: two callers at a time, three for a night, which contend repeatedly, and so does one contender of another client; two
// turns; two units of time for turns, for keeping, and for the grace; two faults. A fault is one of: the connection is lost; the
// session is lost; an administrator deletes the node; a client asks for the release of the lock. Time passes at any moment: the
// frontEvent of a timer may be late, but not early.
//
// A lost connection ends the hold or not, depending on the loss policy; a watch is armed again. A lost session ends the hold
// first; the server deletes its nodes after a grace or later, and the next node is created after that. Replies and events are
// late, in the order of the connection. A user whose turn's context has ended works at most for a grace, and releases at some
// time.
//
// Not modelled: TryAcquire, re-entry, foreign children, hooks, the close of the client.
//
// Wrong: a user works while the other client holds the lock, or while another user works, unless an administrator has deleted the
// node; a turn begins with a hold that has ended, or with a kept hold after a reconnect and before a list; more turns, or longer
// turns, than the options allow while others may wait; a kept hold stays so although another contender waits and no event of it
// is in flight. Final: no node is left. If callers and contender never give up, it is reached only when each has had the lock.
func TestExploreCohort(t *testing.T) {
	each(t, func(t *testing.T, l Limits, strict bool) {
		bugs := []string{"turns never end", "a turn for all who come"}
		if l.Idle > 0 {
			bugs = append(bugs, "kept from those who wait")
		}
		if strict {
			bugs = append(bugs, "no time to stop after a loss")
		}
		explore.Test(t, modelOfCohort(l, strict), bugs...)
	})
}

func each(t *testing.T, f func(t *testing.T, l Limits, strict bool)) {
	for _, c := range []struct {
		name   string
		l      Limits
		strict bool
	}{
		{"kept", Limits{Users: 1, Turns: 2, Period: 2, Idle: 2}, false},
		{"kept until suspended", Limits{Users: 1, Turns: 2, Period: 2, Idle: 2}, true},
		{"not kept", Limits{Users: 1, Turns: 2, Period: 2}, false},
		{"not kept, until suspended", Limits{Users: 1, Turns: 2, Period: 2}, true},
	} {
		t.Run(c.name, func(t *testing.T) { f(t, c.l, c.strict) })
	}
}

// The model finds that a grace shorter than a user needs is not enough, and reaches the rare states.
func TestExploreCohortFinds(t *testing.T) {
	each(t, func(t *testing.T, l Limits, strict bool) {
		m := modelOfCohort(l, strict)
		reach := func(rare func(cohortState) bool) {
			t.Helper()
			m := m
			m.Final, m.Wrong = nil, func(c cohortState) string {
				if rare(c) {
					return "reached"
				}
				return ""
			}
			explore.Finds(t, m)
		}
		reach(func(c cohortState) bool { return c.former > 0 && c.attempt == entering })
		reach(func(c cohortState) bool {
			return c.patient && c.lost && c.meddled && c.waiting > 0 && c.line[0] == theirs
		})
		if l.Idle > 0 && !strict {
			reach(func(c cohortState) bool { return c.phase == nodeFree && c.stale && c.waiting > 0 })
		}
		if l.Idle > 0 {
			reach(func(c cohortState) bool { return c.phase == nodeFull && c.others == othersSome && c.served == 2 })
			reach(func(c cohortState) bool { return c.list == sawNone && c.watch == fired })
		}
		if strict {
			reach(func(c cohortState) bool { return c.lostIn && c.user == stopped && c.waiting > 0 })
			m.Start = slices.Clone(m.Start)
			for i := range m.Start {
				m.Start[i].grace--
			}
			explore.Finds(t, m)
		}
	})
}

// stopsIn is the time that a user needs to stop, and for which a lost session's nodes stay, in units of the limits.
const stopsIn = 2

func callers() int8 {
	if os.Getenv("LONG") != "" {
		return 3
	}
	return 2
}

type (
	userPhase     int8
	attemptPhase  int8
	holdPhase     int8
	listReply     int8
	watchPhase    int8
	lineEntry     int8
	cohortMistake int8
)

const (
	absent  userPhase = iota
	works             // during its turn
	late              // its turn's context has ended, and it still works
	stopped           // it has stopped work, and has not released
)

const (
	idle     attemptPhase = iota
	entering              // a node is to be created
	inLine                // it is created
	granted               // the hold has begun, and the owner has not seen that yet
)

const (
	none      holdPhase = iota
	live                //
	suspended           // ended, and the session lives
	dead                // ended, and the node is deleted, or will be
)

const (
	noList     listReply = iota
	asked                // the request is sent
	sawNone              // the reply is in flight: there are no others
	sawOthers            // the same: there are others
	sawNothing           // the same: the own node is missing
)

const (
	noWatch watchPhase = iota
	isArmed
	fired // the frontEvent is in flight
)

const (
	nowhere lineEntry = iota
	ourNode           // of the attempt or the hold
	old               // its delete is in flight
	theirs            // of the other client
	doomed            // of a lost session
)

const (
	fine cohortMistake = iota
	twoTurns
	turnAfterLoss
	turnUnlisted
	tooManyTurns
	tooLongTurns
)

// cohortState is a state of the model.
type cohortState struct {
	// The result of Limits.next. Times are relative to now, and 0 if they have no meaning.
	phase              frontPhase
	turns              int8
	others             frontOthers
	stale, asked       bool
	lostIn             bool // the hold was lost during the turn; its user has time to stop
	began, free, until int8

	waiting int8      // callers in the local line
	user    userPhase // of the turn
	rest    int8      // how long a late user may still work
	former  int8      // the same, for a user whose node the Cohort has deleted

	attempt  attemptPhase
	unwanted bool // the attempt should be stopped
	hold     holdPhase
	unseen   bool // the owner has not seen the hold's end
	giving   bool // a caller deletes the node
	awake    bool // the owner is about to read the state
	list     listReply
	listOld  bool // the reply is of the earlier connection
	watch    watchPhase
	again    bool // the connection is another than the last list's

	line   [4]lineEntry
	away   bool // there is no connection
	lost   bool // the session is lost, and there is no other yet
	remain int8 // how long at least the servers keep a lost session's nodes

	patient bool // no caller gives up
	grace   int8
	faults  int8 // how many are left
	meddled bool // an administrator has deleted the node of the hold
	served  int8 // turns since others may wait
	fault   cohortMistake
}

type cohortModel struct {
	limits Limits
	strict bool
	most   int8
}

func modelOfCohort(l Limits, strict bool) explore.Model[cohortState] {
	m := cohortModel{l, strict, callers()}
	start := cohortState{grace: stopsIn, faults: 2}
	if os.Getenv("LONG") != "" {
		start.faults = 3
	}
	patient := start
	patient.patient = true
	return explore.Model[cohortState]{Start: []cohortState{start, patient}, Next: m.next, Wrong: m.describeWrong, Final: m.isFinal}
}

func (m cohortModel) describeWrong(c cohortState) string {
	atWork := c.user == works || c.user == late
	switch {
	case c.fault != fine:
		return [...]string{"", "two callers have a turn", "a turn begins with a hold that has ended",
			"a turn begins after a reconnect, and before a list", "others wait for too many turns",
			"others wait for too long"}[c.fault]
	case c.line[0] == theirs && (atWork && !c.meddled || c.former > 0):
		return "a user is at work, and another client has the lock"
	case c.phase == nodeFree && c.hold == live && !c.meddled && c.indexOf(theirs) >= 0 && !c.away && !c.awake &&
		c.list == noList && c.watch != fired:
		return "what is kept stays so, although another client waits"
	}
	return ""
}

func (m cohortModel) isFinal(c cohortState) bool {
	return c.phase == nodeNone && c.waiting == 0 && c.attempt == idle && c.hold == none && c.line == [4]lineEntry{} &&
		c.user == absent && c.former == 0
}

func (c *cohortState) indexOf(n lineEntry) int { return slices.Index(c.line[:], n) }

// changeLine changes the line, and fires the watch.
func (c *cohortState) changeLine(f func(line []lineEntry) []lineEntry) {
	line := f(slices.DeleteFunc(slices.Clone(c.line[:]), func(n lineEntry) bool { return n == nowhere }))
	c.line = [4]lineEntry{}
	copy(c.line[:], line)
	if c.watch == isArmed {
		c.watch = fired
	}
}

func (c *cohortState) removeEntry(which lineEntry) {
	c.changeLine(func(line []lineEntry) []lineEntry {
		return slices.DeleteFunc(line, func(n lineEntry) bool { return n == which })
	})
}

func (c *cohortState) joinLine(n lineEntry) {
	c.changeLine(func(line []lineEntry) []lineEntry { return append(line, n) })
}

// endHold ends the hold.
func (c *cohortState) endHold(how holdPhase) {
	if c.hold == live || c.hold == suspended && how == dead {
		c.hold, c.unseen = how, true
	}
	if c.user == works {
		c.user, c.rest = late, stopsIn
	}
}

var now = time.Unix(1000, 0)

// modelledState returns the state for Limits.next.
func (c *cohortState) modelledState() frontState {
	s := frontState{
		phase: c.phase, turns: int(c.turns), others: c.others, unlisted: c.stale, revoked: c.asked,
		grantedAt: now.Add(-time.Duration(c.began)), idleSince: now.Add(-time.Duration(c.free)),
	}
	if c.phase == nodeFull {
		s.users = 1
	}
	if c.lostIn {
		s.deleteAt = now.Add(time.Duration(c.until))
	}
	return s
}

// applyEvent plays Front.next.
func (m cohortModel) applyEvent(c *cohortState, e frontEvent, more int8) frontAction {
	s := c.modelledState()
	f := frontFacts{waiting: int(c.waiting + more), valid: c.hold == live, now: now}
	if e == onLoss && c.hold == suspended {
		f.grace = time.Duration(c.grace)
	}
	before := *c
	s, todo := m.limits.next(s, e, f)
	c.phase, c.turns, c.others, c.stale, c.asked = s.phase, int8(s.turns), s.others, s.unlisted, s.revoked
	c.began, c.free, c.until, c.lostIn = 0, 0, 0, false
	switch s.phase {
	case nodeFree:
		c.began, c.free = age(now.Sub(s.grantedAt), m.limits.Period), age(now.Sub(s.idleSince), m.limits.Idle)
	case nodeFull:
		if c.began = age(now.Sub(s.grantedAt), m.limits.Period); !s.deleteAt.IsZero() {
			c.began, c.lostIn, c.until = 0, true, age(s.deleteAt.Sub(now), stopsIn)
		}
	case nodeNone, nodeComing, nodeEnding:
		c.turns, c.others, c.stale, c.asked = 0, othersUnknown, false, false
	}
	switch todo {
	case startOwner:
		m.beginAttempt(c)
	case stopOwner:
		c.unwanted = true
	case listContenders, retireNode:
		c.awake = true
	case serveCallers:
		if more == 0 {
			c.waiting--
		}
		if c.served++; c.others == othersNone {
			c.served = 0
		}
		switch {
		case before.user != absent, before.former > 0:
			c.fault = twoTurns
		case c.hold != live:
			c.fault = turnAfterLoss
		case e == onArrival && c.again:
			c.fault = turnUnlisted
		case int(c.served) > m.limits.Turns:
			c.fault = tooManyTurns
		case e == onRelease && c.others != othersNone && time.Duration(before.began) >= m.limits.Period:
			c.fault = tooLongTurns
		}
		c.user = works
	}
	return todo
}

func age(d, most time.Duration) int8 { return int8(max(0, min(d, most))) }

// beginAttempt plays Front.beginAcquire.
func (m cohortModel) beginAttempt(c *cohortState) { c.attempt, c.unwanted = entering, c.waiting == 0 }

// failAttempt plays the end of Front.acquireNode after an error.
func (m cohortModel) failAttempt(c *cohortState) {
	if c.attempt = idle; !c.unwanted {
		c.waiting = 0
	}
	m.applyEvent(c, onFailure, 0)
	if c.attempt == idle {
		c.unwanted = false
	}
}

// releaseTurn plays frontNode.deleteNode. After that the owner is done with the node.
func (m cohortModel) releaseTurn(c *cohortState) {
	c.endHold(dead)
	if i := c.indexOf(ourNode); i >= 0 {
		c.line[i] = old
	}
	if c.former = 0; !c.meddled {
		c.former = c.rest
	}
	c.user, c.rest = absent, 0
	c.hold, c.unseen, c.giving, c.awake, c.meddled = none, false, false, false, false
	c.list, c.listOld, c.watch, c.again, c.served = noList, false, noWatch, false, 0
	m.applyEvent(c, onDeletion, 0)
}

func (m cohortModel) next(c cohortState, step func(string, cohortState)) {
	try := func(may bool, what string, f func(c *cohortState)) {
		if may {
			next := c
			f(&next)
			step(what, next)
		}
	}
	m.callerSteps(c, try)
	m.acquireSteps(c, try)
	m.ownerSteps(c, try)
	m.otherSteps(c, try)
}

type tryStep func(may bool, what string, f func(c *cohortState))

// callerSteps plays the callers.
func (m cohortModel) callerSteps(c cohortState, try tryStep) {
	here := c.waiting
	if c.user != absent {
		here++
	}
	try(here < m.most, "a caller comes", func(c *cohortState) { // Front.admitCaller
		if c.phase == nodeFree && c.again {
			m.applyEvent(c, onReconnect, 0)
		}
		if m.applyEvent(c, onArrival, 1) != serveCallers {
			c.waiting++
		}
		if c.attempt == entering && c.waiting == 1 {
			c.unwanted = false // the owner checks after the caller has joined the local line
		}
	})
	try(c.waiting > 0 && !c.patient, "a caller gives up", func(c *cohortState) { // Front.withdrawCaller
		c.waiting--
		m.applyEvent(c, onGiveUp, 0)
	})
	try(c.user == late, "the user of a lost turn stops", func(c *cohortState) { c.user, c.rest = stopped, 0 })
	try(c.user != absent, "the user releases", func(c *cohortState) { // Turn.endTurn
		c.user, c.rest = absent, 0
		if m.applyEvent(c, onRelease, 0) == retireNode {
			c.giving = true
		}
	})
	try(c.giving, "the delete is sent", m.releaseTurn)
}

// acquireSteps plays Front.acquireNode.
func (m cohortModel) acquireSteps(c cohortState, try tryStep) {
	connected := !c.away && !c.lost
	try(c.attempt == entering && connected && c.line[3] == nowhere, "our node is made", func(c *cohortState) {
		c.joinLine(ourNode)
		c.attempt = inLine
	})
	try(c.attempt == entering && (!connected || c.unwanted), "no node is made", m.failAttempt)
	try(c.attempt == inLine && c.unwanted, "the wait ends", func(c *cohortState) {
		if i := c.indexOf(ourNode); i >= 0 {
			c.line[i] = old
		}
		m.failAttempt(c)
	})
	try(c.attempt == inLine && c.indexOf(ourNode) < 0, "the place is lost", func(c *cohortState) { c.attempt = entering })
	try(c.attempt == inLine && connected && c.line[0] == ourNode, "it is our turn", func(c *cohortState) {
		c.attempt, c.hold = granted, live
	})
	try(c.attempt == granted, "the owner has the node", func(c *cohortState) {
		c.attempt, c.unwanted, c.served = idle, false, 0
		m.applyEvent(c, onGrant, 0)
		c.awake = true
	})
}

// ownerSteps plays Front.superviseNode.
func (m cohortModel) ownerSteps(c cohortState, try tryStep) {
	if c.hold == none || c.attempt != idle {
		return
	}
	if c.awake {
		switch todo := m.limits.ownerAction(c.modelledState(), c.giving, false); {
		case todo == retireNode:
			try(true, "the owner deletes the node", m.releaseTurn)
		case todo == listContenders && c.list == noList:
			try(true, "the owner looks", func(c *cohortState) {
				c.watch, c.list, c.awake = noWatch, asked, false
			})
		default:
			try(true, "the owner waits", func(c *cohortState) { c.awake = false })
		}
		return
	}
	happens := func(may bool, what string, e frontEvent) {
		try(may, what, func(c *cohortState) {
			m.applyEvent(c, e, 0)
			c.awake = true
		})
	}
	try(c.unseen, "the owner sees the loss", func(c *cohortState) {
		c.unseen, c.awake = false, true
		m.applyEvent(c, onLoss, 0)
	})
	try(c.watch == fired && c.list == noList && (!c.away || c.hold == dead), "the watch's event", func(c *cohortState) {
		c.watch, c.awake = noWatch, true
		m.applyEvent(c, onOthers, 0)
	})
	try(c.list > asked || c.list == asked && c.hold != live, "the list's answer", func(c *cohortState) { // Front.handleList
		if c.list == sawNothing {
			c.endHold(dead)
		}
		e := onOthers
		if c.list == sawNone {
			e = onAlone
		}
		c.again, c.list, c.listOld, c.awake = c.listOld, noList, false, true
		m.applyEvent(c, e, 0)
	})
	happens(c.phase == nodeFree && time.Duration(c.free) >= m.limits.Idle || c.lostIn && c.until == 0,
		"a timer", onTimer)
	try(c.faults > 0 && c.hold == live, "somebody asks for the lock", func(c *cohortState) {
		c.faults--
		c.awake = true
		m.applyEvent(c, onRevocation, 0)
	})
}

// otherSteps plays the servers, the other client, the network and the clock.
func (m cohortModel) otherSteps(c cohortState, try tryStep) {
	connected := !c.away && !c.lost
	try(c.list == asked && connected, "the list is read", func(c *cohortState) {
		c.listOld = false
		switch {
		case c.indexOf(ourNode) < 0:
			c.list = sawNothing
		case c.indexOf(theirs) >= 0 || c.indexOf(old) >= 0:
			c.list, c.watch = sawOthers, isArmed
		default:
			c.list, c.watch = sawNone, isArmed
		}
	})
	try(connected && c.indexOf(old) >= 0, "a delete is executed", func(c *cohortState) {
		i := c.indexOf(old)
		c.changeLine(func(line []lineEntry) []lineEntry { return slices.Delete(line, i, i+1) })
	})
	try(c.indexOf(theirs) < 0 && c.line[3] == nowhere, "another client comes", func(c *cohortState) { c.joinLine(theirs) })
	try(c.line[0] == theirs, "the other client releases", func(c *cohortState) { c.removeEntry(theirs) })
	try(c.indexOf(theirs) > 0 && !c.patient, "the other client gives up", func(c *cohortState) { c.removeEntry(theirs) })

	try(c.faults > 0 && connected, "the connection is lost", func(c *cohortState) {
		if c.faults, c.away = c.faults-1, true; m.strict && c.hold == live {
			c.endHold(suspended)
		}
	})
	try(c.faults > 0 && connected && c.list > asked, "the connection is lost, and the list's answer", func(c *cohortState) {
		c.list, c.watch = asked, noWatch
		if c.faults, c.away = c.faults-1, true; m.strict && c.hold == live {
			c.endHold(suspended)
		}
	})
	try(c.away && !c.lost, "connected again", func(c *cohortState) {
		c.away, c.listOld = false, c.list > asked
		c.again = c.hold != none && c.attempt == idle
	})
	try(c.faults > 0 && !c.lost, "the session is lost", func(c *cohortState) {
		c.faults, c.away, c.lost = c.faults-1, true, true
		if c.hold != none {
			c.endHold(dead)
		}
		if c.watch == isArmed {
			c.watch = fired
		}
		for i, n := range c.line {
			if n == ourNode || n == old {
				c.line[i], c.remain = doomed, stopsIn
			}
		}
	})
	try(c.lost && c.remain == 0 && c.indexOf(doomed) >= 0, "the servers end it", func(c *cohortState) { c.removeEntry(doomed) })
	try(c.lost && c.indexOf(doomed) < 0, "there is another session", func(c *cohortState) { c.away, c.lost = false, false })
	try(c.faults > 0 && c.indexOf(ourNode) >= 0, "an administrator deletes our node", func(c *cohortState) {
		c.faults, c.meddled = c.faults-1, c.hold != none
		c.removeEntry(ourNode)
	})
	try(c.hold == live && c.indexOf(ourNode) < 0 && connected, "the hold ends with its node", func(c *cohortState) { c.endHold(dead) })
	try(true, "time passes", func(c *cohortState) {
		c.began = min(c.began+1, int8(m.limits.Period))
		c.free = min(c.free+1, int8(m.limits.Idle))
		if c.phase != nodeFree {
			c.free = 0
		}
		if c.phase != nodeFree && c.phase != nodeFull {
			c.began = 0
		}
		c.until, c.former, c.remain = max(c.until-1, 0), max(c.former-1, 0), max(c.remain-1, 0)
		if c.user == late {
			if c.rest--; c.rest == 0 {
				c.user = stopped
			}
		}
	})
}
