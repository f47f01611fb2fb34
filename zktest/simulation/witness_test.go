package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/recipes/leader"
)

// witness checks holds by the clients' hooks, at the instants at which each begins and ends. A ledger gets a grant from
// its holder, a few steps later. Only the witness sees several steps at one virtual instant, such as an end after the
// beginning of the next hold.
type witness struct {
	w *world

	mu    sync.Mutex
	terms map[string]context.Context // by their nodes
	open  map[*holding]bool
	ids   map[string]int64      // the sessions of all holds, by their nodes
	lost  map[string]bool       // the nodes of holds that did not end by their release
	last  map[string]mark       // by thing
	past  map[string][]*holding // lost by the clock, and not granted to another client since
}

// holding is a hold between its two hooks.
type holding struct {
	framework.HoldInfo
	thing  string // the directory of the line
	kind   heldKind
	turn   any // the owner of the turn
	began  time.Time
	amiss  []amiss // violations, unless the hold turns out never to have been granted
	client int

	ended time.Time // zero while it has not ended
	lost  bool      // it was lost, not released
	cut   bool      // when it was lost, its client could not reach a member to close the session
	next  time.Time // when another client got a grant before this end; zero if none did
}

// amiss is a hold that existed beside too many others. The hooks report a loss a moment later, at the same virtual
// instant, and so the end of a term, which one goroutine ends while another waits to delete its node. A hold whose end
// was reported at that instant had already ended.
type amiss struct {
	what   string
	at     time.Time
	beside []*holding
	most   int
}

// stands reports whether the violation is real. witness.mu is held.
func (a amiss) stands() bool {
	n := 0
	for _, s := range a.beside {
		if !s.lost || !s.ended.Equal(a.at) {
			n++
		}
	}
	return n > a.most
}

// mark has the largest tokens of a thing: of all holders, and of its exclusive holders.
type mark struct{ all, alone int64 }

type heldKind struct {
	shared bool // does not exclude other shared holds
	leases int  // how many at a time; 0: one
}

// heldKinds are the recipes whose holds exclude others.
var heldKinds = map[string]heldKind{
	"mutex":      {},
	"write-lock": {},
	"read-lock":  {shared: true},
	"latch":      {},
	"selector":   {},
	"semaphore":  {leases: leases},
	"assignment": {},
	"once":       {},
}

func newWitness(w *world) *witness {
	return &witness{
		w:     w,
		terms: map[string]context.Context{},
		open:  map[*holding]bool{},
		ids:   map[string]int64{},
		lost:  map[string]bool{},
		last:  map[string]mark{},
		past:  map[string][]*holding{},
	}
}

// turnKey is the context key of a turn's owner.
type turnKey struct{}

// hooks returns the hooks of a client.
func (n *witness) hooks(client int) framework.Hooks {
	return framework.Hooks{
		Hold: func(ctx context.Context, info framework.HoldInfo) (context.Context, func(error)) {
			kind, known := heldKinds[info.Recipe]
			if !known {
				return ctx, nil
			}
			s := &holding{
				HoldInfo: info,
				thing:    path.Dir(info.Path),
				kind:     kind,
				turn:     ctx.Value(turnKey{}),
				began:    time.Now(),
				client:   client,
			}
			n.begins(s)
			n.w.happens(false, client)
			return ctx, func(cause error) {
				n.ends(s, cause)
				if errors.Is(cause, framework.ErrReleased) {
					n.w.happens(true, client)
				}
			}
		},
		Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
			if op.Name == "delete" {
				n.deletes(op.Path)
			}
			return nil
		},
		State: func(s framework.StateReport) {
			// Not "stuck": where a commit takes a large part of a short timeout, a client tries another server shortly
			// before the end.
			if (s.Reason == "silent" || s.Reason == "protocol") && n.w.settled() {
				n.w.violate("hooks: client %d closes a connection with which nothing is wrong: %v", client, s.Err)
			}
		},
	}
}

func (s *holding) String() string {
	return fmt.Sprintf("client %d's %s (%s, token %d)", s.client, s.Path[len(root):], s.Recipe, s.Token)
}

// excludes reports whether two holds of a thing must not exist at one time.
func (s *holding) excludes(other *holding) bool {
	switch {
	case s.Path == other.Path: // one hold, reported twice
	case s.kind.leases > 0:
	case s.kind.shared && other.kind.shared:
	case s.kind.shared && s.turn != nil && s.turn == other.turn: // a writer that downgrades
	default:
		return true
	}
	return false
}

