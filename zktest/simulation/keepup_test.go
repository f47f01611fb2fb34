package simulation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Servers that will grant half the timeout commit fast enough for it: two successive writes have to be recent enough
// for a hold.
func TestServersKeepUpWithAShorterTimeout(t *testing.T) {
	shrink := 0
	for seed := range uint64(2000) {
		if p := newPlan(seed, variant{}); p.Rule == shrinks && p.SessionTimeout/2 < 2*p.bound() {
			shrink++
			assert.LessOrEqual(t, p.Lag, p.SessionTimeout/2/10, p)
			assert.LessOrEqual(t, p.PeerDelay, p.SessionTimeout/2/80, p)
		}
	}
	assert.Positive(t, shrink)
}
