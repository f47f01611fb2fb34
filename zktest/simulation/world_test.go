package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// root is the parent of all simulated nodes.
const root = "/sim"

var background = context.Background()

// world is one run: chaos's world, with the clients and their works.
type world struct {
	*chaos.World
	plan    *plan
	ens     *zktest.Ensemble
	works   []workload
	witness *witness
	rest    chan struct{} // closed when all contenders have had their last turn
	leave   chan struct{} // closed when the clients must close
	closed  sync.WaitGroup
	asked   atomic.Int64 // by swarms, without a reply so far

	mu        sync.Mutex
	calmAt    time.Duration       // when the faults were over, later than planned if one of them took longer; else 0
	clients   []*framework.Client // nil until the process has created it
	lives     []int               // number of processes that a client has had
	active    int                 // actors that have not had their last turn
	histories map[string]*chaos.History
	traps     []*trap        // faults that wait for a grant
	keeping   map[int]int    // clients that keep their holds during a fault
	walls     map[int][]wall // between clients and members
}

// stage has the world of the run in progress.
type stage struct{ w *world }

// play is the scenario: a process for each client, and one for each client's visitors.
func (s *stage) play(cw *chaos.World) {
	p, err := planOf(cw.Plan())
	if err != nil {
		cw.Violate("simulation", "the plan is not one of its own: %v", err)
		return
	}
	w := &world{
		World:     cw,
		plan:      p,
		ens:       cw.Ensemble(),
		rest:      make(chan struct{}),
		leave:     make(chan struct{}),
		clients:   make([]*framework.Client, p.Clients),
		lives:     make([]int, p.Clients),
		histories: map[string]*chaos.History{},
		keeping:   map[int]int{},
		walls:     map[int][]wall{},
	}
	s.w = w
	w.witness = newWitness(w)
	w.prepare()
	for i := range p.Clients {
		w.closed.Add(1)
		w.active += w.contenders()
		w.Start("client", func(p *chaos.Process) { w.live(p, i) })
	}
	if k := slices.Index(p.Works, visits); k >= 0 {
		for i := range p.Clients {
			if p.Replicas > 0 && p.Clients+i >= p.Replicas {
				break // not part of a shorter plan
			}
			w.active++
			w.Start("visitor", func(p *chaos.Process) {
				a := w.actor(p, k, i, 0)
				for a.c = w.client(i); a.c == nil; a.c = w.client(i) { // the visitor's guard lets this client's writes through
					time.Sleep(time.Millisecond)
				}
				a.live()
			})
		}
	}
	if n := p.javas(); p.Java && (p.Replicas == 0 || n < p.Replicas) {
		w.must(w.ens.Member(0).Create(javaRoot, nil))
		w.closed.Add(1)
		w.Start("java", w.java)
	}
	w.Eventually("turns", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.calmAt == 0 {
			w.calmAt = w.Elapsed()
		}
		if w.active > 0 {
			return fmt.Errorf("%d contenders have not had their last turn", w.active)
		}
		return nil
	})
	w.AtRest("end", func() error { w.settle(); return nil })
}

// prepare creates the nodes that must exist before any client connects.
func (w *world) prepare() {
	w.must(w.ens.Member(0).Create(root, nil))
	for _, name := range w.plan.Works {
		make, known := kinds[name]
		if !known {
			w.violate("there is no work %q", name)
			continue
		}
		w.works = append(w.works, make(w))
	}
}

// abreast returns the number of contenders of a client at a work.
func (w *world) abreast(k int) int {
	switch {
	case w.plan.Works[k] == visits: // has its own processes
		return 0
	case crowded[w.plan.Works[k]]:
		return w.plan.Abreast
	}
	return 1
}

// contenders returns the number of actors of a client.
func (w *world) contenders() (n int) {
	for k := range w.works {
		n += w.abreast(k)
	}
	return n
}

