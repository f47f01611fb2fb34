package inspecthttp

import (
	"errors"
	"slices"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
)

const (
	// mostLines are sent, and mostShown participants of them all; at least leastShown and at most mostOfLine
	// holders, and as many waiters, of one line.
	mostLines, mostShown, mostOfLine, leastShown = 1000, 5000, 100, 5
	// mostFree bounds the remembered lines without participants, mostGrants the grants of each line.
	mostFree, mostGrants = 200, 20
	// mostCircles bounds the possible deadlocks that are sent, mostRing the edges of each.
	mostCircles, mostRing = 10, 20
	// mostNotes bounds the notes of one line that are sent, mostForeign its foreign names.
	mostNotes, mostForeign = 10, 5
)

// screenModel converts the graph of one moment into a screen, and keeps the history. It has no side effects: it reads no
// clock and sends nothing.
type screenModel struct {
	began  time.Time
	loaded bool
	last   int // the last id that was given to a line
	lines  map[string]*lineHistory
	rings  ringWatcher
}

// lineHistory is the history of a line.
type lineHistory struct {
	id        int
	kind      inspect.Kind
	holders   map[holdIdentity]int // the number of each current holder's grant, counted from the line's first
	count     int                  // of all grants
	grants    []grantView          // the last ones
	idleSince time.Time            // since when it has no participants; zero while it has some
}

// holdIdentity identifies a hold: the node's name and the transaction that created it.
type holdIdentity struct {
	name  string
	czxid int64
}

func newScreenModel(now time.Time) *screenModel {
	return &screenModel{began: now, lines: map[string]*lineHistory{}}
}

// pageScreen is the page's content at one moment.
type pageScreen struct {
	head    headView
	lines   []lineView
	targets map[shownNode]string // the paths of the nodes that may be deleted
}

// shownNode is a participant as viewers name it: the line's id, and the node's czxid.
type shownNode struct {
	line  int
	czxid int64
}

// headView is the part above the lines. Times are milliseconds since 1970.
type headView struct {
	Since   int64  `json:"since"`             // when the page began to watch
	Loading int    `json:"loading,omitempty"` // how many nodes are known so far, plus 1; 0 if all are
	Problem string `json:"problem,omitempty"` // why nothing can be shown
	Stopped string `json:"stopped,omitempty"` // why not everything is
	Missing string `json:"untold,omitempty"`  // why it may not be known which participants are silent
	// Lines counts all lines, Unsent those of them that are not sent, Held the lines with a holder, Waiting the
	// waiting participants.
	Lines   int `json:"lines"`
	Unsent  int `json:"unsent,omitempty"`
	Held    int `json:"held"`
	Waiting int `json:"waiting"`

	Unreadable      []string     `json:"unreadable,omitempty"`
	UnreadableCount int          `json:"unreadableCount,omitempty"`
	Circles         []circleView `json:"circles,omitempty"`
}

// circleView is a possible deadlock.
type circleView struct {
	Edges []edgeView `json:"edges"`
	More  int        `json:"more,omitempty"`
}

type edgeView struct {
	Line   int             `json:"line,omitempty"`
	Path   string          `json:"path"`
	Waiter participantView `json:"waiter"`
	Ahead  participantView `json:"ahead"`
}

type lineView struct {
	ID      int               `json:"id"`
	Path    string            `json:"path"`
	Kind    inspect.Kind      `json:"kind"`
	Holders []participantView `json:"holders,omitempty"`
	Waiting []participantView `json:"waiting,omitempty"`
	// Held and Waits count all, also the participants that are not in Holders and Waiting.
	Held    int         `json:"held"`
	Waits   int         `json:"waits"`
	Max     int         `json:"max,omitempty"`
	Foreign int         `json:"foreign,omitempty"`
	Names   []string    `json:"names,omitempty"` // of some foreign children
	Notes   []string    `json:"notes,omitempty"`
	Grants  []grantView `json:"grants,omitempty"` // the last one last
	Free    int64       `json:"free,omitempty"`   // since when it has no participants
}

