package rwlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

func read(t *testing.T, ctx context.Context, r *rwlock.Readers) *rwlock.Reading {
	t.Helper()
	reading, err := r.Acquire(ctx)
	require.NoError(t, err)
	require.True(t, reading.Valid())
	return reading
}

func done(t *testing.T, readings ...*rwlock.Reading) {
	t.Helper()
	for _, reading := range readings {
		require.NoError(t, reading.Release(background))
		require.ErrorIs(t, context.Cause(reading.Context()), rwlock.ErrReleased)
	}
}

// reading is an Acquire on another goroutine.
type reading = recipetest.Call[*rwlock.Reading]

func beginReading(t *testing.T, ctx context.Context, r *rwlock.Readers) *reading {
	return recipetest.Begin(t, func() (*rwlock.Reading, error) { return r.Acquire(ctx) })
}

func nodesOf(t *testing.T, s *zktest.Server) []string {
	t.Helper()
	synctest.Wait()
	children, err := s.Children(path)
	require.NoError(t, err)
	return children
}

// Many readers of a process have one node, for three requests in all.
func TestReadersShareANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		c := newClient(t, s)
		r := rwlock.NewReaders(c, path, rwlock.WithNodeData([]byte("me")))
		synctest.Wait()
		s.ResetCounts()
		first := read(t, context.WithValue(background, key("k"), 1), r)
		require.Equal(t, 1, first.Context().Value(key("k")))
		counts(t, s, "the first one", map[string]int{"create2": 1, "getChildren2": 1})
		all := []*rwlock.Reading{}
		for range 50 {
			all = append(all, read(t, background, r))
		}
		counts(t, s, "50 more", map[string]int{})
		for _, other := range all {
			require.Nil(t, other.Context().Value(key("k")), "not those of the first")
			require.Equal(t, first.Path(), other.Path())
			require.Equal(t, first.FencingToken(), other.FencingToken())
		}
		holders, err := rwlock.New(c, path).Holders(background)
		require.NoError(t, err)
		require.Len(t, holders, 1)
		require.Equal(t, "me", string(holders[0].Data))
		require.Equal(t, first.Path(), holders[0].Path)
		require.Equal(t, first.FencingToken(), holders[0].Czxid)
		s.ResetCounts()

		done(t, first)
		require.False(t, first.Valid())
		require.Zero(t, first.Remaining())
		require.NoError(t, first.Lost())
		require.ErrorIs(t, first.Release(background), rwlock.ErrReleased)
		require.True(t, all[0].Valid())
		require.Positive(t, all[0].Remaining())
		require.NoError(t, all[0].Context().Err())
		done(t, all[1:]...)
		counts(t, s, "all but one are done", map[string]int{})
		done(t, all[0])
		counts(t, s, "the last one", map[string]int{"delete": 1})
		clean(t, s)
		recipetest.Tidy(t, c)
	})
}

// Readers that arrive while the node is in the line wait with it, and are granted together.
func TestReadersWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock := acquire(t, background, rwlock.New(newClient(t, s), path).WriteLock())
		c := newClient(t, s)
		r := rwlock.NewReaders(c, path, rwlock.WithJoins(1, time.Hour))
		calls := []*reading{}
		for range 20 {
			calls = append(calls, beginReading(t, background, r).Waits())
		}
		require.Len(t, nodesOf(t, s), 2)
		writer := waiting(t, background, rwlock.New(newClient(t, s), path).WriteLock())
		calls = append(calls, beginReading(t, background, r).Waits())
		require.Len(t, nodesOf(t, s), 3, "who comes behind the writer waits with the others ahead of it")
		release(t, lock)
		for _, call := range calls {
			require.True(t, call.OK().Valid())
		}
		writer.Waits()
		calls = append(calls, beginReading(t, background, r))
		require.True(t, calls[21].OK().Valid(), "one may join")
		late := beginReading(t, background, r).Waits()
		require.Len(t, nodesOf(t, s), 3)
		for _, call := range calls {
			writer.Waits()
			done(t, call.OK())
		}
		release(t, writer.OK())
		done(t, late.OK())
		clean(t, s)
		recipetest.Tidy(t, c)
	})
}

