package line_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/golden"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

var (
	mutexOrder = line.Order{Names: []string{"lock-"}}
	writeOrder = line.Order{Names: []string{"__READ__", "__WRIT__"}}
	mixedOrder = line.Order{Names: []string{"lock-"}, Foreign: func(name string) bool { return name[0] != 'x' }}
	readOrder  = line.Order{Names: []string{"__READ__", "__WRIT__"}, Blockers: "__WRIT__"}
)

// node returns a contender's name as Curator writes it; the letter stands for the client.
func node(client rune, kind string, number int) string {
	return fmt.Sprintf("_c_%s-%s%010d", strings.Repeat(string(client), 8)+"-1111-4111-8111-111111111111", kind,
		number)
}

func TestDecide(t *testing.T) {
	own := node('a', "lock-", 7)
	for _, c := range []struct {
		name     string
		order    line.Order
		own      string
		children []string
		want     line.Decision
	}{
		{"alone", mutexOrder, own, []string{own}, line.Decision{Verdict: line.Granted}},
		{"first of three", mutexOrder, own, []string{node('b', "lock-", 9), own, node('c', "lock-", 8)},
			line.Decision{Verdict: line.Granted}},
		{
			"one ahead", mutexOrder, own,
			[]string{own, node('b', "lock-", 3)},
			line.Decision{Verdict: line.Wait, Predecessor: node('b', "lock-", 3), Ahead: 1, OnlyAhead: true, OrderAgreed: true},
		},
		{
			"contenders with other names", mixedOrder, own,
			[]string{"0000000005", own, "x-0000000001", "k__lock__0000000006", "k__lock__0000000008", "n"},
			line.Decision{Verdict: line.Wait, Predecessor: "k__lock__0000000006", Ahead: 2, NonContender: "x-0000000001"},
		},
		{
			"only contenders with other names", mixedOrder, own,
			[]string{"0000000005", own, "k__lock__0000000006"},
			line.Decision{Verdict: line.Wait, Predecessor: "k__lock__0000000006", Ahead: 2},
		},
		{
			"a contender with another name comes later", mixedOrder, own, []string{"0000000008", own},
			line.Decision{Verdict: line.Granted},
		},
		{
			"the nearest of two, whatever the UUID", mutexOrder, own,
			[]string{node('f', "lock-", 5), own, node('0', "lock-", 6)},
			line.Decision{Verdict: line.Wait, Predecessor: node('0', "lock-", 6), Ahead: 2, OrderAgreed: true},
		},
		{
			"three ahead", mutexOrder, own,
			[]string{node('f', "lock-", 5), own, node('0', "lock-", 6), node('2', "lock-", 1)},
			line.Decision{Verdict: line.Wait, Predecessor: node('0', "lock-", 6), Ahead: 3, OrderAgreed: true},
		},
		{
			"three ahead, the nearest listed first", mutexOrder, own,
			[]string{node('0', "lock-", 6), node('2', "lock-", 1), node('f', "lock-", 5), own},
			line.Decision{Verdict: line.Wait, Predecessor: node('0', "lock-", 6), Ahead: 3, OrderAgreed: true},
		},
		{
			"equal numbers ahead: of two that are first neither is", mutexOrder, own,
			[]string{node('f', "lock-", 5), own, node('0', "lock-", 5), node('2', "lock-", 6)},
			line.Decision{Verdict: line.Wait, Predecessor: node('2', "lock-", 6), Ahead: 3},
		},
		{
			"equal numbers directly ahead", mutexOrder, own,
			[]string{node('f', "lock-", 5), own, node('0', "lock-", 6), node('2', "lock-", 6)},
			line.Decision{Verdict: line.Wait, Predecessor: node('2', "lock-", 6), Ahead: 3},
		},
		{"own node not in the list", mutexOrder, own, []string{node('b', "lock-", 3)},
			line.Decision{Verdict: line.Missing}},
		{"nothing in the list", mutexOrder, own, nil, line.Decision{Verdict: line.Missing}},
		{
			"a foreign child ahead blocks Java, not us", mutexOrder, own,
			[]string{"0", own, "zzz"},
			line.Decision{Verdict: line.Granted, NonContender: "0", NonContenderAhead: true},
		},
		{
			"a foreign child behind the line", mutexOrder, own,
			[]string{"config", own, node('b', "lock-", 3)},
			line.Decision{Verdict: line.Wait, Predecessor: node('b', "lock-", 3), Ahead: 1, NonContender: "config"},
		},
		{
			"kazoo's names are foreign", mutexOrder, own,
			[]string{own, "0123456789abcdef0123456789abcdef__lock__0000000001"},
			line.Decision{Verdict: line.Granted, NonContender: "0123456789abcdef0123456789abcdef__lock__0000000001"},
		},
		{
			"go-zookeeper's names are contenders", mutexOrder, own,
			[]string{own, "_c_0123456789abcdef0123456789abcdef-lock-0000000002"},
			line.Decision{Verdict: line.Wait, Predecessor: "_c_0123456789abcdef0123456789abcdef-lock-0000000002",
				Ahead: 1, OnlyAhead: true, OrderAgreed: true},
		},
		{
			"a contender without a number: Java waits, so do we, and we look again", mutexOrder, own,
			[]string{own, "lock-"},
			line.Decision{Verdict: line.Wait, Predecessor: "lock-", Ahead: 1},
		},
		{
			"a contender with a name sorting behind", mutexOrder, own,
			[]string{own, "lock-x", node('b', "lock-", 3)},
			line.Decision{Verdict: line.Wait, Predecessor: node('b', "lock-", 3), Ahead: 1},
		},
		{
			"equal numbers: as listed", mutexOrder, own,
			[]string{node('b', "lock-", 7), own},
			line.Decision{Verdict: line.Wait, Predecessor: node('b', "lock-", 7), Ahead: 1, OnlyAhead: true},
		},
		{"equal numbers: own listed first", mutexOrder, own, []string{own, node('b', "lock-", 7)},
			line.Decision{Verdict: line.Granted}},
		{"last number that is accepted", mutexOrder, node('a', "lock-", line.SequenceLimit-1),
			[]string{node('a', "lock-", line.SequenceLimit-1)}, line.Decision{Verdict: line.Granted}},
		{"first number that is refused", mutexOrder, node('a', "lock-", line.SequenceLimit),
			[]string{node('a', "lock-", line.SequenceLimit)}, line.Decision{Verdict: line.Exhausted}},
		{"the end of the counter", mutexOrder, node('a', "lock-", math.MaxInt32), nil,
			line.Decision{Verdict: line.Exhausted}},
		{"beyond the end", mutexOrder, node('a', "lock-", math.MinInt32), nil,
			line.Decision{Verdict: line.Exhausted}},
		{"minus one", mutexOrder, node('a', "lock-", -1), nil, line.Decision{Verdict: line.Exhausted}},
		{"no number at all", mutexOrder, "lock-", []string{"lock-"}, line.Decision{Verdict: line.Exhausted}},

		{
			"a writer waits for readers too, and never without a list", writeOrder, node('a', "__WRIT__", 7),
			[]string{node('a', "__WRIT__", 7), node('b', "__READ__", 3)},
			line.Decision{Verdict: line.Wait, Predecessor: node('b', "__READ__", 3), Ahead: 1},
		},
		{
			"a downgraded reader beside its own writer: both are ahead", writeOrder, node('a', "__WRIT__", 7),
			[]string{node('b', "__READ__", 3), node('c', "__WRIT__", 3), node('a', "__WRIT__", 7)},
			line.Decision{Verdict: line.Wait, Predecessor: node('c', "__WRIT__", 3), Ahead: 2},
		},
		{
			"a reader passes readers", readOrder, node('a', "__READ__", 7),
			[]string{node('b', "__READ__", 3), node('a', "__READ__", 7), node('c', "__WRIT__", 9)},
			line.Decision{Verdict: line.Granted},
		},
		{
			"a reader waits for the nearest writer ahead", readOrder, node('a', "__READ__", 7),
			[]string{node('b', "__WRIT__", 3), node('c', "__READ__", 6), node('d', "__WRIT__", 5),
				node('a', "__READ__", 7)},
			line.Decision{Verdict: line.Wait, Predecessor: node('d', "__WRIT__", 5), Ahead: 2},
		},
		{
			"a reader with the digits of its own writer", readOrder, node('a', "__READ__", 7),
			[]string{node('a', "__WRIT__", 7), node('a', "__READ__", 7)},
			line.Decision{Verdict: line.Granted},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, c.order.Decide(c.own, c.children))
		})
	}
}

