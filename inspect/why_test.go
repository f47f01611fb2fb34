package inspect

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// of returns participants of sessions; negative ones are readers.
func of(sessions ...int64) (all []Participant) {
	for _, s := range sessions {
		all = append(all, Participant{Session: max(s, -s), Reader: s < 0})
	}
	return all
}

func TestEdges(t *testing.T) {
	for name, c := range map[string]struct {
		line Line
		want string
	}{
		"a mutex":         {Line{Kind: Mutex, Holders: of(1), Waiting: of(2, 3)}, "2>1 3>2"},
		"nobody waits":    {Line{Kind: Mutex, Holders: of(1)}, ""},
		"no holder known": {Line{Kind: Latch, Waiting: of(2, 3)}, "3>2"},
		"a writer after two readers, and two after it": {
			Line{Kind: ReadWriteLock, Holders: of(-1, -2), Waiting: of(3, -4, -5)}, "3>1 3>2 4>3 5>3"},
		"a writer after readers that wait": {
			Line{Kind: ReadWriteLock, Holders: of(1), Waiting: of(-2, -3, 4, 5)}, "2>1 3>1 4>1 4>2 4>3 5>4"},
		"a writer with its read lock": {
			Line{Kind: ReadWriteLock, Holders: of(1, -1), Waiting: of(-2, 3)}, "2>1 3>1 3>1 3>2"},
		"a semaphore":          {Line{Kind: Semaphore, Holders: of(1, 2), Waiting: of(3, 4)}, "3>1? 3>2? 4>3"},
		"one has all leases":   {Line{Kind: Semaphore, Holders: of(1, 1), Waiting: of(3)}, "3>1 3>1"},
		"a queue has no locks": {Line{Kind: Queue, Waiting: of(1, 2)}, ""},
	} {
		got := ""
		for _, e := range c.line.waitEdges() {
			if got != "" {
				got += " "
			}
			if got += fmt.Sprintf("%d>%d", e.Waiter.Session, e.Ahead.Session); e.Any {
				got += "?"
			}
		}
		assert.Equal(t, c.want, got, name)
	}
}

func TestCircles(t *testing.T) {
	for name, c := range map[string]struct {
		edges [][2]int64
		want  string
	}{
		"a chain":                     {[][2]int64{{1, 2}, {2, 3}}, "[]"},
		"two":                         {[][2]int64{{1, 2}, {2, 1}}, "[[1 2]]"},
		"itself":                      {[][2]int64{{1, 1}, {1, 2}}, "[]"},
		"one without a session":       {[][2]int64{{1, 0}, {0, 1}}, "[]"},
		"three, and one in front":     {[][2]int64{{4, 1}, {1, 2}, {2, 3}, {3, 1}}, "[[1 2 3]]"},
		"two rings":                   {[][2]int64{{1, 2}, {2, 1}, {5, 6}, {6, 7}, {7, 5}}, "[[1 2] [5 6 7]]"},
		"two that share one: shorter": {[][2]int64{{1, 2}, {2, 3}, {3, 1}, {2, 1}}, "[[1 2]]"},
		"a ring that the next hides":  {[][2]int64{{1, 2}, {2, 3}, {3, 2}}, "[[2 3]]"},
	} {
		var edges []Edge
		for _, e := range c.edges {
			edges = append(edges, Edge{Waiter: of(e[0])[0], Ahead: of(e[1])[0]})
		}
		rings := [][]int64{}
		for _, ring := range findCircles(edges) {
			var sessions []int64
			for i, e := range ring {
				sessions = append(sessions, e.Waiter.Session)
				assert.Equal(t, e.Ahead, ring[(i+1)%len(ring)].Waiter, name)
			}
			rings = append(rings, sessions)
		}
		assert.Equal(t, c.want, fmt.Sprint(rings), name)
	}
	any := []Edge{{Waiter: of(1)[0], Ahead: of(2)[0], Any: true}, {Waiter: of(2)[0], Ahead: of(1)[0]}}
	assert.Empty(t, findCircles(any), "another lease may become free")
	follows := []Edge{{Waiter: of(1)[0], Ahead: of(2)[0], Election: true}, {Waiter: of(2)[0], Ahead: of(1)[0]}}
	assert.Empty(t, findCircles(follows), "a follower goes on with its work")
}