// Many readers read all the time, and one writer contends: it waits at most for D and the rest of a read.
func TestReadersStarveNoWriter(t *testing.T) {
	const d, hold = 100 * time.Millisecond, 30 * time.Millisecond
	for name, c := range map[string]struct {
		joins rwlock.Option
		most  time.Duration
	}{
		"by time":  {rwlock.WithJoins(1<<30, d), d + hold},
		"by joins": {rwlock.WithJoins(5, time.Hour), 2 * hold},
		"default":  {nil, d + hold},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				ctx, cancel := context.WithCancel(background)
				opts := []rwlock.Option{}
				if c.joins != nil {
					opts = append(opts, c.joins)
				}
				crowd := rwlock.NewReaders(newClient(t, s), path, opts...)
				var all sync.WaitGroup
				for i := range 20 {
					all.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						for ctx.Err() == nil {
							reading, err := crowd.Acquire(background)
							if !assert.NoError(t, err) {
								return
							}
							time.Sleep(hold)
							reading.ReleaseInBackground()
						}
					})
				}
				writer := rwlock.New(newClient(t, s), path).WriteLock()
				longest := time.Duration(0)
				for range 50 {
					time.Sleep(13 * time.Millisecond)
					began := time.Now()
					release(t, acquire(t, background, writer))
					longest = max(longest, time.Since(began))
				}
				require.LessOrEqual(t, longest, c.most)
				require.Greater(t, longest, hold/2)
				cancel()
				all.Wait()
				time.Sleep(time.Second)
				clean(t, s)
			})
		})
	}
}

// Newcomers after the bound get a new node immediately, while others still read with the old one.
func TestReadersOfTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		r := rwlock.NewReaders(newClient(t, s), path, rwlock.WithJoins(100, time.Second))
		slow := read(t, background, r)
		time.Sleep(time.Second - 1)
		joined := read(t, background, r)
		require.Equal(t, slow.Node(), joined.Node())
		time.Sleep(time.Nanosecond)
		next := read(t, background, r)
		require.NotEqual(t, slow.Node(), next.Node())
		require.Greater(t, next.FencingToken(), slow.FencingToken())
		require.True(t, slow.Valid() && joined.Valid())
		require.Len(t, nodesOf(t, s), 2)
		writer := waiting(t, background, rwlock.New(newClient(t, s), path).WriteLock())
		last := read(t, background, r)
		require.Equal(t, next.Node(), last.Node())
		done(t, slow, joined)
		require.Len(t, nodesOf(t, s), 2)
		done(t, next)
		writer.Waits()
		time.Sleep(time.Second)
		behind := beginReading(t, background, r).Waits()
		done(t, last)
		lock := writer.OK()
		require.Greater(t, lock.FencingToken(), next.FencingToken())
		behind.Waits()
		release(t, lock)
		reading := behind.OK()
		require.Greater(t, reading.FencingToken(), lock.FencingToken())
		done(t, reading)
		clean(t, s)
	})
}

// Contenders as Curator for Java creates them: a writer ahead makes all readers wait, and newcomers wait behind a later writer
// once the bound is reached.
func TestReadersBesideJava(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		java := newClient(t, s)
		contends := func(kind string) string {
			node, err := java.Create().WithMode(framework.EphemeralSequential).CreatingParentContainersIfNeeded().
				ForPath(background, path+"/_c_11111111-2222-4333-8444-555555555555-"+kind, nil)
			require.NoError(t, err)
			return node
		}
		r := rwlock.NewReaders(newClient(t, s), path, rwlock.WithJoins(1, time.Hour))
		writer := contends("__WRIT__")
		first, second := beginReading(t, background, r).Waits(), beginReading(t, background, r).Waits()
		require.NoError(t, s.Delete(writer))
		reader := contends("__READ__")
		one, two, three := first.OK(), second.OK(), read(t, background, r)
		writer = contends("__WRIT__")
		behind := beginReading(t, background, r).Waits()
		require.NoError(t, s.Delete(reader))
		done(t, one, two)
		require.Len(t, nodesOf(t, s), 3)
		done(t, three)
		require.Len(t, nodesOf(t, s), 2)
		behind.Waits()
		require.NoError(t, s.Delete(writer))
		done(t, behind.OK())
		clean(t, s)
	})
}

