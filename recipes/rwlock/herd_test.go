package rwlock_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// A writer, 500 readers, a writer, 500 readers, in ten sessions: a release wakes those that have their turn,
// each of them lists once, and nobody else is woken.
func TestThousandReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const half, sessions = 500, 10
		s := zktest.RunT(t)
		clients := make([]*framework.Client, sessions)
		for i := range clients {
			clients[i] = newClient(t, s)
		}
		first := acquire(t, background, rwlock.New(clients[0], path).WriteLock())
		readers := func() (all []*call) {
			for i := range half {
				all = append(all, begin(t, background, rwlock.New(clients[i%sessions], path).ReadLock()))
			}
			synctest.Wait()
			return all
		}
		front := readers()
		second := waiting(t, background, rwlock.New(clients[0], path).WriteLock())
		back := readers()
		s.ResetCounts()

		release(t, first)
		var locks []*rwlock.Lock
		for _, done := range front {
			locks = append(locks, done.OK())
		}
		counts(t, s, "the first writer goes: a list for each reader in front",
			map[string]int{"delete": 1, "getChildren2": half})
		line, err := rwlock.New(clients[0], path).ReadLock().Participants(background)
		require.NoError(t, err)
		last := line[half-1].Name // the nearest one ahead of the second writer
		s.ResetCounts()
		for i, lock := range locks {
			if lock.Node() == last {
				locks[i], locks[half-1] = locks[half-1], locks[i]
			}
		}
		for _, lock := range locks[:half-1] {
			release(t, lock)
		}
		counts(t, s, "readers go: nobody is woken", map[string]int{"delete": half - 1})
		release(t, locks[half-1])
		writer := second.OK()
		counts(t, s, "the last reader goes: a list for the writer", map[string]int{"delete": 1, "getChildren2": 1})
		release(t, writer)
		for _, done := range back {
			defer release(t, done.OK())
		}
		counts(t, s, "the second writer goes: a list for each reader behind",
			map[string]int{"delete": 1, "getChildren2": half})
	})
}
