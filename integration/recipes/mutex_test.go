package recipes

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// party is a contender in either language.
type party struct {
	name    string
	acquire func(ctx context.Context) (node string, err error)
	release func(ctx context.Context) error
	// line returns the participants' nodes as the party sees them.
	line func(ctx context.Context) ([]string, error)
}

func goParty(t *testing.T, name, connect, path string) *party {
	client, _ := kit.Connected(t, connect)
	m := mutex.New(client, path)
	var lock *mutex.Lock
	return &party{
		name: name,
		acquire: func(ctx context.Context) (string, error) {
			var err error
			if lock, err = m.Acquire(ctx); err != nil {
				return "", err
			}
			return lock.Node(), nil
		},
		release: func(ctx context.Context) error { return lock.Release(ctx) },
		line: func(ctx context.Context) (names []string, err error) {
			participants, err := m.Participants(ctx)
			for _, p := range participants {
				names = append(names, p.Name)
			}
			return names, err
		},
	}
}

// javaLock connects a new Java process.
func javaLock(t *testing.T, connect, path string, timeout time.Duration) (*javapeer.Peer, *javapeer.Lock) {
	t.Helper()
	ctx := kit.Context(t)
	peer := javapeer.Start(t)
	require.NoError(t, peer.Connect(ctx, connect, timeout))
	lock, err := peer.Mutex(ctx, "m", path)
	require.NoError(t, err)
	return peer, lock
}

func javaParty(t *testing.T, name, connect, path string) *party {
	t.Helper()
	_, lock := javaLock(t, connect, path, 4*time.Second)
	return &party{
		name:    name,
		acquire: func(ctx context.Context) (string, error) { return lock.Acquire(ctx, javapeer.Forever) },
		release: lock.Release,
		line:    lock.Participants,
	}
}

func number(node string) string { return node[strings.LastIndex(node, "lock-"):] }

// turn is a time during which a party certainly had the lock.
type turn struct {
	who      string
	node     string
	from, to time.Time
}

// Go and Java take turns at one path: in the order of the line, never two at a time, and both see the same line with
// both in it.
func TestTurnsWithJava(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "mutex", kit.Mixed)
	const rounds = 15
	const path = "/locks/orders"
	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	parties := []*party{
		goParty(t, "go 1", node.ConnectString(), path), javaParty(t, "java 1", node.ConnectString(), path),
		goParty(t, "go 2", node.ConnectString(), path), javaParty(t, "java 2", node.ConnectString(), path),
	}
	ctx := kit.Context(t)
	var mu sync.Mutex
	var turns []turn
	var all sync.WaitGroup
	for _, p := range parties {
		all.Go(func() {
			for range rounds {
				node, err := p.acquire(ctx)
				if !assert.NoError(t, err, p.name) {
					return
				}
				got := turn{who: p.name, node: node, from: time.Now()}
				mu.Lock()
				full := len(turns) < len(parties)*(rounds-1)
				mu.Unlock()
				if full {
					// All others join the line again right after a turn: when all are there the next turns are decided.
					lines := map[string][]string{}
					kit.Soon(t, "all of them in line", func() bool {
						line, err := p.line(ctx)
						return assert.NoError(t, err) && len(line) == len(parties)
					})
					for _, other := range parties {
						lines[other.name], err = other.line(ctx)
						assert.NoError(t, err)
						assert.Equal(t, lines[parties[0].name], lines[other.name], "%s and %s see the same line",
							parties[0].name, other.name)
					}
					assert.Equal(t, node, lines[p.name][0], "the holder is the first")
				}
				got.to = time.Now()
				mu.Lock()
				turns = append(turns, got)
				mu.Unlock()
				if !assert.NoError(t, p.release(ctx), p.name) {
					return
				}
			}
		})
	}
	all.Wait()
	require.Len(t, turns, len(parties)*rounds)
	slices.SortFunc(turns, func(a, b turn) int { return a.from.Compare(b.from) })
	for i, next := range turns[1:] {
		assert.False(t, next.from.Before(turns[i].to), "%s holds while %s does", next.who, turns[i].who)
		assert.Greater(t, number(next.node), number(turns[i].node), "the order of the line")
	}
	// With all in line all the time each has every fourth turn.
	for i, next := range turns[:len(parties)*(rounds-1)] {
		assert.Equal(t, turns[i%len(parties)].who, next.who, "turn %d", i)
	}
	kit.Figure(t, "%d turns of %d parties, Go and Java, in %v, never two at once", len(turns), len(parties),
		turns[len(turns)-1].to.Sub(turns[0].from).Round(time.Millisecond))
}
