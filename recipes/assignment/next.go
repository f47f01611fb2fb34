package assignment

import (
	"maps"
	"slices"
	"time"
)

// planUpdate is a member's next action on the plan.
type planUpdate struct {
	// owners is the plan to write once the present plan has been unfit for delay; nil: nothing to write.
	owners map[string]string
	delay  time.Duration
	// requestMet reports whether the plan has the list of items to set.
	requestMet bool
}

// maxDelayedRanks is the number of members that write one after the other, a settle time apart; all others come last,
// together.
const maxDelayedRanks = 4

// nextUpdate decides the action of the member self: a pure function of the view, the request to set a list of items
// (nil: none), and the last plan that the member has read. A member that is not in the group does nothing. The member
// that joined first writes first; the others write later, in case it does not.
func nextUpdate(
	v treeView, self string, request *itemsRequest, lastPlan map[string]string, settle time.Duration,
) (u planUpdate) {
	rank := slices.IndexFunc(v.members, func(m groupMember) bool { return m.id == self })
	before := v.owners
	if before == nil {
		before = lastPlan
	}
	if rank < 0 || before == nil && request == nil {
		return u
	}
	items := slices.Collect(maps.Keys(before))
	if u.delay = settle; request != nil {
		items = request.items
	}
	if request == nil || request.initialItems { // otherwise no other member has this list
		u.delay += settle * time.Duration(min(rank, maxDelayedRanks))
	}
	owners := sharePlan(v.members, items, before)
	if v.owners != nil && maps.Equal(owners, v.owners) {
		return planUpdate{requestMet: request != nil}
	}
	u.owners = owners
	return u
}