func (n *witness) begins(s *holding) {
	pardoned := n.pardoned(s)
	n.mu.Lock()
	defer n.mu.Unlock()
	var beside []*holding
	for other := range n.open {
		if other.thing != s.thing || pardoned || n.pardoned(other) {
			continue
		}
		beside = append(beside, other)
		if s.excludes(other) {
			s.amiss = append(
				s.amiss,
				amiss{fmt.Sprintf("%v begins before %v has ended", s, other), s.began, []*holding{other}, 0},
			)
		}
	}
	if s.kind.leases > 0 && len(beside) >= s.kind.leases {
		s.amiss = append(
			s.amiss,
			amiss{
				fmt.Sprintf("%d leases of %d with %v", len(beside)+1, s.kind.leases, s),
				s.began,
				beside,
				s.kind.leases - 1,
			},
		)
	}
	m := n.last[s.thing]
	if s.kind.leases == 0 && s.Token != 0 && !pardoned {
		if s.Token < m.alone || !s.kind.shared && s.Token < m.all {
			s.amiss = append(
				s.amiss,
				amiss{what: fmt.Sprintf("%v has a token behind %d", s, m.all), at: s.began, most: -1},
			)
		}
		if m.all = max(m.all, s.Token); !s.kind.shared {
			m.alone = max(m.alone, s.Token)
		}
		n.last[s.thing] = m
	}
	n.open[s], n.ids[s.Path] = true, s.SessionID
	if !pardoned {
		n.follows(s, beside)
	}
}

// follows records when a new hold comes after the holds of other clients. witness.mu is held.
func (n *witness) follows(s *holding, beside []*holding) {
	for _, other := range beside {
		if s.excludes(other) && s.client != other.client && other.next.IsZero() {
			other.next = s.began
		}
	}
	n.past[s.thing] = slices.DeleteFunc(n.past[s.thing], func(other *holding) bool {
		if s.excludes(other) && s.client != other.client && !n.pardoned(other) {
			n.margin(other, s.began.Sub(other.ended))
		}
		return s.excludes(other)
	})
}

// margin records how long after a hold's end by the clock another client was granted. Promise P1 has a least time.
func (n *witness) margin(s *holding, d time.Duration) {
	timeout := n.w.plan.SessionTimeout
	if n.w.plan.Rule == shrinks || n.w.plan.Shorter {
		timeout /= 2
	}
	least := min(timeout/10, time.Second)
	kind := n.w.plan.kind()
	if s.cut {
		kind += ", expired" // by the servers
	}
	n.w.Least("time beyond P1's margin, "+kind, d-least)
	n.w.Count("losses by the clock", 1)
	if n.w.plan.exact() && d < least-time.Millisecond {
		n.w.violate("hooks: another was granted what %v had %v after that had ended, at %.6fs; P1 promises %v",
			s, d, n.w.at(s.ended).Seconds(), least)
	}
}

// session returns the session of a hold, by its node.
func (n *witness) session(node string) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := n.ids[node]
	if id == 0 {
		n.w.violate("hooks: nobody was told of a hold on %s", node)
	}
	return id
}

// lasts reports whether a node's hold was certain until its release: it was not lost, and no fault may have deleted its
// node, of which the holder would learn only later.
func (n *witness) lasts(node string) bool {
	n.mu.Lock()
	id, lost := n.ids[node], n.lost[node]
	n.mu.Unlock()
	_, removed := n.w.Removed(id, node)
	return !lost && !removed && !n.w.MayHaveEnded(id)
}

// deletes reports a violation if the node of a hold is deleted before the hold has ended: the next waiter may hold as
// soon as the node is gone.
func (n *witness) deletes(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if term := n.terms[node]; term != nil && term.Err() == nil {
		n.w.violate("hooks: the node of a term, %s, is deleted before the term has ended", node)
	}
	for s := range n.open {
		if s.Path == node {
			s.amiss = append(
				s.amiss,
				amiss{
					fmt.Sprintf("the node of %v is deleted before that has ended", s),
					time.Now(),
					[]*holding{s},
					0,
				},
			)
		}
	}
}

// leads records a term. The hooks may report its end only after the delete of its node, but its context ends before.
func (n *witness) leads(term *leader.Term) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.terms[term.Path()] = term.Context()
}

func (n *witness) ends(s *holding, cause error) {
	n.mu.Lock()
	delete(n.open, s)
	s.ended, s.lost = time.Now(), !errors.Is(cause, framework.ErrReleased) || s.Recipe == "latch" ||
		s.Recipe == "selector"
	n.lost[s.Path] = s.lost
	if s.kind.leases == 0 && errors.Is(cause, wire.ErrLapsed) {
		s.cut = n.w.cutOffNow(s.client)
		if s.next.IsZero() {
			n.past[s.thing] = append(n.past[s.thing], s)
		} else if !n.pardoned(s) {
			n.margin(s, s.next.Sub(s.ended))
		}
	}
	n.mu.Unlock()
	if time.Now().Equal(s.began) && cause != framework.ErrReleased { // it was never granted
		return
	}
	n.complain(s)
}

// settle reports holds that have not ended.
func (n *witness) settle() {
	n.mu.Lock()
	left := make([]*holding, 0, len(n.open))
	for s := range n.open {
		left = append(left, s)
	}
	n.mu.Unlock()
	for _, s := range left {
		n.complain(s)
		n.w.violate("hooks: nobody was told of the end of %v", s)
	}
}

func (n *witness) complain(s *holding) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range s.amiss {
		if a.stands() {
			n.w.violate("hooks: %s, at %.6fs", a.what, n.w.at(a.at).Seconds())
		}
	}
}

// pardoned is as [ledger.pardoned].
func (n *witness) pardoned(s *holding) bool {
	r, away := n.w.Removed(s.SessionID, s.Path)
	return away && (!r.Sure || n.w.ago(r.At) <= n.w.slack())
}
