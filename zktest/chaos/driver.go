package chaos

import (
	"cmp"
	"slices"
	"testing/synctest"
	"time"
)

// driver is the state of the goroutine that plays a plan.
type driver struct {
	coverage map[string]int
	acts     []act
	now      time.Duration // of the present act
}

// act is the beginning or the end of a fault.
type act struct {
	at time.Duration
	do func()
}

// torment plays the plan's faults, and makes the checks of World.Always after each fault and each second.
func (w *World) torment() {
	for _, f := range w.plan.Faults {
		w.acts = append(w.acts, act{f.At, func() {
			w.tell("faults", "%s", w.described(f))
			w.cover(f)
			if undo := w.inject(f); undo != nil {
				w.later(f.Lasts, func() {
					w.tell("faults", "end of: %s", w.described(f))
					undo()
				})
			}
		}})
	}
	end := max(w.plan.Trouble, w.plan.end())
	looks := slices.ContainsFunc(w.checks, func(c check) bool { return c.when == always })
	for len(w.acts) > 0 || w.Elapsed() < end {
		slices.SortStableFunc(w.acts, func(a, b act) int { return cmp.Compare(a.at, b.at) })
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
			w.look(always)
		}
	}
}

// later schedules do at d after the present act, at the end of the faults' time at the latest.
func (w *World) later(d time.Duration, do func()) { w.acts = append(w.acts, act{w.now + d, do}) }

// heal undoes all faults that can be undone, and waits for the processes that start again.
func (w *World) heal() {
	w.ops.heal()
	w.starting.Wait()
}

// settle waits until the checks of World.Eventually succeed, for the plan's Patience at most.
func (w *World) settle() {
	limit := w.Elapsed() + w.plan.Patience
	for {
		late := w.look(always, eventually)
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

// stopAll asks all processes to stop, and waits for them.
func (w *World) stopAll() {
	for _, s := range w.slots {
		s.now().end(ErrStopped)
	}
	limit := time.After(w.plan.Patience)
	for _, s := range w.slots {
		select {
		case <-s.now().done:
		case <-limit:
			w.stuck(s.now())
		}
	}
	synctest.Wait()
}

// described describes a fault with the name of the process that it strikes.
func (w *World) described(f Fault) string {
	names := make([]string, len(w.slots))
	for i, s := range w.slots {
		names[i] = s.name
	}
	return f.among(names)
}
