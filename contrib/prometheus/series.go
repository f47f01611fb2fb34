package curatorprom

import (
	"context"
	"path"
	"strings"
	"sync"

	"github.com/go-curator/curator/framework"
)

// place is the path of a lock that a client waits for or holds.
type place struct{ client, path string }

// series are the gauges with these labels. Those without a recipe are about the directory.
type series struct{ client, recipe, label string }

// standing counts the users of the series by path: they are removed after the last acquisition or hold of their
// paths. Otherwise a process that takes a lock for each order would keep the series of all orders for ever.
type standing struct {
	mu    sync.Mutex
	count map[place]int                 // acquisitions and holds; guarded by mu
	told  map[place]map[series]struct{} // guarded by mu
	of    map[series]int                // how many places have set it; guarded by mu
}

func (s *standing) init() {
	s.count, s.told, s.of = map[place]int{}, map[place]map[series]struct{}{}, map[series]int{}
}

// enter begins an acquisition or a hold.
func (s *standing) enter(at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[at]++
}

// leave ends it, and calls remove for the series that have become unused.
func (s *standing) leave(at place, remove func(series)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[at]--; s.count[at] > 0 {
		return
	}
	for one := range s.told[at] {
		if s.of[one]--; s.of[one] == 0 {
			delete(s.of, one)
			remove(one)
		}
	}
	delete(s.count, at)
	delete(s.told, at)
}

// tell calls set if the client waits in that line or holds its lock; the series are removed after the wait and the
// hold. The line is in the directory of the lock, or directly below it.
func (s *standing) tell(client, dir string, set func(), all ...series) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{client, dir}
	if s.count[at] == 0 {
		at.path = path.Dir(dir)
	}
	if s.count[at] == 0 {
		return
	}
	for _, one := range all {
		if _, known := s.told[at][one]; !known {
			if s.told[at] == nil {
				s.told[at] = map[series]struct{}{}
			}
			s.told[at][one] = struct{}{}
			s.of[one]++
		}
	}
	set()
}

// granted calls set for the series of a recipe there, and of its line if that has a separate name, as a semaphore's.
func (s *standing) granted(at place, recipe string, set func(series)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.told[at] {
		if one.recipe == recipe || one.recipe == recipe+"-line" {
			set(one)
		}
	}
}

// acquisition has the state of an acquisition for its waits and its hold; it is in their context.
type acquisition struct {
	at   place
	wait wait
}

// contains reports whether a path is at the place or below it.
func (p place) contains(path string) bool {
	below, in := strings.CutPrefix(path, p.path)
	return in && (below == "" || below[0] == '/')
}

type acquisitionKey struct{ c *Collector }

// acquiring keeps the series of a lock until the acquisition ends.
func (c *Collector) acquiring(ctx context.Context, client string,
	a framework.Acquisition) (inner context.Context, over func(error)) {
	begun := &acquisition{place{client, a.Path}, wait{kind: c.kindOf(client, a.Recipe, a.Path)}}
	inner = context.WithValue(ctx, acquisitionKey{c}, begun)
	if c.paths == nil {
		return inner, func(error) {}
	}
	c.standing.enter(begun.at)
	return inner, func(err error) {
		if err == nil {
			c.standing.granted(begun.at, a.Recipe, func(s series) {
				c.ahead.WithLabelValues(s.client, s.recipe, s.label).Set(0)
			})
		}
		c.standing.leave(begun.at, c.remove)
	}
}

// holding keeps them until the hold ends, and collects its age until then.
func (c *Collector) holding(ctx context.Context, client string, h framework.HoldInfo) (over func()) {
	a, found := ctx.Value(acquisitionKey{c}).(*acquisition)
	if !found {
		return c.present.holding(c.kindOf(client, h.Recipe, path.Dir(h.Path)))
	}
	k := kind{client, h.Recipe, a.wait.label}
	if !a.at.contains(h.Path) { // the acquisition is of an outer lock
		k = c.kindOf(client, h.Recipe, path.Dir(h.Path))
	}
	ended := c.present.holding(k)
	if c.paths == nil {
		return ended
	}
	c.standing.enter(a.at)
	return func() {
		ended()
		c.standing.leave(a.at, c.remove)
	}
}

func (c *Collector) remove(s series) {
	if s.recipe == "" {
		c.foreign.DeleteLabelValues(s.client, s.label)
		c.left.DeleteLabelValues(s.client, s.label)
		return
	}
	c.ahead.DeleteLabelValues(s.client, s.recipe, s.label)
	c.length.DeleteLabelValues(s.client, s.recipe, s.label)
}

// seen records a list of the line. The function given to WithPaths is called without a lock.
func (c *Collector) seen(client string, q framework.Queue) {
	if c.paths == nil {
		return
	}
	label := printable(c.paths(q.Path))
	if label == "" {
		return
	}
	c.standing.tell(client, q.Path, func() {
		c.ahead.WithLabelValues(client, q.Recipe, label).Set(float64(q.Ahead))
		c.length.WithLabelValues(client, q.Recipe, label).Set(float64(q.Length))
		c.foreign.WithLabelValues(client, label).Set(float64(q.Foreign))
		c.left.WithLabelValues(client, label).Set(float64(q.SequenceLeft))
	}, series{client, q.Recipe, label}, series{client, "", label})
}
