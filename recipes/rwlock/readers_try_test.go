package rwlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/zktest"
)

func TestReadersTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		rw := rwlock.New(newClient(t, s), path)
		r := rwlock.NewReaders(newClient(t, s), path)
		try := func() *reading {
			return recipetest.Begin(t, func() (*rwlock.Reading, error) { return r.TryAcquire(background) })
		}
		synctest.Wait()
		s.ResetCounts()
		s.Delay(0, time.Millisecond)
		calls := []*reading{try(), try(), try()}
		for _, call := range calls {
			call.End().OK()
		}
		s.Delay(0, 0)
		counts(t, s, "three at a time", map[string]int{"sync": 1, "getChildren2": 2, "create2": 1})
		calls = append(calls, try(), beginReading(t, background, r))
		counts(t, s, "more", map[string]int{})
		for _, call := range calls {
			require.Equal(t, calls[0].OK().Node(), call.OK().Node())
			done(t, call.OK())
		}
		s.ResetCounts()

		lock := acquire(t, background, rw.WriteLock())
		refused := func(what string, requests map[string]int) {
			t.Helper()
			s.ResetCounts()
			_, err := try().Returned()
			require.ErrorIs(t, err, rwlock.ErrNotAcquired)
			require.ErrorContains(t, err, lock.Node())
			counts(t, s, what, requests)
		}
		refused("try, behind a writer", map[string]int{"sync": 1, "getChildren2": 1})
		waiter := beginReading(t, background, r).Waits()
		refused("try, while others here wait behind a writer", map[string]int{})
		release(t, lock)
		done(t, waiter.OK())
		lock = acquire(t, background, rw.WriteLock())
		s.ResetCounts()

		// A try that arrives during another's list, which finds a writer, causes one more list: the two late tries share it.
		s.Delay(0, time.Millisecond)
		look := s.Inject(zktest.Fault{Op: "getChildren2", Times: 1, Action: zktest.Hold})
		calls = []*reading{try()}
		<-look.Struck()
		calls = append(calls, try(), try())
		for _, call := range calls {
			call.Waits()
		}
		look.Release()
		for _, call := range calls {
			require.ErrorIs(t, call.End().Err, rwlock.ErrNotAcquired)
		}
		s.Delay(0, 0)
		counts(t, s, "three, of which two have come later", map[string]int{"sync": 2, "getChildren2": 2})
		release(t, lock)
		clean(t, s)
	})
}

// A try that arrives before the waiting readers know whether a writer is ahead shares their list.
func TestReadersTryBesideOthers(t *testing.T) {
	for _, writes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			require.NoError(t, s.Create(path, nil))
			rw := rwlock.New(newClient(t, s), path)
			r := rwlock.NewReaders(newClient(t, s), path)
			var lock *rwlock.Lock
			if writes {
				lock = acquire(t, background, rw.WriteLock())
			}
			creates := s.Inject(zktest.Fault{Op: "create2", Action: zktest.Hold})
			waiter := beginReading(t, background, r)
			<-creates.Struck()
			synctest.Wait() // the clients have asked what servers these are
			s.ResetCounts()
			try := recipetest.Begin(t, func() (*rwlock.Reading, error) { return r.TryAcquire(background) }).Waits()
			counts(t, s, "try, while the node is created", map[string]int{})
			creates.Release()
			if !writes {
				require.Equal(t, waiter.End().OK().Node(), try.End().OK().Node())
				done(t, waiter.OK(), try.OK())
				clean(t, s)
				return
			}
			require.ErrorIs(t, try.End().Err, rwlock.ErrNotAcquired)
			require.ErrorContains(t, try.Err, lock.Node())
			waiter.Waits()
			release(t, lock)
			done(t, waiter.OK())
			clean(t, s)
		})
	}
}

// A try after the writer's release is granted, even while an earlier try is refused because of that writer.
func TestReadersTryAfterAWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		rw := rwlock.New(newClient(t, s), path)
		c := newClient(t, s)
		r := rwlock.NewReaders(c, path)
		try := func() *reading {
			return recipetest.Begin(t, func() (*rwlock.Reading, error) { return r.TryAcquire(background) })
		}
		lock := acquire(t, background, rw.WriteLock())
		late := s.Inject(zktest.Fault{
			Session: session(t, c), Op: "getChildren2", Action: zktest.DelayReply, Delay: time.Second,
		})
		early := try()
		<-late.Struck()
		release(t, lock)
		after := try().Waits()
		require.ErrorIs(t, early.End().Err, rwlock.ErrNotAcquired)
		done(t, after.End().OK())
		clean(t, s)
	})
}
