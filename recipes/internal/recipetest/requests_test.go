package recipetest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/golden"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/recipes/once"
	items "github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// play plays a recipe's steps; each is a row of the table in docs/znodes.md.
type play struct {
	*testing.T
	s      *zktest.Server
	recipe string
	rows   *strings.Builder
	events int // up to the last step
}

// step ends a step: it writes the requests, without pings, and the events since the last step.
func (p *play) step(what string) {
	synctest.Wait()
	counts := p.s.Counts()
	p.s.ResetCounts()
	delete(counts, "ping")
	var requests []string
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[op]; n > 1 {
			op = fmt.Sprintf("%d %s", n, op)
		}
		requests = append(requests, op)
	}
	events := strings.Count(strings.Join(p.s.Trace(), "\n"), " event ")
	fmt.Fprintf(p.rows, "| %s | %s | %s | %d |\n", p.recipe, what, strings.Join(requests, ", "), events-p.events)
	p.events = events
}

// begin forgets all earlier requests.
func (p *play) begin() {
	synctest.Wait()
	p.s.ResetCounts()
	p.events = strings.Count(strings.Join(p.s.Trace(), "\n"), " event ")
}

func (p *play) client(opts ...framework.Option) *framework.Client {
	return recipetest.Client(p.T, p.s, opts...)
}

// waiting starts a call on another goroutine, and returns when it waits.
func waiting[V any](p *play, f func() (V, error)) *recipetest.Call[V] {
	return recipetest.Begin(p.T, f).Waits()
}

// must returns the result of a call that must not fail.
func must[V any](p *play) func(V, error) V {
	return func(v V, err error) V {
		p.Helper()
		require.NoError(p, err)
		return v
	}
}

func (p *play) ok(err error) {
	p.Helper()
	require.NoError(p, err)
}

// releaser is implemented by each lock's holder.
type releaser interface{ Release(context.Context) error }

func (p *play) release(all ...releaser) {
	p.Helper()
	for _, held := range all {
		p.ok(held.Release(background))
	}
}

// Each recipe's requests are those of the documents. A group and an assignment are left out: they consist of a keeper and a
// cache, whose reads depend on the order of events.
func TestRequests(t *testing.T) {
	rows := &strings.Builder{}
	rows.WriteString("| recipe | step | requests | events |\n|---|---|---|---|\n")
	for _, recipe := range []struct {
		name string
		dirs []string // those that exist before, and that must be empty in the end
		play func(p *play, path string)
	}{
		{"mutex", []string{"/r"}, playMutex},
		{"cohort", []string{"/r"}, playCohort},
		{"kept cohort", []string{"/r"}, playKept},
		{"read-write lock", []string{"/r"}, playReadWrite},
		{"readers", []string{"/r"}, playReaders},
		{"semaphore", []string{"/r/locks", "/r/leases"}, playSemaphore},
		{"semaphore, shared count", []string{"/r/locks", "/r/leases"}, playSharedCount},
		{"latch", []string{"/r"}, playLatch},
		{"selector", []string{"/r"}, playSelector},
		{"barrier", []string{"/r"}, playBarrier},
		{"double barrier", []string{"/r"}, playDouble},
		{"number", []string{"/r"}, playNumber},
		{"ids", []string{"/r"}, playIDs},
		{"keeper", []string{"/r"}, playKeeper},
		{"claim", []string{"/r"}, playClaim},
		{"instance", []string{"/r"}, playInstance},
		{"queue", nil, playQueue},
		{"queue, lock path", nil, playQueueWithLocks},
		{"simple queue", []string{"/r"}, playSimple},
		{"once", []string{"/r"}, playOnce},
		{"once, AtMostOnce", []string{"/r"}, playAtMostOnce},
	} {
		t.Run(recipe.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{T: t, s: zktest.RunT(t), recipe: recipe.name, rows: rows}
				for _, dir := range recipe.dirs {
					require.NoError(t, p.s.Create(dir, nil))
				}
				recipe.play(p, "/r")
			})
		})
	}
	golden.CompareBlock(t, "../../../docs/znodes.md", "requests", rows.String())
}

