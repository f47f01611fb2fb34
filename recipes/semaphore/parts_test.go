package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// several acquires n leases in Curator's way: one by one, each from the end of the line.
func (p peer) several(ctx context.Context, n int) (parts []*peerLease, err error) {
	for len(parts) < n && err == nil {
		var part *peerLease
		if part, err = p.acquire(ctx); err == nil {
			parts = append(parts, part)
		}
	}
	if err != nil {
		returned(parts)
	}
	return parts, err
}

func returned(parts []*peerLease) {
	for _, part := range parts {
		_ = part.release(background)
	}
}

// Curator's caller has one of the two leases that it wants, and waits in line behind this library's, which wants all three. Each
// waits for leases of the other; this library's steps back.
func TestGivesWayToParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const max = 3
		sem, theirs := semaphore.New(newClient(t, s), path, max), peer{newClient(t, s), max}
		first, err := theirs.acquire(background)
		require.NoError(t, err)
		ours := waiting(t, background, sem, max)
		second := make(chan *peerLease, 1)
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		go func() {
			part, err := theirs.acquire(ctx)
			assert.NoError(t, err)
			second <- part
		}()
		require.True(t, pending(second), "behind ours")
		began := time.Now()
		part := <-second
		require.NotNil(t, part)
		require.Less(t, time.Since(began), time.Second)
		ours.Waits()
		line, err := sem.Waiting(background)
		require.NoError(t, err)
		require.Len(t, line, 1, "ours is in line again")
		returned([]*peerLease{first, part})
		release(t, got(t, ours))
		clean(t, s)
	})
}

// Callers that want all leases, of this library, and one that acquires them in Curator's way, one by one. They contend
// repeatedly: each gets its leases.
func TestWholesAndParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const max, rounds, takers = 4, 10, 3
		ctx, cancel := context.WithTimeout(background, rounds*2*time.Minute)
		defer cancel()
		l := ledger{max: max, held: map[context.Context]int{}}
		done := make(chan int, takers+1)
		began := time.Now()
		theirs := peer{newClient(t, s), max}
		go func() {
			for range rounds {
				parts, err := theirs.several(ctx, max)
				if !assert.NoError(t, err) {
					break
				}
				l.granted(t, parts[0].hold.Context(), max)
				time.Sleep(100 * time.Millisecond)
				returned(parts)
			}
			done <- 0
		}()
		for i := range takers {
			sem := semaphore.New(newClient(t, s), path, max)
			go func() {
				for range rounds {
					lease, err := sem.Acquire(ctx, max-i%2)
					if !assert.NoError(t, err) {
						break
					}
					l.granted(t, lease.Context(), lease.Count())
					time.Sleep(100 * time.Millisecond)
					assert.NoError(t, lease.Release(background))
				}
				done <- i + 1
			}()
		}
		for range takers + 1 {
			<-done
		}
		t.Logf("%d turns in %v", rounds*(takers+1), time.Since(began))
		clean(t, s)
	})
}

// A process with Curator uses one lease in one thread while another thread waits for one: it looks as if it held a part. It
// passes this library's waiter now and then, but does not block it for ever.
func TestThreadsDoNotStarveWholes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const max = 3
		c := newClient(t, s)
		ctx, stop := context.WithCancel(background)
		ended := make(chan struct{})
		for range 2 {
			go func() {
				defer func() { ended <- struct{}{} }()
				for ctx.Err() == nil {
					if lease, err := (peer{c, max}).acquire(ctx); err == nil {
						time.Sleep(5 * time.Second)
						_ = lease.release(background)
					}
				}
			}()
			time.Sleep(2500 * time.Millisecond) // so that one of the two always works
		}
		began := time.Now()
		limited, cancel := context.WithTimeout(background, 2*time.Minute)
		defer cancel()
		lease, err := semaphore.New(newClient(t, s), path, max).Acquire(limited, max)
		t.Logf("after %v", time.Since(began))
		if assert.NoError(t, err) {
			release(t, lease)
		}
		stop()
		<-ended
		<-ended
		clean(t, s)
	})
}

// Among clients of this library no waiter is passed, even if a client holds a lease while it waits for another: a place of this
// library never stands for a part. That costs a list now and then, less and less often.
func TestNoGivingWayAmongOurselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		sa, sb := semaphore.New(a, path, 2), semaphore.New(b, path, 2)
		held := acquire(t, sa, 1)
		head := waiting(t, background, sb, 2)
		next := waiting(t, background, sa, 1)
		time.Sleep(time.Second) // until the watch on the lease's own node is armed
		s.ResetCounts()
		time.Sleep(time.Minute)
		require.True(t, head.Pending() && next.Pending())
		counts := s.Counts()
		require.Zero(t, counts["create2"])
		require.LessOrEqual(t, counts["getChildren2"], 60, "%v", counts)
		require.LessOrEqual(t, counts["exists"], 2*8, "the checks of the one who waits: %v", counts)
		release(t, held)
		lease := got(t, head)
		next.Waits()
		release(t, lease)
		release(t, got(t, next))
		clean(t, s)
	})
}

