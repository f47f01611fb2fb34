package mutex_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func turnOf(t *testing.T, m *mutex.Cohort) *mutex.Turn {
	t.Helper()
	turn, err := m.Acquire(background)
	require.NoError(t, err)
	require.True(t, turn.Valid())
	return turn
}

func end(t *testing.T, turn *mutex.Turn) {
	t.Helper()
	require.NoError(t, turn.Release(background))
}

// lining starts an Acquire on another goroutine and returns when it waits in the local line.
func lining(t *testing.T, m *mutex.Cohort) *recipetest.Call[*mutex.Turn] {
	t.Helper()
	return recipetest.Begin(t, func() (*mutex.Turn, error) { return m.Acquire(background) }).Waits()
}

func nodesOf(t *testing.T, s *zktest.Server) []string {
	t.Helper()
	synctest.Wait()
	children, err := s.Children(path)
	require.NoError(t, err)
	return children
}

func TestCohortPassesItsNodeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		c := newClient(t, s)
		m := mutex.NewCohort(c, path, mutex.WithNodeData([]byte("me")))
		synctest.Wait()
		s.ResetCounts()
		first, err := m.Acquire(context.WithValue(background, key("k"), 1))
		require.NoError(t, err)
		counts(t, s, "acquire, free", map[string]int{"create2": 1, "getChildren2": 1})
		require.Equal(t, 1, first.Context().Value(key("k")))
		second, third := lining(t, m), lining(t, m)
		end(t, first)
		require.ErrorIs(t, context.Cause(first.Context()), mutex.ErrReleased)
		require.False(t, first.Valid())
		require.Zero(t, first.Remaining())
		require.ErrorIs(t, first.Release(background), mutex.ErrReleased)
		next := second.OK()
		require.Nil(t, next.Context().Value(key("k")), "not those of the turn before")
		require.Equal(t, first.Node(), next.Node())
		require.Positive(t, next.Remaining())
		third.Waits()
		counts(t, s, "passed on", map[string]int{})
		line, err := m.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 1, "one node for all")
		require.Equal(t, "me", string(line[0].Data))
		s.ResetCounts()
		end(t, next)
		end(t, third.OK())
		counts(t, s, "the local line is empty", map[string]int{"delete": 1})
		time.Sleep(time.Minute)
		clean(t, s, path)
		recipetest.Tidy(t, c)
	})
}

// Three goroutines in each of two processes, two turns at a time.
func TestCohortsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var order []string
		var holders atomic.Int32
		var all sync.WaitGroup
		first := acquire(t, mutex.New(newClient(t, s), path))
		for _, name := range []string{"a", "b"} {
			m := mutex.NewCohort(newClient(t, s), path, mutex.WithTurns(2, time.Hour))
			for range 3 {
				all.Go(func() {
					turn, err := m.Acquire(background)
					if !assert.NoError(t, err) {
						return
					}
					assert.EqualValues(t, 1, holders.Add(1))
					order = append(order, name)
					time.Sleep(time.Second)
					holders.Add(-1)
					assert.NoError(t, turn.Release(background))
				})
			}
			synctest.Wait() // its node is in the line
		}
		require.Len(t, nodesOf(t, s), 3)
		release(t, first)
		all.Wait()
		require.Equal(t, []string{"a", "a", "b", "b", "a", "b"}, order)
		clean(t, s, path)
	})
}

// One process has many goroutines, the other a single one, which waits at most for D and the rest of a turn.
func TestCohortIsFair(t *testing.T) {
	const d, hold = 100 * time.Millisecond, 7 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ctx, cancel := context.WithCancel(background)
		crowd := mutex.NewCohort(newClient(t, s), path, mutex.WithTurns(1<<30, d))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for ctx.Err() == nil {
					turn, err := crowd.Acquire(background)
					if !assert.NoError(t, err) {
						return
					}
					time.Sleep(hold)
					turn.ReleaseInBackground()
				}
			})
		}
		single := mutex.New(newClient(t, s), path)
		longest := time.Duration(0)
		for range 50 {
			time.Sleep(13 * time.Millisecond)
			began := time.Now()
			release(t, acquire(t, single))
			longest = max(longest, time.Since(began))
		}
		require.LessOrEqual(t, longest, d+hold)
		require.Greater(t, longest, d/2, "the crowd has passed it on")
		cancel()
		all.Wait()
		time.Sleep(time.Second)
		clean(t, s, path)
	})
}