type participantView struct {
	Key         int64           `json:"key,string"` // the node's czxid, 0 if unknown
	Name        string          `json:"name"`
	Session     string          `json:"session,omitempty"`
	Data        string          `json:"data,omitempty"`
	Length      int             `json:"length,omitempty"` // of data that are not shown
	Library     inspect.Library `json:"library,omitempty"`
	Reader      bool            `json:"reader,omitempty"`
	Revoked     bool            `json:"revoked,omitempty"`
	Since       int64           `json:"since,omitempty"`
	Error       string          `json:"error,omitempty"`
	SilentSince int64           `json:"heard,omitempty"` // since when its session is silent
	Away        bool            `json:"away,omitempty"`  // its session has no connection
}

// grantView is a hold: Seen is the time when it was seen first, and Ended when it no longer existed; 0 if it still
// does. Before is set if it existed when the page began to watch.
type grantView struct {
	Who    participantView `json:"who"`
	Seen   int64           `json:"seen"`
	Before bool            `json:"before,omitempty"`
	Ended  int64           `json:"ended,omitempty"`
}

// errorScreen returns the screen for an error.
func (m *screenModel) errorScreen(err error, p cache.Progress) pageScreen {
	m.rings = ringWatcher{} // the rings seen so far may not last
	head := headView{Since: m.began.UnixMilli()}
	switch m.loaded = m.loaded || p.Synced; {
	case errors.Is(err, framework.ErrNoNode) && !m.loaded:
		head.Loading = p.Known + 1
	case errors.Is(err, framework.ErrNoNode):
		head.Problem = "The node does not exist. The page continues when it is created."
	case errors.Is(err, framework.ErrNoAuth):
		head.Problem = "This client has no permission to read this node. " +
			"Give its credentials to the client, or choose another root."
	default:
		head.Problem = shownText(err.Error(), 500)
	}
	return pageScreen{head: head}
}

// nextScreen returns the screen for a graph. New holds are grants; the holds of the first complete graph began at some
// earlier time.
func (m *screenModel) nextScreen(g inspect.Graph, p cache.Progress, t reportedSessions, now time.Time) pageScreen {
	first := !m.loaded
	m.loaded = m.loaded || p.Synced
	s := pageScreen{targets: map[shownNode]string{}}
	s.head = headView{Since: m.began.UnixMilli(), Lines: len(g.Lines), Stopped: shownText(g.Stopped, 500),
		UnreadableCount: g.UnreadableCount,
		Missing:         shownText(t.Missing, 300)}
	if !m.loaded {
		s.head.Loading = p.Known + 1
	}
	for _, path := range g.Unreadable {
		s.head.Unreadable = append(s.head.Unreadable, shownText(path, 300))
	}
	for _, l := range g.Lines {
		if len(l.Holders) > 0 {
			s.head.Held++
		}
		s.head.Waiting += len(l.Waiting) + l.More
	}
	sent := g.Lines[:min(len(g.Lines), mostLines)]
	s.head.Unsent = len(g.Lines) - len(sent)
	shown := mostOfLine
	if len(sent) > 0 {
		shown = max(leastShown, min(mostOfLine, mostShown/len(sent)))
	}
	there := map[string]bool{} // the lines of g, by path: whether they are sent
	for i, l := range g.Lines {
		there[l.Path] = i < len(sent)
	}
	for _, l := range sent {
		r := m.lines[l.Path]
		if r == nil {
			m.last++
			r = &lineHistory{id: m.last, holders: map[holdIdentity]int{}}
			m.lines[l.Path] = r
		}
		r.kind, r.idleSince = l.Kind, time.Time{}
		r.recordHolders(l, first, now)
		v := m.viewLine(l, r, t, shown)
		for _, part := range slices.Concat(l.Holders[:len(v.Holders)], l.Waiting[:len(v.Waiting)]) {
			if part.Token != 0 {
				s.targets[shownNode{r.id, part.Token}] = part.Path
			}
		}
		s.lines = append(s.lines, v)
	}
	s.lines = append(s.lines, m.viewFreeLines(there, now)...)
	circles := m.rings.lastingCircles(g, now)
	for _, circle := range circles[:min(len(circles), mostCircles)] {
		c := circleView{More: max(0, len(circle)-mostRing)}
		for _, e := range circle[:min(len(circle), mostRing)] {
			edge := edgeView{Path: shownText(e.Path, 300), Waiter: viewParticipant(e.Waiter), Ahead: viewParticipant(e.Ahead)}
			if r := m.lines[e.Path]; r != nil {
				edge.Line = r.id
			}
			c.Edges = append(c.Edges, edge)
		}
		s.head.Circles = append(s.head.Circles, c)
	}
	return s
}

