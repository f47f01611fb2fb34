package leader_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

func newSelector(
	t *testing.T, c *framework.Client, lead func(context.Context) error, opts ...leader.Option,
) *leader.Selector {
	t.Helper()
	return leader.NewSelector(c, path, lead, opts...)
}

// runs runs a selector on another goroutine until the test ends or calls stop.
func runs(t *testing.T, s *leader.Selector) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	t.Cleanup(cancel)
	return func() error { cancel(); return <-done }
}

func untilOver(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// Two selectors take turns: after its term each goes to the end of the line.
func TestSelectorsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		turns := make(chan string, 100)
		var token int64
		lead := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				turns <- name
				term := leader.TermOf(ctx)
				assert.True(t, term.Valid() || errors.Is(context.Cause(ctx), context.Canceled),
					"unless Run was stopped in the same instant")
				assert.Greater(t, term.FencingToken(), token)
				token = term.FencingToken()
				time.Sleep(time.Second)
				return nil
			}
		}
		a := newSelector(t, newClient(t, s), lead("a"), leader.WithID("a"))
		b := newSelector(t, newClient(t, s), lead("b"), leader.WithID("b"))
		require.Equal(t, leader.Idle, a.Health().Role)
		stopA, stopB := runs(t, a), runs(t, b)
		require.True(t, a.HasLeadership())
		require.Equal(t, leader.Leading, a.Health().Role)
		require.Equal(t, leader.Following, b.Health().Role)
		list, err := b.Participants(background)
		require.Equal(t, []string{"a", "b"}, ids(t, list, err))
		first, _, err := b.Leader(background)
		require.NoError(t, err)
		require.Equal(t, "a", first.ID)
		require.ErrorIs(t, a.Run(background), leader.ErrRunning)
		for _, want := range []string{"a", "b", "a", "b", "a", "b"} {
			require.Equal(t, want, <-turns)
		}
		require.ErrorIs(t, stopA(), context.Canceled)
		require.Equal(t, leader.Idle, a.Health().Role)
		require.ErrorIs(t, stopB(), context.Canceled)
		clean(t, s)
		require.ErrorIs(t, newSelector(t, newClient(t, s), untilOver).Run(func() context.Context {
			ctx, cancel := context.WithCancel(background)
			cancel()
			return ctx
		}()), context.Canceled)
	})
}

// RunOnce leads once; a second call joins the line again.
func TestRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		mine := errors.New("mine")
		results := []error{nil, mine}
		calls := 0
		sel := newSelector(t, newClient(t, s), func(context.Context) error { calls++; return results[calls-1] })
		require.NoError(t, sel.RunOnce(background))
		clean(t, s)
		require.ErrorIs(t, sel.RunOnce(background), mine)
		clean(t, s)
		require.Equal(t, 2, calls)

		// Run returns the function's error, too, and a panic leaves nothing.
		sel = newSelector(t, newClient(t, s), func(context.Context) error { return mine })
		require.ErrorIs(t, sel.Run(background), mine)
		clean(t, s)
		sel = newSelector(t, newClient(t, s), func(context.Context) error { panic(mine) })
		require.PanicsWithError(t, "mine", func() { _ = sel.Run(background) })
		clean(t, s)
		require.Equal(t, leader.Idle, sel.Health().Role)
		var none context.Context
		require.ErrorIs(t, sel.Run(none), framework.ErrNilContext)
	})
}

// A function that returns late delays the next term: another process's while the session lives, its own selector's in any case.
func TestSlowFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{ReapInterval: time.Hour})
		ca := newClient(t, s)
		var running atomic.Int32
		began := make(chan struct{}, 10)
		slow := func(ctx context.Context) error {
			require.EqualValues(t, 1, running.Add(1))
			began <- struct{}{}
			<-ctx.Done()
			time.Sleep(30 * time.Second)
			running.Add(-1)
			return ctx.Err()
		}
		a := newSelector(t, ca, slow)
		ctx, cancel := context.WithCancel(background)
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		<-began
		b := join2(t, s)

		// The leader resigns: the other leads when the function has returned.
		term := a.Term()
		asked := time.Now()
		require.NoError(t, term.Resign(background))
		require.Equal(t, 30*time.Second, time.Since(asked))
		require.False(t, s.Exists(term.Path()))
		<-b.began
		b.stop()
		<-began

		// The connection is lost: as in Curator the function should end; the node stays until it has.
		b = join2(t, s)
		term = a.Term()
		s.Cut(session(t, ca))
		ended(t, term, leader.ErrSuspended)
		time.Sleep(29 * time.Second)
		require.Empty(t, b.began)
		require.True(t, s.Exists(term.Path()))
		<-b.began
		b.stop()
		<-began

		// The session is lost: the other may lead, but the next term here waits for the end of the function.
		s.Expire(session(t, ca))
		time.Sleep(29 * time.Second)
		require.EqualValues(t, 1, running.Load())
		require.False(t, a.HasLeadership())
		<-began

		// Run returns only after the function.
		cancel()
		asked = time.Now()
		require.ErrorIs(t, <-done, context.Canceled)
		require.Equal(t, 30*time.Second, time.Since(asked))
		require.Zero(t, running.Load())
		synctest.Wait()
		clean(t, s)
	})
}

