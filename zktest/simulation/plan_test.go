package simulation_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
	"github.com/go-curator/curator/zktest/chaos"
)

// plan has all decisions of a seed before the run: chaos's plan, the number of clients, and their works.
type plan struct {
	*chaos.Plan `json:"-"`
	scheme
}

// scheme is the simulation's own part of chaos's plan.
type scheme struct {
	Clients  int
	Asked    time.Duration // session timeout that clients ask for
	Abreast  int           // contenders per client, at the works that allow several
	Auth     bool          // servers require authentication
	SASL     bool          // by a SASL login
	ReadOnly bool          // members without a quorum serve reads to every other client: those that allow it
	Private  bool          // only authenticated clients may use the nodes
	OneShot  bool          // caches have no persistent watches
	Loss     framework.LossPolicy
	// Meddling plans have an administrator who deletes nodes and ends sessions. Clients learn of that only later; see
	// ledger.
	Meddling bool
	Calm     time.Duration // how long there are no faults at first, if the clients' rule changes; else 0
	Rule     string        // how the rule changes, if it does: grows, shrinks
	Before   string        // a special fault before the others: busy, ghosts
	Tracks   bool          // clients follow the servers' list of members
	Shorter  bool          // servers grant less for a while, in the middle of the faults
	Rests    bool          // clients are idle for long before they contend, and faults strike at grants
	Java     bool          // a peer like Curator for Java contends, too
	Cohorts  []cohort      // the clients' cohorts at the mutex
	Seldom   bool          // only the first client often wants the mutex
	Bare     bool          // the recipes' directories do not exist, and replies to their first creates are lost
	Restored bool          // items are in the queues, whose numbers begin at 0
	Works    []string
}

// cohort describes how a client's contenders share a mutex. With 0 turns each contender stands in line.
type cohort struct {
	Turns int
	Long  time.Duration
	Idle  time.Duration // how long the lock is kept
}

// Changes of the clients' rule for holds, and special faults in a time without other faults.
const (
	grows   = "grows"   // the servers, which have said that they are standalone, say that they are an ensemble
	shrinks = "shrinks" // the servers grant half the timeout
	busy    = "busy"    // a client sends very many requests, and many replies take as long as a session
	ghosts  = "ghosts"  // all sessions are lost by the clock, and their last requests arrive during the next sessions
)

// variant has the options of a run of the simulation, from flags or from a row of the deliberate bugs.
type variant struct {
	works []string // works of the clients; none: as the seed decides
	rests bool     // only plans of rests
	crowd bool     // several contenders in each client, and events that arrive one by one
	still bool     // much happens at one instant: one server, no faults, and only work under a hold takes time
}

