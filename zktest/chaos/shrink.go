package chaos

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// planShrinker makes a failing plan shorter.
type planShrinker struct {
	play    func(*Plan) *Result
	check   string // the violated check of the failed run; a shorter plan must violate the same
	until   time.Time
	sure    bool // the plan failed in every replay; a shorter one must fail as surely
	tries   int
	best    *Result
	printed time.Time // time of the last progress line
	plans   []*Result // each shorter than its predecessor
}

// shrinkPlan leaves out faults, processes and servers that the failure does not need, and makes times round, until
// limit by the wall clock. It returns the runs of the failing plan and of ever shorter plans, which all violate the
// same check, and the number of its tries.
func shrinkPlan(failed *Result, sure bool, limit time.Duration, play func(*Plan) *Result) ([]*Result, int) {
	s := &planShrinker{
		play:  play,
		check: failed.Violations[0].Check,
		until: time.Now().Add(limit),
		best:  failed,
		sure:  sure,
		plans: []*Result{failed},
	}
	failed.Plan.reduceProcesses(failed.Replicas)
	for changed := true; changed && s.hasTime(); {
		changed = s.omitFaults()
		changed = s.trySingleFaults() || changed
		changed = s.omitReplicas() || changed
		changed = s.omitServers() || changed
		changed = s.roundTimes() || changed
	}
	return s.plans, s.tries
}

// printProgress prints the state of the search every 10 seconds.
func (s *planShrinker) printProgress() {
	if time.Since(s.printed) < 10*time.Second {
		return
	}
	s.printed = time.Now()
	fmt.Fprintf(os.Stderr, "  … chaos: a plan fails (%s); making it shorter, for %v more at most: %d tries, %d faults left\n",
		s.check, time.Until(s.until).Round(time.Second), s.tries, len(s.best.Plan.Faults))
}

func (s *planShrinker) hasTime() bool { return time.Now().Before(s.until) }

// tryPlan keeps the changed plan if it fails in each of three runs, or in one of three if the failing plan itself
// does not always fail.
func (s *planShrinker) tryPlan(change func(p *Plan)) bool {
	p := *s.best.Plan
	p.Faults = slices.Clone(p.Faults)
	change(&p)
	for n := range 3 {
		if !s.hasTime() {
			return false
		}
		s.tries++
		s.printProgress()
		r := s.play(&p)
		fails := len(r.Violations) > 0 && r.Violations[0].Check == s.check
		if fails && (!s.sure || n == 2) {
			s.best = r
			s.plans = append(s.plans, r)
			return true
		}
		if !fails && s.sure {
			return false
		}
	}
	return false
}

// omitFaults leaves out as many faults as possible: first halves, then smaller parts, then single ones.
func (s *planShrinker) omitFaults() (changed bool) {
	for size := (len(s.best.Plan.Faults) + 1) / 2; size >= 1; size /= 2 {
		for i := 0; i < len(s.best.Plan.Faults) && s.hasTime(); {
			if s.tryPlan(func(p *Plan) { p.Faults = slices.Delete(p.Faults, i, min(i+size, len(p.Faults))) }) {
				changed = true
			} else {
				i += size
			}
		}
	}
	return changed
}

// trySingleFaults tries each fault without the others, at each process, and for as long as the longest fault. The
// others may only have caused that the fault strikes the right process, such as the holder of a lock, and for long
// enough.
func (s *planShrinker) trySingleFaults() bool {
	faults, longest := s.best.Plan.Faults, time.Duration(0)
	if len(faults) < 2 {
		return false
	}
	for _, f := range faults {
		longest = max(longest, f.Lasts)
	}
	for _, f := range faults {
		lasts, processes := []time.Duration{f.Lasts, longest}, 1
		if f.Kind.strikesProcess() {
			processes = max(s.best.Replicas, 1)
		}
		for f.Process = range processes {
			for _, f.Lasts = range lasts {
				if s.tryPlan(func(p *Plan) { p.Faults = []Fault{f} }) {
					return true
				}
			}
		}
	}
	return false
}

// omitReplicas leaves out processes, from the end, but keeps one of each name. A fault's process counts modulo
// their number, so name reduces it first.
func (s *planShrinker) omitReplicas() (changed bool) {
	for s.hasTime() {
		n := s.best.Replicas
		if n < 2 || !slices.Contains(actorRoles(s.best.Actors[:n-1]), actorRoles(s.best.Actors)[n-1]) ||
			!s.tryPlan(func(p *Plan) {
				p.reduceProcesses(n)
				p.Replicas = n - 1
			}) {
			return changed
		}
		changed = true
	}
	return changed
}

// actorRoles are the actors' names without their numbers.
func actorRoles(actors []string) (names []string) {
	for _, a := range actors {
		names = append(names, a[:strings.LastIndexByte(a, '-')])
	}
	return names
}

// reduceProcesses reduces the Process of each fault to the number of the process that it strikes.
func (p *Plan) reduceProcesses(replicas int) {
	for i := range p.Faults {
		if p.Faults[i].Process %= max(replicas, 1); !p.Faults[i].Kind.strikesProcess() {
			p.Faults[i].Process = 0
		}
	}
}

func (s *planShrinker) omitServers() (changed bool) {
	for _, n := range []int{1, 3} {
		if n < s.best.Plan.Members && s.tryPlan(func(p *Plan) {
			p.Members = n
			for i := range p.Faults {
				p.Faults[i].Member %= n
				p.Faults[i].Other %= n
			}
			if n == 1 {
				p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool { return f.Kind.needsPeers() })
			}
		}) {
			changed = true
		}
	}
	still := func(p *Plan) bool { return p.Lag == 0 && p.PeerDelay == 0 && p.Pace == 0 }
	if !still(s.best.Plan) && s.tryPlan(func(p *Plan) { p.Lag, p.PeerDelay, p.Pace = 0, 0, 0 }) {
		changed = true
	}
	return changed
}

// roundTimes makes faults earlier, their times round, and Trouble as short as they need.
func (s *planShrinker) roundTimes() (changed bool) {
	if len(s.best.Plan.Faults) > 0 {
		for first := s.best.Plan.Faults[0].At; first > 2*time.Second; first /= 2 {
			sooner := first - first/2
			if !s.tryPlan(func(p *Plan) {
				for i := range p.Faults {
					p.Faults[i].At -= sooner
				}
			}) {
				break
			}
			changed = true
		}
	}
	for i := range s.best.Plan.Faults {
		f := s.best.Plan.Faults[i]
		round := f
		round.At, round.Lasts, round.Delay = roundDuration(f.At), roundDuration(f.Lasts), roundDuration(f.Delay)
		if round != f && s.tryPlan(func(p *Plan) { p.Faults[i] = round }) {
			changed = true
		}
	}
	if end := roundDuration(s.best.Plan.endTime() + time.Second); end < s.best.Plan.Trouble &&
		s.tryPlan(func(p *Plan) { p.Trouble = end }) {
		changed = true
	}
	return changed
}

// roundDuration rounds a duration to one or two digits.
func roundDuration(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(5 * time.Second)
	case d >= time.Second:
		return d.Round(time.Second)
	case d >= 100*time.Millisecond:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}
