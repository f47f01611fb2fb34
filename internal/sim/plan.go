package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Plan is what a seed decides before the run.
type Plan struct {
	Seed      uint64
	Members   int
	Clients   int
	Tick      time.Duration
	SyncLimit int
	Timeout   time.Duration // of sessions
	Asked     time.Duration // timeout that clients ask for
	Election  time.Duration // how long one takes
	Lag       time.Duration
	PeerDelay time.Duration
	Pace      time.Duration // the time between two messages that a server sends at one instant
	Abreast   int           // contenders per client, at the works that allow several
	Profile   zktest.Profile
	Auth      bool // servers demand authentication
	SASL      bool // by a SASL login
	ReadOnly  bool // members without a quorum serve reads to the clients that allow it, which is every other
	Private   bool // only authenticated clients may use the nodes
	OneShot   bool // caches do without persistent watches
	Loss      framework.LossPolicy
	// Meddling plans have an administrator who deletes nodes and ends sessions. Clients cannot know that in
	// time; see ledger.
	Meddling bool
	Trouble  time.Duration // how long faults happen
	Calm     time.Duration // how long no faults happen before that, if the rule is to change; else 0
	Grows    bool          // then the servers, which have claimed to stand alone, say that they are an ensemble
	Shrinks  bool          // then they grant half the timeout
	Busy     bool          // meanwhile a client asks for very much at once, and many answers take as long as a session
	Ghosts   bool          // meanwhile all lose their sessions by the clock, and what they sent in those arrives in the next
	Works    []string
	Faults   []fault

	Telling   bool // keep the story of a run without a violation, too
	Recording bool // keep the history
}

// NewPlan makes the plan of a seed. If works are given, its clients do these.
func NewPlan(seed uint64, works ...string) *Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := &Plan{Seed: seed}
	p.Members = pick(r, 1, 1, 3, 3, 3, 5)
	p.Clients = 2 + r.IntN(4)
	if r.IntN(40) == 0 {
		p.Clients = 10 + r.IntN(41)
	}
	p.Tick = pick(r, 500*time.Millisecond, time.Second, 2*time.Second)
	p.SyncLimit = pick(r, 2, 5)
	p.Timeout = p.Tick * time.Duration(pick(r, 2, 3, 4, 8, 15, 20))
	p.Trouble = time.Duration(30+r.IntN(90)) * time.Second
	if p.Timeout > 10*time.Second {
		p.Trouble *= 2
	}
	if p.Members > 1 {
		p.Lag = pick(r, 0, 0, below(r, 50*time.Millisecond), below(r, time.Second))
		p.PeerDelay = pick(r, 0, 0, below(r, 20*time.Millisecond))
		p.keepUp(p.Timeout)
	}
	p.Auth = r.IntN(8) == 0
	p.OneShot = r.IntN(4) == 0
	p.Loss = pick(r, framework.SuspendedIsLoss, framework.SessionOnly)
	p.Meddling = r.IntN(3) == 0
	p.Works = works
	if len(works) == 0 {
		all := workNames()
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		p.Works = all[:min(1+r.IntN(3), len(all))]
	}
	p.Faults = p.faults(r)
	r = rand.New(rand.NewPCG(seed, 1<<40)) // what follows does not change what is above
	p.Profile = pick(r, zktest.V38, zktest.V38, zktest.V384, zktest.V39, zktest.V35)
	p.SASL = p.Auth && r.IntN(2) == 0
	p.ReadOnly = r.IntN(6) == 0
	p.Pace = pick(r, 0, 0, below(r, time.Millisecond))
	p.Abreast = pick(r, 1, 1, 2, 3)
	if p.Clients > 6 {
		p.Abreast = 1
	}
	p.Private = p.Auth && r.IntN(2) == 0
	p.Asked = p.Timeout * time.Duration(pick(r, 1, 1, 1, 3))
	p.Election = pick(r, 400*time.Millisecond, 400*time.Millisecond, 100*time.Millisecond, 3*time.Second)
	if r.IntN(4) == 0 && len(works) == 0 {
		p.Works = append(p.Works, visits)
	}
	p.turns(rand.New(rand.NewPCG(seed, 1<<41)))
	p.bursts(rand.New(rand.NewPCG(seed, 1<<42)))
	p.ghosts(rand.New(rand.NewPCG(seed, 1<<43)))
	return p
}

