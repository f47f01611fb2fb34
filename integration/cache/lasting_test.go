package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

// The duration of the lasting runs (10s, for example), and their first seed.
const (
	lastingTime = "CURATOR_TEST_LASTING"
	lastingSeed = "CURATOR_TEST_SEED"
)

func duration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(lastingTime)
	if text == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, lastingTime)
	return d
}

func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv(lastingSeed); text != "" {
		var err error
		s, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, lastingSeed)
	}
	t.Logf("%s=%d", lastingSeed, s)
	return s
}

// follower applies the events of a cache, from the beginning.
type follower struct {
	pace time.Duration // time that it takes for an event; 0 for a subscriber that keeps up

	mu     sync.Mutex
	nodes  map[string]cache.Node
	counts map[cache.EventType]int
	bad    []string // events that do not fit the events before
}

func follow(t *testing.T, c *cache.Cache, pace time.Duration) *follower {
	f := &follower{pace: pace, nodes: map[string]cache.Node{}, counts: map[cache.EventType]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var owner sync.WaitGroup
	owner.Go(func() {
		for ev, err := range c.Events(ctx) {
			if err != nil {
				return
			}
			f.hear(ev)
			if f.pace > 0 {
				time.Sleep(f.pace)
			}
		}
	})
	t.Cleanup(func() { cancel(); owner.Wait() })
	return f
}

func (f *follower) hear(ev cache.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[ev.Type]++
	old, known := f.nodes[ev.Path]
	fits := true
	switch ev.Type {
	case cache.Created:
		fits = !known && ev.Old == nil
		f.nodes[ev.Path] = *ev.New
	case cache.Changed:
		fits = known && ev.Old.Stat.Mzxid == old.Stat.Mzxid && ev.New.Stat.Mzxid != old.Stat.Mzxid &&
			ev.New.Stat.Czxid == old.Stat.Czxid
		f.nodes[ev.Path] = *ev.New
	case cache.Deleted:
		fits = known && ev.Old.Stat.Mzxid == old.Stat.Mzxid
		delete(f.nodes, ev.Path)
	case cache.Failed:
		fits = false
	}
	if !fits {
		f.bad = append(f.bad, fmt.Sprintf("%v: known %v %v", ev, known, old.Stat))
	}
}

func (f *follower) tree() map[string]state {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := map[string]state{}
	for path, n := range f.nodes {
		nodes[path] = stateOf(n)
	}
	return nodes
}

// scribe changes a tree without a pause, until it is stopped.
type scribe struct {
	*rand.Rand
	client *framework.Client
	leaves int
	done   int
}

func (s *scribe) run(ctx context.Context) {
	for ctx.Err() == nil {
		var batch []interface {
			Done() <-chan struct{}
		}
		for range 1 + s.IntN(50) {
			batch = append(batch, s.write(ctx))
		}
		for _, p := range batch {
			select {
			case <-p.Done():
				s.done++
			case <-ctx.Done():
				return
			}
		}
		time.Sleep(time.Duration(s.IntN(30)) * time.Millisecond)
	}
}

// write makes one change or, if it does not apply, none.
func (s *scribe) write(ctx context.Context) interface{ Done() <-chan struct{} } {
	path := leaf("/tree", s.IntN(s.leaves))
	switch s.IntN(20) {
	case 0:
		path = directory("/tree", s.IntN(s.leaves/inDirectory))
	case 1, 2:
		path = fmt.Sprintf("%s/deep-%d/x", leaf("/tree", s.IntN(s.leaves)), s.IntN(3))
	case 3:
		path = fmt.Sprintf("%s/new-%d", directory("/tree", s.IntN(s.leaves/inDirectory)), s.IntN(10))
	}
	data := fmt.Appendf(nil, "%d", s.Uint64())
	if s.IntN(100) == 0 {
		data = slices.Concat(data, []byte(strings.Repeat("x", 6000)))
	}
	op := s.client.TransactionOp()
	switch k := s.IntN(20); {
	case k < 9:
		return s.client.Create().CreatingParentsIfNeeded().InBackground().ForPath(ctx, path, data)
	case k < 16:
		return s.client.SetData().InBackground().ForPath(ctx, path, data)
	case k < 18:
		return s.client.Delete().InBackground().ForPath(ctx, path)
	case k < 19: // the same data again
		return s.client.TransactionInBackground(ctx, op.Delete().ForPath(path), op.Create().ForPath(path, data))
	default:
		return s.client.Delete().DeletingChildrenIfNeeded().InBackground().ForPath(ctx, path)
	}
}

// endures changes the tree during random troubles, and compares the cache with the tree at the end.
func endures(
	t *testing.T, connect string, dial func() *framework.Client,
	troubles map[string]func(r *rand.Rand), heal func(),
) {
	const leaves = 10_000
	r := rand.New(rand.NewPCG(seed(t), 0))
	writer, _ := kit.Connected(t, connect, framework.WithSessionTimeout(10*time.Second))
	grow(t, writer, "/tree", leaves)

	client := dial()
	c, err := cache.New(client, "/tree")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	oneShot, err := cache.New(client, "/tree", cache.WithOneShotWatches())
	require.NoError(t, err)
	t.Cleanup(func() { _ = oneShot.Close() })
	followers := map[string]*follower{"quick": follow(t, c, 0), "slow": follow(t, c, 200*time.Microsecond),
		"one-shot": follow(t, oneShot, 0)}
	require.NoError(t, c.WaitSynced(kit.Context(t)))
	require.NoError(t, oneShot.WaitSynced(kit.Context(t)))

	writing, stop := context.WithCancel(t.Context())
	s := &scribe{Rand: rand.New(rand.NewPCG(r.Uint64(), 0)), client: writer, leaves: leaves}
	var wg sync.WaitGroup
	wg.Go(func() { s.run(writing) })
	defer wg.Wait()
	defer stop()
	names := []string{}
	for name := range troubles {
		names = append(names, name)
	}
	slices.Sort(names)
	happened := map[string]int{}
	for end := time.Now().Add(duration(t)); time.Now().Before(end); {
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		name := names[r.IntN(len(names))]
		happened[name]++
		troubles[name](r)
	}
	stop()
	wg.Wait()
	heal()

	require.NoError(t, writer.WaitConnected(kit.Context(t)))
	require.NoError(t, writer.Sync().ForPath(kit.Context(t), "/tree"))
	full := tree(t, writer, "/tree")
	want := map[string]state{}
	stats := map[string]framework.Stat{}
	for path, n := range full {
		want[path], stats[path] = stateOf(n), n.Stat
	}
	same := func(what string, got func() map[string]state) {
		t.Helper()
		for end := time.Now().Add(kit.Patience); ; time.Sleep(100 * time.Millisecond) {
			lines := differences(want, got())
			if len(lines) == 0 {
				return
			}
			if time.Now().After(end) {
				assert.Empty(t, lines[:min(20, len(lines))], "%s: %d differences", what, len(lines))
				return
			}
		}
	}
	for name, c := range map[string]*cache.Cache{"the cache": c, "the cache with one-shot watches": oneShot} {
		require.NoError(t, c.WaitSynced(kit.Context(t)))
		same(name, func() map[string]state {
			got := map[string]state{}
			for path, n := range c.All() {
				got[path] = stateOf(n)
			}
			return got
		})
		// The whole Stat is compared, too; it may lag by a second.
		kit.Soon(t, "equal Stats of "+name, func() bool {
			got := map[string]framework.Stat{}
			for path, n := range c.All() {
				got[path] = n.Stat
			}
			return len(differences(stats, got)) == 0
		})
	}
	for name, f := range followers {
		same("the events of the "+name+" one", f.tree)
		f.mu.Lock()
		assert.Empty(t, f.bad, name)
		assert.Equal(t, 1, f.counts[cache.Initialized], name)
		t.Logf("%s: %v", name, f.counts)
		f.mu.Unlock()
	}
	kit.Figure(t, "%v of about %d changes, %v: the caches are equal to the tree of %d nodes, and so are "+
		"their events", duration(t), s.done, happened, len(full))
}

// A writer changes ten thousand nodes without a pause while connections are cut and hang, sessions expire, and the
// server is paused and killed. In the end the cache equals the tree, and so does the result of its events.
func TestLasting(t *testing.T) {
	t.Parallel()
	node := zkserver.Start(t, zkserver.Options{})
	link := proxy.New(t, node.Addr())
	var client *framework.Client
	within := func(r *rand.Rand, d time.Duration) { time.Sleep(time.Duration(r.Int64N(int64(d)))) }
	endures(t, node.ConnectString(), func() *framework.Client {
		client, _ = kit.Connected(t, link.Addr())
		return client
	}, map[string]func(*rand.Rand){
		"cut":      func(r *rand.Rand) { link.Cut(); within(r, 500*time.Millisecond); link.Heal() },
		"long cut": func(r *rand.Rand) { link.Cut(); within(r, 6*time.Second); link.Heal() },
		"black hole": func(r *rand.Rand) {
			link.Hang(proxy.Direction(1 + r.IntN(3)))
			within(r, 3*time.Second)
			link.Heal()
		},
		"pause":  func(r *rand.Rand) { node.Pause(); within(r, 2*time.Second); node.Resume() },
		"killed": func(*rand.Rand) { node.Restart() },
		"expiry": func(*rand.Rand) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			session, err := client.Session(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				return
			}
			require.NoError(t, err)
			kit.EndSession(t, node.Addr(), session.ID())
		},
	}, func() {})
}

