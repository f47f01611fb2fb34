package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

var losses = []zktest.Action{zktest.CutBefore, zktest.LoseReply}

// The reply to a put is lost, before or after the execution, once or several times, for the first put of a session or a later
// one. While the producer is disconnected, a consumer takes all items. The item is put once.
func TestLostReplyToPut(t *testing.T) {
	for _, action := range losses {
		for before := range 3 {
			for _, times := range []int{1, 3} {
				for _, consumed := range []bool{false, true} {
					t.Run(fmt.Sprint(action, before, times, consumed), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							s := zktest.RunT(t)
							c, other := newClient(t, s), newClient(t, s)
							q := queue.New(c, path)
							want := numbered(before)
							for _, item := range want {
								put(t, q, item)
							}
							var h handled
							stop := func() {}
							if consumed {
								stop = consuming(t, queue.New(other, path), h.handle)
							}
							s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: action, Times: times})
							away := s.Inject(zktest.Fault{Session: session(t, c), Op: "connect", Action: zktest.Hold})
							call := recipetest.Begin(t, func() (int, error) { return 0, q.Put(background, []byte("x")) })
							<-away.Struck()
							time.Sleep(time.Second)
							away.Release()
							call.End()
							require.NoError(t, call.Err)
							put(t, q, "and on")
							if !consumed {
								stop = consuming(t, queue.New(other, path), h.handle)
							}
							require.Equal(t, append(want, "x", "and on"), h.wait(before+2))
							stop()
							tidy(t, s, c, other)
						})
					})
				}
			}
		}
	}
}

// The session expires after the reply was lost: then the outcome is unknown, and the error matches that.
func TestLostReplyAndSession(t *testing.T) {
	for _, action := range losses {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s)
			q := queue.New(c, path)
			put(t, q, "a")
			s.Inject(zktest.Fault{Op: "multi", Action: action})
			away := s.Inject(zktest.Fault{Op: "connect", Action: zktest.Hold})
			call := recipetest.Begin(t, func() (int, error) { return 0, q.Put(background, []byte("x")) })
			<-away.Struck()
			s.Expire(session(t, c))
			away.Release()
			call.End()
			require.ErrorIs(t, call.Err, framework.ErrOutcomeUnknown)
			put(t, q, "b")
			var h handled
			stop := consuming(t, q, h.handle)
			want := []string{"a", "x", "b"}
			if action == zktest.CutBefore {
				want = []string{"a", "b"}
			}
			require.Equal(t, want, h.wait(len(want)))
			stop()
			tidy(t, s, c)
		})
	}
}

// Without the right to create marks, items are put and taken all the same, and the outcome after a lost reply stays unknown.
func TestNoMarks(t *testing.T) {
	for _, action := range losses {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s)
			require.NoError(t, s.Create("/queues", nil))
			require.NoError(t, s.Create(path, nil))
			require.NoError(t, s.Create(markPath, nil))
			require.NoError(t, s.SetACL(markPath, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
			var failures []error
			q := queue.New(c, path, queue.OnFailure(func(err *queue.ItemError) queue.Fate {
				failures = append(failures, err)
				return queue.Requeue
			}))
			put(t, q, "a")
			s.Inject(zktest.Fault{Op: "multi", Action: action})
			require.ErrorIs(t, q.Put(background, []byte("x")), framework.ErrOutcomeUnknown)
			var h handled
			stop := consuming(t, q, h.handle)
			want := []string{"a", "x"}
			if action == zktest.CutBefore {
				want = []string{"a"}
			}
			require.Equal(t, want, h.wait(len(want)))
			s.Inject(zktest.Fault{Op: "multi", Action: action, After: 1})
			put(t, q, "y")
			time.Sleep(time.Minute)
			stop()
			require.Empty(t, failures[min(1, len(failures)):])
			if action == zktest.LoseReply {
				require.Len(t, failures, 1)
				require.ErrorIs(t, failures[0], framework.ErrOutcomeUnknown)
				require.Equal(t, want, h.all(), "lost, and said to be")
			}
			tidy(t, s, c)
		})
	}
}

