package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("chaos.seed", 0, "play this seed again, and tell its story")
	planFlag  = flag.String("chaos.plan", "", "play the plan in this file again, and tell its story")
	countFlag = flag.Uint64(
		"chaos.count",
		0,
		"how many schedules; 0: what Config.Count says, or as many as -chaos.time allows",
	)
	timeFlag  = flag.Duration("chaos.time", 0, "how long to go on with new schedules")
	fromFlag  = flag.Uint64("chaos.from", 1, "the first seed")
	jobsFlag  = flag.Int("chaos.jobs", runtime.NumCPU(), "how many schedules at a time")
	timesFlag = flag.Int("chaos.times", 10, "how often a seed or a plan is played again, until it fails")
)

// standstill limits a run by the wall clock: a run with an endless retry without a pause would never end.
var standstill = 3 * time.Minute

// Result is the result of a run.
type Result struct {
	Plan        *Plan                    `json:"plan"`
	Violations  []Violation              `json:"violations,omitempty"`
	Story       []Line                   `json:"story,omitempty"`
	Trace       []string                 `json:"trace,omitempty"` // the servers'
	Actors      []string                 `json:"actors,omitempty"`
	Coverage    map[string]int           `json:"coverage,omitempty"`
	Counts      map[string]int           `json:"counts,omitempty"` // see World.Count
	Least       map[string]time.Duration `json:"least,omitempty"`
	Replicas    int                      `json:"replicas"`
	Took        time.Duration            `json:"took"`            // virtual
	Unfit       bool                     `json:"unfit,omitempty"` // some of its goroutines have not ended
	standsStill bool                     // it was ended by the wall clock
}

// Test runs the scenario under many schedules of faults. It fails the test at the first schedule with a violation,
// and reports the shortest schedule that still has it. See the package's documentation for scenarios and flags. Only
// the first Config counts. A test function calls it, or [Find], once, outside a bubble.
func Test(t *testing.T, scenario func(w *World), cfg ...Config) {
	t.Helper()
	h := newHunt(t, scenario, cfg)
	var p *Plan
	switch {
	case *planFlag != "":
		data, err := os.ReadFile(*planFlag)
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		if err != nil {
			t.Fatalf("chaos: %v", err)
		}
	case *seedFlag != 0:
		p = drawPlan(*seedFlag, h.cfg)
	}
	if p != nil {
		h.replayPlan(p)
	} else if failed := h.searchFailure(); failed != nil {
		t.Error(h.reportFailure(failed, true).Report)
	}
}

// Failure is a schedule with a violation, made as short as possible.
type Failure struct {
	Violation Violation
	Plan      *Plan
	Report    string // the text that Test prints
	Runs      uint64 // number of schedules played until it was found
	Replayed  int    // number of the ten replays of the schedule as found that failed again
}

// Find is [Test] for a service with a known bug: it returns the first schedule that fails, and nil if there is none. It
// does not fail the test, and keeps no files.
func Find(t *testing.T, scenario func(w *World), cfg ...Config) *Failure {
	t.Helper()
	h := newHunt(t, scenario, cfg)
	if failed := h.searchFailure(); failed != nil {
		return h.reportFailure(failed, false)
	}
	return nil
}

// newHunt makes a hunt. In a child process it plays the parent's plans instead, and does not return.
func newHunt(t *testing.T, scenario func(w *World), cfg []Config) *scheduleHunt {
	t.Helper()
	var c Config
	if len(cfg) > 0 {
		c = cfg[0]
	}
	c = c.withDefaults()
	if os.Getenv(workerEnv) != "" {
		runChild(t, c, scenario)
		t.SkipNow() // only the parent executes the rest of the test
	}
	return &scheduleHunt{t: t, cfg: c, covered: coverageSum{}, counts: coverageSum{}, least: smallestTimes{}, started: time.Now()}
}

// scheduleHunt looks for a schedule that fails.
type scheduleHunt struct {
	t       *testing.T
	cfg     Config
	started time.Time

	mu      sync.Mutex
	from    uint64
	next    uint64
	runs    uint64
	virtual time.Duration
	covered coverageSum
	counts  coverageSum
	least   smallestTimes
	failed  *Result
}

// searchFailure plays new seeds until the count or the time limit is reached, or one fails. It returns the failed
// run, or nil.
func (h *scheduleHunt) searchFailure() *Result {
	h.t.Helper()
	from, count, limit := *fromFlag, *countFlag, *timeFlag
	if count == 0 && limit == 0 {
		if count = h.cfg.Count; testing.Short() {
			count = max(count/5, 1)
		}
	}
	h.from, h.next = from, from
	more := func() (seed uint64, ok bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.failed != nil || count > 0 && h.next >= from+count ||
			limit > 0 && time.Since(h.started) > limit {
			return 0, false
		}
		h.next++
		return h.next - 1, true
	}
	var wg sync.WaitGroup
	for range max(*jobsFlag, 1) {
		wg.Go(func() {
			var w workerProcess
			defer w.closeProcess()
			for seed, ok := more(); ok; seed, ok = more() {
				h.countRun(w.playPlan(h.t, drawPlan(seed, h.cfg)))
			}
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	progress := time.NewTicker(20 * time.Second)
	defer progress.Stop()
	for over := false; !over; {
		select {
		case <-progress.C:
			fmt.Fprintf(os.Stderr, "  … %s\n", h.summary())
		case <-finished:
			over = true
		}
	}
	h.t.Logf("chaos: %s\n%v%v", h.summary(), h.covered, h.least)
	return h.failed
}

func (h *scheduleHunt) countRun(r *Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs++
	h.virtual += r.Took
	h.covered.addCoverage(r.Coverage)
	h.counts.addCoverage(r.Counts)
	h.least.addSmallest(r)
	// The lowest seed counts: so the result depends less on the order of the workers.
	if len(r.Violations) > 0 && (h.failed == nil || r.Plan.Seed < h.failed.Plan.Seed) {
		h.failed = r
	}
}

func (h *scheduleHunt) summary() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	took := time.Since(h.started)
	counts := ""
	for _, what := range slices.Sorted(maps.Keys(h.counts)) {
		counts += fmt.Sprintf(", %d %s", h.counts[what], what)
	}
	return fmt.Sprintf(
		"%s: %d schedules (seeds %d to %d) in %v, %.1f/s, %.1f virtual hours%s",
		h.t.Name(),
		h.runs,
		h.from,
		h.next-1,
		took.Round(time.Second/10),
		float64(h.runs)/took.Seconds(),
		h.virtual.Hours(),
		counts,
	)
}

// replayPlan plays a plan until it fails, -chaos.times times at most.
func (h *scheduleHunt) replayPlan(p *Plan) {
	h.t.Helper()
	var w workerProcess
	defer w.closeProcess()
	var r *Result
	for n := range max(*timesFlag, 1) {
		if r = w.playPlan(h.t, p); len(r.Violations) > 0 {
			h.t.Logf("chaos: fails in replay %d", n+1)
			break
		}
	}
	least := smallestTimes{}
	least.addSmallest(r)
	h.t.Logf("chaos: %v\n%s%s%v", p, p.schedule(r.Actors), storyLines(r), least)
	if len(r.Violations) > 0 {
		h.t.Errorf("chaos: %v", r.Violations[0])
	}
}