// viewLine returns a line with its participants, as many as may be shown.
func (m *screenModel) viewLine(l inspect.Line, r *lineHistory, t reportedSessions, shown int) lineView {
	v := lineView{ID: r.id, Path: shownText(l.Path, 300), Kind: l.Kind, Held: len(l.Holders),
		Waits: len(l.Waiting) + l.More, Max: l.Max, Foreign: l.ForeignCount, Grants: slices.Clone(r.grants)}
	for _, p := range l.Holders[:min(len(l.Holders), shown)] {
		v.Holders = append(v.Holders, t.viewWithSession(p))
	}
	for _, p := range l.Waiting[:min(len(l.Waiting), shown)] {
		v.Waiting = append(v.Waiting, t.viewWithSession(p))
	}
	for _, name := range l.Foreign[:min(len(l.Foreign), mostForeign)] {
		v.Names = append(v.Names, shownText(name, 200))
	}
	for _, note := range l.Notes[:min(len(l.Notes), mostNotes)] {
		v.Notes = append(v.Notes, shownText(note, 400))
	}
	return v
}

// viewFreeLines remembers the lines that have no participants any more, and returns the last of them.
func (m *screenModel) viewFreeLines(there map[string]bool, now time.Time) (views []lineView) {
	type gone struct {
		path string
		*lineHistory
	}
	var all []gone
	for path, r := range m.lines {
		switch sent, taken := there[path]; {
		case sent:
			continue
		case taken:
			delete(m.lines, path) // it is not sent
			continue
		}
		if r.idleSince.IsZero() {
			r.idleSince = now
			r.recordHolders(inspect.Line{Kind: r.kind}, false, now)
		}
		all = append(all, gone{path, r})
	}
	slices.SortFunc(all, func(a, b gone) int {
		if c := b.idleSince.Compare(a.idleSince); c != 0 {
			return c
		}
		return b.id - a.id
	})
	for i, r := range all {
		if i >= mostFree || !recordsGrants(r.kind) {
			delete(m.lines, r.path)
			continue
		}
		views = append(views, lineView{ID: r.id, Path: shownText(r.path, 300), Kind: r.kind,
			Grants: slices.Clone(r.grants), Free: r.idleSince.UnixMilli()})
	}
	return views
}

// recordsGrants reports whether a hold of a line of this kind is a grant.
func recordsGrants(k inspect.Kind) bool {
	return slices.Contains([]inspect.Kind{inspect.Mutex, inspect.ReadWriteLock, inspect.Latch, inspect.Semaphore}, k)
}

// recordHolders records the new holders, and the ends of earlier holds.
func (r *lineHistory) recordHolders(l inspect.Line, before bool, now time.Time) {
	if !recordsGrants(l.Kind) {
		return
	}
	holds := map[holdIdentity]bool{}
	for _, p := range l.Holders {
		h := holdIdentity{p.Name, p.Token}
		if holds[h] = true; r.holders[h] > 0 {
			continue
		}
		r.count++
		r.holders[h] = r.count
		r.grants = append(r.grants, grantView{Who: viewParticipant(p), Seen: now.UnixMilli(), Before: before})
	}
	if over := len(r.grants) - mostGrants; over > 0 {
		r.grants = slices.Clone(r.grants[over:])
	}
	for h, number := range r.holders {
		if holds[h] {
			continue
		}
		if i := len(r.grants) - 1 - (r.count - number); i >= 0 {
			r.grants[i].Ended = now.UnixMilli()
		}
		delete(r.holders, h)
	}
}
