package inspecthttp

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
)

var (
	start  = time.Unix(1_700_000_000, 0)
	synced = cache.Progress{Synced: true}
)

func at(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }

func someone(n int) inspect.Participant {
	return inspect.Participant{Name: fmt.Sprint("p", n), Token: int64(n), Session: int64(n), Path: fmt.Sprint("/l/p", n)}
}

func graph(lines ...inspect.Line) inspect.Graph {
	return inspect.Graph{Found: inspect.Found{Lines: lines}}
}

func locked(path string, holders ...int) inspect.Line {
	l := inspect.Line{Path: path, Kind: inspect.Mutex}
	for _, n := range holders {
		l.Holders = append(l.Holders, someone(n))
	}
	return l
}

func TestGrants(t *testing.T) {
	m := newScreenModel(start)
	s := m.nextScreen(graph(locked("/l", 1)), cache.Progress{Known: 7}, reportedSessions{}, at(1))
	assert.Equal(t, 8, s.head.Loading)
	s = m.nextScreen(graph(locked("/l", 1)), synced, reportedSessions{}, at(2))
	assert.Zero(t, s.head.Loading)
	assert.Equal(t, []grantView{{Who: viewParticipant(someone(1)), Seen: at(1).UnixMilli(), Before: true}}, s.lines[0].Grants)

	s = m.nextScreen(graph(locked("/l", 2)), synced, reportedSessions{}, at(3))
	assert.Equal(t, at(3).UnixMilli(), s.lines[0].Grants[0].Ended)
	assert.Equal(t, grantView{Who: viewParticipant(someone(2)), Seen: at(3).UnixMilli()}, s.lines[0].Grants[1])

	s = m.nextScreen(graph(), synced, reportedSessions{}, at(4))
	assert.Equal(t, at(4).UnixMilli(), s.lines[0].Free)
	assert.Equal(t, at(4).UnixMilli(), s.lines[0].Grants[1].Ended)
	assert.Empty(t, s.targets)

	s = m.nextScreen(graph(locked("/l", 3)), synced, reportedSessions{}, at(5))
	assert.Zero(t, s.lines[0].Free)
	assert.Len(t, s.lines[0].Grants, 3)
	assert.Equal(t, "/l/p3", s.targets[shownNode{s.lines[0].ID, 3}])
}

// deadlock returns a graph of two sessions that wait for each other's holds, among many other lines.
func deadlock() inspect.Graph {
	held := func(path string, holder, waiter int) inspect.Line {
		l := locked(path, holder)
		l.Waiting = []inspect.Participant{someone(waiter)}
		return l
	}
	g := graph(held("/a", 1, 2), held("/b", 2, 1))
	for n := range 100 {
		g.Lines = append(g.Lines, held(fmt.Sprint("/l", n), 10, 11+n))
	}
	for _, l := range g.Lines {
		g.Edges = append(g.Edges, inspect.Edge{Path: l.Path, Waiter: l.Waiting[0], Ahead: l.Holders[0]})
	}
	g.Circles = [][]inspect.Edge{g.Edges[:2]}
	return g
}

// A second look counts only if the tree was read again: two looks at the same tree are one.
func TestASecondLook(t *testing.T) {
	m := newScreenModel(start)
	assert.Empty(t, m.nextScreen(deadlock(), synced, reportedSessions{}, at(1)).head.Circles)
	assert.False(t, m.rings.needsProof(at(5)))
	assert.True(t, m.rings.needsProof(at(6)))
	assert.Empty(t, m.nextScreen(deadlock(), synced, reportedSessions{}, at(60)).head.Circles, "nobody has asked since")
	m.rings.setKnown(at(5))
	assert.Empty(t, m.nextScreen(deadlock(), synced, reportedSessions{}, at(61)).head.Circles, "too early")
	m.rings.setKnown(at(62))
	assert.Len(t, m.nextScreen(deadlock(), synced, reportedSessions{}, at(63)).head.Circles, 1)
	assert.False(t, m.rings.needsProof(at(64)), "this was the first look of the next five seconds")
	assert.Len(t, m.nextScreen(deadlock(), synced, reportedSessions{}, at(90)).head.Circles, 1)
	assert.Empty(t, m.nextScreen(graph(), synced, reportedSessions{}, at(91)).head.Circles)
	assert.Equal(t, ringWatcher{}, m.rings)
	m.nextScreen(deadlock(), synced, reportedSessions{}, at(92))
	m.errorScreen(framework.ErrNoAuth, synced)
	assert.Equal(t, ringWatcher{}, m.rings, "nothing is seen")
	m.nextScreen(deadlock(), synced, reportedSessions{}, at(100))
	m.rings.setKnown(at(62))
	assert.Empty(t, m.nextScreen(deadlock(), synced, reportedSessions{}, at(110)).head.Circles, "what was there before was another ring")
}

