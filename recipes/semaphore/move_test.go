package semaphore_test

import (
	"context"
	"slices"
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

// stranger creates the lease node of a client that is not in the line.
func stranger(t *testing.T, s *zktest.Server, c *framework.Client) (remove func()) {
	t.Helper()
	path, err := c.Create().WithMode(framework.EphemeralSequential).WithProtection().
		ForPath(background, leases+"/lease-", nil)
	require.NoError(t, err)
	synctest.Wait()
	return func() { require.NoError(t, s.Delete(path)) }
}

// The watch of the first in the line fires for the create of a lease, and none was released. The waiter leaves the line in vain
// and waits with its lease node. It is granted before later waiters, and not while there are too many leases.
func TestWrongGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		sem := semaphore.New(newClient(t, s), path, 2)
		one, other := acquire(t, sem, 1), acquire(t, sem, 1)
		first := waiting(t, background, sem, 1)
		second := waiting(t, background, sem, 1)
		gone := stranger(t, s, c)
		require.True(t, first.Pending() && second.Pending())
		require.Equal(t, 4, taken(t, s))
		line, err := sem.Waiting(background)
		require.NoError(t, err)
		require.Len(t, line, 1)

		release(t, one)
		require.True(t, first.Pending() && second.Pending(), "three are taken")
		gone()
		lease := got(t, first)
		second.Waits()
		release(t, other)
		release(t, got(t, second))
		release(t, lease)
		clean(t, s)
	})
}

// A waiter that waits with its lease node gives up.
func TestWrongGuessGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		sem := semaphore.New(newClient(t, s), path, 1)
		lease := acquire(t, sem, 1)
		ctx, cancel := context.WithCancel(background)
		waiter := waiting(t, ctx, sem, 1)
		gone := stranger(t, s, newClient(t, s))
		require.Equal(t, 3, taken(t, s))
		cancel()
		require.ErrorIs(t, waiter.End().Err, context.Canceled)
		require.Equal(t, 2, taken(t, s))
		gone()
		release(t, lease)
		clean(t, s)
	})
}

// The transaction or its reply is lost with the connection: in the end there is one lease, within the limit, and no place in the
// line.
func TestMoveAfterALostReply(t *testing.T) {
	for _, action := range []zktest.Action{zktest.LoseReply, zktest.CutBefore, zktest.DropRequest} {
		t.Run(action.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s)
				sem := semaphore.New(c, path, 1)
				lease := acquire(t, semaphore.New(newClient(t, s), path, 1), 1)
				waiter := waiting(t, background, sem, 1)
				fault := s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: action})
				release(t, lease)
				lease = got(t, waiter)
				require.Equal(t, 1, fault.Hits())
				require.Equal(t, 1, taken(t, s))
				require.Equal(t, s.Tree()[lease.Paths()[0]].Stat.Czxid, lease.ID())
				release(t, lease)
				clean(t, s)
			})
		})
	}
}

// The waiter leaves the line in vain, and the reply is lost: the lease that it finds by its name must not count as within the
// limit.
func TestWrongGuessAfterALostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		sem := semaphore.New(c, path, 1)
		lease := acquire(t, semaphore.New(newClient(t, s), path, 1), 1)
		waiter := waiting(t, background, sem, 1)
		fault := s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.LoseReply})
		gone := stranger(t, s, newClient(t, s))
		time.Sleep(time.Second)
		require.Equal(t, 1, fault.Hits())
		waiter.Waits()
		release(t, lease)
		waiter.Waits()
		gone()
		release(t, got(t, waiter))
		clean(t, s)
	})
}

// An administrator deletes the place of the first in the line, which then waits at the end.
func TestMoveFromAPlaceThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		sem := semaphore.New(c, path, 1)
		lease := acquire(t, semaphore.New(newClient(t, s), path, 1), 1)
		first := waiting(t, background, sem, 1)
		second := waiting(t, background, semaphore.New(newClient(t, s), path, 1), 1)
		hold := s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
		line, err := sem.Waiting(background)
		require.NoError(t, err)
		release(t, lease)
		<-hold.Struck()
		require.NoError(t, s.Delete(line[0].Path))
		lease = got(t, second)
		hold.Release()
		first.Waits()
		require.Equal(t, 1, taken(t, s))
		release(t, lease)
		release(t, got(t, first))
		clean(t, s)
	})
}

// The move also works without WRITE on "leases", and with data in that node: the data stays.
func TestMoveIsRefused(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *zktest.Server, *framework.Client){
		"no permission": func(t *testing.T, _ *zktest.Server, c *framework.Client) {
			acl := framework.ACL{Perms: framework.PermAll &^ framework.PermWrite, Scheme: "world", ID: "anyone"}
			_, err := c.SetACL().WithACL(acl).ForPath(background, leases)
			require.NoError(t, err)
		},
		"data": func(t *testing.T, s *zktest.Server, _ *framework.Client) {
			require.NoError(t, s.Set(leases, []byte("x")))
		},
		"data at once": func(*testing.T, *zktest.Server, *framework.Client) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create(leases, nil))
				c := newClient(t, s)
				prepare(t, s, c)
				sem := semaphore.New(c, path, 1)
				lease := acquire(t, sem, 1)
				a, b := waiting(t, background, sem, 1), waiting(t, background, sem, 1)
				if name == "data at once" {
					require.NoError(t, s.Set(leases, []byte("x")))
				}
				release(t, lease)
				lease = got(t, a)
				b.Waits()
				before := s.Counts()["multi"]
				release(t, lease)
				release(t, got(t, b))
				require.Equal(t, before, s.Counts()["multi"], "it is not tried again")
				if name != "no permission" {
					require.Equal(t, "x", string(s.Tree()[leases].Data))
				}
				clean(t, s)
			})
		})
	}
}