// newPlan returns the plan of a seed.
func newPlan(seed uint64, v variant) *plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := &plan{Plan: &chaos.Plan{Seed: seed}}
	if p.rests(v) {
		p.schedule(p.drawRests(v))
		return p.done()
	}
	p.Members = pick(r, 1, 1, 3, 3, 3, 5)
	p.Clients = 2 + r.IntN(4)
	if r.IntN(40) == 0 {
		p.Clients = 10 + r.IntN(41)
	}
	p.TickTime = pick(r, 500*time.Millisecond, time.Second, 2*time.Second)
	p.SyncLimit = pick(r, 2, 5)
	p.SessionTimeout = p.TickTime * time.Duration(pick(r, 2, 3, 4, 8, 15, 20))
	p.Trouble = time.Duration(30+r.IntN(90)) * time.Second
	if p.SessionTimeout > 10*time.Second {
		p.Trouble *= 2
	}
	if p.Members > 1 {
		p.Lag = pick(r, 0, 0, below(r, 50*time.Millisecond), below(r, time.Second))
		p.PeerDelay = pick(r, 0, 0, below(r, 20*time.Millisecond))
		p.keepUp(p.SessionTimeout)
	}
	p.Auth = r.IntN(8) == 0
	p.OneShot = r.IntN(4) == 0
	p.Loss = pick(r, framework.SuspendedIsLoss, framework.SessionOnly)
	p.Meddling = r.IntN(3) == 0
	p.Works = v.works
	if len(v.works) == 0 {
		all := workNames()
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		p.Works = all[:min(1+r.IntN(3), len(all))]
	}
	drafts := p.faults(r)
	r = rand.New(rand.NewPCG(seed, 1<<40)) // the draws below do not change the draws above
	p.Profile = pick(r, zktest.Profiles()...)
	p.SASL = p.Auth && r.IntN(2) == 0
	p.ReadOnly = r.IntN(6) == 0
	p.Pace = pick(r, 0, 0, below(r, time.Millisecond))
	p.Abreast = pick(r, 1, 1, 2, 3)
	if p.Clients > 6 {
		p.Abreast = 1
	}
	p.Private = p.Auth && r.IntN(2) == 0
	p.Asked = p.SessionTimeout * time.Duration(pick(r, 1, 1, 1, 3))
	p.Election = pick(r, 400*time.Millisecond, 400*time.Millisecond, 100*time.Millisecond, 3*time.Second)
	if r.IntN(4) == 0 && len(v.works) == 0 {
		p.Works = append(p.Works, visits)
	}
	drafts = p.turns(rand.New(rand.NewPCG(seed, 1<<41)), drafts)
	drafts = p.bursts(rand.New(rand.NewPCG(seed, 1<<42)), drafts)
	drafts = p.ghosts(rand.New(rand.NewPCG(seed, 1<<43)), drafts)
	drafts = p.more(rand.New(rand.NewPCG(seed, 1<<44)), drafts)
	p.cohorts(rand.New(rand.NewPCG(seed, 1<<45)))
	drafts = p.slowCommits(rand.New(rand.NewPCG(seed, 1<<46)), drafts)
	drafts = p.found(rand.New(rand.NewPCG(seed, 1<<47)), drafts)
	if v.still {
		p.Members, p.Pauses, drafts, p.Meddling, p.Java = 1, chaos.Pauses{
			Election: p.Election,
		}, nil, false, false
	}
	if v.crowd {
		p.Abreast, p.Pace = 3, time.Millisecond
	}
	p.schedule(drafts)
	return p.done()
}

// done completes a plan after all draws.
func (p *plan) done() *plan {
	p.Patience = 3*p.ending() + mending // each actor checks its own turns
	own, err := json.Marshal(p.scheme)
	if err != nil {
		panic(err)
	}
	p.Own = own
	return p
}

// cohorts lets the contenders of some clients pass the mutex on, or keep it, in every other plan.
func (p *plan) cohorts(r *rand.Rand) {
	if r.IntN(2) == 0 {
		return
	}
	for range p.Clients {
		var c cohort
		if r.IntN(3) > 0 {
			c = cohort{Turns: pick(r, 1, 3, 1000), Long: pick(r, 100*time.Millisecond, 3*time.Second)}
			c.Idle = pick(r, 0, 0, max(below(r, 10*time.Second), time.Millisecond), 24*time.Hour)
		}
		p.Cohorts = append(p.Cohorts, c)
	}
	if p.Seldom = r.IntN(2) == 0; p.Seldom {
		p.Cohorts[0] = cohort{Turns: 1 + r.IntN(3), Long: time.Second, Idle: pick(r, 30*time.Second, 24*time.Hour)}
	}
}

// planOf returns the simulation's view of the plan to play.
func planOf(c chaos.Plan) (*plan, error) {
	p := &plan{Plan: &c}
	err := json.Unmarshal(c.Own, &p.scheme)
	if c.Replicas > 0 { // the plan was made shorter
		p.Clients = min(p.Clients, c.Replicas)
	}
	return p, err
}

// keepUp makes the servers commit fast enough for clients with that session timeout: no promise covers slower servers.
func (p *plan) keepUp(timeout time.Duration) {
	if timeout < 2*p.bound() { // heartbeats must be committed in time
		p.Lag, p.PeerDelay = min(p.Lag, timeout/10), min(p.PeerDelay, timeout/80)
	} else { // pings wait for writes, and a connection without a reply is closed after (T - D)/3
		p.Lag = min(p.Lag, (timeout-p.bound())/6)
	}
}

