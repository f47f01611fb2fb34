package recipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/proxy"
	wire "github.com/go-curator/curator/integration/wirecount"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// contender is a client whose requests are counted.
type contender struct {
	t      *testing.T
	link   *wire.Counter
	client *framework.Client
	mark   int
}

func counted(t *testing.T, node *zkserver.Node) *contender {
	t.Helper()
	c := &contender{t: t, link: wire.Start(t, node.Addr())}
	c.client, _ = kit.Connected(t, c.link.Addr())
	kit.Soon(t, "the client knows its server", func() bool { return c.client.Safety().Known })
	c.begin()
	return c
}

// begin counts from now on.
func (c *contender) begin() { c.mark = c.link.Mark() }

func (c *contender) sent() []wire.Op { return c.link.Since(c.mark).Without(wire.Ping).Ops() }

// costs checks what was sent since begin, and begins anew.
func (c *contender) costs(what string, want ...wire.Op) {
	c.t.Helper()
	if want == nil {
		want = []wire.Op{}
	}
	kit.Soon(c.t, what, func() bool { return len(c.sent()) >= len(want) })
	assert.Equal(c.t, want, c.sent(), what)
	c.t.Logf("%-40s %v", what, c.sent())
	c.begin()
}

// queue acquires in the background and returns when the contender stands in line.
func (c *contender) queue(ctx context.Context, path string) (granted <-chan *mutex.Lock) {
	c.t.Helper()
	queued := make(chan struct{}, 10)
	m := mutex.New(c.client, path, mutex.OnWait(func(mutex.Position) { queued <- struct{}{} }))
	granted = kit.Call(c.t, ctx, m.Acquire)
	kit.Receive(c.t, "the place in line", queued)
	return granted
}

