package semaphore_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/fencing"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// The layout is exactly Curator's.
func TestLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s, framework.WithDefaultData([]byte("10.0.0.1"))), newClient(t, s)
		sem := semaphore.New(a, path, 2, semaphore.WithLeaseData([]byte("me")))
		lease := acquire(t, sem, 2)
		waiter := waiting(t, background, semaphore.New(a, path, 2), 1)
		_ = waiting(t, background, semaphore.New(b, path, 2), 1)

		name := `^_c_[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-`
		tree := s.Tree()
		for _, dir := range []string{path, locks, leases, "/limits"} {
			require.Equal(t, zktest.Container, tree[dir].Mode, dir)
			require.Empty(t, tree[dir].Data, dir)
		}
		for i, path := range lease.Paths() {
			require.Regexp(t, regexp.MustCompile(name+fmt.Sprintf("lease-%010d$", i)), lease.Nodes()[i])
			require.Equal(t, leases+"/"+lease.Nodes()[i], path)
			require.Equal(t, zktest.Ephemeral, tree[path].Mode)
			require.Equal(t, "me", string(tree[path].Data))
			require.Equal(t, session(t, a), tree[path].Stat.EphemeralOwner)
		}
		require.Equal(t, tree[lease.Paths()[0]].Stat.Czxid, lease.ID())
		line, err := sem.Waiting(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		for i, p := range line {
			require.Regexp(t, regexp.MustCompile(name+fmt.Sprintf("lock-%010d$", i)), p.Name)
			require.Equal(t, zktest.Ephemeral, tree[p.Path].Mode)
		}
		require.Equal(t, "10.0.0.1", string(line[0].Data))
		require.Len(t, tree, 1+4+2+2, "and nothing else")

		release(t, lease)
		third := got(t, waiter)
		require.Regexp(t, regexp.MustCompile(name+"lease-0000000002$"), third.Nodes()[0])
		require.Equal(t, "10.0.0.1", string(s.Tree()[third.Paths()[0]].Data))
	})
}

type key struct{}

func TestAcquireAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		sem := semaphore.New(c, path, 3, semaphore.WithLeaseData([]byte("me")))
		ctx, cancel := context.WithTimeout(context.WithValue(background, key{}, "v"), time.Second)
		defer cancel()
		lease, err := sem.Acquire(ctx, 2)
		require.NoError(t, err)
		require.Equal(t, 2, lease.Count())
		require.GreaterOrEqual(t, lease.Remaining(), 9*time.Second)
		require.Equal(t, "v", lease.Context().Value(key{}))
		require.True(t, fencing.Of(lease.Context())[0].Shared, "its number is no fencing token")
		data, err := lease.Data(background)
		require.NoError(t, err)
		require.Equal(t, "me", string(data))
		time.Sleep(90 * time.Second) // far beyond ctx and the session timeout: the lease stays
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		require.True(t, lease.Valid())
		require.NoError(t, lease.Context().Err())

		other := acquire(t, sem, 1)
		require.NotEqual(t, lease.ID(), other.ID())
		used, max, err := sem.Usage(background)
		require.NoError(t, err)
		require.Equal(t, []int{3, 3}, []int{used, max})

		release(t, lease)
		require.ErrorIs(t, context.Cause(lease.Context()), semaphore.ErrReleased)
		require.False(t, lease.Valid())
		require.Zero(t, lease.Remaining())
		require.ErrorIs(t, lease.Release(background), semaphore.ErrReleased)
		_, err = lease.Data(background)
		require.ErrorIs(t, err, framework.ErrNoNode)
		require.True(t, other.Valid())
		require.Equal(t, 1, taken(t, s))
		require.Equal(t, 1, c.Safety().Holds)
		release(t, other)
		require.Zero(t, c.Safety().Holds)
		clean(t, s)
	})
}

// The result of a release in the background is reported once: after the last delete.
func TestReleaseInBackgroundOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		sem := semaphore.New(newClient(t, s), path, 3)
		lease, results := acquire(t, sem, 3), make(chan error, 10)
		report := func(err error) { results <- err }
		last := s.Inject(zktest.Fault{Op: "delete", After: 2, Action: zktest.Hold})
		lease.ReleaseInBackground(report)
		<-last.Struck()
		require.True(t, pending(results))
		last.Release()
		require.NoError(t, <-results)
		clean(t, s)
		lease.ReleaseInBackground(report)
		require.ErrorIs(t, <-results, semaphore.ErrReleased)

		lease = acquire(t, sem, 1)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, s.Delete(lease.Paths()[0]))
		<-lease.Context().Done()
		s.ResetCounts()
		lease.ReleaseInBackground(report)
		require.ErrorIs(t, <-results, semaphore.ErrNodeDeleted)
		require.True(t, pending(results))
		require.Zero(t, s.Counts()["delete"], "another client's node may have the name of a deleted one")
		clean(t, s)
	})
}

