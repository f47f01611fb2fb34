package inspecthttp

import (
	"time"

	"github.com/go-curator/curator/inspect"
)

// lasts is how long sessions wait for each other before it is shown. Processes that lock in several goroutines are
// in a ring now and then, and go on.
const lasts = 5 * time.Second

// rings tells those that last from those that pass.
type rings struct {
	seen  inspect.Graph // the one that the next ones are compared with
	at    time.Time     // when it was seen; zero if there was no ring then
	shown inspect.Graph // what was there in two graphs that far apart
}

// lasting are the circles of a graph that have been there for long enough, and still are.
func (r *rings) lasting(g inspect.Graph, now time.Time) [][]inspect.Edge {
	switch {
	case len(g.Circles) == 0:
		*r = rings{}
		return nil
	case r.at.IsZero():
		r.seen, r.at = g, now
	case now.Sub(r.at) >= lasts:
		r.shown, r.seen, r.at = g.Lasting(r.seen), g, now
	}
	return g.Lasting(r.shown).Circles
}

// due says whether a ring is there of which it is not known yet whether it lasts.
func (r *rings) due(now time.Time) bool { return !r.at.IsZero() && now.Sub(r.at) >= lasts }