// Replies to each kind of a consumer's requests are lost, before or after the execution, in some cases with another consumer:
// each item is handled exactly once.
func TestLostReplyToConsume(t *testing.T) {
	for _, op := range []zktest.Op{"multi", "create2", "getData", "getChildren2", "create"} {
		for _, action := range losses {
			for _, times := range []int{1, 3} {
				for _, rivals := range []int{0, 1} {
					eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
						c, other := newClient(t, s), newClient(t, s)
						q := queue.New(c, path, opts...)
						want := numbered(6)
						for _, item := range want {
							put(t, queue.New(other, path, opts...), item)
						}
						var h handled
						s.Inject(zktest.Fault{Session: session(t, c), Op: op, Action: action, Times: times, After: 1})
						stops := []func(){consuming(t, q, h.handle)}
						for range rivals {
							stops = append(stops, consuming(t, queue.New(other, path, opts...), h.handle))
						}
						got := h.wait(len(want))
						time.Sleep(time.Minute)
						require.Len(t, h.all(), len(want))
						if rivals == 0 {
							require.Equal(t, want, got)
						}
						slices.Sort(got)
						require.Equal(t, want, got)
						for _, stop := range stops {
							stop()
						}
						tidy(t, s, c, other)
					})
				}
			}
		}
	}
}

// Consumers of one session lose the reply to the create of a lock: each finds its own lock again, and none takes another's for
// its own.
func TestLostReplyToLockOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		for _, item := range numbered(20) {
			put(t, q, item)
		}
		var h handled
		handling := func(ctx context.Context, item []byte) error {
			time.Sleep(50 * time.Millisecond)
			return h.handle(ctx, item)
		}
		s.Inject(zktest.Fault{Op: "create2", PathPrefix: lockPath, Action: zktest.LoseReply, Times: 5, After: 2})
		stops := []func(){consuming(t, q, handling), consuming(t, q, handling), consuming(t, q, handling)}
		got := h.wait(20)
		for _, stop := range stops {
			stop()
		}
		slices.Sort(got)
		want := numbered(20)
		slices.Sort(want)
		require.Equal(t, want, got)
		tidy(t, s, c)
	})
}

// The reply to the write that deletes a lock is lost, and an administrator deletes the mark that would show whether it was
// executed. Then the lock's own data show it: they are unique.
func TestLostReplyAndMarkWhenALockIsGivenBack(t *testing.T) {
	for _, action := range losses {
		t.Run(fmt.Sprint(action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s)
				q := queue.New(c, path, queue.WithLockPath(lockPath))
				put(t, q, "a")
				ctx, cancel := context.WithCancel(background)
				lost := s.Inject(zktest.Fault{Op: "multi", PathPrefix: lockPath, Action: action})
				away := s.Inject(zktest.Fault{Op: zktest.OpConnect, Action: zktest.Hold})
				err := q.Consume(ctx, func(context.Context, []byte) error {
					cancel()
					return errors.New("not now")
				})
				require.ErrorIs(t, err, context.Canceled)
				<-lost.Struck()
				<-away.Struck()
				marks, err := s.Children(markPath)
				require.NoError(t, err)
				for _, mark := range marks {
					require.NoError(t, s.Delete(markPath+"/"+mark))
				}
				away.Release()
				time.Sleep(5 * time.Second)
				locks, err := s.Children(lockPath)
				require.NoError(t, err)
				require.Empty(t, locks, "the session goes on")
				var h handled
				stop := consuming(t, q, h.handle)
				require.Equal(t, []string{"a"}, h.wait(1))
				stop()
				tidy(t, s, c)
			})
		})
	}
}

