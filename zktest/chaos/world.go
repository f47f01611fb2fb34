package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/zktest"
)

// World is one run: an ensemble, the processes of a service, and the checks. Its methods are safe for concurrent use,
// except that only the scenario may call the methods that name checks.
type World struct {
	plan  *Plan
	cfg   Config
	began time.Time
	// abandon takes the result of a run whose bubble cannot end, and does not return.
	abandon func(*Result)
	ens     *zktest.Ensemble
	ops     *serverOperator
	scenarioParts
	planDriver

	calmed   chan struct{}  // closed when the faults are over
	starting sync.WaitGroup // of processes that start again

	runRecords
}

// scenarioParts has the processes, rights, checks and scripts that the scenario has added, before the run.
type scenarioParts struct {
	slots   []*Replica
	rights  []*Right
	checks  []scenarioCheck
	results []func() // the checks of Finally, called by the driver
	scripts []func()
}

// runRecords are the records of a run.
type runRecords struct {
	mu       sync.Mutex // guards the following fields
	story    []Line
	violated []Violation
	counts   map[string]int
	least    map[string]time.Duration
}

// Line is a line of a run's story.
type Line struct {
	At    time.Duration `json:"at"`
	Actor string        `json:"actor"`
	Text  string        `json:"text"`
}

// Violation is a failed check.
type Violation struct {
	Check   string        `json:"check"` // its name
	At      time.Duration `json:"at"`
	Text    string        `json:"text"`
	Beliefs []string      `json:"beliefs,omitempty"` // the processes that believed that they held a right
	Nodes   []string      `json:"nodes,omitempty"`   // ephemeral nodes and their owners
}

func (v Violation) String() string {
	return fmt.Sprintf("%s, at %v: %s", v.Check, v.At.Round(time.Millisecond), v.Text)
}

// ConnectString lists the servers' addresses, for a client's configuration.
func (w *World) ConnectString() string { return w.ens.ConnectString() }

// Servers lists the servers' addresses.
func (w *World) Servers() []string { return w.ens.Addrs() }

// Ensemble returns the servers, to look inside and for your own faults.
func (w *World) Ensemble() *zktest.Ensemble { return w.ens }

// SessionTimeout returns the session timeout of the run's plan, for the clients.
func (w *World) SessionTimeout() time.Duration { return w.plan.SessionTimeout }

// Plan returns the run's plan.
func (w *World) Plan() Plan {
	p := *w.plan
	p.Faults = slices.Clone(p.Faults)
	return p
}

// Elapsed returns the virtual time since the run began.
func (w *World) Elapsed() time.Duration { return time.Since(w.began) }

// Calm returns a channel that is closed when the faults are over.
func (w *World) Calm() <-chan struct{} { return w.calmed }

// Script adds faults by hand: f starts after the processes and runs concurrently with the plan's faults. The faults are
// not over before it has returned. It uses the methods of [Replica] and of [zktest.Ensemble], and time.Sleep.
func (w *World) Script(f func()) { w.scripts = append(w.scripts, f) }

// Logf adds a line to the run's story.
func (w *World) Logf(format string, args ...any) { w.addToStory("scenario", format, args...) }

// Count adds n to a figure, which the runner sums up over all schedules and reports: runs without operations prove
// little.
func (w *World) Count(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what] += n
}

// Least records a time. The runner reports the smallest over all schedules, with its seed: so a time that shrinks is
// noticed before it is too short.
func (w *World) Least(what string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if least, noted := w.runRecords.least[what]; !noted || d < least {
		w.runRecords.least[what] = d
	}
}

func (w *World) addToStory(actor, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, Line{w.Elapsed(), actor, fmt.Sprintf(format, args...)})
}

// mostViolations limits the violations of a run: a service may repeat the same mistake for ever.
const mostViolations = 100

