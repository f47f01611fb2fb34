package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// root is above everything that is simulated.
const root = "/sim"

var background = context.Background()

// Result is what came of a run.
type Result struct {
	Plan       *Plan
	Violations []string
	Story      []string      // what was held, done and broken, by virtual time; only of a violation, or if the plan says Telling
	Trace      []string      // the servers' own, as Story
	History    []Op          // if the plan says Recording
	Took       time.Duration // virtual
	Grants     int           // rights granted, of whatever kind
	Turns      int           // of all actors
}

// world is one run.
type world struct {
	plan    *Plan
	began   time.Time
	ens     *zktest.Ensemble
	clients []*framework.Client
	away    []absence    // of clients that reach no server
	still   []standstill // of members that are paused
	acts    []act        // used by the driver only, like the following
	skews   []time.Duration
	now     time.Duration

	calm    atomic.Bool // no more faults
	witness *witness

	mu         sync.Mutex
	visitors   map[int]*framework.Client // the visitors present, by client
	violations []string
	story      []line
	history    []Op
	sessions   map[int64]forced  // ended by an administrator
	nodes      map[string]forced // deleted by one
	grants     int
	turns      int
}

type line struct {
	at     time.Duration
	format string
	args   []any
}

// forced is what an administrator took away.
type forced struct {
	at    time.Time
	first bool // no node was ahead of it: it may have had the right, or been about to learn of it
	soft  bool // or perhaps not
	jump  bool // a server's clock jumped: the session may have ended by that, but not later
}

// Run plays a plan. It must be called in a synctest bubble.
func Run(p *Plan) *Result {
	w := &world{plan: p, began: time.Now(), away: make([]absence, p.Clients), still: make([]standstill, p.Members), skews: make([]time.Duration, p.Members), visitors: map[int]*framework.Client{}, sessions: map[int64]forced{}, nodes: map[string]forced{}}
	ens, err := zktest.NewEnsemble(p.Members, p.server())
	if err != nil {
		return &Result{Plan: p, Violations: []string{err.Error()}}
	}
	w.ens = ens
	w.witness = newWitness(w)
	defer ens.Close()
	works := w.prepare()
	for i := range p.Clients {
		c, err := framework.New(ens.ConnectString(), w.options(i)...)
		if err != nil {
			w.violate("client %d: %v", i, err)
			continue
		}
		w.clients = append(w.clients, c)
	}
	var actors sync.WaitGroup
	for k, work := range works {
		abreast := 1
		if crowded[p.Works[k]] {
			abreast = p.Abreast
		}
		for i, c := range w.clients {
			for n := range abreast {
				a := &actor{w: w, c: c, id: i, who: i + 1000*n, work: work, r: rand.New(rand.NewPCG(p.Seed, uint64(1+k*1000+i+n*1_000_000)))}
				actors.Go(a.live)
			}
		}
	}
	w.torment()
	w.calm.Store(true)
	actors.Wait()
	time.Sleep(3*p.Timeout + p.bound() + 30*time.Second) // sessions of the dead end, and clean-ups
	for _, work := range works {
		work.settle(w)
	}
	w.nothingLeft()
	var trace []string
	if p.Telling || w.violated() {
		trace = ens.Trace()
	}
	for i, c := range w.clients {
		before := time.Now()
		if err := c.Close(); err != nil {
			w.violate("client %d does not close: %v", i, err)
		}
		if took := time.Since(before); took > time.Second+4*(p.Lag+p.PeerDelay) {
			w.violate("client %d took %v to close", i, took)
		}
	}
	synctest.Wait()
	w.witness.settle()
	for i, m := range ens.Members() {
		if p.Meddling {
			break // clocks were ahead
		}
		if left := m.Sessions(); len(left) > 0 && i == ens.Leader() {
			w.violate("sessions left after Close: %v", left)
		}
	}
	r := &Result{Plan: p, Violations: w.violations, Trace: trace, History: w.history, Took: time.Since(w.began), Grants: w.grants, Turns: w.turns}
	if !p.Telling && !w.violated() {
		return r
	}
	if trace == nil {
		r.Trace = ens.Trace()
	}
	for _, l := range w.story {
		r.Story = append(r.Story, fmt.Sprintf("%10.3fs %s", l.at.Seconds(), fmt.Sprintf(l.format, l.args...)))
	}
	return r
}

// options are those of a client.
func (w *world) options(client int) []framework.Option {
	return append(w.plan.options(client), framework.WithDialer(w.dialer(client)), framework.WithHooks(w.witness.hooks(client)))
}

// prepare makes what has to be there before anybody connects.
func (w *world) prepare() (works []workload) {
	w.must(w.ens.Member(0).Create(root, nil))
	for _, name := range w.plan.Works {
		make, known := kinds[name]
		if !known {
			w.violate("there is no work %q", name)
			continue
		}
		work := make(w)
		works = append(works, work)
	}
	return works
}

// absence says whether a client is away, and tells waiters when it is back.
type absence struct {
	mu   sync.Mutex
	back chan struct{} // nil: it is not away
}

