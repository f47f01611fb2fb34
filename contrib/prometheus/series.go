package curatorprom

import (
	"context"
	"path"
	"strings"
	"sync"

	"github.com/go-curator/curator/framework"
)

// lockPath is the path of a lock that a client waits for or holds.
type lockPath struct{ client, path string }

// lineSeries identifies the series of a line's gauges: those with its recipe, or, if recipe is "", those of its
// directory.
type lineSeries struct{ client, recipe, label string }

// lineGauges counts the users of each lock, which are its acquisitions and holds, and removes the series of the lock
// after the last. Otherwise a process that takes a lock for each order would keep the series of all orders for ever.
type lineGauges struct {
	mu     sync.Mutex
	users  map[lockPath]int                     // guarded by mu
	series map[lockPath]map[lineSeries]struct{} // the series that are set for a lock; guarded by mu
	locks  map[lineSeries]int                   // the number of locks that have set the series; guarded by mu
}

func (g *lineGauges) init() {
	g.users, g.series, g.locks = map[lockPath]int{}, map[lockPath]map[lineSeries]struct{}{}, map[lineSeries]int{}
}

// addUser is called when an acquisition or a hold begins.
func (g *lineGauges) addUser(lock lockPath) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users[lock]++
}

// removeUser is called when an acquisition or a hold ends. It calls remove for the series that no lock uses any more.
func (g *lineGauges) removeUser(lock lockPath, remove func(lineSeries)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users[lock]--; g.users[lock] > 0 {
		return
	}
	for s := range g.series[lock] {
		if g.locks[s]--; g.locks[s] == 0 {
			delete(g.locks, s)
			remove(s)
		}
	}
	delete(g.users, lock)
	delete(g.series, lock)
}

// setSeries calls set, which sets the gauges of some series, if the lock of the line in dir has a user. The line is in
// the directory of the lock, or directly below it.
func (g *lineGauges) setSeries(client, dir string, set func(), all ...lineSeries) {
	g.mu.Lock()
	defer g.mu.Unlock()
	lock := lockPath{client, dir}
	if g.users[lock] == 0 {
		lock.path = path.Dir(dir)
	}
	if g.users[lock] == 0 {
		return
	}
	for _, s := range all {
		if _, known := g.series[lock][s]; !known {
			if g.series[lock] == nil {
				g.series[lock] = map[lineSeries]struct{}{}
			}
			g.series[lock][s] = struct{}{}
			g.locks[s]++
		}
	}
	set()
}

// eachSeries calls f for the series of a lock's recipe, and of its line if that has another name, as a semaphore's has.
func (g *lineGauges) eachSeries(lock lockPath, recipe string, f func(lineSeries)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.series[lock] {
		if s.recipe == recipe || s.recipe == recipe+"-line" {
			f(s)
		}
	}
}

// acquisition has the state that an acquisition shares with its waits and its hold. It is in their context.
type acquisition struct {
	lock lockPath
	wait wait
}

// contains reports whether a path is the lock's path or below it.
func (p lockPath) contains(path string) bool {
	below, in := strings.CutPrefix(path, p.path)
	return in && (below == "" || below[0] == '/')
}

// acquisitionKey is the context's key of an *acquisition.
type acquisitionKey struct{ c *Collector }

// beginAcquisition is called when an acquisition begins, and end when it ends. Until then the series of its lock stay.
func (c *Collector) beginAcquisition(ctx context.Context, client string,
	a framework.Acquisition) (inner context.Context, end func(error)) {
	begun := &acquisition{lockPath{client, a.Path}, wait{ageSeries: c.ageSeriesOf(client, a.Recipe, a.Path)}}
	inner = context.WithValue(ctx, acquisitionKey{c}, begun)
	if c.paths == nil {
		return inner, func(error) {}
	}
	c.lines.addUser(begun.lock)
	return inner, func(err error) {
		if err == nil { // the client holds the lock now
			c.lines.eachSeries(begun.lock, a.Recipe, func(s lineSeries) {
				c.ahead.WithLabelValues(s.client, s.recipe, s.label).Set(0)
			})
		}
		c.lines.removeUser(begun.lock, c.removeSeries)
	}
}

// beginHold is called when a hold begins, and end when it ends. Until then its age is collected, and the series of its
// lock stay.
func (c *Collector) beginHold(ctx context.Context, client string, h framework.HoldInfo) (end func()) {
	a, found := ctx.Value(acquisitionKey{c}).(*acquisition)
	if !found {
		return c.ages.beginHold(c.ageSeriesOf(client, h.Recipe, path.Dir(h.Path)))
	}
	series := ageSeries{client, h.Recipe, a.wait.label}
	if !a.lock.contains(h.Path) { // the acquisition is of another lock, under which this one was acquired
		series = c.ageSeriesOf(client, h.Recipe, path.Dir(h.Path))
	}
	endAge := c.ages.beginHold(series)
	if c.paths == nil {
		return endAge
	}
	c.lines.addUser(a.lock)
	return func() {
		endAge()
		c.lines.removeUser(a.lock, c.removeSeries)
	}
}

func (c *Collector) removeSeries(s lineSeries) {
	if s.recipe == "" {
		c.foreign.DeleteLabelValues(s.client, s.label)
		c.sequenceLeft.DeleteLabelValues(s.client, s.label)
		return
	}
	c.ahead.DeleteLabelValues(s.client, s.recipe, s.label)
	c.length.DeleteLabelValues(s.client, s.recipe, s.label)
}

// recordLine sets the gauges of a line that was listed. It calls the function given to WithPaths without a lock.
func (c *Collector) recordLine(client string, q framework.Queue) {
	if c.paths == nil {
		return
	}
	label := printable(c.paths(q.Path))
	if label == "" {
		return
	}
	c.lines.setSeries(client, q.Path, func() {
		c.ahead.WithLabelValues(client, q.Recipe, label).Set(float64(q.Ahead))
		c.length.WithLabelValues(client, q.Recipe, label).Set(float64(q.Length))
		c.foreign.WithLabelValues(client, label).Set(float64(q.Foreign))
		c.sequenceLeft.WithLabelValues(client, label).Set(float64(q.SequenceLeft))
	}, lineSeries{client, q.Recipe, label}, lineSeries{client, "", label})
}