// keepUp makes the servers commit fast enough for clients with that session timeout: no promise covers slower
// servers.
func (p *Plan) keepUp(timeout time.Duration) {
	if timeout < 2*p.bound() { // heartbeats, which have to be committed in time
		p.Lag, p.PeerDelay = min(p.Lag, timeout/10), min(p.PeerDelay, timeout/80)
	} else { // pings wait for writes, and a connection without an answer is given up after (T - D)/3
		p.Lag = min(p.Lag, (timeout-p.bound())/6)
	}
}

// turns decides whether, and by what, the clients' rule for holds changes.
func (p *Plan) turns(r *rand.Rand) {
	extra := p.clocks(r)
	switch {
	case p.ReadOnly || p.Meddling || p.Members == 1 || r.IntN(3) > 0:
	case r.IntN(2) == 0:
		p.Grows = true
	default:
		p.Shrinks = p.Timeout >= 4*p.Tick
	}
	if p.Shrinks {
		p.keepUp(p.Timeout / 2)
	}
	if p.Grows || p.Shrinks {
		p.calmFor(2*p.Timeout + below(r, 2*p.Timeout))
		f := fault{kind: pick(r, "part", "part", "leader", "away", "oneway"), client: r.IntN(p.Clients), member: r.IntN(p.Members), other: r.IntN(p.Members), dice: r.IntN(1<<20) | 1}
		f.at, f.dir, f.lasts = p.Calm+reconnecting+below(r, p.Timeout/4), zktest.Both, p.bound()+2*p.Timeout
		extra = append(extra, fault{kind: "turn", at: p.Calm}, f)
	}
	p.Faults = append(p.Faults, extra...)
}

// calmFor puts a time without faults before the others.
func (p *Plan) calmFor(d time.Duration) {
	p.Calm = d
	p.Trouble += d
	for i := range p.Faults {
		p.Faults[i].at += d
	}
}

// bursts makes a client that holds by heartbeats ask for very much at once while nothing is wrong: the
// heartbeats must not wait for that. Other requests may wait for it, so there are only holds.
func (p *Plan) bursts(r *rand.Rand) {
	if p.Calm > 0 || p.Members == 1 || p.Timeout >= 2*p.bound() || r.IntN(4) > 0 {
		return
	}
	for _, work := range p.Works {
		if !crowded[work] || work == "revocation" {
			return
		}
	}
	p.Busy = true
	p.Lag, p.PeerDelay = min(p.Lag, p.Timeout/40), min(p.PeerDelay, p.Timeout/160) // a heartbeat has half the time between two, the way to the server included
	p.calmFor(5*time.Second + 4*p.Timeout)
	p.Faults = append(p.Faults, fault{kind: "burst", at: 3*time.Second + below(r, 2*p.Timeout), lasts: 2 * p.Timeout, client: r.IntN(p.Clients), delay: 3 * p.Timeout / 2 * window / burst})
}

// ghosts keeps every client away, while nothing else is wrong, just until it has lost its session by the
// clock. Under the bound rule the old session lives on for a while beside the next, and what was sent in it
// arrives then.
func (p *Plan) ghosts(r *rand.Rand) {
	if p.Calm > 0 || p.Members == 1 || p.Timeout < 2*p.bound() || r.IntN(2) > 0 {
		return
	}
	p.Ghosts = true
	p.calmFor(5*time.Second + 2*p.Timeout)
	for i := range p.Clients {
		p.Faults = append(p.Faults, fault{kind: "away", at: 3*time.Second + below(r, time.Second), lasts: p.Timeout - p.bound(), client: i, dir: zktest.Both, delay: p.bound()/4 + below(r, p.bound()/2)})
	}
}