// The servers refuse the consumer's credentials for a moment, just when it deletes a lock: the lock is deleted all the same,
// while the session lives.
func TestCredentialsRefusedWhenALockIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithAuth("digest", []byte("me:secret")))
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		put(t, q, "a")
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		refused := s.Inject(zktest.Fault{Op: "auth", Action: zktest.ReplyError, Err: zktest.ErrAuthFailed, Times: 3})
		err := q.Consume(ctx, func(context.Context, []byte) error {
			s.Cut(0)
			time.Sleep(100 * time.Millisecond)
			cancel()
			return errors.New("not now")
		})
		require.ErrorIs(t, err, context.Canceled)
		<-refused.Struck()
		time.Sleep(8 * time.Second)
		locks, err := s.Children(lockPath)
		require.NoError(t, err)
		require.Empty(t, locks, "the session goes on")
		var h handled
		stop := consuming(t, q, h.handle)
		require.Equal(t, []string{"a"}, h.wait(1))
		stop()
		tidy(t, s, c)
	})
}

// The consumer's session expires while it handles an item. With a lock path the handler's context ends, and the item is handled
// again; without one it is not.
func TestSessionLostWhileHandling(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, opts...)
		put(t, q, "a")
		put(t, q, "b")
		var h handled
		first := true
		stop := consuming(t, q, func(ctx context.Context, item []byte) error {
			if first {
				first = false
				s.Expire(session(t, c))
				select {
				case <-ctx.Done():
					require.ErrorIs(t, context.Cause(ctx), framework.ErrSessionLost)
					return ctx.Err()
				case <-time.After(time.Minute):
				}
			}
			return h.handle(ctx, item)
		})
		require.Equal(t, []string{"a", "b"}, h.wait(2))
		stop()
		tidy(t, s, c)
	})
}

// A consumer dies while it handles an item: another consumer handles it soon after the session's expiry.
func TestConsumerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		put(t, q, "a")
		dead := consuming(t, q, func(ctx context.Context, _ []byte) error { <-ctx.Done(); return ctx.Err() })
		time.Sleep(time.Second)
		var h handled
		stop := consuming(t, queue.New(other, path, queue.WithLockPath(lockPath)), h.handle)
		time.Sleep(time.Minute)
		require.Empty(t, h.all())
		away := s.Inject(zktest.Fault{Session: session(t, c), Op: "connect", Action: zktest.Hold, Times: -1})
		s.Cut(session(t, c))
		began := time.Now()
		require.Equal(t, []string{"a"}, h.wait(1))
		require.Less(t, time.Since(began), 15*time.Second)
		away.Release()
		dead()
		stop()
		tidy(t, s, c, other)
	})
}

// When Consume's context ends, an item that was handled is taken off; one that was not keeps its place, and another consumer
// takes it immediately.
func TestConsumeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Delay(0, 10*time.Millisecond)
		c, other := newClient(t, s), newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		for _, item := range numbered(2) {
			put(t, q, item)
		}
		var h handled
		stop := consuming(t, q, func(ctx context.Context, item []byte) error {
			<-ctx.Done()
			return h.handle(ctx, item)
		})
		time.Sleep(time.Second)
		stop()
		require.Equal(t, numbered(1), h.all())
		children, err := s.Children(path)
		require.NoError(t, err)
		require.Len(t, children, 1, "off the queue when Consume has returned")

		stop = consuming(t, q, func(ctx context.Context, item []byte) error { <-ctx.Done(); return ctx.Err() })
		time.Sleep(time.Second)
		stopOther := consuming(t, queue.New(other, path, queue.WithLockPath(lockPath)), h.handle)
		time.Sleep(time.Second)
		stop()
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, numbered(2), h.all())
		stopOther()
		tidy(t, s, c, other)
	})
}

