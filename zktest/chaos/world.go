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

// World is one run: an ensemble, the processes of a service, and what must hold. Its methods are safe for
// concurrent use, except that those that name what must hold are for the scenario alone.
type World struct {
	plan  *Plan
	cfg   Config
	began time.Time
	// abandon takes the result of a run whose bubble cannot end, and does not return.
	abandon func(*Result)
	ens     *zktest.Ensemble
	ops     *operator
	named
	driver

	calmed   chan struct{}  // closed when the faults are over
	starting sync.WaitGroup // of processes that start again

	notes
}

// named is what the scenario has named, before the run.
type named struct {
	slots   []*Replica
	rights  []*Right
	checks  []check
	results []func() // what is looked at in the end, by the driver
	scripts []func()
}

// notes are what has happened.
type notes struct {
	mu       sync.Mutex // guards what follows
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

// Violation is something that did not hold.
type Violation struct {
	Check   string        `json:"check"` // its name
	At      time.Duration `json:"at"`
	Text    string        `json:"text"`
	Beliefs []string      `json:"beliefs,omitempty"` // who believed that it held what
	Nodes   []string      `json:"nodes,omitempty"`   // ephemeral ones, and whose they were
}

func (v Violation) String() string {
	return fmt.Sprintf("%s, at %v: %s", v.Check, v.At.Round(time.Millisecond), v.Text)
}

// ConnectString lists the servers' addresses, for a client's configuration.
func (w *World) ConnectString() string { return w.ens.ConnectString() }

// Servers lists the servers' addresses.
func (w *World) Servers() []string { return w.ens.Addrs() }

// Ensemble is the servers, for looking inside and for faults of your own.
func (w *World) Ensemble() *zktest.Ensemble { return w.ens }

// SessionTimeout is the session timeout of the run's plan, for the clients.
func (w *World) SessionTimeout() time.Duration { return w.plan.SessionTimeout }

// Plan returns the run's plan.
func (w *World) Plan() Plan {
	p := *w.plan
	p.Faults = slices.Clone(p.Faults)
	return p
}

// Elapsed is the virtual time since the run began.
func (w *World) Elapsed() time.Duration { return time.Since(w.began) }

// Calm is closed when the faults are over.
func (w *World) Calm() <-chan struct{} { return w.calmed }

// Script adds faults by hand: f runs beside the plan's faults, from when the processes have been started, and
// the faults are over when it has returned, too. It uses the methods of [Replica] and of [zktest.Ensemble],
// and time.Sleep.
func (w *World) Script(f func()) { w.scripts = append(w.scripts, f) }

// Logf adds a line to the run's story.
func (w *World) Logf(format string, args ...any) { w.tell("scenario", format, args...) }

// Count adds to a figure, which the runner sums up over all schedules and reports: a run in which nothing
// happened has proven little.
func (w *World) Count(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what] += n
}

// Least notes a time of which the smallest counts, over all schedules: the runner reports it with its seed. A time
// that shrinks is seen before it is too short.
func (w *World) Least(what string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if least, noted := w.notes.least[what]; !noted || d < least {
		w.notes.least[what] = d
	}
}

func (w *World) tell(actor, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, Line{w.Elapsed(), actor, fmt.Sprintf(format, args...)})
}

// mostViolations bounds what a run reports: a service may do the same thing wrong for ever.
const mostViolations = 100

// Violate reports that something does not hold; the run goes on. After a hundred reports a run says no more.
func (w *World) Violate(check, format string, args ...any) {
	w.mu.Lock()
	enough := len(w.violated) >= mostViolations
	w.mu.Unlock()
	if enough {
		return
	}
	v := Violation{Check: check, At: w.Elapsed(), Text: fmt.Sprintf(format, args...)}
	for _, r := range w.rights {
		v.Beliefs = append(v.Beliefs, r.beliefs()...)
	}
	v.Nodes = w.ephemerals()
	w.tell("VIOLATION", "%s: %s", check, v.Text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violated = append(w.violated, v)
}

// ephemerals are the oldest ephemeral nodes, with their owners.
func (w *World) ephemerals() (nodes []string) {
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
			fmt.Sprintf("%s, since %v, of %s", path, since, w.owner(node.Stat.EphemeralOwner)),
		)
	}
	return nodes
}

