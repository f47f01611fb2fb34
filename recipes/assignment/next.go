package assignment

import (
	"maps"
	"slices"
	"time"
)

// planUpdate is a member's next action on the plan.
type planUpdate struct {
	// owners is the plan to write, after the plan has not fitted for the delay; nil: nothing to write.
	owners map[string]string
	delay  time.Duration
	// requestMet reports whether the plan has the list of items to set.
	requestMet bool
}

// maxDelayedRanks is the number of members that write one after the other, a settle time apart; all others come last,
// together.
const maxDelayedRanks = 4

// nextUpdate decides the action of the member self: a pure function of the view, the last plan that the member has
// read, and the list of items that it has to set, if any. A member that is not in the group does nothing. The first
// member to have joined writes first; the others write later, in case it does not.
func nextUpdate(
	v treeView, self string, w *itemsRequest, known map[string]string, settle time.Duration,
) (s planUpdate) {
	rank := slices.IndexFunc(v.members, func(m groupMember) bool { return m.id == self })
	before := v.owners
	if before == nil {
		before = known
	}
	if rank < 0 || before == nil && w == nil {
		return s
	}
	items := slices.Collect(maps.Keys(before))
	if s.delay = settle; w != nil {
		items = w.items
	}
	if w == nil || w.initialItems { // otherwise no other member has this list
		s.delay += settle * time.Duration(min(rank, maxDelayedRanks))
	}
	owners := sharePlan(v.members, items, before)
	if v.owners != nil && maps.Equal(owners, v.owners) {
		return planUpdate{requestMet: w != nil}
	}
	s.owners = owners
	return s
}
