package golden

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// decisions returns the table of a function of two circumstances, of which the second makes no difference.
func decisions(decide func(n int, odd, idle bool) string) *Table {
	t := &Table{}
	for n := range 3 {
		for _, idle := range []bool{false, true} {
			t.Row("f", decide(n, n%2 == 1, idle), "odd", n%2 == 1, "n", n, "idle", idle)
		}
	}
	return t
}

func TestOnlyWhatMattersIsListed(t *testing.T) {
	odd := func(_ int, odd, _ bool) string {
		if odd {
			return "go"
		}
		return "stay"
	}
	assert.Equal(t, "# 6 situations, each with the circumstances on which the decision depends.\n"+
		"f: !odd -> stay\nf: odd -> go\n", decisions(odd).text())
	assert.Contains(t, decisions(func(int, bool, bool) string { return "stay" }).text(), "\nf: -> stay\n")
}

// Functions that differ in one situation have different tables, and the difference names it.
func TestOneDifferentDecisionIsSeen(t *testing.T) {
	stay := func(int, bool, bool) string { return "stay" }
	for n := range 3 {
		for _, at := range []bool{false, true} {
			other := decisions(func(m int, _, idle bool) string {
				if m == n && idle == at {
					return "go"
				}
				return "stay"
			})
			assert.NotEmpty(t, difference(decisions(stay).text(), other.text()))
		}
	}
	assert.Equal(t, "- b\n+ c", difference("a\nb\nd\n", "a\nc\nd\n"))
	assert.Empty(t, difference("a\nb\n", "a\nb\n"))
}

func TestASituationHasOneDecision(t *testing.T) {
	tb := &Table{}
	tb.Row("f", "stay", "n", 1)
	tb.Row("f", "stay", "n", 1)
	assert.Equal(t, 1, tb.count)
	assert.Panics(t, func() { tb.Row("f", "go", "n", 1) })
	assert.Panics(t, func() { tb.Row("f", "go", "m", 1) })
}
