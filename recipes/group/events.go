package group

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/recipes/internal/line"
)

// EventType is the type of an [Event].
type EventType int8

const (
	// Joined means that Member has joined.
	Joined EventType = iota + 1
	// Left means that Member, as last read, is gone.
	Left
	// Changed means that the data of Member were set.
	Changed
	// Current means that all changes until now have been reported.
	Current
	// Outdated means that the reported members are not current any more: the connection is lost. Until the next
	// Current other members may have joined or left.
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
	Member Info // for Joined, Left and Changed
}

// String returns a printable text: unprintable characters, in names that others have chosen, are escaped.
func (e Event) String() string {
	if e.Type == Current || e.Type == Outdated {
		return e.Type.String()
	}
	return plain.Text(e.Member.ID) + " " + e.Type.String()
}

// Follow yields events, in order: first Joined for every known member, and Current if they are current, and then
// every change that was read, until the loop is left or ctx ends. Applied to an empty set they make the set of
// members. A member that has left and joined again, also without a connection, is reported as both. (A member that
// joined and left between two reads cannot be reported.) The group does not wait for the loop: events that the loop
// has not taken yet are kept.
//
// The last yield may be an error: ctx's, framework.ErrClosed, or cache.ErrClosed after Close.
func (g *Group) Follow(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := line.CheckCall(ctx, g.client, nil); err != nil {
			yield(Event{}, g.wrapError("follow", err))
			return
		}
		events := flow.NewQueue[Event]()
		g.addFollower(events)
		defer g.removeFollower(events)
		for {
			g.mu.Lock()
			endedErr, changed := g.endedErr, g.changed.C()
			g.mu.Unlock()
			for _, event := range events.Take() {
				if !yield(event, nil) {
					return
				}
			}
			if endedErr == nil && ctx.Err() != nil {
				endedErr = g.client.WaitError(ctx, nil)
			}
			if endedErr != nil {
				yield(Event{}, g.wrapError("follow", endedErr))
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

func (g *Group) addFollower(events *flow.Queue[Event]) {
	g.update()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, event := range eventsBetween(nil, g.members) {
		events.Put(event)
	}
	if g.current {
		events.Put(Event{Type: Current})
	}
	g.followers[events] = struct{}{}
}

func (g *Group) removeFollower(events *flow.Queue[Event]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.followers, events)
}

func (g *Group) wrapError(verb string, err error) error {
	return line.WrapError("group", g.path, verb, err)
}

// eventsBetween returns the events from one set of members to another: first those that left, then those that joined,
// in order, and then changed data.
func eventsBetween(before, after []Info) (events []Event) {
	newByID, oldByID := map[string]Info{}, map[string]Info{}
	for _, m := range after {
		newByID[m.ID] = m
	}
	for _, m := range before {
		if oldByID[m.ID] = m; newByID[m.ID].Czxid != m.Czxid {
			events = append(events, Event{Left, m})
		}
	}
	var changed []Event
	for _, m := range after {
		switch old, known := oldByID[m.ID]; {
		case !known || old.Czxid != m.Czxid:
			events = append(events, Event{Joined, m})
		case old.mzxid != m.mzxid:
			changed = append(changed, Event{Changed, m})
		}
	}
	return append(events, changed...)
}
