package chaos

import (
	"fmt"
	"maps"
	"slices"
	"testing/synctest"
	"time"
)

// checkTime is the time of a check.
type checkTime int

const (
	always checkTime = iota + 1
	eventually
	atRest
)

type scenarioCheck struct {
	name string
	when checkTime
	f    func() error
}

type checkFailure struct {
	name string
	err  error
}

// Always adds a check that must succeed at every quiescent moment, when all goroutines wait: f is called after each
// fault and each second, and after the last fault until the checks of Eventually succeed. It must not wait for
// anything.
func (w *World) Always(name string, f func() error) {
	w.checks = append(w.checks, scenarioCheck{name, always, f})
}

// Eventually adds a check that must succeed within [Config.Patience] after the faults, while the processes still run: f
// is called ten times a second until it returns nil.
func (w *World) Eventually(name string, f func() error) {
	w.checks = append(w.checks, scenarioCheck{name, eventually, f})
}

// AtRest adds a check that must succeed after the faults and after the checks of Eventually, while the processes still
// run: f is called once, before they are asked to stop. It may sleep.
func (w *World) AtRest(name string, f func() error) {
	w.checks = append(w.checks, scenarioCheck{name, atRest, f})
}

// Finally adds a check that must succeed at the end, when all processes have stopped and their sessions have ended.
func (w *World) Finally(name string, f func() error) {
	w.results = append(w.results, func() {
		if err := f(); err != nil {
			w.Violate(name, "%v", err)
		}
	})
}

// runChecks makes the checks of these kinds. A failure of an always or atRest check is a violation; failures of the
// others are returned.
func (w *World) runChecks(kinds ...checkTime) (late []checkFailure) {
	synctest.Wait()
	for i := range w.checks {
		c := &w.checks[i]
		for _, kind := range kinds {
			if c.when != kind || c.f == nil {
				continue
			}
			err := c.f()
			switch {
			case err == nil:
			case kind == always || kind == atRest:
				w.Violate(c.name, "%v", err)
				c.f = nil // once is enough
			default:
				late = append(late, checkFailure{c.name, err})
			}
		}
	}
	return late
}

// Progress is an act that a service repeats while no fault prevents it. Its methods are safe for concurrent use.
type Progress struct {
	w    *World
	made map[string]time.Duration
}

// Progress names an act that the service has to repeat: after the faults a process, whichever, must do it once more
// within [Config.Patience].
func (w *World) Progress(name string) *Progress { return w.progress(name, false) }

// ProgressOfEach names an act that every process has to do once more after the faults, within [Config.Patience].
func (w *World) ProgressOfEach(name string) *Progress { return w.progress(name, true) }

func (w *World) progress(name string, each bool) *Progress {
	m := &Progress{w: w, made: map[string]time.Duration{}}
	var calm time.Duration // the time of the first check
	w.Eventually(name, func() error {
		if calm == 0 {
			calm = w.Elapsed()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		late := 0
		for _, s := range w.slots {
			if m.made[s.name] < calm {
				late++
				if each {
					return fmt.Errorf(
						"no progress by %s, the last at %v",
						s.name,
						m.made[s.name].Round(time.Millisecond),
					)
				}
			}
		}
		if late > 0 && late == len(w.slots) {
			return fmt.Errorf(
				"no progress by anybody, the last at %v",
				slices.Max(append(slices.Collect(maps.Values(m.made)), 0)).Round(time.Millisecond),
			)
		}
		return nil
	})
	return m
}

// Made records that the process has made progress.
func (m *Progress) Made(p *Process) {
	if p.isKilled() {
		return
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.made[p.Name()] = m.w.Elapsed()
}

// SameAsTree returns an error if a copy of the nodes at and below a path, data by path, differs from the tree at the
// leader, or if there is no leader. It is meant for caches, in [World.Eventually].
func (w *World) SameAsTree(root string, copied map[string][]byte) error {
	leader := w.ens.Leader()
	if leader < 0 {
		return fmt.Errorf("there is no leader")
	}
	n := 0
	for path, node := range w.ens.Member(leader).Tree() {
		if path != root && !isBelow(path, root) {
			continue
		}
		n++
		data, there := copied[path]
		switch {
		case !there:
			return fmt.Errorf("%s is missing", path)
		case string(data) != string(node.Data):
			return fmt.Errorf("%s is %q instead of %q", path, data, node.Data)
		}
	}
	if n != len(copied) {
		return fmt.Errorf("%d nodes instead of %d", len(copied), n)
	}
	return nil
}

func isBelow(path, root string) bool {
	return root == "/" || len(path) > len(root) && path[:len(root)] == root && path[len(root)] == '/'
}