func playMutex(p *play, path string) {
	a, b, c := p.client(), p.client(), p.client()
	ma, mb, mc := mutex.New(a, path), mutex.New(b, path), mutex.New(c, path)
	lock := must[*mutex.Lock](p)
	acquire := func(ctx context.Context, m *mutex.Mutex) func() (*mutex.Lock, error) {
		return func() (*mutex.Lock, error) { return m.Acquire(ctx) }
	}
	p.begin()
	first := lock(ma.Acquire(background))
	p.step("acquire, free")
	time.Sleep(49 * time.Millisecond)
	p.step("held for less than 50 ms")
	time.Sleep(time.Minute)
	p.step("held for longer")
	p.release(lock(ma.Acquire(first.Context())))
	p.step("re-entry and its release")
	_, err := mb.TryAcquire(background)
	require.ErrorIs(p, err, mutex.ErrNotAcquired)
	p.step("try, held")
	_, err = mutex.New(b, path, mutex.WithStaleTry()).TryAcquire(background)
	require.ErrorIs(p, err, mutex.ErrNotAcquired)
	p.step("try, held, WithStaleTry")
	second := waiting(p, acquire(background, mb))
	p.step("acquire, held")
	ctx, cancel := context.WithCancel(background)
	third := waiting(p, acquire(ctx, mc))
	p.step("acquire, behind a waiter")
	cancel()
	require.ErrorIs(p, third.End().Err, context.Canceled)
	p.step("a waiter gives up")
	p.release(first)
	held := second.End().OK()
	p.step("release, hand-over to the only waiter")
	time.Sleep(time.Minute)
	p.step("held for longer after a wait")
	second, third = waiting(p, acquire(background, ma)), waiting(p, acquire(background, mc))
	p.begin()
	p.release(held)
	held = second.End().OK()
	p.step("release after a wait, hand-over to the first of two")
	p.release(held)
	held = third.End().OK()
	p.step("release after a wait, hand-over to a waiter that had two ahead")
	p.release(held)
	p.step("release after a wait")
	held = lock(ma.TryAcquire(background))
	p.step("try, free")
	p.release(held)
	p.step("release")
	recipetest.Clean(p.T, p.s, path)
}

func playCohort(p *play, path string) {
	m, other := mutex.NewCohort(p.client(), path), mutex.New(p.client(), path)
	turn := must[*mutex.Turn](p)
	p.begin()
	first := turn(m.Acquire(background))
	p.step("acquire, free")
	next := waiting(p, func() (*mutex.Turn, error) { return m.Acquire(background) })
	p.step("a second caller")
	p.release(first)
	second := next.End().OK()
	p.step("the turn is passed on")
	p.release(second)
	p.step("release, no caller waits")
	lock := must[*mutex.Lock](p)(other.Acquire(background))
	p.begin()
	_, err := m.TryAcquire(background)
	require.ErrorIs(p, err, mutex.ErrNotAcquired)
	p.step("try, held")
	p.release(lock)
	recipetest.Clean(p.T, p.s, path)
}

func playKept(p *play, path string) {
	m := mutex.NewCohort(p.client(), path, mutex.WithKept(time.Hour))
	other := mutex.New(p.client(), path)
	turn := must[*mutex.Turn](p)
	p.begin()
	p.release(turn(m.Acquire(background)))
	p.step("the first turn")
	time.Sleep(time.Second)
	p.step("kept for longer")
	p.release(turn(m.Acquire(background)))
	p.step("a turn with the kept node")
	held := turn(m.Acquire(background))
	waiter := waiting(p, func() (*mutex.Lock, error) { return other.Acquire(background) })
	p.step("another contender joins the line during a turn")
	p.release(held)
	lock := waiter.End().OK()
	p.step("the turn ends, hand-over")
	p.release(lock)
	p.step("the other contender's release")
	recipetest.Clean(p.T, p.s, path)
}

