package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
)

// Edge is a wait of one participant of a line for another one.
type Edge struct {
	Path          string // the line's
	Waiter, Ahead Participant
	// Any is set if Ahead is one of several contenders, and the release of any one of them ends the wait: the holders
	// of a semaphore's leases.
	Any bool
	// Election is set if both are candidates of a latch. Waiting is normal for these: they keep working.
	Election bool
}

// mayFormRing reports whether only Ahead can end the wait: only such waits make a ring.
func (e Edge) mayFormRing() bool { return !e.Any && !e.Election }

// String is a sentence for people. Its form may change.
func (e Edge) String() string {
	return fmt.Sprintf("session %#x waits at %s for session %#x",
		uint64(e.Waiter.Session), plain.Text(e.Path), uint64(e.Ahead.Session))
}

// Graph has the waits of participants for each other. Its nodes are sessions: processes, as a rule.
type Graph struct {
	Found
	// Edges are in the order of Lines, and within a line in the order of the waiters. Each waits for its predecessor;
	// a writer, and the first in line for a semaphore, for every contender that keeps it waiting.
	Edges []Edge
	// Circles are sessions that wait for each other in a ring: each edge's Ahead is the next one's Waiter, and the
	// last one's Ahead is the first one's. It is a deadlock if in each of the processes one thread of work both holds
	// and waits; it is not if another thread will release the hold. So look again, with [Graph.Lasting]. Of several
	// rings that overlap only a shortest one is listed. These are in no ring: a session that waits for itself (two
	// goroutines at one lock), a session that could get a lease from another holder, a candidate of a latch that
	// waits. A selector's candidates cannot be distinguished from the waiters of a mutex, and may be in a ring.
	Circles [][]Edge
}

// Why reads the lines at root and below it, as [Locks] does, and finds which session waits for which. Errors and
// requests are as in Locks. [Graph.Chain] answers why one of the lines does not move.
func Why(ctx context.Context, client *framework.Client, root string, opts ...Option) (Graph, error) {
	found, err := Locks(ctx, client, root, opts...)
	if err != nil {
		return Graph{}, err
	}
	return buildGraph(found), nil
}

func buildGraph(found Found) Graph {
	g := Graph{Found: found}
	for _, l := range found.Lines {
		g.Edges = append(g.Edges, l.waitEdges()...)
	}
	g.Circles = findCircles(g.Edges)
	return g
}

// Lasting returns the graph with only those waits that an earlier graph has as well, between the same nodes,
// and with the circles that are left. Lines are read one after the other, so a ring in one graph may never
// have existed as a whole; a ring in two graphs existed all the time between. Sessions that lock in several
// goroutines are in a ring now and then: the longer a ring lasts, the less likely is that.
//
// A wait for any of several holders (Edge.Any) that has become a wait for the only one is new: the earlier wait was
// in no ring.
func (g Graph) Lasting(earlier Graph) Graph {
	earlierWaits := make(map[edgeIdentity]bool, len(earlier.Edges)) // whether they could be in a ring
	for _, e := range earlier.Edges {
		earlierWaits[e.identity()] = earlierWaits[e.identity()] || e.mayFormRing()
	}
	lasting := Graph{Found: g.Found}
	for _, e := range g.Edges {
		if before, there := earlierWaits[e.identity()]; there && (before || !e.mayFormRing()) {
			lasting.Edges = append(lasting.Edges, e)
		}
	}
	lasting.Circles = findCircles(lasting.Edges)
	return lasting
}

// Rings returns the part of a graph that a later [Graph.Lasting] needs to find the same circles: the waits of
// sessions that wait for each other, without the lines and without the participants' data. It is empty if there is no
// ring of waits.
func (g Graph) Rings() (kept Graph) {
	out := ringEdges(g.Edges)
	group := map[int64]int{} // the group of a session, from 1
	for i, sessions := range waitingGroups(out) {
		for s := range sessions {
			group[s] = i + 1
		}
	}
	bare := func(p Participant) Participant { return Participant{Name: p.Name, Token: p.Token, Session: p.Session} }
	for _, e := range g.Edges {
		from, to := e.Waiter.Session, e.Ahead.Session
		if from != to && group[from] > 0 && group[from] == group[to] && e.mayFormRing() {
			kept.Edges = append(kept.Edges, Edge{Path: e.Path, Waiter: bare(e.Waiter), Ahead: bare(e.Ahead)})
		}
	}
	kept.Circles = findCircles(kept.Edges)
	return kept
}

// edgeIdentity identifies an edge across two results.
type edgeIdentity struct {
	path          string
	waiter, ahead nodeIdentity
}

// nodeIdentity distinguishes a node from a later node of the same name.
type nodeIdentity struct {
	name    string
	czxid   int64
	session int64
}

func (e Edge) identity() edgeIdentity {
	of := func(p Participant) nodeIdentity { return nodeIdentity{p.Name, p.Token, p.Session} }
	return edgeIdentity{e.Path, of(e.Waiter), of(e.Ahead)}
}

