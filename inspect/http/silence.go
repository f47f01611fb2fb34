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

// reportedSessions has the connections of sessions that the servers have reported.
type reportedSessions struct {
	inspect.Connected
	repliedAt time.Time      // of the answer
	existing  map[int64]bool // sessions of participants that existed before the request
}

// askConnections asks the servers. It ends with ctx, or when they have answered, or not in time.
func (p *Page) askConnections(ctx context.Context, g inspect.Graph) reportedSessions {
	t := reportedSessions{existing: map[int64]bool{}}
	for _, l := range g.Lines {
		for _, part := range slices.Concat(l.Holders, l.Waiting) {
			t.existing[part.Session] = true
		}
	}
	connected, err := inspect.Connections(ctx, p.client)
	if t.repliedAt = time.Now(); err == nil {
		t.Connected = connected
	}
	return t
}

// nextRequest returns when to ask again.
func (t reportedSessions) nextRequest() time.Time {
	if len(t.By) == 0 && t.Missing != "" {
		return t.repliedAt.Add(askRarely)
	}
	return t.repliedAt.Add(askOften)
}

// dropOutdated returns what still counts.
func (t reportedSessions) dropOutdated(now time.Time) reportedSessions {
	if now.Sub(t.repliedAt) > answerCounts {
		t.By = nil
	}
	return t
}

// silentSince returns since when a participant's session has been silent, the zero time if that is less than half of its
// timeout, and whether the session has no connection. Both are zero if the servers have not reported enough for an
// answer.
func (t reportedSessions) silentSince(p inspect.Participant) (since time.Time, away bool) {
	switch c, found := t.By[p.Session]; {
	case found && c.Timeout > 0 && c.Silent > c.Timeout/2: // as inspect.Silent
		return t.repliedAt.Add(-c.Silent).Round(time.Second), false
	case !found && t.By != nil && t.Missing == "" && t.existing[p.Session] && p.Session != 0:
		return time.Time{}, true
	}
	return time.Time{}, false
}
