package semaphore_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// manyLeases is the limit in the tests of leases that are taken unseen.
const manyLeases = 8

// contention is a semaphore of clients that have contended before, so that they expect a free lease when they are the first
// in the line.
type contention struct {
	t       *testing.T
	s       *zktest.Server
	leases  int
	filler  *semaphore.Semaphore
	clients []*framework.Client
	sems    []*semaphore.Semaphore
}

func newContention(t *testing.T, clients, leases int, options ...framework.Option) *contention {
	s := zktest.RunT(t)
	c := &contention{t: t, s: s, leases: leases, filler: semaphore.New(newClient(t, s), path, leases)}
	for range clients {
		client := newClient(t, s, options...)
		c.clients, c.sems = append(c.clients, client), append(c.sems, semaphore.New(client, path, leases))
	}
	for range 2 {
		all := c.fill(leases)
		waits := c.wait()
		c.releaseTogether(all)
		c.releaseAll(waits)
	}
	return c
}

// releaseTogether releases all leases before the first waiter gets the event of one.
func (c *contention) releaseTogether(all *semaphore.Lease) {
	c.t.Helper()
	c.s.Delay(0, time.Millisecond)
	release(c.t, all)
	c.s.Delay(0, 0)
	time.Sleep(10 * time.Millisecond) // replies are still delayed
}

// releaseAll releases the leases of all, after each has had its own.
func (c *contention) releaseAll(waits []*call) {
	c.t.Helper()
	var held []*semaphore.Lease
	for _, w := range waits {
		held = append(held, got(c.t, w))
	}
	for _, lease := range held {
		release(c.t, lease)
	}
}

// fill takes leases.
func (c *contention) fill(n int) *semaphore.Lease {
	c.t.Helper()
	return acquire(c.t, c.filler, n)
}

// wait has each client wait in the line, in their order.
func (c *contention) wait() (waits []*call) {
	c.t.Helper()
	for _, sem := range c.sems {
		waits = append(waits, waiting(c.t, background, sem, 1))
	}
	return waits
}

// place returns the path of a client's node in the line.
func (c *contention) place(i int) string {
	c.t.Helper()
	for path, node := range c.s.Tree() {
		if node.Stat.EphemeralOwner == session(c.t, c.clients[i]) && zkpath.Parent(path) == locks {
			return path
		}
	}
	require.Fail(c.t, "no node in the line")
	return ""
}

// A waiter behind others that take a free lease takes one without having listed the leases, in one round trip; also a second
// time.
func TestALeaseIsTakenUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContention(t, 4, manyLeases)
		for range 2 {
			all := c.fill(manyLeases)
			c.s.ResetCounts()
			waits := c.wait()
			recipetest.Counts(t, c.s, "four join, and the first reads the leases",
				map[string]int{"create2": 4, "getChildren2": 5, "getData": 3})
			c.releaseTogether(all)
			recipetest.Counts(t, c.s, "each takes a lease", map[string]int{"delete": manyLeases, "multi": 4})
			c.releaseAll(waits)
		}
		clean(t, c.s)
	})
}

// A caller that has taken a lease unseen joins the line without a look at the leases, the next time.
func TestTheCallerAfterALeaseTakenUnseenJoinsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContention(t, 2, manyLeases)
		release(t, acquire(t, c.sems[1], 1)) // it has not waited
		for _, looks := range []int{1, 0} {
			all := c.fill(manyLeases)
			first := waiting(t, background, c.sems[0], 1)
			c.s.ResetCounts()
			second := waiting(t, background, c.sems[1], 1)
			require.Equal(t, looks, c.s.Counts()["sync"])
			c.releaseTogether(all)
			release(t, got(t, first))
			release(t, got(t, second))
		}
		clean(t, c.s)
	})
}

// A waiter that wants several leases lists them first, and gets all.
func TestSeveralLeasesAreNotTakenUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContention(t, 2, manyLeases)
		all := c.fill(manyLeases)
		first := waiting(t, background, c.sems[0], 1)
		second := waiting(t, background, c.sems[1], 2)
		c.releaseTogether(all)
		lease := got(t, first)
		two := got(t, second)
		require.Equal(t, 2, two.Count())
		require.Equal(t, 3, taken(t, c.s))
		release(t, two)
		release(t, lease)
		clean(t, c.s)
	})
}

