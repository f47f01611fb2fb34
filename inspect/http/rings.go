package inspecthttp

import (
	"context"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
)

// leastRingAge is the time for which sessions must wait for each other before the ring is shown. Processes that lock in
// several goroutines are in a ring now and then, and it resolves itself.
const leastRingAge = 5 * time.Second

// ringWatcher separates lasting rings from passing ones, by comparing two graphs. The later one counts only if a reply
// of the servers proves that it is newer: without a connection the tree does not change.
type ringWatcher struct {
	earlier inspect.Graph // the rings that the next ones are compared with
	seenAt  time.Time     // when they were seen; zero if there was none then
	known   time.Time     // the tree is not older than this
	shown   inspect.Graph // the rings that were in two graphs, leastRingAge apart
}

// lastingCircles returns the circles of a graph that have lasted for leastRingAge.
func (r *ringWatcher) lastingCircles(g inspect.Graph, now time.Time) [][]inspect.Edge {
	switch {
	case len(g.Circles) == 0:
		*r = ringWatcher{}
		return nil
	case r.seenAt.IsZero():
		r.earlier, r.seenAt = g.Rings(), now
	case r.known.Sub(r.seenAt) >= leastRingAge:
		r.shown, r.earlier, r.seenAt = g.Lasting(r.earlier).Rings(), g.Rings(), now
	}
	return g.Lasting(r.shown).Circles
}

// needsProof reports whether a ring is old enough to be compared again, so that a sync has to be sent.
func (r *ringWatcher) needsProof(now time.Time) bool {
	return !r.seenAt.IsZero() && now.Sub(r.seenAt) >= leastRingAge
}

// setKnown records that the tree is not older than known.
func (r *ringWatcher) setKnown(known time.Time) { r.known = known }

// syncRequest is a sync to the servers. Events that they sent before its reply have reached the cache by then.
type syncRequest struct {
	pending *framework.Pending[struct{}] // nil without a sync in flight
	sentAt  time.Time
}

func (q *syncRequest) sendSync(ctx context.Context, client *framework.Client, root string) {
	if q.pending == nil {
		q.sentAt, q.pending = time.Now(), client.Sync().InBackground().ForPath(ctx, root)
	}
}

// isAnswered reports whether the cache is known not to be older than the sync request. It does not block.
func (q *syncRequest) isAnswered(ctx context.Context, nodes *cache.Cache) bool {
	if q.pending == nil {
		return false
	}
	select {
	case <-q.pending.Done():
	default:
		return false
	}
	_, err := q.pending.Wait(ctx)
	q.pending = nil
	return err == nil && nodes.Progress().Synced
}