func playReadWrite(p *play, path string) {
	a, b := rwlock.New(p.client(), path), rwlock.New(p.client(), path)
	lock := must[*rwlock.Lock](p)
	acquire := func(side *rwlock.Side) func() (*rwlock.Lock, error) {
		return func() (*rwlock.Lock, error) { return side.Acquire(background) }
	}
	p.begin()
	r1 := lock(a.ReadLock().Acquire(background))
	p.step("read, free")
	r2 := lock(b.ReadLock().Acquire(background))
	p.step("read, beside a reader")
	time.Sleep(time.Minute)
	p.step("two readers hold for longer")
	p.release(r2)
	p.step("release")
	w := waiting(p, acquire(b.WriteLock()))
	p.step("write, behind a reader")
	p.release(r1)
	writer := w.End().OK()
	p.step("hand-over to a writer")
	r := waiting(p, acquire(a.ReadLock()))
	p.step("read, behind a writer")
	_, err := a.ReadLock().TryAcquire(background)
	require.ErrorIs(p, err, rwlock.ErrNotAcquired)
	p.step("try to read, behind a writer")
	reader := lock(b.ReadLock().Acquire(writer.Context()))
	p.step("downgrade: read, beside the own write lock")
	p.release(lock(b.ReadLock().Acquire(reader.Context())))
	p.release(lock(b.WriteLock().Acquire(reader.Context())))
	p.step("re-entry of both sides")
	p.release(writer)
	second := r.End().OK()
	p.step("release of the write lock, hand-over to a reader")
	_, err = b.WriteLock().Acquire(reader.Context())
	require.ErrorIs(p, err, rwlock.ErrUpgrade)
	p.step("upgrade, refused")
	p.release(reader, second)
	p.step("release of two readers")
	writer = lock(a.WriteLock().Acquire(background))
	p.step("write, free")
	p.release(writer)
	recipetest.Clean(p.T, p.s, path)
}

func playReaders(p *play, path string) {
	r, lock := rwlock.NewReaders(p.client(), path), rwlock.New(p.client(), path)
	reading := must[*rwlock.Reading](p)
	p.begin()
	first := reading(r.Acquire(background))
	p.step("the first reader")
	second := reading(r.Acquire(background))
	third := reading(r.TryAcquire(background))
	p.step("one more acquires, another one tries")
	p.release(first, second)
	p.step("all but one release")
	p.release(third)
	p.step("the last one releases")
	writer := must[*rwlock.Lock](p)(lock.WriteLock().Acquire(background))
	p.begin()
	_, err := r.TryAcquire(background)
	require.ErrorIs(p, err, rwlock.ErrNotAcquired)
	p.step("try, behind a writer")
	a := waiting(p, func() (*rwlock.Reading, error) { return r.Acquire(background) })
	b := waiting(p, func() (*rwlock.Reading, error) { return r.Acquire(background) })
	p.step("two behind a writer")
	_, err = r.TryAcquire(background)
	require.ErrorIs(p, err, rwlock.ErrNotAcquired)
	p.step("try, while two wait behind a writer")
	p.release(writer)
	first, second = a.End().OK(), b.End().OK()
	p.step("hand-over to two readers")
	p.release(first, second)
	recipetest.Clean(p.T, p.s, path)
}

