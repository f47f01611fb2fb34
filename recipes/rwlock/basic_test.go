package rwlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// protected matches Curator's form of a name with a random UUID as prefix.
const protected = `^_c_[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-`

// The layout is exactly Curator's (5.5 and later).
func TestLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		rw := rwlock.New(c, path, rwlock.WithNodeData([]byte("me")))
		reader := acquire(t, background, rw.ReadLock())
		require.Regexp(t, protected+`__READ__0000000000$`, reader.Node())
		release(t, reader)
		writer := acquire(t, background, rw.WriteLock())
		require.Regexp(t, protected+`__WRIT__0000000001$`, writer.Node())
		downgraded := acquire(t, writer.Context(), rw.ReadLock())
		require.Regexp(t, protected+`__READ__0000000001$`, downgraded.Node(), "the digits of the write lock")
		require.NotEqual(t, writer.Node()[:40], downgraded.Node()[:40], "a UUID of its own")

		tree := s.Tree()
		for _, lock := range []*rwlock.Lock{writer, downgraded} {
			require.Equal(t, path+"/"+lock.Node(), lock.Path())
			node := tree[lock.Path()]
			require.Equal(t, zktest.Ephemeral, node.Mode)
			require.Equal(t, "me", string(node.Data))
			require.Equal(t, session(t, c), node.Stat.EphemeralOwner)
		}
		for _, dir := range []string{path, "/locks"} {
			require.Equal(t, zktest.Container, tree[dir].Mode, dir)
			require.Empty(t, tree[dir].Data)
		}
		require.Equal(t, tree[writer.Path()].Stat.Czxid, writer.FencingToken())
		require.Equal(t, writer.FencingToken(), downgraded.FencingToken())
		require.Equal(t, rwlock.Write, writer.Kind())
		require.Equal(t, rwlock.Read, downgraded.Kind())
		release(t, writer)
		release(t, downgraded)
		clean(t, s)

		// The downgrade has used up a number, too: the parent's counter counts all children.
		again := acquire(t, background, rw.ReadLock())
		require.Regexp(t, protected+`__READ__0000000003$`, again.Node())
		release(t, again)
	})
}

func TestReadersShareAndWritersDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		rw := func() *rwlock.RWLock { return rwlock.New(newClient(t, s), path) }
		a, b, c := rw(), rw(), rw()
		r1, r2 := acquire(t, background, a.ReadLock()), acquire(t, background, b.ReadLock())
		w1 := waiting(t, background, c.WriteLock())
		r3 := waiting(t, background, a.ReadLock()) // it does not pass a waiting writer
		w2 := waiting(t, background, b.WriteLock())
		r4 := waiting(t, background, c.ReadLock())

		release(t, r2)
		w1.Waits()
		release(t, r1)
		writer := w1.OK()
		r3.Waits()
		w2.Waits()
		release(t, writer)
		reader := r3.OK()
		w2.Waits()
		require.True(t, r4.Pending(), "one writer has gone, another one is in front of it")
		require.Greater(t, reader.FencingToken(), writer.FencingToken())
		release(t, reader)
		second := w2.OK()
		require.Greater(t, second.FencingToken(), reader.FencingToken())
		release(t, second)
		release(t, r4.OK())
		clean(t, s)
	})
}

func TestHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil)) // so that the server does not delete it during the test
		rw := rwlock.New(newClient(t, s), path)
		for _, side := range []*rwlock.Side{rw.ReadLock(), rw.WriteLock()} {
			ctx, cancel := context.WithTimeout(context.WithValue(background, key("k"), "v"), time.Second)
			lock := acquire(t, ctx, side)
			require.True(t, lock.Valid())
			require.GreaterOrEqual(t, lock.Remaining(), 9*time.Second)
			require.Equal(t, "v", lock.Context().Value(key("k")))
			time.Sleep(90 * time.Second) // far beyond ctx and the session timeout: the hold stays
			cancel()
			require.True(t, lock.Valid())
			require.NoError(t, lock.Context().Err())
			release(t, lock)
			require.ErrorIs(t, context.Cause(lock.Context()), rwlock.ErrReleased)
			require.False(t, lock.Valid())
			require.Zero(t, lock.Remaining())
			require.ErrorIs(t, lock.Release(background), rwlock.ErrReleased)
			clean(t, s)
		}
	})
}

func TestReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		rw := rwlock.New(c, path)
		for _, side := range []*rwlock.Side{rw.ReadLock(), rw.WriteLock()} {
			outer := acquire(t, background, side)
			other := waiting(t, background, rw.WriteLock()) // waiters do not delay re-entry
			time.Sleep(time.Second)
			s.ResetCounts()
			derived, cancel := context.WithCancel(outer.Context())
			inner := acquire(t, derived, side)
			third, err := side.TryAcquire(inner.Context())
			require.NoError(t, err)
			require.Equal(t, outer.FencingToken(), third.FencingToken())
			release(t, outer) // in any order
			release(t, third)
			require.ErrorIs(t, third.Release(background), rwlock.ErrReleased, "each Lock counts once")
			require.False(t, third.Valid())
			require.True(t, inner.Valid())
			require.NoError(t, inner.Context().Err())
			counts(t, s, "re-entry asks nobody", map[string]int{})
			cancel()
			release(t, inner)
			require.ErrorIs(t, context.Cause(outer.Context()), rwlock.ErrReleased)

			// A released hold is not entered again, although a context still carries it.
			limited, cancel := context.WithTimeout(context.WithoutCancel(outer.Context()), time.Second)
			_, err = side.Acquire(limited)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
			_, err = side.Acquire(outer.Context())
			require.ErrorIs(t, err, rwlock.ErrReleased)
			release(t, other.OK())
			clean(t, s)
		}

		// A call with another context, or another client, waits in line.
		lock := acquire(t, background, rw.WriteLock())
		stranger := rwlock.New(newClient(t, s), path)
		for ctx, other := range map[context.Context]*rwlock.RWLock{lock.Context(): stranger, background: rw} {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			_, err := other.WriteLock().Acquire(limited)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			_, err = other.ReadLock().TryAcquire(ctx)
			require.ErrorIs(t, err, rwlock.ErrNotAcquired)
			cancel()
		}
		release(t, lock)
		clean(t, s)
	})
}

func TestUpgradeIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		rw := rwlock.New(newClient(t, s), path)
		reader := acquire(t, background, rw.ReadLock())
		time.Sleep(time.Second)
		s.ResetCounts()
		began := time.Now()
		w := rw.WriteLock()
		for _, call := range []func(context.Context) (*rwlock.Lock, error){w.Acquire, w.TryAcquire} {
			_, err := call(reader.Context())
			require.ErrorIs(t, err, rwlock.ErrUpgrade)
			require.ErrorContains(t, err, "release the read lock")
		}
		require.ErrorIs(t, rw.ReadLock().Do(reader.Context(), func(ctx context.Context) error {
			return rw.WriteLock().Do(ctx, func(context.Context) error { panic("called") })
		}), rwlock.ErrUpgrade)
		require.Equal(t, began, time.Now())
		counts(t, s, "nobody was asked", map[string]int{})
		require.True(t, reader.Valid(), "it keeps what it has")
		release(t, reader)

		// The context of a released read lock carries no hold to upgrade.
		writer := acquire(t, context.WithoutCancel(reader.Context()), rw.WriteLock())
		// A downgraded reader cannot upgrade again either.
		reader = acquire(t, writer.Context(), rw.ReadLock())
		// but while the write lock is held, its context enters it again
		again := acquire(t, reader.Context(), rw.WriteLock())
		release(t, again)
		release(t, writer)
		_, err := rw.WriteLock().Acquire(reader.Context())
		require.ErrorIs(t, err, rwlock.ErrUpgrade)
		release(t, reader)
		clean(t, s)
	})
}

func TestTryAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		mine := rwlock.New(newClient(t, s), path)
		for _, other := range []*rwlock.RWLock{rwlock.New(newClient(t, s), path),
			rwlock.New(newClient(t, s), path, rwlock.WithStaleTry())} {
			reader, err := mine.ReadLock().TryAcquire(background) // the directory is missing the first time
			require.NoError(t, err)
			second, err := other.ReadLock().TryAcquire(background)
			require.NoError(t, err)
			_, err = other.WriteLock().TryAcquire(background)
			require.ErrorIs(t, err, rwlock.ErrNotAcquired)
			writer := waiting(t, background, mine.WriteLock())
			_, err = other.ReadLock().TryAcquire(background)
			require.ErrorIs(t, err, rwlock.ErrNotAcquired, "a writer waits")
			release(t, reader)
			release(t, second)
			lock := writer.OK()
			_, err = other.ReadLock().TryAcquire(background)
			require.ErrorIs(t, err, rwlock.ErrNotAcquired)
			require.ErrorContains(t, err, lock.Node(), "it says who is ahead")
			_, err = other.WriteLock().TryAcquire(background)
			require.ErrorIs(t, err, rwlock.ErrNotAcquired)
			release(t, lock)
			lock, err = other.WriteLock().TryAcquire(background)
			require.NoError(t, err)
			release(t, lock)
			clean(t, s)
		}
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		rw := rwlock.New(newClient(t, s), path)
		for _, side := range []*rwlock.Side{rw.ReadLock(), rw.WriteLock()} {
			require.NoError(t, side.Do(background, func(ctx context.Context) error {
				return side.Do(ctx, func(ctx context.Context) error {
					return rw.ReadLock().Do(ctx, func(context.Context) error { return nil })
				})
			}))
			clean(t, s)
		}
	})
}

func TestParticipants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		positions := make(chan rwlock.Position, 10)
		rw := rwlock.New(a, path, rwlock.WithNodeData([]byte("a")))
		other := rwlock.New(b, path, rwlock.OnWait(func(p rwlock.Position) { positions <- p }))
		names := func(of func(context.Context) ([]rwlock.Participant, error)) (names []string) {
			line, err := of(background)
			require.NoError(t, err)
			for _, p := range line {
				names = append(names, fmt.Sprint(p.Kind, p.Name[len(p.Name)-1:]))
			}
			return names
		}
		require.Empty(t, names(rw.Participants), "no directory, nobody")
		require.Empty(t, names(rw.Holders))

		r0, r1 := acquire(t, background, rw.ReadLock()), acquire(t, background, other.ReadLock())
		w2 := waiting(t, background, other.WriteLock())
		r3 := waiting(t, background, other.ReadLock())
		require.NoError(t, s.Create(path+"/0000000001", nil)) // number 4: no contender

		require.Equal(t, []string{"read0", "read1", "write2", "read3"}, names(rw.Participants))
		require.Equal(t, []string{"read0", "read1"}, names(rw.Holders))
		require.Equal(t, []string{"read0", "read1", "read3"}, names(rw.ReadLock().Participants))
		require.Equal(t, []string{"write2"}, names(rw.WriteLock().Participants))
		line, err := rw.Participants(background)
		require.NoError(t, err)
		require.Equal(t, rwlock.Participant{Kind: rwlock.Read, Name: r0.Node(), Path: r0.Path(), Data: []byte("a"),
			SessionID: session(t, a),
			Czxid:     r0.FencingToken(), Since: line[0].Since}, line[0])
		require.WithinDuration(t, time.Now(), line[0].Since, time.Second)
		require.Equal(t, rwlock.Position{Kind: rwlock.Write, Node: line[2].Name, Predecessor: line[1].Name,
			Ahead: 2}, <-positions)
		require.Equal(t, rwlock.Position{Kind: rwlock.Read, Node: line[3].Name, Predecessor: line[2].Name,
			Ahead: 1}, <-positions)

		release(t, r0)
		require.Equal(t, []string{"read1"}, names(rw.Holders))
		release(t, r1)
		writer := w2.OK()
		require.Equal(t, []string{"write2"}, names(rw.Holders))
		reader := acquire(t, writer.Context(), other.ReadLock())
		require.ElementsMatch(t, []string{"write2", "read2"}, names(rw.Holders), "it has both")
		release(t, writer)
		require.Equal(t, []string{"read2", "read3"}, names(rw.Holders))
		release(t, reader)
		release(t, r3.OK())
	})
}