// Curator's process acquires another lease each time this library's waiter has stepped back. The waiter's patience grows far
// beyond the interval in which the first in the line reads again because an event may be lost. It still steps back, when its
// patience ends.
func TestGivesWayWhenMorePatientThanTheSessionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const max = 3
		sem, theirs := semaphore.New(newClient(t, s), path, max), peer{newClient(t, s), max}
		part, err := theirs.acquire(background)
		require.NoError(t, err)
		ours := waiting(t, background, sem, max)
		for round := range 10 {
			// the longest patience is 30 s, plus or minus a quarter
			ctx, cancel := context.WithTimeout(background, 50*time.Second)
			next, err := theirs.acquire(ctx)
			cancel()
			require.NoError(t, err, "round %d", round)
			require.NoError(t, part.release(background))
			part = next
		}
		ours.Waits()
		require.NoError(t, part.release(background))
		release(t, got(t, ours))
		clean(t, s)
	})
}

// Curator's caller uses a lease for an hour before it wants another. This library's waiter, first in the line all the time, reads
// often enough to notice it.
func TestGivesWayAfterALongCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const max = 3
		sem, theirs := semaphore.New(newClient(t, s), path, max), peer{newClient(t, s), max}
		part, err := theirs.acquire(background)
		require.NoError(t, err)
		ours := waiting(t, background, sem, max)
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		second, err := theirs.acquire(ctx)
		require.NoError(t, err)
		returned([]*peerLease{part, second})
		release(t, got(t, ours))
		clean(t, s)
	})
}

// An administrator deletes the line just when the first in it reads the other waiters. The waiter has lost its place, and its
// Acquire continues.
func TestLineDeletedWhileLookingWhetherToGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const max = 3
		deleted := false
		hook := func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
			if op.Name == "getChildren" && op.Path == locks && !op.Background && !deleted {
				deleted = true
				assert.NoError(t, s.DeleteAll(locks))
			}
			return nil
		}
		hooks := framework.Hooks{Operation: hook}
		part, err := peer{newClient(t, s), max}.acquire(background)
		require.NoError(t, err)
		ours := waiting(t, background, semaphore.New(newClient(t, s, framework.WithHooks(hooks)), path, max), max)
		time.Sleep(time.Second)
		ours.Waits()
		require.True(t, deleted)
		require.NoError(t, part.release(background))
		release(t, got(t, ours))
		clean(t, s)
	})
}

// Some leases are taken, but none by Curator's client behind the first in the line: the first keeps its place.
func TestKeepsItsPlaceBeforeAWaiterWithoutLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const max = 3
		sem := semaphore.New(newClient(t, s), path, max)
		atWork := acquire(t, sem, 1)
		ours := waiting(t, background, semaphore.New(newClient(t, s), path, max), max)
		theirs := recipetest.Begin(t, func() (*peerLease, error) { return peer{newClient(t, s), max}.acquire(background) }).Waits()
		before, err := sem.Waiting(background)
		require.NoError(t, err)
		require.Len(t, before, 2)
		time.Sleep(time.Minute)
		ours.Waits()
		theirs.Waits()
		after, err := sem.Waiting(background)
		require.NoError(t, err)
		require.Equal(t, before, after)
		release(t, atWork)
		release(t, got(t, ours))
		require.NoError(t, theirs.End().OK().release(background))
		clean(t, s)
	})
}

// The connection is lost while the first in the line reads whether to step back: it keeps its place.
func TestConnectionLostWhileLookingWhetherToGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const max = 3
		part, err := peer{newClient(t, s), max}.acquire(background)
		require.NoError(t, err)
		c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{}))
		sem := semaphore.New(c, path, max)
		ours := waiting(t, background, sem, max)
		before, err := sem.Waiting(background)
		require.NoError(t, err)
		lost := s.Inject(zktest.Fault{Session: session(t, c), Op: "getChildren2", PathPrefix: locks, Action: zktest.LoseReply})
		time.Sleep(5 * time.Second)
		ours.Waits()
		require.Equal(t, 1, lost.Hits())
		after, err := sem.Waiting(background)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.NoError(t, part.release(background))
		release(t, got(t, ours))
		clean(t, s)
	})
}
