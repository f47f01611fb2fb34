package mutex

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-curator/curator/internal/explore"
)

// The model of a [Cohort], and of what it keeps ([WithKept]). Called are limits.next and limits.duty; what is around
// them (cohort_line.go, cohort_owner.go), the servers, the connection and a contender of another client are played.
//
// Bounds: two callers at a time, three for a night, who come again and again, and so does one contender of another
// client; two turns; two units of time for turns, for keeping, and for the grace; two faults: the connection is lost,
// the session is lost, an administrator deletes the node, or somebody asks for the lock to be given up. Time passes at any moment: the event
// of a timer may be late, but not early.
//
// A lost connection ends the hold, or the hold goes on, as the policy says; a watch is armed again. A lost session
// ends the hold first; the server removes its nodes when a grace has passed, or later, and the next node is made after
// that. Answers and events come late, in the order of the connection. A user whose turn's context has ended works on
// for a grace at most, and releases at some time.
//
// Not modelled: TryAcquire, re-entry, foreign children, hooks, the end of the client.
//
// Wrong: a user is at work while the other client has the lock, or another user is, unless an administrator has deleted
// the node; a turn begins with a hold that has ended, or with what was kept, after a reconnect and before a list; more
// turns, or turns for longer, than the options say when others may wait; what is kept stays so although another
// contender waits and the news is not on its way. Final: nothing is left. If callers and contender never give up, it is
// reached only when each has had the lock.
func TestExploreCohort(t *testing.T) {
	each(t, func(t *testing.T, l limits, strict bool) {
		bugs := []string{"turns never end", "a turn for all who come"}
		if l.idle > 0 {
			bugs = append(bugs, "kept from those who wait")
		}
		if strict {
			bugs = append(bugs, "no time to stop after a loss")
		}
		explore.Test(t, modelOfCohort(l, strict), bugs...)
	})
}

func each(t *testing.T, f func(t *testing.T, l limits, strict bool)) {
	for _, c := range []struct {
		name   string
		l      limits
		strict bool
	}{
		{"kept", limits{turns: 2, howLong: 2, idle: 2}, false},
		{"kept until suspended", limits{turns: 2, howLong: 2, idle: 2}, true},
		{"not kept", limits{turns: 2, howLong: 2}, false},
		{"not kept, until suspended", limits{turns: 2, howLong: 2}, true},
	} {
		t.Run(c.name, func(t *testing.T) { f(t, c.l, c.strict) })
	}
}

// A grace that is shorter than a user needs is not enough, and what is rare is reached.
func TestExploreCohortFinds(t *testing.T) {
	each(t, func(t *testing.T, l limits, strict bool) {
		m := modelOfCohort(l, strict)
		reach := func(rare func(cohort) bool) {
			t.Helper()
			m := m
			m.Final, m.Wrong = nil, func(c cohort) string {
				if rare(c) {
					return "reached"
				}
				return ""
			}
			explore.Finds(t, m)
		}
		reach(func(c cohort) bool { return c.former > 0 && c.attempt == entering })
		reach(func(c cohort) bool { return c.patient && c.lost && c.meddled && c.waiting > 0 && c.line[0] == theirs })
		if l.idle > 0 && !strict {
			reach(func(c cohort) bool { return c.phase == free && c.stale && c.waiting > 0 })
		}
		if l.idle > 0 {
			reach(func(c cohort) bool { return c.phase == taken && c.others == others && c.served == 2 })
			reach(func(c cohort) bool { return c.list == sawNone && c.watch == fired })
		}
		if strict {
			reach(func(c cohort) bool { return c.phase == ending && c.user == stopped && c.waiting > 0 })
			m.Start = slices.Clone(m.Start)
			for i := range m.Start {
				m.Start[i].grace--
			}
			explore.Finds(t, m)
		}
	})
}

// stopsIn is how long a user needs to stop, and a lost session's nodes stay, in the units of the limits.
const stopsIn = 2