// live is a client's process: its client, and its contenders at all works. When the process is asked to end, or is
// killed, its client closes, whatever the contenders do at that moment.
func (w *world) live(p *chaos.Process, i int) {
	life := w.begins(i)
	defer w.closed.Done()
	c, err := framework.New(w.ConnectString(), append(w.options(i), framework.WithDialer(w.dial(p, i)))...)
	if err != nil {
		w.violate("client %d: %v", i, err)
		return
	}
	w.mu.Lock()
	w.clients[i] = c
	w.mu.Unlock()
	closed := make(chan struct{})
	stays := context.AfterFunc(p.Context(), func() {
		defer close(closed)
		ctx, cancel := context.WithTimeout(background, 2*w.plan.SessionTimeout)
		defer cancel()
		p.Logf("closes its client: %v", c.CloseContext(ctx))
	})
	var actors sync.WaitGroup
	for k := range w.works {
		for n := range w.abreast(k) {
			a := w.actor(p, k, i, n+1_000*life)
			a.c, a.who, a.turn = c, i+1000*n, 1_000_000*life // no turn has the number of an earlier turn
			actors.Go(a.live)
		}
	}
	actors.Wait()
	select {
	case <-w.leave:
	case <-p.Context().Done():
	}
	if !stays() {
		<-closed
		return
	}
	before := time.Now()
	if err := c.Close(); err != nil {
		w.violate("client %d does not close: %v", i, err)
	}
	if took := time.Since(before); took > time.Second+4*(w.plan.Lag+w.plan.PeerDelay) {
		w.violate("client %d took %v to close", i, took)
	}
}

// begins counts the processes that a client has had.
func (w *world) begins(i int) (before int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before = w.lives[i]; before > 0 {
		w.closed.Add(1)
	}
	w.lives[i]++
	return before
}

// actor returns the nth contender of a client at a work.
func (w *world) actor(p *chaos.Process, k, client, n int) *actor {
	seed := uint64(1 + k*1000 + client + n*1_000_000)
	return &actor{
		w:    w,
		p:    p,
		id:   client,
		who:  client + 1000*n,
		work: w.works[k],
		r:    rand.New(rand.NewPCG(w.plan.Seed, seed)),
	}
}

// options returns the options of a client.
func (w *world) options(client int) []framework.Option {
	return append(w.plan.options(client), framework.WithHooks(w.witness.hooks(client)))
}

// present returns the clients that exist.
func (w *world) present() (clients []*framework.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clients {
		if c != nil {
			clients = append(clients, c)
		}
	}
	return clients
}

// session returns the id of a client's session, 0 if there is none at this moment.
func (w *world) session(client int) int64 {
	return sessionOf(w.client(client))
}

func (w *world) client(i int) *framework.Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clients[i]
}

func sessionOf(c *framework.Client) int64 {
	if c == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	s, err := c.Session(ctx)
	if err != nil {
		return 0
	}
	return s.ID()
}

// settle checks the final state while the clients are connected and idle, and then closes them.
func (w *world) settle() {
	close(w.rest)
	time.Sleep(
		3*w.plan.SessionTimeout + w.plan.bound() + 30*time.Second,
	) // the sessions of killed processes expire, and clean-ups end
	for _, work := range w.works {
		work.settle(w)
	}
	w.nothingLeft()
	close(w.leave)
	w.closed.Wait()
	synctest.Wait()
	w.witness.settle()
	if l := w.ens.Leader(); l >= 0 && !w.plan.Meddling { // when clocks were not ahead
		if left := w.ens.Member(l).Sessions(); len(left) > 0 {
			w.violate("sessions left after Close: %v", left)
		}
	}
}

// newest returns the leader, which shows all that is committed; nil if there is none. While the leader is paused, and
// when it has just stopped, [zktest.Ensemble.Leader] may be a former leader that was paused before and has not noticed
// its end: the other members know later commits.
func (w *world) newest() *zktest.Server {
	l := w.ens.Leader()
	if l < 0 {
		return nil
	}
	leader := w.ens.Member(l)
	for _, m := range w.ens.Members() {
		if m.Zxid() > leader.Zxid() {
			return nil
		}
	}
	return leader
}