// The error of the first in the line whose context ends reports how many leases are taken.
func TestAcquireGivesUpAsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		sem := semaphore.New(newClient(t, s), path, 3)
		held := acquire(t, sem, 2)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := sem.Acquire(ctx, 2)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "first in line: ")
		require.ErrorContains(t, err, "2 wanted, 2 of 3 taken")
		release(t, held)
		clean(t, s)
	})
}

func TestTryAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := semaphore.New(newClient(t, s), path, 3), semaphore.New(newClient(t, s), path, 3)
		two, err := a.TryAcquire(background, 2) // the first try finds no directories
		require.NoError(t, err)
		_, err = b.TryAcquire(background, 2)
		require.ErrorIs(t, err, semaphore.ErrNotAcquired)
		require.ErrorContains(t, err, "2 of 3 taken")
		one, err := b.TryAcquire(background, 1)
		require.NoError(t, err)
		release(t, one)

		// One lease is free, but the first in the line waits for two.
		waiter := waiting(t, background, b, 2)
		_, err = a.TryAcquire(background, 1)
		require.ErrorIs(t, err, semaphore.ErrNotAcquired)
		require.ErrorContains(t, err, "in line")
		release(t, two)
		release(t, got(t, waiter))
		clean(t, s)
	})
}

// However many tries run at the same time, exactly as many succeed as there are leases.
func TestTryAcquireAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Delay(0, time.Millisecond)
		const max, tries = 3, 10
		var calls []*call
		for range tries {
			sem := semaphore.New(newClient(t, s), path, max)
			calls = append(calls, recipetest.Begin(t, func() (*semaphore.Lease, error) {
				return sem.TryAcquire(background, 1)
			}))
		}
		acquired := 0
		for _, c := range calls {
			if o := c.End(); o.Err == nil {
				acquired++
				defer func() { require.NoError(t, o.Value.Release(background)) }()
			} else {
				require.ErrorIs(t, o.Err, semaphore.ErrNotAcquired)
			}
		}
		require.Equal(t, max, acquired)
		time.Sleep(time.Second)
		require.Equal(t, max, taken(t, s))
	})
}

// First come, first served, for any counts: a caller that wants many leases is not passed by callers that want few.
func TestLineIsNotPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		newSemaphore := func() *semaphore.Semaphore { return semaphore.New(newClient(t, s), path, 5) }
		var held []*semaphore.Lease
		for range 4 {
			held = append(held, acquire(t, newSemaphore(), 1))
		}
		many := waiting(t, background, newSemaphore(), 5)
		few := waiting(t, background, newSemaphore(), 1)
		few2 := waiting(t, background, newSemaphore(), 1)
		for _, lease := range held {
			require.Equal(t, true, many.Pending() && few.Pending() && few2.Pending())
			release(t, lease)
		}
		lease := got(t, many)
		require.True(t, few.Pending() && few2.Pending())
		release(t, lease)
		release(t, got(t, few))
		release(t, got(t, few2))
		clean(t, s)
	})
}

// Two callers want several leases each: neither holds a part while it waits for the rest. (In Curator's InterProcessSemaphoreV2
// each may hold one and wait for the other.)
func TestTwoTakersOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Delay(0, time.Millisecond)
		const rounds = 30
		done := make(chan int, 2)
		for range 2 {
			c := newClient(t, s)
			s.Delay(0, time.Millisecond)
			sem := semaphore.New(c, path, 3)
			go func() {
				n := 0
				defer func() { done <- n }()
				for range rounds {
					ctx, cancel := context.WithTimeout(background, time.Minute)
					lease, err := sem.Acquire(ctx, 2)
					cancel()
					if err != nil {
						return
					}
					n++
					time.Sleep(10 * time.Millisecond)
					if lease.Release(background) != nil {
						return
					}
				}
			}()
		}
		require.Equal(t, rounds, <-done)
		require.Equal(t, rounds, <-done)
		s.Heal()
		clean(t, s)
	})
}

func TestNotReentrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		sem := semaphore.New(newClient(t, s), path, 2)
		lease := acquire(t, sem, 1)
		second, err := sem.Acquire(lease.Context(), 1)
		require.NoError(t, err)
		require.NotEqual(t, lease.Nodes(), second.Nodes())
		_, err = sem.TryAcquire(lease.Context(), 1)
		require.ErrorIs(t, err, semaphore.ErrNotAcquired)
		release(t, lease)
		require.True(t, second.Valid(), "values are inherited, the end is not")
		release(t, second)
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		sem := semaphore.New(newClient(t, s), path, 3)
		require.NoError(t, sem.Do(background, 2, func(context.Context) error {
			require.Equal(t, 2, taken(t, s))
			return nil
		}))
		clean(t, s)
	})
}