func (a *absence) begins() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.back == nil {
		a.back = make(chan struct{})
	}
}

func (a *absence) ends() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.back != nil {
		close(a.back)
		a.back = nil
	}
}

// end is closed when the client is back; nil if it is not away.
func (a *absence) end() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.back
}

// dialer is how a client reaches the servers, unless it is away.
func (w *world) dialer(client int) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if back := w.away[client].end(); back != nil {
			select {
			case <-back:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return w.ens.Dial(ctx, network, addr)
	}
}

func (w *world) since() time.Duration { return time.Since(w.began) }

// tell adds to the story.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, line{w.since(), format, args})
}

// violate notes a broken promise.
func (w *world) violate(format string, args ...any) {
	w.tell("VIOLATION "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf("%.3fs ", w.since().Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) violated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.violations) > 0
}

func (w *world) must(err error) {
	if err != nil {
		w.violate("the simulation itself: %v", err)
	}
}

// visits notes that a client has come for a visit, or, with nil, has gone.
func (w *world) visits(client int, c *framework.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visitors[client] = c
}

// force notes that an administrator ends a session, or tries to.
func (w *world) force(session int64, soft bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, before := w.sessions[session]; !before || f.soft {
		w.sessions[session] = forced{at: time.Now(), first: true, soft: soft}
	}
}

// doubt notes that a server's clock jumps: any session may end early, but need not.
func (w *world) doubt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.ens.Members() {
		for _, s := range m.Sessions() {
			if f, before := w.sessions[s.ID]; !before || f.jump {
				w.sessions[s.ID] = forced{at: time.Now(), first: true, soft: true, jump: true}
			}
		}
	}
}

// forceNode notes that an administrator tries to delete a node, and, when the returned function is called,
// that he has deleted it.
func (w *world) forceNode(path string) (sure func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[path] = forced{at: time.Now(), first: true, soft: true}
	return func() {
		// A node that is still ahead of it was ahead of it then.
		dir := path[:strings.LastIndexByte(path, '/')]
		children, _ := w.ens.Member(max(w.ens.Leader(), 0)).Children(dir)
		first := !slices.ContainsFunc(children, func(name string) bool { return number(name) < number(path) })
		w.mu.Lock()
		defer w.mu.Unlock()
		w.nodes[path] = forced{at: time.Now(), first: first}
	}
}

// takenAway says whether an administrator has taken a right away, by its node or its session.
func (w *world) takenAway(session int64, path string) (forced, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.nodes[path]; ok {
		return f, true
	}
	f, ok := w.sessions[session]
	return f, ok && !(f.jump && time.Since(f.at) > w.slack())
}

// meddled says whether a session was ever ended by an administrator, or by a clock, or may have been.
func (w *world) meddled(session int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.sessions[session]
	return ok
}

// number is a sequential node's number, -1 if it has none.
func number(path string) int {
	if len(path) < 10 {
		return -1
	}
	n, err := strconv.Atoi(path[len(path)-10:])
	if err != nil {
		return -1
	}
	return n
}

// slack is the time after which the owner must know what an administrator took away. The owner may learn of
// it only on its next connection, and until then be connected to a member that does not know it either.
func (w *world) slack() time.Duration {
	d := w.plan.Timeout + 5*time.Second
	if w.plan.Members > 1 {
		d += w.plan.bound()
	}
	return d
}

// standstill is when a member was paused. It counts no time meanwhile, and may go on afterwards as if there
// had been none.
type standstill struct {
	mu    sync.Mutex
	begun time.Time // zero: it runs
	spans []span
}

type span struct{ from, to time.Time }

// pause pauses the member; resume lets it go on.
func (s *standstill) pause(m *zktest.Server) (resume func()) {
	m.Pause()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	return func() {
		s.resumed(time.Now())
		m.Resume()
	}
}

// resumed notes that the member runs. If pauses overlap, the member goes on when the first ends, or when the
// driver heals everything.
func (s *standstill) resumed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun.IsZero() {
		s.spans, s.begun = append(s.spans, span{s.begun, now}), time.Time{}
	}
}

// ran is how long it was not paused between two instants.
func (s *standstill) ran(from, to time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := s.spans
	if !s.begun.IsZero() {
		spans = append(slices.Clone(spans), span{s.begun, to})
	}
	return running(spans, from, to)
}

// running is the time between two instants without the spans, which do not overlap.
func running(spans []span, from, to time.Time) time.Duration {
	d := to.Sub(from)
	for _, s := range spans {
		begin, end := s.from, s.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		d -= max(0, end.Sub(begin))
	}
	return d
}

