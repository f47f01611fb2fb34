package chance

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func draw() (all []int64) {
	for range 100 {
		all = append(all, N(int64(1000)))
	}
	order := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return append(all, order...)
}

func TestSeed(t *testing.T) {
	seeded := func(seed uint64) []int64 {
		defer Seed(seed)()
		return draw()
	}
	assert.Equal(t, seeded(7), seeded(7))
	assert.NotEqual(t, seeded(7), seeded(8))
	assert.NotEqual(t, draw(), draw(), "no seed any more")
}

func TestBounds(t *testing.T) {
	const d = time.Second
	for seed := range uint64(3) {
		end := func() {}
		if seed > 0 {
			end = Seed(seed)
		}
		least, most := UpTo(d), UpTo(d)
		for range 1000 {
			least, most = min(least, UpTo(d)), max(most, UpTo(d))
			assert.True(t, Around(d) >= d*3/4 && Around(d) <= d*5/4)
		}
		assert.True(t, least >= d/2 && least < d*6/10, "%v", least)
		assert.True(t, most <= d && most > d*9/10, "%v", most)
		assert.Zero(t, N(0*d)+N(-d)+UpTo(0)+Around(0))
		order := []int{0, 1, 2, 3}
		Shuffle(4, func(i, j int) { order[i], order[j] = order[j], order[i] })
		slices.Sort(order)
		assert.Equal(t, []int{0, 1, 2, 3}, order)
		end()
	}
}

// The values of one source do not depend on the values drawn from other sources.
func TestSource(t *testing.T) {
	draw := func(s *Source) (all []time.Duration) {
		for range 100 {
			all = append(all, s.Duration(time.Second), s.UpTo(time.Minute))
		}
		s.Shuffle(10, func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all
	}
	run := func(seed uint64, secondFirst bool) (first, second, fork []time.Duration) {
		defer Seed(seed)()
		a, b := New(), New()
		if secondFirst {
			second = draw(b)
		}
		fork, first = draw(a.Fork(1)), draw(a)
		if !secondFirst {
			second = draw(b)
		}
		return first, second, fork
	}
	first, second, fork := run(7, false)
	again, secondAgain, forkAgain := run(7, true)
	assert.Equal(t, first, again)
	assert.Equal(t, second, secondAgain)
	assert.Equal(t, fork, forkAgain)
	assert.NotEqual(t, first, second)
	assert.NotEqual(t, first, fork)
	other, _, _ := run(8, false)
	assert.NotEqual(t, first, other)

	var none *Source
	for _, s := range []*Source{none, none.Fork(1), New(), New().Fork(2)} { // without a seed
		assert.NotEqual(t, draw(s), draw(s))
		assert.Zero(t, s.Duration(0))
		assert.Zero(t, s.Duration(-1))
	}
}
