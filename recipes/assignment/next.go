package assignment

import (
	"maps"
	"slices"
	"time"
)

// step is a member's next action on the plan.
type step struct {
	// owners is the plan to write, after the plan has not fitted for the time after; nil: nothing to write.
	owners map[string]string
	after  time.Duration
	// granted reports whether the plan has the list of items to set.
	granted bool
}

// turns is the number of members that write one after the other, a settle time apart; all others come last, together.
const turns = 4

// next decides the action of the member self: a pure function of the view, the last plan that the member has read,
// and the list of items that it has to set, if any. A member that is not in the group does nothing. The first member
// to have joined writes first; the others write later, in case it does not.
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
	if w == nil || w.first { // otherwise no other member has this list
		s.after += settle * time.Duration(min(rank, turns))
	}
	owners := share(v.members, items, before)
	if v.owners != nil && maps.Equal(owners, v.owners) {
		return step{granted: w != nil}
	}
	s.owners = owners
	return s
}
