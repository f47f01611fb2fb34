package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// moments are what a process may have been doing with a right when a fault struck it; for faults of servers,
// what any process was doing.
var moments = []string{"held", "entered", "left", "waited", "idle"}

// cover counts a fault with what went on when it happened.
func (w *World) cover(f Fault) {
	did := map[string]bool{}
	for _, r := range w.rights {
		for i, s := range w.slots {
			if !f.Kind.ofProcess() || i == f.Process%len(w.slots) {
				did[r.moment(s)] = true
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

// coverage adds up that of many runs.
type coverage map[string]int

func (c coverage) add(more map[string]int) {
	for k, n := range more {
		c[k] += n
	}
}

// String is a table: how often each kind happened, and while somebody did what with a right.
func (c coverage) String() string {
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

// leasts are the smallest times of many runs; see [World.Least].
type leasts map[string]least

type least struct {
	time.Duration
	plan *Plan // of the run that had it
}

func (l leasts) add(r *Result) {
	for what, d := range r.Least {
		if before, noted := l[what]; !noted || d < before.Duration {
			l[what] = least{d, r.Plan}
		}
	}
}

func (l leasts) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "\nleast %s: %v (seed %d, session timeout %v)", what, l[what].Duration, l[what].plan.Seed,
			l[what].plan.SessionTimeout)
	}
	return b.String()
}
