package rwlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// A writer, 500 readers, a writer, 500 readers, in ten sessions: a release wakes only the contenders that it grants. The readers
// of a client need five lists together.
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
		s.Delay(0, 10*time.Millisecond)
		s.ResetCounts()

		release(t, first)
		time.Sleep(30 * time.Millisecond)
		var locks []*rwlock.Lock
		for _, done := range front {
			locks = append(locks, done.OK())
		}
		s.Delay(0, 0)
		counts(t, s, "the first writer goes: five lists for the readers of each client",
			map[string]int{"delete": 1, "getChildren2": 5 * sessions})
		line, err := rwlock.New(clients[0], path).ReadLock().Participants(background)
		require.NoError(t, err)
		last := line[half-1].Name // the predecessor of the second writer
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
		s.Delay(0, 10*time.Millisecond)
		release(t, writer)
		time.Sleep(30 * time.Millisecond)
		for _, done := range back {
			defer release(t, done.OK())
		}
		s.Delay(0, 0)
		counts(t, s, "the second writer goes: five lists for the other readers of each client",
			map[string]int{"delete": 1, "getChildren2": 5 * sessions})
	})
}