// In any graph there is a ring exactly if a session waits, over others, for itself.
func TestCirclesOfRandomGraphs(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 2 + random.IntN(8)
		var edges []Edge
		reach := map[[2]int64]bool{}
		for range random.IntN(3 * n) {
			a, b := 1+random.Int64N(int64(n)), 1+random.Int64N(int64(n))
			edges = append(edges, Edge{Waiter: of(a)[0], Ahead: of(b)[0]})
			if a != b {
				reach[[2]int64{a, b}] = true
			}
		}
		for k := range int64(n) {
			for i := range int64(n) {
				for j := range int64(n) {
					if reach[[2]int64{i + 1, k + 1}] && reach[[2]int64{k + 1, j + 1}] {
						reach[[2]int64{i + 1, j + 1}] = true
					}
				}
			}
		}
		groups := map[int64]bool{} // by their smallest session
		for i := range int64(n) {
			smallest := i + 1
			for j := range i {
				if reach[[2]int64{i + 1, j + 1}] && reach[[2]int64{j + 1, i + 1}] {
					smallest = min(smallest, j+1)
				}
			}
			if reach[[2]int64{i + 1, i + 1}] {
				groups[smallest] = true
			}
		}
		rings := findCircles(edges)
		require.Len(t, rings, len(groups), "seed %d: %v", seed, edges)
		for _, ring := range rings {
			require.True(t, groups[ring[0].Waiter.Session], "seed %d", seed)
			for i, e := range ring {
				require.Equal(t, e.Ahead, ring[(i+1)%len(ring)].Waiter, "seed %d", seed)
			}
		}
	}
}

// A lasting deadlock is found next to rings that pass, whichever of them is in Circles.
func TestLastingBesidePassing(t *testing.T) {
	edge := func(waiter, ahead, czxid int64) Edge {
		e := Edge{Path: "/l", Waiter: of(waiter)[0], Ahead: of(ahead)[0]}
		e.Waiter.Token = czxid
		return e
	}
	graph := func(edges ...Edge) Graph { return Graph{Edges: edges, Circles: findCircles(edges)} }
	first := graph(edge(1, 2, 10), edge(2, 1, 11), edge(2, 3, 12), edge(3, 2, 13))
	then := graph(edge(1, 2, 20), edge(2, 1, 11), edge(2, 3, 12), edge(3, 2, 13))
	require.Equal(t, int64(1), then.Circles[0][0].Waiter.Session, "this one it names")
	lasting := then.Lasting(first)
	require.Len(t, lasting.Circles, 1)
	assert.Equal(t, int64(2), lasting.Circles[0][0].Waiter.Session)
	assert.Equal(t, int64(3), lasting.Circles[0][0].Ahead.Session)
	assert.Len(t, lasting.Edges, 3)
}

// A wait that any of several sessions could have ended is not yet the wait that only one session can end: if it becomes
// that, the second look counts as the first.
func TestLastingOfOneOfSeveral(t *testing.T) {
	edge := func(waiter, ahead int64, any, election bool) Edge {
		return Edge{Path: "/l", Waiter: of(waiter)[0], Ahead: of(ahead)[0], Any: any, Election: election}
	}
	graph := func(edges ...Edge) Graph { return Graph{Edges: edges, Circles: findCircles(edges)} }
	back := edge(2, 1, false, false)
	for name, c := range map[string]struct {
		first, then   Edge
		edges, circle int
	}{
		"the only one in both":      {edge(1, 2, false, false), edge(1, 2, false, false), 2, 1},
		"one of several before":     {edge(1, 2, true, false), edge(1, 2, false, false), 1, 0},
		"one of several now":        {edge(1, 2, false, false), edge(1, 2, true, false), 2, 0},
		"one of several in both":    {edge(1, 2, true, false), edge(1, 2, true, false), 2, 0},
		"an election before":        {edge(1, 2, false, true), edge(1, 2, false, false), 1, 0},
		"an election in both looks": {edge(1, 2, false, true), edge(1, 2, false, true), 2, 0},
	} {
		lasting := graph(c.then, back).Lasting(graph(c.first, back))
		assert.Len(t, lasting.Edges, c.edges, name)
		assert.Len(t, lasting.Circles, c.circle, name)
	}
}

