package line_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

type grantCall = recipetest.Call[*line.Grant]

// wait starts an acquire with a line, for an hour at most.
func wait(t *testing.T, l *line.Line) *grantCall {
	t.Helper()
	return recipetest.Begin(t, func() (*line.Grant, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		return l.Acquire(ctx)
	})
}

// lockLine returns the line of a client's plain locks.
func lockLine(c *framework.Client) *line.Line {
	return &line.Line{Client: c, Dir: dir, Name: "lock-", Order: mutexOrder, Loss: framework.SessionOnly}
}

// newLockLine returns the line of a new client.
func newLockLine(t *testing.T, s *zktest.Server, opts ...framework.Option) *line.Line {
	return lockLine(recipetest.Client(t, s, opts...))
}

// ownNode returns the path of the last node in the line.
func ownNode(t *testing.T, s *zktest.Server) string {
	t.Helper()
	names := mutexOrder.Contenders(nodes(t, s, []string{dir}))
	return dir + "/" + names[len(names)-1]
}

// The requests of a line in which each holder releases: no waiter lists again.
func TestRequestsOfALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		l := lockLine(r.c)
		synctest.Wait()
		r.s.ResetCounts()
		first := wait(t, l).OK()
		recipetest.Counts(t, r.s, "free", map[string]int{"create2": 1, "getChildren2": 1})
		second := wait(t, l).Waits()
		recipetest.Counts(t, r.s, "behind a holder", map[string]int{"create2": 1, "getChildren2": 1, "getData": 1, "setWatches": 1})
		third := wait(t, l).Waits()
		recipetest.Counts(t, r.s, "behind a waiter", map[string]int{"create2": 1, "getChildren2": 1, "getData": 1, "setWatches": 1})
		require.False(t, first.Waited)
		r.release(first)
		require.True(t, second.OK().Waited)
		recipetest.Counts(t, r.s, "released by a holder that has not waited", map[string]int{"delete": 1})
		r.release(second.OK())
		third.OK()
		recipetest.Counts(t, r.s, "released by a holder that has waited, which leaves a mark", map[string]int{"multi": 1})

		// A waiter whose context ends leaves no mark.
		ctx, cancel := context.WithCancel(t.Context())
		leaver := recipetest.Begin(t, func() (*line.Grant, error) { return l.Acquire(ctx) }).Waits()
		last := wait(t, l).Waits()
		r.s.ResetCounts()
		cancel()
		require.ErrorContains(t, leaver.End().Err, third.OK().Name+
			", which is of this client (to re-enter a lock, acquire with its Context), with 1 ahead in line")
		last.Waits()
		recipetest.Counts(t, r.s, "one gives up", map[string]int{"removeWatches": 1, "delete": 1, "getChildren2": 1, "getData": 1})
		r.release(third.OK())
		r.release(last.OK())
		recipetest.Clean(t, r.s, dir)
	})
}

// For a recipe with another proof that a predecessor was the first: no watch on the own node, and no marks.
func TestRequestsOfALineWithAnotherProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		l := lockLine(r.c)
		synctest.Wait()
		for _, conclusion := range []line.Succession{line.WasFirst, line.Unproven} {
			r.s.ResetCounts()
			acquire := func(context.Context) (*line.Grant, error) {
				return l.AcquireWith(context.Background(),
					func(context.Context, *framework.Session, line.Position, line.Directory) (line.Succession, error) {
						return conclusion, nil
					})
			}
			calls := []*grantCall{}
			for range 3 {
				calls = append(calls, recipetest.Begin(t, func() (*line.Grant, error) { return acquire(t.Context()) }))
				synctest.Wait()
			}
			recipetest.Counts(t, r.s, "three", map[string]int{"create2": 3, "getChildren2": 3, "getData": 2})
			for i, call := range calls {
				r.release(call.OK())
				want := map[string]int{"delete": 1}
				if conclusion == line.Unproven && i < 2 {
					want["getChildren2"] = 1
				}
				recipetest.Counts(t, r.s, "released", want)
			}
		}
		recipetest.Clean(t, r.s, dir)
	})
}

