package clients

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// pair is a client of each language on a zktest.
type pair struct {
	t      *testing.T
	server *zktest.Server
	client *framework.Client
	peer   *javapeer.Peer
}

func newPair(t *testing.T) *pair {
	t.Helper()
	kit.RanOn(t, "zktest")
	server := zktest.RunT(t, zktest.Config{TickTime: tick, MaxSessionTimeout: time.Minute, Listen: "127.0.0.1:0",
		Profile: zktest.V38, ReapInterval: tick})
	peer := javapeer.Start(t)
	require.NoError(t, peer.Connect(kit.Context(t), server.Addr(), 10*time.Second))
	client, _ := kit.Connected(t, server.Addr(), framework.WithSessionTimeout(10*time.Second))
	return &pair{t, server, client, peer}
}

// emptied waits until the server has removed the directories. They are containers, so all nodes in them were deleted.
func (p *pair) emptied(path string) {
	p.t.Helper()
	kit.Soon(p.t, "nothing left of "+path, func() bool { return !p.server.Exists(path) })
}

// release releases a hold.
type release = func(ctx context.Context) error

// contender acquires and releases as often as contend requires.
type contender struct {
	name    string
	weight  int
	acquire func(ctx context.Context) (release func(ctx context.Context) error, err error)
}

// contend has all contenders take turns, and fails the test when at any moment more than limit is held.
func (p *pair) contend(limit, rounds int, contenders ...contender) {
	p.t.Helper()
	ctx := kit.Context(p.t)
	var mu sync.Mutex
	taken, most := 0, 0
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		taken += by
		most = max(most, taken)
	}
	var all sync.WaitGroup
	for _, c := range contenders {
		all.Go(func() {
			for range rounds {
				release, err := c.acquire(ctx)
				if !assert.NoError(p.t, err, c.name) {
					return
				}
				count(c.weight)
				time.Sleep(time.Millisecond)
				count(-c.weight)
				if !assert.NoError(p.t, release(ctx), c.name) {
					return
				}
			}
		})
	}
	all.Wait()
	assert.LessOrEqual(p.t, most, limit, "too many at once")
	assert.Positive(p.t, most)
}

func javaLock(name string, weight int, lock *javapeer.Lock) contender {
	return contender{name, weight, func(ctx context.Context) (release, error) {
		_, err := lock.Acquire(ctx, javapeer.Forever)
		return lock.Release, err
	}}
}

// releaser is a lock of this library.
type releaser interface {
	Release(ctx context.Context) error
}

func goLockOf[L releaser](name string, weight int, acquire func(ctx context.Context) (L, error)) contender {
	return contender{name, weight, func(ctx context.Context) (release, error) {
		lock, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lock.Release, nil
	}}
}

const rounds = 15

func TestCuratorMutexOnZktest(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ctx := kit.Context(t)
	var contenders []contender
	for i := range 2 {
		lock, err := p.peer.Mutex(ctx, fmt.Sprint("m", i), "/locks/m")
		require.NoError(t, err)
		contenders = append(contenders, javaLock(fmt.Sprint("java ", i), 1, lock),
			goLockOf(fmt.Sprint("go ", i), 1, mutex.New(p.client, "/locks/m").Acquire))
	}
	p.contend(1, rounds, contenders...)
	p.emptied("/locks")
}

// Four readers together, or one writer alone.
func TestCuratorReadWriteLockOnZktest(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	read, write, err := p.peer.ReadWrite(kit.Context(t), "rw", "/locks/rw")
	require.NoError(t, err)
	rw := rwlock.New(p.client, "/locks/rw")
	p.contend(4, rounds, javaLock("java reads", 1, read), javaLock("java writes", 4, write),
		goLockOf("go reads", 1, rw.ReadLock().Acquire),
		goLockOf("go writes", 4, rw.WriteLock().Acquire), goLockOf("go reads, too", 1, rw.ReadLock().Acquire))
	p.emptied("/locks")
}

func TestCuratorSemaphoreOnZktest(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ctx := kit.Context(t)
	ours := semaphore.New(p.client, "/leases/s", 3)
	var contenders []contender
	for i := range 2 {
		n, name := i+1, fmt.Sprint("s", i)
		theirs, err := p.peer.Semaphore(ctx, name, "/leases/s", 3)
		require.NoError(t, err)
		contenders = append(contenders, goLockOf(fmt.Sprint("go takes ", n), n,
			func(ctx context.Context) (*semaphore.Lease, error) { return ours.Acquire(ctx, n) }),
			contender{fmt.Sprint("java takes ", n), n, func(ctx context.Context) (release, error) {
				_, err := theirs.Acquire(ctx, name, n, kit.Patience)
				return func(ctx context.Context) error { return theirs.Return(ctx, name) }, err
			}})
	}
	p.contend(3, rounds, contenders...)
	p.emptied("/leases")
}