// turns decides whether, and how, the clients' rule for holds changes.
func (p *plan) turns(r *rand.Rand, faults []draft) []draft {
	extra := p.clocks(r)
	switch {
	case p.ReadOnly || p.Meddling || p.Members == 1 || r.IntN(3) > 0:
	case r.IntN(2) == 0:
		p.Rule = grows
	case p.SessionTimeout >= 4*p.TickTime:
		p.Rule = shrinks
		p.keepUp(p.SessionTimeout / 2)
	}
	if p.Rule != "" {
		p.calmFor(2*p.SessionTimeout+below(r, 2*p.SessionTimeout), faults)
		f := draft{
			kind:   pick(r, "part", "part", "leader", "away", "oneway"),
			client: r.IntN(p.Clients),
			member: r.IntN(p.Members),
			other:  r.IntN(p.Members),
			dice:   r.IntN(1<<20) | 1,
		}
		f.at, f.dir, f.lasts = p.Calm+reconnecting+below(
			r,
			p.SessionTimeout/4,
		), zktest.Both, p.bound()+2*p.SessionTimeout
		extra = append(extra, draft{kind: p.Rule, at: p.Calm}, f)
	}
	return append(faults, extra...)
}

// calmFor puts a time without faults before the faults.
func (p *plan) calmFor(d time.Duration, faults []draft) {
	p.Calm = d
	p.Trouble += d
	for i := range faults {
		faults[i].at += d
	}
}

// bursts makes a client that holds by heartbeats send very many requests while nothing is wrong: the heartbeats must
// not wait for them. Other requests may wait, so the clients only hold.
func (p *plan) bursts(r *rand.Rand, faults []draft) []draft {
	if p.Calm > 0 || p.Members == 1 || p.SessionTimeout >= 2*p.bound() || r.IntN(4) > 0 {
		return faults
	}
	if !p.onlyRights() || slices.Contains(p.Works, "revocation") {
		return faults
	}
	p.Before = busy
	// A heartbeat must reach the server within half the time between two heartbeats.
	p.Lag, p.PeerDelay = min(p.Lag, p.SessionTimeout/40), min(p.PeerDelay, p.SessionTimeout/160)
	p.calmFor(5*time.Second+4*p.SessionTimeout, faults)
	return append(faults, draft{
		kind:   "burst",
		at:     3*time.Second + below(r, 2*p.SessionTimeout),
		lasts:  2 * p.SessionTimeout,
		client: r.IntN(p.Clients),
		delay:  3 * p.SessionTimeout / 2 * window / burst,
	})
}

// ghosts stalls every client, while nothing else is wrong, just until its session is lost by the clock. The servers
// keep the old session for the rest of the margin, and its last requests arrive then, after the next session was
// opened.
func (p *plan) ghosts(r *rand.Rand, faults []draft) []draft {
	if p.Calm > 0 || p.Members == 1 || p.SessionTimeout < 2*p.bound() || r.IntN(2) > 0 {
		return faults
	}
	p.Before = ghosts
	margin := min(p.SessionTimeout/10, time.Second)
	p.calmFor(5*time.Second+2*p.SessionTimeout, faults)
	for i := range p.Clients {
		faults = append(faults, draft{
			kind:   "away",
			at:     3*time.Second + below(r, time.Second),
			lasts:  p.SessionTimeout - margin/2,
			client: i,
			dir:    zktest.Both,
			delay:  reconnecting + below(r, margin),
		})
	}
	return faults
}

// slowCommits makes every write of every client take a part of the session timeout for half a minute, in one plan of six.
// Slowness passes: it ends no waiter, and is no error of the configuration.
func (p *plan) slowCommits(r *rand.Rand, faults []draft) []draft {
	if r.IntN(6) > 0 {
		return faults
	}
	at := p.Calm + below(r, p.Trouble-p.Calm)
	takes := p.SessionTimeout/10 + below(r, p.SessionTimeout/3)
	for _, op := range []zktest.Op{"multi", "create", "create2", "setData", "delete"} {
		faults = append(faults, draft{kind: "commits", at: at, lasts: 30 * time.Second, op: op, delay: takes})
	}
	return faults
}

