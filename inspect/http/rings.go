package inspecthttp

import (
	"context"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
)

// lasts is how long sessions wait for each other before it is shown. Processes that lock in several goroutines are
// in a ring now and then, and go on.
const lasts = 5 * time.Second

// rings tells those that last from those that pass. A tree that nobody has heard of since is the same in every look,
// so a second look counts only if it is known to be one.
type rings struct {
	seen  inspect.Graph // the rings that the next ones are compared with
	at    time.Time     // when they were seen; zero if there was none then
	known time.Time     // what is looked at is not older than this
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

// due says whether a ring is there of which it is not known yet whether it lasts.
func (r *rings) due(now time.Time) bool { return !r.at.IsZero() && now.Sub(r.at) >= lasts }

// confirm says that what is looked at from now on is not older than this.
func (r *rings) confirm(known time.Time) { r.known = known }

// question asks the servers whether there is news. What they have told before they answer, the cache has been told.
type question struct {
	pending *framework.Pending[struct{}] // nil if nothing is asked
	at      time.Time                    // when that was asked
}

func (q *question) ask(ctx context.Context, client *framework.Client, root string) {
	if q.pending == nil {
		q.at, q.pending = time.Now(), client.Sync().InBackground().ForPath(ctx, root)
	}
}

// answered says whether the cache is known not to be older than the question. It does not wait.
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
