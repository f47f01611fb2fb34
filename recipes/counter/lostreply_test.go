package counter_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// The reply to a write is lost, before or after the execution, for the first write with a mark or a later one. While the client
// is disconnected, other clients write nothing, the same number, another one, or several. The delta is added exactly once.
func TestLostReply(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		for before := range 2 {
			for _, others := range [][]int64{nil, {1}, {7}, {1, 1}, {1, -1}, {-1, 1, 5}} {
				for _, losses := range []int{1, 3} {
					t.Run(fmt.Sprint(action, before, others, losses), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							s := zktest.RunT(t)
							c := newClient(t, s)
							n, other := counter.NewLong(c, path), counter.NewLong(newClient(t, s), path)
							require.NoError(t, n.Set(background, 40))
							want := int64(41)
							for range before {
								add(t, n, 1)
								want++
							}
							id := session(t, c)
							s.Inject(zktest.Fault{Session: id, Op: "multi", Action: action, Times: losses})
							away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
							call := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) })
							<-away.Struck()
							for _, delta := range others {
								add(t, other, delta)
								want += delta
							}
							away.Release()
							call.End()
							require.NoError(t, call.Err)
							require.Equal(t, want, at(t, s))
							if action == zktest.LoseReply {
								require.EqualValues(t, 41+before, call.Value, "before the others")
							} else {
								require.Equal(t, want, call.Value, "after the others")
							}
							require.Equal(t, want+1, add(t, n, 1), "and it goes on")
							tidy(t, s, c)
						})
					})
				}
			}
		}
	}
}

// The session expires after the reply was lost, and the mark is deleted with it. The outcome is reported if it can be known
// without the mark, and as unknown otherwise.
func TestLostReplyAndSession(t *testing.T) {
	const before = 40
	for _, c := range []struct {
		name    string
		action  zktest.Action
		others  []int64
		remade  int // how often it is set after a delete and another create
		unknown bool
		want    int64 // the number after that
	}{
		{"not executed, nobody else", zktest.CutBefore, nil, 0, false, 41},
		{"not executed, somebody else otherwise", zktest.CutBefore, []int64{7}, 0, false, 48},
		{"not executed, somebody else the same", zktest.CutBefore, []int64{1}, 0, true, 41},
		{"not executed, others", zktest.CutBefore, []int64{7, 7}, 0, true, 54},
		{"executed, nobody else", zktest.LoseReply, nil, 0, true, 41},
		{"executed, others", zktest.LoseReply, []int64{7}, 0, true, 48},
		{"executed, made anew", zktest.LoseReply, nil, 1, true, 100},
		{"executed, made anew with the version of the write", zktest.LoseReply, nil, 2, true, 100},
		{"not executed, made anew", zktest.CutBefore, nil, 1, true, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				client := newClient(t, s)
				n, other := counter.NewLong(client, path), counter.NewLong(newClient(t, s), path)
				require.NoError(t, n.Set(background, before-1))
				add(t, n, 1)
				id := session(t, client)
				s.Inject(zktest.Fault{Session: id, Op: "multi", Action: c.action})
				away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
				call := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) })
				<-away.Struck()
				for _, delta := range c.others {
					add(t, other, delta)
				}
				if c.remade > 0 {
					require.NoError(t, s.DeleteAll(path))
					require.NoError(t, s.Create(path, []byte("\x00\x00\x00\x00\x00\x00\x00\x01")))
				}
				for range c.remade {
					require.NoError(t, s.Set(path, []byte("\x00\x00\x00\x00\x00\x00\x00\x64")))
				}
				s.Expire(id)
				away.Release()
				call.End()
				require.Equal(t, c.want, at(t, s))
				if c.unknown {
					require.ErrorIs(t, call.Err, framework.ErrOutcomeUnknown)
					require.Zero(t, call.Value)
				} else {
					require.NoError(t, call.Err)
					require.Equal(t, c.want, call.Value)
				}
				require.Equal(t, c.want+1, add(t, n, 1))
				tidy(t, s, client)
			})
		})
	}
}

// An administrator deletes the mark while the client has no reply: then the outcome is unknown, and the delta is not added twice.
// It was the first write with the mark, or a later one.
func TestLostReplyAndMark(t *testing.T) {
	for before := range 2 {
		for _, others := range [][]int64{nil, {1}, {7}} {
			t.Run(fmt.Sprint(before, others), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					client := newClient(t, s)
					n, other := counter.NewLong(client, path), counter.NewLong(newClient(t, s), path)
					require.NoError(t, n.Set(background, 40))
					want := int64(41)
					for range before {
						add(t, n, 1)
						want++
					}
					id := session(t, client)
					s.Inject(zktest.Fault{Session: id, Op: "multi", Action: zktest.LoseReply})
					away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
					call := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) })
					<-away.Struck()
					marks, err := s.Children(path)
					require.NoError(t, err)
					require.Len(t, marks, 1)
					require.NoError(t, s.Delete(path+"/"+marks[0]))
					for _, delta := range others {
						add(t, other, delta)
						want += delta
					}
					away.Release()
					call.End()
					require.ErrorIs(t, call.Err, framework.ErrOutcomeUnknown)
					require.Equal(t, want, at(t, s))
					require.Equal(t, want+1, add(t, n, 1), "and it goes on")
					tidy(t, s, client)
				})
			})
		}
	}
}