// A waiter whose node another client has written to lists before it holds, and reads the node, which may be another one: then it
// rejoins the line, and does not delete that node.
func TestAWaiterWhoseNodeIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		var log recipetest.Log
		c := recipetest.Client(t, r.s, framework.WithLogger(log.Logger()))
		holder, middle := wait(t, lockLine(r.c)).OK(), wait(t, lockLine(r.c)).Waits()
		waiter := wait(t, lockLine(c)).Waits()
		r.s.ResetCounts()
		require.NoError(t, r.s.Set(ownNode(t, r.s), []byte("x")))
		recipetest.Counts(t, r.s, "two reads", map[string]int{"exists": 2})
		r.release(holder)
		recipetest.Counts(t, r.s, "released", map[string]int{"delete": 1})
		r.release(middle.OK())
		recipetest.Counts(t, r.s, "released behind it", map[string]int{"multi": 1, "getChildren2": 1})
		holder = waiter.OK()

		// The list has another predecessor: the own node is read, and watched again.
		ctx, cancel := context.WithCancel(t.Context())
		middle = recipetest.Begin(t, func() (*line.Grant, error) { return lockLine(r.c).Acquire(ctx) }).Waits()
		waiter = wait(t, lockLine(c)).Waits()
		require.NoError(t, r.s.Set(ownNode(t, r.s), []byte("x")))
		synctest.Wait()
		r.s.ResetCounts()
		cancel()
		require.ErrorIs(t, middle.End().Err, context.Canceled)
		recipetest.Counts(t, r.s, "a list, and two reads", map[string]int{"removeWatches": 2, "delete": 1, "getChildren2": 1, "getData": 2})
		r.release(holder)
		recipetest.Counts(t, r.s, "no list", map[string]int{"multi": 1})
		r.release(waiter.OK())

		for _, same := range []bool{false, true} { // whether the node's session is the waiter's
			holder = wait(t, lockLine(r.c)).OK()
			waiter = wait(t, lockLine(c)).Waits()
			own, owner := ownNode(t, r.s), recipetest.Session(t, r.c)
			if same {
				owner = recipetest.Session(t, c)
			}
			require.NoError(t, r.s.Set(own, []byte("x")))
			synctest.Wait()
			require.NoError(t, r.s.Delete(own))
			_, err := r.s.CreateNode(own, nil, zktest.Ephemeral, owner)
			require.NoError(t, err)
			time.Sleep(20 * time.Second) // the next reads show the other node
			waiter.Waits()
			require.NotEqual(t, own, ownNode(t, r.s), "it is in line again")
			require.Contains(t, log.String(), "rejoining at the end")
			require.NoError(t, r.s.Delete(own))
			r.release(holder)
			r.release(waiter.OK())
			recipetest.Clean(t, r.s, dir)

			// The same while the caller's context ends.
			holder = wait(t, lockLine(r.c)).OK()
			ctx, cancel := context.WithCancel(t.Context())
			leaver := recipetest.Begin(t, func() (*line.Grant, error) { return lockLine(c).Acquire(ctx) }).Waits()
			own = ownNode(t, r.s)
			require.NoError(t, r.s.Set(own, []byte("x")))
			if synctest.Wait(); same {
				require.NoError(t, r.s.Delete(own))
				_, err := r.s.CreateNode(own, nil, zktest.Ephemeral, owner)
				require.NoError(t, err)
			}
			cancel()
			require.ErrorIs(t, leaver.End().Err, context.Canceled)
			synctest.Wait()
			require.Equal(t, same, r.s.Exists(own), "only the own node is deleted")
			r.release(holder)
			if same {
				require.NoError(t, r.s.Delete(own))
			}
			recipetest.Clean(t, r.s, dir)
		}
	})
}

// The own node is replaced at the grant: the other node is neither held nor deleted.
func TestAWaiterWhoseNodeIsReplacedAtTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		other, replaced := recipetest.Session(t, r.c), ""
		waiter := newLockLine(t, r.s, framework.WithHooks(framework.Hooks{
			Hold: func(ctx context.Context, h framework.HoldInfo) (context.Context, func(error)) {
				if replaced == "" {
					replaced = h.Path
					require.NoError(t, r.s.Delete(h.Path))
					_, err := r.s.CreateNode(h.Path, nil, zktest.Ephemeral, other)
					require.NoError(t, err)
					time.Sleep(time.Second)
				}
				return ctx, nil
			},
		}))
		holder := wait(t, lockLine(r.c)).OK()
		call := wait(t, waiter).Waits()
		r.release(holder)
		time.Sleep(time.Minute)
		call.Waits()
		require.True(t, r.s.Exists(replaced))
		require.NotEqual(t, replaced, ownNode(t, r.s), "it is in line again")
		require.NoError(t, r.s.Delete(replaced))
		r.release(call.OK())
		recipetest.Clean(t, r.s, dir)
	})
}

