package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/zktest"
)

// Plan is everything about a run that its seed decides.
type Plan struct {
	Seed           uint64         `json:"seed"`
	Members        int            `json:"members"`
	Profile        zktest.Profile `json:"profile"`
	TickTime       time.Duration  `json:"tickTime"`
	SyncLimit      int            `json:"syncLimit"`
	SessionTimeout time.Duration  `json:"sessionTimeout"`
	Pauses
	Trouble  time.Duration   `json:"trouble"` // the time of the faults
	Patience time.Duration   `json:"patience"`
	Latency  time.Duration   `json:"latency"`
	Replicas int             `json:"replicas,omitempty"` // only this many of the scenario's start; 0: all
	Own      json.RawMessage `json:"own,omitempty"`      // the scenario's: see Config.Plan
	Faults   []Fault         `json:"faults"`
}

// Pauses are times that the servers need, with or without faults.
type Pauses struct {
	Election  time.Duration `json:"election"`
	Lag       time.Duration `json:"lag"`       // of a member behind the leader
	PeerDelay time.Duration `json:"peerDelay"` // of a message between members
	Pace      time.Duration `json:"pace"`      // between two messages to a client
}

func (p *Plan) String() string {
	own := ""
	if len(p.Own) > 0 {
		own = fmt.Sprintf("; %s", p.Own)
	}
	return fmt.Sprintf(
		"seed %d: ZooKeeper %v, %d members (tick %v, syncLimit %d, election %v, lag %v, peer delay %v, pace %v), "+
			"session timeout %v, %d faults in %v%s",
		p.Seed,
		p.Profile,
		p.Members,
		p.TickTime,
		p.SyncLimit,
		p.Election,
		p.Lag,
		p.PeerDelay,
		p.Pace,
		p.SessionTimeout,
		len(p.Faults),
		p.Trouble,
		own,
	)
}

// drawPlan returns the plan of a seed.
func drawPlan(seed uint64, c Config) *Plan {
	p := drawnPlan(seed, c)
	if c.Plan != nil {
		c.Plan(p)
	}
	return p
}

func drawnPlan(seed uint64, c Config) *Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := &Plan{
		Seed:           seed,
		Members:        pickRandom(r, c.Members...),
		Profile:        pickRandom(r, c.Profiles...),
		TickTime:       c.TickTime,
		SyncLimit:      c.SyncLimit,
		SessionTimeout: pickRandom(r, c.SessionTimeouts...),
		Latency:        c.Latency,
		Patience:       c.Patience,
	}
	p.Election = pickRandom(r, 400*time.Millisecond, 400*time.Millisecond, 100*time.Millisecond, 3*time.Second)
	p.Pace = pickRandom(r, 0, 0, randomBelow(r, time.Millisecond))
	if p.Members > 1 {
		p.Lag = pickRandom(r, 0, 0, randomBelow(r, 50*time.Millisecond), randomBelow(r, 500*time.Millisecond))
		p.PeerDelay = pickRandom(r, 0, 0, randomBelow(r, 20*time.Millisecond))
	}
	p.Trouble = (c.Trouble/2 + randomBelow(r, c.Trouble/2)).Round(time.Second)
	if p.Patience <= 0 {
		p.Patience = 2*time.Minute + 4*p.SessionTimeout
	}
	kinds := slices.DeleteFunc(
		slices.Clone(c.Faults),
		func(k Kind) bool { return k.needsPeers() && p.Members == 1 },
	)
	every := c.Every
	if every <= 0 {
		every = pickRandom(r, time.Second, 2*time.Second, 4*time.Second)
	}
	for at := time.Second; at < p.Trouble && len(kinds) > 0; at += randomBelow(r, 2*every) {
		if f, ok := p.drawFault(r, pickRandom(r, kinds...), at); ok {
			p.Faults = append(p.Faults, f)
		}
	}
	return p
}

var (
	struckOps = []zktest.Op{
		zktest.OpCreate2,
		zktest.OpCreate2,
		zktest.OpCreate,
		zktest.OpGetChildren2,
		zktest.OpGetData,
		zktest.OpDelete,
		zktest.OpExists,
		zktest.OpPing,
		zktest.OpPing,
		zktest.OpConnect,
		zktest.OpMulti,
		zktest.OpSetData,
		zktest.OpSetWatches,
		zktest.OpSetWatches2,
		zktest.OpAddWatch,
		zktest.OpMultiRead,
		zktest.OpSync,
		zktest.OpCloseSession,
	}
	strikes = []zktest.Action{
		zktest.DropRequest,
		zktest.CutBefore,
		zktest.LoseReply,
		zktest.LoseReply,
		zktest.LoseReply,
		zktest.Hold,
		zktest.HoldReply,
		zktest.DelayReply,
		zktest.DelayReply,
		zktest.ReplyError,
		zktest.HalfHandshake,
	}
	// answers are errors that a server may send for a request that it has not executed.
	answers = []zktest.Error{zktest.ErrThrottledOp, zktest.ErrRequestTimeout, zktest.ErrSessionMoved}
)