// At the first look two sessions had a semaphore's two leases, and at the second look one session had both.
func TestLastingOfASemaphore(t *testing.T) {
	holder := func(name string, session int64) Participant {
		return Participant{Name: name, Token: session, Session: session}
	}
	line := func(holders ...Participant) Graph {
		semaphore := Line{Path: "/s", Kind: Semaphore, Holders: holders, Waiting: []Participant{holder("w", 3)}}
		mutex := Line{Path: "/m", Kind: Mutex, Holders: []Participant{holder("h", 3)}, Waiting: []Participant{holder("v", 1)}}
		return buildGraph(Found{Lines: []Line{semaphore, mutex}})
	}
	before, now := line(holder("a", 1), holder("b", 2)), line(holder("a", 1), holder("c", 1))
	require.Empty(t, before.Circles)
	require.Len(t, now.Circles, 1)
	assert.Empty(t, now.Lasting(before).Circles)
	assert.Len(t, now.Lasting(now).Circles, 1)
}

// For the comparison with the next look the rings of a graph are enough, and Rings keeps nothing else.
func TestRings(t *testing.T) {
	waits := func(random *rand.Rand, n int) (edges []Edge) {
		for range random.IntN(4 * n) {
			a, b := of(1 + random.Int64N(int64(n)))[0], of(1 + random.Int64N(int64(n)))[0]
			a.Name, b.Name = fmt.Sprint(a.Session), fmt.Sprint(b.Session)
			a.Data, b.Path = []byte("data"), "/l/b"
			edges = append(edges, Edge{Path: "/l", Waiter: a, Ahead: b, Any: random.IntN(6) == 0})
		}
		return edges
	}
	rings := 0
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 2 + random.IntN(6)
		shared := waits(random, n)
		graph := func(edges []Edge) Graph {
			return Graph{Found: Found{Lines: make([]Line, 3)}, Edges: edges, Circles: findCircles(edges)}
		}
		earlier := graph(append(waits(random, n), shared...))
		now := graph(append(waits(random, n), shared...))
		kept := earlier.Rings()
		require.ElementsMatch(t, now.Lasting(earlier).Circles, now.Lasting(kept).Circles, "seed %d", seed)
		require.Equal(t, len(earlier.Circles), len(kept.Circles), "seed %d", seed)
		require.Equal(t, kept, kept.Rings(), "seed %d", seed)
		require.Empty(t, kept.Lines)
		if len(earlier.Circles) == 0 {
			require.Empty(t, kept.Edges)
		}
		for _, e := range kept.Edges {
			require.Nil(t, e.Waiter.Data)
			require.Empty(t, e.Ahead.Path)
		}
		rings += len(now.Lasting(kept).Circles)
	}
	assert.Greater(t, rings, 100)
	chain := Graph{Edges: []Edge{{Waiter: of(1)[0], Ahead: of(2)[0]}, {Waiter: of(2)[0], Ahead: of(3)[0]}, {Waiter: of(3)[0], Ahead: of(2)[0]}}}
	assert.Len(t, chain.Rings().Edges, 2, "who only waits for a ring is not in it")
}

// A line of twenty thousand waiters does not overflow the stack.
func TestALongChain(t *testing.T) {
	var edges []Edge
	for i := range int64(20_000) {
		edges = append(edges, Edge{Waiter: of(i + 2)[0], Ahead: of(i + 1)[0]})
	}
	assert.Empty(t, findCircles(edges))
	edges = append(edges, Edge{Waiter: of(1)[0], Ahead: of(20_001)[0]})
	require.Len(t, findCircles(edges), 1)
	assert.Len(t, findCircles(edges)[0], 20_001)
}
