package inspecthttp

import (
	"context"
	"slices"
	"time"

	"github.com/go-curator/curator/inspect"
)

// The servers' connections are requested every requestInterval while there is a viewer, and every rareRequestInterval if
// no server reports them. A reply is used for replyMaxAge.
const requestInterval, rareRequestInterval, replyMaxAge = 5 * time.Second, time.Minute, 20 * time.Second

// reportedSessions has the connections of sessions that the servers have reported.
type reportedSessions struct {
	inspect.Connected
	repliedAt time.Time
	existing  map[int64]bool // sessions of participants that existed before the request
}

// requestConnections calls inspect.Connections.
func (p *Page) requestConnections(ctx context.Context, g inspect.Graph) reportedSessions {
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

// nextRequest returns the time of the next request.
func (t reportedSessions) nextRequest() time.Time {
	if len(t.By) == 0 && t.Missing != "" {
		return t.repliedAt.Add(rareRequestInterval)
	}
	return t.repliedAt.Add(requestInterval)
}

// dropOutdated returns t without connections that are older than replyMaxAge.
func (t reportedSessions) dropOutdated(now time.Time) reportedSessions {
	if now.Sub(t.repliedAt) > replyMaxAge {
		t.By = nil
	}
	return t
}

// silentSince returns since when a participant's session has been silent, the zero time if that is less than half of its
// timeout, and whether the session has no connection. Both are zero if the servers have not reported enough.
func (t reportedSessions) silentSince(p inspect.Participant) (since time.Time, away bool) {
	switch c, found := t.By[p.Session]; {
	case found && c.Timeout > 0 && c.Silent > c.Timeout/2: // as inspect.Silent
		return t.repliedAt.Add(-c.Silent).Round(time.Second), false
	case !found && t.By != nil && t.Missing == "" && t.existing[p.Session] && p.Session != 0:
		return time.Time{}, true
	}
	return time.Time{}, false
}