func callers() int8 {
	if os.Getenv("LONG") != "" {
		return 3
	}
	return 2
}

type (
	user    int8
	attempt int8
	held    int8
	answer  int8
	watched int8
	entry   int8
	fault   int8
)

const (
	absent  user = iota
	works        // its turn lasts
	late         // its turn's context has ended, and it is still at work
	stopped      // it is not at work any more, and has not released
)

const (
	idle     attempt = iota
	entering         // a node is to be made
	inLine           // it is made
	granted          // the hold has begun, and the owner has not seen that
)

const (
	none      held = iota
	live           //
	suspended      // ended, and the session goes on
	dead           // ended, and the node is gone, or goes anyway
)

const (
	noList     answer = iota
	asked             // it was sent
	sawNone           // the answer is on its way: there are no others
	sawOthers         // there are
	sawNothing        // the own node is not there
)

const (
	unwatched watched = iota
	armed
	fired // the event is on its way
)

const (
	nowhere entry = iota
	ours          // of the attempt or the hold
	old           // its delete is on its way
	theirs        // of the other client
	doomed        // of a session that is lost
)

const (
	fine fault = iota
	twoTurns
	turnAfterLoss
	turnUnlisted
	tooManyTurns
	tooLongTurns
)

// cohort is a state of the model.
type cohort struct {
	// What limits.next has returned. Times are relative to now, and 0 where they mean nothing.
	phase              phase
	turns              int8
	others             who
	stale, asked       bool
	began, free, until int8

	waiting int8 // callers in the local line
	user    user // of the turn
	rest    int8 // how long a late user is at work
	former  int8 // the same, of a user whose node the Cohort has done with

	attempt       attempt
	unwanted      bool // the attempt is to be stopped
	hold          held
	unseen        bool // the owner has not seen its end
	giving, given bool
	awake         bool // the owner is about to look at the state
	list          answer
	listOld       bool // the answer is of the connection before
	watch         watched
	again         bool // there is another connection than that of the last list

	line   [4]entry
	away   bool // there is no connection
	lost   bool // the session is, and there is no other yet
	remain int8 // how long the servers keep a lost session's nodes at least

	patient bool // nobody gives up
	grace   int8
	faults  int8 // that may come
	meddled bool // an administrator has deleted the node of the hold
	served  int8 // turns since others may wait
	fault   fault
}

type cohortModel struct {
	limits limits
	strict bool
	most   int8
}

func modelOfCohort(l limits, strict bool) explore.Model[cohort] {
	m := cohortModel{l, strict, callers()}
	start := cohort{grace: stopsIn, faults: 2}
	if os.Getenv("LONG") != "" {
		start.faults = 3
	}
	patient := start
	patient.patient = true
	return explore.Model[cohort]{Start: []cohort{start, patient}, Next: m.next, Wrong: m.wrong, Final: m.final}
}

func (m cohortModel) wrong(c cohort) string {
	atWork := c.user == works || c.user == late
	switch {
	case c.fault != fine:
		return [...]string{"", "two callers have a turn", "a turn begins with a hold that has ended",
			"a turn begins after a reconnect, and before a list", "others wait for too many turns",
			"others wait for too long"}[c.fault]
	case c.line[0] == theirs && (atWork && !c.meddled || c.former > 0):
		return "a user is at work, and another client has the lock"
	case c.phase == free && c.hold == live && !c.meddled && c.at(theirs) >= 0 && !c.away && !c.awake &&
		c.list == noList && c.watch != fired:
		return "what is kept stays so, although another client waits"
	}
	return ""
}

func (m cohortModel) final(c cohort) bool {
	return c.phase == away && c.waiting == 0 && c.attempt == idle && c.hold == none && c.line == [4]entry{} &&
		c.user == absent && c.former == 0
}

func (c *cohort) at(n entry) int { return slices.Index(c.line[:], n) }

