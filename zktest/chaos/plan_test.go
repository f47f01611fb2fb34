package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/zktest"
)

// While every connection ends with the request that arms its watches, no client learns of deletes.
func TestTimeWithoutWatchesIsNotCounted(t *testing.T) {
	p := &Plan{Faults: []Fault{
		{Kind: Strike, Op: zktest.OpSetWatches, Times: -1, Lasts: time.Minute},
		{Kind: Strike, Op: zktest.OpSetWatches2, Times: -1, Lasts: time.Second},
		{Kind: Strike, Op: zktest.OpSetWatches, Times: 2, Lasts: time.Hour}, // the third succeeds
		{Kind: Strike, Op: zktest.OpPing, Times: -1, Lasts: time.Hour},
		{Kind: Cut, Lasts: time.Hour},
	}}
	assert.Equal(t, 61*time.Second, p.setWatchesFailing())
}

// The smallest times over many runs each have the plan of their run.
func TestTheLeastOfAllRuns(t *testing.T) {
	l := smallestTimes{}
	for seed, d := range []time.Duration{3 * time.Second, -time.Second, 2 * time.Second} {
		plan := &Plan{Seed: uint64(seed), SessionTimeout: time.Minute}
		l.addSmallest(&Result{Plan: plan, Least: map[string]time.Duration{"margin": d, "rest": -d}})
	}
	assert.Equal(t, "\nleast margin: -1s (seed 1, session timeout 1m0s)\nleast rest: -3s (seed 0, session timeout 1m0s)",
		l.String())
}
