package javapeer

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/internal/private"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func connected(t *testing.T, ctx context.Context, connectString string, timeout time.Duration) *Peer {
	t.Helper()
	began := time.Now()
	p := Start(t)
	started := time.Now()
	require.NoError(t, p.Connect(ctx, connectString, timeout))
	t.Logf("Java process %d: %v to start, %v to connect", p.Pid(), started.Sub(began).Round(time.Millisecond),
		time.Since(started).Round(time.Millisecond))
	return p
}

func TestNodes(t *testing.T) {
	ctx := deadline(t)
	p := connected(t, ctx, zkserver.Start(t, zkserver.Options{}).ConnectString(), 4*time.Second)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	path, err := p.Create(ctx, "/größe/a b", all, "PERSISTENT")
	require.NoError(t, err)
	assert.Equal(t, "/größe/a b", path)
	data, err := p.Get(ctx, path)
	require.NoError(t, err)
	assert.Equal(t, all, data)
	version, err := p.Set(ctx, path, nil)
	require.NoError(t, err)
	assert.EqualValues(t, 1, version)
	data, err = p.Get(ctx, path)
	require.NoError(t, err)
	assert.Empty(t, data)
	path, err = p.Create(ctx, "/größe/e-", nil, "EPHEMERAL_SEQUENTIAL")
	require.NoError(t, err)
	assert.Equal(t, "/größe/e-0000000001", path)
	children, err := p.Children(ctx, "/größe")
	require.NoError(t, err)
	assert.Equal(t, []string{"a b", "e-0000000001"}, children)
	require.NoError(t, p.Delete(ctx, "/größe/a b"))
	found, err := p.Exists(ctx, "/größe/a b")
	require.NoError(t, err)
	assert.False(t, found)

	var exception *Error
	require.ErrorAs(t, p.Delete(ctx, "/none"), &exception)
	assert.Equal(t, "org.apache.zookeeper.KeeperException$NoNodeException", exception.Class)
	assert.Contains(t, exception.Message, "/none")
	_, err = p.Call(ctx, "no-such-command")
	require.ErrorAs(t, err, &exception)
	assert.Equal(t, "there is no command no-such-command", exception.Message)

	now, err := p.Clock(ctx)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), now, time.Minute)
}

// TestMutexAlternates lets two Java processes take turns: each acquires again while the other holds, so the order of
// the line makes them alternate.
func TestMutexAlternates(t *testing.T) {
	ctx := deadline(t)
	node := zkserver.Start(t, zkserver.Options{})
	var locks [2]*Lock
	for i := range locks {
		lock, err := connected(t, ctx, node.ConnectString(), 4*time.Second).Mutex(ctx, "m", "/locks/orders")
		require.NoError(t, err)
		locks[i] = lock
	}
	const rounds = 20
	holding, err := locks[0].Acquire(ctx, Forever)
	require.NoError(t, err)
	previous := ""
	for round := range rounds {
		mine, other := locks[round%2], locks[1-round%2]
		assert.Greater(t, sequence(holding), previous)
		previous = sequence(holding)

		next := other.GoAcquire(Forever)
		var queue []string
		require.Eventually(t, func() bool {
			queue, err = mine.Participants(ctx)
			return err != nil || len(queue) == 2
		}, 30*time.Second, time.Millisecond)
		require.NoError(t, err)
		assert.Equal(t, holding, queue[0])
		require.NoError(t, mine.Release(ctx))
		holding, err = next(ctx)
		require.NoError(t, err)
		assert.Equal(t, queue[1], holding)
	}
}

func sequence(node string) string { return node[strings.LastIndex(node, "lock-"):] }

