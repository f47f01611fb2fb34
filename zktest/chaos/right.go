package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Right is something that only a certain number of processes may hold at a time: a lock, a term, a lease. The
// service reports to it what its processes believe. It is a violation if more processes than the limit believe at
// the same instant that they hold it, if a process acts under a right that was lost or has passed to another, or if
// tokens do not grow. Its methods are safe for concurrent use.
type Right struct {
	w       *World
	name    string
	limit   int
	byClock bool

	mu     sync.Mutex
	held   []*Grant // by the processes that believe that they hold it
	newest int      // number of the last grant
	alone  int64    // the largest token of a claim that is not shared
	token  int64    // the largest token of all claims
	node   string   // of the claim with that token
	holder *Process // of the claim with that token
	wants  map[*Process]int
	last   map[*Replica]time.Duration // time of the last claim or Done
	ended  map[*Process]int           // consecutive claims with a context that had ended
}

// Exclusive names a right that one process at a time may hold.
func (w *World) Exclusive(name string) *Right { return w.Shared(name, 1) }

// Shared names a right that up to limit processes may hold at a time: the leases of a semaphore.
func (w *World) Shared(name string, limit int) *Right {
	r := &Right{
		w:     w,
		name:  name,
		limit: max(limit, 1),
		wants: map[*Process]int{},
		last:  map[*Replica]time.Duration{},
		ended: map[*Process]int{},
	}
	w.rights = append(w.rights, r)
	return r
}

// ByClock declares that holders notice a loss by their clocks: then a paused holder counts as any other. It returns the
// right.
func (r *Right) ByClock() *Right {
	r.byClock = true
	return r
}

// Claim is the belief of a process that it holds the right, or a part of it.
type Claim struct {
	// Token is the fencing token; 0: there is none. Tokens have to grow, with two exceptions. A shared claim may have
	// its writer's token. The process with the newest token may have it again, like a latch that leads again by the
	// same node.
	Token int64
	// Until ends with the right, as a lock's Context() does; nil: the claim ends with Done. It is a violation if a
	// process makes three consecutive claims whose Until has already ended.
	Until context.Context
	// A Shared claim excludes only claims that are not shared: it is a reader's.
	Shared bool
	// Leases is the claim's part of the right's limit; 0: one.
	Leases int
	// Owner: claims of one owner do not exclude each other, such as a writer's that becomes a reader. Claims of two
	// owners do, even if they rest on one node, as with goroutines that pass a node on. "" means no owner.
	Owner string
	// The claim rests on Session and Nodes. It may outlive their removal by a fault for [World.Notice] (see
	// [World.Removed]). Claims of the same node, unless both have an Owner, count as one.
	Session int64
	Nodes   []string
}

// Grant is a claim that a process has made.
type Grant struct {
	Claim
	right  *Right
	who    *Process
	number int
	since  time.Duration
	lost   time.Duration // when Until ended; guarded by the right's lock, like the following
	gives  bool          // Returning was called: the end of Until is not a loss
	done   bool
	given  time.Duration // when it was done
	passed bool          // another has claimed the right since
}

// Wants records that a process waits for the right, for the coverage, until the returned function is called.
func (r *Right) Wants(p *Process) (done func()) {
	r.mu.Lock()
	r.wants[p]++
	r.mu.Unlock()
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.wants[p]--; r.wants[p] == 0 {
			delete(r.wants, p)
		}
	})
}

// Granted records that a process believes that it holds the right from now on, until the first context given, if
// any, ends (such as a lock's Context()), or until Done. Further contexts are ignored. It is a violation if as many
// others as the limit allows also believe it. Paused processes, which cannot notice a loss, and killed processes do
// not count.
func (r *Right) Granted(p *Process, until ...context.Context) *Grant {
	return r.GrantedWith(p, 0, until...)
}

// GrantedWith is Granted with the right's fencing token: tokens have to grow. A [Store] compares these tokens.
func (r *Right) GrantedWith(p *Process, token int64, until ...context.Context) *Grant {
	c := Claim{Token: token}
	if len(until) > 0 {
		c.Until = until[0]
	}
	return r.Claimed(p, c)
}

