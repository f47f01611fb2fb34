package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Right is something that only so many processes may have at a time: a lock, an election, a lease. The
// service reports to it what its processes believe; it reports two that believe it at one instant, acts
// under a right that was lost or has passed on, and tokens that do not grow. Its methods are safe for
// concurrent use.
type Right struct {
	w     *World
	name  string
	limit int

	mu     sync.Mutex
	held   []*Grant // by all that believe to have it
	newest int      // number of the last grant
	token  int64    // the largest
	wants  map[*Process]int
	last   map[*Replica]time.Duration // when each got or gave it last
}

// Exclusive names a right that one process at a time may have.
func (w *World) Exclusive(name string) *Right { return w.Shared(name, 1) }

// Shared names a right that so many may have at a time: the leases of a semaphore.
func (w *World) Shared(name string, limit int) *Right {
	r := &Right{
		w:     w,
		name:  name,
		limit: max(limit, 1),
		wants: map[*Process]int{},
		last:  map[*Replica]time.Duration{},
	}
	w.rights = append(w.rights, r)
	return r
}

// Grant is what a process believes: that it has the right.
type Grant struct {
	right  *Right
	who    *Process
	number int
	token  int64
	since  time.Duration
	ctx    context.Context // ends with the right; nil: the service says Done
	lost   time.Duration   // when ctx had ended; guarded by the right's lock, like the following
	done   bool
	given  time.Duration // when it was done
	passed bool          // somebody else has got it since
}

// Wants says that a process begins to wait for the right, for the story and the coverage. The returned
// function says that it waits no longer.
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

// Granted says that a process believes to have the right from now on, until the contexts end, if any are
// given (such as a lock's Context()), or it says Done. It is a violation if as many others as may believe it,
// too. A paused process, which cannot know better, and a killed one do not count.
func (r *Right) Granted(p *Process, until ...context.Context) *Grant {
	return r.GrantedWith(p, 0, until...)
}

// GrantedWith is Granted with the right's fencing token: tokens have to grow. For a [Store] the token is what
// it compares.
func (r *Right) GrantedWith(p *Process, token int64, until ...context.Context) *Grant {
	p.gate()
	g := &Grant{right: r, who: p, token: token}
	if p.killed() {
		g.done = true
		return g
	}
	if len(until) > 0 {
		g.ctx = until[0]
	}
	r.mu.Lock()
	var beside []*Grant
	for _, other := range r.held {
		if other.believes() && !other.who.pausedNow() {
			beside = append(beside, other)
		}
		other.passed = other.passed || r.limit == 1
	}
	r.newest++
	now := r.w.Elapsed()
	g.number, g.since = r.newest, now
	r.held = append(r.held, g)
	r.last[p.slot] = now
	before := r.token
	r.token = max(r.token, token)
	r.mu.Unlock()

	p.Logf("GRANTED %s%s", r.name, g.tokenText())
	if len(beside) >= r.limit {
		r.w.Violate(r.name, "%v has it, and so %s", p, believers(beside))
	}
	if token != 0 && token <= before && r.limit == 1 {
		r.w.Violate(r.name, "%v has it with token %d, and there was %d before", p, token, before)
	}
	if g.ctx != nil {
		context.AfterFunc(g.ctx, func() {
			r.mu.Lock()
			g.lost = r.w.Elapsed()
			known := g.done
			r.mu.Unlock()
			if !known {
				p.Logf("LOST %s: %v", r.name, context.Cause(g.ctx))
			}
		})
	}
	return g
}

// believes says whether the process lives and still takes the right for its own. The right's lock is held.
func (g *Grant) believes() bool {
	return !g.done && (g.ctx == nil || g.ctx.Err() == nil) && !g.who.killed() && !g.who.over()
}

func (p *Process) pausedNow() bool {
	p.slot.mu.Lock()
	defer p.slot.mu.Unlock()
	return p.slot.paused != nil
}

// over says whether the process's function has returned.
func (p *Process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (g *Grant) tokenText() string {
	if g.token == 0 {
		return ""
	}
	return fmt.Sprintf(" with token %d", g.token)
}

func believers(grants []*Grant) string {
	s := ""
	for i, g := range grants {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("has %v, since %v", g.who, g.since.Round(time.Millisecond))
	}
	return s
}

// Use says that the process does, at this moment, what only a holder may do. It is a violation if its context
// had ended before, or the right has passed to another since. While the process is paused Use waits: the act
// comes when it goes on.
func (g *Grant) Use(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if !g.act(what) {
		return
	}
	r := g.right
	r.mu.Lock()
	ended, lost := g.ctx != nil && g.ctx.Err() != nil && g.lost != 0 && r.w.Elapsed() > g.lost, g.lost
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
	case passed:
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

// act waits for a paused process, and tells the story; it says false if the process is dead.
func (g *Grant) act(what string) bool {
	g.who.gate()
	if g.who.killed() {
		return false
	}
	g.who.Logf("under %s%s: %s", g.right.name, g.tokenText(), what)
	return true
}

// Done says that the process has given the right back, or takes it for lost.
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

// beliefs are who believes to have the right, for a report.
func (r *Right) beliefs() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.held {
		if g.believes() {
			since := g.since.Round(time.Millisecond)
			all = append(
				all,
				fmt.Sprintf("%v believes to have %s%s, since %v", g.who, r.name, g.tokenText(), since),
			)
		}
	}
	return all
}

// moment is what a process is doing with the right, for the coverage.
func (r *Right) moment(s *Replica) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, recently := r.last[s]
	recently = recently && r.w.Elapsed()-at < 50*time.Millisecond
	for _, g := range r.held {
		if g.who.slot == s && g.believes() {
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