func playSemaphore(p *play, path string) {
	sa, sb := semaphore.New(p.client(), path, 3), semaphore.New(p.client(), path, 3)
	got := must[*semaphore.Lease](p)
	acquire := func(ctx context.Context, s *semaphore.Semaphore, n int) func() (*semaphore.Lease, error) {
		return func() (*semaphore.Lease, error) { return s.Acquire(ctx, n) }
	}
	p.begin()
	first := got(sa.Acquire(background, 1))
	p.step("acquire, free")
	time.Sleep(49 * time.Millisecond)
	p.step("held for less than 50 ms")
	time.Sleep(time.Minute)
	p.step("held for longer")
	require.Len(p, p.s.Watches(), 1)
	two := got(sb.Acquire(background, 2))
	p.step("two leases at once")
	_, err := sb.TryAcquire(background, 1)
	require.ErrorIs(p, err, semaphore.ErrNotAcquired)
	p.step("try, too few free")
	head := waiting(p, acquire(background, sa, 2))
	p.step("acquire, too few free: the first in line")
	ctx, cancel := context.WithCancel(background)
	second := waiting(p, acquire(ctx, sb, 1))
	p.step("the second in line")
	cancel()
	require.ErrorIs(p, second.End().Err, context.Canceled)
	p.step("the second in line gives up")
	p.release(first)
	head.Waits()
	p.step("a release that is not enough")
	p.release(two)
	lease := head.End().OK()
	p.step("release of two, hand-over of two")
	for _, w := range p.s.Watches() {
		require.NotEqual(p, zktest.ChildWatch, w.Kind, "no watch is left on the directory")
	}
	p.release(lease)
	p.step("release of two")
	lease = got(sa.TryAcquire(background, 1))
	p.step("try, free")
	p.release(lease)
	recipetest.Clean(p.T, p.s, path+"/locks", path+"/leases")
}

func playSharedCount(p *play, path string) {
	const count = "/count"
	c := p.client()
	p.ok(semaphore.NewCount(c, count).Set(background, 1))
	sem := semaphore.New(c, path, 1, semaphore.WithSharedCount(count))
	p.begin()
	lease := must[*semaphore.Lease](p)(sem.Acquire(background, 1))
	p.step("acquire, free")
	waiter := waiting(p, func() (*semaphore.Lease, error) { return sem.Acquire(background, 1) })
	p.step("the first in line")
	p.release(lease)
	lease = waiter.End().OK()
	p.step("release, hand-over")
	p.release(lease)
	recipetest.Clean(p.T, p.s, path+"/locks", path+"/leases")
}

func playLatch(p *play, path string) {
	ca, cb, cc := p.client(), p.client(), p.client()
	join := func(c *framework.Client, opts ...leader.Option) *leader.Latch {
		l := must[*leader.Latch](p)(leader.NewLatch(c, path, opts...))
		p.Cleanup(func() { _ = l.Close() })
		synctest.Wait()
		return l
	}
	await := func(l *leader.Latch) *leader.Term { return must[*leader.Term](p)(l.Await(background)) }
	leave := func(l *leader.Latch) { p.ok(l.Leave(background, leader.Silent)) }
	p.begin()
	a := join(ca)
	term := await(a)
	p.step("join, alone")
	time.Sleep(time.Minute)
	p.step("leading for longer")
	b := join(cb)
	p.step("join, behind a leader")
	p.ok(term.Resign(background))
	await(b)
	p.step("resign, hand-over to the only waiter, and join again")
	recipetest.Cut(p.T, p.s, cb)
	synctest.Wait()
	await(b)
	p.step("reconnect of the leader")
	recipetest.Cut(p.T, p.s, ca)
	time.Sleep(time.Second)
	p.step("reconnect of a waiter")
	leave(b)
	await(a)
	p.step("leave, hand-over to the reconnected waiter")
	leave(a)
	p.step("leave")
	c := join(cc, leader.WithLossPolicy(framework.SessionOnly))
	await(c)
	time.Sleep(time.Second)
	p.begin()
	recipetest.Cut(p.T, p.s, cc)
	time.Sleep(time.Second)
	require.True(p, c.HasLeadership())
	p.step("reconnect of a leader, session only")
	leave(c)
	recipetest.Clean(p.T, p.s, path)
}

