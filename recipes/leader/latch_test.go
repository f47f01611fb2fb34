package leader_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// The layout is exactly Curator's: docs/znodes.md.
func TestLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithDefaultData([]byte("10.0.0.1")))
		uuid := `^_c_[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-`
		check := func(dir, name, data string) {
			synctest.Wait()
			children, err := s.Children(dir)
			require.NoError(t, err)
			require.Len(t, children, 1)
			require.Regexp(t, regexp.MustCompile(uuid+name+`\d{10}$`), children[0])
			node := s.Tree()[dir+"/"+children[0]]
			require.Equal(t, zktest.Ephemeral, node.Mode)
			require.Equal(t, data, string(node.Data))
			require.Equal(t, session(t, c), node.Stat.EphemeralOwner)
			require.Equal(t, zktest.Container, s.Tree()[dir].Mode)
			require.Empty(t, s.Tree()[dir].Data)
		}
		for data, opts := range map[string][]leader.Option{
			"": nil, "zürich-1": {leader.WithID("zürich-1")},
		} {
			l, err := leader.NewLatch(c, "/latch", opts...)
			require.NoError(t, err)
			check("/latch", "latch-", data)
			left(t, l)
		}
		for data, opts := range map[string][]leader.Option{
			"10.0.0.1": nil, "": {leader.WithID("")}, "zürich-1": {leader.WithID("zürich-1")},
		} {
			sel := leader.NewSelector(c, "/selector", func(context.Context) error {
				check("/selector", "lock-", data)
				return nil
			}, opts...)
			require.NoError(t, sel.RunOnce(background))
		}
	})
}

func TestJoinLeadLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		a := join(t, c, leader.WithID("a"))
		require.Equal(t, path, a.Path())
		term := await(t, a)
		require.Same(t, term, await(t, a), "as long as it lasts")
		require.True(t, a.HasLeadership())
		require.Equal(t, path+"/"+term.Node(), term.Path())
		require.Equal(t, s.Tree()[term.Path()].Stat.Czxid, term.FencingToken())
		require.GreaterOrEqual(t, term.Remaining(), 9*time.Second)
		require.Same(t, term, leader.TermOf(term.Context()))
		require.Nil(t, leader.TermOf(background))

		b, third := join(t, newClient(t, s), leader.WithID("b")), join(t, newClient(t, s))
		follows(t, b)
		list, err := b.Participants(background)
		require.Equal(t, []string{"a", "b", ""}, ids(t, list, err))
		first, ok, err := third.Leader(background)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, list[0], first)
		require.Equal(t, leader.Participant{ID: "a", Leader: true, Name: term.Node(), Path: term.Path(),
			SessionID: session(t, c),
			Czxid:     term.FencingToken(), Since: first.Since}, first)
		require.WithinDuration(t, time.Now(), first.Since, time.Second)

		time.Sleep(time.Hour)
		require.True(t, term.Valid())
		left(t, a)
		ended(t, term, leader.ErrReleased)
		_, err = a.Await(background)
		require.ErrorIs(t, err, leader.ErrLeft)
		require.NoError(t, a.Close())
		left(t, a)

		second := await(t, b)
		require.Greater(t, second.FencingToken(), term.FencingToken())
		require.NoError(t, b.Close())
		ended(t, second, leader.ErrReleased)
		require.Greater(t, await(t, third).FencingToken(), second.FencingToken())
		left(t, third)
		clean(t, s)
		_, ok, err = third.Leader(background)
		require.NoError(t, err)
		require.False(t, ok)
	})
}

// A latch that leaves the line does not lead later; the participants behind it keep their order.
func TestLeaveTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b, c := join(t, newClient(t, s)), join(t, newClient(t, s)), join(t, newClient(t, s))
		await(t, a)
		left(t, b)
		follows(t, c)
		left(t, a)
		await(t, c)
		require.False(t, b.HasLeadership())
		require.NoError(t, c.Close())
		clean(t, s)
	})
}

func TestAwaitAndItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := join(t, newClient(t, s)), join(t, newClient(t, s))
		await(t, a)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		began := time.Now()
		_, err := b.Await(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		require.NotContains(t, err.Error(), "cannot join", "it has joined")
		follows(t, b)
		got := make(chan *leader.Term)
		for range 3 {
			go func() {
				term, _ := b.Await(background)
				got <- term
			}()
		}
		synctest.Wait()
		left(t, a)
		term := <-got
		require.Same(t, term, <-got)
		require.Same(t, term, <-got)
		require.True(t, term.Valid(), "not bound to a context of the wait")
		// A call of Await returns when its latch leaves.
		a = join(t, newClient(t, s))
		failed := make(chan error)
		go func() { _, err := a.Await(background); failed <- err }()
		synctest.Wait()
		require.NoError(t, a.Close())
		require.ErrorIs(t, <-failed, leader.ErrLeft)
		var none context.Context
		_, err = b.Await(none)
		require.ErrorIs(t, err, framework.ErrNilContext)
	})
}

func TestResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := join(t, newClient(t, s), leader.WithID("a")), join(t, newClient(t, s), leader.WithID("b"))
		first := await(t, a)
		require.NoError(t, first.Resign(background))
		require.False(t, s.Exists(first.Path()), "confirmed")
		ended(t, first, leader.ErrReleased)
		second := await(t, b)
		list, err := b.Participants(background)
		require.Equal(t, []string{"b", "a"}, ids(t, list, err), "at the end of the line")
		follows(t, a)
		require.ErrorIs(t, first.Resign(background), leader.ErrReleased)
		require.True(t, second.Valid())
		// With the term's own context, which has ended, Resign does not wait.
		require.NoError(t, second.Resign(second.Context()))
		third := await(t, a)
		require.Greater(t, third.FencingToken(), second.FencingToken())
		var none context.Context
		require.ErrorIs(t, third.Resign(none), framework.ErrNilContext)

		follows(t, b) // no call has waited for its node

		// While the server hangs, Resign returns when its context ends; the node is deleted later.
		s.Pause()
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, third.Resign(ctx), context.DeadlineExceeded)
		ended(t, third, leader.ErrReleased)
		s.Resume()
		fourth := await(t, b)
		require.False(t, s.Exists(third.Path()))
		require.NoError(t, a.Close())
		require.True(t, fourth.Valid())
	})
}

func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create("/store", nil))
		l, other := join(t, newClient(t, s)), newClient(t, s)
		write := other.TransactionOp().SetData().ForPath("/store", []byte("1"))
		term := await(t, l)
		_, err := other.Transaction(background, term.Guard(), write)
		require.NoError(t, err)
		left(t, l)
		_, err = other.Transaction(background, term.Guard(), write)
		require.ErrorIs(t, err, framework.ErrNoNode)
	})
}

// A listener gets OnNotLeader only after OnLeader; at the end of the last term the close mode decides.
func TestListenerAndCloseModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		said := make(chan string, 100)
		silent := join(t, newClient(t, s), calls("silent", said))
		loud := join(t, newClient(t, s), calls("loud", said))
		never := join(t, newClient(t, s), calls("never", said))
		require.Equal(t, []string{"silent leads"}, told(said))
		left(t, silent)
		require.Equal(t, []string{"loud leads"}, told(said))
		require.NoError(t, never.Leave(background, leader.NotifyLeader))
		require.Empty(t, told(said), "it never led")
		require.NoError(t, await(t, loud).Resign(background))
		require.Equal(t, []string{"loud leads no more: released", "loud leads"}, told(said))
		require.NoError(t, loud.Leave(background, leader.NotifyLeader))
		require.Equal(t, []string{"loud leads no more: released"}, told(said))
		require.NoError(t, loud.Close())
		require.Empty(t, told(said))
		clean(t, s)
		require.ErrorIs(t, loud.Leave(background, 7), framework.ErrInvalidOption)
	})
}

// The node is deleted when the listener has returned, so that its work ends before another leader's begins. Leave returns with
// its context, even if the listener still works.
func TestSlowListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var order []string
		work := func(name string) leader.Option {
			return leader.WithListener(leader.Listener{
				OnLeader: func(term *leader.Term) {
					order = append(order, name+" begins")
					<-term.Context().Done()
					time.Sleep(3 * time.Second)
				},
				OnNotLeader: func(*leader.Term, error) {
					time.Sleep(3 * time.Second)
					order = append(order, name+" ends")
				},
			})
		}
		a, b := join(t, newClient(t, s), work("a")), join(t, newClient(t, s), work("b"))
		term := await(t, a)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.ErrorIs(t, a.Leave(ctx, leader.NotifyLeader), context.DeadlineExceeded)
		require.False(t, term.Valid(), "the context ends at once")
		follows(t, b)
		began := time.Now()
		second := await(t, b)
		require.Equal(t, 5*time.Second, time.Since(began))
		// Resign waits for the listener, too.
		began = time.Now()
		require.NoError(t, second.Resign(background))
		require.Equal(t, 6*time.Second, time.Since(began))
		await(t, b)
		require.NoError(t, b.Leave(background, leader.NotifyLeader))
		require.Equal(t, "a begins, a ends, b begins, b ends, b begins, b ends", strings.Join(order, ", "))
		clean(t, s)
	})
}

func TestClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ca, cb := newClient(t, s), newClient(t, s)
		a, b := join(t, ca), join(t, cb)
		term := await(t, a)
		require.NoError(t, ca.Close())
		ended(t, term, framework.ErrClosed)
		_, err := a.Await(background)
		require.ErrorIs(t, err, framework.ErrClosed)
		require.Equal(t, leader.Idle, a.Health().Role)
		require.ErrorIs(t, a.Health().Check(time.Hour), framework.ErrClosed)
		await(t, b)
		require.NoError(t, a.Close())
	})
}

func TestNewcomersMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		lead := func(context.Context) error { return nil }
		for _, mistake := range []struct {
			client *framework.Client
			path   string
			opt    leader.Option
			is     error
			says   string
		}{
			{nil, path, leader.WithID("x"), nil, "framework.New"},
			{c, "leaders", leader.WithID("x"), framework.ErrInvalidPath, `must start with "/"`},
			{c, "/leaders/", leader.WithID("x"), framework.ErrInvalidPath, "must not end"},
			{c, path, nil, framework.ErrInvalidOption, "leave it out"},
			{c, path, leader.WithID("\xff"), framework.ErrInvalidOption, "UTF-8"},
			{c, path, leader.WithLossPolicy(7), framework.ErrInvalidOption, "SessionOnly"},
			{c, path, leader.WithListener(leader.Listener{}), framework.ErrInvalidOption, "leave the option out"},
		} {
			_, err := leader.NewLatch(mistake.client, mistake.path, mistake.opt)
			require.ErrorContains(t, err, mistake.says)
			selector := leader.NewSelector(mistake.client, mistake.path, lead, mistake.opt)
			also := selector.Run(background)
			require.ErrorContains(t, also, mistake.says)
			require.Equal(t, leader.Idle, selector.Health().Role)
			require.ErrorContains(t, selector.Health().Err, mistake.says)
			_, _, also = selector.Leader(background)
			require.ErrorContains(t, also, mistake.says)
			for _, also := range selector.Observe(background) {
				require.ErrorContains(t, also, mistake.says)
			}
			if mistake.is != nil {
				require.ErrorIs(t, err, mistake.is)
				require.ErrorIs(t, also, mistake.is)
			}
			for _, err := range leader.Observe(background, mistake.client, mistake.path) {
				if mistake.client == nil || mistake.path != path {
					require.ErrorContains(t, err, mistake.says)
				}
				break
			}
		}
		err := leader.NewSelector(c, path, nil).RunOnce(background)
		require.ErrorIs(t, err, framework.ErrBadArguments)
		require.ErrorContains(t, err, "function is nil")
		err = leader.NewSelector(c, path, lead, calls("x", nil)).Run(background)
		require.ErrorContains(t, err, "for a Latch")
	})
}

// A latch resigns, and the server does not confirm the delete. The latch waits in the line behind its own old node when it
// leaves: Leave returns no success while that node exists; after a success it is deleted.
func TestLeaveAfterAnUnconfirmedResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		l := join(t, c, leader.WithLossPolicy(framework.SessionOnly))
		term := await(t, l)
		refused := s.Inject(zktest.Fault{Op: "delete", PathPrefix: term.Path(), Action: zktest.ReplyError,
			Err: zktest.ErrThrottledOp, Times: -1})
		ctx, cancel := context.WithTimeout(background, 5*time.Second)
		defer cancel()
		require.Error(t, term.Resign(ctx))
		time.Sleep(5 * time.Second)
		require.True(t, s.Exists(term.Path()))
		children, err := s.Children(path)
		require.NoError(t, err)
		require.Len(t, children, 2, "it stands in line again")

		ctx, cancel = context.WithTimeout(background, 3*time.Second)
		defer cancel()
		require.Error(t, l.Leave(ctx, leader.Silent))
		require.True(t, s.Exists(term.Path()))
		refused.Remove()
		require.NoError(t, l.Leave(background, leader.Silent))
		require.False(t, s.Exists(term.Path()))
	})
}

