package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/zktest/chaos"
)

// hold has the methods that the holds of all recipes share.
type hold interface {
	Context() context.Context
	Valid() bool
	Remaining() time.Duration
}

// grant is a hold in the ledger.
type grant struct {
	hold
	who     int // the client
	claim   *chaos.Grant
	owner   int      // holds with the same owner do not exclude one another
	path    string   // of its node
	more    []string // the paths of further nodes
	session int64
	shared  bool                                    // a reader's
	weight  int                                     // number of leases
	token   int64                                   // 0: none
	passed  bool                                    // one of several holds that use a node one after the other
	line    func(context.Context) ([]string, error) // the paths of the contenders in line; nil: not checked
	first   time.Time                               // when it was first seen invalid
	sure    time.Time                               // until when Remaining called it certain

	recorded bool          // in the history
	last     time.Duration // when it was last seen valid
	told     map[string]bool
}

func (g *grant) String() string {
	return fmt.Sprintf("client %d's %s (token %d)", g.who%1000, g.path[len(root):], g.token)
}

func (g *grant) live() bool { return g.Context().Err() == nil }

// same reports whether two holds have the same owner, or are one hold reported twice.
func (g *grant) same(other *grant) bool {
	if g.owner != 0 && other.owner != 0 {
		return g.owner == other.owner
	}
	return g.path == other.path
}

// ledger checks one contended thing: its holders, by a chaos.Right, and their writes.
type ledger struct {
	w        *world
	name     string
	right    *chaos.Right
	exact    bool // the thing is exclusive, except among readers, and has tokens
	recorded bool // holds go into the history: one at a time, with growing tokens

	mu    sync.Mutex
	held  []*grant
	store int64    // largest token that the fenced store has seen
	acked []string // guarded writes that were confirmed
}

func newLedger(w *world, name string) *ledger { return ledgerOf(w, name, 1) }

// ledgerOf returns a ledger for a thing with several leases.
func ledgerOf(w *world, name string, leases int) *ledger {
	l := &ledger{w: w, name: name, right: w.Shared(name, leases).ByClock(), exact: leases == 1}
	w.must(w.ens.Member(0).Create(root+"/store-"+name, nil))
	return l
}

// wants is called before an actor waits for the thing; the actor calls done after it.
func (l *ledger) wants(ctx context.Context, a *actor, what string) (done func()) {
	timed, waits := a.timed(ctx, what), l.right.Wants(a.p)
	return func() {
		waits()
		timed()
	}
}

// oneAtATime makes the ledger record its holds in the history.
func (l *ledger) oneAtATime() *ledger {
	l.recorded = true
	l.w.recorded(l.name)
	return l
}

// granted records a hold; the right reports a violation if the hold must not exist.
func (l *ledger) granted(a *actor, g *grant) *grant {
	w := l.w
	g.who, g.session = a.who, w.witness.session(g.path)
	claim := chaos.Claim{
		Until:   g.Context(),
		Shared:  g.shared,
		Leases:  g.weight,
		Session: g.session,
		Nodes:   append([]string{g.path}, g.more...),
	}
	if g.owner != 0 {
		claim.Owner = fmt.Sprint(g.owner)
	}
	if l.exact {
		claim.Token = g.token
	}
	g.claim = l.right.Claimed(a.p, claim) // first: the other holds count as they are at this instant
	w.Count("grants", 1)
	w.Logf("%s is granted to %v, remaining %v", l.name, g, g.Remaining())
	l.silent(g)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !g.live() {
		return g // it may be lost again already
	}
	l.begun(a, g)
	l.held = append(slices.DeleteFunc(l.held, func(other *grant) bool { return !other.live() }), g)
	if _, away := l.takenAway(g); l.exact && !away && g.token <= 0 && !g.passed {
		w.violate("%s: %v has no token", l.name, g)
	}
	return g
}

// silent reports holds that have ended by the clock while Done of their context is not closed, before any call of
// Valid.
func (l *ledger) silent(g *grant) {
	l.mu.Lock()
	others := slices.Clone(l.held)
	l.mu.Unlock()
	if !l.exact {
		return
	}
	time.Sleep(time.Nanosecond) // everything else that happens at this instant comes first
	for _, other := range others {
		select {
		case <-other.Context().Done():
			continue
		default:
		}
		if other.same(g) || g.shared && other.shared || l.pardoned(other) || l.pardoned(g) || !g.live() {
			continue
		}
		if !other.live() {
			l.w.violate(
				"%s: %v is granted, and the context of %v has not ended; only its clock says so",
				l.name,
				g,
				other,
			)
		}
	}
}