// Chain explains why the line at path does not move: its first waiter waits for a holder, whose session waits at
// another line, and so on. The last edge waits for a session that waits nowhere, or only to be elected, or that is in
// the chain already. It is empty if the line at path has no waiter.
func (g Graph) Chain(path string) (chain []Edge) {
	i := slices.IndexFunc(g.Edges, func(e Edge) bool { return e.Path == path })
	been := map[int64]bool{}
	for i >= 0 {
		e := g.Edges[i]
		chain = append(chain, e)
		if been[e.Waiter.Session] = true; been[e.Ahead.Session] || e.Ahead.Session == 0 {
			break
		}
		i = slices.IndexFunc(g.Edges, func(next Edge) bool {
			return next.Waiter.Session == e.Ahead.Session && !next.Election
		})
	}
	return chain
}

func (l Line) waitEdges() (edges []Edge) {
	wait := func(waiter, ahead Participant, any bool) {
		edges = append(edges, Edge{Path: l.Path, Waiter: waiter, Ahead: ahead, Any: any, Election: l.Kind == Latch})
	}
	switch l.Kind {
	case Mutex, Latch:
		all := slices.Concat(l.Holders, l.Waiting)
		for i := max(len(l.Holders), 1); i < len(all); i++ {
			wait(all[i], all[i-1], false)
		}
	case ReadWriteLock:
		var readers, writers []Participant // the readers since the last writer, and that writer
		pass := func(p Participant) {
			if p.Reader {
				readers = append(readers, p)
			} else {
				readers, writers = nil, []Participant{p}
			}
		}
		for _, p := range l.Holders {
			if p.Reader {
				readers = append(readers, p)
			} else {
				writers = append(writers, p)
			}
		}
		for _, p := range l.Waiting {
			for _, w := range writers {
				wait(p, w, false)
			}
			if !p.Reader {
				for _, r := range readers {
					wait(p, r, false)
				}
			}
			pass(p)
		}
	case Semaphore:
		for i, p := range l.Waiting {
			if i > 0 {
				wait(p, l.Waiting[i-1], false)
				continue
			}
			several := slices.ContainsFunc(l.Holders, func(h Participant) bool {
				return h.Session != l.Holders[0].Session
			})
			for _, h := range l.Holders {
				wait(p, h, several)
			}
		}
	}
	return edges
}

// findCircles finds one ring in each group of sessions that wait for each other.
func findCircles(edges []Edge) (all [][]Edge) {
	out := ringEdges(edges)
	for _, group := range waitingGroups(out) {
		if ring := shortestRing(group, out); ring != nil {
			all = append(all, ring)
		}
	}
	return all
}

// ringEdges returns the edges that may be in a ring, by the sessions that wait.
func ringEdges(edges []Edge) map[int64][]Edge {
	out := map[int64][]Edge{}
	for _, e := range edges {
		from, to := e.Waiter.Session, e.Ahead.Session
		if from != 0 && to != 0 && from != to && e.mayFormRing() {
			out[from] = append(out[from], e)
		}
	}
	return out
}

// waitingGroups finds the sessions that reach each other (the strongly connected components, after Tarjan),
// without recursion: lines are long.
func waitingGroups(out map[int64][]Edge) (found []map[int64]bool) {
	type frame struct {
		session int64
		next    int // of its edges
	}
	index, low, on := map[int64]int{}, map[int64]int{}, map[int64]bool{}
	var stack []int64
	for _, start := range slices.Sorted(maps.Keys(out)) {
		if index[start] > 0 {
			continue
		}
		visit := func(s int64) frame {
			index[s] = len(index) + 1
			low[s], on[s] = index[s], true
			stack = append(stack, s)
			return frame{session: s}
		}
		for path := []frame{visit(start)}; len(path) > 0; {
			f := &path[len(path)-1]
			if f.next < len(out[f.session]) {
				to := out[f.session][f.next].Ahead.Session
				f.next++
				if index[to] == 0 {
					path = append(path, visit(to))
				} else if on[to] {
					low[f.session] = min(low[f.session], index[to])
				}
				continue
			}
			s := f.session
			if path = path[:len(path)-1]; len(path) > 0 {
				above := path[len(path)-1].session
				low[above] = min(low[above], low[s])
			}
			if low[s] != index[s] {
				continue
			}
			group := map[int64]bool{}
			for last := int64(0); last != s || len(group) == 0; {
				last = stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				on[last], group[last] = false, true
			}
			if len(group) > 1 {
				found = append(found, group)
			}
		}
	}
	return found
}

// shortestRing returns a shortest ring through the group's smallest session.
func shortestRing(group map[int64]bool, out map[int64][]Edge) []Edge {
	var start int64
	for s := range group {
		if start == 0 || s < start {
			start = s
		}
	}
	came := map[int64]Edge{}
	for queue := []int64{start}; len(queue) > 0; queue = queue[1:] {
		for _, e := range out[queue[0]] {
			to := e.Ahead.Session
			if _, seen := came[to]; seen || !group[to] {
				continue
			}
			if came[to] = e; to != start {
				queue = append(queue, to)
				continue
			}
			ring := []Edge{e}
			for at := e.Waiter.Session; at != start; at = came[at].Waiter.Session {
				ring = append(ring, came[at])
			}
			slices.Reverse(ring)
			return ring
		}
	}
	return nil
}
