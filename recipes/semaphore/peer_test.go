package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// peer is a contender that follows Curator's InterProcessSemaphoreV2 step by step: it locks, creates its node, and waits until
// all children together are at most max. (It has a hold, so that a test notices the lease's loss.)
type peer struct {
	client *framework.Client
	max    int
}

type peerLease struct {
	hold *framework.Hold
	view *framework.Client
	path string
}

func (p peer) acquire(ctx context.Context) (*peerLease, error) {
	session, err := p.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	view := session.Client()
	unlock, err := javaLock(ctx, view)
	if err != nil {
		return nil, err
	}
	defer unlock()
	path, err := view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		CreatingParentContainersIfNeeded().ForPath(ctx, leases+"/lease-", nil)
	if err != nil {
		return nil, err
	}
	lease := &peerLease{view: view, path: path}
	for {
		children, watch, err := view.GetChildren().WithWatch().ForPath(ctx, leases)
		if err == nil && !slices.Contains(children, zkpath.Base(path)) {
			watch.Stop()
			err = framework.ErrNodeDeleted
		}
		if err == nil && len(children) <= p.max {
			watch.Stop()
			lease.hold, err = session.Hold(ctx, framework.HoldOptions{Path: path, Loss: framework.SessionOnly})
			if err == nil {
				return lease, nil
			}
		}
		if err == nil {
			select {
			case <-watch.C:
				continue
			case <-ctx.Done():
				watch.Stop()
				err = ctx.Err()
			}
		}
		_ = lease.release(background)
		return nil, err
	}
}

// javaLock waits in the semaphore's line with a UUID of version 4, as Curator does, and returns when it is first.
func javaLock(ctx context.Context, view *framework.Client) (unlock func(), err error) {
	guid := []byte(zkpath.NewGUID())
	guid[14] = '4'
	mine := func(name string) bool { return strings.HasPrefix(name, zkpath.Protect(string(guid), "")) }
	unlock = func() { // until the node is certainly deleted, even if the create's reply was lost
		for gone := 0; gone < 2; gone++ {
			names, err := view.GetChildren().ForPath(background, locks)
			if errors.Is(err, framework.ErrSessionLost) || errors.Is(err, framework.ErrClosed) {
				return
			}
			if i := slices.IndexFunc(names, mine); i >= 0 {
				err, gone = view.Delete().Quietly().ForPath(background, zkpath.Join(locks, names[i])), 0
			}
			if err != nil {
				gone = -1
			}
			if gone < 1 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	create := view.Create().WithMode(framework.EphemeralSequential).CreatingParentContainersIfNeeded()
	path, err := create.ForPath(ctx, zkpath.Join(locks, zkpath.Protect(string(guid), "lock-")), nil)
	for err == nil {
		names, watch, failed := view.GetChildren().WithWatch().ForPath(ctx, locks)
		if err = failed; err != nil {
			break
		}
		number := func(name string) string { return name[max(0, len(name)-10):] }
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(number(a), number(b)) })
		i := slices.IndexFunc(names, mine)
		if i <= 0 {
			watch.Stop()
		}
		switch {
		case i == 0:
			return unlock, nil
		case i < 0:
			err = fmt.Errorf("%s: %w", path, framework.ErrNodeDeleted)
			continue
		}
		select {
		case <-watch.C:
		case <-ctx.Done():
			watch.Stop()
			err = ctx.Err()
		}
	}
	unlock()
	return nil, err
}

func (l *peerLease) release(ctx context.Context) error {
	if l.hold != nil {
		l.hold.End(nil)
	}
	return l.view.Delete().Quietly().Guaranteed().ForPath(ctx, l.path)
}

// Leases pass between callers of this library and of Curator, with several waiters of both.
func TestCuratorsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		const max = 2
		sem, theirs := semaphore.New(newClient(t, s), path, max), peer{newClient(t, s), max}
		order := make(chan string, 20)
		var waiters int
		ours := func() {
			waiters++
			go func() {
				lease, err := sem.Acquire(background, 1)
				if err == nil {
					order <- "ours"
					time.Sleep(time.Second)
					err = lease.Release(background)
				}
				if err != nil {
					order <- err.Error()
				}
			}()
			synctest.Wait()
		}
		curators := func() {
			waiters++
			go func() {
				lease, err := theirs.acquire(background)
				if err == nil {
					order <- "curator's"
					time.Sleep(time.Second)
					err = lease.release(background)
				}
				if err != nil {
					order <- err.Error()
				}
			}()
			synctest.Wait()
		}
		ours()
		curators()
		for range 4 {
			ours()
			curators()
		}
		for range waiters / 2 {
			require.Equal(t, "ours", <-order)
			require.Equal(t, "curator's", <-order)
		}
		time.Sleep(2 * time.Second)
		clean(t, s)
	})
}

// Curator's waiter creates its node in "leases" before it has a lease: its node and this library's must not make both wait for
// each other.
func TestCuratorsWaiterAndOurRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		require.NoError(t, a.CreateContainers(background, leases))
		sem, theirs := semaphore.New(a, path, 1), peer{b, 1}
		// This library's caller finds the semaphore free, and Curator's node is created before its own.
		hold := s.Inject(zktest.Fault{Session: session(t, a), Op: "create2", Action: zktest.Hold})
		ours := begin(t, background, sem, 1)
		<-hold.Struck()
		first, err := theirs.acquire(background)
		require.NoError(t, err)
		second := make(chan *peerLease, 1)
		go func() {
			lease, err := theirs.acquire(background)
			if err == nil {
				second <- lease
			}
		}()
		require.True(t, pending(second))
		hold.Release()
		require.True(t, ours.Pending() && pending(second))
		require.Equal(t, 2, taken(t, s), "first and second")
		require.NoError(t, first.release(background))
		lease := <-second
		ours.Waits()
		require.NoError(t, lease.release(background))
		release(t, got(t, ours))
		clean(t, s)
	})
}

// A lease of no session is taken for ever: the first waiter logs that, once, even if other holders hold longer.
func TestALeaseOfNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		sem := semaphore.New(c, path, 3)
		said := func() int { return strings.Count(log.String(), "not an ephemeral node") }
		held := acquire(t, sem, 2)
		stranger, err := s.CreateNode(leases+"/lease-", nil, zktest.PersistentSequential, 0)
		require.NoError(t, err)
		waiter, next := waiting(t, background, sem, 1), waiting(t, background, sem, 1)
		time.Sleep(time.Second)
		require.Zero(t, said())
		reads := s.Inject(zktest.Fault{
			Op: "exists", PathPrefix: leases, Session: session(t, c), Times: -1, Action: zktest.DelayReply, Delay: time.Millisecond,
		})
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1, said())
		require.Contains(t, log.String(), stranger)
		require.Equal(t, 3, reads.Hits(), "each lease is read once")
		release(t, held)
		release(t, got(t, waiter))
		release(t, got(t, next))
		waiter = waiting(t, background, sem, 3)
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1, said())
		require.NoError(t, s.Delete(stranger))
		release(t, got(t, waiter))
		clean(t, s)
	})
}