// kept reports a hold that was lost by the clock before the end of the time that Remaining had promised (unless a
// server grants less), or that was lost while its session lives and its node blocks the other contenders.
func (l *ledger) kept(a *actor, g *grant) {
	cause := context.Cause(g.Context())
	if !errors.Is(cause, framework.ErrSessionLost) {
		return
	}
	if errors.Is(cause, wire.ErrLapsed) && time.Now().Before(g.sure) && l.w.plan.Rule != shrinks &&
		!l.w.plan.Shorter {
		l.w.violate(
			"%s: %v is lost by its clock %v before the time for which it was certain",
			l.name,
			g,
			time.Until(g.sure),
		)
	}
	time.Sleep(time.Nanosecond) // everything else that happens at this instant comes first
	if sessionOf(a.c) == g.session {
		l.w.violate("%s: %v is lost with its session, which lives on", l.name, g)
	}
}

func (l *ledger) takenAway(g *grant) (r chaos.Removal, away bool) {
	return l.w.Removed(g.session, append(g.more, g.path)...)
}

// pardoned reports whether a hold may still be valid though an administrator deleted its node or session a short time
// ago.
func (l *ledger) pardoned(g *grant) bool {
	r, away := l.takenAway(g)
	return away && (!r.Sure || l.w.ago(r.At) <= l.w.slack())
}

// noticed reports a hold that is still valid long after an administrator deleted its node or session.
func (l *ledger) noticed(g *grant) {
	if r, away := l.takenAway(g); away && r.Sure && l.w.ago(r.At) > l.w.slack() && g.live() &&
		l.once(g, "taken") {
		l.w.violate("%s: %v was taken away %v ago and does not know", l.name, g, l.w.ago(r.At))
	}
}

// once reports whether this is the first report of its kind about a hold.
func (l *ledger) once(g *grant, kind string) bool {
	if g.told[kind] {
		return false
	}
	if g.told == nil {
		g.told = map[string]bool{}
	}
	g.told[kind] = true
	return true
}

// use works under the hold for a while: the fenced store must accept the writes of a valid holder, and the writes that
// the guard lets through must be in the order of the tokens.
func (l *ledger) use(a *actor, g *grant, guard func() []framework.TransactionOp) {
	d := below(
		a.r,
		pick(
			a.r,
			100*time.Millisecond,
			time.Second,
			time.Second,
			l.w.plan.SessionTimeout,
			3*l.w.plan.SessionTimeout+5*time.Second,
		),
	)
	if l.w.plan.Rests {
		d = below(a.r, pick(a.r, 100*time.Millisecond, time.Second, l.w.plan.SessionTimeout/4, l.w.plan.SessionTimeout))
	}
	if l.w.plan.Meddling && a.r.IntN(4) == 0 {
		d = 2*l.w.slack() + 2*time.Second
	}
	defer l.ended(a, g)
	end := time.Now().Add(d)
	quiet := a.r.IntN(2) == 0 // relies on the context alone
	sharp := a.r.IntN(2) == 0 // calls Valid at the very instant at which the hold may end
	for (time.Now().Before(end) || l.w.keptOn(a.id)) && !l.w.calm() && !a.dead() {
		if !time.Now().Before(end) {
			end = time.Now().Add(500 * time.Millisecond)
		}
		wait := min(below(a.r, 500*time.Millisecond), time.Until(end))
		if left := g.Remaining(); left > 0 {
			g.sure = time.Now().Add(left)
			if sharp {
				wait = min(wait, left)
			}
		}
		select {
		case <-g.Context().Done():
			l.w.Logf("LOST %s by %v: %v", l.name, g, context.Cause(g.Context()))
			l.kept(a, g)
			return
		case <-time.After(wait):
			if sharp {
				g.Valid()
			}
		}
		if quiet {
			continue
		}
		l.noticed(g)
		l.save(g)
		if a.r.IntN(3) == 0 && guard != nil {
			l.guarded(a, g, guard()...)
		}
		if g.line != nil && a.r.IntN(6) == 0 {
			l.listed(a, g)
		}
	}
	l.noticed(g)
	l.save(g)
}

// save writes to a store that refuses smaller tokens. The writer calls Valid directly before.
func (l *ledger) save(g *grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	valid := g.Valid()
	switch {
	case valid && !g.first.IsZero():
		l.w.violate("%s: %v is valid again", l.name, g)
	case valid:
		g.last = l.w.Elapsed()
	case g.first.IsZero():
		g.first = time.Now()
	}
	if !valid || g.shared || !l.exact || g.passed {
		return
	}
	if g.token < l.store && !l.pardoned(g) && l.once(g, "store") {
		l.w.violate("%s: %v is valid, and the store has seen token %d", l.name, g, l.store)
	}
	l.store = max(l.store, g.token)
}

