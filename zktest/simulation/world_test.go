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

// root is above everything that is simulated.
const root = "/sim"

var background = context.Background()

// world is one run: chaos's, with the clients and what they do.
type world struct {
	*chaos.World
	plan    *plan
	ens     *zktest.Ensemble
	works   []workload
	witness *witness
	rest    chan struct{} // closed when all contenders have had their last turn
	leave   chan struct{} // closed when the clients shall close
	closed  sync.WaitGroup
	asked   atomic.Int64 // by swarms, without an answer so far

	mu        sync.Mutex
	calmAt    time.Duration       // when the faults were over, later than planned if one of them took longer; else 0
	clients   []*framework.Client // nil until the process has made it
	lives     []int               // how many processes a client has had
	active    int                 // actors that have not had their last turn
	histories map[string]*chaos.History
	traps     []*trap        // faults that wait for a grant
	keeping   map[int]int    // clients that go on holding what they have
	walls     map[int][]wall // between clients and members
}

// stage is where the run of this process is.
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
				break // left out of a shorter plan
			}
			w.active++
			w.Start("visitor", func(p *chaos.Process) {
				a := w.actor(p, k, i, 0)
				for a.c = w.client(i); a.c == nil; a.c = w.client(i) { // whose writes a visitor's guard lets through
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

// prepare makes what has to be there before anybody connects.
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

// abreast is how many contenders a client has at a work.
func (w *world) abreast(k int) int {
	switch {
	case w.plan.Works[k] == visits: // has processes of its own
		return 0
	case crowded[w.plan.Works[k]]:
		return w.plan.Abreast
	}
	return 1
}

// contenders is how many actors a client has.
func (w *world) contenders() (n int) {
	for k := range w.works {
		n += w.abreast(k)
	}
	return n
}

// live is a client's process: its client, and its contenders at all works. When the process is to end, or is
// killed, its client closes whatever they do at that moment.
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
			a.c, a.who, a.turn = c, i+1000*n, 1_000_000*life // no turn has the number of one before
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

// actor is the nth contender of a client at a work.
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

// options are those of a client.
func (w *world) options(client int) []framework.Option {
	return append(w.plan.options(client), framework.WithHooks(w.witness.hooks(client)))
}

// present are the clients that have been made.
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

// session is the id of a client's session, 0 when there is none right now.
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

// settle checks what must be true in the end, while the clients are connected and idle, and then closes them.
func (w *world) settle() {
	close(w.rest)
	time.Sleep(
		3*w.plan.SessionTimeout + w.plan.bound() + 30*time.Second,
	) // sessions of the dead end, and clean-ups
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

// newest is the leader, which shows all that is committed; nil if there is none. While the leader is paused, and
// when it has just stopped, [zktest.Ensemble.Leader] may be a former one that was paused before and has not
// noticed its end: it does not know what has happened meanwhile, and others do.
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

// nothingLeft checks that clean-ups are done and no watch is left.
func (w *world) nothingLeft() {
	// Many removals at once wait for room on the connection, and for the writes before them.
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
			return w.plan.Tracks && info.Path == "/zookeeper/config" // which clients go on following
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

// calm says whether the faults are over.
func (w *world) calm() bool {
	select {
	case <-w.Calm():
		return true
	default:
		return false
	}
}

// settled reports whether the faults are over for so long that every client has a session, and a connection that stays.
func (w *world) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calmAt > 0 && !w.plan.Tracks && w.Elapsed() > w.calmAt+w.plan.bound()+2*w.plan.SessionTimeout+10*time.Second
}

// violate notes a broken promise. The check's name is the text's first word: a work's, a client, hooks.
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

// ago is the time since one that chaos has noted.
func (w *world) ago(at time.Duration) time.Duration { return w.Elapsed() - at }

// at is when something happened, in the run's time.
func (w *world) at(t time.Time) time.Duration { return w.Elapsed() - time.Since(t) }

// slack is the time after which the owner must know what an administrator took away.
func (w *world) slack() time.Duration { return w.Notice() }

// known says whether every member must know at one instant what has been true since another: each has run for
// longer than it may lag.
func (w *world) known(since, at time.Time) bool {
	for i := range w.plan.Members {
		if w.Ran(i, w.at(since), w.at(at)) <= w.behind() {
			return false
		}
	}
	return true
}

// behind is how old a state a member may show, without the time for which it is paused.
func (w *world) behind() time.Duration {
	if w.plan.Members == 1 {
		return 0
	}
	return w.plan.bound() + 3*time.Second + w.plan.PeerDelay // a fault's lag, or a plan's, which is shorter
}

// workload is something that all clients do. All methods but turn are called by one goroutine, before and
// after the turns.
type workload interface {
	// turn does it once, or fails. It may return shortly after ctx ends.
	turn(ctx context.Context, a *actor) error
	// settle checks what must be true in the end. The clients are connected and idle.
	settle(w *world)
}

var kinds = map[string]func(*world) workload{}

// workNames are those among which plans choose.
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
	"mutex": true, "rwlock": true, "readers": true, "semaphore": true, "multi": true, "striped": true, "revocation": true, "latch": true, "selector": true,
}
