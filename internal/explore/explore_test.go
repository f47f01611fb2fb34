package explore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// jugs is a model with a known answer: the shortest way to four litres with jugs of three and five takes six steps.
type jugs struct{ three, five int }

func pour(s jugs, step func(string, jugs)) {
	step("fill three", jugs{3, s.five})
	step("fill five", jugs{s.three, 5})
	step("empty three", jugs{0, s.five})
	step("empty five", jugs{s.three, 0})
	n := min(s.three, 5-s.five)
	step("three into five", jugs{s.three - n, s.five + n})
	n = min(s.five, 3-s.three)
	step("five into three", jugs{s.three + n, s.five - n})
}

func TestTheShortestStoryIsTold(t *testing.T) {
	m := Model[jugs]{Start: []jugs{{}}, Next: pour, Wrong: func(s jugs) string {
		if s.five == 4 {
			return "four litres"
		}
		return ""
	}}
	r := m.Explore()
	assert.Equal(t, "four litres", r.Wrong)
	assert.Len(t, r.Story, 2*6+1)
	assert.Equal(t, []string{"    {three:0 five:0}", "fill five", "    {three:0 five:5}"}, r.Story[:3])
}

func TestEveryStateIsVisitedOnce(t *testing.T) {
	r := Model[jugs]{Start: []jugs{{}}, Next: pour}.Explore()
	assert.Equal(t, 16, r.States, "one jug is empty or full")
	assert.Equal(t, 6*16, r.Steps)
	assert.Empty(t, r.Wrong)
}

func TestARunThatCannotEnd(t *testing.T) {
	stuck := func(s int, step func(string, int)) {
		if s >= 0 && s < 5 {
			step("up", s+1)
			step("aside", -1)
		}
	}
	circles := func(s int, step func(string, int)) {
		stuck(s, step)
		if s < 0 {
			step("around", -3-s) // alternates between -1 and -2 for ever
		}
	}
	end := func(s int) bool { return s == 5 }
	for name, next := range map[string]func(int, func(string, int)){"stuck": stuck, "in circles": circles} {
		r := Model[int]{Start: []int{0}, Next: next, Final: end}.Explore()
		assert.Contains(t, r.Wrong, "no end", name)
		assert.Equal(t, []string{"    0", "aside", "    -1"}, r.Story, name)
	}
	r := Model[int]{Start: []int{0}, Next: func(s int, step func(string, int)) {
		if s < 5 {
			step("up", s+1)
		}
	}, Final: end}.Explore()
	assert.Empty(t, r.Wrong)
}

func TestAModelWithoutBounds(t *testing.T) {
	r := Model[int]{Start: []int{0}, Next: func(s int, step func(string, int)) {
		step(fmt.Sprint(s), s+1)
	}, Most: 100}.Explore()
	assert.Contains(t, r.Wrong, "no bounds")
}
