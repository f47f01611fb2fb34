package semaphore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

const countPath = "/limits/exports-max"

func TestSharedCountIsMadeWhenMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		first := semaphore.New(a, path, 2, semaphore.WithSharedCount(countPath))
		lease := acquire(t, first, 1)
		require.Equal(t, "\x00\x00\x00\x02", string(s.Tree()[countPath].Data))
		// the node exists: its value is used, not the argument
		second := semaphore.New(b, path, 100, semaphore.WithSharedCount(countPath))
		_, err := second.TryAcquire(background, 2)
		require.ErrorIs(t, err, semaphore.ErrNotAcquired)

		// Deleted during a wait: it is created again.
		waiter := waiting(t, background, second, 50)
		require.NoError(t, s.Delete(countPath))
		release(t, got(t, waiter))
		require.Equal(t, "\x00\x00\x00\x64", string(s.Tree()[countPath].Data))
		release(t, lease)
		clean(t, s)
	})
}

// The count changes during a wait. Growth wakes the first in the line, and after its grant the next; after a reduction the
// holders keep their leases.
func TestSharedCountChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		sem := semaphore.New(c, path, 0, semaphore.WithSharedCount(countPath))
		count := semaphore.NewCount(newClient(t, s), countPath)
		a := waiting(t, background, sem, 1)
		b := waiting(t, background, sem, 1)
		d := waiting(t, background, sem, 2)
		require.NoError(t, count.Set(background, -5))
		a.Waits()
		began := time.Now()
		require.NoError(t, count.Set(background, 1))
		leaseA := got(t, a)
		require.True(t, b.Pending() && d.Pending())
		require.NoError(t, count.Set(background, 3))
		leaseB := got(t, b)
		require.True(t, d.Pending(), "one is free, two are wanted")
		require.NoError(t, count.Set(background, 4))
		leaseD := got(t, d)
		require.Equal(t, began, time.Now(), "at once, not at the next check")

		require.NoError(t, count.Set(background, 1))
		time.Sleep(time.Minute)
		for _, lease := range []*semaphore.Lease{leaseA, leaseB, leaseD} {
			require.True(t, lease.Valid())
		}
		used, max, err := sem.Usage(background)
		require.NoError(t, err)
		require.Equal(t, []int{4, 1}, []int{used, max})
		next := waiting(t, background, sem, 1)
		release(t, leaseA)
		release(t, leaseB)
		next.Waits()
		release(t, leaseD)
		release(t, got(t, next))
		clean(t, s)
	})
}

// The count grows and shrinks again between the waiter's check and the create of its lease.
func TestSharedCountShrinksAtTheMomentOfTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		sem := semaphore.New(c, path, 1, semaphore.WithSharedCount(countPath))
		count := semaphore.NewCount(newClient(t, s), countPath)
		lease := acquire(t, sem, 1)
		waiter := waiting(t, background, sem, 1)
		hold := s.Inject(zktest.Fault{Session: session(t, c), Op: "create2", PathPrefix: leases,
			Action: zktest.Hold})
		require.NoError(t, count.Set(background, 2))
		<-hold.Struck()
		require.NoError(t, count.Set(background, 1))
		hold.Release()
		require.True(t, waiter.Pending(), "the count that was in force at the leap is the one that counts")
		require.Equal(t, 1, taken(t, s))
		release(t, lease)
		release(t, got(t, waiter))
		clean(t, s)
	})
}

func TestSharedCountIsNoNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		require.NoError(t, semaphore.NewCount(c, countPath).Set(background, 1))
		for _, data := range []string{"", "7", "\x00\x00\x01"} {
			require.NoError(t, s.Set(countPath, []byte(data)))
			_, err := semaphore.New(c, path, 1, semaphore.WithSharedCount(countPath)).Acquire(background, 1)
			require.ErrorIs(t, err, semaphore.ErrBadCount)
		}
		clean(t, s)
	})
}

func TestSharedCountTurnsBadWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		sem := semaphore.New(c, path, 0, semaphore.WithSharedCount(countPath))
		waiter := waiting(t, background, sem, 1)
		require.NoError(t, s.Set(countPath, nil))
		require.ErrorIs(t, waiter.End().Err, semaphore.ErrBadCount)
		clean(t, s)
	})
}
