package rwlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// A writer asks one reader after the other to release; each learns only of its own request.
func TestRevokeReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s, framework.WithDefaultData([]byte("10.0.0.1"))), newClient(t, s)
		rw, other := rwlock.New(a, path, rwlock.WithRevocation()), rwlock.New(b, path)
		r1, r2 := acquire(t, background, rw.ReadLock()), acquire(t, background, rw.ReadLock())
		inner := acquire(t, r1.Context(), rw.ReadLock())
		data, _, err := s.Get(r1.Path())
		require.NoError(t, err)
		require.Empty(t, data, "as Curator's")
		writer := waiting(t, background, other.WriteLock())
		holders, err := other.Holders(background)
		require.NoError(t, err)
		require.Len(t, holders, 2)
		require.NoError(t, rwlock.Revoke(background, b, holders[0].Path))
		require.True(t, revoked(r1))
		require.True(t, revoked(inner), "it is one hold")
		require.False(t, revoked(r2))
		require.True(t, r1.Valid(), "it is a request")
		data, _, err = s.Get(r1.Path())
		require.NoError(t, err)
		require.Equal(t, "__REVOKE__", string(data), "as Curator's Revoker")
		release(t, inner)
		release(t, r1)
		require.NoError(t, rwlock.Revoke(background, b, holders[1].Path))
		require.True(t, revoked(r2))
		release(t, r2)
		lock := writer.OK()
		require.Nil(t, lock.Revoked(), "this one does not listen")
		require.NoError(t, rwlock.Revoke(background, a, holders[1].Path), "it has left already")
		release(t, lock)
		clean(t, s)
	})
}

// The write lock and its read lock have a node each, and a request is for one of them; also during the wait.
func TestRevokeDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		rw, other := rwlock.New(a, path, rwlock.WithRevocation()),
			rwlock.New(b, path, rwlock.WithRevocation(), rwlock.WithNodeData([]byte("me")))
		writer := acquire(t, background, rw.WriteLock())
		reader := acquire(t, writer.Context(), rw.ReadLock())
		require.NoError(t, rwlock.Revoke(background, b, writer.Path()))
		require.True(t, revoked(writer))
		require.False(t, revoked(reader))
		next := waiting(t, background, other.WriteLock())
		line, err := other.WriteLock().Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		require.Equal(t, "me", string(line[1].Data))
		require.NoError(t, rwlock.Revoke(background, a, line[1].Path))
		release(t, writer)
		require.NoError(t, rwlock.Revoke(background, b, reader.Path()))
		require.True(t, revoked(reader))
		release(t, reader)
		lock := next.OK()
		require.True(t, revoked(lock), "asked while it stood in line")
		release(t, lock)
		clean(t, s)
	})
}

func TestRevocationTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		rw := rwlock.New(newClient(t, s), path, rwlock.WithRevocation())
		synctest.Wait()
		s.ResetCounts()
		lock := acquire(t, background, rw.WriteLock())
		counts(t, s, "acquire", map[string]int{"create2": 1, "getChildren2": 1, "getData": 1})
		release(t, acquire(t, lock.Context(), rw.WriteLock()))
		counts(t, s, "re-entry", map[string]int{})
		time.Sleep(time.Minute)
		counts(t, s, "the watch on the own node of a long one", map[string]int{"exists": 1})
		release(t, lock)
		counts(t, s, "release", map[string]int{"delete": 1})
		clean(t, s)
	})
}

func TestRevokersMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.ErrorContains(t, rwlock.Revoke(background, nil, path), "framework.New")
		require.ErrorIs(t, rwlock.Revoke(background, c, "locks"), framework.ErrInvalidPath)
		var none context.Context
		require.ErrorIs(t, rwlock.Revoke(none, c, path), framework.ErrNilContext)
	})
}