// owner names a session and its process.
func (w *World) owner(session int64) string {
	for _, s := range w.slots {
		if s.host.Owned(session) {
			return fmt.Sprintf("%s's session %#x", s.name, session)
		}
	}
	return fmt.Sprintf("session %#x", session)
}

// Errorf, FailNow and Helper let assertions that are made for a testing.T take the world instead: a failed
// one is a violation with the name "assertion".
func (w *World) Errorf(format string, args ...any) { w.Violate("assertion", format, args...) }

// FailNow ends the function that it is called in: the scenario, or that of a process.
func (w *World) FailNow() { panic(errFailNow) }

// Helper does nothing.
func (w *World) Helper() {}

var errFailNow = errors.New("chaos: an assertion has failed")

// guarded calls f, which an assertion may end.
func guarded(f func()) {
	defer func() {
		if r := recover(); r != nil && r != errFailNow {
			panic(r)
		}
	}()
	f()
}

// run plays a plan. It is called in a bubble.
func run(plan *Plan, cfg Config, scenario func(*World), abandon func(*Result)) *Result {
	w := &World{
		plan:    plan,
		cfg:     cfg,
		abandon: abandon,
		began:   time.Now(),
		calmed:  make(chan struct{}),
		driver:  driver{coverage: map[string]int{}},
		notes:   notes{counts: map[string]int{}, least: map[string]time.Duration{}},
	}
	server := plan.server()
	if cfg.Server != nil {
		cfg.Server(plan, &server)
	}
	ens, err := zktest.NewEnsemble(plan.Members, server)
	if err != nil {
		w.Violate("servers", "%v", err)
		return w.result(nil)
	}
	w.ens = ens
	w.ops = newOperator(w, server)
	defer ens.Close()
	guarded(func() { scenario(w) })
	if plan.Replicas > 0 && plan.Replicas < len(w.slots) {
		w.slots = w.slots[:plan.Replicas]
	}
	for _, s := range w.slots {
		s.start()
	}
	var scripts sync.WaitGroup
	for _, f := range w.scripts {
		scripts.Go(func() { guarded(f) })
	}
	w.torment()
	scripts.Wait()
	w.heal()
	close(w.calmed)
	w.tell("faults", "are over")
	w.settle()
	w.look(atRest)
	w.stopAll()
	time.Sleep(3*plan.SessionTimeout + plan.stale()) // sessions that were left end
	synctest.Wait()
	w.nothingLeft()
	for _, look := range w.results {
		look()
	}
	return w.result(ens.Trace)
}

// stuck ends a run with a process that does not stop, whose goroutines cannot be ended.
func (w *World) stuck(p *Process) {
	w.Violate("stop", "%v has not stopped within %v after its context's end", p, w.plan.Patience)
	r := w.result(w.ens.Trace)
	r.Unfit = true
	w.abandon(r)
}

// nothingLeft looks for what the service has left at the servers.
func (w *World) nothingLeft() {
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
		if path, differ := differ(tree, m.Tree()); differ {
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

// differ finds a node in which two trees differ.
func differ(a, b map[string]zktest.Node) (path string, differ bool) {
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

// result is what came of the run.
func (w *World) result(trace func() []string) *Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &Result{
		Plan:       w.plan,
		Violations: w.violated,
		Story:      w.story,
		Coverage:   w.coverage,
		Counts:     w.counts,
		Least:      w.notes.least,
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
				s.seen(),
				r.Story...) // ahead of what their answers bring about at the same instant
		}
	}
	slices.SortStableFunc(r.Story, func(a, b Line) int { return cmp.Compare(a.At, b.At) })
	return r
}