func TestCuratorLeadersOnZktest(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ctx := kit.Context(t)
	names := 0
	latch := contender{"java latch", 1, func(ctx context.Context) (release, error) {
		names++
		l, err := p.peer.Latch(ctx, fmt.Sprint("latch ", names), "/leaders/l", "java")
		if err == nil {
			_, err = l.AwaitLeader(ctx)
		}
		return l.Close, err
	}}
	ours := contender{"go latch", 1, func(ctx context.Context) (release, error) {
		l, err := leader.NewLatch(p.client, "/leaders/l", leader.WithID("go"))
		if err == nil {
			_, err = l.Await(ctx)
		}
		return func(context.Context) error { return l.Close() }, err
	}}
	p.contend(1, rounds, latch, ours)

	// A selector of each language on one path: one leads, resigns, and the other leads.
	theirs, err := p.peer.Selector(ctx, "selector", "/leaders/s", "java")
	require.NoError(t, err)
	_, err = theirs.AwaitLeader(ctx)
	require.NoError(t, err)
	led := make(chan struct{})
	selector := leader.NewSelector(p.client, "/leaders/s",
		func(context.Context) error { close(led); return nil }, leader.WithID("go"))
	ended := make(chan error, 1)
	go func() { ended <- selector.RunOnce(ctx) }()
	kit.Soon(t, "two candidates", func() bool {
		ids, err := theirs.Participants(ctx)
		return assert.NoError(t, err) && len(ids) == 2
	})
	select {
	case <-led:
		require.FailNow(t, "two lead")
	default:
	}
	require.NoError(t, theirs.Resign(ctx))
	kit.Closed(t, "Java has resigned: Go leads", led)
	require.NoError(t, kit.Receive(t, "the end of the term", ended))
	require.NoError(t, theirs.Close(ctx))
	p.emptied("/leaders")
}

func TestCuratorBarriersOnZktest(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ctx := kit.Context(t)
	ours := barrier.New(p.client, "/barriers/gate")
	theirs, err := p.peer.Barrier(ctx, "gate", "/barriers/gate")
	require.NoError(t, err)
	for _, step := range []struct {
		set, remove func(ctx context.Context) error
	}{{ours.Set, theirs.Remove}, {theirs.Set, ours.Remove}} {
		require.NoError(t, step.set(ctx))
		require.ErrorIs(t, theirs.Wait(ctx, 100*time.Millisecond), javapeer.ErrTimeout)
		passed := make(chan error, 2)
		go func() { passed <- ours.Wait(ctx) }()
		go func() { passed <- theirs.Wait(ctx, kit.Patience) }()
		kit.Soon(t, "both wait", func() bool { return len(p.server.Watches()) >= 2 })
		assert.Empty(t, passed)
		require.NoError(t, step.remove(ctx))
		require.NoError(t, kit.Receive(t, "one passes", passed))
		require.NoError(t, kit.Receive(t, "the other passes", passed))
	}

	const members = 4
	var all sync.WaitGroup
	var mu sync.Mutex
	inside := map[int]int{} // by round
	for i := range members {
		var enter, leave func(ctx context.Context) error
		if i%2 == 0 {
			double := barrier.NewDouble(p.client, "/barriers/double", members)
			var member *barrier.Member
			enter = func(ctx context.Context) (err error) { member, err = double.Enter(ctx); return err }
			leave = func(ctx context.Context) error { return member.Leave(ctx) }
		} else {
			double, err := p.peer.Double(ctx, fmt.Sprint("double ", i), "/barriers/double", members)
			require.NoError(t, err)
			enter = func(ctx context.Context) error { return double.Enter(ctx, kit.Patience) }
			leave = func(ctx context.Context) error { return double.Leave(ctx, kit.Patience) }
		}
		all.Go(func() {
			mu.Lock()
			inside[0]++
			mu.Unlock()
			if !assert.NoError(t, enter(ctx)) {
				return
			}
			mu.Lock()
			assert.Equal(t, members, inside[0], "entered before all had come")
			inside[1]++
			mu.Unlock()
			if !assert.NoError(t, leave(ctx)) {
				return
			}
			mu.Lock()
			assert.Equal(t, members, inside[1], "left before all had entered")
			mu.Unlock()
		})
	}
	all.Wait()
	p.emptied("/barriers")
}

// Curator's connection breaks: its lock survives. Its session expires: Curator learns of it, and the lock is granted to
// the next contender.
func TestCuratorThroughTroubleOnZktest(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ctx := kit.Context(t)
	theirs, err := p.peer.Mutex(ctx, "m", "/locks/m")
	require.NoError(t, err)
	_, err = theirs.Acquire(ctx, javapeer.Forever)
	require.NoError(t, err)
	session, err := p.peer.SessionID(ctx)
	require.NoError(t, err)
	seen := len(p.peer.Events())
	p.server.Cut(session)
	seen, err = p.peer.AwaitState(ctx, seen, "SUSPENDED")
	require.NoError(t, err)
	seen, err = p.peer.AwaitState(ctx, seen, "RECONNECTED")
	require.NoError(t, err)
	again, err := p.peer.SessionID(ctx)
	require.NoError(t, err)
	assert.Equal(t, session, again)
	requireWaits(t, p.client, "/locks/m")

	granted := kit.Call(t, ctx, mutex.New(p.client, "/locks/m").Acquire)
	kit.Soon(t, "two in line", func() bool {
		line, err := p.server.Children("/locks/m")
		return err == nil && len(line) == 2
	})
	p.server.Expire(session)
	lock := kit.Receive(t, "the lock of the expired session", granted)
	seen, err = p.peer.AwaitState(ctx, seen, "LOST")
	require.NoError(t, err)
	_, err = p.peer.AwaitState(ctx, seen, "RECONNECTED")
	require.NoError(t, err)
	require.NoError(t, lock.Release(ctx))
	p.emptied("/locks")
}
