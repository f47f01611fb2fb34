package chaos

import (
	"cmp"
	"slices"
	"testing/synctest"
	"time"
)

// planDriver is the state of the goroutine that plays a plan.
type planDriver struct {
	coverage map[string]int
	acts     []faultStep
	now      time.Duration // of the present act
}

// faultStep is the beginning or the end of a fault.
type faultStep struct {
	at time.Duration
	do func()
}

// playFaults plays the plan's faults, and makes the checks of World.Always after each fault and each second.
func (w *World) playFaults() {
	for _, f := range w.plan.Faults {
		w.acts = append(w.acts, faultStep{f.At, func() {
			w.addToStory("faults", "%s", w.describeFault(f))
			w.countCoverage(f)
			if undo := w.injectFault(f); undo != nil {
				w.scheduleStep(f.Lasts, func() {
					w.addToStory("faults", "end of: %s", w.describeFault(f))
					undo()
				})
			}
		}})
	}
	end := max(w.plan.Trouble, w.plan.endTime())
	looks := slices.ContainsFunc(w.checks, func(c scenarioCheck) bool { return c.when == always })
	for len(w.acts) > 0 || w.Elapsed() < end {
		slices.SortStableFunc(w.acts, func(a, b faultStep) int { return cmp.Compare(a.at, b.at) })
		next := end
		if len(w.acts) > 0 {
			next = min(next, w.acts[0].at) // acts due after the end are made at the end
		}
		if looks {
			next = min(next, w.Elapsed().Truncate(time.Second)+time.Second)
		}
		time.Sleep(next - w.Elapsed())
		if len(w.acts) > 0 && (w.acts[0].at <= w.Elapsed() || w.Elapsed() >= end) {
			a := w.acts[0]
			w.acts = w.acts[1:]
			w.now = max(a.at, w.Elapsed())
			a.do()
		}
		if looks {
			w.runChecks(always)
		}
	}
}

// scheduleStep schedules do at d after the present act, at the end of the faults' time at the latest.
func (w *World) scheduleStep(d time.Duration, do func()) {
	w.acts = append(w.acts, faultStep{w.now + d, do})
}

// undoFaults undoes all faults that can be undone, and waits for the processes that start again.
func (w *World) undoFaults() {
	w.ops.undoFaults()
	w.starting.Wait()
}

// awaitChecks waits until the checks of World.Eventually succeed, for the plan's Patience at most.
func (w *World) awaitChecks() {
	limit := w.Elapsed() + w.plan.Patience
	for {
		late := w.runChecks(always, eventually)
		if len(late) == 0 {
			return
		}
		if w.Elapsed() >= limit {
			for _, c := range late {
				w.Violate(c.name, "not within %v after the last fault: %v", w.plan.Patience, c.err)
			}
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// stopProcesses asks all processes to stop, and waits for them.
func (w *World) stopProcesses() {
	for _, s := range w.slots {
		s.latestProcess().end(ErrStopped)
	}
	limit := time.After(w.plan.Patience)
	for _, s := range w.slots {
		select {
		case <-s.latestProcess().done:
		case <-limit:
			w.failStuck(s.latestProcess())
		}
	}
	synctest.Wait()
}

// describeFault describes a fault with the name of the process that it strikes.
func (w *World) describeFault(f Fault) string {
	names := make([]string, len(w.slots))
	for i, s := range w.slots {
		names[i] = s.name
	}
	return f.describeAmong(names)
}