// Claimed is Granted for rights that are shared, have parts, or may be removed by faults.
func (r *Right) Claimed(p *Process, c Claim) *Grant {
	ended := c.Until != nil && c.Until.Err() != nil
	if !r.byClock {
		p.awaitResume()
	}
	g := &Grant{Claim: c, right: r, who: p}
	if p.isKilled() {
		g.done = true
		return g
	}
	r.mu.Lock()
	wrong := r.judgeGrant(g)
	if r.ended[p]++; !ended {
		r.ended[p] = 0
	}
	if r.ended[p] == mostEnded {
		wrong = append(wrong, fmt.Sprintf("takes it for the %dth time with a context that had ended: %v",
			mostEnded, context.Cause(c.Until)))
	}
	r.newest++
	g.number, g.since = r.newest, r.w.Elapsed()
	r.held = append(r.held, g)
	r.last[p.slot] = g.since
	r.mu.Unlock()

	p.Logf("GRANTED %s%s", r.name, g.tokenText())
	for _, text := range wrong {
		r.w.Violate(r.name, "%v %s", p, text)
	}
	if g.Until != nil {
		context.AfterFunc(g.Until, func() {
			r.mu.Lock()
			g.lost = r.w.Elapsed()
			known := g.done || g.gives
			r.mu.Unlock()
			if !known {
				p.Logf("LOST %s: %v", r.name, context.Cause(g.Until))
			}
		})
	}
	return g
}

// mostEnded is the number of consecutive claims with an ended context that is a violation. A hold may be lost at the
// instant of its grant, but not several times in succession.
const mostEnded = 3

// judgeGrant returns the violations of a new grant, given the others. The right's lock is held.
func (r *Right) judgeGrant(g *Grant) (wrong []string) {
	var beside []*Grant
	leases := max(g.Leases, 1)
	pardoned := g.isPardoned()
	if g.Until != nil && g.Until.Err() != nil {
		return nil // it may already be lost
	}
	for _, other := range r.held {
		if g.isSameHold(other) || r.limit == 1 && g.Shared && other.Shared {
			continue
		}
		other.passed = other.passed || r.limit == 1
		if other.believesHeld() && (r.byClock || !other.who.isPaused()) && !pardoned && !other.isPardoned() {
			beside, leases = append(beside, other), leases+max(other.Leases, 1)
		}
	}
	r.held = slices.DeleteFunc(r.held, func(other *Grant) bool { return other.Until != nil && !other.believesHeld() })
	if leases > r.limit && len(beside) > 0 || max(g.Leases, 1) > r.limit {
		wrong = append(wrong, fmt.Sprintf("has it, and so %s", believingGrants(beside)))
	}
	removal, removed := r.w.Removed(g.Session, g.Nodes...)
	if removed && removal.Sure && !removal.Head && !g.Shared && r.limit == 1 {
		wrong = append(wrong, fmt.Sprintf(
			"has it, although its node was deleted while another was ahead, at %v",
			removal.At.Round(time.Millisecond),
		))
	}
	if g.Token == 0 || r.limit > 1 || removed {
		return wrong
	}
	// A latch that was suspended leads again by the same node. Where nodes are not named the process decides.
	again := g.Token == r.token && r.holder == g.who && len(g.Nodes) == 0
	if r.node != "" {
		again = g.Token == r.token && slices.Contains(g.Nodes, r.node)
	}
	switch {
	case g.Shared && g.Token < r.alone:
		wrong = append(wrong, fmt.Sprintf("has it with token %d, and there was %d before", g.Token, r.alone))
	case !g.Shared && g.Token <= r.token && !again:
		wrong = append(wrong, fmt.Sprintf("has it with token %d, and there was %d before", g.Token, r.token))
	}
	if g.Token >= r.token {
		r.token, r.node, r.holder = g.Token, "", g.who
		if len(g.Nodes) > 0 {
			r.node = g.Nodes[0]
		}
	}
	if !g.Shared {
		r.alone = max(r.alone, g.Token)
	}
	return wrong
}

// isSameHold reports whether two grants are of one owner, or are one hold reported twice.
func (g *Grant) isSameHold(other *Grant) bool {
	if g.Owner != "" && other.Owner != "" {
		return g.Owner == other.Owner
	}
	return slices.ContainsFunc(g.Nodes, func(node string) bool { return slices.Contains(other.Nodes, node) })
}

