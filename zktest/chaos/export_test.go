package chaos

import (
	"os"
	"testing"
	"time"
)

// Find is [Test] for a scenario that must fail: it returns the shortest plan's result and the report.
func Find(t *testing.T, count uint64, scenario func(w *World), cfg ...Config) (best *Result, report string) {
	t.Helper()
	var c Config
	if len(cfg) > 0 {
		c = cfg[0]
	}
	c = c.withDefaults()
	if os.Getenv(workerEnv) != "" {
		work(t, c, scenario)
		t.SkipNow() // in the child there is nothing to look at
	}
	h := &hunt{t: t, cfg: c, covered: coverage{}, started: time.Now()}
	h.search(*fromFlag, count, 0)
	if h.failed == nil {
		return nil, ""
	}
	report, best = h.report(h.failed)
	return best, report
}

// SetStandstill changes for how long a run may make no progress by the wall clock.
func SetStandstill(t *testing.T, d time.Duration) {
	before := standstill
	standstill = d
	t.Cleanup(func() { standstill = before })
}
