package keeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestDecide(t *testing.T) {
	const s = time.Second
	g := Grace{Term: 3 * s, Kill: s}
	for name, tt := range map[string]struct {
		s    keeperState
		now  time.Duration
		want keeperAction
		next time.Duration
	}{
		"plenty of time":              {keeperState{until: 100 * s}, 50 * s, wait, 96 * s},
		"a moment before TERM":        {keeperState{until: 100 * s}, 96*s - 1, wait, 96 * s},
		"uncertain soon":              {keeperState{until: 100 * s}, 96 * s, term, 0},
		"told, and the time runs":     {keeperState{until: 100 * s, termed: true, term: 96 * s}, 97 * s, wait, 99 * s},
		"told, and the time is over":  {keeperState{until: 100 * s, termed: true, term: 96 * s}, 99 * s, kill, 0},
		"told, then extended":         {keeperState{until: 200 * s, termed: true, term: 96 * s}, 97 * s, wait, 99 * s},
		"extended, and its time over": {keeperState{until: 200 * s, termed: true, term: 96 * s}, 99 * s, kill, 0},
		"told, then shortened":        {keeperState{until: 98 * s, termed: true, term: 96 * s}, 97 * s, kill, 0},
		"late":                        {keeperState{until: 100 * s}, 98 * s, term, 0},
		"too late for TERM":           {keeperState{until: 100 * s}, 99 * s, kill, 0},
		"long after (it was stopped)": {keeperState{until: 100 * s}, 1000 * s, kill, 0},
		"lost":                        {keeperState{until: 0}, 50 * s, kill, 0},
		"the parent is gone":          {keeperState{until: 100 * s, ending: true}, 50 * s, term, 0},
		"gone, told":                  {keeperState{until: 100 * s, ending: true, termed: true, term: 50 * s}, 52 * s, wait, 53 * s},
		"gone, told, over":            {keeperState{until: 100 * s, ending: true, termed: true, term: 50 * s}, 53 * s, kill, 0},
		"gone, and late":              {keeperState{until: 100 * s, ending: true}, 99 * s, kill, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, next := nextAction(tt.s, g, tt.now)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.next, next)
		})
	}
	act, _ := nextAction(keeperState{until: 10 * s}, Grace{}, 10*s)
	assert.Equal(t, kill, act)
	act, next := nextAction(keeperState{until: 10 * s}, Grace{}, 10*s-1)
	assert.Equal(t, wait, act)
	assert.Equal(t, 10*s, next)
}

// A keeper that follows decide keeps these rules, for any words of its parent at any times.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{10, 20, 30, 40, 50, 60}, uint16(3000), uint16(1000))
	f.Add([]byte{200, 0, 200, 255, 1}, uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, words []byte, graceTerm, graceKill uint16) {
		g := Grace{Term: time.Duration(graceTerm) * time.Millisecond, Kill: time.Duration(graceKill) * time.Millisecond}
		s := keeperState{until: 20 * time.Second}
		now := time.Duration(0)
		killed := false
		for _, word := range words {
			switch {
			case word == 0:
				s.ending = true
			case word < 128: // time passes
				now += time.Duration(word) * 20 * time.Millisecond
			default:
				s.until = now + time.Duration(word-128)*200*time.Millisecond
			}
			for {
				act, next := nextAction(s, g, now)
				if now >= s.until-g.Kill {
					assert.Equal(t, kill, act, "it is time")
				}
				if killed && act != kill {
					assert.GreaterOrEqual(t, s.until, now, "extended after it was over: nothing is left to kill")
				}
				if act == wait {
					assert.Greater(t, next, now)
					assert.LessOrEqual(t, next, s.until-g.Kill)
					assert.False(t, s.ending && !s.termed)
					assert.True(t, s.termed || now < s.until-g.Sum())
					break
				}
				if act == kill {
					killed = true
					assert.True(t, now >= s.until-g.Kill || s.termed && now >= s.term+g.Term, "not before its time")
					break
				}
				assert.False(t, s.termed, "TERM is sent once")
				assert.True(t, s.ending || now >= s.until-g.Sum(), "and not before it is time")
				s.termed, s.term = true, now
			}
		}
	})
}
