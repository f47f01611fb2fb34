package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// moments are the states of a process towards a right when a fault strikes; for faults of servers, of any process.
var moments = []string{"held", "entered", "left", "waited", "idle"}

// countCoverage counts a fault together with the first of the moments that applies.
func (w *World) countCoverage(f Fault) {
	did := map[string]bool{}
	for _, r := range w.rights {
		for i, s := range w.slots {
			if !f.Kind.strikesProcess() || i == f.Process%len(w.slots) {
				did[r.momentOf(s)] = true
			}
		}
	}
	for _, m := range moments {
		if did[m] {
			w.coverage[string(f.Kind)+"/"+m]++
			return
		}
	}
	w.coverage[string(f.Kind)+"/idle"]++
}

// coverageSum is the sum of the coverage of many runs.
type coverageSum map[string]int

func (c coverageSum) addCoverage(more map[string]int) {
	for k, n := range more {
		c[k] += n
	}
}

// String returns a table: the number of faults by kind and moment.
func (c coverageSum) String() string {
	kinds := map[string]bool{}
	for k := range c {
		kind, _, _ := strings.Cut(k, "/")
		kinds[kind] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s", "faults while")
	for _, m := range moments {
		fmt.Fprintf(&b, "%9s", m)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "\n%-16s", kind)
		for _, m := range moments {
			fmt.Fprintf(&b, "%9d", c[kind+"/"+m])
		}
	}
	return b.String()
}

// smallestTimes are the smallest times of many runs; see [World.Least].
type smallestTimes map[string]smallestTime

type smallestTime struct {
	time.Duration
	plan *Plan // the plan of its run
}

func (l smallestTimes) addSmallest(r *Result) {
	for what, d := range r.Least {
		if before, noted := l[what]; !noted || d < before.Duration {
			l[what] = smallestTime{d, r.Plan}
		}
	}
}

func (l smallestTimes) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "\nleast %s: %v (seed %d, session timeout %v)", what, l[what].Duration, l[what].plan.Seed,
			l[what].plan.SessionTimeout)
	}
	return b.String()
}
