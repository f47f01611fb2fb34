package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/wirecount"
	"github.com/go-curator/curator/integration/zkserver"
)

// pair is one kind of cache in both languages, each with its own counter of requests.
type pair struct {
	kind         string
	root         string
	ours, javas  *wirecount.Counter
	client       *framework.Client
	all          func() iter.Seq2[string, cache.Node]
	peer         *javapeer.Peer
	java         *javapeer.Cache
	includesRoot bool
}

// side is a server, a writer and all pairs.
type side struct {
	node   *zkserver.Node
	writer *framework.Client
	pairs  []*pair
	random *rand.Rand
}

const flat = "/tree/flat"

func newSide(t *testing.T, leaves int) *side {
	t.Helper()
	s := &side{node: zkserver.Start(t, zkserver.Options{MaxSessionTimeout: 30 * time.Second})}
	s.writer, _ = kit.Connected(t, s.node.ConnectString(), framework.WithSessionTimeout(30*time.Second))
	grow(t, s.writer, "/tree", leaves)
	for i := range inDirectory {
		s.create(t, fmt.Sprintf("%s/node-%d", flat, i), "flat")
	}
	for _, kind := range []string{javapeer.CuratorCache, javapeer.TreeCache, javapeer.PathChildrenCache} {
		p := &pair{kind: kind, root: "/tree", ours: wirecount.Start(t, s.node.Addr()),
			javas: wirecount.Start(t, s.node.Addr()), includesRoot: true}
		p.peer = javapeer.Start(t)
		require.NoError(t, p.peer.Connect(kit.Context(t), p.javas.Addr(), 4*time.Second))
		p.client, _ = kit.Connected(t, p.ours.Addr())
		switch kind {
		case javapeer.CuratorCache:
			c, err := cache.New(p.client, p.root)
			p.open(t, c, err)
		case javapeer.TreeCache:
			c, err := cache.NewTree(p.client, p.root)
			p.open(t, c, err)
		case javapeer.PathChildrenCache:
			p.root, p.includesRoot = flat, false
			c, err := cache.NewPathChildren(p.client, p.root)
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			p.all = c.All
		}
		var err error
		p.java, err = p.peer.Cache(kit.Context(t), "cache", kind, p.root, kit.Patience)
		require.NoError(t, err)
		s.pairs = append(s.pairs, p)
	}
	return s
}

func (p *pair) open(t *testing.T, c *cache.Cache, err error) {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	p.all = c.All
}

// agree waits until every cache is equal to the tree.
func (s *side) agree(t *testing.T) {
	t.Helper()
	trees := map[string]map[string]state{}
	for _, p := range s.pairs {
		want := trees[p.root]
		if want == nil {
			want = map[string]state{}
			for path, n := range tree(t, s.writer, p.root) {
				want[path] = stateOf(n)
			}
			if !p.includesRoot {
				delete(want, p.root)
			}
			trees[p.root] = want
		}
		s.soon(t, "ours, for "+p.kind, want, func() (map[string]state, error) {
			got := map[string]state{}
			for _, n := range p.all() {
				got[n.Path] = stateOf(n)
			}
			return got, nil
		})
		s.soon(t, p.kind, want, func() (map[string]state, error) { return p.java.Nodes(kit.Context(t)) })
	}
}

func (s *side) soon(t *testing.T, who string, want map[string]state, held func() (map[string]state, error)) {
	t.Helper()
	for end := time.Now().Add(kit.Patience); ; time.Sleep(50 * time.Millisecond) {
		got, err := held()
		require.NoError(t, err)
		lines := differences(want, got)
		if len(lines) == 0 {
			return
		}
		if time.Now().After(end) {
			require.Empty(t, lines[:min(20, len(lines))], "%s: %d of %d nodes", who, len(lines), len(want))
		}
	}
}

// cost is the number of requests and bytes of one side.
type cost struct {
	requests int
	bytes    int64
}

func (c cost) String() string {
	return fmt.Sprintf("%d requests, %d KiB", c.requests, (c.bytes+512)>>10)
}

