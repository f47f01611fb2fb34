// Package judge finds a lock's failures in a ledger: two holders, work after the loss, times without a holder. It is
// a pure function of the lines.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-curator/curator/compare/internal/ledger"
)

// Hold is one contender's critical section, as far as there is proof of it: it lasts from its begin to its last
// act. A holder that stops acting in time has no overlap with the next, whatever it believes.
type Hold struct {
	Who   string
	N     int
	Begin time.Duration
	Last  time.Duration // of the last act; Begin if there was none
	Acts  []Act
	Told  time.Duration // when its client reported the loss; 0 if it did not
	Over  time.Duration // when the critical section ended or the loss was reported; 0 if the process did not get there
}

// Act is a piece of work.
type Act struct {
	At    time.Duration
	Order int64
}

func (h Hold) String() string { return fmt.Sprintf("%s's hold %d", h.Who, h.N) }

// Overlap is a proof of two holders: Later was granted while Earlier had not done its last act. Times count
// from the begin of the ledger.
type Overlap struct {
	Earlier, Later           string
	EarlierBegin, EarlierEnd time.Duration
	LaterBegin, LaterEnd     time.Duration
	Length                   time.Duration // while both were inside
	After                    time.Duration // how long Earlier continued after Later's begin
	Acts                     int           // of Earlier, after Later began
}

func (o Overlap) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%s from %v to %v, %s from %v to %v: both for %v, %d acts too late", o.Earlier, ms(o.EarlierBegin),
		ms(o.EarlierEnd), o.Later, ms(o.LaterBegin), ms(o.LaterEnd), ms(o.Length), o.Acts)
}

// Verdict is the judgement of a ledger.
type Verdict struct {
	Holds    int
	Overlaps []Overlap
	// Of the lost holds: the loss was reported and no act followed the next grant; it was reported after such an act;
	// there were such acts, and the loss was never reported.
	InTime, Late, Never int
	// ActsAfterLoss is the number of acts of holders after another contender's grant.
	ActsAfterLoss int
	// Gap is the longest time, from the first fault on, without an act of a holder: from the last act before it to
	// the next grant.
	Gap time.Duration
	// Next is the time from the first fault to the next grant to a contender other than the holder at the fault's
	// begin; 0 if there was none.
	Next time.Duration
	// AfterHeal is the number of grants after the last fault was over.
	AfterHeal int
}

// Longest returns the longest time for which a holder continued after another contender's grant.
func (v Verdict) Longest() (longest time.Duration) {
	for _, o := range v.Overlaps {
		longest = max(longest, o.After)
	}
	return longest
}

// Judge reads all lines of a play.
func Judge(lines []ledger.Line) (v Verdict) {
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b ledger.Line) int { return cmp.Compare(a.At, b.At) })
	holds := Holds(lines)
	v.Holds = len(holds)
	if len(lines) == 0 {
		return v
	}
	zero := lines[0].At
	for i, a := range holds {
		worked := false
		for _, b := range holds[i+1:] {
			if b.Who == a.Who {
				continue
			}
			late := actsAfter(a, b)
			if late == 0 {
				continue
			}
			if !worked { // against the first later hold: each act counts once
				v.ActsAfterLoss += late
			}
			worked = true
			v.Overlaps = append(v.Overlaps, Overlap{a.String(), b.String(), a.Begin - zero, a.Last - zero,
				b.Begin - zero, b.Last - zero, max(0, min(a.Last, b.Last)-b.Begin), max(0, a.Last-b.Begin), late})
		}
		switch {
		case a.Told != 0 && !worked:
			v.InTime++
		case a.Told != 0:
			v.Late++
		case worked: // a killed holder executed no further acts, and needed no report
			v.Never++
		}
	}
	v.faults(lines, holds)
	return v
}

// actsAfter counts a's acts since b's grant, by the store's order where there is one: there b's grant precedes its
// first act.
func actsAfter(a, b Hold) (n int) {
	for _, act := range a.Acts {
		switch {
		case act.Order != 0 && len(b.Acts) > 0 && b.Acts[0].Order != 0:
			// A store that has lost its data restarts its count: its order alone proves nothing.
			if act.Order > b.Acts[0].Order && act.At > b.Begin {
				n++
			}
		case act.Order != 0: // no act of b could be out of order
		case act.At > b.Begin:
			n++
		}
	}
	return n
}

// Holds are the critical sections in the order of their begin. The lines are in the order of their times.
func Holds(lines []ledger.Line) []Hold {
	type key struct {
		who string
		n   int
	}
	at := map[key]int{}
	var holds []Hold
	for _, l := range lines {
		k := key{l.Who, l.Hold}
		if l.Event == ledger.Begin {
			at[k] = len(holds)
			holds = append(holds, Hold{Who: l.Who, N: l.Hold, Begin: l.At, Last: l.At})
			continue
		}
		i, known := at[k]
		if !known {
			continue
		}
		h := &holds[i]
		switch l.Event {
		case ledger.Act:
			h.Last = l.At
			h.Acts = append(h.Acts, Act{l.At, l.Order})
		case ledger.Told:
			h.Told, h.Over = l.At, l.At
		case ledger.End:
			if h.Over == 0 {
				h.Over = l.At
			}
		}
	}
	return holds
}

func (v *Verdict) faults(lines []ledger.Line, holds []Hold) {
	var fault, heal time.Duration
	for _, l := range lines {
		switch {
		case l.Event == ledger.Fault && fault == 0:
			fault = l.At
		case l.Event == ledger.Heal:
			heal = l.At
		}
	}
	if fault == 0 {
		return
	}
	victim := ""
	for _, h := range holds {
		if h.Begin <= fault && (h.Over == 0 || h.Over > fault) {
			victim = h.Who
		}
	}
	// The ledger has the moments at which a contender proved to hold the lock. The gap is between two of them.
	last, end := fault, lines[len(lines)-1].At
	var moments []time.Duration
	for _, h := range holds {
		moments = append(moments, h.Begin)
		for _, act := range h.Acts {
			moments = append(moments, act.At)
		}
		if h.Begin > fault && h.Who != victim && v.Next == 0 {
			v.Next = h.Begin - fault
		}
		if heal != 0 && h.Begin > heal {
			v.AfterHeal++
		}
	}
	slices.Sort(moments)
	for _, m := range append(moments, end) {
		if m > last {
			v.Gap = max(v.Gap, m-last)
			last = m
		}
	}
}