func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		_, err := c.Create().ForPath(background, "/store", nil)
		require.NoError(t, err)
		rw := rwlock.New(c, path)
		writer := acquire(t, background, rw.WriteLock())
		reader := acquire(t, writer.Context(), rw.ReadLock())
		set := func(lock *rwlock.Lock) error {
			_, err := c.Transaction(background, lock.Guard(),
				c.TransactionOp().SetData().ForPath("/store", []byte("1")))
			return err
		}
		require.NoError(t, set(writer))
		require.NoError(t, set(reader))
		release(t, writer)
		require.ErrorIs(t, set(writer), framework.ErrNoNode)
		require.NoError(t, set(reader))
		release(t, reader)
		require.ErrorIs(t, set(reader), framework.ErrNoNode)
	})
}

func TestNewcomersMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		for _, mistake := range []struct {
			rw   *rwlock.RWLock
			is   error
			says string
		}{
			{rwlock.New(nil, path), nil, "framework.New"},
			{rwlock.New(c, "locks"), framework.ErrInvalidPath, `must start with "/"`},
			{rwlock.New(c, "/locks/"), framework.ErrInvalidPath, "must not end"},
			{rwlock.New(c, path, nil), framework.ErrInvalidOption, "leave it out"},
			{rwlock.New(c, path, rwlock.OnWait(nil)), framework.ErrInvalidOption, "leave the option out"},
			{rwlock.New(c, path, rwlock.WithLossPolicy(7)), framework.ErrInvalidOption, "SessionOnly"},
		} {
			for _, side := range []*rwlock.Side{mistake.rw.ReadLock(), mistake.rw.WriteLock()} {
				_, err := side.Acquire(background)
				require.ErrorContains(t, err, mistake.says)
				if mistake.is != nil {
					require.ErrorIs(t, err, mistake.is)
				}
				_, err = side.TryAcquire(background)
				require.ErrorContains(t, err, mistake.says)
				_, err = side.Participants(background)
				require.ErrorContains(t, err, mistake.says)
				require.ErrorContains(t, side.Do(background, func(context.Context) error { panic("called") }),
					mistake.says)
			}
			_, err := mistake.rw.Holders(background)
			require.ErrorContains(t, err, mistake.says)
		}
		rw := rwlock.New(c, path)
		require.Same(t, rw.ReadLock(), rw.ReadLock())
		require.Equal(t, path, rw.Path())
		require.Equal(t, path, rw.WriteLock().Path())
		var none context.Context
		_, err := rw.WriteLock().Acquire(none)
		require.ErrorIs(t, err, framework.ErrNilContext)
		_, err = rw.Participants(none)
		require.ErrorIs(t, err, framework.ErrNilContext)
		require.ErrorContains(t, rw.ReadLock().Do(background, nil), "nil")
		lock := acquire(t, background, rw.ReadLock())
		require.ErrorIs(t, lock.Release(none), framework.ErrNilContext)
		require.True(t, lock.Valid())
		release(t, lock)
		require.True(t, strings.HasPrefix(fmt.Sprint(lock.Release(background)),
			"rwlock /locks/stock: release read: "))
	})
}