// The lease's name has the UUID of its place in the line.
func TestLeaseIsNamedAfterItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		sem := semaphore.New(newClient(t, s), path, 1)
		lease := acquire(t, sem, 1)
		waiter := waiting(t, background, sem, 1)
		line, err := sem.Waiting(background)
		require.NoError(t, err)
		release(t, lease)
		lease = got(t, waiter)
		place, _, _ := zkpath.ParseProtected(line[0].Name)
		own, _, _ := zkpath.ParseProtected(lease.Nodes()[0])
		require.Equal(t, place, own)
		release(t, lease)
		clean(t, s)
	})
}

// A waiter in the middle of the line gives up, or its session expires. The waiter behind it does not pass those ahead, with taken
// and with free leases, even if it was granted in this line before.
func TestNobodyPassesWhenSomebodyGivesUp(t *testing.T) {
	for _, expires := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			mid := newClient(t, s)
			last := semaphore.NewMutex(newClient(t, s), path)
			front := semaphore.NewMutex(newClient(t, s), path)
			lock, err := front.Acquire(background)
			require.NoError(t, err)
			served := recipetest.Begin(t, func() (*semaphore.Lock, error) { return last.Acquire(background) }) // so that it knows the numbers
			served.Waits()
			require.NoError(t, lock.Release(background))
			lock, err = served.End().Value, served.Err
			require.NoError(t, err)

			order := make(chan string, 3)
			enter := func(name string, m *semaphore.Mutex, ctx context.Context) {
				go func() {
					lock, err := m.Acquire(ctx)
					if err == nil {
						order <- name
						time.Sleep(time.Second)
						_ = lock.Release(background)
					}
				}()
				synctest.Wait()
			}
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			enter("first", front, background)
			enter("mid", semaphore.NewMutex(mid, path), ctx)
			enter("last", last, background)
			if expires {
				s.Expire(session(t, mid))
				synctest.Wait()
			} else {
				cancel()
				synctest.Wait()
			}
			require.NoError(t, lock.Release(background))
			require.Equal(t, "first", <-order)
			require.Equal(t, "last", <-order)
			cancel()
			time.Sleep(time.Minute)
			clean(t, s)
		})
	}
}

// The caller's context, derived from another lock, ends with that lock's loss while the transaction is in flight: this is no loss
// of the caller's place, which is deleted.
func TestMoveGivenUpByAnotherLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		sem := semaphore.New(c, path, 1)
		lease := acquire(t, semaphore.New(newClient(t, s), path, 1), 1)
		ctx, cancel := context.WithCancelCause(background)
		waiter := waiting(t, ctx, sem, 1)
		fault := s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.DropRequest})
		release(t, lease)
		waiter.Waits()
		require.Equal(t, 1, fault.Hits())
		cancel(framework.ErrNodeDeleted)
		require.ErrorIs(t, waiter.End().Err, context.Canceled)
		time.Sleep(30 * time.Second)
		clean(t, s)
	})
}

// The node of a lease is deleted before the grant, and another client creates a node with its name: that node stays, no matter
// whether the lease was created by the transaction of the first in the line or by a caller without a place. Such a caller reads
// the node before it deletes it; the other node is created before that read, or after it.
func TestANodeUnderTheNameOfADeletedLeaseStays(t *testing.T) {
	for name, row := range map[string]struct {
		moves bool
		after zktest.Op // the request that comes after the create of the other client's node
	}{
		"of the first in the line":              {true, zktest.OpDelete},
		"of a caller without a place":           {false, zktest.OpDelete},
		"of a caller that reads the other node": {false, zktest.OpExists},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				a, b := newClient(t, s), newClient(t, s)
				list := zktest.Fault{Session: session(t, b), Op: zktest.OpGetChildren2, PathPrefix: leases, Action: zktest.Hold}
				if !row.moves {
					list.After = 2 // skips the list of the check, and the one sent with the create, which finds no directory
				}
				sem := semaphore.New(b, path, 1)
				var held *zktest.Injection
				var caller *call
				if row.moves {
					lease := acquire(t, semaphore.New(a, path, 1), 1)
					caller = waiting(t, background, sem, 1)
					require.NoError(t, s.Create(leases+"/stray", nil)) // with this child only a list can decide about the lease
					synctest.Wait()
					held = s.Inject(list)
					release(t, lease)
				} else {
					held = s.Inject(list)
					caller = begin(t, background, sem, 1)
				}
				<-held.Struck()
				children, err := s.Children(leases)
				require.NoError(t, err)
				i := slices.IndexFunc(children, func(name string) bool { return name != "stray" })
				node := leases + "/" + children[i]
				require.NoError(t, s.Delete(node))
				request := s.Inject(zktest.Fault{Session: session(t, b), Op: row.after, PathPrefix: node, Action: zktest.Hold})
				held.Release()
				synctest.Wait()
				_, err = s.CreateNode(node, nil, zktest.Ephemeral, session(t, a))
				require.NoError(t, err)
				request.Release()
				request.Remove()
				time.Sleep(time.Second)
				require.NoError(t, s.Delete(node), "it is another client's")
				release(t, got(t, caller))
			})
		})
	}
}