// change changes the line, and the watch fires.
func (c *cohort) change(f func(line []entry) []entry) {
	line := f(slices.DeleteFunc(slices.Clone(c.line[:]), func(n entry) bool { return n == nowhere }))
	c.line = [4]entry{}
	copy(c.line[:], line)
	if c.watch == armed {
		c.watch = fired
	}
}

func (c *cohort) remove(which entry) {
	c.change(func(line []entry) []entry {
		return slices.DeleteFunc(line, func(n entry) bool { return n == which })
	})
}

func (c *cohort) join(n entry) { c.change(func(line []entry) []entry { return append(line, n) }) }

// end ends the hold.
func (c *cohort) end(how held) {
	if c.hold == live || c.hold == suspended && how == dead {
		c.hold, c.unseen = how, true
	}
	if c.user == works {
		c.user, c.rest = late, stopsIn
	}
}

var now = time.Unix(1000, 0)

// on is local.next.
func (m cohortModel) on(c *cohort, e event, more int8) action {
	s := state{
		phase: c.phase, turns: int(c.turns), others: c.others, stale: c.stale, asked: c.asked,
		began: now.Add(-time.Duration(c.began)), idle: now.Add(-time.Duration(c.free)),
		until: now.Add(time.Duration(c.until)),
	}
	f := facts{waiting: int(c.waiting + more), valid: c.hold == live, now: now}
	if e == onLoss && c.hold == suspended {
		f.grace = time.Duration(c.grace)
	}
	before := *c
	s, todo := m.limits.next(s, e, f)
	c.phase, c.turns, c.others, c.stale, c.asked = s.phase, int8(s.turns), s.others, s.stale, s.asked
	c.began, c.free, c.until = 0, 0, 0
	switch s.phase {
	case free:
		c.began, c.free = age(now.Sub(s.began), m.limits.howLong), age(now.Sub(s.idle), m.limits.idle)
	case taken:
		c.began = age(now.Sub(s.began), m.limits.howLong)
	case ending:
		c.until = age(s.until.Sub(now), stopsIn)
	case away, coming, going:
		c.turns, c.others, c.stale, c.asked = 0, unknown, false, false
	}
	switch todo {
	case start:
		m.attempt(c)
	case stop:
		c.unwanted = true
	case look, end:
		c.awake = true
	case pass:
		if more == 0 {
			c.waiting--
		}
		if c.served++; c.others == nobody {
			c.served = 0
		}
		switch {
		case before.user != absent, before.former > 0:
			c.fault = twoTurns
		case c.hold != live:
			c.fault = turnAfterLoss
		case e == onArrival && c.again:
			c.fault = turnUnlisted
		case int(c.served) > m.limits.turns:
			c.fault = tooManyTurns
		case e == onRelease && c.others != nobody && time.Duration(before.began) >= m.limits.howLong:
			c.fault = tooLongTurns
		}
		c.user = works
	}
	return todo
}

func age(d, most time.Duration) int8 { return int8(max(0, min(d, most))) }

// attempt is local.begin.
func (m cohortModel) attempt(c *cohort) { c.attempt, c.unwanted = entering, c.waiting == 0 }

// failed is the end of local.get after an error.
func (m cohortModel) failed(c *cohort) {
	if c.attempt = idle; !c.unwanted {
		c.waiting = 0
	}
	m.over(c, onFailure)
}

func (m cohortModel) over(c *cohort, e event) {
	if m.on(c, e, 0); c.phase != away {
		m.attempt(c)
	}
	if c.attempt == idle {
		c.unwanted = false
	}
}

// giveBack is node.giveBack.
func (c *cohort) giveBack() {
	c.end(dead)
	c.unseen = false
	if i := c.at(ours); i >= 0 {
		c.line[i] = old
	}
	c.given, c.awake = true, true
}

func (m cohortModel) next(c cohort, step func(string, cohort)) {
	try := func(may bool, what string, f func(c *cohort)) {
		if may {
			next := c
			f(&next)
			step(what, next)
		}
	}
	m.calls(c, try)
	m.gets(c, try)
	m.tends(c, try)
	m.plays(c, try)
}