// A waiter ahead gives up while the first waits for a lease: the one behind tries, is refused, and waits behind the first.
// After that a list precedes its next lease again.
func TestAWaiterAheadGivesUpAndNoneIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContention(t, 3, manyLeases)
		all, one := c.fill(manyLeases-1), c.fill(1)
		first := waiting(t, background, c.sems[0], 1)
		ctx, cancel := context.WithCancel(background)
		leaver := waiting(t, ctx, c.sems[1], 1)
		last := waiting(t, background, c.sems[2], 1)
		c.s.ResetCounts()
		cancel()
		require.ErrorIs(t, leaver.End().Err, context.Canceled)
		last.Waits()
		recipetest.Counts(t, c.s, "refused; lists",
			map[string]int{"delete": 1, "removeWatches": 1, "multi": 1, "getChildren2": 2, "getData": 1})
		require.Equal(t, manyLeases, taken(t, c.s))
		release(t, one)
		lease := got(t, first)
		last.Waits()
		release(t, lease)
		release(t, got(t, last))
		release(t, all)
		clean(t, c.s)
	})
}

// The leases are taken, against expectation: the waiter has left the line, and waits with its node, which OnWait and the error
// of another show. The one behind it stays in the line. It has its lease before them and before waiters that join later.
func TestALeaseIsNotFreeAgainstExpectation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContention(t, 3, manyLeases)
		all, one := c.fill(manyLeases-1), c.fill(1)
		waits := c.wait()
		third := c.s.Inject(zktest.Fault{Session: session(t, c.clients[2]), Op: "multi", Action: zktest.Hold})
		c.s.ResetCounts()
		release(t, one)
		lease := got(t, waits[0])
		<-third.Struck()
		third.Release() // after the second has stopped it
		require.Equal(t, manyLeases+1, taken(t, c.s))
		recipetest.Counts(t, c.s, "the second stops the third, which reads the leases", map[string]int{
			"delete": 1, "multi": 3, "setData": 1, "getChildren2": 2})
		line, err := c.filler.Waiting(background)
		require.NoError(t, err)
		require.Len(t, line, 1)
		later := waiting(t, background, c.filler, 1)

		time.Sleep(100 * time.Millisecond) // the holders' own nodes are watched
		c.s.ResetCounts()
		time.Sleep(time.Second)
		recipetest.Counts(t, c.s, "they wait", map[string]int{})
		release(t, lease)
		lease = got(t, waits[1])
		waits[2].Waits()
		release(t, lease)
		lease = got(t, waits[2])
		later.Waits()
		release(t, lease)
		release(t, got(t, later))
		release(t, all)
		clean(t, c.s)
	})
}

// OnWait, the error of the context's end and the log show what a waiter with the node of a lease waits for.
func TestAWaiterForALeaseOutOfTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log recipetest.Log
		c := newContention(t, 2, manyLeases, framework.WithLogger(log.Logger()))
		var positions []semaphore.Position
		c.sems[1] = semaphore.New(c.clients[1], path, manyLeases,
			semaphore.OnWait(func(p semaphore.Position) { positions = append(positions, p) }))
		for range 2 {
			all := c.fill(manyLeases)
			waits := c.wait()
			c.releaseTogether(all)
			c.releaseAll(waits)
		}
		positions = nil
		require.NoError(t, c.s.Create(leases+"/lease-", nil)) // of no session
		all, one := c.fill(manyLeases-2), c.fill(1)
		ctx, cancel := context.WithCancel(background)
		first := waiting(t, background, c.sems[0], 1)
		second := waiting(t, ctx, c.sems[1], 1)
		release(t, one)
		lease := got(t, first)
		second.Waits()
		require.NotEmpty(t, positions)
		last := positions[len(positions)-1]
		require.Contains(t, c.s.Tree(), leases+"/"+last.Node)
		require.Empty(t, last.Predecessor)
		time.Sleep(10 * time.Minute)
		require.Contains(t, log.String(), "a lease is not an ephemeral node")
		cancel()
		require.ErrorContains(t, second.End().Err, "next for a lease: 8 of 8 taken")
		release(t, lease)
		release(t, all)
		require.NoError(t, c.s.Delete(leases+"/lease-"))
		clean(t, c.s)
	})
}

