package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/once"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	newClient = recipetest.Client
	session   = recipetest.Session
	counts    = recipetest.Counts
)

const (
	path  = "/cron"
	job   = path + "/report"
	slots = job + "/slots"
	locks = job + "/lock"
)

var background = context.Background()

// policies are the two policies: at least once and at most once.
var policies = map[string][]once.Option{"at least once": nil, "at most once": {once.AtMostOnce()}}

func eachPolicy(t *testing.T, f func(t *testing.T, s *zktest.Server, opts []once.Option)) {
	for name, opts := range policies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, zktest.RunT(t), opts) })
		})
	}
}

// ledger records the runs, in order.
type ledger struct {
	mu   sync.Mutex
	runs []string
}

func (l *ledger) run(_ context.Context, run once.Run) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, run.Slot.String())
	return nil
}

func do(t *testing.T, j *once.Jobs, slot once.Slot, l *ledger) once.Outcome {
	t.Helper()
	outcome, err := j.Do(background, "report", slot, l.run)
	require.NoError(t, err)
	return outcome
}

func tidy(t *testing.T, s *zktest.Server, clients ...*framework.Client) {
	t.Helper()
	time.Sleep(2 * time.Second)
	recipetest.Clean(t, s, locks)
	recipetest.Tidy(t, clients...)
}

// Plain use: the nodes, and the requests.
func TestDo(t *testing.T) {
	eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
		c, other := newClient(t, s), newClient(t, s)
		j := once.New(c, path, opts...)
		var l ledger
		require.Equal(t, once.Ran, do(t, j, once.Named("v1"), &l))
		synctest.Wait()
		s.ResetCounts()
		require.Equal(t, once.Done, do(t, j, once.Named("v1"), &l))
		require.Equal(t, once.Done, do(t, once.New(other, path), once.Named("v1"), &l))
		counts(t, s, "done before", map[string]int{"getData": 2})
		require.Equal(t, once.Ran, do(t, j, once.Named("v2"), &l))
		want := map[string]int{"getData": 2, "create2": 2, "getChildren2": 2, "delete": 1}
		if opts != nil { // the record is created, and later completed
			want["multi"], want["create2"], want["setData"] = 1, 2, 1
		}
		counts(t, s, "run", want)
		require.Equal(t, []string{"v1", "v2"}, l.runs)
		node := s.Tree()[slots+"/v2"]
		require.Equal(t, zktest.Persistent, node.Mode)
		require.Regexp(t, "^done [0-9a-f-]{36}$", string(node.Data))
		require.Equal(t, zktest.Container, s.Tree()[slots].Mode)
		tidy(t, s, c)
	})
}

// All processes call Do at the same time: one runs the job, and the others return that it is done.
func TestManyProcesses(t *testing.T) {
	eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
		s.Delay(0, time.Millisecond)
		var l ledger
		var mu sync.Mutex
		outcomes := map[once.Outcome]int{}
		tokens := []int64{}
		var wg sync.WaitGroup
		for range 6 {
			j := once.New(newClient(t, s), path, opts...)
			wg.Go(func() {
				for hour := range 5 {
					slot := once.At(time.Unix(0, 0).Add(time.Duration(hour)*time.Hour+time.Minute), time.Hour)
					outcome, err := j.Do(background, "report", slot, func(ctx context.Context, run once.Run) error {
						mu.Lock()
						tokens = append(tokens, run.FencingToken)
						mu.Unlock()
						assert.Equal(t, slot.Time(), run.Slot.Time())
						time.Sleep(time.Second)
						return l.run(ctx, run)
					})
					assert.NoError(t, err)
					mu.Lock()
					outcomes[outcome]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Equal(t, []string{"1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z",
			"1970-01-01T03:00:00Z", "1970-01-01T04:00:00Z"}, l.runs)
		require.Equal(t, 5, outcomes[once.Ran], "%v", outcomes)
		require.Equal(t, 25, outcomes[once.Done]+outcomes[once.Begun], "%v", outcomes)
		require.IsIncreasing(t, tokens)
		tidy(t, s)
	})
}

var errNot = errors.New("not today")

// A function that fails is run again or not, depending on the policy.
func TestFailure(t *testing.T) {
	eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
		c := newClient(t, s)
		j := once.New(c, path, opts...)
		outcome, err := j.Do(background, "report", once.Named("a"), func(context.Context, once.Run) error { return errNot })
		require.Equal(t, once.Ran, outcome)
		require.ErrorIs(t, err, errNot)
		require.PanicsWithValue(t, "oh", func() {
			_, _ = j.Do(background, "report", once.Named("b"), func(context.Context, once.Run) error { panic("oh") })
		})
		recipetest.Clean(t, s, locks)
		var l ledger
		if opts == nil {
			require.Equal(t, once.Ran, do(t, j, once.Named("a"), &l))
			require.Equal(t, once.Ran, do(t, j, once.Named("b"), &l))
		} else {
			require.Equal(t, once.Begun, do(t, j, once.Named("a"), &l))
			require.Equal(t, once.Begun, do(t, j, once.Named("b"), &l))
		}
		tidy(t, s, c)
	})
}

