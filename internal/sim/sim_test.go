package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/internal/chance"
)

func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(1600) // runs leave much garbage and hold little; and a collector that takes turns in between changes what happens
	}
	goleak.VerifyTestMain(m)
}

var (
	oneSeed   = flag.Uint64("seed", 0, "replay this seed, and print its story")
	times     = flag.Int("times", 1, "replay up to so many times, until it fails")
	from      = flag.Uint64("from", 1, "the first seed of many")
	count     = flag.Uint64("count", 0, "how many seeds; 0: a short fixed set, or as many as -for allows")
	duration  = flag.Duration("for", 0, "how long to go on with new seeds")
	step      = flag.Uint64("step", 1, "from a seed to the next")
	jobs      = flag.Int("jobs", 1, "how many runs at a time; with more than one they take more turns, and cannot be replayed as well")
	workFlag  = flag.String("works", "", "what the clients do, with commas; empty: as the seed says")
	crowdFlag = flag.Bool("crowd", false, "three contenders in each client, and events that come one by one")
	stillFlag = flag.Bool("still", false, "one server, no faults, and nothing that takes time")
	keepGoing = flag.Bool("keep-going", false, "do not stop at the first violation")
	mutantArg = flag.String("mutant", "", "a deliberate bug to switch on; needs the build tag mutants")
)

// short is how many seeds a usual test run has.
const short = 20

var chosen string

func setWorks(names string) { chosen = names }

// crowd (-crowd) makes plans with several contenders in each client, to which events come one by one.
var crowd bool

// still (-still) makes plans in which much happens at one instant: one server, no faults, and only the
// clients' work under their holds takes time.
var still bool

func newPlan(seed uint64) *Plan {
	p := NewPlan(seed, works()...)
	if still {
		p.Members, p.Lag, p.PeerDelay, p.Pace, p.Faults, p.Meddling = 1, 0, 0, 0, nil, false
	}
	if crowd {
		p.Abreast, p.Pace = 3, time.Millisecond
	}
	return p
}

func works() []string {
	if chosen == "" {
		return nil
	}
	return strings.Split(chosen, ",")
}

// play runs one plan in a bubble of its own. Alone on one processor, and with all pauses from the seed, its
// result is nearly the same each time.
func play(t *testing.T, p *Plan) (r *Result) {
	if *jobs == 1 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		defer chance.Seed(p.Seed)()
	}
	circles := time.AfterFunc(patience, func() { panic(fmt.Sprintf("%v\nhas not ended within %v: somebody runs in circles", p, patience)) })
	defer circles.Stop()
	defer remember(p)()
	defer func() {
		if r := recover(); r != nil { // a deadlock, or goroutines that are left
			panic(fmt.Sprintf("%v\n%v\nreplay with: %s", r, p, replay(p)))
		}
	}()
	synctest.Test(t, func(*testing.T) { r = Run(p) })
	return r
}

// patience is how long a run may take, by the wall clock: one in which a client retries without a pause never
// ends.
const patience = 3 * time.Minute