// Of many waiters that expect a free lease few leave the line when there is none, and those are not many more if others join
// the line at that time.
func TestWaitersAreStoppedWhenNoLeaseIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, leases, most = 60, 128, 6
		c := newContention(t, clients, leases, framework.WithCompression())
		all, one := c.fill(leases-1), c.fill(1)
		early := clients / 3
		sems := c.sems
		c.sems = sems[:early]
		waits := c.wait()
		c.s.Delay(0, time.Millisecond)
		c.s.ResetCounts()
		release(t, one)
		c.sems = sems[early:]
		waits = append(waits, c.wait()...)
		c.s.Delay(0, 0)
		lease := got(t, waits[0])
		time.Sleep(100 * time.Millisecond)
		require.LessOrEqual(t, taken(t, c.s), leases+most)
		require.Less(t, c.s.Counts()["getChildren2"], 2*clients)
		line, err := c.filler.Waiting(background)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(line), clients-1-most)
		release(t, all)
		release(t, lease)
		c.releaseAll(waits[1:])
		require.Empty(t, c.s.Tree()[locks].Data)
		clean(t, c.s)
	})
}

// A client that may not write to "locks" takes no further lease unseen after one that was not free.
func TestLeasesUnseenWithoutWriteOnLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContention(t, 2, manyLeases)
		perms := framework.PermRead | framework.PermCreate | framework.PermDelete
		require.NoError(t, c.s.SetACL(locks, zktest.ACL{Perms: int32(perms), Scheme: "world", ID: "anyone"}))
		for _, over := range []int{1, 0} {
			for range 2 { // both expect a free lease
				all := c.fill(manyLeases)
				waits := c.wait()
				c.releaseTogether(all)
				c.releaseAll(waits)
			}
			all, one := c.fill(manyLeases-1), c.fill(1)
			waits := c.wait()
			release(t, one)
			lease := got(t, waits[0])
			require.Equal(t, manyLeases+over, taken(t, c.s))
			release(t, lease)
			release(t, got(t, waits[1]))
			release(t, all)
		}
		clean(t, c.s)
	})
}

// The containers of the semaphore are made again, with numbers that seem to continue those of before: the waiter that
// remembers them waits behind the first.
func TestTheLineIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContention(t, 3, manyLeases)
		// Places and moves so far are 6. In the new directory 7 places and 6 moves come before the waiter that remembers.
		for _, dir := range []string{locks, leases} {
			require.NoError(t, c.s.Delete(dir))
			require.NoError(t, c.s.Create(dir, nil))
		}
		require.NoError(t, c.s.SetSequence(locks, 5))
		for range 5 {
			require.NoError(t, c.s.Set(leases, nil))
		}
		all, one := c.fill(manyLeases-1), c.fill(1)
		first := waiting(t, background, c.filler, 1)
		ctx, cancel := context.WithCancel(background)
		leaver := waiting(t, ctx, c.sems[0], 1)
		last := waiting(t, background, c.sems[2], 1)
		require.NoError(t, c.s.Set(leases, nil)) // as if a place had been left with a move
		require.NoError(t, c.s.Set(leases, nil))
		c.s.ResetCounts()
		cancel()
		require.ErrorIs(t, leaver.End().Err, context.Canceled)
		last.Waits()
		require.Zero(t, c.s.Counts()["multi"])
		release(t, one)
		lease := got(t, first)
		last.Waits()
		release(t, lease)
		release(t, got(t, last))
		release(t, all)
		clean(t, c.s)
	})
}

// Of waiters that expect a free lease each is refused once, however many ahead of it give up while the first waits.
func TestARefusedWaiterDoesNotTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContention(t, 5, manyLeases)
		all, one := c.fill(manyLeases-1), c.fill(1)
		first := waiting(t, background, c.sems[0], 1)
		ctx, cancel := context.WithCancel(background)
		var leavers []*call
		var leave []context.CancelFunc
		for _, sem := range c.sems[1:4] {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			leavers, leave = append(leavers, waiting(t, ctx, sem, 1)), append(leave, cancel)
		}
		defer cancel()
		last := waiting(t, background, c.sems[4], 1)
		c.s.ResetCounts()
		for i := len(leavers) - 1; i >= 0; i-- { // each is the predecessor of the last
			leave[i]()
			require.ErrorIs(t, leavers[i].End().Err, context.Canceled)
			last.Waits()
		}
		require.Equal(t, 1, c.s.Counts()["multi"])
		release(t, one)
		release(t, got(t, first))
		release(t, got(t, last))
		release(t, all)
		clean(t, c.s)
	})
}

