package simulation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// Plans of rests have session timeouts for both rules, seldom long ones, and faults of members one after the other.
func TestPlansOfRests(t *testing.T) {
	const n = 3000
	usual, long, longest, beats := 0, 0, time.Duration(0), 0
	for seed := range uint64(n) {
		if newPlan(seed, variant{}).Rests {
			usual++
		}
		p := newPlan(seed, variant{rests: true})
		assert.LessOrEqual(t, p.SessionTimeout, 2*time.Minute)
		assert.GreaterOrEqual(t, p.SessionTimeout, 2*p.TickTime)
		longest = max(longest, p.SessionTimeout)
		if p.SessionTimeout > 40*time.Second {
			long++
		}
		if p.SessionTimeout < 2*p.bound() {
			beats++
		}
		pause, healed := time.Duration(0), time.Duration(0)
		for _, f := range p.Faults {
			switch f.Kind {
			case cutAtGrant:
				assert.Greater(t, f.At, healed, "seed %d: two faults at a time", seed)
				assert.Greater(t, f.Lasts, p.SessionTimeout+p.bound()+p.TickTime, "seed %d: too short", seed)
				healed = f.At + f.Lasts + p.Election
			case pauseAtGrant:
				pause = time.Duration(f.Times) * time.Millisecond
			}
		}
		assert.LessOrEqual(t, pause+3*p.PeerDelay, p.TickTime, "seed %d: J for pings", seed)
		assert.LessOrEqual(t, pause+2*p.PeerDelay, p.SessionTimeout/8, "seed %d: J for writes", seed)
		assert.Equal(t, p.Plan, newPlan(seed, variant{rests: true}).Plan, "the same seed, the same plan")
	}
	assert.InDelta(t, n/5, usual, n/50)
	assert.InDelta(t, n/20, long, n/40, "long timeouts take long")
	assert.Greater(t, longest, 110*time.Second)
	assert.InDelta(t, n/3, beats, n/10)
	assert.False(t, newPlan(1, variant{rests: true, works: []string{"cache"}}).Rests, "nothing is held")
}

// Each kind of fault that waits for a grant has its effect: the members' trace shows it so many times.
func TestFaultsAtAGrant(t *testing.T) {
	for kind, c := range map[chaos.Kind]struct {
		fault chaos.Fault
		seen  string
		times int
	}{
		cutAtGrant:    {chaos.Fault{Dir: zktest.Both, All: true, Delay: time.Millisecond}, "cut: nothing of member", 4},
		moveAtGrant:   {chaos.Fault{Times: 2000}, "connection cut", 1},
		moveAtRelease: {chaos.Fault{Times: 2000}, "connection cut", 1},
		stallAtGrant:  {chaos.Fault{Dir: zktest.ToClient, Times: 500}, "black hole", 1},
		pauseAtGrant:  {chaos.Fault{Times: 100}, "server pauses", 1},
	} {
		t.Run(strings.ReplaceAll(string(kind), " ", "-"), func(t *testing.T) {
			f := c.fault
			f.Kind, f.At, f.Lasts = kind, 5*time.Second, 40*time.Second
			v := variant{works: []string{"mutex"}, rests: true}
			play, cfg := simulation(v)
			cfg.Count, cfg.Shrink = 1, -1
			cfg.Plan = func(p *chaos.Plan) {
				*p = *newPlan(1, v).Plan
				p.Members, p.Faults, p.Trouble = 3, []chaos.Fault{f}, time.Minute
			}
			chaos.Test(t, func(w *chaos.World) {
				var times int
				w.Always("struck", func() error {
					lines := slices.DeleteFunc(w.Ensemble().Trace(), func(line string) bool {
						return !strings.Contains(line, c.seen)
					})
					times = max(times, len(lines))
					return nil
				})
				w.Finally("struck", func() error {
					if times != c.times {
						return fmt.Errorf("the members have seen %q %d times", c.seen, times)
					}
					return nil
				})
				play(w)
			}, cfg)
		})
	}
}
