package rwlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

// Flights: the number of round trips that a caller waits for, with a delay for each reply.
func TestFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = time.Second
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		a, b := rwlock.New(newClient(t, s), path), rwlock.New(newClient(t, s), path)
		s.Delay(0, trip)
		flights := func(want int, what string, do func()) {
			t.Helper()
			began := time.Now()
			do()
			require.Equal(t, time.Duration(want)*trip, time.Since(began), what)
		}
		var write, read *rwlock.Lock
		flights(1, "write, free", func() { write = acquire(t, background, a.WriteLock()) })
		flights(1, "read, beside the own write lock", func() { read = acquire(t, write.Context(), a.ReadLock()) })
		flights(0, "re-entry", func() { release(t, acquire(t, read.Context(), a.ReadLock())) })
		flights(1, "try to read, taken", func() {
			_, err := b.ReadLock().TryAcquire(background)
			require.ErrorIs(t, err, rwlock.ErrNotAcquired)
		})
		next := waiting(t, background, b.ReadLock())
		time.Sleep(3 * trip)
		began := time.Now()
		flights(1, "release", func() { release(t, write) })
		granted := next.End().OK()
		require.Equal(t, 2*trip, time.Since(began), "hand-off to a reader: the event, and a list")
		release(t, granted)
		release(t, read)
		flights(1, "read, free", func() { read = acquire(t, background, a.ReadLock()) })
		release(t, read)
		time.Sleep(trip)
		clean(t, s)
	})
}

// Writer, writer, readers: in Curator the first writer's release wakes all readers in vain. Here it wakes the second writer.
func TestNoHerdOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, d := newClient(t, s), newClient(t, s)
		rw := rwlock.New(c, path)
		w1 := acquire(t, background, rw.WriteLock())
		w2 := waiting(t, background, rw.WriteLock())
		const n = 100
		readers := make([]*call, n)
		for i := range readers {
			readers[i] = begin(t, background, rwlock.New(d, path).ReadLock())
		}
		synctest.Wait()
		line, err := rw.WriteLock().Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 2)
		for _, w := range s.Watches() {
			if w.Session == session(t, d) {
				require.NotEqual(t, line[0].Path, w.Path, "no reader watches the first writer")
			}
		}
		s.ResetCounts()
		release(t, w1)
		writer := w2.OK()
		counts(t, s, "the first writer goes", map[string]int{"delete": 1, "getChildren2": 1})
		s.Delay(0, 10*time.Millisecond)
		release(t, writer)
		time.Sleep(30 * time.Millisecond)
		for _, done := range readers {
			defer release(t, done.OK())
		}
		s.Delay(0, 0)
		counts(t, s, "the second writer goes: everybody's turn, and five lists for all readers of the client",
			map[string]int{"delete": 1, "getChildren2": 5})
	})
}