// second is a selector in the line behind another; it leads until it is stopped.
type second struct {
	began chan struct{}
	stop  func()
}

func join2(t *testing.T, s *zktest.Server) second {
	began := make(chan struct{}, 1)
	sel := newSelector(t, newClient(t, s), func(ctx context.Context) error {
		began <- struct{}{}
		return untilOver(ctx)
	})
	stop := runs(t, sel)
	require.Empty(t, began)
	return second{began, func() { require.ErrorIs(t, stop(), context.Canceled) }}
}

// The cause of the function's context is the reason for the term's end, and RunOnce returns it.
func TestHowTermsEnd(t *testing.T) {
	type (
		server = *zktest.Server
		client = *framework.Client
	)
	session := []leader.Option{leader.WithLossPolicy(framework.SessionOnly)}
	for name, c := range map[string]struct {
		end   func(server, client, *leader.Term)
		opts  []leader.Option
		cause error
		err   error
	}{
		"suspended": {
			func(s server, _ client, _ *leader.Term) { s.Cut(0) },
			nil, leader.ErrSuspended, leader.ErrSuspended,
		},
		"session": {
			func(s server, _ client, _ *leader.Term) { s.Stop() },
			session, leader.ErrSessionLost, leader.ErrSessionLost,
		},
		"deleted": {
			func(s server, _ client, term *leader.Term) { _ = s.Delete(term.Path()) },
			nil, leader.ErrNodeDeleted, leader.ErrNodeDeleted,
		},
		"closed": {
			func(_ server, c client, _ *leader.Term) { _ = c.Close() },
			nil, framework.ErrClosed, framework.ErrClosed,
		},
		"resigned": {
			func(_ server, _ client, term *leader.Term) { _ = term.Resign(background) },
			nil, leader.ErrReleased, nil,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			client := newClient(t, s)
			var cause error
			sel := newSelector(t, client, func(ctx context.Context) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return ctx.Err()
			}, c.opts...)
			done := make(chan error, 1)
			go func() { done <- sel.RunOnce(background) }()
			time.Sleep(time.Second)
			c.end(s, client, sel.Term())
			err := <-done
			require.ErrorIs(t, cause, c.cause, name)
			if c.err == nil {
				require.NoError(t, err, name)
			} else {
				require.ErrorIs(t, err, c.err, name)
			}
		})
	}
}

// Run leaves nothing if its context ends at any moment, in the line or during a term.
func TestCancelAtAnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		clients := []*framework.Client{newClient(t, s), newClient(t, s)}
		s.Delay(0, 3*time.Millisecond)
		for after := range 50 {
			done := make(chan error, 2)
			for i, c := range clients {
				limit := time.Duration(after+3*i) * 500 * time.Microsecond
				ctx, cancel := context.WithTimeout(background, limit)
				defer cancel()
				began := time.Now()
				go func() {
					err := newSelector(t, c, untilOver).Run(ctx)
					if time.Since(began) > limit {
						err = errors.New("Run outlives its context")
					}
					done <- err
				}()
			}
			require.ErrorIs(t, <-done, context.DeadlineExceeded)
			require.ErrorIs(t, <-done, context.DeadlineExceeded)
		}
		s.Heal()
		time.Sleep(time.Second)
		clean(t, s)
		for _, c := range clients {
			require.Zero(t, c.PendingCleanups())
		}
	})
}

// Run continues after lost connections; an error that does not pass by itself ends it.
func TestSelectorCannotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		s.Stop()
		led := make(chan struct{}, 1)
		stop := runs(t, newSelector(t, c,
			func(ctx context.Context) error { led <- struct{}{}; return untilOver(ctx) }))
		time.Sleep(20 * time.Minute)
		require.NoError(t, s.Start())
		<-led
		require.ErrorIs(t, stop(), context.Canceled)
		time.Sleep(time.Second)
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		require.ErrorIs(t, newSelector(t, c, untilOver).Run(background), framework.ErrNoAuth)
	})
}

type valueKey struct{}