// The transaction or its reply is lost with the connection: the waiter has one lease in the end, and no place in the line.
// Its next lease is not taken unseen, since it has no count.
func TestALeaseTakenUnseenAfterALostReply(t *testing.T) {
	for _, action := range []zktest.Action{zktest.LoseReply, zktest.CutBefore, zktest.DropRequest} {
		t.Run(action.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newContention(t, 3, manyLeases)
				all := c.fill(manyLeases)
				waits := c.wait()
				fault := c.s.Inject(zktest.Fault{Session: session(t, c.clients[1]), Op: "multi", Action: action})
				c.releaseTogether(all)
				var held []*semaphore.Lease
				for _, w := range waits {
					held = append(held, got(t, w))
				}
				require.Equal(t, 1, fault.Hits())
				require.Equal(t, 3, taken(t, c.s))
				for _, lease := range held {
					require.Equal(t, c.s.Tree()[lease.Paths()[0]].Stat.Czxid, lease.ID())
					release(t, lease)
				}
				clean(t, c.s)
			})
		})
	}
}

// While the transaction is on its way, an administrator deletes the place or "leases", the session is lost, or the caller
// gives up.
func TestALeaseIsNotTakenUnseen(t *testing.T) {
	for name, trouble := range map[string]func(c *contention, stop func()){
		"place deleted":  func(c *contention, _ func()) { require.NoError(c.t, c.s.Delete(c.place(1))) },
		"leases deleted": func(c *contention, _ func()) { require.NoError(c.t, c.s.Delete(leases)) },
		"session lost":   func(c *contention, _ func()) { c.s.Expire(session(c.t, c.clients[1])) },
		"caller leaves":  func(_ *contention, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newContention(t, 3, manyLeases)
				all := c.fill(manyLeases)
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				first := waiting(t, background, c.sems[0], 1)
				second := waiting(t, ctx, c.sems[1], 1)
				third := waiting(t, background, c.sems[2], 1)
				hold := c.s.Inject(zktest.Fault{Session: session(t, c.clients[1]), Op: "multi", Action: zktest.Hold})
				c.releaseTogether(all)
				release(t, got(t, first))
				<-hold.Struck()
				trouble(c, cancel)
				hold.Release()
				release(t, got(t, third))
				if name == "caller leaves" {
					require.ErrorIs(t, second.End().Err, context.Canceled)
				} else {
					release(t, got(t, second))
				}
				clean(t, c.s)
			})
		})
	}
}

// The server refuses writes to "leases" from some time on: the waiters do without.
func TestALeaseTakenUnseenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContention(t, 3, manyLeases)
		all := c.fill(manyLeases)
		waits := c.wait()
		perms := framework.PermRead | framework.PermCreate | framework.PermDelete
		require.NoError(t, c.s.SetACL(leases, zktest.ACL{Perms: int32(perms), Scheme: "world", ID: "anyone"}))
		c.releaseTogether(all)
		for _, w := range waits {
			release(t, got(t, w))
		}
		clean(t, c.s)
	})
}

// A hook ends the goroutine when the wait in the line has ended, with the lease's node made: the node is deleted.
func TestAHookEndsTheGoroutineOfALeaseTakenUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := false
		c := newContention(t, 2, manyLeases, framework.WithHooks(framework.Hooks{
			Wait: func(context.Context, framework.Queue) func(error) {
				return func(error) {
					if ends {
						runtime.Goexit()
					}
				}
			},
		}))
		c.clients[0] = newClient(t, c.s)
		c.sems[0] = semaphore.New(c.clients[0], path, manyLeases)
		all := c.fill(manyLeases)
		first := waiting(t, background, c.sems[0], 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.sems[1].Acquire(background, 1)
		}()
		synctest.Wait()
		ends = true
		c.s.ResetCounts()
		c.releaseTogether(all)
		<-done
		synctest.Wait()
		require.Equal(t, 2, c.s.Counts()["multi"])
		release(t, got(t, first))
		clean(t, c.s)
	})
}