// The winner's session is lost during the function: its context ends. A waiting process runs the job, or returns that it was
// begun, depending on the policy. If the function returns nil all the same, the run is recorded, and the error still reports the
// lost session.
func TestSessionLost(t *testing.T) {
	for _, stops := range []bool{true, false} {
		eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
			c, other := newClient(t, s), newClient(t, s)
			began := make(chan struct{})
			winner := recipetest.Begin(t, func() (once.Outcome, error) {
				return once.New(c, path, opts...).Do(background, "report", once.Named("a"),
					func(ctx context.Context, _ once.Run) error {
						close(began)
						<-ctx.Done()
						if stops {
							return context.Cause(ctx)
						}
						return nil
					})
			})
			<-began
			var l ledger
			waiter := recipetest.Begin(t, func() (once.Outcome, error) {
				time.Sleep(time.Millisecond)
				return once.New(other, path, opts...).Do(background, "report", once.Named("a"), l.run)
			})
			time.Sleep(time.Second)
			away := s.Inject(zktest.Fault{Session: session(t, c), Op: "connect", Action: zktest.Hold, Times: -1})
			s.Cut(session(t, c))
			winner.End()
			waiter.End()
			away.Release()
			require.Equal(t, once.Ran, winner.Value)
			require.ErrorIs(t, winner.Err, framework.ErrSessionLost)
			require.NoError(t, waiter.Err)
			if opts == nil {
				require.Equal(t, once.Ran, waiter.Value)
			} else {
				require.Equal(t, once.Begun, waiter.Value)
			}
			later := do(t, once.New(other, path), once.Named("a"), &l)
			if opts != nil && stops {
				require.Equal(t, once.Begun, later)
			} else {
				require.Equal(t, once.Done, later)
			}
			tidy(t, s, other)
		})
	}
}

// The lock is lost between its grant and the call of the function, while the slot's record is read: the function is not
// called without the lock. Do acquires the lock again.
func TestALockLostBeforeTheFunctionIsCalled(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, s *zktest.Server, c *framework.Client){
		"expired":         func(t *testing.T, s *zktest.Server, c *framework.Client) { s.Expire(session(t, c)) },
		"deleted by hand": func(t *testing.T, s *zktest.Server, _ *framework.Client) { deleteChildren(t, s, locks) },
	} {
		t.Run(name, func(t *testing.T) {
			eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
				c := newClient(t, s)
				read := s.Inject(zktest.Fault{Op: "getData", PathPrefix: slots, After: 1, Action: zktest.Hold})
				var held []bool // whether the lock is held, at each call
				do := recipetest.Begin(t, func() (once.Outcome, error) {
					return once.New(c, path, opts...).Do(background, "report", once.Named("a"),
						func(ctx context.Context, run once.Run) error {
							held = append(held, ctx.Err() == nil && run.Remaining() > 0)
							return nil
						})
				})
				<-read.Struck()
				lose(t, s, c)
				synctest.Wait()
				read.Release()
				require.Equal(t, once.Ran, do.End().OK())
				require.Equal(t, []bool{true}, held)
				tidy(t, s, c)
			})
		})
	}
}

func deleteChildren(t *testing.T, s *zktest.Server, dir string) {
	t.Helper()
	names, err := s.Children(dir)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.NoError(t, s.Delete(dir+"/"+name))
	}
}

