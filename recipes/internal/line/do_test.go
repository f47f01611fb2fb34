package line_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

type work = func(context.Context) error

// doers are all recipes that run a function during a hold.
var doers = map[string]func(context.Context, *framework.Client, work) error{
	"mutex": func(ctx context.Context, c *framework.Client, f work) error {
		return mutex.New(c, "/held").Do(ctx, f)
	},
	"read lock": func(ctx context.Context, c *framework.Client, f work) error {
		return rwlock.New(c, "/held").ReadLock().Do(ctx, f)
	},
	"readers": func(ctx context.Context, c *framework.Client, f work) error {
		return rwlock.NewReaders(c, "/held").Do(ctx, f)
	},
	"write lock": func(ctx context.Context, c *framework.Client, f work) error {
		return rwlock.New(c, "/held").WriteLock().Do(ctx, f)
	},
	"semaphore": func(ctx context.Context, c *framework.Client, f work) error {
		return semaphore.New(c, "/held", 3).Do(ctx, 2, f)
	},
	"semaphore mutex": func(ctx context.Context, c *framework.Client, f work) error {
		return semaphore.NewMutex(c, "/held").Do(ctx, f)
	},
	"multi": func(ctx context.Context, c *framework.Client, f work) error {
		return mutex.NewMulti(mutex.Of(mutex.New(c, "/one")), mutex.Of(rwlock.New(c, "/two").WriteLock()),
			mutex.Of(semaphore.NewMutex(c, "/three")), mutex.Of(rwlock.NewReaders(c, "/four"))).Do(ctx, f)
	},
	"selector once": func(ctx context.Context, c *framework.Client, f work) error {
		return leader.NewSelector(c, "/held", f, leader.WithLossPolicy(framework.SessionOnly)).RunOnce(ctx)
	},
	"nested": func(ctx context.Context, c *framework.Client, f work) error {
		m := mutex.New(c, "/held")
		return m.Do(ctx, func(ctx context.Context) error { return m.Do(ctx, f) })
	},
}

// doer runs a function during a hold.
type doer = func(context.Context, work) error

func eachDoer(t *testing.T, story func(t *testing.T, s *zktest.Server, c *framework.Client, do doer)) {
	for name, do := range doers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := recipetest.Client(t, s)
				story(t, s, c, func(ctx context.Context, f work) error { return do(ctx, c, f) })
			})
		})
	}
}

// requireNobodyLeft fails if a contender's node is left.
func requireNobodyLeft(t *testing.T, s *zktest.Server) {
	for _, dir := range []string{"/held", "/held/leases", "/one", "/two", "/three/leases", "/four"} {
		if s.Exists(dir) {
			left, err := s.Children(dir)
			require.NoError(t, err)
			for _, name := range left {
				require.NotContains(t, name, "-", "no node of a contender is left")
			}
		}
	}
}

// Do returns the function's error. In each case nothing is left.
func TestDo(t *testing.T) {
	mine := errors.New("mine")
	eachDoer(t, func(t *testing.T, s *zktest.Server, c *framework.Client, do doer) {
		require.NoError(t, do(t.Context(), func(context.Context) error { return nil }))
		requireNobodyLeft(t, s)
		require.ErrorIs(t, do(t.Context(), func(context.Context) error { return mine }), mine)
		requireNobodyLeft(t, s)
		require.PanicsWithError(t, "mine", func() {
			_ = do(t.Context(), func(context.Context) error { panic(mine) })
		})
		synctest.Wait()
		requireNobodyLeft(t, s)
	})
}

// The function's context ends with the caller's, and has its deadline, except for a leader's.
func TestDoEndsWithTheCallersContext(t *testing.T) {
	eachDoer(t, func(t *testing.T, s *zktest.Server, c *framework.Client, do doer) {
		mine := errors.New("mine")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, mine)
		defer cancel()
		began := time.Now()
		err := do(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			require.Equal(t, time.Second, time.Since(began))
			require.ErrorIs(t, context.Cause(ctx), mine)
			if leader.TermOf(ctx) == nil {
				_, ok := ctx.Deadline()
				require.True(t, ok)
				require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			}
			return nil
		})
		if err != nil { // a selector returns the context's error
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		time.Sleep(time.Second)
		requireNobodyLeft(t, s)
	})
}

