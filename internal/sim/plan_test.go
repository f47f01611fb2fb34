package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Servers that will grant half the timeout commit fast enough for that: two successive writes have to be
// recent enough for a hold.
func TestServersKeepUpWithAShorterTimeout(t *testing.T) {
	shrink := 0
	for seed := range uint64(2000) {
		if p := NewPlan(seed); p.Shrinks && p.Timeout/2 < 2*p.bound() {
			shrink++
			assert.LessOrEqual(t, p.Lag, p.Timeout/2/10, p)
			assert.LessOrEqual(t, p.PeerDelay, p.Timeout/2/80, p)
		}
	}
	assert.Positive(t, shrink)
}