// nothingLeft checks that clean-ups are done, and that no watch and no ephemeral node is left.
func (w *world) nothingLeft() {
	// Many removals at the same time wait for room on the connection, and for the writes before them.
	time.Sleep(time.Second + 3*(w.plan.Lag+w.plan.PeerDelay))
	synctest.Wait()
	if n := w.asked.Load(); n != 0 {
		w.violate("swarm: %d reads have no answer", n)
	}
	for i, c := range w.present() {
		if n := c.PendingCleanups(); n != 0 {
			w.violate("client %d has %d clean-ups pending", i, n)
		}
	}
	for i, m := range w.ens.Members() {
		left := slices.DeleteFunc(m.Watches(), func(info zktest.WatchInfo) bool {
			return w.plan.Tracks && info.Path == "/zookeeper/config" // the clients' watches of the members' list remain
		})
		if len(left) > 0 {
			w.violate("watches left at member %d: %v", i, left)
		}
	}
	l := w.ens.Leader()
	if l < 0 {
		w.violate("no leader long after the last fault")
		return
	}
	var left []string
	for path, node := range w.ens.Member(l).Tree() {
		if node.Mode == zktest.Ephemeral {
			left = append(left, path)
		}
	}
	slices.Sort(left)
	if len(left) > 0 {
		w.violate("nodes left: %v", left)
	}
}

// calm reports whether the faults are over.
func (w *world) calm() bool {
	select {
	case <-w.Calm():
		return true
	default:
		return false
	}
}

// settled reports whether the faults have been over for so long that every client has a session, and a connection that
// stays.
func (w *world) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calmAt > 0 && !w.plan.Tracks && w.Elapsed() > w.calmAt+w.plan.bound()+2*w.plan.SessionTimeout+10*time.Second
}

// violate reports a broken promise. The check's name is the first word of the text: a work, client, or hooks.
func (w *world) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	check, _, _ := strings.Cut(text, " ")
	w.Violate(strings.TrimSuffix(check, ":"), "%s", text)
}

func (w *world) must(err error) {
	if err != nil {
		w.violate("simulation itself: %v", err)
	}
}

// ago returns the time since an instant that chaos has recorded.
func (w *world) ago(at time.Duration) time.Duration { return w.Elapsed() - at }

// at returns an instant in the run's time.
func (w *world) at(t time.Time) time.Duration { return w.Elapsed() - time.Since(t) }

// slack is the time within which the owner must know of a delete by an administrator.
func (w *world) slack() time.Duration { return w.Notice() }

// known reports whether every member must show at one instant a state that has existed since another: each has run for
// longer than it may lag.
func (w *world) known(since, at time.Time) bool {
	for i := range w.plan.Members {
		if w.Ran(i, w.at(since), w.at(at)) <= w.behind() {
			return false
		}
	}
	return true
}

// behind returns the age of the state that a member may show, without the time for which it is paused.
func (w *world) behind() time.Duration {
	if w.plan.Members == 1 {
		return 0
	}
	return w.plan.bound() + 3*time.Second + w.plan.PeerDelay // a fault's lag, or a plan's, which is shorter
}

// workload is a work that all clients do. All methods except turn are called by one goroutine, before and after the
// turns.
type workload interface {
	// turn takes one turn, or fails. It may return shortly after ctx ends.
	turn(ctx context.Context, a *actor) error
	// settle checks the final state. The clients are connected and idle.
	settle(w *world)
}

var kinds = map[string]func(*world) workload{}

// workNames returns the works from which plans choose.
func workNames() (names []string) {
	for name := range kinds {
		if name != visits {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// crowded are the works that several actors of one client may do: they share its session, but no right.
var crowded = map[string]bool{
	"mutex": true, "rwlock": true, "readers": true, "semaphore": true, "leases": true, "multi": true, "striped": true, "revocation": true, "latch": true, "selector": true,
}