// A caller's context ends at the moment of its grant: the turn is released.
func TestCohortTurnComesAsItsCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		m := mutex.NewCohort(newClient(t, s), path)
		for range 100 { // sometimes the grant comes first
			turn, err := m.Acquire(background)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(background)
			leaver := recipetest.Begin(t, func() (*mutex.Turn, error) { return m.Acquire(ctx) }).Waits()
			cancel()
			end(t, turn)
			if leaver.End().Err == nil {
				end(t, leaver.Value)
			}
			clean(t, s, path)
		}
	})
}

func TestCohortTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		m := mutex.NewCohort(newClient(t, s), path)
		for range 3 {
			turn, err := m.TryAcquire(background)
			require.NoError(t, err)
			waiter := lining(t, m)
			s.ResetCounts()
			_, err = m.TryAcquire(background)
			require.ErrorIs(t, err, mutex.ErrNotAcquired)
			require.ErrorContains(t, err, "of this process")
			require.Zero(t, sum(s.Counts()))
			turn.ReleaseInBackground()
			waiter.OK().ReleaseInBackground() // the next TryAcquire runs while the node is being deleted
		}
		synctest.Wait()
		lock := acquire(t, mutex.New(newClient(t, s), path))
		s.ResetCounts()
		_, err := m.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		require.ErrorContains(t, err, lock.Node())
		counts(t, s, "try, held", map[string]int{"sync": 1, "getChildren2": 1})

		// A caller that arrives during a TryAcquire waits, although the try fails.
		looks := s.Inject(zktest.Fault{Op: "getChildren2", Action: zktest.Hold})
		try := recipetest.Begin(t, func() (*mutex.Turn, error) { return m.TryAcquire(background) })
		<-looks.Struck()
		waiter := lining(t, m)
		looks.Release()
		require.ErrorIs(t, try.End().Err, mutex.ErrNotAcquired)
		waiter.Waits()
		release(t, lock)
		end(t, waiter.OK())
		clean(t, s, path)
	})
}

// A Mutex has fencing tokens, turns have none: neither enters the other's hold.
func TestCohortEntersNoMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		m := mutex.NewCohort(c, path)
		turn := turnOf(t, m)
		_, err := mutex.New(c, path).Acquire(turn.Context())
		require.ErrorIs(t, err, mutex.ErrSelfWait)
		_, err = mutex.NewCohort(c, path, mutex.WithoutReentry()).Acquire(withTimeout(t, turn.Context()))
		require.ErrorIs(t, err, mutex.ErrSelfWait)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		end(t, turn)
		lock := acquire(t, mutex.New(c, path))
		_, err = m.Acquire(lock.Context())
		require.ErrorIs(t, err, mutex.ErrSelfWait)
		release(t, lock)

		require.NoError(t, m.Do(background, func(ctx context.Context) error {
			return m.Do(ctx, func(context.Context) error { return nil })
		}))
		clean(t, s, path)
	})
}

func withTimeout(t *testing.T, ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestCohortMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for _, mistake := range []struct {
			opt  mutex.Option
			says string
		}{
			{mutex.WithTurns(0, time.Second), "at least 1"},
			{mutex.WithTurns(1, 0), "at least 1"},
			{mutex.WithKept(time.Millisecond - 1), "less than a millisecond"},
			{mutex.OnWait(func(mutex.Position) {}), "leave it out"},
		} {
			_, err := mutex.NewCohort(c, path, mistake.opt).Acquire(background)
			require.ErrorIs(t, err, framework.ErrInvalidOption)
			require.ErrorContains(t, err, mistake.says)
		}
		for _, opt := range []mutex.Option{mutex.WithTurns(1, 1), mutex.WithKept(time.Second)} {
			_, err := mutex.New(c, path, opt).Acquire(background)
			require.ErrorContains(t, err, "NewCohort")
		}
		end(t, turnOf(t, mutex.NewCohort(c, path, mutex.WithTurns(1, time.Millisecond), mutex.WithKept(time.Millisecond))))
		_, err := mutex.NewCohort(nil, path).TryAcquire(background)
		require.ErrorIs(t, err, framework.ErrNoClient)
		m := mutex.NewCohort(c, path)
		require.Equal(t, path, m.Path())
		var none context.Context
		_, err = m.Acquire(none)
		require.ErrorIs(t, err, framework.ErrNilContext)
		turn := turnOf(t, m)
		require.ErrorIs(t, turn.Release(none), framework.ErrNilContext)
		require.True(t, turn.Valid())
		holder, there, err := m.Holder(background)
		require.NoError(t, err)
		require.True(t, there)
		require.Equal(t, turn.Path(), holder.Path)
		end(t, turn)
	})
}