// Of an earlier look only the rings are kept, not the lines.
func TestWhatIsKeptOfALook(t *testing.T) {
	m := newScreenModel(start)
	m.nextScreen(deadlock(), synced, reportedSessions{}, at(1))
	m.rings.setKnown(at(10))
	m.nextScreen(deadlock(), synced, reportedSessions{}, at(10))
	for _, kept := range []inspect.Graph{m.rings.earlier, m.rings.shown} {
		assert.Empty(t, kept.Lines)
		assert.Len(t, kept.Edges, 2)
	}
}

func TestMembersAndItemsAreNoGrants(t *testing.T) {
	m := newScreenModel(start)
	members := locked("/m", 1, 2)
	members.Kind = inspect.Members
	assert.Empty(t, m.nextScreen(graph(members), synced, reportedSessions{}, at(1)).lines[0].Grants)
	assert.Empty(t, m.nextScreen(graph(), synced, reportedSessions{}, at(2)).lines, "and are forgotten")
	assert.Empty(t, m.lines)
}

func TestManyLines(t *testing.T) {
	m := newScreenModel(start)
	var lines []inspect.Line
	for i := range 3000 {
		l := locked(fmt.Sprintf("/l%04d", i), 1)
		for n := range 50 {
			l.Waiting = append(l.Waiting, someone(n+2))
		}
		lines = append(lines, l)
	}
	s := m.nextScreen(graph(lines...), synced, reportedSessions{}, at(1))
	assert.Len(t, s.lines, mostLines)
	assert.Equal(t, 2000, s.head.Unsent)
	assert.Equal(t, 3000, s.head.Lines)
	assert.Equal(t, 150_000, s.head.Waiting)
	assert.Len(t, s.lines[0].Waiting, leastShown)
	assert.Equal(t, 50, s.lines[0].Waits)
	assert.Len(t, m.lines, mostLines)
	s = m.nextScreen(graph(lines[2000:]...), synced, reportedSessions{}, at(2))
	assert.Len(t, m.lines, mostLines+mostFree)
	assert.Len(t, s.lines, mostLines+mostFree)
	m.nextScreen(graph(), synced, reportedSessions{}, at(3))
	assert.Len(t, m.lines, mostFree)
}