// one makes a list of the guard's single operation.
func one(guard func() framework.TransactionOp) func() []framework.TransactionOp {
	return func() []framework.TransactionOp { return []framework.TransactionOp{guard()} }
}

// guarded writes an entry into a log, in one transaction with the guard. The guard of a valid holder must succeed.
func (l *ledger) guarded(a *actor, g *grant, guards ...framework.TransactionOp) {
	ctx, cancel := a.within(2 * time.Second)
	defer cancel()
	defer a.timed(ctx, "Transaction")()
	entry := fmt.Appendf(nil, "%d %t", g.token, g.shared)
	appends := a.c.TransactionOp().
		Create().
		WithMode(framework.PersistentSequential).
		ForPath(l.log()+"/entry-", entry)
	results, err := a.c.Transaction(ctx, append(guards, appends)...)
	valid := g.Valid()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch _, away := l.takenAway(g); {
	case err == nil && len(results) == len(guards)+1:
		l.acked = append(l.acked, results[len(guards)].Path)
	case isErr(err, framework.ErrNoNode):
		if valid && !away {
			l.w.violate("%s: the guard of %v, which is valid, was refused: %v", l.name, g, err)
		}
	case err == nil:
		l.w.violate("%s: a transaction of %d has %d results", l.name, len(guards)+1, len(results))
	default:
		a.expected(ctx, err)
	}
}

// listed checks that the holder of an exclusive thing is the first contender in line, and any other holder is in the
// line.
func (l *ledger) listed(a *actor, g *grant) {
	ctx, cancel := a.within(2 * time.Second)
	defer cancel()
	done := a.timed(ctx, "Participants")
	valid := g.Valid()
	line, err := g.line(ctx)
	done()
	if err != nil {
		a.expected(ctx, err)
		return
	}
	if _, away := l.takenAway(g); away || !valid || !g.Valid() {
		return
	}
	switch at := slices.Index(line, g.path); {
	case at < 0:
		l.w.violate("%s: %v is valid, and is none of the participants %v", l.name, g, line)
	case at > 0 && l.exact:
		l.w.violate("%s: %v is valid, and the first of the participants is %s", l.name, g, line[0])
	}
}

// line converts a recipe's list of contenders to a list of their paths.
func line[P any](list func(context.Context) ([]P, error), path func(P) string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) (paths []string, err error) {
		all, err := list(ctx)
		for _, p := range all {
			paths = append(paths, path(p))
		}
		return paths, err
	}
}

func (l *ledger) log() string { return root + "/store-" + l.name }

// settle reads the log. All confirmed entries are there, and all entries, also those without a reply, are in the order
// of the tokens. A late write of a former holder would come after a write of its successor.
func (l *ledger) settle() {
	leader := l.w.ens.Leader()
	if leader < 0 {
		return
	}
	member := l.w.ens.Member(leader)
	entries, err := member.Children(l.log())
	l.w.must(err)
	slices.Sort(entries)
	for _, path := range l.acked {
		if _, there := slices.BinarySearch(entries, path[len(l.log())+1:]); !there {
			l.w.violate("%s: a confirmed write is not there: %s", l.name, path)
		}
	}
	all, writers := int64(0), int64(0)
	for _, name := range entries {
		data, _, err := member.Get(l.log() + "/" + name)
		l.w.must(err)
		var token int64
		var shared bool
		if _, err := fmt.Sscan(string(data), &token, &shared); err != nil {
			l.w.violate("%s: an entry is %q: %v", l.name, data, err)
		}
		if !l.exact {
			continue
		}
		if before := all; token < writers || !shared && token < before {
			l.w.violate(
				"%s: a write with token %d behind one with %d: the guard did not stop it",
				l.name,
				token,
				max(writers, before),
			)
		}
		if all = max(all, token); !shared {
			writers = max(writers, token)
		}
	}
}

// empty reports contenders whose nodes are left.
func (w *world) empty(dir string) {
	l := w.ens.Leader()
	if l < 0 || !w.ens.Member(l).Exists(dir) {
		return
	}
	if left, err := w.ens.Member(l).Children(dir); err != nil || len(left) > 0 {
		w.violate("left in %s: %v (%v)", dir, left, err)
	}
}
