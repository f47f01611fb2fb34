package semaphore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-curator/curator/internal/explore"
)

// The model of a client of Curator for Java, which acquires several leases one by one and keeps a part while it waits for the
// next, with two clients of this library. It calls leaseSnapshot.checkRoom and leaseSnapshot.isDeadlocked; it simulates the line,
// Java and the steps of the first in the line (line.go).
//
// Bounds: three leases; the Java client wants two or three, and each of the others one to three, repeatedly. Each client's action
// is one step: TestExploreLeases has the steps of a grant.
//
// Wrong: more leases are in use than there are; a client steps back needlessly, although Java's other leases leave enough for it.
// Final: no lease is taken and no client waits. If no client gives up, it is reached only when each has had its leases: no client
// waits for another for ever.
func TestExplorePartsOfLeases(t *testing.T) {
	explore.Test(t, modelOfParts(), "no way is given to parts")
}

// The model reaches a state in which a client steps back and lets another pass.
func TestExplorePartsOfLeasesFinds(t *testing.T) {
	m := modelOfParts()
	m.Wrong = func(p parts) string {
		if p.back && p.all[0].works && p.queue[0] == 2 {
			return "reached"
		}
		return ""
	}
	explore.Finds(t, m)
}

// part is a client; the first is Java's.
type part struct {
	wants, has int8
	extra      bool // of Java: the last of has is not granted yet
	works      bool
}

// parts is a state of the model.
type parts struct {
	all     [3]part
	queue   [3]int8 // of clients, numbered from 1, in order
	patient bool    // no client gives up
	back    bool    // a client has stepped back
	hasty   bool    // it has stepped back needlessly
}

const mostParts = 3

func modelOfParts() explore.Model[parts] {
	return explore.Model[parts]{
		Start: []parts{{}, {patient: true}}, Next: nextParts,
		Wrong: func(p parts) string {
			used := int8(0)
			for _, c := range p.all {
				if used += c.has; c.extra {
					used--
				}
			}
			switch {
			case used > mostParts:
				return "more leases are in use than there are"
			case p.hasty:
				return "a client steps back that need not"
			}
			return ""
		},
		Final: func(p parts) bool { return p.all == [3]part{} && p.queue == [3]int8{} },
	}
}

func (p parts) seen() (s leaseSnapshot) {
	s.max = mostParts
	for i, c := range p.all {
		for n := range c.has {
			s.children = append(s.children, fmt.Sprintf("%s%010d", leaseName, 10*i+int(n)))
		}
	}
	return s
}

func (p *parts) dequeue(who int8) {
	if i := slices.Index(p.queue[:], who); i >= 0 {
		copy(p.queue[i:], p.queue[i+1:])
		p.queue[len(p.queue)-1] = 0
	}
}

func (p *parts) join(who int8) { p.queue[slices.Index(p.queue[:], 0)] = who }

func nextParts(p parts, step func(string, parts)) {
	for i, c := range p.all {
		who := int8(i + 1)
		try := func(may bool, what string, f func(p *parts, c *part)) {
			if may {
				next := p
				f(&next, &next.all[i])
				step(fmt.Sprintf("%d: %s", who, what), next)
			}
		}
		queued, seen := slices.Contains(p.queue[:], who), p.seen()
		first := queued && p.queue[0] == who
		for wants := int8(1); wants <= mostParts; wants++ {
			try(c.wants == 0 && (i > 0 || wants > 1), "it comes", func(p *parts, c *part) { c.wants = wants })
		}
		try(c.works || c.wants > 0 && !p.patient, "it goes", func(p *parts, c *part) {
			p.dequeue(who)
			*c = part{}
		})
		idle := c.wants > 0 && !c.works && !queued
		if i == 0 {
			try(idle, "it joins for the next lease", func(p *parts, _ *part) { p.join(who) })
			try(first && !c.extra, "it makes a lease", func(p *parts, c *part) { c.has, c.extra = c.has+1, true })
			try(first && c.extra && len(seen.children) <= mostParts, "it has the lease", func(p *parts, c *part) {
				p.dequeue(who)
				c.extra, c.works = false, c.has == c.wants
			})
			continue
		}
		room := seen.checkRoom(int(c.wants)) == nil
		try(idle && room && p.queue == [3]int8{} || first && room, "it takes all", func(p *parts, c *part) {
			p.dequeue(who)
			c.has, c.works = c.wants, true
		})
		try(idle, "it joins", func(p *parts, _ *part) { p.join(who) })
		java := 0 // Java's leases, if it is in the line: Semaphore.countPartsInLine
		if slices.Contains(p.queue[:], 1) {
			java = int(p.all[0].has)
		}
		try(first && !room && seen.isDeadlocked(int(c.wants), java), "it steps back", func(p *parts, c *part) {
			p.dequeue(who)
			p.join(who)
			p.back = true
			p.hasty = java == 0 || int(c.wants)+java <= mostParts
		})
	}
}