// Decide for each list of up to two other children, in any order, and of three with the own node last. The children represent all
// kinds of children.
func TestDecisions(t *testing.T) {
	type child struct{ name, node string } // name is the child's name in the table
	locks := []child{
		{"3", node('b', "lock-", 3)}, {"3c", node('c', "lock-", 3)}, {"6", node('b', "lock-", 6)}, {"7", node('b', "lock-", 7)},
		{"9", node('b', "lock-", 9)}, {"noNumber", "lock-"}, {"odd", "lock-x"}, {"negative", "lock--000000001"},
		{"go-zookeeper", "_c_0123456789abcdef0123456789abcdef-lock-0000000002"}, {"0", "0"}, {"config", "config"},
		{"digits", "0000000005"}, {"x", "x-0000000001"}, {"kazoo", "k__lock__0000000006"},
	}
	both := []child{
		{"read3", node('b', "__READ__", 3)}, {"write3", node('c', "__WRIT__", 3)}, {"read6", node('b', "__READ__", 6)},
		{"write5", node('b', "__WRIT__", 5)}, {"read7", node('b', "__READ__", 7)}, {"write7", node('b', "__WRIT__", 7)},
		{"read9", node('b', "__READ__", 9)}, {"write9", node('b', "__WRIT__", 9)}, {"noNumber", "__READ__"}, {"odd", "__WRIT__x"},
		{"0", "0"}, {"config", "config"},
	}
	none := child{name: "-"}
	var table golden.Table
	for _, kind := range []struct {
		name   string
		order  line.Order
		own    string
		others []child
	}{
		{"mutex", mutexOrder, "lock-", locks}, {"mixed", mixedOrder, "lock-", slices.Concat(locks[:1], locks[2:6], locks[9:])},
		{"writer", writeOrder, "__WRIT__", both}, {"reader", readOrder, "__READ__", both},
	} {
		own := node('a', kind.own, 7)
		short := map[string]string{"": "none"}
		for _, c := range kind.others {
			short[c.node] = c.name
		}
		row := func(at int, others ...child) { // the own node is before the child with this index; -1: missing
			var names []string
			for i, c := range others {
				if i == at {
					names = append(names, own)
				}
				if c != none {
					names = append(names, c.node)
				}
			}
			if at == len(others) {
				names = append(names, own)
			}
			d := kind.order.Decide(own, names)
			text := d.Verdict.String()
			if d.Verdict == line.Wait {
				text += fmt.Sprintf(" for %s, %d ahead", short[d.Predecessor], d.Ahead)
			}
			if d.OnlyAhead {
				text += ", onlyAhead"
			}
			if d.OrderAgreed {
				text += ", orderAgreed"
			}
			if d.NonContender != "" {
				text += ", nonContender " + short[d.NonContender]
			}
			if d.NonContenderAhead {
				text += " ahead"
			}
			table.Row(fmt.Sprintf("%s, own %s", kind.name, [...]string{"missing", "first", "second", "third", "last"}[at+1]), text,
				"", others[0].name, "", others[1].name, "", others[2].name)
		}
		for i, a := range append([]child{none}, kind.others...) {
			for j, b := range append([]child{none}, kind.others...) {
				if a == b && a != none {
					continue
				}
				for at := -1; at <= 2; at++ {
					row(at, a, b, none)
				}
				for k, c := range append([]child{none}, kind.others...) {
					if i < j && j < k {
						row(3, a, b, c)
					}
				}
				table.Row(kind.name+", newcomer", short[kind.order.FirstBlocker(named(a.node, b.node))], "", a.name, "", b.name)
			}
		}
		for name, number := range map[string]int{"0": 0, "last": line.SequenceLimit - 1, "limit": line.SequenceLimit, "max": math.MaxInt32,
			"min": math.MinInt32, "-1": -1} {
			own := node('a', kind.own, number)
			table.Row(kind.name+", number", kind.order.Decide(own, []string{own}).Verdict.String(), "", name)
		}
		table.Row(kind.name+", number", kind.order.Decide(kind.own, []string{kind.own}).Verdict.String(), "", "none")
	}
	table.Compare(t, "decide")
}

