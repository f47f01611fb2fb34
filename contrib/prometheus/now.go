package curatorprom

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-curator/curator/framework"
)

// ageSeries identifies a series of the gauges of ages, whose value is the age of the oldest wait or hold of the series.
// label is the label of the path; "" without [WithPaths].
type ageSeries struct{ client, recipe, label string }

// wait has the waits of an acquisition, one after the other. Their age counts from the first wait with the same node.
type wait struct {
	ageSeries
	node    string    // of the acquisition in the line
	since   time.Time // when it began to wait with this node
	running int       // the number of waits that have not ended
}

// lineNode identifies a contender's node; no later node has its name.
type lineNode struct{ client, dir, node string }

// hold is a hold that has not ended.
type hold struct {
	ageSeries
	since time.Time
}

// currentAges has the waits and holds that have not ended.
type currentAges struct {
	mu    sync.Mutex
	waits map[*wait]struct{} // guarded by mu, and so are the fields of each
	holds map[*hold]struct{} // guarded by mu
	// ownerless has the waits that belong to no acquisition: those of a goroutine of a Cohort or Readers, which
	// acquires for all its callers. Each is removed when that goroutine's attempt has ended.
	ownerless map[lineNode]*wait // guarded by mu
}

func (p *currentAges) init() {
	p.waits, p.holds, p.ownerless = map[*wait]struct{}{}, map[*hold]struct{}{}, map[lineNode]*wait{}
}

// ownerlessWait returns the wait of a node that belongs to no acquisition. ctx, the hook's context, ends with the
// goroutine's attempt. Its type may be the user's, so its methods are called without the lock.
func (p *currentAges) ownerlessWait(ctx context.Context, s lineNode, series ageSeries) *wait {
	ends := ctx.Done() != nil // without an end the wait could never be removed
	p.mu.Lock()
	w, known := p.ownerless[s]
	if !known {
		w = &wait{ageSeries: series}
	}
	if ends {
		p.ownerless[s] = w
	}
	p.mu.Unlock()
	if ends && !known {
		context.AfterFunc(ctx, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.ownerless, s)
		})
	}
	return w
}

// beginWait is called when the acquisition of w begins to wait for a predecessor, and end when that wait ends.
func (p *currentAges) beginWait(w *wait, node string) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.node != node || w.since.IsZero() {
		w.node, w.since = node, time.Now()
	}
	w.running++
	p.waits[w] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.running--; w.running == 0 {
			delete(p.waits, w)
		}
	}
}

func (p *currentAges) beginHold(series ageSeries) (end func()) {
	h := &hold{series, time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[h] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.holds, h)
	}
}

// oldest returns when the oldest wait and the oldest hold of each series began.
func (p *currentAges) oldest() (waits, holds map[ageSeries]time.Time) {
	waits, holds = map[ageSeries]time.Time{}, map[ageSeries]time.Time{}
	keepOlder := func(all map[ageSeries]time.Time, series ageSeries, since time.Time) {
		if first, known := all[series]; !known || since.Before(first) {
			all[series] = since
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.waits {
		keepOlder(waits, w.ageSeries, w.since)
	}
	for h := range p.holds {
		keepOlder(holds, h.ageSeries, h.since)
	}
	return waits, holds
}

// ageDescs returns the descriptions of the gauges of ages.
func ageDescs(paths bool) (longestWait, oldestHold *prometheus.Desc) {
	by := []string{"recipe"}
	if paths {
		by = append(by, "path")
	}
	return desc("longest_wait_seconds", "How long the waiter that has waited longest has waited so far.", by...),
		desc("oldest_hold_seconds", "How long the oldest of the present holds has lasted so far.", by...)
}

// collectAges sends the gauges of ages to ch.
func (c *Collector) collectAges(ch chan<- prometheus.Metric) {
	waits, holds := c.ages.oldest()
	send := func(d *prometheus.Desc, all map[ageSeries]time.Time) {
		for series, since := range all {
			by := []string{series.client, series.recipe}
			if c.paths != nil {
				if series.label == "" {
					continue // the directory is left out, see WithPaths
				}
				by = append(by, series.label)
			}
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, time.Since(since).Seconds(), by...)
		}
	}
	send(c.longestWait, waits)
	send(c.oldestHold, holds)
}

// ageSeriesOf returns the series of a lock. Call it without a lock: it calls the user's function, see [WithPaths].
func (c *Collector) ageSeriesOf(client, recipe, path string) ageSeries {
	series := ageSeries{client: client, recipe: recipe}
	if c.paths != nil {
		series.label = printable(c.paths(path))
	}
	return series
}

// waitOf returns the wait of the acquisition that ctx belongs to. If that acquisition is of another lock, or there is
// none, it returns the ownerless wait of the node.
func (c *Collector) waitOf(ctx context.Context, client string, q framework.Queue) *wait {
	if a, found := ctx.Value(acquisitionKey{c}).(*acquisition); found && a.lock.contains(q.Path) {
		return &a.wait
	}
	return c.ages.ownerlessWait(ctx, lineNode{client, q.Path, q.Node}, c.ageSeriesOf(client, q.Recipe, q.Path))
}
