package queue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/zktest"
)

// An item whose handler fails, or that cannot be read, does not stop the queue: OnFailure decides what becomes of it.
func TestPoison(t *testing.T) {
	for _, fate := range []queue.Fate{queue.Requeue, queue.Skip, queue.Delete} {
		eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
			c := newClient(t, s)
			var failures []*queue.ItemError
			tries := 0
			q := queue.New(c, path, append(opts[:len(opts):len(opts)],
				queue.OnFailure(func(err *queue.ItemError) queue.Fate {
					failures = append(failures, err)
					return fate
				}))...)
			put(t, q, "a")
			require.NoError(t, s.Create(path+"/queue-0000000001x", []byte("garbage")))
			require.NoError(t, s.Create(path+"/foreign", nil))
			require.NoError(t, q.PutMany(background, [][]byte{[]byte("half"), []byte("poison")}))
			put(t, q, "b")
			var h handled
			stop := consuming(t, q, func(ctx context.Context, item []byte) error {
				if string(item) != "poison" {
					return h.handle(ctx, item)
				}
				if tries++; tries < 4 {
					return errPoison
				}
				return h.handle(ctx, item)
			})
			time.Sleep(time.Minute)
			stop()
			got := strings.Join(h.all(), " ")
			left, err := s.Children(path)
			require.NoError(t, err)
			switch {
			case opts == nil:
				require.Equal(t, "a half b", got)
			case fate == queue.Requeue:
				require.Equal(t, "a half b half half half poison", got)
				require.Len(t, failures, 4)
			default:
				require.Equal(t, "a half b", got)
				require.Len(t, failures, 2)
			}
			require.ErrorIs(t, failures[0], queue.ErrUnreadable)
			require.Equal(t, "garbage", string(failures[0].Data))
			require.Equal(t, path+"/queue-0000000001x", failures[0].Path)
			require.ErrorIs(t, failures[1], errPoison)
			want := []string{"foreign"}
			if fate != queue.Delete {
				want = append(want, "queue-0000000001x")
			}
			if fate == queue.Skip && opts != nil {
				want = append(want, "queue-0000000003") // the garbage and the foreign child have numbers, too
			}
			require.ElementsMatch(t, want, left)
			for _, name := range left {
				require.NoError(t, s.Delete(path+"/"+name))
			}
			tidy(t, s, c)
		})
	}
}

// By default an item is put back, keeps its priority, and is tried again after a pause; an unreadable item is left; both are
// logged.
func TestFailuresByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		q := queue.New(c, path, queue.WithLockPath(lockPath), queue.WithOrder(queue.ByPriority))
		put(t, q, "poison", queue.Priority(-7))
		put(t, q, "a", queue.Priority(1))
		require.NoError(t, s.Create(path+"/queue-", []byte("garbage")))
		tries := 0
		var h handled
		stop := consuming(t, q, func(ctx context.Context, item []byte) error {
			if string(item) == "poison" {
				if tries++; tries <= 60 {
					return errPoison
				}
			}
			return h.handle(ctx, item)
		})
		began := time.Now()
		require.Equal(t, []string{"poison", "a"}, h.wait(2))
		require.Greater(t, time.Since(began), 10*time.Second, "with pauses")
		require.Contains(t, log.String(), errPoison.Error())
		require.Contains(t, log.String(), path+"/queue-")
		stop()
		require.NoError(t, s.Delete(path+"/queue-"))
		tidy(t, s, c)
	})
}

// If a handler panics, its lock is deleted, and Consume panics; the item stays.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		put(t, q, "a")
		require.PanicsWithValue(t, "oh", func() {
			_ = q.Consume(background, func(context.Context, []byte) error { panic("oh") })
		})
		recipetest.Clean(t, s, lockPath)
		var h handled
		stop := consuming(t, q, h.handle)
		require.Equal(t, []string{"a"}, h.wait(1))
		stop()
		tidy(t, s, c)
	})
}

// An administrator deletes the lock: the handler's context ends, and the item is handled again. If the handler ignores its
// context, the item is handled again, too, and is not deleted for the next handler.
func TestLockDeletedByHand(t *testing.T) {
	for _, looks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s)
			q := queue.New(c, path, queue.WithLockPath(lockPath))
			put(t, q, "a")
			tries := 0
			var h handled
			stop := consuming(t, q, func(ctx context.Context, item []byte) error {
				if tries++; tries == 1 {
					time.Sleep(time.Second)
					if !looks {
						require.NoError(t, s.Delete(lockPath+"/queue-0000000000"))
						return nil
					}
					require.NoError(t, s.Delete(lockPath+"/queue-0000000000"))
					<-ctx.Done()
					return ctx.Err()
				}
				return h.handle(ctx, item)
			})
			require.Equal(t, []string{"a"}, h.wait(1))
			require.Equal(t, 2, tries)
			stop()
			tidy(t, s, c)
		})
	}
}