// named returns the names that are not empty.
func named(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

func TestTaken(t *testing.T) {
	for _, c := range []struct {
		order    line.Order
		children []string
		want     string
	}{
		{mutexOrder, nil, ""},
		{mutexOrder, []string{"0", "config"}, ""},
		{mutexOrder, []string{node('b', "lock-", 4), node('c', "lock-", 3)}, node('c', "lock-", 3)},
		{mutexOrder, []string{"lock-"}, "lock-"},
		{mutexOrder, []string{"lock-info"}, ""},
		{readOrder, []string{node('b', "__READ__", 1)}, ""},
		{readOrder, []string{node('b', "__READ__", 1), node('c', "__WRIT__", 2)}, node('c', "__WRIT__", 2)},
		{writeOrder, []string{node('b', "__READ__", 1)}, node('b', "__READ__", 1)},
	} {
		assert.Equal(t, c.want, c.order.FirstBlocker(c.children), "%v", c.children)
	}
}

func TestContenders(t *testing.T) {
	assert.Equal(t, []string{node('f', "lock-", 1), node('0', "lock-", 2)},
		mutexOrder.Contenders([]string{"0", node('0', "lock-", 2), "zookeeper", node('f', "lock-", 1)}))
	number, ok := mutexOrder.SequenceNumber(node('f', "lock-", 41))
	assert.True(t, ok)
	assert.EqualValues(t, 41, number)
}

// For any names, Decide agrees with a slow implementation: sort all names as Java does, and look at those in front.
func FuzzDecide(f *testing.F) {
	f.Add(uint8(0), node('a', "lock-", 7), node('b', "lock-", 3)+"\n"+node('a', "lock-", 7)+"\n0")
	f.Add(uint8(1), node('a', "__WRIT__", 7), node('b', "__READ__", 7)+"\n"+node('a', "__WRIT__", 7)+"\nlock-")
	f.Add(uint8(2), node('a', "__READ__", 7),
		node('b', "__WRIT__", 7)+"\n"+node('a', "__READ__", 7)+"\nx__WRIT__")
	f.Add(uint8(0), "lock-2147483647", "lock-2147483647\nlock--000000001")
	orders := []line.Order{mutexOrder, writeOrder, readOrder}
	f.Fuzz(func(t *testing.T, which uint8, own, list string) {
		order := orders[int(which)%len(orders)]
		children := strings.Split(list, "\n")
		slices.Sort(children)
		children = slices.Compact(children) // names in a directory are unique
		d := order.Decide(own, children)
		order.FirstBlocker(children)

		sorted := slices.Clone(children)
		zkpath.Sort(sorted, order.Names...)
		at := slices.Index(sorted, own)
		number, ok := order.SequenceNumber(own)
		if !ok || number < 0 || number >= line.SequenceLimit {
			require.Equal(t, line.Exhausted, d.Verdict)
			return
		}
		if at < 0 {
			require.Equal(t, line.Missing, d.Verdict)
			return
		}
		blocks := func(name string) bool {
			if order.Blockers != "" {
				// a reader does not wait for equal digits
				tie := order.Decide(own, []string{name, own}).Verdict == line.Granted
				return strings.Contains(name, order.Blockers) && !tie
			}
			return slices.ContainsFunc(order.Names, func(n string) bool { return strings.Contains(name, n) })
		}
		var ahead []string
		for _, name := range sorted[:at] {
			if blocks(name) {
				ahead = append(ahead, name)
			}
		}
		require.Equal(t, len(ahead), d.Ahead)
		if len(ahead) == 0 {
			require.Equal(t, line.Granted, d.Verdict)
			return
		}
		require.Equal(t, line.Wait, d.Verdict)
		require.Equal(t, ahead[len(ahead)-1], d.Predecessor)
		if d.OnlyAhead { // then Java, too, finds exactly this one ahead
			require.Equal(t, []string{d.Predecessor}, sorted[:at])
		}
	})
}
