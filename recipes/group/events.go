package group

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/recipes/internal/line"
)

// EventType is what an [Event] reports.
type EventType int8

const (
	// Joined says that Member has joined.
	Joined EventType = iota + 1
	// Left says that Member, as it was last known, is gone.
	Left
	// Changed says that the data of Member were set.
	Changed
	// Current says that all that has happened until now has been told.
	Current
	// Outdated says that this is not so any more: there is no connection. Until the next Current others may
	// have come or gone.
	Outdated
)

func (t EventType) String() string {
	if t < Joined || t > Outdated {
		return fmt.Sprintf("EventType(%d)", int8(t))
	}
	return [...]string{"joined", "left", "changed", "current", "outdated"}[t-1]
}

// Event is one event of a group.
type Event struct {
	Type   EventType
	Member Info // of Joined, Left and Changed
}

// String returns a printable text: unprintable characters, in names that others have chosen, are escaped.
func (e Event) String() string {
	if e.Type == Current || e.Type == Outdated {
		return e.Type.String()
	}
	return plain.Text(e.Member.ID) + " " + e.Type.String()
}

// Follow yields what happens, in order: first Joined for every member that is known and Current, if that is
// so, and then every change that was read, until the loop is left or ctx ends. Applied to an empty set they
// make the set of members. A member that has left and joined again, also while there was no connection, is
// reported as both. (A member that came and went between two reads cannot be reported.) The group does not
// wait for the loop: what the loop has not taken yet is kept.
//
// An error is the last thing that is yielded: ctx's, framework.ErrClosed, or cache.ErrClosed after Close.
func (g *Group) Follow(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := line.Ready(ctx, g.client, nil); err != nil {
			yield(Event{}, g.wrap("follow", err))
			return
		}
		news := flow.NewQueue[Event]()
		g.follow(news)
		defer g.unfollow(news)
		for {
			g.mu.Lock()
			over, changed := g.over, g.changed.C()
			g.mu.Unlock()
			for _, event := range news.Take() {
				if !yield(event, nil) {
					return
				}
			}
			if over == nil && ctx.Err() != nil {
				over = g.client.Left(ctx, nil)
			}
			if over != nil {
				yield(Event{}, g.wrap("follow", over))
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

func (g *Group) follow(news *flow.Queue[Event]) {
	g.look()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, event := range difference(nil, g.members) {
		news.Put(event)
	}
	if g.current {
		news.Put(Event{Type: Current})
	}
	g.followers[news] = struct{}{}
}

func (g *Group) unfollow(news *flow.Queue[Event]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.followers, news)
}

func (g *Group) wrap(verb string, err error) error { return line.Wrap("group", g.path, verb, err) }

// difference is what leads from one set of members to another: first who has left, then who has joined, in
// order, and then whose data were set.
func difference(before, after []Info) (news []Event) {
	now, then := map[string]Info{}, map[string]Info{}
	for _, m := range after {
		now[m.ID] = m
	}
	for _, m := range before {
		if then[m.ID] = m; now[m.ID].Czxid != m.Czxid {
			news = append(news, Event{Left, m})
		}
	}
	var changed []Event
	for _, m := range after {
		switch old, known := then[m.ID]; {
		case !known || old.Czxid != m.Czxid:
			news = append(news, Event{Joined, m})
		case old.mzxid != m.mzxid:
			changed = append(changed, Event{Changed, m})
		}
	}
	return append(news, changed...)
}