func TestParticipants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		positions := make(chan semaphore.Position, 10)
		sem := semaphore.New(a, path, 2, semaphore.WithLeaseData([]byte("a")),
			semaphore.OnWait(func(p semaphore.Position) { positions <- p }))
		type lists = []func(context.Context) ([]semaphore.Participant, error)
		for _, list := range (lists{sem.Participants, sem.Waiting}) {
			none, err := list(background)
			require.NoError(t, err)
			require.Empty(t, none, "no directory, nobody")
		}
		lease := acquire(t, sem, 1)
		other := acquire(t, semaphore.New(b, path, 2, semaphore.WithLeaseData([]byte("b"))), 1)
		require.Empty(t, positions)
		require.NoError(t, s.Create(leases+"/aaa", nil))
		holders, err := sem.Participants(background)
		require.NoError(t, err)
		require.Len(t, holders, 2)
		require.Equal(t, semaphore.Participant{Name: lease.Nodes()[0], Path: lease.Paths()[0], Data: []byte("a"),
			SessionID: session(t, a), Czxid: lease.ID(),
			Since: holders[0].Since}, holders[0])
		require.WithinDuration(t, time.Now(), holders[0].Since, time.Second)
		require.Equal(t, "b", string(holders[1].Data))
		require.Equal(t, other.ID(), holders[1].Czxid)

		first := waiting(t, background, sem, 1)
		second := waiting(t, background, sem, 1)
		line, err := sem.Waiting(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		require.Equal(t, semaphore.Position{Node: line[0].Name}, <-positions)
		require.Equal(t, semaphore.Position{Node: line[1].Name, Predecessor: line[0].Name, Ahead: 1}, <-positions)
		release(t, lease)
		release(t, got(t, first))
		release(t, other)
		release(t, got(t, second))
	})
}

func TestMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := semaphore.NewMutex(newClient(t, s), path), semaphore.NewMutex(newClient(t, s), path)
		require.Equal(t, path, a.Path())
		lock, err := a.Acquire(background)
		require.NoError(t, err)
		_, err = b.TryAcquire(background)
		require.ErrorIs(t, err, semaphore.ErrNotAcquired)
		_, err = a.Acquire(lock.Context())
		require.ErrorIs(t, err, semaphore.ErrSelfWait, "it does not re-enter")
		require.NotErrorIs(t, err, semaphore.ErrNotAcquired)
		require.ErrorContains(t, err, "semaphore mutex /limits/exports: acquire: ")
		require.Equal(t, lock.FencingToken(), fencing.Of(lock.Context())[0].Token)
		require.False(t, fencing.Of(lock.Context())[0].Shared)

		const waiters = 10
		order, tokens := make(chan int, waiters), make(chan int64, waiters)
		for i := range waiters {
			m := []*semaphore.Mutex{a, b}[i%2]
			go func() {
				lock, err := m.Acquire(background)
				if err != nil {
					return
				}
				order <- i
				tokens <- lock.FencingToken()
				time.Sleep(time.Second)
				_ = lock.Release(background)
			}()
			synctest.Wait() // its node is in the line
		}
		line, err := a.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 1+waiters)
		require.Equal(t, lock.Nodes()[0], line[0].Name)
		released := make(chan error)
		go func() { released <- lock.Release(background) }() // on any goroutine
		require.NoError(t, <-released)
		last := lock.FencingToken()
		for i := range waiters {
			require.Equal(t, i, <-order)
			token := <-tokens
			require.Greater(t, token, last)
			last = token
		}
		time.Sleep(2 * time.Second)
		require.NoError(t, b.Do(background, func(context.Context) error { return nil }))
		clean(t, s)
	})
}

func TestPathRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for prefix, view := range map[string]*framework.Client{"/team": c.UsingNamespace("team"),
			"/team/app": c.UsingNamespace("team/app")} {
			lease := acquire(t, semaphore.New(view, "/", 1), 1)
			require.Equal(t, "/leases/"+lease.Nodes()[0], lease.Paths()[0])
			require.True(t, s.Exists(prefix+lease.Paths()[0]))
			waiter := waiting(t, background, semaphore.New(view, "/", 1), 1)
			require.True(t, s.Exists(prefix+"/locks"))
			release(t, lease)
			release(t, got(t, waiter))
		}
	})
}

func TestNewcomersMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		most := math.MaxInt32 // a variable: if an int has 32 bits, the sum with 1 is negative
		for _, mistake := range []struct {
			s    *semaphore.Semaphore
			is   error
			says string
		}{
			{semaphore.New(nil, path, 1), nil, "framework.New"},
			{semaphore.New(c, "limits", 1), framework.ErrInvalidPath, `must start with "/"`},
			{semaphore.New(c, path, 0), framework.ErrBadArguments, "at least one"},
			{semaphore.New(c, path, -1, semaphore.WithSharedCount("/n")), framework.ErrBadArguments, "begins with"},
			{semaphore.New(c, path, most+1, semaphore.WithSharedCount("/n")), framework.ErrBadArguments,
				"begins with"},
			{semaphore.New(c, path, 1, semaphore.WithSharedCount("n")), framework.ErrInvalidPath,
				`must start with "/"`},
			{semaphore.New(c, path, 1, nil), framework.ErrInvalidOption, "leave it out"},
			{semaphore.New(c, path, 1, semaphore.OnWait(nil)), framework.ErrInvalidOption, "leave the option out"},
			{semaphore.New(c, path, 1, semaphore.WithLossPolicy(7)), framework.ErrInvalidOption, "SessionOnly"},
		} {
			_, acquire := mistake.s.Acquire(background, 1)
			_, try := mistake.s.TryAcquire(background, 1)
			_, participants := mistake.s.Participants(background)
			_, waiting := mistake.s.Waiting(background)
			_, _, usage := mistake.s.Usage(background)
			do := mistake.s.Do(background, 1, func(context.Context) error { panic("called") })
			for _, err := range []error{acquire, try, participants, waiting, usage, do} {
				require.ErrorContains(t, err, mistake.says)
				if mistake.is != nil {
					require.ErrorIs(t, err, mistake.is)
				}
			}
		}
		_, err := semaphore.NewMutex(c, path, semaphore.WithSharedCount("/n")).Acquire(background)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		require.ErrorContains(t, err, "one lease")

		_, err = semaphore.New(c, path, most, semaphore.WithSharedCount("/n")).Participants(background)
		require.NoError(t, err)

		sem := semaphore.New(c, path, 3)
		for _, n := range []int{0, -1, math.MinInt} {
			_, err := sem.Acquire(background, n)
			require.ErrorIs(t, err, framework.ErrBadArguments)
		}
		for _, n := range []int{4, math.MaxInt} {
			_, err := sem.Acquire(background, n)
			require.ErrorIs(t, err, semaphore.ErrTooMany)
			require.NotErrorIs(t, err, semaphore.ErrNotAcquired)
		}
		_, err = semaphore.New(c, path, 3, semaphore.WithSharedCount("/n")).TryAcquire(background, math.MaxInt)
		require.ErrorIs(t, err, semaphore.ErrNotAcquired)

		var none context.Context
		_, err = sem.Acquire(none, 1)
		require.ErrorIs(t, err, framework.ErrNilContext)
		_, err = sem.Participants(none)
		require.ErrorIs(t, err, framework.ErrNilContext)
		require.ErrorContains(t, sem.Do(background, 1, nil), "nil")
		lease := acquire(t, sem, 1)
		require.ErrorIs(t, lease.Release(none), framework.ErrNilContext)
		require.True(t, lease.Valid())
		release(t, lease)
		require.True(t, strings.HasPrefix(fmt.Sprint(lease.Release(background)),
			"semaphore /limits/exports: release: "))
		ended, cancel := context.WithCancel(background)
		cancel()
		_, err = sem.Acquire(ended, 1)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A semaphore's mutex returns the same ErrNotAcquired as other locks, so that locks of several kinds form one multi-lock.
func TestNotAcquiredInAMulti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, mutex.ErrNotAcquired, semaphore.ErrNotAcquired)
		require.Equal(t, mutex.ErrNotAcquired, rwlock.ErrNotAcquired)
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		held := acquire(t, semaphore.New(a, path, 1), 1)
		_, err := mutex.NewMulti(mutex.Of(mutex.New(b, "/locks/one")), mutex.Of(semaphore.NewMutex(b, path))).
			TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		require.ErrorContains(t, err, "try to acquire part 2 of 2: semaphore mutex /limits/exports: "+
			"try to acquire: not acquired: 1 wanted, 1 of 1 taken")
		waiter := waiting(t, background, semaphore.New(a, path, 1), 1)
		_, err = mutex.NewMulti(mutex.Of(semaphore.NewMutex(b, path))).TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		release(t, held)
		release(t, got(t, waiter))
	})
}
