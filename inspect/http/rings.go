package inspecthttp

import (
	"context"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
)

// lasts is the time for which sessions must wait for each other before the ring is shown. Processes that lock in
// several goroutines are in a ring now and then, and it resolves itself.
const lasts = 5 * time.Second

// rings separates lasting rings from passing ones. Without a reply from the servers the tree looks the same every
// time, so a second look counts only if the tree is known to be newer.
type rings struct {
	seen  inspect.Graph // the rings that the next ones are compared with
	at    time.Time     // when they were seen; zero if there was none then
	known time.Time     // the tree is not older than this
	shown inspect.Graph // the rings that were there in two looks that far apart
}

// lasting are the circles of a graph that have been there for long enough, and still are.
func (r *rings) lasting(g inspect.Graph, now time.Time) [][]inspect.Edge {
	switch {
	case len(g.Circles) == 0:
		*r = rings{}
		return nil
	case r.at.IsZero():
		r.seen, r.at = g.Rings(), now
	case r.known.Sub(r.at) >= lasts:
		r.shown, r.seen, r.at = g.Lasting(r.seen).Rings(), g.Rings(), now
	}
	return g.Lasting(r.shown).Circles
}

// due reports whether there is a ring old enough to be looked at again.
func (r *rings) due(now time.Time) bool { return !r.at.IsZero() && now.Sub(r.at) >= lasts }

// confirm records that the tree is not older than known.
func (r *rings) confirm(known time.Time) { r.known = known }

// question is a sync to the servers. Events that they sent before its reply have reached the cache by then.
type question struct {
	pending *framework.Pending[struct{}] // nil without a sync in flight
	at      time.Time                    // when that was asked
}

func (q *question) ask(ctx context.Context, client *framework.Client, root string) {
	if q.pending == nil {
		q.at, q.pending = time.Now(), client.Sync().InBackground().ForPath(ctx, root)
	}
}

// answered reports whether the cache is known not to be older than the question. It does not block.
func (q *question) answered(ctx context.Context, nodes *cache.Cache) bool {
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