// Calls return when their contexts end, also while the server hangs, and leave nothing.
func TestContextEndsWhileTheServerHangs(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c := newClient(t, s)
		q := queue.New(c, path, opts...)
		simple := queue.NewSimple(c, path)
		var h handled
		recipetest.CancelWhileTheServerHangs(t, s, []string{lockPath, "/other"},
			func(ctx context.Context) error { return q.Put(ctx, []byte("a")) },
			func(ctx context.Context) error { return q.Consume(ctx, h.handle) },
			func(ctx context.Context) error { _, err := simple.Poll(ctx); return err },
			func(ctx context.Context) error { _, err := simple.Take(ctx); return err },
			func(ctx context.Context) error { return simple.Offer(ctx, nil) })
	})
}

// The replies to the create of an item's lock are lost more often than the retry policy allows: the consumer waits until its lock
// is certain. If it took its own lock for another consumer's, it would handle the next item first.
func TestOrderWhileALockIsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		q := queue.New(c, path, queue.WithLockPath(lockPath))
		for _, item := range numbered(3) {
			put(t, q, item)
		}
		require.NoError(t, s.Create(lockPath, nil))
		s.Inject(zktest.Fault{Session: session(t, other), Op: "create2", PathPrefix: lockPath, Action: zktest.LoseReply, Times: 5})
		var h handled
		stop := consuming(t, queue.New(other, path, queue.WithLockPath(lockPath)), h.handle)
		require.Equal(t, numbered(3), h.wait(3))
		stop()
		tidy(t, s, c, other)
	})
}

// One producer and one consumer, with lost replies to all kinds of requests: the order is kept, and no item is handled twice.
func TestOrderUnderLostReplies(t *testing.T) {
	eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
		c, other := newClient(t, s), newClient(t, s)
		var h handled
		stop := consuming(t, queue.New(other, path, opts...), h.handle)
		for i, item := range numbered(60) {
			op := []zktest.Op{"multi", "create2", "getData", "getChildren2", "create"}[i%5]
			s.Inject(zktest.Fault{Op: op, Action: losses[i%2], After: i % 3})
			put(t, queue.New(c, path, opts...), item)
		}
		s.Heal()
		require.Equal(t, numbered(60), h.wait(60))
		stop()
		tidy(t, s, c, other)
	})
}

// The contexts of consumers end at random moments, and they start again; connections are cut; producers continue. With a lock
// path each item is handled, and twice only if a consumer's context ended or its session was lost. Without one, no item is
// handled twice, and each missing item was reported.
func TestUnderCuts(t *testing.T) {
	for _, hurried := range []bool{false, true} {
		eachMode(t, func(t *testing.T, s *zktest.Server, opts []queue.Option) {
			const producers, consumers, each = 3, 4, 40
			s.Delay(0, time.Millisecond)
			policy := framework.WithRetry(retry.ExponentialBackoff{Base: time.Millisecond, Retries: 50})
			began := time.Now()
			var mu sync.Mutex
			got, unknown := map[string]int{}, map[string]bool{}
			ctx, cancel := context.WithCancel(background)
			var producing, running sync.WaitGroup
			for p := range producers {
				q := queue.New(newClient(t, s, policy), path, opts...)
				producing.Go(func() {
					for i := range each {
						if err := q.Put(background, fmt.Appendf(nil, "%d-%d", p, i)); err != nil {
							t.Errorf("put: %v", err)
						}
					}
				})
			}
			for i := range consumers {
				q := queue.New(newClient(t, s, policy), path, append(slices.Clip(opts),
					queue.OnFailure(func(err *queue.ItemError) queue.Fate {
						mu.Lock()
						defer mu.Unlock()
						if errors.Is(err, framework.ErrOutcomeUnknown) {
							unknown[string(err.Data[9:len(err.Data)-1])] = true
						}
						return queue.Requeue
					}))...)
				running.Go(func() {
					for turn := 0; ctx.Err() == nil; turn++ {
						limited, stop := ctx, func() {}
						if hurried {
							limited, stop = context.WithTimeout(ctx, time.Duration(1+(turn*7+i)%23)*time.Millisecond)
						}
						err := q.Consume(limited, func(_ context.Context, item []byte) error {
							mu.Lock()
							defer mu.Unlock()
							got[string(item)]++
							return nil
						})
						stop()
						if limited.Err() == nil {
							t.Errorf("consume: %v", err)
						}
					}
				})
			}
			cutting := recipetest.Begin(t, func() (int, error) {
				for i := 0; ctx.Err() == nil; i++ {
					ops := []zktest.Op{"multi", "create2", "getData", "multi"}
					fault := s.Inject(zktest.Fault{Op: ops[i%4], PathPrefix: "", Action: losses[i%2], After: 1 + i%5})
					select {
					case <-fault.Struck():
						time.Sleep(3 * time.Millisecond)
					case <-ctx.Done():
					}
				}
				return 0, nil
			})
			producing.Wait()
			for settled := false; !settled; time.Sleep(time.Second) { // after a few minutes at most
				mu.Lock()
				told := len(got)
				for item := range unknown { // whose take may not have been executed
					if got[item] == 0 {
						told++
					}
				}
				settled = told >= producers*each || time.Since(began) > 5*time.Minute
				mu.Unlock()
			}
			cancel()
			running.Wait()
			cutting.End()
			s.Heal()
			for p := range producers {
				for i := range each {
					item := fmt.Sprintf("%d-%d", p, i)
					switch n := got[item]; {
					case n == 1:
					case n == 0 && opts == nil && hurried && unknown[item]:
					case n > 1 && opts != nil && hurried:
					default:
						t.Errorf("item %s was handled %d times", item, n)
					}
				}
			}
			t.Logf("%d of %d items were lost, and said to be", producers*each-len(got), producers*each)
			tidy(t, s)
		})
	}
}