func TestMutexAnswers(t *testing.T) {
	ctx := deadline(t)
	p := connected(t, ctx, zkserver.Start(t, zkserver.Options{}).ConnectString(), 4*time.Second)
	a, err := p.Mutex(ctx, "a", "/locks/x")
	require.NoError(t, err)
	b, err := p.Mutex(ctx, "b", "/locks/x")
	require.NoError(t, err)
	_, err = p.Mutex(ctx, "b", "/locks/x")
	assert.ErrorContains(t, err, "the name b is taken")

	node, err := a.Acquire(ctx, Forever)
	require.NoError(t, err)
	assert.Regexp(t, `^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-0000000000$`, node)
	again, err := a.Acquire(ctx, 0)
	require.NoError(t, err, "the same thread re-enters")
	assert.Equal(t, node, again)
	_, err = b.Acquire(ctx, 10*time.Millisecond)
	assert.ErrorIs(t, err, ErrTimeout)
	_, err = p.Call(ctx, "release", "a", "another thread")
	assert.ErrorContains(t, err, "java.lang.IllegalMonitorStateException")
	held, err := a.Held(ctx)
	require.NoError(t, err)
	assert.True(t, held)
	queue, err := p.Participants(ctx, "/locks/x")
	require.NoError(t, err)
	assert.Equal(t, []string{node}, queue)
	require.NoError(t, a.Release(ctx))
	require.NoError(t, a.Release(ctx))
	assert.ErrorContains(t, a.Release(ctx), "java.lang.IllegalMonitorStateException")
}

func TestSessionIsKilledAndMadeAnew(t *testing.T) {
	ctx := deadline(t)
	p := connected(t, ctx, zkserver.Start(t, zkserver.Options{}).ConnectString(), 4*time.Second)
	before, err := p.SessionID(ctx)
	require.NoError(t, err)
	_, err = p.Create(ctx, "/e", nil, "EPHEMERAL")
	require.NoError(t, err)
	seen := len(p.Events())
	require.NoError(t, p.KillSession(ctx))
	seen, err = p.AwaitState(ctx, seen, "LOST")
	require.NoError(t, err)
	_, err = p.AwaitState(ctx, seen, "RECONNECTED")
	require.NoError(t, err)
	after, err := p.SessionID(ctx)
	require.NoError(t, err)
	assert.NotEqual(t, before, after)
	found, err := p.Exists(ctx, "/e")
	require.NoError(t, err)
	assert.False(t, found)
}

func TestProxyStandsBetween(t *testing.T) {
	ctx := deadline(t)
	link := proxy.New(t, zkserver.Start(t, zkserver.Options{}).Addr())
	p := connected(t, ctx, link.Addr(), 4*time.Second)
	id, err := p.SessionID(ctx)
	require.NoError(t, err)
	for _, disturb := range []func(){link.Cut, func() { link.Hang(proxy.Both) }} {
		seen := len(p.Events())
		disturb()
		seen, err = p.AwaitState(ctx, seen, "SUSPENDED")
		require.NoError(t, err)
		link.Heal()
		_, err = p.AwaitState(ctx, seen, "RECONNECTED")
		require.NoError(t, err)
	}
	again, err := p.SessionID(ctx)
	require.NoError(t, err)
	assert.Equal(t, id, again, "the session outlives both")
}

func TestContextEndsACallAndNotThePeer(t *testing.T) {
	ctx := deadline(t)
	p := connected(t, ctx, zkserver.Start(t, zkserver.Options{}).ConnectString(), 4*time.Second)
	a, err := p.Mutex(ctx, "a", "/locks/x")
	require.NoError(t, err)
	b, err := p.Mutex(ctx, "b", "/locks/x")
	require.NoError(t, err)
	_, err = a.Acquire(ctx, Forever)
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = b.Acquire(short, Forever)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, a.Release(ctx))
	require.NoError(t, b.Release(ctx), "b has acquired nevertheless")
}