// A server sends no events of nodes that the client may not read any more. The reads about once per session timeout show that the
// predecessor's node is deleted, or the own node; otherwise they have no effect.
func TestAWaiterWhoseEventsAreLost(t *testing.T) {
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t, zktest.Config{Profile: zktest.V38})
			require.NoError(t, s.Create(dir, nil))
			var log recipetest.Log
			holder := wait(t, newLockLine(t, s)).OK()
			waiter := wait(t, newLockLine(t, s, framework.WithLogger(log.Logger()))).Waits()
			path := holder.Path
			if own {
				path = ownNode(t, s)
			}
			require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 2, Scheme: "world", ID: "anyone"}))
			s.ResetCounts()
			time.Sleep(time.Minute)
			require.Zero(t, s.Counts()["getChildren2"])
			if own {
				require.NoError(t, s.Delete(path))
			} else {
				require.NoError(t, holder.Release(t.Context()))
			}
			require.True(t, waiter.Pending(), "the event is lost")
			require.NotContains(t, log.String(), "no watch event came")
			time.Sleep(13 * time.Second)
			require.Equal(t, !own, strings.Contains(log.String(), "no watch event came"))
			if own {
				require.NotEqual(t, path, ownNode(t, s), "it is in line again")
				require.NoError(t, holder.Release(t.Context()))
			}
			require.NoError(t, waiter.OK().Release(t.Context()))
			recipetest.Clean(t, s, dir)
		})
	}
}

// A client that may not read its own nodes lists before each grant; it still gets one.
func TestAWaiterThatMayNotReadItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		holder := wait(t, lockLine(r.c)).OK()
		waiter := wait(t, newLockLine(t, r.s, framework.WithDefaultACL(
			framework.ACL{Perms: framework.PermWrite, Scheme: "world", ID: "anyone"}))).Waits()
		r.s.ResetCounts()
		r.release(holder)
		recipetest.Counts(t, r.s, "released", map[string]int{"delete": 1, "getChildren2": 1})
		r.release(waiter.OK())
		recipetest.Clean(t, r.s, dir)
	})
}

// A waiter that may not read its predecessor's node watches the directory, and holds as soon as that node is deleted.
func TestAWaiterThatMayNotReadItsPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(dir, nil))
		var log recipetest.Log
		secret := newLockLine(t, s, framework.WithAuth("digest", []byte("a:a")), framework.WithDefaultACL(framework.CreatorACL()...))
		l := newLockLine(t, s, framework.WithLogger(log.Logger()))
		first := wait(t, secret).OK()
		middle := wait(t, secret).Waits()
		waiter := wait(t, l).Waits()
		s.ResetCounts()
		require.NoError(t, first.Release(t.Context()))
		middle.OK()
		waiter.Waits()
		recipetest.Counts(t, s, "another node is deleted", map[string]int{"delete": 1, "getChildren2": 1})
		behind := wait(t, l).Waits() // it can read its predecessor's node
		began := time.Now()
		require.NoError(t, middle.OK().Release(t.Context()))
		require.NoError(t, waiter.OK().Release(t.Context()))
		require.NoError(t, behind.OK().Release(t.Context()))
		require.Zero(t, time.Since(began))
		require.Equal(t, 1, strings.Count(log.String(), "watching the parent's children instead"))
		recipetest.Clean(t, s, dir)
	})
}

// The predecessor's node is deleted before the waiter has armed a watch on it.
func TestAWaiterWhosePredecessorIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		l := newLockLine(t, r.s)
		for _, before := range []bool{false, true} { // the holder has waited, so that it leaves a mark
			holder := wait(t, lockLine(r.c)).OK()
			if before {
				next := wait(t, lockLine(r.c)).Waits()
				r.release(holder)
				holder = next.OK()
			}
			reads := r.s.Inject(zktest.Fault{Op: "getData", PathPrefix: dir, Action: zktest.Hold})
			waiter := wait(t, l)
			<-reads.Struck()
			r.release(holder)
			r.s.ResetCounts()
			reads.Release()
			r.release(waiter.OK())
			require.Equal(t, 1, r.s.Counts()["getChildren2"])
			recipetest.Clean(t, r.s, dir)
		}
	})
}