// Without the right to create children there is no mark. Then the outcome after a lost reply is known only if the data show it.
func TestLostReplyWithoutAMark(t *testing.T) {
	const noCreate = 31 &^ 4
	for _, c := range []struct {
		name    string
		action  zktest.Action
		others  []int64
		unknown bool
		want    int64
	}{
		{"not executed, nobody else", zktest.CutBefore, nil, false, 42},
		{"not executed, somebody else otherwise", zktest.CutBefore, []int64{7}, false, 49},
		{"not executed, somebody else the same", zktest.CutBefore, []int64{1}, true, 42},
		{"executed, nobody else", zktest.LoseReply, nil, true, 42},
		{"executed, others", zktest.LoseReply, []int64{7, 1}, true, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				client := newClient(t, s)
				n, other := counter.NewLong(client, path), counter.NewLong(newClient(t, s), path)
				require.NoError(t, n.Set(background, 40))
				require.NoError(t, s.SetACL(path, zktest.ACL{Perms: noCreate, Scheme: "world", ID: "anyone"}))
				require.EqualValues(t, 41, add(t, n, 1))
				require.Empty(t, marks(t, s))
				s.ResetCounts()
				id := session(t, client)
				s.Inject(zktest.Fault{Session: id, Op: "multi", Action: c.action})
				away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
				call := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) })
				<-away.Struck()
				for _, delta := range c.others {
					add(t, other, delta)
				}
				away.Release()
				call.End()
				require.Equal(t, c.want, at(t, s))
				if c.unknown {
					require.ErrorIs(t, call.Err, framework.ErrOutcomeUnknown)
				} else {
					require.NoError(t, call.Err)
					require.Equal(t, c.want, call.Value)
				}
				require.Equal(t, c.want+1, add(t, n, 1))

				// With the right restored it has marks again, after a while.
				require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}))
				time.Sleep(15 * time.Second)
				add(t, n, 1)
				require.Len(t, marks(t, s), 1)
				tidy(t, s, client)
			})
		})
	}
}

// The retry policy ends before the reconnect: then the outcome is unknown, and in either case the next Add is right.
func TestLostReplyAndNoMoreTries(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s, framework.WithRetry(retry.RetryOneTime{Sleep: time.Millisecond}),
				framework.WithConnectionTimeout(time.Second))
			n := counter.NewLong(c, path)
			add(t, n, 1)
			s.Inject(zktest.Fault{Op: "multi", Action: action})
			away := s.Inject(zktest.Fault{Op: "connect", Action: zktest.Hold, Times: -1})
			call := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) }).End()
			require.ErrorIs(t, call.Err, framework.ErrOutcomeUnknown)
			away.Release()
			want := int64(2)
			if action == zktest.LoseReply {
				want = 3
			}
			require.NoError(t, c.WaitConnected(background))
			require.Equal(t, want, add(t, n, 1))
			require.Equal(t, want, at(t, s))
			tidy(t, s, c)
		})
	}
}

// Replies may be lost while the number is created and read, too.
func TestLostReplyWhileTheNumberIsMade(t *testing.T) {
	for _, op := range []zktest.Op{"getData", "create2", "createContainer"} {
		for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s)
				id := session(t, c)
				s.Inject(zktest.Fault{Session: id, Op: op, PathPrefix: "/counters", Action: action})
				require.EqualValues(t, 5, add(t, counter.NewLong(c, path), 5))
				tidy(t, s, c)
			})
		}
	}
}

// addAsJava adds 1 as Curator's DistributedAtomicLong does: it reads the number, and writes it by version, until that succeeds.
func addAsJava(t *testing.T, c *framework.Client) {
	for {
		var stat framework.Stat
		data, err := c.GetData().StoringStatIn(&stat).ForPath(background, path)
		next := binary.BigEndian.AppendUint64(nil, 1)
		if errors.Is(err, framework.ErrNoNode) {
			_, err = c.Create().CreatingParentsIfNeeded().ForPath(background, path, next)
		} else if err == nil {
			binary.BigEndian.PutUint64(next, binary.BigEndian.Uint64(data)+1)
			_, err = c.SetData().WithVersion(stat.Version).ForPath(background, path, next)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, framework.ErrBadVersion) && !errors.Is(err, framework.ErrNodeExists) {
			assert.NoError(t, err)
			return
		}
	}
}

