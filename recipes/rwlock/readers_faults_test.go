package rwlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// A loss ends all that share the node; whoever comes then has another node.
func TestReadersLoseTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a := newClient(t, s)
		r := rwlock.NewReaders(a, path)
		all := []*rwlock.Reading{read(t, background, r), read(t, background, r), read(t, background, r)}
		writer := waiting(t, background, rwlock.New(newClient(t, s), path).WriteLock())
		s.Expire(session(t, a))
		lock := writer.End().OK()
		for _, reading := range all {
			<-reading.Context().Done()
			require.ErrorIs(t, context.Cause(reading.Context()), rwlock.ErrSessionLost)
			require.False(t, reading.Valid())
			require.ErrorIs(t, reading.Lost(), rwlock.ErrSessionLost)
		}
		next := beginReading(t, all[0].Context(), r)
		require.ErrorIs(t, next.End().Err, rwlock.ErrSessionLost, "no re-entry into what is lost")
		next = beginReading(t, background, r)
		time.Sleep(time.Second)
		next.Waits()
		require.ErrorIs(t, all[0].Release(background), rwlock.ErrSessionLost)
		release(t, lock)
		reading := next.OK()
		require.NotEqual(t, all[0].Node(), reading.Node())
		for _, old := range all[1:] {
			require.ErrorIs(t, old.Release(background), rwlock.ErrSessionLost)
		}
		require.True(t, reading.Valid(), "the release of those before does not touch it")
		done(t, reading)
		clean(t, s)
	})
}

func TestReadersLoseTheirNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		r := rwlock.NewReaders(newClient(t, s), path, rwlock.WithJoins(10, time.Hour))
		first, second := read(t, background, r), read(t, background, r)
		time.Sleep(time.Second) // the hold watches its node
		require.NoError(t, s.Delete(first.Path()))
		<-second.Context().Done()
		<-first.Context().Done()
		require.ErrorIs(t, context.Cause(second.Context()), rwlock.ErrNodeDeleted)
		next := read(t, background, r)
		require.NotEqual(t, first.Node(), next.Node())
		require.ErrorIs(t, first.Release(background), rwlock.ErrNodeDeleted)
		got := make(chan error, 1)
		second.ReleaseInBackground(func(err error) { got <- err })
		require.ErrorIs(t, <-got, rwlock.ErrNodeDeleted)
		require.True(t, next.Valid())
		next.ReleaseInBackground(func(err error) { got <- err })
		require.NoError(t, <-got)
		next.ReleaseInBackground(func(err error) { got <- err })
		require.ErrorIs(t, <-got, rwlock.ErrReleased)
		clean(t, s)
	})
}

// Without a connection newcomers join as long as the session is certain, and not with a policy for which a
// lost connection is a loss.
func TestReadersWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		r := rwlock.NewReaders(c, path, rwlock.WithJoins(10, time.Hour))
		strict := rwlock.NewReaders(c, path, rwlock.WithLossPolicy(framework.SuspendedIsLoss))
		first, other := read(t, background, r), read(t, background, strict)
		away := s.Inject(zktest.Fault{Op: "connect", Times: -1, Action: zktest.CutBefore})
		s.Cut(session(t, c))
		time.Sleep(time.Second)
		require.ErrorIs(t, context.Cause(other.Context()), rwlock.ErrSuspended)
		second := read(t, background, r)
		require.Equal(t, first.Node(), second.Node())
		late := beginReading(t, background, strict).Waits()
		time.Sleep(20 * time.Second)
		<-second.Context().Done()
		require.ErrorIs(t, context.Cause(second.Context()), rwlock.ErrSessionLost)
		third := beginReading(t, background, r).Waits()
		away.Remove()
		done(t, third.End().OK(), late.End().OK())
		for _, reading := range []*rwlock.Reading{first, second} {
			require.ErrorIs(t, reading.Release(background), rwlock.ErrSessionLost)
		}
		require.ErrorIs(t, other.Release(background), rwlock.ErrSuspended)
		time.Sleep(time.Second)
		clean(t, s)
	})
}

// At the very instant at which the hold is over by the clock nobody joins it, whoever is told first.
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