func playSelector(p *play, path string) {
	selector := leader.NewSelector(p.client(), path, func(context.Context) error { return nil })
	p.begin()
	p.ok(selector.RunOnce(background))
	p.step("one short term")
	recipetest.Clean(p.T, p.s, path)
}

func playBarrier(p *play, path string) {
	b := barrier.New(p.client(), path+"/b")
	p.begin()
	p.ok(b.Wait(background))
	p.step("wait, not set")
	p.ok(b.Set(background))
	p.step("set")
	w := waiting(p, func() (struct{}, error) { return struct{}{}, b.Wait(background) })
	p.step("wait, set")
	p.ok(b.Remove(background))
	w.End().OK()
	p.step("remove")
	recipetest.Clean(p.T, p.s, path)
}

func playDouble(p *play, path string) {
	enter := func(c *framework.Client, n int) func() (*barrier.Member, error) {
		return func() (*barrier.Member, error) { return barrier.NewDouble(c, path, n).Enter(background) }
	}
	leave := func(m *barrier.Member) *recipetest.Call[struct{}] {
		return recipetest.Begin(p.T, func() (struct{}, error) { return struct{}{}, m.Leave(background) })
	}
	a, b, c, d := p.client(), p.client(), p.client(), p.client()
	p.begin()
	first := waiting(p, enter(a, 3))
	p.step("enter, not the last")
	second := waiting(p, enter(b, 3))
	p.begin()
	third := must[*barrier.Member](p)(enter(c, 3)())
	members := []*barrier.Member{first.OK(), second.OK(), third}
	p.step("the last enters, and all return")
	slices.SortFunc(members, func(a, b *barrier.Member) int { return strings.Compare(a.Path(), b.Path()) })
	time.Sleep(time.Minute)
	p.begin()
	lowest := leave(members[0]).Waits()
	p.step("leave, the one with the smallest name")
	another := leave(members[1]).Waits()
	p.step("leave, not the last")
	p.s.Delay(0, time.Millisecond) // without it a member may list before or after another's delete
	leave(members[2]).End().OK()
	lowest.End().OK()
	another.End().OK()
	p.s.Heal()
	time.Sleep(time.Second)
	p.step("the last leaves, and all return")
	alone := must[*barrier.Member](p)(enter(d, 1)())
	p.step("enter, alone")
	time.Sleep(time.Second)
	p.begin()
	leave(alone).OK()
	p.step("leave, alone")
	recipetest.Clean(p.T, p.s, path)
}

func playNumber(p *play, path string) {
	n, other := counter.NewLong(p.client(), path+"/n"), counter.NewLong(p.client(), path+"/n")
	add := func(n *counter.Long) {
		_, err := n.Add(background, 1)
		p.ok(err)
	}
	p.begin()
	add(n)
	p.step("the first add, no node")
	add(n)
	p.step("add")
	time.Sleep(15 * time.Second)
	p.step("at rest")
	add(n)
	p.step("add, after a rest")
	add(other)
	p.step("the first add of another process")
	add(n)
	p.step("add, overtaken")
	add(other)
	p.step("add of the other process, overtaken, too")
	add(n)
	p.step("add, others have written")
	add(n)
	p.step("the second add since then")
	add(n)
	p.step("the third add since then")
	seen := must[counter.Seen[int64]](p)(n.Get(background))
	p.step("get")
	p.ok(n.Set(background, 7))
	p.step("set")
	_, err := n.CompareAndSet(background, seen, 8)
	require.Error(p, err)
	p.step("compare and set, changed")
	seen = must[counter.Seen[int64]](p)(n.Get(background))
	p.begin()
	_, err = n.CompareAndSet(background, seen, 8)
	p.ok(err)
	p.step("compare and set")
}