// costs measures the costs of a change with all its consequences, per pair.
func (s *side) costs(t *testing.T, change func()) (ours, javas map[string]cost) {
	t.Helper()
	type counted struct{ ours, javas cost }
	counters := func() map[string]counted {
		now := map[string]counted{}
		for _, p := range s.pairs {
			now[p.kind] = counted{count(p.ours), count(p.javas)}
		}
		return now
	}
	before := counters()
	change()
	s.agree(t)
	after := counters()
	for quiet := 0; quiet < 2; quiet++ { // later reads come within a second
		time.Sleep(700 * time.Millisecond)
		now := counters()
		for kind := range now {
			if now[kind].ours.requests != after[kind].ours.requests ||
				now[kind].javas.requests != after[kind].javas.requests {
				quiet = -1
			}
		}
		after = now
	}
	ours, javas = map[string]cost{}, map[string]cost{}
	for kind, now := range after {
		ours[kind] = now.ours.minus(before[kind].ours)
		javas[kind] = now.javas.minus(before[kind].javas)
	}
	return ours, javas
}

func count(c *wirecount.Counter) cost {
	stats := c.Stats()
	return cost{len(c.Requests().Without(wirecount.Ping)), stats.ToServer + stats.ToClient}
}

func (c cost) minus(before cost) cost {
	return cost{c.requests - before.requests, c.bytes - before.bytes}
}

func (s *side) each(f func(*proxy.Proxy)) {
	for _, p := range s.pairs {
		f(p.ours.Proxy)
		f(p.javas.Proxy)
	}
}

// The writer. A change that does not apply, since the node exists or not, is left out.

func (s *side) do(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	ctx := kit.Context(t)
	for {
		err := f(ctx)
		if err == nil || errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrNodeExists) ||
			errors.Is(err, framework.ErrNotEmpty) {
			return
		}
		require.NoError(t, ctx.Err(), "%v", err)
		time.Sleep(10 * time.Millisecond) // the server is down, or has just started
	}
}

func (s *side) create(t *testing.T, path, data string) {
	s.do(t, func(ctx context.Context) error {
		_, err := s.writer.Create().CreatingParentsIfNeeded().ForPath(ctx, path, []byte(data))
		return err
	})
}

func (s *side) set(t *testing.T, path, data string) {
	s.do(t, func(ctx context.Context) error {
		_, err := s.writer.SetData().ForPath(ctx, path, []byte(data))
		return err
	})
}

func (s *side) delete(t *testing.T, path string) {
	s.do(t, func(ctx context.Context) error { return s.writer.Delete().ForPath(ctx, path) })
}

// write makes a random change, of the children in one directory or of the rest. Directories stay: CuratorCache does not
// notice when one of them is replaced while it has no connection.
func (s *side) write(t *testing.T, leaves int) {
	r := s.random
	path := fmt.Sprintf("%s/node-%d", flat, r.IntN(inDirectory*2))
	if r.IntN(3) > 0 {
		path = leaf("/tree", r.IntN(leaves))
		if r.IntN(3) == 0 {
			path = fmt.Sprintf("%s/new-%d", directory("/tree", r.IntN(leaves/inDirectory)), r.IntN(5))
		}
	}
	data := fmt.Sprint(r.Uint32())
	switch k := r.IntN(10); {
	case k < 3:
		s.create(t, path, data)
	case k < 7:
		s.set(t, path, data)
	case k < 9:
		s.delete(t, path)
	default:
		s.delete(t, path)
		s.create(t, path, data)
	}
}

