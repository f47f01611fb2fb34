package barrier_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func TestEnterTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var calls []*call[*barrier.Member]
		for range 4 {
			calls = append(calls, entering(t, background, barrier.NewDouble(newClient(t, s), path, 5)))
		}
		time.Sleep(time.Hour)
		for _, c := range calls {
			c.Waits()
		}
		last := enter(t, barrier.NewDouble(newClient(t, s), path, 5))
		for _, c := range calls {
			require.NoError(t, c.OK().Context().Err())
		}
		require.NoError(t, last.Context().Err())
	})
}

// Golden test: Curator for Java writes the same (docs/znodes.md).
func TestLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithDefaultData([]byte("10.0.0.1")))
		require.NoError(t, barrier.New(c, "/gates/a").Set(background))
		plain := enter(t, barrier.NewDouble(c, path, 1))
		named := enter(t, barrier.NewDouble(c, path, 1, barrier.WithNodeData([]byte("host-7"))))

		tree := s.Tree()
		type node struct {
			mode zktest.Mode
			data string
		}
		got := map[string]node{}
		for p, n := range tree {
			got[p] = node{n.Mode, string(n.Data)}
		}
		require.Equal(t, map[string]node{
			"/":             {zktest.Persistent, ""},
			"/gates":        {zktest.Container, ""},
			"/gates/a":      {zktest.Persistent, "10.0.0.1"},
			"/barriers":     {zktest.Container, ""},
			path:            {zktest.Container, ""},
			path + "/ready": {zktest.Persistent, "10.0.0.1"},
			plain.Path():    {zktest.Ephemeral, "10.0.0.1"},
			named.Path():    {zktest.Ephemeral, "host-7"},
		}, got)
		for _, m := range []*barrier.Member{plain, named} {
			require.Regexp(t, `^/barriers/step/[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
				m.Path())
		}
	})
}

// The number is a threshold, not a limit: a later member enters immediately, after one list.
func TestEnterOpenBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		enterAll(t, s, 2)
		for range 3 {
			enter(t, barrier.NewDouble(newClient(t, s), path, 2))
		}
		require.Len(t, children(t, s), 6)
	})
}

// "ready" means that the barrier is open, and is no member: a member that finds it enters, however few members are left, and
// between whichever requests it appears. Curator counts it, and a member that finds it and too few others waits.
func TestEnterReadyIsEnough(t *testing.T) {
	for _, op := range []string{"create2", "getChildren2", "setWatches"} {
		t.Run("before "+op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create("/barriers", nil))
				require.NoError(t, s.Create(path, nil))
				held := s.Inject(zktest.Fault{Op: op, PathPrefix: path, Action: zktest.Hold})
				w := entering(t, background, barrier.NewDouble(newClient(t, s), path, 9))
				<-held.Struck()
				require.NoError(t, s.Create(path+"/ready", nil))
				held.Release()
				m := w.OK()
				for _, watch := range s.Watches() {
					require.Equal(t, m.Path(), watch.Path)
				}
				require.NoError(t, m.Leave(background))
				clean(t, s)
			})
		})
	}
}

// "ready" does not count as a member: one member and a "ready" that is deleted again are not two.
func TestEnterCountsMembersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		held := s.Inject(zktest.Fault{Op: "setWatches", PathPrefix: path, Action: zktest.Hold})
		w := entering(t, background, barrier.NewDouble(newClient(t, s), path, 2))
		<-held.Struck() // it has counted itself, and is about to arm its watch
		require.NoError(t, s.Create(path+"/ready", nil))
		require.NoError(t, s.Delete(path+"/ready"))
		held.Release()
		w.Waits()
		enter(t, barrier.NewDouble(newClient(t, s), path, 2))
		w.OK()
	})
}

// In Curator's newest version a member that wakes up after its peers have left counts again, finds too few, and waits for ever.
// Here the event itself is enough.
func TestEnterSlowMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		slow, other := newClient(t, s), newClient(t, s)
		w := entering(t, background, barrier.NewDouble(slow, path, 4)).Waits()
		s.BlackHole(session(t, slow), zktest.ToClient)
		for _, name := range []string{"a", "b", "c"} {
			java(t, s, other, name)
		}
		require.NoError(t, s.Create(path+"/ready", nil))
		for _, name := range []string{"a", "b", "c", "ready"} {
			require.NoError(t, s.Delete(path+"/"+name))
		}
		s.Heal()
		m := w.OK()
		require.NoError(t, m.Leave(background))
		clean(t, s)
	})
}

// The same with a lost connection: the watch, armed again, reports the missed event.
func TestEnterOpenedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		slow := newClient(t, s)
		w := entering(t, background, barrier.NewDouble(slow, path, 3)).Waits()
		hold := s.Inject(zktest.Fault{Op: "connect", Action: zktest.Hold})
		s.Cut(session(t, slow))
		<-hold.Struck()
		require.NoError(t, s.Create(path+"/ready", nil))
		w.Waits()
		hold.Release()
		m := w.OK()
		require.NoError(t, m.Leave(background))
		clean(t, s)
	})
}

// Curator's enter returns at any wake-up, as if all members had entered: after connection events, or after another member's
// "ready" that is created and deleted.
func TestEnterSpuriousWakeUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		w := entering(t, background, barrier.NewDouble(c, path, 2)).Waits()
		for range 3 {
			s.Cut(session(t, c))
			time.Sleep(20 * time.Second)
			w.Waits()
		}
		s.Stop()
		time.Sleep(time.Second)
		require.NoError(t, s.Start())
		time.Sleep(20 * time.Second)
		w.Waits()
		require.Len(t, children(t, s), 1)
		enter(t, barrier.NewDouble(newClient(t, s), path, 2))
		w.OK()
	})
}

func TestEnterTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/barriers", nil))
		require.NoError(t, s.Create(path, nil))
		a, b, c, d := newClient(t, s), newClient(t, s), newClient(t, s), newClient(t, s)
		synctest.Wait()
		s.ResetCounts()
		first := entering(t, background, barrier.NewDouble(a, path, 3)).Waits()
		counts(t, s, "enter, waiting", map[string]int{"create2": 1, "getChildren2": 1, "setWatches": 1})
		time.Sleep(13 * time.Second)
		counts(t, s, "a look about once in a session timeout", map[string]int{"exists": 1})
		second := entering(t, background, barrier.NewDouble(b, path, 3)).Waits()
		s.ResetCounts()
		enter(t, barrier.NewDouble(c, path, 3))
		first.OK()
		second.OK()
		// As many requests as in Curator's newest version, and one list for all rounds, to see whether there are members of other
		// libraries.
		counts(t, s, "the last enters and opens; those who waited look around",
			map[string]int{"create2": 2, "getChildren2": 3})
		enter(t, barrier.NewDouble(d, path, 3))
		counts(t, s, "enter, open", map[string]int{"create2": 1, "getChildren2": 1})
	})
}

// Curator leaves the node: the next member would count it.
func TestEnterCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		d := barrier.NewDouble(c, path, 2)
		reason := errors.New("shift is over")
		ctx, cancel := context.WithCancelCause(background)
		w := entering(t, ctx, d)
		time.Sleep(time.Minute)
		w.Waits()
		require.Len(t, s.Watches(), 2)
		cancel(reason)
		_, err := w.Returned()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, reason)
		clean(t, s)
		_, err = d.Enter(ctx)
		require.ErrorIs(t, err, context.Canceled)
		clean(t, s)

		w = entering(t, background, d).Waits() // the earlier node does not count
		enter(t, d)
		w.OK()
	})
}

// At whichever request the context ends, nothing is left once the server can be reached.
func TestEnterCancelledInBetween(t *testing.T) {
	for _, op := range []string{"create2", "createContainer", "getChildren2", "setWatches", "exists"} {
		for name, action := range map[string]zktest.Action{"request": zktest.Hold, "reply": zktest.HoldReply} {
			t.Run(op+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					require.NoError(t, s.Create("/barriers", nil))
					if op != "createContainer" {
						require.NoError(t, s.Create(path, nil))
					}
					c := newClient(t, s)
					if op == "exists" {
						refuseSetWatches(s)
					}
					held := s.Inject(zktest.Fault{Op: op, PathPrefix: path, Action: action})
					ctx, cancel := context.WithTimeout(background, time.Second)
					defer cancel()
					began := time.Now()
					_, err := barrier.NewDouble(c, path, 2).Enter(ctx)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Equal(t, time.Second, time.Since(began))
					require.Equal(t, 1, held.Hits())
					held.Release()
					synctest.Wait()
					require.Empty(t, s.Watches())
					if s.Exists(path) {
						clean(t, s)
					}
				})
			})
		}
	}
}

// If the barrier opens at the moment at which the context ends, the others have counted this member: it enters.
func TestEnterOpenedAndCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		for range 50 {
			ctx, cancel := context.WithCancel(background)
			w := entering(t, ctx, barrier.NewDouble(newClient(t, s), path, 2)).Waits()
			last := entering(t, background, barrier.NewDouble(newClient(t, s), path, 2))
			go cancel()
			m, err := w.Returned()
			if err != nil { // its node was deleted before the opening: then the other still waits
				require.ErrorIs(t, err, context.Canceled)
				if _, err := s.Children(path); err == nil && !s.Exists(path+"/ready") {
					require.NoError(t, s.Create(path+"/ready", nil))
				}
			}
			other := last.OK()
			out := leaving(t, background, other)
			if m != nil {
				require.NoError(t, m.Leave(background))
			}
			out.OK()
			clean(t, s)
		}
	})
}

// The event of the opening arrives after Enter has found that its context has ended, and before it returns.
func TestEnterOpenedWhenTheContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ctx, cancel := context.WithCancel(background)
		w := entering(t, &openingContext{Context: ctx, s: s}, barrier.NewDouble(newClient(t, s), path, 2)).Waits()
		cancel()
		require.NoError(t, w.End().OK().Leave(background))
		clean(t, s)
	})
}

// openingContext is a context whose first Err after its end opens the barrier, and waits for the event.
type openingContext struct {
	context.Context
	s    *zktest.Server
	once sync.Once
}

func (c *openingContext) Err() error {
	err := c.Context.Err()
	if err != nil {
		c.once.Do(func() {
			_ = c.s.Create(path+"/ready", nil)
			time.Sleep(time.Millisecond)
		})
	}
	return err
}

// The reply to the create is lost: the retry finds the node by its own name.
func TestEnterLostReplies(t *testing.T) {
	for _, op := range []string{"create2", "getChildren2", "setWatches", "exists"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				require.NoError(t, s.Create("/barriers", nil))
				require.NoError(t, s.Create(path, nil))
				c := newClient(t, s)
				if op == "exists" {
					refuseSetWatches(s)
				}
				lost := s.Inject(zktest.Fault{Op: op, PathPrefix: path, Action: zktest.LoseReply})
				w := entering(t, background, barrier.NewDouble(c, path, 2))
				time.Sleep(30 * time.Second)
				w.Waits()
				require.Equal(t, 1, lost.Hits())
				require.Len(t, children(t, s), 1)

				lost = s.Inject(zktest.Fault{Op: "create2", PathPrefix: path + "/ready", Action: zktest.LoseReply})
				last := entering(t, background, barrier.NewDouble(newClient(t, s), path, 2))
				time.Sleep(30 * time.Second)
				require.Equal(t, 1, lost.Hits())
				a, b := w.OK(), last.OK()
				require.Len(t, children(t, s), 3)
				out := leaving(t, background, a)
				require.NoError(t, b.Leave(background))
				out.OK()
				clean(t, s)
			})
		})
	}
}

// The session is lost during the wait: Enter returns an error, and nothing is left.
func TestEnterSessionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		w := entering(t, background, barrier.NewDouble(c, path, 2)).Waits()
		s.Expire(session(t, c))
		time.Sleep(time.Minute)
		_, err := w.Returned()
		require.ErrorIs(t, err, barrier.ErrSessionLost)
		clean(t, s)
		w = entering(t, background, barrier.NewDouble(c, path, 2)).Waits() // in the next session
		enter(t, barrier.NewDouble(newClient(t, s), path, 2))
		w.OK()
	})
}

// The node of a waiting member is deleted: the number would never be complete. Curator does not notice.
func TestEnterNodeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		w := entering(t, background, barrier.NewDouble(newClient(t, s), path, 2))
		time.Sleep(time.Second)
		w.Waits()
		require.NoError(t, s.Delete(path+"/"+children(t, s)[0]))
		_, err := w.Returned()
		require.ErrorIs(t, err, barrier.ErrNodeDeleted)
		clean(t, s)

		// Between the create and the list.
		held := s.Inject(zktest.Fault{Op: "getChildren2", PathPrefix: path, Action: zktest.Hold})
		w = entering(t, background, barrier.NewDouble(newClient(t, s), path, 1))
		<-held.Struck()
		require.NoError(t, s.DeleteAll(path))
		held.Release()
		_, err = w.Returned()
		require.ErrorIs(t, err, barrier.ErrNodeDeleted)

		// Together with the barrier's node, between the list and the opening.
		held = s.Inject(zktest.Fault{Op: "create2", PathPrefix: path + "/ready", Action: zktest.Hold})
		w = entering(t, background, barrier.NewDouble(newClient(t, s), path, 1))
		<-held.Struck()
		require.NoError(t, s.DeleteAll(path))
		held.Release()
		_, err = w.Returned()
		require.ErrorIs(t, err, barrier.ErrNodeDeleted)
	})
}

func TestEnterClientClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		d := barrier.NewDouble(c, path, 2)
		w := entering(t, background, d).Waits()
		require.NoError(t, c.Close())
		_, err := w.Returned()
		require.ErrorIs(t, err, framework.ErrClosed)
		clean(t, s)
		_, err = d.Enter(background)
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

// Errors are returned to the caller, and the node is deleted.
func TestEnterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{}),
			framework.WithConnectionTimeout(3*time.Second))
		for _, bad := range []struct {
			d    *barrier.Double
			want error
		}{
			{barrier.NewDouble(c, "relative", 1), framework.ErrInvalidPath},
			{barrier.NewDouble(c, path, 0), framework.ErrBadArguments},
			{barrier.NewDouble(c, path, -3), framework.ErrBadArguments},
			{barrier.NewDouble(c, path, 1, nil), framework.ErrInvalidOption},
		} {
			_, err := bad.d.Enter(background)
			require.ErrorIs(t, err, bad.want)
		}
		_, err := barrier.NewDouble(nil, path, 1).Enter(background)
		require.ErrorContains(t, err, "client is nil")
		d := barrier.NewDouble(c, path, 1)
		require.Equal(t, path, d.Path())
		_, err = d.Enter(none)
		require.ErrorIs(t, err, framework.ErrNilContext)

		require.NoError(t, s.Create("/barriers", nil))
		require.NoError(t, s.Create(path, nil))
		for _, op := range []string{"create2", "getChildren2"} {
			refused := s.Inject(zktest.Fault{Op: op, PathPrefix: path, Times: 2, Action: zktest.ReplyError,
				Err: zktest.ErrNoAuth})
			_, err = d.Enter(background)
			require.ErrorIs(t, err, framework.ErrNoAuth, op)
			refused.Remove()
			clean(t, s)
		}
		refused := s.Inject(zktest.Fault{Op: "create2", PathPrefix: path + "/ready", Action: zktest.ReplyError,
			Err: zktest.ErrNoAuth})
		_, err = d.Enter(background)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.Equal(t, 1, refused.Hits())
		clean(t, s)

		s.Stop()
		synctest.Wait()
		began := time.Now()
		_, err = d.Enter(background)
		require.ErrorIs(t, err, framework.ErrNotConnected)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

// A member's context has the values of Enter's context, but neither its end nor its deadline.
func TestMemberContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(background, key{}, "value"), time.Second)
		defer cancel()
		c := newClient(t, s)
		d := barrier.NewDouble(c, path, 1)
		m, err := d.Enter(ctx)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, m.Context().Err())
		require.Equal(t, "value", m.Context().Value(key{}))
		require.NoError(t, m.Leave(background))
		require.ErrorIs(t, context.Cause(m.Context()), barrier.ErrReleased)

		m = enter(t, d)
		time.Sleep(time.Second)
		require.NoError(t, s.Delete(m.Path()))
		synctest.Wait()
		require.ErrorIs(t, context.Cause(m.Context()), barrier.ErrNodeDeleted)
		require.ErrorIs(t, m.Leave(background), barrier.ErrNodeDeleted)
		clean(t, s)

		m = enter(t, d)
		s.Cut(session(t, c))
		time.Sleep(time.Second)
		require.NoError(t, m.Context().Err(), "a lost connection is not the end")
		s.BlackHole(0, zktest.Both)
		<-m.Context().Done()
		require.ErrorIs(t, context.Cause(m.Context()), barrier.ErrSessionLost)
		require.True(t, s.Exists(m.Path()), "it knows before the others can")
		s.Heal()
	})
}