// A caller that gives up leaves alone; when all have, the node goes, and whoever comes then has another one.
func TestReadersGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		lock := acquire(t, background, rwlock.New(newClient(t, s), path).WriteLock())
		c := newClient(t, s)
		r := rwlock.NewReaders(c, path)
		ctx, cancel := context.WithCancelCause(background)
		first := beginReading(t, ctx, r).Waits()
		second := beginReading(t, background, r).Waits()
		line := nodesOf(t, s)
		cancel(context.DeadlineExceeded)
		require.ErrorIs(t, first.End().Err, context.Canceled)
		require.ErrorIs(t, first.Err, context.DeadlineExceeded)
		require.Equal(t, line, nodesOf(t, s), "the place in line is that of the others, too")
		release(t, lock)
		done(t, second.OK())
		clean(t, s)

		lock = acquire(t, background, rwlock.New(newClient(t, s), path).WriteLock())
		ctx, cancel = context.WithCancelCause(background)
		all := []*reading{}
		for range 3 {
			all = append(all, beginReading(t, ctx, r).Waits())
		}
		require.Len(t, nodesOf(t, s), 2)
		cancel(nil)
		next := beginReading(t, background, r)
		for _, call := range all {
			require.ErrorIs(t, call.End().Err, context.Canceled)
		}
		next.Waits()
		require.Len(t, nodesOf(t, s), 2)
		release(t, lock)
		done(t, next.OK())
		clean(t, s)
		recipetest.Tidy(t, c)
	})
}

// The reply to each of the requests is lost: one node, and nothing is left.
func TestReadersLoseAReply(t *testing.T) {
	for _, op := range []string{"create2", "getChildren2", "delete"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create(path, nil))
				c := newClient(t, s)
				r := rwlock.NewReaders(c, path, rwlock.WithJoins(10, time.Hour))
				s.Inject(zktest.Fault{Session: session(t, c), Op: op, PathPrefix: path, Action: zktest.LoseReply})
				calls := []*reading{beginReading(t, background, r), beginReading(t, background, r)}
				for _, call := range calls {
					require.Equal(t, calls[0].End().OK().Node(), call.End().OK().Node())
				}
				require.Len(t, nodesOf(t, s), 1)
				done(t, calls[0].OK())
				calls[1].OK().ReleaseInBackground()
				time.Sleep(30 * time.Second)
				clean(t, s)
				recipetest.Tidy(t, c)
			})
		})
	}
}

// The client is closed: those who wait hear of it, and so do those who read.
func TestReadersOfAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		r := rwlock.NewReaders(c, path, rwlock.WithJoins(1, time.Hour))
		first, second := read(t, background, r), read(t, background, r)
		writer := waiting(t, background, rwlock.New(newClient(t, s), path).WriteLock())
		waiters := []*reading{beginReading(t, background, r).Waits(), beginReading(t, background, r).Waits()}
		require.NoError(t, c.Close())
		for _, waiter := range waiters {
			require.ErrorIs(t, waiter.End().Err, framework.ErrClosed)
		}
		require.ErrorIs(t, context.Cause(first.Context()), framework.ErrClosed)
		require.ErrorIs(t, second.Release(background), framework.ErrClosed)
		release(t, writer.End().OK())
		for _, get := range []func(context.Context) (*rwlock.Reading, error){r.Acquire, r.TryAcquire} {
			_, err := get(background)
			require.ErrorIs(t, err, framework.ErrClosed)
		}
		require.ErrorIs(t, first.Release(background), framework.ErrClosed)
		clean(t, s)
	})
}

// With the view of a session nobody waits for another one.
func TestReadersOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		in, err := c.Session(background)
		require.NoError(t, err)
		r := rwlock.NewReaders(in.Client(), path)
		lock := acquire(t, background, rwlock.New(newClient(t, s), path).WriteLock())
		waiter := beginReading(t, background, r).Waits()
		s.Expire(in.ID())
		require.ErrorIs(t, waiter.End().Err, framework.ErrSessionLost)
		release(t, lock)
		_, err = r.Acquire(background)
		require.ErrorIs(t, err, framework.ErrSessionLost)
		clean(t, s)
	})
}

func TestReadersAreRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		other := newClient(t, s)
		r := rwlock.NewReaders(newClient(t, s), path, rwlock.WithRevocation(), rwlock.WithJoins(10, time.Hour))
		asked := func(reading *rwlock.Reading) bool { return recipetest.Closed(reading.Revoked()) }
		first, second := read(t, background, r), read(t, background, r)
		writer := waiting(t, background, rwlock.New(other, path).WriteLock())
		require.False(t, asked(first))
		require.NoError(t, rwlock.Revoke(background, other, first.Path()))
		require.True(t, asked(first) && asked(second))
		require.True(t, first.Valid() && second.Valid(), "they decide when")
		behind := beginReading(t, background, r).Waits()
		done(t, first, second)
		release(t, writer.OK())
		next := behind.OK()
		require.False(t, asked(next), "another node")
		require.Equal(t, next.Node(), read(t, next.Context(), r).Node())
		lock := rwlock.New(other, path).WriteLock()
		_, err := lock.TryAcquire(background)
		require.ErrorIs(t, err, rwlock.ErrNotAcquired)
		done(t, read(t, background, r))
		require.NoError(t, next.Release(background))
		holders, err := rwlock.New(other, path).Holders(background)
		require.NoError(t, err)
		require.Len(t, holders, 1, "the share of the one that has re-entered")
	})
}