// found decides the state of the tree at the start: missing directories, directories with nodes of others, or queues
// whose numbers begin again.
func (p *plan) found(r *rand.Rand, faults []draft) []draft {
	switch r.IntN(3) {
	case 0:
		p.Bare = true
		faults = append(faults, draft{kind: "parents", lasts: time.Second, dice: r.IntN(12)})
	case 1:
		p.Restored = true
	}
	for range pick(r, 0, 0, 1, 4) {
		faults = append(faults, draft{
			kind: "stranger", at: p.Calm + below(r, p.Trouble-p.Calm), lasts: below(r, 20*time.Second), dice: r.IntN(1 << 20),
		})
	}
	if p.Members == 1 && r.IntN(2) == 0 {
		faults = append(faults, draft{kind: "anew", at: p.Calm + below(r, p.Trouble-p.Calm)})
	}
	return faults
}

// first returns the time of the first fault that is not a loss of replies to creates.
func (p *plan) first() time.Duration {
	at := p.Trouble
	for _, f := range p.Faults {
		if f.Kind != lostParents {
			at = min(at, f.At)
		}
	}
	return at
}

// shortens reports whether servers grant less than clients ask for, at some time of the plan.
func (p *plan) shortens() bool { return p.Rule == shrinks || p.Shorter }

// burst is the number of requests of a burst, and window the number that may be in flight.
const burst, window = 600, 8

// reconnecting is the time after a cut within which all clients that can reconnect have done so.
const reconnecting = 50 * time.Millisecond

// bound is D: how long a member may continue to reply after it has lost the other members.
func (p *plan) bound() time.Duration {
	if p.Members == 1 {
		return 0 // it has no leader to lose
	}
	return p.stale()
}

// stale is the D in the clients' options, also for a single server, which the clients notice to be standalone.
func (p *plan) stale() time.Duration { return time.Duration(p.SyncLimit)*p.TickTime + p.TickTime*3/2 }

// patience is how long a client waits for a step when nothing is wrong.
func (p *plan) patience() time.Duration { return time.Minute + 2*p.SessionTimeout }

// ending is the time after the last fault within which every actor must have had a turn.
func (p *plan) ending() time.Duration {
	return 2*time.Minute + 4*p.SessionTimeout + p.bound() + time.Duration(p.Clients*p.Abreast)*2*time.Second
}

// server completes the configuration of the members.
func (p *plan) server(cfg *zktest.Config) {
	cfg.ReapInterval = 5 * time.Minute
	cfg.RequireAuth, cfg.RequireSASL = p.Auth && !p.SASL, p.SASL
	cfg.ReadOnlyMode = p.ReadOnly
	cfg.LocalSessions = true
	cfg.MinSessionTimeout, cfg.MaxSessionTimeout = 0, p.SessionTimeout
	if p.SASL {
		cfg.SASLUsers = map[string]string{user: password}
	}
}

const user, password = "sim", "secret"

// options returns the options of a client.
func (p *plan) options(client int) []framework.Option {
	opts := []framework.Option{
		framework.WithSessionTimeout(p.Asked),
		framework.WithStaleServerBound(p.stale()),
		framework.WithServerTick(p.TickTime),
	}
	switch {
	case p.SASL:
		opts = append(opts, framework.WithSASLDigest(user, password))
	case p.Auth:
		opts = append(opts, framework.WithAuth("digest", []byte(user+":"+password)))
	}
	if p.Private {
		opts = append(opts, framework.WithDefaultACL(framework.CreatorACL()...))
	}
	if p.Before == busy {
		opts = append(opts, framework.WithWindow(window))
	}
	if p.Tracks {
		opts = append(opts, framework.WithEnsembleTracking())
	}
	if p.ReadOnly && client%2 == 0 {
		opts = append(opts, framework.WithReadOnly())
	}
	return opts
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func below(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(max(d, time.Millisecond))))
}
