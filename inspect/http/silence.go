package inspecthttp

import (
	"context"
	"slices"
	"time"

	"github.com/go-curator/curator/inspect"
)

// The servers are asked for their connections every askOften while there is a viewer, and every askRarely if they do
// not report them. An answer is used for answerCounts.
const askOften, askRarely, answerCounts = 5 * time.Second, time.Minute, 20 * time.Second

// told has the connections of sessions that the servers have reported.
type told struct {
	inspect.Connected
	at    time.Time      // of the answer
	known map[int64]bool // sessions of participants that existed before the request
}

// connections asks the servers. It ends with ctx, or when they have answered, or not in time.
func (p *Page) connections(ctx context.Context, g inspect.Graph) told {
	t := told{known: map[int64]bool{}}
	for _, l := range g.Lines {
		for _, part := range slices.Concat(l.Holders, l.Waiting) {
			t.known[part.Session] = true
		}
	}
	connected, err := inspect.Connections(ctx, p.client)
	if t.at = time.Now(); err == nil {
		t.Connected = connected
	}
	return t
}

// next returns when to ask again.
func (t told) next() time.Time {
	if len(t.By) == 0 && t.Missing != "" {
		return t.at.Add(askRarely)
	}
	return t.at.Add(askOften)
}

// current returns what still counts.
func (t told) current(now time.Time) told {
	if now.Sub(t.at) > answerCounts {
		t.By = nil
	}
	return t
}

// quiet returns since when a participant's session has been silent, the zero time if that is less than half of its
// timeout, and whether the session has no connection. Both are zero if the servers have not reported enough for an
// answer.
func (t told) quiet(p inspect.Participant) (since time.Time, away bool) {
	switch c, found := t.By[p.Session]; {
	case found && c.Timeout > 0 && c.Silent > c.Timeout/2: // as inspect.Silent
		return t.at.Add(-c.Silent).Round(time.Second), false
	case !found && t.By != nil && t.Missing == "" && t.known[p.Session] && p.Session != 0:
		return time.Time{}, true
	}
	return time.Time{}, false
}