// Token and guard work as for a reader with its own node.
func TestReadersGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/store", nil))
		other := newClient(t, s)
		write := func(reading *rwlock.Reading, data string) error {
			set := other.TransactionOp().SetData().ForPath("/store", []byte(data))
			_, err := other.Transaction(background, reading.Guard(), set)
			return err
		}
		c := newClient(t, s)
		r, rw := rwlock.NewReaders(c, path), rwlock.New(c, path)
		lock := acquire(t, background, rw.WriteLock())
		before := lock.FencingToken()
		release(t, lock)
		first, second := read(t, background, r), read(t, background, r)
		require.Greater(t, second.FencingToken(), before)
		require.NoError(t, write(first, "1"))
		done(t, first)
		require.NoError(t, write(first, "2"), "no writer can have been there meanwhile")
		require.NoError(t, write(second, "3"))
		done(t, second)
		require.ErrorIs(t, write(second, "4"), framework.ErrNoNode)
		lock = acquire(t, background, rw.WriteLock())
		require.Greater(t, lock.FencingToken(), second.FencingToken())
		release(t, lock)
		clean(t, s)
	})
}

// At the very instant at which the hold is lost by the clock no reader joins it, in whichever order the losses are reported.
func TestReadersJoinNothingThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		r := rwlock.NewReaders(c, path, rwlock.WithJoins(10, time.Hour))
		first := read(t, background, r)
		s.BlackHole(session(t, c), zktest.Both)
		blind := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		time.Sleep(first.Remaining())
		next := beginReading(t, background, r).Waits()
		require.False(t, first.Valid())
		blind.Remove()
		reading := next.End().OK()
		require.NotEqual(t, first.Node(), reading.Node())
		done(t, reading)
		_ = first.Release(background)
		time.Sleep(20 * time.Second)
		clean(t, s)
	})
}

// Each method returns the error of a wrong argument.
func TestReadersMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for _, mistake := range []struct {
			opt  rwlock.Option
			says string
		}{
			{rwlock.WithJoins(0, time.Second), "at least 1"},
			{rwlock.WithJoins(1, 0), "at least 1"},
			{rwlock.OnWait(func(rwlock.Position) {}), "leave it out"},
			{nil, "nil"},
		} {
			_, err := rwlock.NewReaders(c, path, mistake.opt).Acquire(background)
			require.ErrorIs(t, err, framework.ErrInvalidOption)
			require.ErrorContains(t, err, mistake.says)
		}
		for _, side := range sides(rwlock.New(c, path, rwlock.WithJoins(1, 1))) {
			_, err := side.Acquire(background)
			require.ErrorIs(t, err, framework.ErrInvalidOption)
			require.ErrorContains(t, err, "NewReaders")
		}
		_, err := rwlock.NewReaders(nil, path).TryAcquire(background)
		require.ErrorIs(t, err, framework.ErrNoClient)
		_, err = (&rwlock.Readers{}).Acquire(background)
		require.ErrorIs(t, err, framework.ErrNoClient)
		require.ErrorIs(t, (&rwlock.Readers{}).Do(background, func(context.Context) error { return nil }),
			framework.ErrNoClient)
		r := rwlock.NewReaders(c, path)
		require.Equal(t, path, r.Path())
		var none context.Context
		_, err = r.Acquire(none)
		require.ErrorIs(t, err, framework.ErrNilContext)
		require.ErrorIs(t, r.Do(background, nil), framework.ErrBadArguments)
		reading := read(t, background, r)
		require.ErrorIs(t, reading.Release(none), framework.ErrNilContext)
		require.True(t, reading.Valid())
		reading.ReleaseInBackground(nil)
		clean(t, s)
		ended, cancel := context.WithCancel(background)
		cancel()
		_, err = r.Acquire(ended)
		require.ErrorIs(t, err, context.Canceled)
	})
}
