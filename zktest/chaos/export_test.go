package chaos

import (
	"testing"
	"time"
)

// SetStandstill changes how long a run may make no progress by the wall clock.
func SetStandstill(t *testing.T, d time.Duration) {
	before := standstill
	standstill = d
	t.Cleanup(func() { standstill = before })
}