// Replies to each kind of Do's requests are lost, before or after the execution: the job is run once, and recorded.
func TestLostReply(t *testing.T) {
	for _, op := range []zktest.Op{"getData", "create2", "createContainer", "multi", "setData", "getChildren2", "delete"} {
		for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
			for after := range 3 {
				eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
					c := newClient(t, s)
					s.Inject(zktest.Fault{Op: op, Action: action, Times: 2, After: after})
					j := once.New(c, path, opts...)
					var l ledger
					require.Equal(t, once.Ran, do(t, j, once.Named("a"), &l), "%s %v %d", op, action, after)
					require.Equal(t, once.Done, do(t, j, once.Named("a"), &l))
					require.Equal(t, []string{"a"}, l.runs)
					s.Heal()
					tidy(t, s, c)
				})
			}
		}
	}
}

// The reply to the record's write is lost, and so is the session. At least once: the function has run, so the run is recorded in
// the next session. At most once: the record is this call's, so the call continues under the lock of the next session.
func TestRecordAndSessionLost(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
			c := newClient(t, s)
			require.NoError(t, s.Create(path, nil))
			require.NoError(t, s.Create(job, nil))
			require.NoError(t, s.Create(slots, nil))
			op := zktest.Op("create2")
			if opts != nil {
				op = "multi"
			}
			s.Inject(zktest.Fault{Session: session(t, c), Op: op, PathPrefix: slots, Action: action})
			if opts != nil {
				s.Inject(zktest.Fault{Session: session(t, c), Op: op, Action: action})
			}
			away := s.Inject(zktest.Fault{Session: session(t, c), Op: "connect", Action: zktest.Hold})
			var l ledger
			call := recipetest.Begin(t, func() (once.Outcome, error) {
				return once.New(c, path, opts...).Do(background, "report", once.Named("a"), l.run)
			})
			<-away.Struck()
			s.Expire(session(t, c))
			away.Release()
			call.End()
			require.NoError(t, call.Err)
			require.Equal(t, once.Ran, call.Value)
			require.Equal(t, once.Done, do(t, once.New(c, path), once.Named("a"), &l))
			require.Equal(t, []string{"a"}, l.runs)
			tidy(t, s, c)
		})
	}
}

// The record cannot be written. At most once: nothing is run. At least once: the function has run, and the error reports that it
// may run again.
func TestNoRecord(t *testing.T) {
	eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
		c := newClient(t, s)
		require.NoError(t, s.Create(path, nil))
		require.NoError(t, s.Create(job, nil))
		require.NoError(t, s.Create(slots, nil))
		require.NoError(t, s.SetACL(slots, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		var l ledger
		outcome, err := once.New(c, path, opts...).Do(background, "report", once.Named("a"), l.run)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		if opts == nil {
			require.ErrorIs(t, err, once.ErrNotRecorded)
			require.Equal(t, once.Ran, outcome)
			require.Len(t, l.runs, 1)
		} else {
			require.Equal(t, once.Unknown, outcome)
			require.Empty(t, l.runs)
		}
		tidy(t, s, c)
	})
}

// The servers refuse to delete the lock's node: the job has run and is recorded, and the error reports the refusal.
func TestNoRelease(t *testing.T) {
	eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
		c := newClient(t, s)
		j := once.New(c, path, opts...)
		refusal := s.Inject(zktest.Fault{Op: "delete", PathPrefix: locks, Action: zktest.ReplyError, Err: zktest.ErrNoAuth, Times: -1})
		var l ledger
		outcome, err := j.Do(background, "report", once.Named("a"), l.run)
		require.Equal(t, once.Ran, outcome)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.Equal(t, once.Done, do(t, j, once.Named("a"), &l))
		require.Equal(t, []string{"a"}, l.runs)
		refusal.Remove()
	})
}