// isPardoned reports whether a fault has removed the right, and the holder need not have noticed it yet.
func (g *Grant) isPardoned() bool {
	removal, removed := g.right.w.Removed(g.Session, g.Nodes...)
	return removed && (!removal.Sure || g.right.w.Elapsed()-removal.At <= g.right.w.Notice())
}

// believesHeld reports whether the process runs and still believes that it holds the right. The right's lock is
// held.
func (g *Grant) believesHeld() bool {
	return !g.done && (g.Until == nil || g.Until.Err() == nil) && !g.who.isKilled() && !g.who.hasReturned()
}

func (p *Process) isPaused() bool {
	p.slot.mu.Lock()
	defer p.slot.mu.Unlock()
	return p.slot.paused != nil
}

// hasReturned reports whether the process's function has returned.
func (p *Process) hasReturned() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (g *Grant) tokenText() string {
	if g.Token == 0 {
		return ""
	}
	return fmt.Sprintf(" with token %d", g.Token)
}

func believingGrants(grants []*Grant) string {
	s := ""
	for i, g := range grants {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("has %v, since %v", g.who, g.since.Round(time.Millisecond))
	}
	return s
}

// Use records that the process now does something that only a holder may do. It is a violation if the grant's
// context ended before, if Done was called before, or if the right has passed to another. While the process is
// paused Use waits: the act counts at the end of the pause.
func (g *Grant) Use(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if !g.recordAct(what) {
		return
	}
	r := g.right
	r.mu.Lock()
	ended, lost := g.Until != nil && g.Until.Err() != nil && g.lost != 0 && r.w.Elapsed() > g.lost, g.lost
	passed, done := g.passed, g.done && r.w.Elapsed() > g.given
	r.mu.Unlock()
	switch {
	case done:
		r.w.Violate(
			r.name,
			"%v does %q, %v after it has given the right up",
			g.who,
			what,
			(r.w.Elapsed() - g.given).Round(time.Millisecond),
		)
	case passed && !g.isPardoned():
		r.w.Violate(r.name, "%v does %q, and the right has passed to another since", g.who, what)
	case ended:
		r.w.Violate(
			r.name,
			"%v does %q, %v after its right has ended",
			g.who,
			what,
			(r.w.Elapsed() - lost).Round(time.Millisecond),
		)
	}
}

// recordAct waits while the process is paused, and adds the act to the story. It returns false if the process is
// killed.
func (g *Grant) recordAct(what string) bool {
	g.who.awaitResume()
	if g.who.isKilled() {
		return false
	}
	g.who.Logf("under %s%s: %s", g.right.name, g.tokenText(), what)
	return true
}

// Returning records that the process begins to release the right. The end of the grant's context is then not a loss.
// The process still holds the right until the context ends, or until Done.
func (g *Grant) Returning() {
	g.right.mu.Lock()
	defer g.right.mu.Unlock()
	g.gives = true
}

// Done records that the process has released the right, or regards it as lost.
func (g *Grant) Done() {
	r := g.right
	r.mu.Lock()
	if g.done {
		r.mu.Unlock()
		return
	}
	g.done, g.given = true, r.w.Elapsed()
	r.held = slices.DeleteFunc(r.held, func(other *Grant) bool { return other == g })
	r.last[g.who.slot] = r.w.Elapsed()
	r.mu.Unlock()
	g.who.Logf("DONE with %s", r.name)
}

// describeBelievers describes the grants whose processes believe that they hold the right, for a report.
func (r *Right) describeBelievers() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.held {
		if g.believesHeld() {
			since := g.since.Round(time.Millisecond)
			all = append(
				all,
				fmt.Sprintf("%v believes that it has %s%s, since %v", g.who, r.name, g.tokenText(), since),
			)
		}
	}
	return all
}

// momentOf returns the state of a process towards the right, one of moments.
func (r *Right) momentOf(s *Replica) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, recently := r.last[s]
	recently = recently && r.w.Elapsed()-at < 50*time.Millisecond
	for _, g := range r.held {
		if g.who.slot == s && g.believesHeld() {
			if recently {
				return "entered"
			}
			return "held"
		}
	}
	if recently {
		return "left"
	}
	for p := range r.wants {
		if p.slot == s {
			return "waited"
		}
	}
	return "idle"
}