// An election within another: the function's context has Run's values, and the innermost term.
func TestNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		outer := newSelector(t, c, func(ctx context.Context) error {
			mine := leader.TermOf(ctx)
			require.Equal(t, "v", ctx.Value(valueKey{}))
			inner := leader.NewSelector(c, "/inner", func(ctx context.Context) error {
				require.NotSame(t, mine, leader.TermOf(ctx), "the innermost")
				require.NoError(t, mine.Resign(ctx), "the outer one's function is to return, and so does not wait")
				<-ctx.Done()
				return nil
			})
			require.ErrorIs(t, inner.Run(ctx), leader.ErrReleased)
			return nil
		})
		require.NoError(t, outer.RunOnce(context.WithValue(background, valueKey{}, "v")))
		clean(t, s)
	})
}

// The context of Run belongs to another hold that is lost: the term ends with it, and its node is deleted all the same.
func TestSelectorUnderSomethingThatIsLost(t *testing.T) {
	for _, lost := range []error{leader.ErrNodeDeleted, leader.ErrSessionLost, framework.ErrClosed} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			ctx, cancel := context.WithCancelCause(background)
			selector := newSelector(t, newClient(t, s), untilOver)
			done := make(chan error, 1)
			go func() { done <- selector.Run(ctx) }()
			synctest.Wait()
			require.NotNil(t, selector.Term())
			next := newSelector(t, newClient(t, s), untilOver)
			stop := runs(t, next)
			require.Nil(t, next.Term())
			cancel(lost)
			require.ErrorIs(t, <-done, context.Canceled)
			synctest.Wait()
			require.NotNil(t, next.Term())
			require.ErrorIs(t, stop(), context.Canceled)
		})
	}
}

// The server refuses requests for longer than the retry policy lasts: Run tries again until the selector leads.
func TestRunOutlastsTheRetryPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		busy := s.Inject(zktest.Fault{Op: "create2", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp, Times: -1})
		selector := newSelector(t, c, untilOver)
		stop := runs(t, selector)
		time.Sleep(10 * time.Minute)
		require.Equal(t, leader.Unknown, selector.Health().Role)
		require.ErrorIs(t, selector.Health().Err, framework.ErrThrottled)
		busy.Remove()
		time.Sleep(20 * time.Second)
		require.Equal(t, leader.Leading, selector.Health().Role)
		require.ErrorIs(t, stop(), context.Canceled)
		clean(t, s)
	})
}

// If the function fails after the end of Run's context, Run returns both errors.
func TestRunReportsTheLastErrorOfItsFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		mine := errors.New("half done")
		stop := runs(t, newSelector(t, newClient(t, s), func(ctx context.Context) error {
			<-ctx.Done()
			return mine
		}))
		err := stop()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, mine)
	})
}

// An error that the function returns after the end of its term does not end Run, and is logged; no error, and the error of
// the context, are not.
func TestErrorsAfterTheTermAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		results := []error{nil, context.Canceled, errors.New("half done")}
		lines, terms := []int{0, 0, 1}, 0
		selector := newSelector(t, newClient(t, s, framework.WithLogger(log.Logger())), func(ctx context.Context) error {
			<-ctx.Done()
			terms++
			return results[(terms-1)%len(results)]
		})
		stop := runs(t, selector)
		for i, want := range lines {
			require.NoError(t, selector.Term().Resign(background))
			synctest.Wait()
			require.Equal(t, want, strings.Count(log.String(), "after its term had ended"), results[i])
		}
		require.Contains(t, log.String(), "half done")
		require.ErrorIs(t, stop(), context.Canceled)
	})
}

// The pauses of a selector grow while no server can be reached. After a term the pauses of the next outage start short again.
func TestSelectorTriesAgainSoonInALaterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()), framework.WithRetry(retry.RetryNTimes{}),
			framework.WithConnectionTimeout(time.Second))
		selector := newSelector(t, c, untilOver)
		stop := runs(t, selector)
		for range 3 {
			require.True(t, selector.HasLeadership())
			before := len(log.String())
			s.Stop()
			time.Sleep(10 * time.Minute)
			require.NoError(t, s.Start())
			time.Sleep(time.Minute)
			synctest.Wait()
			pauses := regexp.MustCompile(`cannot join.* in=(\S+)`).FindAllStringSubmatch(log.String()[before:], -1)
			require.NotEmpty(t, pauses)
			first, err := time.ParseDuration(pauses[0][1])
			require.NoError(t, err)
			require.LessOrEqual(t, first, 100*time.Millisecond)
		}
		require.ErrorIs(t, stop(), context.Canceled)
	})
}
