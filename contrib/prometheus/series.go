package curatorprom

import (
	"context"
	"path"
	"sync"

	"github.com/go-curator/curator/framework"
)

// place is where a client waits in line, or holds something: the path of the lock.
type place struct{ client, path string }

// series are the gauges with these labels. Those without a recipe are about the directory.
type series struct{ client, recipe, label string }

// standing knows which series by path are still needed: they are removed when the last acquisition or hold of
// their paths is over. Otherwise a process that takes a lock for each order would keep the series of all
// orders for ever.
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

// leave ends it, and calls remove for the series that are no longer needed.
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

// tell calls set if the client waits in that line or holds its lock; the series are removed when that is
// over. The line is in the directory of the lock, or directly below it.
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

// placeKey is the context key of an acquisition's place, for the hold that follows.
type placeKey struct{ c *Collector }

// acquiring keeps the series of a lock until the acquisition is over.
func (c *Collector) acquiring(ctx context.Context, client string,
	a framework.Acquisition) (inner context.Context, over func()) {
	if c.paths == nil {
		return nil, func() {}
	}
	at := place{client, a.Path}
	c.standing.enter(at)
	return context.WithValue(ctx, placeKey{c}, at), func() { c.standing.leave(at, c.remove) }
}

// holding keeps them until the hold is over.
func (c *Collector) holding(ctx context.Context) (over func()) {
	at, found := ctx.Value(placeKey{c}).(place)
	if !found {
		return func() {}
	}
	c.standing.enter(at)
	return func() { c.standing.leave(at, c.remove) }
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
	label := c.paths(q.Path)
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