// drawFault draws a fault. It reports false if the fault is not possible.
func (p *Plan) drawFault(r *rand.Rand, kind Kind, at time.Duration) (Fault, bool) {
	// All fields are drawn, whatever the kind needs: so a plan changes little when a kind changes.
	f := Fault{
		Kind:    kind,
		At:      at.Round(time.Millisecond),
		Process: r.IntN(1 << 10),
		Member:  r.IntN(p.Members),
		Other:   r.IntN(p.Members),
		Dir: pickRandom(
			r,
			zktest.Both,
			zktest.FromClient,
			zktest.ToClient,
		),
		Op:     pickRandom(r, struckOps...),
		Action: pickRandom(r, strikes...),
		Err:    pickRandom(r, answers...),
		After:  r.IntN(3),
		Times:  pickRandom(r, 1, 1, 2, -1),
		All:    r.IntN(3) == 0,
	}
	f.Delay = randomBelow(r, pickRandom(r, 100*time.Millisecond, time.Second, 3*time.Second)).Round(time.Millisecond)
	f.Lasts = randomBelow(
		r,
		pickRandom(r, time.Second, p.SessionTimeout, 2*p.SessionTimeout+p.staleServing()),
	).Round(
		time.Millisecond,
	)
	if f.Other == f.Member && p.Members > 1 {
		f.Other = (f.Other + 1) % p.Members
	}
	switch kind {
	case Away:
		if f.Lasts *= 3; r.IntN(
			2,
		) == 0 { // lost for its client, but maybe not expired at the servers
			f.Lasts = p.SessionTimeout*2/3 + randomBelow(r, p.SessionTimeout/3+p.TickTime).Round(time.Millisecond)
		}
	case ClockStep:
		f.Delay = pickRandom(r, -time.Hour, -time.Minute, -time.Second, time.Second, time.Minute, time.Hour)
	case SkewServer:
		f.Delay = p.SessionTimeout
	case PeerDelay:
		f.Delay /= 10
	case Strike:
		if f.Action == zktest.HalfHandshake {
			f.Op = zktest.OpConnect
		}
		// ReplyError answers a handshake with "session expired", which a server sends only if the session has ended.
		return f, !(f.Op == zktest.OpConnect && f.Action == zktest.ReplyError)
	}
	return f, true
}

// staleServing returns the longest time that a member without the others may still answer requests.
func (p *Plan) staleServing() time.Duration {
	if p.Members == 1 {
		return 0
	}
	return time.Duration(p.SyncLimit)*p.TickTime + p.TickTime*3/2
}

// setWatchesFailing returns the time during which faults may end each connection at its first request, setWatches.
func (p *Plan) setWatchesFailing() (d time.Duration) {
	for _, f := range p.Faults {
		arms := f.Op == zktest.OpSetWatches || f.Op == zktest.OpSetWatches2
		if f.Kind == Strike && arms && f.Times < 0 {
			d += f.Lasts
		}
	}
	return d
}

// endTime returns the time when the last fault is undone.
func (p *Plan) endTime() (end time.Duration) {
	for _, f := range p.Faults {
		end = max(end, f.At+f.Lasts)
	}
	return end
}

// serverConfig returns the members' configuration.
func (p *Plan) serverConfig() zktest.Config {
	cfg := zktest.Config{
		TickTime:     p.TickTime,
		SyncLimit:    p.SyncLimit,
		Lag:          p.Lag,
		PeerDelay:    p.PeerDelay,
		Profile:      p.Profile,
		Pace:         p.Pace,
		ElectionTime: p.Election,
		MinSessionTimeout: min(
			2*p.TickTime,
			p.SessionTimeout,
		),
		MaxSessionTimeout: max(20*p.TickTime, p.SessionTimeout),
	}
	// /zookeeper/config is a standalone server's.
	if p.Members == 1 || slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Grow }) {
		cfg.EnsembleConfig = "version=0"
	}
	return cfg
}

// schedule lists the faults, one a line.
func (p *Plan) schedule(names []string) string {
	if len(p.Faults) == 0 {
		return "  no fault is needed: the servers and the network of the plan are enough\n"
	}
	var b strings.Builder
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  %s\n", f.describeAmong(names))
	}
	return b.String()
}

func pickRandom[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomBelow(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(max(d, time.Millisecond))))
}
