package assignment

import (
	"maps"
	"slices"
	"time"
)

// step is what a member should do about the plan.
type step struct {
	// owners is the plan to be written, if it has been missing for that time; nil: there is nothing to do.
	owners map[string]string
	after  time.Duration
	// granted says that the list of items that was to be set stands in the plan.
	granted bool
}

// turns is how many members write one after the other, a settle time apart; all others come last, together.
const turns = 4

// next decides what the member self should do: a pure function of what it sees, the plan that it has known
// last, and the list of items that it is to set, if any. A member that is not in the group does nothing. The
// one that has joined first writes first; the others come later, in case that it does not.
func next(v view, self string, w *wish, known map[string]string, settle time.Duration) (s step) {
	rank := slices.IndexFunc(v.members, func(m member) bool { return m.id == self })
	before := v.owners
	if before == nil {
		before = known
	}
	if rank < 0 || before == nil && w == nil {
		return s
	}
	items := slices.Collect(maps.Keys(before))
	if s.after = settle; w != nil {
		items = w.items
	}
	if w == nil || w.first { // else nobody but this member knows of it
		s.after += settle * time.Duration(min(rank, turns))
	}
	owners := share(v.members, items, before)
	if v.owners != nil && maps.Equal(owners, v.owners) {
		return step{granted: w != nil}
	}
	s.owners = owners
	return s
}