// The server stops after the function has returned, while the lock is still held. The release's outcome is not the function's: a
// caller that repeats failed work must not repeat this. And Do does not wait longer for the server than documented.
func TestDoWhenTheServerIsGoneAfterTheWork(t *testing.T) {
	mine := errors.New("mine")
	for _, says := range []error{nil, mine} {
		eachDoer(t, func(t *testing.T, s *zktest.Server, c *framework.Client, do doer) {
			var done time.Time
			err := do(t.Context(), func(context.Context) error {
				s.Stop()
				done = time.Now()
				return says
			})
			require.LessOrEqual(t, time.Since(done), time.Second)
			if says == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, mine)
				require.NotErrorIs(t, err, framework.ErrSessionLost)
				require.NotErrorIs(t, err, framework.ErrConnectionLoss)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
			}
			require.NoError(t, s.Start())
			time.Sleep(20 * time.Second)
			require.Zero(t, c.PendingCleanups())
			requireNobodyLeft(t, s)
		})
	}
}

// The session is lost during the release: that, too, is after the work.
func TestDoWhenTheSessionEndsDuringTheRelease(t *testing.T) {
	eachDoer(t, func(t *testing.T, s *zktest.Server, c *framework.Client, do doer) {
		lost := s.Inject(zktest.Fault{Op: "delete", Action: zktest.DropRequest, Times: -1})
		session := recipetest.Session(t, c)
		go func() {
			<-lost.Struck()
			time.Sleep(time.Millisecond)
			s.Expire(session)
		}()
		require.NoError(t, do(t.Context(), func(context.Context) error { return nil }))
	})
}

// A loss before the function returns is reported by each recipe, whatever the function returns.
func TestDoWhenTheLockIsLostDuringTheWork(t *testing.T) {
	mine := errors.New("mine")
	for _, says := range []error{nil, mine} {
		eachDoer(t, func(t *testing.T, s *zktest.Server, c *framework.Client, do doer) {
			err := do(t.Context(), func(ctx context.Context) error {
				s.Expire(recipetest.Session(t, c))
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), framework.ErrSessionLost)
				return says
			})
			require.ErrorIs(t, err, framework.ErrSessionLost)
			requireNobodyLeft(t, s)
			require.NotErrorIs(t, err, line.ErrNotReleased)
			if says != nil {
				require.ErrorIs(t, err, mine)
			}
		})
	}
}

// If the servers refuse the release, the lock stays held: the error reports that, and that the work is done.
func TestDoWhenTheReleaseIsRefused(t *testing.T) {
	for named, says := range map[string]error{"mutex": mutex.ErrNotReleased, "read lock": rwlock.ErrNotReleased,
		"semaphore": semaphore.ErrNotReleased, "selector once": leader.ErrNotReleased} {
		require.Equal(t, line.ErrNotReleased, says, named)
	}
	eachDoer(t, func(t *testing.T, s *zktest.Server, c *framework.Client, do doer) {
		err := do(t.Context(), func(context.Context) error {
			s.Inject(zktest.Fault{Op: "delete", Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
			return nil
		})
		require.ErrorIs(t, err, line.ErrNotReleased)
		require.ErrorIs(t, err, framework.ErrNoAuth)
	})
}

// A refusal after which the client retries is no error: the member has lost its quorum for a moment, or a new server does not
// know the client's credentials yet.
func TestDoWhenTheReleaseIsRefusedForAMoment(t *testing.T) {
	eachDoer(t, func(t *testing.T, s *zktest.Server, c *framework.Client, do doer) {
		err := do(t.Context(), func(context.Context) error {
			s.Inject(zktest.Fault{Op: "delete", Action: zktest.ReplyError, Err: zktest.ErrNotReadOnly, Times: 3})
			return nil
		})
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		require.Zero(t, c.PendingCleanups())
		requireNobodyLeft(t, s)
	})
	for _, says := range []error{framework.ErrNotReadOnly,
		fmt.Errorf("%w: %w", framework.ErrNotConnected, framework.ErrAuthFailed)} {
		require.NoError(t, line.ReleaseAfterWork(t.Context(), func(context.Context) error { return says }))
	}
}

// If the caller's context has ended, Do does not wait: the client deletes the nodes.
func TestDoWhenTheCallerHasLeft(t *testing.T) {
	eachDoer(t, func(t *testing.T, s *zktest.Server, c *framework.Client, do doer) {
		ctx, cancel := context.WithCancel(t.Context())
		slow := s.Inject(zktest.Fault{Op: "delete", Action: zktest.HoldReply, Times: -1})
		began := time.Now()
		err := do(ctx, func(context.Context) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) { // a selector's Run ends with its context
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
		slow.Release()
	})
}