// The same on an ensemble of three, with its own faults.
func TestLastingOnAnEnsemble(t *testing.T) {
	t.Parallel()
	e := zkserver.StartEnsemble(t, 3, zkserver.Options{})
	within := func(r *rand.Rand, d time.Duration) { time.Sleep(time.Duration(r.Int64N(int64(d)))) }
	serving := func() { // three servers that start on a busy machine may be slow
		ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
		defer cancel()
		require.NoError(t, e.AwaitServing(ctx))
	}
	leader := func() int {
		serving()
		i, err := e.Leader(kit.Context(t))
		require.NoError(t, err)
		return i
	}
	revive := func(i int) {
		require.NoError(t, e.Start(i))
		serving()
	}
	pause := func(r *rand.Rand, i int) {
		require.NoError(t, e.Pause(i))
		within(r, 6*time.Second)
		require.NoError(t, e.Resume(i))
		serving()
	}
	partition := func(r *rand.Rand, i int) {
		require.NoError(t, e.Partition(i))
		within(r, 8*time.Second)
		require.NoError(t, e.HealPeers())
		serving()
	}
	var client *framework.Client
	endures(t, e.ConnectString(), func() *framework.Client {
		client, _ = kit.Connected(t, e.ConnectString())
		return client
	}, map[string]func(*rand.Rand){
		"leader killed":      func(*rand.Rand) { i := leader(); require.NoError(t, e.Kill(i)); revive(i) },
		"member killed":      func(r *rand.Rand) { i := r.IntN(3); require.NoError(t, e.Kill(i)); revive(i) },
		"leader paused":      func(r *rand.Rand) { pause(r, leader()) },
		"member paused":      func(r *rand.Rand) { pause(r, r.IntN(3)) },
		"leader partitioned": func(r *rand.Rand) { partition(r, leader()) },
		"member partitioned": func(r *rand.Rand) { partition(r, r.IntN(3)) },
		"rolling restart": func(*rand.Rand) {
			for i := range 3 {
				require.NoError(t, e.Stop(i))
				revive(i)
			}
		},
		"clients cut": func(r *rand.Rand) {
			i := r.IntN(3)
			e.CutClients(i)
			within(r, time.Second)
			e.HealClients(i)
		},
		"clients' black hole": func(r *rand.Rand) {
			i := r.IntN(3)
			e.HangClients(i, proxy.Direction(1+r.IntN(3)))
			within(r, 4*time.Second)
			e.HealClients(i)
		},
		"all clients cut long": func(r *rand.Rand) {
			for i := range 3 {
				e.CutClients(i)
			}
			within(r, 8*time.Second)
			for i := range 3 {
				e.HealClients(i)
			}
		},
	}, serving)
}
