package cache_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/zktest"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed of the random histories")
	seeds     = flag.Int("seeds", 0, "how many random histories; 0: 100, 30 with -short, 1000 with CURATOR_TEST_SCHEDULES=all")
)

// A writer changes a tree at random, through cuts, expiries, restarts and hangs. In the end the cache equals the tree, and
// so do the nodes that result from the events, for a subscriber that keeps up and for one that does not. Every event fits
// to those before it.
func TestRandomHistories(t *testing.T) {
	n := *seeds
	switch {
	case n == 0 && os.Getenv("CURATOR_TEST_SCHEDULES") == "all":
		n = 1000
	case n == 0:
		if n = 100; testing.Short() {
			n = 30
		}
		t.Logf("figure: %d of 1000 random histories of caches: CURATOR_TEST_SCHEDULES=all plays all", n)
	}
	var failed atomic.Bool
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if failed.Load() {
				return // one is enough
			}
			t.Cleanup(func() {
				if t.Failed() {
					failed.Store(true)
					t.Logf("replay with: go test ./cache -run TestRandomHistories -seed %d -seeds 1", seed)
				}
			})
			synctest.Test(t, func(t *testing.T) { history(t, seed) })
		})
	}
}

type writer struct {
	*rand.Rand
	srv   *zktest.Server
	root  string
	nodes int // about how many nodes the tree should have
	have  int // about how many it has
	large bool
}

func history(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 4711))
	profile := zktest.Profiles()[r.IntN(len(zktest.Profiles()))]
	w := &writer{Rand: r, srv: zktest.RunT(t, zktest.Config{Profile: profile}),
		root: []string{"/", "/r", "/deep/root"}[r.IntN(3)], nodes: 5 + r.IntN(60)}
	opts := []cache.TreeOption{cache.WithBuffer(1 + r.IntN(40))}
	if r.IntN(4) == 0 {
		opts = append(opts, cache.WithOneShotWatches())
	}
	if w.large = seed%50 == 0; w.large {
		w.root, w.nodes = "/r", 10_000
		grow(t, w.srv, w.root, w.nodes)
	}
	for range r.IntN(2 * w.nodes) {
		w.write()
	}
	c := dial(t, w.srv)
	tree := started(cache.NewTree(c, w.root, opts...))(t)
	quick := listenTo(t, tree)
	pace := time.Duration(r.IntN(300)) * time.Millisecond
	if w.large {
		pace /= 100
	}
	slow := listenBelow(t, w.root, slowed(tree.Events, func(cache.Event) { time.Sleep(pace) }))
	for range 3 + r.IntN(8) {
		w.burst()
		w.trouble()
	}
	w.srv.Heal()
	w.srv.Resume()
	require.NoError(t, w.srv.Start())
	time.Sleep(2 * time.Minute)
	require.NoError(t, tree.WaitSynced(t.Context()))
	settle()
	same(t, w.srv, tree)
	quick.replays(t, w.srv, w.root)
	time.Sleep(2 * time.Minute) // for the slow subscriber
	synctest.Wait()
	slow.replays(t, w.srv, w.root)
	for _, l := range []*listener{quick, slow} {
		once := 0
		for _, ev := range l.all() {
			if ev.Type == cache.Initialized {
				once++
			}
			assert.NotEqual(t, cache.Failed, ev.Type, ev)
		}
		assert.Equal(t, 1, once, "Initialized")
	}
}

// burst makes some writes, all together or over some time.
func (w *writer) burst() {
	pace := []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second}[w.IntN(4)]
	most := 40
	if w.large {
		most = 400
	}
	w.have = len(w.srv.Tree())
	for range w.IntN(most) {
		w.write()
		if pace > 0 {
			time.Sleep(time.Duration(w.Int64N(int64(pace))))
		}
	}
}

// trouble causes a fault and, often, makes writes while it lasts.
func (w *writer) trouble() {
	s := w.srv
	switch w.IntN(9) {
	case 0:
		time.Sleep(time.Duration(w.IntN(5000)) * time.Millisecond)
	case 1, 2:
		s.Cut(0)
		w.burst()
	case 3:
		for _, info := range s.Sessions() {
			s.Expire(info.ID)
		}
		w.burst()
	case 4:
		s.Stop()
		w.burst()
		time.Sleep(time.Duration(w.IntN(20000)) * time.Millisecond)
		_ = s.Start()
	case 5:
		s.Pause()
		w.burst()
		time.Sleep(time.Duration(w.IntN(20000)) * time.Millisecond)
		s.Resume()
	case 6:
		s.BlackHole(0, zktest.Direction(1+w.IntN(3)))
		w.burst()
		time.Sleep(time.Duration(w.IntN(15000)) * time.Millisecond)
		s.Heal()
	case 7:
		s.Delay(0, time.Duration(w.IntN(500))*time.Millisecond)
		w.burst()
		s.Heal()
	case 8:
		// A fault strikes a request of the cache: its reply is lost, or comes late.
		op := []string{"multiRead", "getData", "getChildren2", "exists", "addWatch", "setWatches2",
			"setWatches"}[w.IntN(7)]
		i := s.Inject(zktest.Fault{Op: op, Times: 1 + w.IntN(3), After: w.IntN(3),
			Delay:  time.Duration(w.IntN(2000)) * time.Millisecond,
			Action: []zktest.Action{zktest.CutBefore, zktest.LoseReply, zktest.DelayReply}[w.IntN(3)]})
		w.burst()
		if w.IntN(2) == 0 {
			s.Cut(0)
		}
		time.Sleep(time.Duration(w.IntN(3000)) * time.Millisecond)
		i.Remove()
	}
	if w.IntN(2) == 0 {
		time.Sleep(time.Duration(w.IntN(30000)) * time.Millisecond)
	}
}

// write makes one change, or none if it is not possible.
func (w *writer) write() {
	s, path := w.srv, w.path()
	data := fmt.Appendf(nil, "%d", w.Uint32())
	if w.IntN(50) == 0 {
		data = append(data, strings.Repeat("x", 6000)...) // large enough to be compared by its Stat
	}
	few := w.large || w.have < w.nodes
	switch k := w.IntN(20); {
	case w.large && k >= 16 && w.IntN(20) > 0: // the other operations delete too much
	case k < 8 && few || k < 4:
		if s.Create(path, data) == nil {
			w.have++
		}
	case k < 14:
		_ = s.Set(path, data)
	case k < 16:
		_ = s.Delete(path)
	case k < 17 && path != "/":
		_ = s.DeleteAll(path)
	case k < 18:
		if s.Delete(path) == nil {
			_ = s.Create(path, data) // the same node again
		}
	case k < 19:
		if path != "/" && s.DeleteAll(path) == nil {
			_ = s.Create(path+"/"+name(w.Rand), data)
		}
	case w.root != "/" && w.IntN(3) == 0:
		_ = s.DeleteAll(w.root)
	}
}

func (w *writer) path() string {
	if w.large && w.IntN(100) > 0 {
		i := w.IntN(w.nodes)
		return fmt.Sprintf("%s/dir-%04d/node-%08d", w.root, i/100, i)
	}
	path := strings.TrimSuffix(w.root, "/")
	for range w.IntN(5) {
		path += "/" + name(w.Rand)
	}
	if path == "" {
		return "/"
	}
	return path
}

func name(r *rand.Rand) string { return []string{"a", "b", "c", "a-b", "0", "zz", "node"}[r.IntN(7)] }
