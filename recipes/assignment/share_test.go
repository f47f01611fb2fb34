package assignment

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// team returns members with these weights, which have joined in this order: a, b, c, …
func team(weights ...int64) (members []groupMember) {
	for i, w := range weights {
		members = append(members, groupMember{string(rune('a' + i)), w, int64(100 + i)})
	}
	return members
}

func TestShare(t *testing.T) {
	had := func(pairs ...string) map[string]string {
		owners := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			owners[pairs[i]] = pairs[i+1]
		}
		return owners
	}
	for name, c := range map[string]struct {
		members []groupMember
		items   []string
		before  map[string]string
		want    map[string]string
	}{
		"nothing":            {team(1), nil, nil, had()},
		"one member":         {team(1), []string{"1", "2"}, nil, had("1", "a", "2", "a")},
		"no member":          {nil, []string{"1"}, had("1", "a"), had("1", "")},
		"nobody takes any":   {team(0, 0), []string{"1"}, had("1", "a"), had("1", "")},
		"in turn":            {team(1, 1), []string{"4", "3", "2", "1"}, nil, had("1", "a", "2", "b", "3", "a", "4", "b")},
		"twice in the list":  {team(1, 1), []string{"1", "1", "2"}, nil, had("1", "a", "2", "b")},
		"by weight":          {team(1, 2), []string{"1", "2", "3"}, nil, had("1", "a", "2", "b", "3", "b")},
		"one joins":          {team(1, 1), []string{"1", "2", "3", "4"}, had("1", "a", "2", "a", "3", "a", "4", "a"), had("1", "a", "2", "a", "3", "b", "4", "b")},
		"one leaves":         {team(1, 1), []string{"1", "2", "3", "4"}, had("1", "a", "2", "c", "3", "b", "4", "c"), had("1", "a", "2", "a", "3", "b", "4", "b")},
		"the odd one stays":  {team(1, 1), []string{"1", "2", "3"}, had("1", "b", "2", "b", "3", "a"), had("1", "b", "2", "b", "3", "a")},
		"a new item":         {team(1, 1), []string{"1", "2", "3"}, had("1", "b", "2", "a"), had("1", "b", "2", "a", "3", "a")},
		"an item is gone":    {team(1, 1), []string{"1", "2"}, had("1", "b", "2", "b", "3", "a"), had("1", "b", "2", "a")},
		"one takes no more":  {team(1, 0), []string{"1", "2"}, had("1", "b", "2", "a"), had("1", "a", "2", "a")},
		"fewer than members": {team(1, 1, 1), []string{"1"}, had("1", "c"), had("1", "c")},
	} {
		require.Equal(t, c.want, sharePlan(c.members, c.items, c.before), name)
	}
}

// parts returns the error in a sharing, or "". Each item must have one owner, whose weight is not 0, and each member must have
// its part by weight, rounded down or up.
func parts(members []groupMember, items []string, owners map[string]string) string {
	items = sortedItems(items)
	if !slices.Equal(items, slices.Sorted(maps.Keys(owners))) {
		return "not the items"
	}
	total, has := int64(0), map[string]int64{}
	for _, m := range members {
		total += m.weight
	}
	for _, item := range items {
		has[owners[item]]++
	}
	if total == 0 {
		if has[noOwner] != int64(len(items)) {
			return "a member that takes none has one"
		}
		return ""
	}
	for _, m := range members {
		part := int64(len(items)) * m.weight
		if low, high := part/total, (part+total-1)/total; has[m.id] < low || has[m.id] > high {
			return fmt.Sprintf("%s has %d instead of %d to %d", m.id, has[m.id], low, high)
		}
		delete(has, m.id)
	}
	if len(has) > 0 {
		return fmt.Sprintf("who is that: %v", has)
	}
	return ""
}

// moves returns the number of items that change owners.
func moves(before, after map[string]string) (n int) {
	for item, owner := range after {
		if before[item] != owner {
			n++
		}
	}
	return n
}

// fewest returns the smallest number of moves, from a search of all sharings.
func fewest(members []groupMember, items []string, before map[string]string) int {
	best, owners := len(items), map[string]string{}
	var try func(i int)
	try = func(i int) {
		if i == len(items) {
			if parts(members, items, owners) == "" {
				best = min(best, moves(before, owners))
			}
			return
		}
		for _, m := range members {
			owners[items[i]] = m.id
			try(i + 1)
		}
	}
	try(0)
	return best
}

// drawn returns random weights, items and earlier owners, some of which are gone.
func drawn(r *rand.Rand, mostMembers, mostItems int) (members []groupMember, items []string, before map[string]string) {
	weights := make([]int64, r.IntN(mostMembers+1))
	for i := range weights {
		weights[i] = []int64{0, 1, 1, 1, 2, 3, maxWeight}[r.IntN(7)]
	}
	members, before = team(weights...), map[string]string{}
	for i := range r.IntN(mostItems + 1) {
		items = append(items, fmt.Sprint("item-", i))
		if owner := r.IntN(mostMembers + 2); owner > 0 {
			before[items[i]] = string(rune('a' + owner - 1))
		}
	}
	return members, items, before
}

// Each item has one owner, each member its part, with the fewest moves, and a second sharing moves nothing. The order of members
// and items makes no difference.
func checkShare(t *testing.T, r *rand.Rand, members []groupMember, items []string, before map[string]string) map[string]string {
	t.Helper()
	after := sharePlan(members, items, before)
	about := fmt.Sprint(members, before, after)
	require.Empty(t, parts(members, items, after), about)
	require.Equal(t, after, sharePlan(members, items, after), "settled: %v", about)
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	require.Equal(t, after, sharePlan(members, items, before), "in another order: %v", about)
	return after
}

func TestShareMovesTheFewest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		members, items, before := drawn(r, 4, 5)
		after := checkShare(t, r, members, items, before)
		if slices.ContainsFunc(members, func(m groupMember) bool { return m.weight > 0 }) {
			require.Equal(t, fewest(members, items, before), moves(before, after), "%v %v %v", members, before, after)
		}
	}
}

// 1000 items are shared by ten members: one that joins gets its part, and nothing else moves; the same when it leaves.
func TestShareOfMany(t *testing.T) {
	var items []string
	for i := range 1000 {
		items = append(items, fmt.Sprint(i))
	}
	ten, eleven := team(slices.Repeat([]int64{1}, 10)...), team(slices.Repeat([]int64{1}, 11)...)
	before := sharePlan(ten, items, nil)
	after := sharePlan(eleven, items, before)
	require.Equal(t, 90, moves(before, after))
	require.Equal(t, 90, moves(after, sharePlan(ten, items, after)))
}

func FuzzShare(f *testing.F) {
	f.Add(uint64(1), uint8(10), uint16(100))
	f.Fuzz(func(t *testing.T, seed uint64, mostMembers uint8, mostItems uint16) {
		r := rand.New(rand.NewPCG(seed, 0))
		members, items, before := drawn(r, int(mostMembers%26), int(mostItems%2000))
		checkShare(t, r, members, items, before)
	})
}

// The size of a plan is as in the package's documentation.
func TestSizeOfAPlan(t *testing.T) {
	owners := map[string]string{}
	for i := range 70_000 {
		owners[fmt.Sprintf("shard-%05d", i)] = fmt.Sprint("member-", i%100)
	}
	require.Less(t, len(encodePlan(owners)), 1<<20-1000)
}