// Requests per operation, counted at the server's door: the mutex rows of the table in docs.
func TestTraffic(t *testing.T) {
	t.Parallel()
	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	ctx := kit.Context(t)
	const path = "/locks/traffic"
	a, b, c := counted(t, node), counted(t, node), counted(t, node)
	require.NoError(t, a.client.CreateContainers(ctx, path))
	a.begin()
	m := mutex.New(a.client, path)

	// Free: one flight. The second request is there although no answer to the first has come.
	a.link.Hang(proxy.ToClient)
	done := kit.Call(t, ctx, m.Acquire)
	kit.Soon(t, "both requests are there", func() bool { return len(a.sent()) == 2 })
	a.link.Heal()
	held := kit.Receive(t, "the lock", done)
	requests := a.link.Since(a.mark).Without(wire.Ping)
	assert.Equal(t, path, requests[1].Path)
	assert.Regexp(t, "^"+path+"/_c_.*-lock-$", requests[0].Path)
	held.FencingToken()
	held.Valid()
	again, err := m.Acquire(held.Context())
	require.NoError(t, err)
	require.NoError(t, again.Release(ctx))
	a.costs("free, with re-entry and token", wire.Create2, wire.GetChildren2, wire.Exists)
	time.Sleep(100 * time.Millisecond)
	a.costs("held any longer")
	require.NoError(t, held.Release(ctx))
	a.costs("release", wire.Delete)

	// Held for less than 50 ms: nothing is read. (On a busy machine it may take longer.)
	var took time.Duration
	for range 20 {
		a.begin()
		began := time.Now()
		held, err = m.Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, held.Release(ctx))
		if took = time.Since(began); took < 50*time.Millisecond {
			break
		}
	}
	require.Less(t, took, 50*time.Millisecond)
	a.costs("free, held briefly", wire.Create2, wire.GetChildren2, wire.Delete)

	// A line of three.
	held, err = m.Acquire(ctx)
	require.NoError(t, err)
	second := b.queue(ctx, path)
	b.costs("waiting", wire.Create2, wire.GetChildren2, wire.SetWatches, wire.GetData)
	third := c.queue(ctx, path)
	c.costs("waiting behind two", wire.Create2, wire.GetChildren2, wire.SetWatches, wire.GetData)
	require.NoError(t, held.Release(ctx))
	heldByB := kit.Receive(t, "the lock", second)
	time.Sleep(100 * time.Millisecond) // the hold joins the watch of the waiter
	b.costs("hand-over from the only one ahead")
	c.costs("hand-over among others")
	require.NoError(t, heldByB.Release(ctx))
	b.costs("release after a wait, with a mark", wire.Multi)
	heldByC := kit.Receive(t, "the lock", third)
	time.Sleep(100 * time.Millisecond)
	c.costs("hand-over when there were two ahead")

	// Try.
	a.begin()
	_, err = m.TryAcquire(ctx)
	assert.ErrorIs(t, err, mutex.ErrNotAcquired)
	a.costs("try on a held lock", wire.Sync, wire.GetChildren2)
	_, err = mutex.New(a.client, path, mutex.WithStaleTry()).TryAcquire(ctx)
	assert.ErrorIs(t, err, mutex.ErrNotAcquired)
	a.costs("stale try on a held lock", wire.GetChildren2)

	// A waiter that leaves.
	leaving, leave := context.WithCancel(ctx)
	left := b.queue(leaving, path)
	b.costs("waiting", wire.Create2, wire.GetChildren2, wire.SetWatches, wire.GetData)
	// after the answers that set the watches: one that is on its way costs a request more
	require.NoError(t, b.client.Sync().ForPath(ctx, path))
	b.begin()
	leave()
	_, got := <-left
	assert.False(t, got)
	kit.Soon(t, "both requests are there", func() bool { return len(b.sent()) >= 2 })
	assert.ElementsMatch(t, []wire.Op{wire.Delete, wire.RemoveWatches}, b.sent(), "cancelled")
	b.begin()
	kit.Soon(t, "no watch but the holder's", func() bool { return kit.Watches(t, node) == 1 })

	participants, err := m.Participants(ctx)
	require.NoError(t, err)
	require.Len(t, participants, 1)
	a.costs("participants", wire.GetChildren2, wire.GetData)
	require.NoError(t, heldByC.Release(ctx))
	lock, err := m.TryAcquire(ctx)
	require.NoError(t, err)
	a.costs("try on a free lock", wire.Sync, wire.GetChildren2, wire.Create2, wire.GetChildren2)
	require.NoError(t, lock.Release(ctx))
	kit.Soon(t, "no watch", func() bool { return kit.Watches(t, node) == 0 })
}

// What Curator for Java sends for the same, for comparison: ours may not be more.
func TestTrafficOfJava(t *testing.T) {
	t.Parallel()
	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	ctx := kit.Context(t)
	const path = "/locks/traffic"
	link := wire.Start(t, node.Addr())
	peer := javapeer.Start(t)
	require.NoError(t, peer.Connect(ctx, link.Addr(), 4*time.Second))
	lock, err := peer.Mutex(ctx, "m", path)
	require.NoError(t, err)
	cost := func(what string, do func()) int {
		mark := link.Mark()
		do()
		sent := link.Since(mark).Without(wire.Ping).Ops()
		t.Logf("%-30s %v", what, sent)
		return len(sent)
	}
	acquire := func() {
		_, err := lock.Acquire(ctx, javapeer.Forever)
		require.NoError(t, err)
	}
	release := func() { require.NoError(t, lock.Release(ctx)) }
	cost("first, with parents", acquire)
	cost("release", release)
	assert.GreaterOrEqual(t, cost("free", acquire), 2)
	assert.GreaterOrEqual(t, cost("release", release), 1)
	c := counted(t, node)
	held, err := mutex.New(c.client, path).Acquire(ctx)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, cost("try on a held lock", func() {
		_, err := lock.Acquire(ctx, 0)
		assert.ErrorIs(t, err, javapeer.ErrTimeout)
	}), 2)
	require.NoError(t, held.Release(ctx))
}