// A producer's marks are deleted after each period without a write, not only after the first.
func TestMarksOfAProducerThatRestsAgainAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		q := queue.New(c, path)
		for range 3 {
			put(t, q, "letter")
			marks, err := s.Children(markPath)
			require.NoError(t, err)
			require.Len(t, marks, 1)
			time.Sleep(10*time.Second + time.Millisecond)
			recipetest.Clean(t, s, markPath)
		}
	})
}

// Another client writes to a producer's mark: the producer deletes it, and makes another.
func TestAMarkThatAnotherHasChangedIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		q := queue.New(newClient(t, s), path)
		last := ""
		for range 3 {
			put(t, q, "letter")
			synctest.Wait()
			marks, err := s.Children(markPath)
			require.NoError(t, err)
			require.Len(t, marks, 1)
			require.NotEqual(t, last, marks[0])
			last = marks[0]
			require.NoError(t, s.Set(markPath+"/"+last, nil))
		}
	})
}

// A consumer's session ends before it can find out whether it has taken an item off. The item is still there, and comes before
// the later ones.
func TestTheOrderAfterATakeOfUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, q := newClient(t, s), queue.New(newClient(t, s), path)
		for _, item := range numbered(3) {
			put(t, q, item)
		}
		id := session(t, c)
		s.Inject(zktest.Fault{Session: id, Op: "multi", Action: zktest.CutBefore})
		away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
		var h handled
		stop := consuming(t, queue.New(c, path), h.handle)
		<-away.Struck()
		s.Expire(id)
		away.Release()
		require.Equal(t, numbered(3), h.wait(3))
		stop()
	})
}

// A put returns with outcome unknown, and was executed. The next put's first request does not reach the server: the earlier
// execution is not taken for this put's, which is retried.
func TestAPutAfterOneOfUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{Retries: 1, Sleep: time.Second}))
		q := queue.New(c, path)
		put(t, q, "a")
		s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.LoseReply, Times: 2})
		require.ErrorIs(t, q.Put(background, []byte("b")), framework.ErrOutcomeUnknown)
		time.Sleep(time.Second)
		s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.CutBefore})
		put(t, q, "c")
		var h handled
		stop := consuming(t, q, h.handle)
		require.Equal(t, []string{"a", "b", "c"}, h.wait(3))
		stop()
		tidy(t, s, c)
	})
}