// show prints the result of a run, and its whole story, or where that is kept.
func show(r *Result, all bool) {
	var story strings.Builder
	fmt.Fprintf(&story, "%v\n--- the servers' trace (the last of it):\n%s\n--- the story:\n%s\n", r.Plan, strings.Join(r.Trace, "\n"), strings.Join(r.Story, "\n"))
	if all {
		fmt.Println(story.String())
	}
	fmt.Printf("\n%v\n", r.Plan)
	for i, v := range r.Violations {
		if i == 8 {
			fmt.Printf("… and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Println("VIOLATION", v)
	}
	if len(r.Violations) > 0 && !all {
		file := filepath.Join(os.TempDir(), fmt.Sprintf("sim-seed-%d.txt", r.Plan.Seed))
		if err := os.WriteFile(file, []byte(story.String()), 0o644); err == nil {
			fmt.Println("the story of this run:", file)
		}
	}
	fmt.Println("replay with:", replay(r.Plan))
}

// replay is the command that plays a plan again.
func replay(p *Plan) string {
	cmd := fmt.Sprintf("go test ./internal/sim -run Sim -times=10 -seed=%d", p.Seed)
	if chosen != "" {
		cmd += " -works=" + chosen
	}
	if crowd {
		cmd += " -crowd"
	}
	if still {
		cmd += " -still"
	}
	return cmd
}

// remember keeps the seed of the present run in a file: a panic of another goroutine, or a lack of memory,
// ends the process without naming it.
func remember(p *Plan) (forget func()) {
	file := filepath.Join(os.TempDir(), fmt.Sprintf("sim-runs-%d.txt", os.Getpid()))
	if *jobs > 1 || os.WriteFile(file, []byte(replay(p)+"\n"), 0o644) != nil {
		return func() {}
	}
	return func() { _ = os.Remove(file) }
}

func TestSim(t *testing.T) {
	setWorks(*workFlag)
	crowd, still = *crowdFlag, *stillFlag
	if *oneSeed != 0 {
		setMutant(t, *mutantArg)
		var r *Result
		for n := range *times {
			p := newPlan(*oneSeed)
			p.Telling = true
			if r = play(t, p); len(r.Violations) > 0 {
				t.Logf("violated in replay %d", n+1)
				break
			}
		}
		show(r, true)
		require.Empty(t, r.Violations)
		return
	}
	n := *count
	if n == 0 && *duration == 0 {
		n = short
	}
	setMutant(t, *mutantArg)
	hunt(t, *from, n, *duration, false)
}

// hunt runs seeds until there are enough, or one fails. It returns how many runs there were, and the first
// that failed.
func hunt(t *testing.T, from, n uint64, limit time.Duration, expectFailure bool) (runs uint64, failure *Result) {
	var (
		next    atomic.Uint64
		done    atomic.Uint64
		stop    atomic.Bool
		mu      sync.Mutex
		virtual time.Duration
		grants  int
		turns   int
		failed  []*Result
	)
	next.Store(from)
	start := time.Now()
	progress := time.NewTicker(20 * time.Second)
	defer progress.Stop()
	report := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		took := time.Since(start)
		t.Logf("%s: %d schedules (seeds %d to %d, every %d) in %v: %.1f schedules/s, %.2f virtual hours/min; %d grants, %d turns, %d with violations", what, done.Load(), from,
			next.Load()-*step, *step, took.Round(time.Second/10), float64(done.Load())/took.Seconds(), virtual.Hours()/took.Minutes(), grants, turns, len(failed))
	}
	finished := make(chan struct{})
	var wg sync.WaitGroup
	for range max(*jobs, 1) {
		wg.Go(func() {
			for !stop.Load() {
				seed := next.Add(*step) - *step
				if n > 0 && seed >= from+n**step || limit > 0 && time.Since(start) > limit {
					return
				}
				r := play(t, newPlan(seed))
				done.Add(1)
				mu.Lock()
				virtual += r.Took
				grants += r.Grants
				turns += r.Turns
				if len(r.Violations) > 0 {
					failed = append(failed, r)
					if !expectFailure {
						show(r, false)
					}
					if !*keepGoing {
						stop.Store(true)
					}
				}
				mu.Unlock()
			}
		})
	}
	go func() { wg.Wait(); close(finished) }()
	for over := false; !over; {
		select {
		case <-progress.C:
			fmt.Fprintln(os.Stderr, progressLine(start, done.Load(), next.Load()-*step))
		case <-finished:
			over = true
		}
	}
	if !expectFailure {
		report("simulation")
		for _, r := range failed {
			t.Errorf("seed %d: %s", r.Plan.Seed, r.Violations[0])
		}
	}
	if len(failed) > 0 {
		failure = failed[0]
	}
	return done.Load(), failure
}

func progressLine(start time.Time, done, last uint64) string {
	took := time.Since(start)
	return fmt.Sprintf("  … %d schedules, up to seed %d, in %v (%.1f/s)", done, last, took.Round(time.Second), float64(done)/took.Seconds())
}