// The caller's context ends while the record is written: Do returns, the client retries the write, and no other process runs the
// job before the record exists.
func TestContextEndsBeforeTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		ctx, cancel := context.WithCancel(background)
		var l ledger
		away := s.Inject(zktest.Fault{Session: session(t, c), Op: "connect", Action: zktest.Hold})
		call := recipetest.Begin(t, func() (once.Outcome, error) {
			return once.New(c, path).Do(ctx, "report", once.Named("a"), func(ctx context.Context, run once.Run) error {
				s.Cut(session(t, c))
				return l.run(ctx, run)
			})
		})
		<-away.Struck()
		waiter := recipetest.Begin(t, func() (once.Outcome, error) {
			return once.New(other, path).Do(background, "report", once.Named("a"), l.run)
		}).Waits()
		cancel()
		time.Sleep(3 * time.Second)
		outcome, err := call.Returned()
		require.Equal(t, once.Ran, outcome)
		require.ErrorIs(t, err, once.ErrNotRecorded)
		require.ErrorIs(t, err, context.Canceled)
		waiter.Waits()
		away.Release()
		waiter.End()
		require.NoError(t, waiter.Err)
		require.Equal(t, once.Done, waiter.Value)
		require.Equal(t, []string{"a"}, l.runs)
		tidy(t, s, c, other)
	})
}

// Missed slots are skipped, or run first.
func TestCatchUp(t *testing.T) {
	eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
		c := newClient(t, s)
		at := func(hour int) once.Slot {
			return once.At(time.Date(2026, 11, 23, hour, 7, 0, 0, time.UTC), time.Hour)
		}
		var l ledger
		catching := once.New(c, path, append(opts[:len(opts):len(opts)], once.WithCatchUp(3))...)
		require.Equal(t, once.Ran, do(t, catching, at(1), &l), "nothing was missed before the first")
		require.Equal(t, once.Ran, do(t, once.New(c, path, opts...), at(4), &l), "skipped")
		require.Equal(t, once.Ran, do(t, catching, at(6), &l))
		require.Equal(t, once.Ran, do(t, catching, at(12), &l), "no more than three")
		require.Equal(t, once.Done, do(t, catching, at(11), &l))
		require.Equal(t, once.Ran, do(t, catching, once.Named("by hand"), &l))
		var hours []string
		for _, run := range l.runs {
			hours = append(hours, run[min(11, len(run)-2):min(13, len(run))])
		}
		require.Equal(t, []string{"01", "04", "05", "06", "09", "10", "11", "12", "nd"}[:8], hours[:8])

		// An error ends the catch-up, and the next call continues it.
		times := 0
		outcome, err := catching.Do(background, "report", at(15), func(context.Context, once.Run) error {
			if times++; times == 2 {
				return errNot
			}
			return nil
		})
		require.Equal(t, once.Ran, outcome)
		require.ErrorIs(t, err, errNot)
		l.runs = nil
		require.Equal(t, once.Ran, do(t, catching, at(15), &l))
		want := []string{"2026-11-23T14:00:00Z", "2026-11-23T15:00:00Z"}
		if opts != nil {
			want = want[1:] // the earlier slot was begun, and is not begun again
		}
		require.Equal(t, want, l.runs)

		// A record of a later slot, written by a process whose clock is ahead, does not hide missed slots.
		l.runs = nil
		require.Equal(t, once.Ran, do(t, once.New(c, path, opts...), at(20), &l))
		require.Equal(t, once.Ran, do(t, catching, at(17), &l))
		require.Equal(t, []string{"2026-11-23T20:00:00Z", "2026-11-23T16:00:00Z", "2026-11-23T17:00:00Z"}, l.runs)
		tidy(t, s, c)
	})
}

// Old records are deleted.
func TestKeep(t *testing.T) {
	eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
		c := newClient(t, s)
		j := once.New(c, path, append(opts[:len(opts):len(opts)], once.WithKeep(8))...)
		var l ledger
		records := 0
		for i := range 50 {
			require.Equal(t, once.Ran, do(t, j, once.Named(fmt.Sprint((i*7)%50)), &l))
			left, err := s.Children(slots)
			require.NoError(t, err)
			if records++; records > 10 {
				records = 8 // old records are deleted together: for most calls this costs one request
			}
			require.Len(t, left, records)
			require.Equal(t, once.Done, do(t, j, once.Named(fmt.Sprint((max(i-7, 0)*7)%50)), &l), "the last eight stay")
		}
		tidy(t, s, c)
	})
}

