package leader_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// Several goroutines call Health of a latch while it begins to lead: a probe, a collector of metrics, the latch itself. A call
// that starts before the term and ends after its begin must not change Since.
func TestHealthAskedByMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		const latches, callers, questions = 100, 4, 300
		start := time.Now()
		var all []*leader.Latch
		var asking sync.WaitGroup
		for i := range latches {
			l, err := leader.NewLatch(c, fmt.Sprintf("/leaders/%d", i))
			require.NoError(t, err)
			defer l.Close()
			all = append(all, l)
			for range callers {
				asking.Go(func() {
					for range questions {
						l.Health()
					}
				})
			}
		}
		asking.Wait()
		time.Sleep(time.Minute)
		for _, l := range all {
			require.Equal(t, leader.Health{Role: leader.Leading, Since: start}, l.Health())
		}
	})
}

// The node of a lost session does not count: until the latch has joined the line again its role is unknown.
func TestHealthAfterALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		join(t, newClient(t, s))
		c := newClient(t, s)
		l := join(t, c)
		follows(t, l)
		joining := s.Inject(zktest.Fault{Op: zktest.OpCreate2, PathPrefix: path, Action: zktest.Hold})
		s.Expire(session(t, c))
		<-joining.Struck()
		synctest.Wait()
		require.True(t, c.State().State.IsConnected())
		require.Equal(t, leader.Unknown, l.Health().Role)
		require.ErrorContains(t, l.Health().Err, "still joining")
		joining.Release()
		follows(t, l)
	})
}

// A failure to join, or a place in the line, counts until the participant leads or leaves: while it joins once more, its role is
// unknown for no other reason.
func TestHealthForgetsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		mayRead, mayAll := zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}, zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}
		require.NoError(t, s.Create(path, nil))
		joins := func(what string, health func() leader.Health, begin func()) {
			t.Helper()
			joining := s.Inject(zktest.Fault{Op: zktest.OpCreate2, PathPrefix: path, Action: zktest.Hold})
			begin()
			<-joining.Struck()
			synctest.Wait()
			require.Equal(t, leader.Unknown, health().Role, what)
			require.ErrorContains(t, health().Err, "still joining", what)
			joining.Release()
			synctest.Wait()
		}

		require.NoError(t, s.SetACL(path, mayRead))
		l := join(t, newClient(t, s))
		require.ErrorIs(t, l.Health().Err, framework.ErrNoAuth)
		require.NoError(t, s.SetACL(path, mayAll))
		term := await(t, l)
		time.Sleep(time.Second) // the watch of its node is armed
		joins("a latch that was refused before its last term", l.Health, func() {
			require.NoError(t, s.Delete(term.Path()))
		})
		await(t, l)
		left(t, l)

		stopFirst := runs(t, newSelector(t, newClient(t, s), untilOver))
		c := newClient(t, s)
		sel := newSelector(t, c, untilOver)
		stop := runs(t, sel)
		require.Equal(t, leader.Following, sel.Health().Role)
		require.ErrorIs(t, stop(), context.Canceled)
		joins("a selector that was in the line in its last Run", sel.Health, func() { stop = runs(t, sel) })
		require.Equal(t, leader.Following, sel.Health().Role)
		require.ErrorIs(t, stop(), context.Canceled)
		require.ErrorIs(t, stopFirst(), context.Canceled)

		s.Stop()
		time.Sleep(time.Minute)
		stop = runs(t, sel)
		time.Sleep(5 * time.Minute)
		require.ErrorIs(t, stop(), context.Canceled)
		require.NoError(t, s.Start())
		require.NoError(t, c.WaitConnected(background))
		joins("a selector that had no connection in its last Run", sel.Health, func() { stop = runs(t, sel) })
		require.ErrorIs(t, stop(), context.Canceled)
	})
}