// FuzzModel: for any changes the screen is bounded and consistent, and a viewer that gets the changes has the same screen
// as the board.
func FuzzModel(f *testing.F) {
	f.Add(uint64(1), uint8(20))
	f.Add(uint64(7), uint8(200))
	kinds := []inspect.Kind{inspect.Mutex, inspect.Semaphore, inspect.Members, inspect.Queue, inspect.ReadWriteLock}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) {
		random := rand.New(rand.NewPCG(seed, 0))
		m := newScreenModel(start)
		var b screenBoard
		b.clear()
		shown, seen := map[int]json.RawMessage{}, int64(0)
		for step := range int(steps % 50) {
			var lines []inspect.Line
			for i := range random.IntN(8) {
				if random.IntN(3) == 0 {
					continue
				}
				l := inspect.Line{Path: fmt.Sprint("/l", i), Kind: kinds[random.IntN(len(kinds))], More: random.IntN(2)}
				for range random.IntN(5) {
					l.Holders = append(l.Holders, someone(random.IntN(20)))
				}
				for range random.IntN(5) {
					l.Waiting = append(l.Waiting, someone(random.IntN(20)))
				}
				lines = append(lines, l)
			}
			s := m.nextScreen(graph(lines...), synced, reportedSessions{}, at(step))
			ids := map[int]bool{}
			for _, l := range s.lines {
				require.False(t, ids[l.ID], "one line for an id")
				ids[l.ID] = true
				require.LessOrEqual(t, len(l.Grants), mostGrants)
				require.True(t, slices.IsSortedFunc(l.Grants, func(a, b grantView) int { return int(a.Seen - b.Seen) }))
				running := 0
				for _, g := range l.Grants {
					if g.Ended == 0 {
						running++
					}
				}
				distinct := map[int64]bool{}
				for _, p := range l.Holders {
					distinct[p.Key] = true
				}
				if recordsGrants(l.Kind) {
					require.LessOrEqual(t, running, len(distinct), "who does not hold has no grant that runs")
				}
			}
			if b.putScreen(s); random.IntN(3) > 0 {
				continue // as if the viewer were slow
			}
			n, last, _ := b.changesSince(seen)
			seen = last
			if n.Whole {
				clear(shown)
			}
			for _, l := range n.Lines {
				var v lineView
				require.NoError(t, json.Unmarshal(l, &v))
				shown[v.ID] = l
			}
			for _, id := range n.Gone {
				require.NotContains(t, ids, id, "what is gone is not there")
				delete(shown, id)
			}
			require.Len(t, shown, len(s.lines))
			for _, l := range s.lines {
				want, _ := json.Marshal(l)
				require.JSONEq(t, string(want), string(shown[l.ID]))
			}
		}
	})
}

// A session is not marked if the servers have reported nothing about it, or nothing lately.
func TestWhatServersDoNotTell(t *testing.T) {
	asked := at(100)
	p := inspect.Participant{Session: 1}
	by := func(silent time.Duration) map[int64]inspect.Connection {
		return map[int64]inspect.Connection{1: {Session: 1, Timeout: 30 * time.Second, Silent: silent}}
	}
	none, some := map[int64]inspect.Connection{}, map[int64]bool{1: true}
	for name, c := range map[string]struct {
		t     reportedSessions
		after time.Duration
		since time.Time
		away  bool
	}{
		"nobody was asked":          {reportedSessions{}, 0, time.Time{}, false},
		"alive":                     {reportedSessions{inspect.Connected{By: by(15 * time.Second)}, asked, some}, 0, time.Time{}, false},
		"silent":                    {reportedSessions{inspect.Connected{By: by(16 * time.Second)}, asked, some}, 20 * time.Second, at(84), false},
		"silent, an old answer":     {reportedSessions{inspect.Connected{By: by(16 * time.Second)}, asked, some}, 21 * time.Second, time.Time{}, false},
		"silent, others unknown":    {reportedSessions{inspect.Connected{By: by(16 * time.Second), Missing: "?"}, asked, some}, 0, at(84), false},
		"not connected":             {reportedSessions{inspect.Connected{By: none}, asked, some}, 0, time.Time{}, true},
		"not connected, or unknown": {reportedSessions{inspect.Connected{By: none, Missing: "?"}, asked, some}, 0, time.Time{}, false},
		"came after the question":   {reportedSessions{inspect.Connected{By: none}, asked, nil}, 0, time.Time{}, false},
	} {
		since, away := c.t.dropOutdated(asked.Add(c.after)).silentSince(p)
		assert.Equal(t, c.since, since, name)
		assert.Equal(t, c.away, away, name)
	}
	assert.Equal(t, at(105), reportedSessions{repliedAt: asked}.nextRequest())
	assert.Equal(t, at(160), reportedSessions{inspect.Connected{By: none, Missing: "?"}, asked, nil}.nextRequest())
}