// A leader of another implementation keeps its place.
func TestForeignContenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		old, c := newClient(t, s), newClient(t, s)
		require.NoError(t, s.Create(path, nil))
		node, err := s.CreateNode(path+"/n_", nil, zktest.EphemeralSequential, session(t, old))
		require.NoError(t, err)
		theirs := func(name string) bool { return strings.HasPrefix(name, "n_") }
		latch, err := leader.NewLatch(c, path, leader.WithForeignContenders(theirs))
		require.NoError(t, err)
		defer latch.Close()
		time.Sleep(time.Minute)
		require.False(t, latch.HasLeadership())
		first, ok, err := latch.Leader(background)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, node, path+"/"+first.Name)
		require.NoError(t, s.Delete(node))
		_, err = latch.Await(background)
		require.NoError(t, err)
		_, err = leader.NewLatch(c, path, leader.WithForeignContenders(nil))
		require.ErrorIs(t, err, framework.ErrInvalidOption)
	})
}

// In an outage no reply confirms the delete, and the servers may still have the node when the client's session is lost. Leave
// succeeds only if a later session has closed the old one.
func TestLeaveInAnOutage(t *testing.T) {
	for name, what := range map[string]struct {
		before, after time.Duration // the outage before Leave, and after it
		closed        bool          // the client is closed before Leave
		want          error
	}{
		"it begins":                  {0, time.Hour, false, leader.ErrSessionLost},
		"the session is lost":        {time.Minute, time.Hour, false, leader.ErrSessionLost},
		"it was over":                {time.Minute, 0, false, nil},
		"it is over before the loss": {0, time.Second, false, nil},
		"the client is closed in it": {0, time.Hour, true, framework.ErrClosed},
		"the client is closed after": {time.Minute, time.Hour, true, leader.ErrSessionLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s)
				l := join(t, c, leader.WithLossPolicy(framework.SessionOnly))
				node := await(t, l).Path()
				s.Stop()
				time.Sleep(what.before)
				if what.closed {
					_ = c.Close()
				}
				if what.after == 0 {
					require.NoError(t, s.Start())
					await(t, l)
					require.False(t, s.Exists(node))
				} else {
					timer := time.AfterFunc(what.after, func() { assert.NoError(t, s.Start()) })
					defer func() {
						if timer.Stop() {
							assert.NoError(t, s.Start())
						}
					}()
				}
				ctx, cancel := context.WithTimeout(background, time.Minute)
				defer cancel()
				if err := l.Leave(ctx, leader.Silent); what.want != nil {
					require.ErrorIs(t, err, what.want)
				} else {
					require.NoError(t, err)
					require.False(t, s.Exists(node))
				}
			})
		})
	}
}

// Of two calls of Leave, the mode of the first decides whether the listener is called.
func TestTheFirstLeaveSaysTheMode(t *testing.T) {
	for first, second := range map[leader.CloseMode]leader.CloseMode{
		leader.Silent: leader.NotifyLeader, leader.NotifyLeader: leader.Silent,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			called := false
			l := join(t, newClient(t, s), leader.WithListener(leader.Listener{
				OnLeader:    func(*leader.Term) { time.Sleep(time.Minute) },
				OnNotLeader: func(*leader.Term, error) { called = true },
			}))
			one := recipetest.Begin(t, func() (int, error) { return 0, l.Leave(background, first) }).Waits()
			two := recipetest.Begin(t, func() (int, error) { return 0, l.Leave(background, second) }).Waits()
			one.End()
			two.End()
			require.NoError(t, errors.Join(one.Err, two.Err))
			require.Equal(t, first == leader.NotifyLeader, called, "%v, then %v", first, second)
		})
	}
}

// Await returns no ended term, even while that term's listener still works.
func TestAwaitWhileTheListenerOfAnEndedTermWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		l := join(t, newClient(t, s), leader.WithListener(leader.Listener{
			OnLeader: func(term *leader.Term) {
				<-term.Context().Done()
				time.Sleep(time.Minute)
			},
		}))
		first := await(t, l)
		go func() { assert.NoError(t, first.Resign(background)) }()
		synctest.Wait()
		require.False(t, first.Valid())
		ctx, cancel := context.WithTimeout(background, 30*time.Second)
		defer cancel()
		_, err := l.Await(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		second := await(t, l)
		require.NotSame(t, first, second)
		left(t, l)
	})
}