// known says whether every member must know at one instant what has been true since another: each has run for
// longer than it may lag.
func (w *world) known(since, at time.Time) bool {
	for i := range w.still {
		if w.still[i].ran(since, at) <= w.behind() {
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

// patience is the time after the last fault within which every client must have had a turn.
func (w *world) patience() time.Duration {
	return 2*time.Minute + 4*w.plan.Timeout + w.plan.bound() + time.Duration(w.plan.Clients*w.plan.Abreast)*2*time.Second
}

// nothingLeft checks that clean-ups are done and no watch is left.
func (w *world) nothingLeft() {
	time.Sleep(time.Second) // many removals at once wait for room on the connection
	synctest.Wait()
	for i, c := range w.clients {
		if n := c.PendingCleanups(); n != 0 {
			w.violate("client %d has %d clean-ups pending", i, n)
		}
	}
	for i, m := range w.ens.Members() {
		if left := m.Watches(); len(left) > 0 {
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
var crowded = map[string]bool{"mutex": true, "rwlock": true, "semaphore": true, "multi": true, "revocation": true, "latch": true, "selector": true}

// actor is a client, or one of several contenders in it, at one work.
type actor struct {
	w    *world
	c    *framework.Client
	id   int // of the client
	who  int // unique at this work
	work workload
	r    *rand.Rand
	turn int

	called time.Duration // since when it waits for its next grant
}

// live takes turns until the faults are over, and one more, which must not fail.
func (a *actor) live() {
	for !a.w.calm.Load() {
		limit, across := a.w.plan.patience(), false
		if a.r.IntN(4) == 0 {
			limit = below(a.r, 2*time.Second)
		} else if rest := a.w.plan.Trouble - a.w.since(); rest < limit { // the faults will stop meanwhile, and then nobody waits in vain
			limit, across = rest+mending+a.w.patience(), true
		}
		a.turn++
		ctx, cancel := context.WithTimeout(a.own(), limit)
		a.called = a.w.since()
		err := a.work.turn(ctx, a)
		cancel()
		if err != nil && across && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			a.w.violate("client %d: who waited at %s when the faults stopped waited on until the end of patience: %v", a.id, a.name(), err)
		}
		if err != nil {
			a.expected(ctx, err)
			time.Sleep(below(a.r, time.Second))
			continue
		}
		a.w.mu.Lock()
		a.w.turns++
		a.w.mu.Unlock()
		time.Sleep(below(a.r, 200*time.Millisecond))
	}
	ctx, cancel := context.WithTimeout(a.own(), a.w.patience())
	defer cancel()
	var err error
	for ctx.Err() == nil {
		// The connection may still have to come back, and a right granted before may be lost in this turn.
		a.called = a.w.since()
		if err = a.work.turn(ctx, a); err == nil {
			return
		}
		a.expected(ctx, err)
		time.Sleep(100 * time.Millisecond)
	}
	a.w.violate("client %d: no turn at %s within %v after the last fault: %v", a.id, a.name(), a.w.patience(), err)
}

// own is a context that names the owner of a hold.
func (a *actor) own() context.Context {
	return context.WithValue(background, turnKey{}, fmt.Sprint(a.who, " ", a.turn))
}

// mending is how much later the faults may end: a member whose data is lost waits for the others.
const mending = time.Minute

func (p *Plan) patience() time.Duration { return time.Minute + 2*p.Timeout }

func (a *actor) name() string { return strings.TrimPrefix(fmt.Sprintf("%T", a.work), "*sim.") }

// expected reports an error that a caller could not distinguish from a mistake of its own.
func (a *actor) expected(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case framework.Retryable(err), errors.Is(err, framework.ErrSessionLost), errors.Is(err, framework.ErrNodeDeleted), errors.Is(err, framework.ErrSuspended),
		errors.Is(err, framework.ErrNotConnected), errors.Is(err, framework.ErrReleased), errors.Is(err, framework.ErrTimeoutTooShort), errors.Is(err, errNotNow),
		errors.Is(err, framework.ErrNotReadOnly) && a.w.plan.ReadOnly:
	default:
		a.w.violate("client %d, %s: an unexpected error: %v", a.id, a.name(), err)
	}
}

// rest is the pause before a turn at something that all clients see: the more clients, the longer the pause.
func (a *actor) rest() { time.Sleep(below(a.r, 2*time.Second*time.Duration(1+a.w.plan.Clients/8))) }

// errNotNow says that a turn was not taken, which is no failure.
var errNotNow = errors.New("not now")

// late is how long after its context a call may return.
const late = 50 * time.Millisecond

// timed reports a call that outlives its context (promise P4).
func (a *actor) timed(ctx context.Context, what string) func() {
	from := time.Now()
	a.called = a.w.since()
	if end, ok := ctx.Deadline(); ok && end.After(from) {
		from = end
	}
	return func() {
		if over := time.Since(from); ctx.Err() != nil && over > late {
			a.w.violate("client %d: %s returned %v after its context's end", a.id, what, over)
		}
	}
}

// for limits a step that is not the turn's main one.
func (a *actor) within(d time.Duration) (context.Context, context.CancelFunc) {
	if a.w.calm.Load() {
		d = a.w.plan.patience()
	} else {
		d = below(a.r, d)
	}
	return context.WithTimeout(background, d)
}
