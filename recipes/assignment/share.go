package assignment

import (
	"cmp"
	"slices"
)

type groupMember struct {
	id     string
	weight int64
	czxid  int64
}

// noOwner is the owner of an item while no member accepts items.
const noOwner = ""

// sharePlan assigns each item to a member. It is a pure function of the tree's content, so that all members compute the
// same plan, in whatever order they receive the changes.
//
//   - Every item has one owner, a member with a weight above 0. Without such a member no item has an owner.
//   - A member has its share by weight, rounded down or up.
//   - No other such plan moves fewer items away from their owners.
//
// So a plan with the first two properties is not changed. Items that occur twice count once.
func sharePlan(members []groupMember, items []string, owners map[string]string) map[string]string {
	members = sortMembers(members)
	items = sortedItems(items)
	quotas := memberQuotas(members, items, owners)
	shared := make(map[string]string, len(items))
	var free []string
	for _, item := range items {
		if owner, had := owners[item]; had && quotas[owner] > 0 {
			quotas[owner]--
			shared[item] = owner
		} else {
			free = append(free, item)
		}
	}
	// Free items are dealt in turn, one to each member, so that neighbours do not all go to one member.
	for before := -1; len(free) != before; {
		before = len(free)
		for _, m := range members {
			if quotas[m.id] > 0 { // so an item is free: the quotas add up to all items
				quotas[m.id]--
				shared[free[0]], free = m.id, free[1:]
			}
		}
	}
	for _, item := range free { // no member accepts items
		shared[item] = noOwner
	}
	return shared
}

// memberQuotas returns the number of items for each member; they add up to all items, or to none if all weights are
// 0. The shares of members that already have more than theirs rounded down are rounded up first, which saves moves.
func memberQuotas(members []groupMember, items []string, owners map[string]string) map[string]int64 {
	var total int64
	for _, m := range members {
		total += m.weight
	}
	quotas := make(map[string]int64, len(members))
	if total == 0 {
		return quotas
	}
	has := map[string]int64{}
	for _, item := range items {
		has[owners[item]]++
	}
	left, rests := int64(len(items)), map[string]int64{}
	var up []groupMember
	for _, m := range members {
		part := int64(len(items)) * m.weight
		quotas[m.id] = part / total
		left -= part / total
		if rests[m.id] = part % total; rests[m.id] > 0 {
			up = append(up, m)
		}
	}
	more := func(m groupMember) int { // 0 if the member has more than its share rounded down
		if has[m.id] > quotas[m.id] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(up, func(a, b groupMember) int {
		return cmp.Or(cmp.Compare(more(a), more(b)), cmp.Compare(rests[b.id], rests[a.id]))
	})
	for _, m := range up[:left] { // the rests add up to left times the total, and each is smaller than the total
		quotas[m.id]++
	}
	return quotas
}

// sortMembers sorts members in the order of joining.
func sortMembers(members []groupMember) []groupMember {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b groupMember) int {
		return cmp.Or(cmp.Compare(a.czxid, b.czxid), cmp.Compare(a.id, b.id))
	})
	return members
}

// sortedItems returns the items in order, each once.
func sortedItems(items []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(items)))
}