type tryStep func(may bool, what string, f func(c *cohort))

// calls are the callers.
func (m cohortModel) calls(c cohort, try tryStep) {
	here := c.waiting
	if c.user != absent {
		here++
	}
	try(here < m.most, "a caller comes", func(c *cohort) { // local.arrive
		if c.phase == free && c.again {
			m.on(c, onReconnect, 0)
		}
		if m.on(c, onArrival, 1) != pass {
			c.waiting++
		}
		if c.attempt == entering && c.waiting == 1 {
			c.unwanted = false // the owner looks when the caller is in line
		}
	})
	try(c.waiting > 0 && !c.patient, "a caller gives up", func(c *cohort) { // local.leave
		c.waiting--
		m.on(c, onLeave, 0)
	})
	try(c.user == late, "the user of a lost turn stops", func(c *cohort) { c.user, c.rest = stopped, 0 })
	try(c.user != absent, "the user releases", func(c *cohort) { // letGo
		c.user, c.rest = absent, 0
		if m.on(c, onRelease, 0) == end {
			c.giving = true
		}
	})
	try(c.giving && !c.given, "the delete is sent", (*cohort).giveBack)
}

// gets is local.get, of the owner.
func (m cohortModel) gets(c cohort, try tryStep) {
	connected := !c.away && !c.lost
	try(c.attempt == entering && connected && c.line[3] == nowhere, "our node is made", func(c *cohort) {
		c.join(ours)
		c.attempt = inLine
	})
	try(c.attempt == entering && (!connected || c.unwanted), "no node is made", m.failed)
	try(c.attempt == inLine && c.unwanted, "the wait ends", func(c *cohort) {
		if i := c.at(ours); i >= 0 {
			c.line[i] = old
		}
		m.failed(c)
	})
	try(c.attempt == inLine && c.at(ours) < 0, "the place is lost", func(c *cohort) { c.attempt = entering })
	try(c.attempt == inLine && connected && c.line[0] == ours, "it is our turn", func(c *cohort) {
		c.attempt, c.hold = granted, live
	})
	try(c.attempt == granted, "the owner has the node", func(c *cohort) {
		c.attempt, c.unwanted, c.served = idle, false, 0
		m.on(c, onGrant, 0)
		c.awake = true
	})
}

// tends is local.tend, of the owner.
func (m cohortModel) tends(c cohort, try tryStep) {
	if c.hold == none || c.attempt != idle {
		return
	}
	if c.awake {
		switch todo := m.limits.duty(state{phase: c.phase, others: c.others}, c.giving, c.given); {
		case todo == stop:
			try(true, "the owner has done with the node", func(c *cohort) {
				if c.former = 0; !c.meddled {
					c.former = c.rest
				}
				c.user, c.rest = absent, 0
				c.hold, c.unseen, c.giving, c.given, c.awake, c.meddled = none, false, false, false, false, false
				c.list, c.listOld, c.watch, c.again, c.served = noList, false, unwatched, false, 0
				m.over(c, onGone)
			})
		case todo == end:
			try(true, "the owner gives the node back", func(c *cohort) { c.giving = true; c.giveBack() })
		case todo == look && c.list == noList:
			try(true, "the owner looks", func(c *cohort) {
				c.watch, c.list, c.awake = unwatched, asked, false
			})
		default:
			try(true, "the owner waits", func(c *cohort) { c.awake = false })
		}
		return
	}
	happens := func(may bool, what string, e event) {
		try(may, what, func(c *cohort) {
			m.on(c, e, 0)
			c.awake = true
		})
	}
	try(c.unseen, "the owner sees the loss", func(c *cohort) {
		c.unseen, c.awake = false, true
		m.on(c, onLoss, 0)
	})
	try(c.watch == fired && c.list == noList && (!c.away || c.hold == dead), "the watch's event", func(c *cohort) {
		c.watch, c.awake = unwatched, true
		m.on(c, onSought, 0)
	})
	try(c.list > asked || c.list == asked && c.hold != live, "the list's answer", func(c *cohort) { // local.saw
		if c.list == sawNothing {
			c.end(dead)
		}
		e := onSought
		if c.list == sawNone {
			e = onAlone
		}
		c.again, c.list, c.listOld, c.awake = c.listOld, noList, false, true
		m.on(c, e, 0)
	})
	happens(c.phase == free && time.Duration(c.free) >= m.limits.idle || c.phase == ending && c.until == 0,
		"a timer", onTick)
	try(c.faults > 0 && c.hold == live, "somebody asks for the lock", func(c *cohort) {
		c.faults--
		c.awake = true
		m.on(c, onAsked, 0)
	})
}

