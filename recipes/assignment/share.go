package assignment

import (
	"cmp"
	"slices"
)

// member is one of those among whom the items are shared.
type member struct {
	id     string
	weight int64
	czxid  int64
}

// nobody is the owner of an item while no member takes any.
const nobody = ""

// share says which member is to have each of the items: a pure function of what the tree says, so that all
// members come to the same answer, whatever the order in which they are told.
//
//   - Every item has one owner, a member with a weight above 0. If there is none, nobody has any.
//   - A member has its part by weight, rounded down or up.
//   - No other such sharing takes fewer items away from the owners that they had.
//
// So a sharing for which the first two hold is not changed. Items that occur twice count once.
func share(members []member, items []string, owners map[string]string) map[string]string {
	members = inOrder(members)
	items = sorted(items)
	quotas := quotas(members, items, owners)
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
	// What is free goes round, one item to each: neighbours do not all go to one member.
	for len(free) > 0 {
		before := len(free)
		for _, m := range members {
			if len(free) > 0 && quotas[m.id] > 0 {
				quotas[m.id]--
				shared[free[0]], free = m.id, free[1:]
			}
		}
		if len(free) == before { // nobody takes any
			for _, item := range free {
				shared[item] = nobody
			}
			break
		}
	}
	return shared
}

// quotas says how many items each member is to have; together all, or none if all weights are 0. Those whose
// part is rounded up are above all those who have so many: it saves a move.
func quotas(members []member, items []string, owners map[string]string) map[string]int64 {
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
	var up []member
	for _, m := range members {
		part := int64(len(items)) * m.weight
		quotas[m.id] = part / total
		left -= part / total
		if rests[m.id] = part % total; rests[m.id] > 0 {
			up = append(up, m)
		}
	}
	more := func(m member) int { // 0 if it has more than its part rounded down
		if has[m.id] > quotas[m.id] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(up, func(a, b member) int {
		return cmp.Or(cmp.Compare(more(a), more(b)), cmp.Compare(rests[b.id], rests[a.id]))
	})
	for _, m := range up[:left] { // the rests add up to left times the total, and each is smaller than that
		quotas[m.id]++
	}
	return quotas
}

// inOrder sorts members as they have joined.
func inOrder(members []member) []member {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.czxid, b.czxid), cmp.Compare(a.id, b.id))
	})
	return members
}

// sorted returns the items in order, each once.
func sorted(items []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(items)))
}