func playIDs(p *play, path string) {
	ids := counter.NewIDs(counter.NewLong(p.client(), path+"/n"), 3)
	p.begin()
	for range 3 {
		_, err := ids.Next(background)
		p.ok(err)
	}
	p.step("a block of three, the first")
	for range 3 {
		_, err := ids.Next(background)
		p.ok(err)
	}
	p.step("a block of three")
}

func playKeeper(p *play, path string) {
	c := p.client()
	p.begin()
	k := must[*node.Keeper](p)(node.NewKeeper(c, path+"/k", []byte("a")))
	p.ok(k.WaitCreated(background))
	p.step("make")
	p.ok(k.SetData(background, []byte("b")))
	p.step("set data")
	p.ok(k.Close(background))
	p.step("close")
	recipetest.Clean(p.T, p.s, path)
}

func playClaim(p *play, path string) {
	c, other := p.client(), p.client()
	p.begin()
	held := must[*node.Claim](p)(node.TryClaim(background, c, path+"/c", nil))
	p.step("claim, free")
	_, err := node.TryClaim(background, other, path+"/c", nil)
	require.ErrorIs(p, err, node.ErrNotAcquired)
	p.step("claim, taken")
	time.Sleep(time.Second)
	p.step("held for longer")
	awaited := recipetest.Begin(p.T, func() (*node.Claim, error) {
		return node.AwaitClaim(background, other, path+"/c", nil)
	}).Waits()
	p.step("claim, waits")
	p.release(held)
	next := awaited.OK()
	p.step("hand-over")
	p.release(next)
	p.step("release")
	recipetest.Clean(p.T, p.s, path)
}

func playInstance(p *play, path string) {
	d := must[*discovery.Discovery[string]](p)(discovery.New[string](p.client(), path))
	p.ok(p.s.Create(path+"/web", nil))
	p.begin()
	i := discovery.Instance[string]{Name: "web", ID: "a", Address: "10.0.0.7"}
	r := must[*discovery.Registration[string]](p)(d.Register(background, i))
	p.step("register")
	i.Address = "10.0.0.8"
	p.ok(r.Update(background, i))
	p.step("update")
	p.ok(r.Unregister(background))
	p.step("unregister")
}

func playQueue(p *play, path string) { playItems(p, items.New(p.client(), path)) }
func playQueueWithLocks(p *play, path string) {
	playItems(p, items.New(p.client(), path, items.WithLockPath(path+"-locks")))
}

func playItems(p *play, q *items.Queue) {
	handled := make(chan string)
	ctx, stop := context.WithCancel(background)
	p.ok(q.Put(background, []byte("first")))
	consumer := recipetest.Begin(p.T, func() (struct{}, error) {
		return struct{}{}, q.Consume(ctx, func(_ context.Context, item []byte) error {
			handled <- string(item)
			return nil
		})
	})
	<-handled
	p.begin()
	p.ok(q.Put(background, []byte("second")))
	<-handled
	p.step("put and take, one consumer")
	stop()
	require.ErrorIs(p, consumer.End().Err, context.Canceled)
	p.begin()
	p.ok(q.Put(background, []byte("third")))
	p.step("put")
}

func playSimple(p *play, path string) {
	q := items.NewSimple(p.client(), path)
	p.ok(q.Offer(background, []byte("first")))
	p.begin()
	p.ok(q.Offer(background, []byte("second")))
	p.step("put")
	_, err := q.Take(background)
	p.ok(err)
	p.step("take")
}

func playOnce(p *play, path string)       { playJobs(p, once.New(p.client(), path)) }
func playAtMostOnce(p *play, path string) { playJobs(p, once.New(p.client(), path, once.AtMostOnce())) }

func playJobs(p *play, jobs *once.Jobs) {
	do := func(slot string) {
		_, err := jobs.Do(background, "job", once.Named(slot), func(context.Context, once.Run) error { return nil })
		p.ok(err)
	}
	do("v1")
	p.begin()
	do("v1")
	p.step("a slot that has a record")
	do("v2")
	p.step("a run")
}