// The queue's directories are deleted, and the queue continues.
func TestDirectoriesDeleted(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, opts...)
		put(t, q, "a")
		var h handled
		stop := consuming(t, q, h.handle)
		h.wait(1)
		synctest.Wait()
		require.NoError(t, s.DeleteAll("/queues"))
		put(t, q, "b")
		require.Equal(t, []string{"a", "b"}, h.wait(2))
		synctest.Wait()
		require.NoError(t, s.DeleteAll(markPath))
		put(t, q, "c")
		require.Equal(t, []string{"a", "b", "c"}, h.wait(3))
		stop()
		tidy(t, s, c)
	})
}

// The client is closed while its consumers wait and work.
func TestClose(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, opts...)
		idle := recipetest.Begin(t, func() (int, error) {
			return 0, q.Consume(background, func(context.Context, []byte) error { return nil })
		}).Waits()
		require.NoError(t, c.Close())
		_, err := idle.Returned()
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}

// Without a right Consume returns the error, and does not retry for ever.
func TestNoRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		put(t, q, "a")
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		err := q.Consume(background, func(context.Context, []byte) error { return nil })
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.ErrorIs(t, q.Put(background, nil), framework.ErrNoAuth)
	})
}

// The end of Consume is no failure of the handler that it interrupts: OnFailure is not called, and the item keeps its place
// The session's timeout is too short for a hold, or the numbers of the queue's node cannot be read: Consume ends, and the item's
// lock is deleted, so that other consumers can handle the item.
func TestConsumeThatEndsWithAnErrorLeavesNoLock(t *testing.T) {
	for _, short := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t, zktest.Config{
				EnsembleConfig: "server.1=a:2888:3888:participant;0.0.0.0:2181\n" +
					"server.2=b:2888:3888:participant;0.0.0.0:2181\nversion=100000000",
				TickTime: 900 * time.Millisecond,
			})
			put(t, queue.New(newClient(t, s), path), "a")
			if short {
				s.LimitSessions(1800 * time.Millisecond)
			}
			c := newClient(t, s)
			s.Inject(zktest.Fault{
				Op: zktest.OpExists, Session: session(t, c), Action: zktest.ReplyError, Err: zktest.ErrUnimplemented,
			})
			q := queue.New(c, path, queue.WithLockPath(lockPath))
			failing := func(context.Context, []byte) error { return errPoison }
			call := recipetest.Begin(t, func() (int, error) { return 0, q.Consume(background, failing) })
			if call.End(); short {
				require.ErrorIs(t, call.Err, framework.ErrTimeoutTooShort)
			} else {
				require.ErrorIs(t, call.Err, framework.ErrUnimplemented)
			}
			synctest.Wait()
			locks, err := s.Children(lockPath)
			require.NoError(t, err)
			require.Empty(t, locks)
		})
	}
}

// before later items.
func TestTheEndOfConsumeIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath), queue.OnFailure(func(err *queue.ItemError) queue.Fate {
			t.Error("a failure: ", err)
			return queue.Requeue
		}))
		put(t, q, "a")
		put(t, q, "b")
		before, err := s.Children(path)
		require.NoError(t, err)
		stop := consuming(t, q, func(ctx context.Context, _ []byte) error {
			<-ctx.Done()
			return ctx.Err()
		})
		time.Sleep(time.Second)
		stop()
		time.Sleep(time.Second) // until the lock is deleted
		after, err := s.Children(path)
		require.NoError(t, err)
		require.ElementsMatch(t, before, after)
		var h handled
		stop = consuming(t, q, h.handle)
		require.Equal(t, []string{"a", "b"}, h.wait(2))
		stop()
		tidy(t, s, c)
	})
}

// An administrator deletes the lock after the handler has returned, before the item is taken off: that is no success, and the
// item is handled again immediately.
func TestLockDeletedByHandBeforeTheItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		put(t, q, "a")
		hold := s.Inject(zktest.Fault{Op: "multi", PathPrefix: lockPath, Action: zktest.Hold})
		var h handled
		stop := consuming(t, q, h.handle)
		<-hold.Struck()
		require.NoError(t, s.Delete(lockPath+"/queue-0000000000"))
		hold.Release()
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"a", "a"}, h.all())
		require.False(t, s.Exists(path+"/queue-0000000000"))
		stop()
		tidy(t, s, c)
	})
}

// At most once: the items of a node are taken off together, so a failure of one does not stop the handling of the others.
func TestTheRestOfABatchAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		failures := 0
		q := queue.New(c, path, queue.OnFailure(func(err *queue.ItemError) queue.Fate {
			failures++
			require.ErrorIs(t, err, errPoison)
			return queue.Delete
		}))
		require.NoError(t, q.PutMany(background, [][]byte{[]byte("a"), []byte("poison"), []byte("b"), []byte("poison"), []byte("c")}))
		var h handled
		stop := consuming(t, q, func(ctx context.Context, item []byte) error {
			if string(item) == "poison" {
				return errPoison
			}
			return h.handle(ctx, item)
		})
		require.Equal(t, []string{"a", "b", "c"}, h.wait(3))
		require.Equal(t, 2, failures)
		stop()
		tidy(t, s, c)
	})
}