// Violate records a violation; the run continues. Only the first hundred violations of a run are recorded.
func (w *World) Violate(check, format string, args ...any) {
	w.mu.Lock()
	enough := len(w.violated) >= mostViolations
	w.mu.Unlock()
	if enough {
		return
	}
	v := Violation{Check: check, At: w.Elapsed(), Text: fmt.Sprintf(format, args...)}
	for _, r := range w.rights {
		v.Beliefs = append(v.Beliefs, r.describeBelievers()...)
	}
	v.Nodes = w.oldestEphemerals()
	w.addToStory("VIOLATION", "%s: %s", check, v.Text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violated = append(w.violated, v)
}

// oldestEphemerals lists the ten oldest ephemeral nodes, with their owners.
func (w *World) oldestEphemerals() (nodes []string) {
	if w.ens == nil || w.ens.Leader() < 0 {
		return nil
	}
	tree := w.ens.Member(w.ens.Leader()).Tree()
	paths := slices.Collect(maps.Keys(tree))
	slices.SortFunc(
		paths,
		func(a, b string) int { return cmp.Compare(tree[a].Stat.Czxid, tree[b].Stat.Czxid) },
	)
	for _, path := range paths {
		node := tree[path]
		if node.Mode != zktest.Ephemeral {
			continue
		}
		if len(nodes) == 10 {
			return append(nodes, "… and more")
		}
		since := time.UnixMilli(node.Stat.Ctime).Sub(w.began).Round(time.Millisecond)
		nodes = append(
			nodes,
			fmt.Sprintf("%s, since %v, of %s", path, since, w.ownerName(node.Stat.EphemeralOwner)),
		)
	}
	return nodes
}

// ownerName names a session and its process.
func (w *World) ownerName(session int64) string {
	for _, s := range w.slots {
		if s.host.Owned(session) {
			return fmt.Sprintf("%s's session %#x", s.name, session)
		}
	}
	return fmt.Sprintf("session %#x", session)
}

// Errorf, FailNow and Helper let assertions that are written for a testing.T take the world instead: a failed assertion
// is a violation with the name "assertion".
func (w *World) Errorf(format string, args ...any) { w.Violate("assertion", format, args...) }

// FailNow ends the scenario, script or process function that calls it.
func (w *World) FailNow() { panic(errFailNow) }

// Helper does nothing.
func (w *World) Helper() {}

var errFailNow = errors.New("chaos: an assertion has failed")

// recoverFailNow calls f, and recovers the panic of FailNow.
func recoverFailNow(f func()) {
	defer func() {
		if r := recover(); r != nil && r != errFailNow {
			panic(r)
		}
	}()
	f()
}

// runPlan plays a plan. The caller runs in a bubble.
func runPlan(plan *Plan, cfg Config, scenario func(*World), abandon func(*Result)) *Result {
	w := &World{
		plan:       plan,
		cfg:        cfg,
		abandon:    abandon,
		began:      time.Now(),
		calmed:     make(chan struct{}),
		planDriver: planDriver{coverage: map[string]int{}},
		runRecords: runRecords{counts: map[string]int{}, least: map[string]time.Duration{}},
	}
	server := plan.serverConfig()
	if cfg.Server != nil {
		cfg.Server(plan, &server)
	}
	ens, err := zktest.NewEnsemble(plan.Members, server)
	if err != nil {
		w.Violate("servers", "%v", err)
		return w.runResult(nil)
	}
	w.ens = ens
	w.ops = newOperator(w, server)
	defer ens.Close()
	recoverFailNow(func() { scenario(w) })
	if plan.Replicas > 0 && plan.Replicas < len(w.slots) {
		w.slots = w.slots[:plan.Replicas]
	}
	for _, s := range w.slots {
		s.startProcess()
	}
	var scripts sync.WaitGroup
	for _, f := range w.scripts {
		scripts.Go(func() { recoverFailNow(f) })
	}
	w.playFaults()
	scripts.Wait()
	w.undoFaults()
	close(w.calmed)
	w.addToStory("faults", "are over")
	w.awaitChecks()
	w.runChecks(atRest)
	w.stopProcesses()
	time.Sleep(3*plan.SessionTimeout + plan.staleServing()) // sessions that were not closed expire
	synctest.Wait()
	w.checkRemains()
	for _, look := range w.results {
		look()
	}
	return w.runResult(ens.Trace)
}

// failStuck ends a run with a process that does not stop: its goroutines cannot be ended.
func (w *World) failStuck(p *Process) {
	w.Violate("stop", "%v has not stopped within %v after its context's end", p, w.plan.Patience)
	r := w.runResult(w.ens.Trace)
	r.Unfit = true
	w.abandon(r)
}

// checkRemains checks that the service has left no watches, sessions and ephemeral nodes, and that all members have
// the same data.
func (w *World) checkRemains() {
	ctx, cancel := context.WithTimeout(context.Background(), w.plan.Patience)
	defer cancel()
	if err := w.ens.AwaitSettled(ctx); err != nil {
		w.Violate("servers", "have not settled long after the last fault: %v", err)
		return
	}
	for i, m := range w.ens.Members() {
		if left := m.Watches(); len(left) > 0 {
			w.Violate("nothing left", "watches at member %d: %v", i, left)
		}
	}
	leader := w.ens.Leader()
	if left := w.ens.Member(leader).Sessions(); len(left) > 0 {
		w.Violate("nothing left", "sessions: %v", left)
	}
	tree := w.ens.Member(leader).Tree()
	for path, node := range tree {
		if node.Mode == zktest.Ephemeral {
			w.Violate("nothing left", "an ephemeral node: %s", path)
		}
	}
	for i, m := range w.ens.Members() {
		if path, differ := firstDifference(tree, m.Tree()); differ {
			w.Violate(
				"servers",
				"member %d and %d, which leads, differ in %s: %+v and %+v",
				i,
				leader,
				path,
				m.Tree()[path].Stat,
				tree[path].Stat,
			)
		}
	}
}

// firstDifference returns the path of a node that differs between two trees, and reports whether there is one.
func firstDifference(a, b map[string]zktest.Node) (path string, differ bool) {
	for path, node := range a {
		if other, there := b[path]; !there || string(node.Data) != string(other.Data) ||
			node.Stat != other.Stat {
			return path, true
		}
	}
	for path := range b {
		if _, there := a[path]; !there {
			return path, true
		}
	}
	return "", false
}

// runResult returns the result of the run.
func (w *World) runResult(trace func() []string) *Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &Result{
		Plan:       w.plan,
		Violations: w.violated,
		Story:      w.story,
		Coverage:   w.coverage,
		Counts:     w.counts,
		Least:      w.runRecords.least,
		Took:       w.Elapsed(),
		Replicas:   len(w.slots),
	}
	if len(w.violated) > 0 && trace != nil {
		r.Trace = trace()
	}
	for _, s := range w.slots {
		r.Actors = append(r.Actors, s.name)
		if len(w.violated) > 0 {
			r.Story = append(
				s.traceEntries(),
				r.Story...) // before lines that the replies have caused at the same instant
		}
	}
	slices.SortStableFunc(r.Story, func(a, b Line) int { return cmp.Compare(a.At, b.At) })
	return r
}