// A child of the records' directory has a child, so it cannot be deleted; it is older than all records. The old records are
// deleted all the same.
func TestAChildThatIsNoRecordKeepsNoOldRecords(t *testing.T) {
	eachPolicy(t, func(t *testing.T, s *zktest.Server, opts []once.Option) {
		require.NoError(t, s.Create(slots+"/notes/page", nil))
		c := newClient(t, s)
		j := once.New(c, path, append(opts[:len(opts):len(opts)], once.WithKeep(8))...)
		var l ledger
		for i := range 50 {
			require.Equal(t, once.Ran, do(t, j, once.Named(fmt.Sprint(i)), &l))
			left, err := s.Children(slots)
			require.NoError(t, err)
			require.LessOrEqual(t, len(left), 11)
		}
		require.True(t, s.Exists(slots+"/notes/page"))
		tidy(t, s, c)
	})
}

func TestArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		var l ledger
		for _, bad := range []struct {
			j    *once.Jobs
			name string
			slot once.Slot
			f    func(context.Context, once.Run) error
			want error
		}{
			{&once.Jobs{}, "a", once.Named("b"), l.run, framework.ErrNoClient},
			{once.New(nil, path), "a", once.Named("b"), l.run, framework.ErrNoClient},
			{once.New(c, "cron"), "a", once.Named("b"), l.run, framework.ErrInvalidPath},
			{once.New(c, path, nil), "a", once.Named("b"), l.run, framework.ErrInvalidOption},
			{once.New(c, path, once.WithKeep(0)), "a", once.Named("b"), l.run, framework.ErrInvalidOption},
			{once.New(c, path, once.WithCatchUp(0)), "a", once.Named("b"), l.run, framework.ErrInvalidOption},
			{once.New(c, path), "", once.Named("b"), l.run, framework.ErrBadArguments},
			{once.New(c, path), "a/b", once.Named("b"), l.run, framework.ErrBadArguments},
			{once.New(c, path), "a", once.Named(".."), l.run, framework.ErrBadArguments},
			{once.New(c, path), "a", once.Slot{}, l.run, framework.ErrBadArguments},
			{once.New(c, path), "a", once.At(time.Now(), 0), l.run, framework.ErrBadArguments},
			{once.New(c, path), "a", once.Named("b"), nil, framework.ErrBadArguments},
		} {
			outcome, err := bad.j.Do(background, bad.name, bad.slot, bad.f)
			require.ErrorIs(t, err, bad.want)
			require.Equal(t, once.Unknown, outcome)
		}
		require.False(t, s.Exists(path))
		for i, opt := range []once.Option{once.WithKeep(1), once.WithKeep(10_000), once.WithCatchUp(1)} {
			require.Equal(t, once.Ran, do(t, once.New(c, path, opt), once.Named(fmt.Sprint(i)), &l))
		}
		_, err := once.New(c, path, once.WithKeep(10_001)).Do(background, "a", once.Named("b"), l.run)
		require.ErrorIs(t, err, framework.ErrInvalidOption)

		// A job within itself.
		j := once.New(c, path)
		_, err = j.Do(background, "a", once.Named("1"), func(ctx context.Context, _ once.Run) error {
			_, err := j.Do(ctx, "a", once.Named("2"), l.run)
			return err
		})
		require.ErrorIs(t, err, once.ErrSelfWait)
		require.NoError(t, c.Close())
		_, err = j.Do(background, "a", once.Named("3"), l.run)
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

// A run returns how long its hold is certain, by the clock, and the path of its node.
func TestRunsRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		var kept once.Run
		_, err := once.New(c, "/cron").Do(t.Context(), "report", once.Named("s"), func(ctx context.Context, run once.Run) error {
			kept = run
			assert.True(t, s.Exists(run.Path()), run.Path())
			assert.True(t, strings.HasPrefix(run.Path(), "/cron/report/lock/"), run.Path())
			full := run.Remaining()
			assert.Positive(t, full)
			s.Pause()
			time.Sleep(time.Second)
			assert.LessOrEqual(t, run.Remaining(), full)
			time.Sleep(run.Remaining() + time.Millisecond)
			assert.Zero(t, run.Remaining())
			assert.Error(t, ctx.Err())
			s.Resume()
			return nil
		})
		assert.ErrorIs(t, err, framework.ErrSessionLost)
		assert.Zero(t, kept.Remaining())
		assert.Zero(t, once.Run{}.Remaining())
		assert.Empty(t, once.Run{}.Path())
	})
}
