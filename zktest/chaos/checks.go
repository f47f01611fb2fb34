package chaos

import (
	"fmt"
	"maps"
	"slices"
	"testing/synctest"
	"time"
)

// when is when a check is made.
type when int

const (
	always when = iota + 1
	eventually
	atRest
)

type check struct {
	name string
	when when
	f    func() error
}

type failure struct {
	name string
	err  error
}

// Always names something that holds at every quiescent moment, when all goroutines wait: f is called after
// each fault and each second, and until all has settled after the last. It must not wait for anything.
func (w *World) Always(name string, f func() error) {
	w.checks = append(w.checks, check{name, always, f})
}

// Eventually names something that comes true after the faults are over, within [Config.Patience], while the
// service goes on: f is asked ten times a second until it says nil.
func (w *World) Eventually(name string, f func() error) {
	w.checks = append(w.checks, check{name, eventually, f})
}

// AtRest names something that holds when the faults are over and what was to come true has come true, while
// the processes still run: f is called once, before they are asked to stop. It may sleep.
func (w *World) AtRest(name string, f func() error) {
	w.checks = append(w.checks, check{name, atRest, f})
}

// Finally names something that holds in the end, when all processes have stopped and their sessions are over.
func (w *World) Finally(name string, f func() error) {
	w.results = append(w.results, func() {
		if err := f(); err != nil {
			w.Violate(name, "%v", err)
		}
	})
}

// look makes the checks of these kinds. What always holds and does not is a violation; the others that fail
// are returned.
func (w *World) look(kinds ...when) (late []failure) {
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
				late = append(late, failure{c.name, err})
			}
		}
	}
	return late
}

// Progress is what a service does when all is well. Its methods are safe for concurrent use.
type Progress struct {
	w    *World
	made map[string]time.Duration
}

// Progress names something that the service has to go on doing: after the faults are over it must be made
// once more, by any process, within [Config.Patience].
func (w *World) Progress(name string) *Progress { return w.progress(name, false) }

// ProgressOfEach names something that every process has to go on doing, in the same way.
func (w *World) ProgressOfEach(name string) *Progress { return w.progress(name, true) }

func (w *World) progress(name string, each bool) *Progress {
	m := &Progress{w: w, made: map[string]time.Duration{}}
	var calm time.Duration // when it was looked at first
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

// Made says that the process has made progress.
func (m *Progress) Made(p *Process) {
	if p.killed() {
		return
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.made[p.Name()] = m.w.Elapsed()
}

// SameAsTree says how a copy of the nodes below a path, data by path, differs from the tree at the leader;
// nil if not at all. It is for [World.Eventually], and for caches.
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