// All caches of both languages follow one writer, at one server.
func TestSideBySide(t *testing.T) {
	kit.Needs(t, kit.PersistentWatches)
	kit.Interop(t, "caches", kit.Mixed)
	const leaves = 3_000
	s := newSide(t, leaves)
	s.agree(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s.random = rand.New(rand.NewPCG(seed, 1))

	t.Run("requests per change", func(t *testing.T) {
		const changes = 100
		total := map[string]int{}
		for _, phase := range []struct {
			what   string
			change func(path string)
		}{
			{"create", func(path string) { s.create(t, path, "new") }},
			{"set", func(path string) { s.set(t, path, "newer") }},
			{"delete", func(path string) { s.delete(t, path) }},
		} {
			ours, javas := s.costs(t, func() {
				for i := range changes {
					phase.change(fmt.Sprintf("%s/one-more-%d", flat, i))
					time.Sleep(5 * time.Millisecond)
				}
			})
			for _, p := range s.pairs {
				kit.Figure(t, "%d nodes, each a %s: ours %v, %s %v", changes, phase.what, ours[p.kind], p.kind,
					javas[p.kind])
				total[p.kind] += ours[p.kind].requests - javas[p.kind].requests
				if phase.what != "delete" { // CuratorCache reads nothing then, and its parent's Stat is old
					assert.LessOrEqual(t, ours[p.kind].requests, javas[p.kind].requests, "%s, %s", p.kind, phase.what)
				}
			}
		}
		for kind, more := range total {
			assert.LessOrEqual(t, more, changes,
				"more requests than %s for all changes of a life, but one to be sure of each deletion", kind)
		}
	})
	t.Run("requests after a reconnect", func(t *testing.T) {
		for _, changes := range []int{0, 1, 100} {
			ours, javas := s.costs(t, func() {
				s.each((*proxy.Proxy).Cut)
				for i := range changes {
					s.set(t, leaf("/tree", i*97%leaves), fmt.Sprint("changed ", changes))
					s.set(t, fmt.Sprintf("%s/node-%d", flat, i), fmt.Sprint("changed ", changes))
				}
				s.each((*proxy.Proxy).Heal)
				for _, p := range s.pairs {
					kit.Soon(t, "connected", func() bool {
						return p.client.State().State.IsConnected() && p.javas.Stats().Open > 0
					})
				}
			})
			for _, p := range s.pairs {
				kit.Figure(t, "reconnect with %d changes of %d nodes: ours %v, %s %v", changes,
					len(tree(t, s.writer, p.root)), ours[p.kind], p.kind, javas[p.kind])
				assert.LessOrEqual(t, ours[p.kind].requests, javas[p.kind].requests, p.kind)
				assert.LessOrEqual(t, ours[p.kind].bytes, javas[p.kind].bytes, p.kind)
			}
		}
	})
	t.Run("the same in the end", func(t *testing.T) {
		changes := 0
		burst := func() {
			for range 300 {
				s.write(t, leaves)
				changes++
			}
		}
		troubles := []func(){
			func() { s.each((*proxy.Proxy).Cut); burst(); s.each((*proxy.Proxy).Heal) },
			func() { s.each(func(p *proxy.Proxy) { p.Hang(proxy.Both) }); burst(); s.each((*proxy.Proxy).Heal) },
			func() {
				s.each(func(p *proxy.Proxy) { p.Hang(proxy.ToClient) })
				burst()
				s.each((*proxy.Proxy).Cut)
				s.each((*proxy.Proxy).Heal)
			},
			func() { s.node.Pause(); time.Sleep(1500 * time.Millisecond); s.node.Resume() },
			func() { s.node.Restart(); burst() },
			func() {
				for _, p := range s.pairs {
					require.NoError(t, p.peer.KillSession(kit.Context(t)))
					session, err := p.client.Session(kit.Context(t))
					require.NoError(t, err)
					kit.EndSession(t, s.node.Addr(), session.ID())
				}
			},
		}
		s.random.Shuffle(len(troubles), func(i, j int) { troubles[i], troubles[j] = troubles[j], troubles[i] })
		for _, trouble := range troubles {
			burst()
			trouble()
			burst()
		}
		s.agree(t)
		kit.Figure(t, "%d changes through cuts, hangs, a pause, a restart and expiry: three caches of ours and "+
			"three of Curator's are equal to the tree of %d nodes", changes, len(tree(t, s.writer, "/tree")))
	})
}
