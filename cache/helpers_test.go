package cache_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test in virtual time, with a server and a connected client.
func bubble(t *testing.T, cfg zktest.Config, f func(t *testing.T, srv *zktest.Server, c *framework.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, cfg)
		f(t, srv, dial(t, srv))
	})
}

// ways runs a test with each way of watching; the promises are the same.
func ways(t *testing.T, f func(t *testing.T, srv *zktest.Server, c *framework.Client)) {
	for _, profile := range []zktest.Profile{zktest.V37, zktest.V39, zktest.V35} {
		t.Run(profile.String(), func(t *testing.T) { bubble(t, zktest.Config{Profile: profile}, f) })
	}
}

func dial(t *testing.T, srv *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	opts = append([]framework.Option{
		framework.WithDialer(srv.Dial),
		framework.WithSessionTimeout(10 * time.Second),
		framework.WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil))),
	}, opts...)
	c, err := framework.New(srv.Addr(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.WaitConnected(t.Context()))
	return c
}

// open opens a cache of a whole tree, and waits until it is in sync.
func open(t *testing.T, c *framework.Client, root string, opts ...cache.TreeOption) *cache.Cache {
	t.Helper()
	return synced(cache.NewTree(c, root, opts...))(t)
}

// started closes a cache when the test ends: started(cache.New(c, "/r"))(t).
func started[C interface{ Close() error }](c C, err error) func(t *testing.T) C {
	return func(t *testing.T) C {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// synced is started, and waits until the cache is in sync.
func synced[C interface {
	Close() error
	WaitSynced(ctx context.Context) error
}](c C, err error) func(t *testing.T) C {
	return func(t *testing.T) C {
		t.Helper()
		require.NoError(t, started(c, err)(t).WaitSynced(t.Context()))
		return c
	}
}

// slowed makes a subscriber call between before it takes the next event.
func slowed(events stream, between func(ev cache.Event)) stream {
	return func(ctx context.Context) iter.Seq2[cache.Event, error] {
		return func(yield func(cache.Event, error) bool) {
			for ev, err := range events(ctx) {
				if !yield(ev, err) {
					return
				}
				between(ev)
			}
		}
	}
}

// expire ends the client's session, as if it had expired.
func expire(t *testing.T, srv *zktest.Server, c *framework.Client) {
	t.Helper()
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	srv.Expire(s.ID())
	<-s.Done()
}

// settle waits until no request is left, also those that wait for a second.
func settle() {
	synctest.Wait()
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// state holds the properties of a node that tests compare.
type state struct {
	Data string
	Stat framework.Stat
}

// wanted returns the nodes that a cache of root must hold.
func wanted(srv *zktest.Server, root string) map[string]state {
	want := map[string]state{}
	for path, n := range srv.Tree() {
		if path == root || root == "/" || strings.HasPrefix(path, root+"/") {
			want[path] = state{string(n.Data), framework.Stat(n.Stat)}
		}
	}
	return want
}

func held(tree *cache.Cache) map[string]state {
	got := map[string]state{}
	for path, n := range tree.All() {
		if !strings.HasPrefix(path, "/zookeeper") {
			got[path] = state{string(n.Data), n.Stat}
		}
	}
	return got
}

// same asserts that the cache equals the tree.
func same(t *testing.T, srv *zktest.Server, tree *cache.Cache) {
	t.Helper()
	got := held(tree)
	failed := t.Failed()
	if lines := diff(wanted(srv, tree.Root()), got); !assert.Empty(t, lines) && !failed {
		path, _, _ := strings.Cut(lines[0], " ")
		for _, line := range srv.Trace() {
			pathless := !strings.Contains(line, " ping ") && !strings.Contains(line, " /")
			if pathless || strings.Contains(line, path+" ") || strings.Contains(line, zkpath.Parent(path)+" ") {
				t.Log(line)
			}
		}
	}
	if tree.Root() != "/" {
		assert.Equal(t, len(got), tree.Len())
	}
}

// diff returns the differences of two trees.
func diff[V comparable](want, got map[string]V) (lines []string) {
	for path, w := range want {
		if g, ok := got[path]; !ok {
			lines = append(lines, fmt.Sprintf("%s is missing: %s", path, brief(w)))
		} else if g != w {
			lines = append(lines, fmt.Sprintf("%s is %s and should be %s", path, brief(g), brief(w)))
		}
	}
	for path, g := range got {
		if _, ok := want[path]; !ok {
			lines = append(lines, fmt.Sprintf("%s should not be there: %s", path, brief(g)))
		}
	}
	slices.Sort(lines)
	return lines
}

func brief(v any) string {
	text := fmt.Sprintf("%v", v)
	return text[:min(len(text), 200)]
}

// listener collects the events of a stream.
type listener struct {
	done   chan struct{}
	cancel context.CancelFunc
	root   string // of a cache that reports all nodes that it holds; "" for others
	err    error  // once done is closed

	mu     sync.Mutex
	events []cache.Event
	nodes  map[string]cache.Node // the nodes that result from the events
	failed map[string]bool
	bad    []string // events that do not fit to those before
}

type stream func(ctx context.Context) iter.Seq2[cache.Event, error]

// listen subscribes. Look at the result after settle only.
func listen(t *testing.T, events stream) *listener {
	t.Helper()
	return listenBelow(t, "", events)
}

// listenBelow is listen for a whole tree: a node's parent must have been reported before.
func listenBelow(t *testing.T, root string, events stream) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{
		nodes: map[string]cache.Node{}, failed: map[string]bool{},
		done: make(chan struct{}), cancel: cancel, root: root,
	}
	go func() {
		defer close(l.done)
		for ev, err := range events(ctx) {
			if err != nil {
				l.err = err
				return
			}
			l.hear(ev)
		}
	}()
	t.Cleanup(func() { cancel(); <-l.done })
	return l
}

func listenTo(t *testing.T, tree *cache.Cache) *listener {
	t.Helper()
	return listenBelow(t, tree.Root(), tree.Events)
}

func (l *listener) hear(ev cache.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, ev)
	complain := func(format string, args ...any) {
		l.bad = append(l.bad, fmt.Sprintf("event %d, %v: ", len(l.events), ev)+fmt.Sprintf(format, args...))
	}
	old, known := l.nodes[ev.Path]
	switch ev.Type {
	case cache.Created:
		if known {
			complain("already known")
		}
		if ev.Old != nil || ev.New == nil || ev.New.Path != ev.Path {
			complain("old %v, new %v", ev.Old, ev.New)
		}
		if parent, below := l.above(ev.Path); below && !l.failed[parent] {
			if node, is := l.nodes[parent]; !is {
				complain("its parent is not there")
			} else if node.Stat.Czxid > ev.New.Stat.Czxid {
				complain("its parent is younger")
			}
		}
		l.nodes[ev.Path] = *ev.New
	case cache.Changed:
		if !known {
			complain("not known")
		}
		if ev.Old == nil || ev.New == nil || ev.New.Stat.Czxid != old.Stat.Czxid ||
			ev.New.Stat.Mzxid == old.Stat.Mzxid || ev.Old.Stat.Mzxid != old.Stat.Mzxid {
			complain("old %v, new %v, known %v", ev.Old, ev.New, old)
		}
		l.nodes[ev.Path] = *ev.New
	case cache.Deleted:
		if !known {
			complain("not known")
		}
		if ev.Old == nil || ev.New != nil || ev.Old.Stat.Czxid != old.Stat.Czxid {
			complain("old %v, new %v, known %v", ev.Old, ev.New, old)
		}
		delete(l.nodes, ev.Path)
		for path := range l.nodes { // none may be left below it: a subscriber may drop all of them
			if ev.Path != "/" && strings.HasPrefix(path, ev.Path+"/") {
				complain("%s is below it", path)
			}
		}
	case cache.Failed:
		l.failed[ev.Path] = true
	}
}

// above returns a node's parent; below is false if no event can have reported that.
func (l *listener) above(path string) (parent string, below bool) {
	return zkpath.Parent(path), l.root != "" && path != l.root
}

// take returns the events since the last take, except those about the connection.
func (l *listener) take() (lines []string) {
	for _, ev := range l.all() {
		if ev.Type != cache.ConnectionChanged {
			lines = append(lines, ev.String())
		}
	}
	return lines
}

// all returns all events since the last call.
func (l *listener) all() []cache.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.events
	l.events = nil
	return events
}

// replays asserts that the events so far result in the tree: same nodes, same data.
func (l *listener) replays(t *testing.T, srv *zktest.Server, root string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	assert.Empty(t, l.bad)
	type id struct {
		data         string
		czxid, mzxid int64
	}
	want, got := map[string]id{}, map[string]id{}
	for path, n := range wanted(srv, root) {
		want[path] = id{n.Data, n.Stat.Czxid, n.Stat.Mzxid}
	}
	for path, n := range l.nodes {
		if strings.HasPrefix(path, "/zookeeper") {
			continue
		}
		got[path] = id{string(n.Data), n.Stat.Czxid, n.Stat.Mzxid}
	}
	assert.Empty(t, diff(want, got))
}

func create(t *testing.T, srv *zktest.Server, paths ...string) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, srv.Create(path, []byte("data of "+path)))
	}
}

func keys[V any](seq iter.Seq2[string, V]) []string {
	all := []string{}
	for k := range seq {
		all = append(all, k)
	}
	return all
}

func requests(srv *zktest.Server) map[string]int {
	counts := srv.Counts()
	delete(counts, "ping")
	return counts
}

func sum(counts map[string]int) (n int) {
	for _, k := range slices.Collect(maps.Values(counts)) {
		n += k
	}
	return n
}