// An administrator deletes an item while a consumer handles it: its lock is deleted all the same.
func TestItemDeletedByHandWhileItIsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		put(t, q, "a")
		put(t, q, "b")
		var h handled
		stop := consuming(t, q, func(ctx context.Context, item []byte) error {
			if string(item) == "a" {
				require.NoError(t, s.Delete(path+"/queue-0000000000"))
			}
			return h.handle(ctx, item)
		})
		require.Equal(t, []string{"a", "b"}, h.wait(2))
		stop()
		tidy(t, s, c)
	})
}

// An item's data are replaced after a consumer has read them, and before it takes the item off: the handler gets the new data.
func TestItemReplacedBeforeItIsTakenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path)
		put(t, q, "new")
		replacement := s.Tree()[path+"/queue-0000000000"].Data
		require.NoError(t, s.Delete(path+"/queue-0000000000"))
		put(t, q, "old")
		hold := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		var h handled
		stop := consuming(t, q, h.handle)
		<-hold.Struck()
		require.NoError(t, s.Set(path+"/queue-0000000001", replacement))
		hold.Release()
		require.Equal(t, []string{"new"}, h.wait(1))
		stop()
		tidy(t, s, c)
	})
}

// Without the right to delete it, the lock of an item stays while the session lives, and that is logged. A delete that succeeds
// is not.
func TestALockThatCannotBeDeletedIsLogged(t *testing.T) {
	for _, permitted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			var log recipetest.Log
			c := newClient(t, s, framework.WithLogger(log.Logger()))
			q := queue.New(c, path, queue.WithLockPath(lockPath))
			put(t, q, "a")
			ctx, cancel := context.WithCancel(background)
			err := q.Consume(ctx, func(context.Context, []byte) error {
				if !permitted {
					perms := int32(framework.PermAll &^ framework.PermDelete)
					require.NoError(t, s.SetACL(lockPath, zktest.ACL{Perms: perms, Scheme: "world", ID: "anyone"}))
				}
				cancel()
				return errPoison
			})
			require.ErrorIs(t, err, context.Canceled)
			time.Sleep(time.Second)
			require.Equal(t, permitted, !s.Exists(lockPath+"/queue-0000000000"))
			require.Equal(t, permitted, !strings.Contains(log.String(), "cannot delete the lock of an item"), log.String())
		})
	}
}

// Another consumer locks an item after an administrator has deleted a consumer's lock, or after the create of that lock was lost.
// The first consumer neither handles the item under the other's lock nor deletes that lock.
func TestALockOfTheNextConsumerStays(t *testing.T) {
	for name, executed := range map[string]bool{"after a deletion by hand": true, "after a create that was not executed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				first, next := newClient(t, s), newClient(t, s)
				put(t, queue.New(next, path), "a")
				require.NoError(t, s.Create(lockPath, nil))
				if !executed {
					s.Inject(zktest.Fault{Session: session(t, first), Op: "create2", PathPrefix: lockPath, Action: zktest.CutBefore})
				}
				connect := s.Inject(zktest.Fault{Session: session(t, first), Op: "connect", Action: zktest.Hold})
				calls, nextCalls, proceed := 0, 0, make(chan struct{})
				stop := consuming(t, queue.New(first, path, queue.WithLockPath(lockPath)), func(context.Context, []byte) error {
					calls++
					<-proceed
					return nil
				})
				if synctest.Wait(); executed {
					require.NoError(t, s.Delete(lockPath+"/queue-0000000000"))
				}
				var h handled
				stopNext := consuming(t, queue.New(next, path, queue.WithLockPath(lockPath)), func(ctx context.Context, item []byte) error {
					nextCalls++
					if time.Sleep(5 * time.Second); ctx.Err() != nil {
						return ctx.Err()
					}
					return h.handle(ctx, item)
				})
				time.Sleep(time.Second) // the next consumer has the lock
				connect.Release()
				close(proceed)
				require.Equal(t, []string{"a"}, h.wait(1))
				require.Equal(t, 1, nextCalls, "its lock stays")
				require.Equal(t, executed, calls == 1)
				stop()
				stopNext()
				tidy(t, s, first, next)
			})
		})
	}
}

// The pauses after failures grow only with successive failures: a later single one is followed by a short pause.
func TestThePauseAfterALaterFailure(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		deletes := queue.OnFailure(func(*queue.ItemError) queue.Fate { return queue.Delete })
		q := queue.New(newClient(t, s), path, append(opts[:len(opts):len(opts)], deletes)...)
		for range 10 {
			put(t, q, "poison")
		}
		const rounds = 4
		for range rounds {
			put(t, q, "good")
			put(t, q, "poison")
		}
		put(t, q, "good")
		var failed time.Time
		var pauses []time.Duration
		handled := make(chan struct{}, rounds+1)
		stop := consuming(t, q, func(_ context.Context, item []byte) error {
			if string(item) == "poison" {
				failed = time.Now()
				return errPoison
			}
			pauses = append(pauses, time.Since(failed))
			handled <- struct{}{}
			return nil
		})
		for range rounds + 1 {
			<-handled
		}
		stop()
		for _, pause := range pauses[1:] { // the first is after ten failures in a row
			require.LessOrEqual(t, pause, 20*time.Millisecond)
		}
	})
}