// Many processes with many adders, one of them with a lock, and one that adds as in Java. Connections are cut before and after
// executions, and the contexts of some callers end. The sum is that of the confirmed adds, plus some of those with unknown
// outcome. With patient callers and living sessions no outcome is unknown.
func TestAddersUnderCuts(t *testing.T) {
	for _, hurried := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const processes, adders, each = 4, 4, 40
			s := zktest.RunT(t)
			s.Delay(0, time.Millisecond)
			var mu sync.Mutex
			acked, unknown := int64(0), int64(0)
			sums := map[int64]bool{}
			var wg sync.WaitGroup
			for p := range processes {
				policy := retry.ExponentialBackoff{Base: time.Millisecond, Retries: 50}
				c := newClient(t, s, framework.WithRetry(policy))
				var opts []counter.Option
				if p == 0 {
					opts = append(opts, counter.WithLock("/counters/orders-lock"))
				}
				n := counter.NewLong(c, path, opts...)
				for a := range adders {
					wg.Go(func() {
						for i := range each {
							ctx, cancel := background, func() {}
							if hurried && (p+a+i)%3 == 0 {
								limit := time.Duration(i) * 100 * time.Microsecond
								ctx, cancel = context.WithTimeout(background, limit)
							}
							sum, err := n.Add(ctx, 1)
							cancel()
							mu.Lock()
							switch {
							case err == nil:
								acked++
								assert.False(t, sums[sum], "%d twice", sum)
								sums[sum] = true
							case !hurried:
								assert.NoError(t, err)
							case errors.Is(err, framework.ErrOutcomeUnknown):
								unknown++
							}
							mu.Unlock()
						}
					})
				}
			}
			java := newClient(t, s)
			wg.Go(func() {
				for range each {
					addAsJava(t, java)
				}
			})
			done := make(chan struct{})
			var faults sync.WaitGroup
			faults.Go(func() {
				for i := 0; ; i++ {
					action := []zktest.Action{zktest.LoseReply, zktest.CutBefore}[i%2]
					fault := s.Inject(zktest.Fault{Op: "multi", Action: action, After: 2 + i%7})
					select {
					case <-done:
						return
					case <-fault.Struck():
					}
				}
			})
			wg.Wait()
			close(done)
			faults.Wait()
			total := at(t, s)
			t.Logf("%d acknowledged, %d unknown, the sum is %d", acked, unknown, total)
			require.GreaterOrEqual(t, total, acked+each)
			require.LessOrEqual(t, total, acked+unknown+each)
			if !hurried {
				require.EqualValues(t, (processes*adders+1)*each, total)
			} else {
				require.NotZero(t, unknown)
			}
		})
	}
}

// Before the number is written, its node and the mark are created, and the lock is acquired. If the reply to one of these
// requests is lost until the retry policy ends, nothing is added.
func TestLostReplyBeforeTheNumberIsWritten(t *testing.T) {
	for what, prefix := range map[string]string{"the mark": path + "/_c_", "the number": path, "the lock": "/turns"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s, framework.WithRetry(retry.RetryOneTime{Sleep: time.Millisecond}))
				n, other := counter.NewLong(c, path, counter.WithLock("/turns")), counter.NewLong(newClient(t, s), path)
				races := 0
				if what == "the lock" { // it is acquired after two lost races
					races = 2
					add(t, n, 0)
				}
				lost := s.Inject(zktest.Fault{Session: session(t, c), Op: "create2", PathPrefix: prefix, Action: zktest.LoseReply,
					Times: -1})
				hold := s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
				call := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) })
				for range races {
					<-hold.Struck()
					add(t, other, 1)
					last := hold
					hold = s.Inject(zktest.Fault{Session: session(t, c), Op: "multi", Action: zktest.Hold})
					last.Release()
				}
				require.Error(t, call.End().Err)
				require.Positive(t, lost.Hits())
				require.NotErrorIs(t, call.Err, framework.ErrOutcomeUnknown)
				require.ErrorIs(t, call.Err, framework.ErrNotConnected)
				if s.Exists(path) {
					require.EqualValues(t, races, at(t, s))
				}
			})
		})
	}
}

// An Add that overflows has added nothing, whatever the outcome of the others' write.
func TestLostReplyToTheWriteOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s, framework.WithRetry(retry.RetryNTimes{}))
		n := counter.NewLong(c, path)
		require.NoError(t, n.Set(background, 5))
		add(t, n, 1)
		hold := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		first := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) }).Waits()
		<-hold.Struck()
		fits := recipetest.Begin(t, func() (int64, error) { return n.Add(background, 1) }).Waits()
		big := recipetest.Begin(t, func() (int64, error) { return n.Add(background, math.MaxInt64) }).Waits()
		s.Inject(zktest.Fault{Op: "multi", Action: zktest.LoseReply})
		hold.Release()
		first.OK()
		require.ErrorIs(t, fits.End().Err, framework.ErrOutcomeUnknown)
		require.Error(t, big.End().Err)
		require.NotErrorIs(t, big.Err, framework.ErrOutcomeUnknown)
	})
}

// If a hook ends the goroutine before the number is written, nothing is added.
func TestAHookThatEndsTheGoroutineBeforeTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		armed := true
		c := newClient(t, s, framework.WithHooks(framework.Hooks{
			Operation: func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
				if armed && op.Name == "getData" {
					armed = false
					runtime.Goexit()
				}
				return nil
			},
		}))
		_, err := counter.NewLong(c, path).Add(background, 1)
		require.Error(t, err)
		require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
	})
}
