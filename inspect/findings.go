package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/plain"
)

// Trouble is the kind of a [Finding].
type Trouble string

// Troubles.
const (
	// Deadlock: sessions wait for each other in a ring. It may be none: see [Graph.Circles].
	Deadlock Trouble = "possible deadlock"
	// Silent: a session that others wait for is near its expiry, since its process is silent.
	Silent Trouble = "silent"
	// Disconnected: a session that others wait for has no connection.
	Disconnected Trouble = "disconnected"
	// Revoking: a holder was asked to release, and still holds.
	Revoking Trouble = "revoking"
	// Strangers: there are foreign children.
	Strangers Trouble = "foreign children"
	// Unreadable: nodes that may not be read.
	Unreadable Trouble = "unreadable"
	// Wrong: what [Line.Notes] say, such as that sequence numbers are nearly used up.
	Wrong Trouble = "note"
	// Unseen: the search has not seen everything.
	Unseen Trouble = "unseen"
)

// Finding is something that may be why a line does not move.
type Finding struct {
	Trouble Trouble
	// Path is the line's, or the node's; for a deadlock, the path of its first edge.
	Path string
	// Text is a sentence for people. Unprintable characters in it are escaped.
	Text string
}

// String is the path and the text. Its form may change.
func (f Finding) String() string { return plain.Text(f.Path) + ": " + f.Text }

// Findings lists the possible reasons why lines do not move: first the possible deadlocks, then line by line, in
// their order, and at the end the nodes that could not be read. connected is the result of [Connections]; with the
// zero value nothing is known of the sessions. Of the graph of [Graph.Lasting] only the rings that last are listed.
// Findings sends no request.
func (g Graph) Findings(connected Connected) (all []Finding) {
	say := func(t Trouble, path, format string, args ...any) {
		all = append(all, Finding{t, path, fmt.Sprintf(format, args...)})
	}
	for _, ring := range g.Circles {
		var steps []string
		for _, e := range ring {
			steps = append(steps, e.String())
		}
		say(Deadlock, ring[0].Path, "%d sessions wait for each other: %s. They wait for ever if each holds and "+
			"waits in the same thread of work; a process that locks in several goroutines or threads can show this "+
			"without a deadlock", len(ring), strings.Join(steps, "; "))
	}
	for _, l := range g.Lines {
		l.lineFindings(connected, func(t Trouble, format string, args ...any) { say(t, l.Path, format, args...) })
	}
	for _, path := range g.Unreadable {
		say(Unreadable, path, "no permission to list the children: participants there are not shown")
	}
	if more := g.UnreadableCount - len(g.Unreadable); more > 0 {
		say(Unreadable, g.Unreadable[0], "and no permission to list %s", formatCount(more, "more node", "more nodes"))
	}
	if g.Stopped != "" && len(g.Lines) > 0 {
		say(Unseen, g.Lines[0].Path, "there may be more lines: %s", g.Stopped)
	}
	return all
}

func (l Line) lineFindings(connected Connected, say func(t Trouble, format string, args ...any)) {
	if len(l.Waiting) > 0 { // without a waiter the sessions do not matter
		for i, p := range slices.Concat(l.Holders, l.Waiting[:1]) {
			does := "holds"
			if i >= len(l.Holders) {
				does = "is next"
			}
			p.sessionFindings(connected, does, say)
			if i < len(l.Holders) && p.Revoked {
				say(Revoking, "%s was asked to release, and still holds", plain.Text(p.Name))
			}
		}
	}
	if l.ForeignCount > 0 {
		names := make([]string, len(l.Foreign))
		for i, name := range l.Foreign {
			names[i] = plain.Text(name)
		}
		more := ""
		if l.ForeignCount > len(names) {
			more = ", …"
		}
		say(Strangers, "%s: %s%s", formatCount(l.ForeignCount, "foreign child", "foreign children"), strings.Join(names, ", "), more)
	}
	hidden := 0
	for _, p := range slices.Concat(l.Holders, l.Waiting) {
		if p.Err != nil {
			hidden++
		}
	}
	if hidden > 0 {
		say(Unreadable, "no permission to read the data of %s", formatCount(hidden, "participant", "participants"))
	}
	for _, note := range l.Notes {
		say(Wrong, "%s", plain.Text(note))
	}
}

// sessionFindings reports problems of a participant's session, as far as the servers have reported them.
func (p Participant) sessionFindings(connected Connected, does string, say func(t Trouble, format string, args ...any)) {
	if p.Session == 0 || connected.By == nil {
		return
	}
	c, found := connected.By[p.Session]
	switch {
	case !found && connected.Missing == "":
		say(Disconnected, "%s %s, and its session %#x has no connection: unless its process reconnects, "+
			"the session expires within its timeout", plain.Text(p.Name), does, uint64(p.Session))
	case found && c.Timeout > 0 && c.Silent > c.Timeout/2:
		say(Silent, "%s %s, and its process at %s is silent: its session %#x has sent no request for %v, and "+
			"expires after %v", plain.Text(p.Name), does, plain.Text(c.Client), uint64(p.Session),
			c.Silent.Round(100*time.Millisecond), c.Timeout)
	}
}