// The hooks get the place in line, and how the wait has ended. Data of a hook are used only if the recipe has none.
func TestReportsOfAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig(t)
		holder := wait(t, lockLine(r.c)).OK()
		require.NoError(t, r.s.Create(dir+"/config", nil))
		require.NoError(t, r.s.Set(holder.Path, []byte("me")))
		var queue, waits []framework.Queue
		var ended []error
		c := recipetest.Client(t, r.s, framework.WithHooks(framework.Hooks{
			Queue: func(q framework.Queue) { queue = append(queue, q) },
			Wait: func(_ context.Context, q framework.Queue) func(error) {
				waits = append(waits, q)
				return func(err error) { ended = append(ended, err) }
			},
			NodeData: func(context.Context, framework.Acquisition) []byte { return []byte("hook") },
		}))
		l := lockLine(c)
		l.Recipe = "lock"
		waiter := wait(t, l).Waits()
		name := ownNode(t, r.s)[len(dir)+1:]
		want := framework.Queue{
			Recipe: "lock", Path: dir, Node: name, Length: 2, Ahead: 1, Predecessor: holder.Name, Foreign: 1,
			SequenceLeft: line.SequenceLimit - 3,
		}
		require.Equal(t, []framework.Queue{want}, queue)
		want.PredecessorSession, want.PredecessorToken, want.PredecessorData = holder.Session.ID(), holder.Czxid, []byte("me")
		require.Equal(t, []framework.Queue{want}, waits)
		data, _, err := r.s.Get(ownNode(t, r.s))
		require.NoError(t, err)
		require.Equal(t, "hook", string(data))
		r.release(holder)
		holder = waiter.OK()
		require.Equal(t, []error{nil}, ended)

		for _, own := range []string{"", "recipe"} {
			l = lockLine(c)
			if own != "" {
				l.Data = []byte(own)
			}
			l.MakeRevocable() // its data would replace the hook's
			ctx, cancel := context.WithCancel(t.Context())
			leaver := recipetest.Begin(t, func() (*line.Grant, error) { return l.Acquire(ctx) }).Waits()
			data, _, err = r.s.Get(ownNode(t, r.s))
			require.NoError(t, err)
			require.Equal(t, own, string(data))
			cancel()
			require.ErrorIs(t, leaver.End().Err, context.Canceled)
			require.ErrorIs(t, ended[len(ended)-1], context.Canceled)
			synctest.Wait()
		}
		waiter = wait(t, l).Waits()
		require.NoError(t, c.Close())
		require.ErrorIs(t, waiter.End().Err, framework.ErrClosed)
		require.ErrorIs(t, ended[len(ended)-1], framework.ErrClosed)
		require.ErrorIs(t, holder.Release(t.Context()), framework.ErrClosed)
	})
}

// Unusual names in the directory are logged once: those of which a Java client counts one as ahead, and large numbers.
func TestWarningsOfALine(t *testing.T) {
	for child, text := range map[string]string{"0": "clients wait for it", "config": "this client ignores it\"", "": ""} {
		synctest.Test(t, func(t *testing.T) {
			r := newLineRig(t)
			var log recipetest.Log
			l := newLockLine(t, r.s, framework.WithLogger(log.Logger()))
			if child != "" {
				require.NoError(t, r.s.Create(dir+"/"+child, nil))
			}
			for _, next := range []struct {
				number   int32
				warnings int
			}{{1<<30 - 1, 0}, {1 << 30, 1}, {1<<30 + 1, 1}} {
				require.NoError(t, r.s.SetSequence(dir, next.number))
				r.release(wait(t, l).OK())
				require.Equal(t, next.warnings, strings.Count(log.String(), "half of the sequence numbers"))
			}
			require.Contains(t, log.String(), "left=1072693248")
			require.Equal(t, min(len(child), 1), strings.Count(log.String(), "not a contender"))
			require.Contains(t, log.String(), text)
		})
	}
}