func TestEndOfTheProcess(t *testing.T) {
	ctx := deadline(t)
	node := zkserver.Start(t, zkserver.Options{})
	crashed := connected(t, ctx, node.ConnectString(), 2*time.Second)
	lock, err := crashed.Mutex(ctx, "a", "/locks/x")
	require.NoError(t, err)
	_, err = lock.Acquire(ctx, Forever)
	require.NoError(t, err)
	second, err := crashed.Mutex(ctx, "b", "/locks/x")
	require.NoError(t, err)
	pending := second.GoAcquire(Forever)
	crashed.Kill()
	_, err = pending(ctx)
	assert.ErrorIs(t, err, ErrEnded)
	_, err = crashed.SessionID(ctx)
	assert.ErrorIs(t, err, ErrEnded)
	_, err = crashed.AwaitState(ctx, 0, "LOST")
	assert.ErrorIs(t, err, ErrEnded)

	orderly := connected(t, ctx, node.ConnectString(), 10*time.Second)
	lock, err = orderly.Mutex(ctx, "a", "/locks/x")
	require.NoError(t, err)
	_, err = lock.Acquire(ctx, 20*time.Second)
	require.NoError(t, err, "the crashed one's session expires")
	require.NoError(t, orderly.Quit(ctx))

	last := connected(t, ctx, node.ConnectString(), 10*time.Second)
	lock, err = last.Mutex(ctx, "a", "/locks/x")
	require.NoError(t, err)
	_, err = lock.Acquire(ctx, 0)
	require.NoError(t, err, "quitting has closed the session")
}

func TestManyRequestsAtOnce(t *testing.T) {
	ctx := deadline(t)
	p := connected(t, ctx, zkserver.Start(t, zkserver.Options{}).ConnectString(), 4*time.Second)
	_, err := p.Create(ctx, "/many", nil, "PERSISTENT")
	require.NoError(t, err)
	waits := map[string]func(context.Context) ([]string, error){}
	for i := range 50 {
		path := fmt.Sprintf("/many/%02d", i)
		waits[path] = p.Go("create", path, "", "PERSISTENT")
	}
	for path, wait := range waits {
		words, err := wait(ctx)
		require.NoError(t, err)
		assert.Equal(t, []string{path}, words)
	}
}

// Classes that another user may have put there are not run.
func TestClassesAreOurOwn(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	dir, err := cacheDir()
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = cacheDir()
	assert.ErrorIs(t, err, private.ErrNotPrivate)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	_, err = cacheDir()
	assert.ErrorContains(t, err, "set HOME or XDG_CACHE_HOME")
}

// An item that a consumer has handled before Quit is removed from the queue, too.
func TestQuittingEndsConsumersFirst(t *testing.T) {
	const queues, items = 8, 300
	ctx := deadline(t)
	node := zkserver.Start(t, zkserver.Options{})
	other := connected(t, ctx, node.ConnectString(), 4*time.Second)
	path := func(i int) string { return fmt.Sprint("/queues/", i) }
	for i := range queues {
		producer, err := other.Queue(ctx, path(i), "fifo", path(i))
		require.NoError(t, err)
		require.NoError(t, producer.PutNumbered(ctx, "item", items))
	}
	p := connected(t, ctx, node.ConnectString(), 4*time.Second)
	var consumers []*Queue
	for i := range queues {
		consumer, err := p.QueueConsumer(ctx, path(i), "fifo", path(i))
		require.NoError(t, err)
		consumers = append(consumers, consumer)
	}
	_, _, err := p.AwaitEvent(ctx, 0, func(e Event) bool { return e.Name == "queue" && e.Words[0] == path(queues-1) })
	require.NoError(t, err)
	require.NoError(t, p.Quit(ctx))
	for i, consumer := range consumers {
		left, err := other.Children(ctx, path(i))
		require.NoError(t, err)
		handled := len(consumer.Items())
		t.Logf("%s: %d items handled, %d left of %d", path(i), handled, len(left), items)
		assert.LessOrEqual(t, handled+len(left), items, "handled and left")
		assert.GreaterOrEqual(t, handled+len(left), items-1, "lost, of which one may be in hand")
	}
}