// burst is the number of requests of a burst, and window how many of them may be in flight.
const burst, window = 600, 8

// reconnecting is how long after a cut all clients that can connect have a connection again.
const reconnecting = 50 * time.Millisecond

// clocks are faults of the machines on which the clients run, and of the answers that decide their rule.
func (p *Plan) clocks(r *rand.Rand) (faults []fault) {
	for at := time.Second; at < p.Trouble; at += 5*time.Second + below(r, 40*time.Second) {
		f := fault{kind: pick(r, "wallclock", "config", "config"), at: at, lasts: time.Second, client: r.IntN(p.Clients), dice: r.IntN(8), delay: pick(r, 5*time.Second, time.Minute, 24*time.Hour)}
		f.err = pick(r, zktest.ErrThrottledOp, zktest.ErrRequestTimeout)
		faults = append(faults, f)
	}
	return faults
}

// bound is D: how long a member may go on answering after it has lost the others.
func (p *Plan) bound() time.Duration {
	if p.Members == 1 {
		return 0 // it cannot lose a leader
	}
	return p.stale()
}

// stale is the D that clients are configured with, also those of a single server, which notice that it stands
// alone.
func (p *Plan) stale() time.Duration { return time.Duration(p.SyncLimit)*p.Tick + p.Tick*3/2 }

func (p *Plan) String() string {
	return fmt.Sprintf("seed %d: %d members, tick %v, syncLimit %d; %d clients with %d abreast, T %v (asked for: %v), %v, %s; election %v, lag %v, peer delay %v, pace %v, ZooKeeper %v, auth %t (SASL %t, private %t), read-only %t, meddling %t, grows %t, shrinks %t, busy %t, ghosts %t; %v of trouble",
		p.Seed, p.Members, p.Tick, p.SyncLimit, p.Clients, p.Abreast, p.Timeout, p.Asked, p.Loss, strings.Join(p.Works, "+"), p.Election, p.Lag, p.PeerDelay, p.Pace, p.Profile, p.Auth, p.SASL, p.Private, p.ReadOnly, p.Meddling, p.Grows, p.Shrinks, p.Busy, p.Ghosts, p.Trouble)
}

// server is the configuration of the members.
func (p *Plan) server() zktest.Config {
	cfg := zktest.Config{TickTime: p.Tick, SyncLimit: p.SyncLimit, Lag: p.Lag, PeerDelay: p.PeerDelay, Profile: p.Profile, ReapInterval: 5 * time.Minute,
		RequireAuth: p.Auth && !p.SASL, RequireSASL: p.SASL, ReadOnlyMode: p.ReadOnly, LocalSessions: true, Pace: p.Pace,
		MaxSessionTimeout: p.Timeout, ElectionTime: p.Election}
	if p.Grows || p.Members == 1 { // it says that it stands alone
		cfg.EnsembleConfig = "version=0"
	}
	if p.SASL {
		cfg.SASLUsers = map[string]string{user: password}
	}
	return cfg
}

const user, password = "sim", "secret"

// options are those of a client.
func (p *Plan) options(client int) []framework.Option {
	opts := []framework.Option{framework.WithSessionTimeout(p.Asked), framework.WithStaleServerBound(p.stale()), framework.WithServerTick(p.Tick)}
	switch {
	case p.SASL:
		opts = append(opts, framework.WithSASLDigest(user, password))
	case p.Auth:
		opts = append(opts, framework.WithAuth("digest", []byte(user+":"+password)))
	}
	if p.Private {
		opts = append(opts, framework.WithDefaultACL(framework.CreatorACL()...))
	}
	if p.Busy {
		opts = append(opts, framework.WithWindow(window))
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
