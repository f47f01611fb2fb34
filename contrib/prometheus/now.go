package curatorprom

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-curator/curator/framework"
)

// kind identifies a series of present waits or holds: its value is the age of the oldest. label is the path's; ""
// without [WithPaths].
type kind struct{ client, recipe, label string }

// wait is an acquisition that may stand in line.
type wait struct {
	kind
	node  string    // its place in line; another one has another node
	since time.Time // when it began to wait at that place
	now   int       // the number of its present waits
}

// spot is a place in line: its node has no namesake.
type spot struct{ client, dir, node string }

// hold is a present hold.
type hold struct {
	kind
	since time.Time
}

// present has the present waits and holds. Each is removed when it ends.
type present struct {
	mu    sync.Mutex
	waits map[*wait]struct{} // guarded by mu, and so are the fields of each
	holds map[*hold]struct{} // guarded by mu
	// ownerless has the waits without an acquisition: the node belongs to a goroutine of a Cohort or Readers that
	// acquires for all its callers. Each is removed when that goroutine has acquired, or gives up.
	ownerless map[spot]*wait // guarded by mu
}

func (p *present) init() {
	p.waits, p.holds, p.ownerless = map[*wait]struct{}{}, map[*hold]struct{}{}, map[spot]*wait{}
}

// at returns the wait without an acquisition at a place. ctx, the hook's context, ends with the goroutine's attempt;
// it may be implemented by the user, so its methods are called without the lock.
func (p *present) at(ctx context.Context, s spot, k kind) *wait {
	ends := ctx.Done() != nil // without an end the wait could never be removed
	p.mu.Lock()
	w, known := p.ownerless[s]
	if !known {
		w = &wait{kind: k}
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

// waiting is called when the acquisition w begins to wait for a predecessor, and over when that has left, or the wait
// has ended. The time is counted across waits, as long as the place is the same.
func (p *present) waiting(w *wait, node string) (over func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.node != node || w.since.IsZero() {
		w.node, w.since = node, time.Now()
	}
	w.now++
	p.waits[w] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.now--; w.now == 0 {
			delete(p.waits, w)
		}
	}
}

func (p *present) holding(k kind) (over func()) {
	h := &hold{k, time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[h] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.holds, h)
	}
}

// oldest returns when the oldest wait and the oldest hold of each kind began.
func (p *present) oldest() (waits, holds map[kind]time.Time) {
	waits, holds = map[kind]time.Time{}, map[kind]time.Time{}
	older := func(of map[kind]time.Time, k kind, since time.Time) {
		if first, known := of[k]; !known || since.Before(first) {
			of[k] = since
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.waits {
		older(waits, w.kind, w.since)
	}
	for h := range p.holds {
		older(holds, h.kind, h.since)
	}
	return waits, holds
}

// ages are the descriptions of the gauges that have their values from the clock.
func ages(paths bool) (longestWait, oldestHold *prometheus.Desc) {
	by := []string{"recipe"}
	if paths {
		by = append(by, "path")
	}
	return desc("longest_wait_seconds", "How long the one that has stood in line for the longest time has waited so far.", by...),
		desc("oldest_hold_seconds", "How long what has been held for the longest time has been held so far.", by...)
}

// collectAges reports the ages of the oldest present waits and holds.
func (c *Collector) collectAges(ch chan<- prometheus.Metric) {
	waits, holds := c.present.oldest()
	tell := func(d *prometheus.Desc, of map[kind]time.Time) {
		for k, since := range of {
			by := []string{k.client, k.recipe}
			if c.paths != nil {
				if k.label == "" {
					continue // left out
				}
				by = append(by, k.label)
			}
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, time.Since(since).Seconds(), by...)
		}
	}
	tell(c.longestWait, waits)
	tell(c.oldestHold, holds)
}

// kindOf is called without a lock, since the function given to [WithPaths] is.
func (c *Collector) kindOf(client, recipe, path string) kind {
	k := kind{client: client, recipe: recipe}
	if c.paths != nil {
		k.label = printable(c.paths(path))
	}
	return k
}

// waitOf is the acquisition that ctx belongs to, or, if that is of another lock or there is none, the wait at the place.
func (c *Collector) waitOf(ctx context.Context, client string, q framework.Queue) *wait {
	if a, found := ctx.Value(acquisitionKey{c}).(*acquisition); found && a.at.contains(q.Path) {
		return &a.wait
	}
	return c.present.at(ctx, spot{client, q.Path, q.Node}, c.kindOf(client, q.Recipe, q.Path))
}