// plays are the servers, the other client, the network and the clock.
func (m cohortModel) plays(c cohort, try tryStep) {
	connected := !c.away && !c.lost
	try(c.list == asked && connected, "the list is read", func(c *cohort) {
		c.listOld = false
		switch {
		case c.at(ours) < 0:
			c.list = sawNothing
		case c.at(theirs) >= 0 || c.at(old) >= 0:
			c.list, c.watch = sawOthers, armed
		default:
			c.list, c.watch = sawNone, armed
		}
	})
	try(connected && c.at(old) >= 0, "a delete is executed", func(c *cohort) {
		i := c.at(old)
		c.change(func(line []entry) []entry { return slices.Delete(line, i, i+1) })
	})
	try(c.at(theirs) < 0 && c.line[3] == nowhere, "another client comes", func(c *cohort) { c.join(theirs) })
	try(c.line[0] == theirs, "the other client releases", func(c *cohort) { c.remove(theirs) })
	try(c.at(theirs) > 0 && !c.patient, "the other client gives up", func(c *cohort) { c.remove(theirs) })

	try(c.faults > 0 && connected, "the connection is lost", func(c *cohort) {
		if c.faults, c.away = c.faults-1, true; m.strict && c.hold == live {
			c.end(suspended)
		}
	})
	try(c.faults > 0 && connected && c.list > asked, "the connection is lost, and the list's answer", func(c *cohort) {
		c.list, c.watch = asked, unwatched
		if c.faults, c.away = c.faults-1, true; m.strict && c.hold == live {
			c.end(suspended)
		}
	})
	try(c.away && !c.lost, "connected again", func(c *cohort) {
		c.away, c.listOld = false, c.list > asked
		c.again = c.hold != none && c.attempt == idle
	})
	try(c.faults > 0 && !c.lost, "the session is lost", func(c *cohort) {
		c.faults, c.away, c.lost = c.faults-1, true, true
		if c.hold != none {
			c.end(dead)
		}
		if c.watch == armed {
			c.watch = fired
		}
		for i, n := range c.line {
			if n == ours || n == old {
				c.line[i], c.remain = doomed, stopsIn
			}
		}
	})
	try(c.lost && c.remain == 0 && c.at(doomed) >= 0, "the servers end it", func(c *cohort) { c.remove(doomed) })
	try(c.lost && c.at(doomed) < 0, "there is another session", func(c *cohort) { c.away, c.lost = false, false })
	try(c.faults > 0 && c.at(ours) >= 0, "an administrator deletes our node", func(c *cohort) {
		c.faults, c.meddled = c.faults-1, c.hold != none
		c.remove(ours)
	})
	try(c.hold == live && c.at(ours) < 0 && connected, "the hold ends with its node", func(c *cohort) { c.end(dead) })
	try(true, "time passes", func(c *cohort) {
		c.began = min(c.began+1, int8(m.limits.howLong))
		c.free = min(c.free+1, int8(m.limits.idle))
		if c.phase != free {
			c.free = 0
		}
		if c.phase != free && c.phase != taken {
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
