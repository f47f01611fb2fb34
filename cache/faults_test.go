package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// Some versions of ClickHouse Keeper report the path of the watch in place of the node's.
func TestAServerThatReportsWrongPaths(t *testing.T) {
	for what, change := range map[string]func(t *testing.T, srv *zktest.Server){
		"set":    func(t *testing.T, srv *zktest.Server) { require.NoError(t, srv.Set("/r/a/x", []byte("new"))) },
		"create": func(t *testing.T, srv *zktest.Server) { create(t, srv, "/r/a/y") },
		"delete": func(t *testing.T, srv *zktest.Server) { require.NoError(t, srv.Delete("/r/a/x")) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
				create(t, srv, "/r/a/x", "/r/b")
				c := dial(t, srv, framework.WithDialer(framework.Dialer(lying(srv, "/r"))))
				tree := open(t, c, "/r")
				l := listenTo(t, tree)
				settle()
				change(t, srv)
				settle()
				same(t, srv, tree)
				for i := range 5 {
					create(t, srv, fmt.Sprintf("/r/b/%d", i))
					require.NoError(t, srv.Set("/r/b", fmt.Append(nil, i)))
					settle()
					same(t, srv, tree)
				}
				require.NoError(t, srv.DeleteAll("/r/a"))
				settle()
				same(t, srv, tree)
				l.replays(t, srv, "/r")
				assert.Equal(t, 1, srv.Counts()["addWatch"])
			})
		})
	}
}

// The right path in an event of another caller's one-shot watch, which the cache also receives, does not prove that the
// server's recursive watches report right paths.
func TestAServerThatReportsWrongPathsToRecursiveWatches(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
		create(t, srv, "/r/a/x", "/r/a/y")
		c := dial(t, srv, framework.WithDialer(framework.Dialer(lying(srv, "/r", "/r/a/x"))))
		tree := open(t, c, "/r")
		_, _, err := c.GetData().WithWatch().ForPath(t.Context(), "/r/a/x")
		require.NoError(t, err)
		require.NoError(t, srv.Set("/r/a/x", []byte("new")))
		settle()
		same(t, srv, tree)
		require.NoError(t, srv.Set("/r/a/y", []byte("new")))
		settle()
		same(t, srv, tree)
	})
}

// Changes of the root are not taken for events with a wrong path.
func TestChangesOfTheRootAreNotDoubted(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a")
		tree := open(t, c, "/r")
		for range 5 {
			require.NoError(t, srv.Set("/r", []byte("the same")))
			settle()
			require.NoError(t, srv.DeleteAll("/r"))
			create(t, srv, "/r/a")
			srv.Cut(0)
			require.NoError(t, srv.Set("/r", []byte("the same")))
			settle()
		}
		same(t, srv, tree)
		assert.Equal(t, []zktest.WatchKind{zktest.RecursiveWatch}, kinds(srv))
	})
}

func kinds(srv *zktest.Server) (kinds []zktest.WatchKind) {
	for _, w := range srv.Watches() {
		kinds = append(kinds, w.Kind)
	}
	return kinds
}

// A server may have persistent watches and no multiRead.
func TestWithoutMultiRead(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		grow(t, srv, "/r", 500)
		srv.Inject(zktest.Fault{
			Op: "multiRead", Times: -1, Action: zktest.ReplyError, Err: zktest.ErrUnimplemented,
		})
		settle()
		srv.ResetCounts()
		tree := open(t, c, "/r")
		same(t, srv, tree)
		assert.Equal(t, tree.Len(), srv.Counts()["getData"])
		assert.Equal(t, 6, srv.Counts()["getChildren2"], "leaves are not listed")
		assert.Equal(t, []zktest.WatchKind{zktest.RecursiveWatch}, kinds(srv))
		srv.Cut(0)
		create(t, srv, "/r/dir-0001/new")
		require.NoError(t, srv.DeleteAll("/r/dir-0002"))
		settle()
		same(t, srv, tree)
	})
}

// Some servers may close the connection, without a reply, on an operation that they do not have.
func TestSilentRefusals(t *testing.T) {
	for op, wantKinds := range map[string][]zktest.WatchKind{
		"multiRead": {zktest.RecursiveWatch},
		"addWatch":  {zktest.DataWatch, zktest.ChildWatch, zktest.DataWatch, zktest.ChildWatch},
	} {
		bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
			create(t, srv, "/r/a")
			refusal := srv.Inject(zktest.Fault{Op: op, Times: -1, Action: zktest.CutBefore})
			tree := open(t, c, "/r")
			same(t, srv, tree)
			assert.ElementsMatch(t, wantKinds, kinds(srv))
			refusal.Remove()
			srv.ResetCounts()
			srv.Expire(srv.Sessions()[0].ID)
			create(t, srv, "/r/b")
			time.Sleep(30 * time.Second)
			settle()
			same(t, srv, tree)
			assert.Equal(t, []zktest.WatchKind{zktest.RecursiveWatch}, kinds(srv),
				"in the next session it is tried again")
			assert.NotZero(t, srv.Counts()["multiRead"], "that, too")
		})
	}
}

// Connections that are lost now and then during a MultiRead, with replies in between, do not mean that the server has none.
func TestMultiReadsThatAreLostNowAndThen(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a")
		tree := open(t, c, "/r")
		for i := range 7 {
			lost := srv.Inject(zktest.Fault{Op: "multiRead", PathPrefix: "/r/a", Action: zktest.CutBefore})
			require.NoError(t, srv.Set("/r/a", fmt.Append(nil, i)))
			settle()
			same(t, srv, tree)
			require.Equal(t, 1, lost.Hits())
		}
		srv.ResetCounts()
		require.NoError(t, srv.Set("/r/a", nil))
		settle()
		assert.Equal(t, map[string]int{"multiRead": 1}, requests(srv))
	})
}

// A MultiRead whose reply may be why the connection is lost is sent again in halves. Only after several losses the nodes are
// read one by one.
func TestAMultiReadThatIsLostIsHalved(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		grow(t, srv, "/r", 150)
		tree := open(t, c, "/r")
		lost := srv.Inject(zktest.Fault{Op: "multiRead", PathPrefix: "/r/", Action: zktest.CutBefore})
		expire(t, srv, c)
		<-lost.Struck()
		srv.ResetCounts()
		settle()
		same(t, srv, tree)
		assert.Greater(t, srv.Counts()["multiRead"], 2, "the halves, and the comparison after the reconnect: %v",
			requests(srv))
	})
}

// A MultiRead whose reply is larger than the client accepts is sent again in halves. A node that is too large alone cannot be
// read.
func TestAReplyThatIsTooLarge(t *testing.T) {
	bubble(t, zktest.Config{Pace: time.Millisecond}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
		for i := range 12 {
			require.NoError(t, srv.Create(fmt.Sprintf("/r/%d", i), make([]byte, 200<<10)))
		}
		require.NoError(t, srv.Create("/r/large", make([]byte, 2<<20)))
		c := dial(t, srv, framework.WithMaxReply(1<<20))
		tree := started(cache.New(c, "/r"))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, tree.WaitSynced(ctx))
		assert.Equal(t, 13, tree.Len())
		for path, err := range tree.Failures() {
			assert.Equal(t, "/r/large", path)
			assert.ErrorIs(t, err, framework.ErrReplyTooLarge)
		}
		assert.Len(t, keys(tree.Failures()), 1)
	})
}

func TestARootThatCannotBeCreated(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r")
		require.NoError(t, srv.SetACL("/r", zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		tree := started(cache.New(c, "/r/root", cache.WithRootCreated()))(t)
		l := listenTo(t, tree)
		settle()
		require.ErrorIs(t, tree.WaitSynced(t.Context()), framework.ErrNoAuth)
		l.take()
		time.Sleep(5 * time.Minute)
		settle()
		assert.Empty(t, l.take(), "what failed was told once")
		grant(t, srv, "/r")
		time.Sleep(2 * time.Minute)
		settle()
		assert.Equal(t, []string{"Created /r/root"}, l.take())
	})
}

func TestABusyServer(t *testing.T) {
	for _, op := range []string{"multiRead", "addWatch"} {
		bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
			grow(t, srv, "/r", 500)
			srv.Inject(zktest.Fault{Op: op, Times: 7, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
			tree := open(t, c, "/r")
			same(t, srv, tree)
			create(t, srv, "/r/new")
			settle()
			same(t, srv, tree)
			srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
			require.NoError(t, srv.Set("/r/new", []byte("newer")))
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			same(t, srv, tree) // the pauses begin with the shortest again
		})
	}
}

// Requests that were in flight together are refused together: that is one pause, not one longer than the other.
func TestABusyServerRefusesManyReads(t *testing.T) {
	for op, profile := range map[zktest.Op]zktest.Profile{"multiRead": zktest.V39, "getData": zktest.V35} {
		bubble(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
			grow(t, srv, "/r", 2000)
			tree := open(t, c, "/r")
			expire(t, srv, c)
			refusal := srv.Inject(zktest.Fault{Op: op, Times: 7, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
			<-refusal.Struck()
			began := time.Now()
			require.NoError(t, tree.WaitSynced(t.Context()))
			assert.Less(t, time.Since(began), time.Second, op)
			same(t, srv, tree)
		})
	}
}

// The pause after refusals ends with the session: the next one is for another server, which may be less busy.
func TestABusyServerInTheLastSession(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a")
		tree := open(t, c, "/r")
		var refusals []*zktest.Injection
		for _, op := range []zktest.Op{"multiRead", "getData"} {
			refusals = append(refusals, srv.Inject(zktest.Fault{
				Op: op, PathPrefix: "/r", Times: -1, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp,
			}))
		}
		hits := func() int { return refusals[0].Hits() + refusals[1].Hits() }
		require.NoError(t, srv.Set("/r/a", nil))
		time.Sleep(time.Minute)
		for before := hits(); hits() == before; {
			time.Sleep(10 * time.Millisecond) // so that the pause, of 5 s by now, has just begun
		}
		for _, r := range refusals {
			r.Remove()
		}
		expire(t, srv, c)
		began := time.Now()
		require.NoError(t, tree.WaitSynced(t.Context()))
		assert.Less(t, time.Since(began), time.Second)
		same(t, srv, tree)
	})
}

// The watch is lost with its request: changes until it is set again are found.
func TestTheWatchComesLate(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
		bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
			create(t, srv, "/r/a/x")
			srv.Inject(zktest.Fault{Op: "addWatch", Times: 2, Action: action})
			hold := srv.Inject(zktest.Fault{Op: "addWatch", Action: zktest.Hold, After: 2})
			tree := started(cache.New(c, "/r"))(t)
			time.Sleep(30 * time.Second)
			create(t, srv, "/r/a/y")
			require.NoError(t, srv.Delete("/r/a/x"))
			hold.Release()
			require.NoError(t, tree.WaitSynced(t.Context()))
			settle()
			same(t, srv, tree)
		})
	}
}

// The server refuses the watch for a while and replies to the reads: changes between these and the watch are found when
// that is set, and only then is the cache in sync.
func TestTheWatchComesAfterTheLoad(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a/x", "/r/b")
		srv.Inject(zktest.Fault{Op: "addWatch", Times: 3, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
		tree := started(cache.New(c, "/r"))(t)
		l := listenTo(t, tree)
		time.Sleep(2500 * time.Millisecond)
		assert.ElementsMatch(t, []string{"Created /r", "Created /r/a", "Created /r/a/x", "Created /r/b"}, l.take(),
			"the load is over")
		assert.False(t, tree.Progress().Synced)
		create(t, srv, "/r/a/y")
		require.NoError(t, srv.Delete("/r/a/x"))
		require.NoError(t, srv.Set("/r/b", []byte("new")))
		require.NoError(t, tree.WaitSynced(t.Context()))
		settle()
		same(t, srv, tree)
		l.replays(t, srv, "/r")
	})
}

// Wiped data, with zxids that begin again.
func TestWipedData(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		grow(t, srv, "/r", 50)
		tree := open(t, c, "/r")
		l := listenTo(t, tree)
		settle()
		srv.Wipe()
		create(t, srv, "/r/dir-0000/node-00000001")
		time.Sleep(3 * time.Minute)
		require.NoError(t, tree.WaitSynced(t.Context()))
		settle()
		same(t, srv, tree)
		l.replays(t, srv, "/r")
	})
}

// A node of restored data is another node, although it has the zxids, the version and the data of the earlier one.
func TestARestoredNodeWithTheZxidsOfTheEarlier(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r")
		tree := open(t, c, "/r")
		l := listenTo(t, tree)
		settle()
		earlier, _ := tree.Get("/r")
		require.Equal(t, []string{"Created /r", "Initialized"}, l.take())
		srv.Wipe()
		for i := 0; srv.Zxid() < earlier.Stat.Czxid-1; i++ {
			create(t, srv, fmt.Sprintf("/other-%d", i))
		}
		create(t, srv, "/r")
		time.Sleep(3 * time.Minute)
		require.NoError(t, tree.WaitSynced(t.Context()))
		settle()
		now, _ := tree.Get("/r")
		require.Equal(t, earlier.Stat.Czxid, now.Stat.Czxid)
		assert.Equal(t, []string{"Deleted /r", "Created /r"}, l.take())
	})
}

// After a connection breaks during the load, the load continues where it was.
func TestCutsDuringTheLoad(t *testing.T) {
	ways(t, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		grow(t, srv, "/r", 1000)
		for _, op := range []string{"multiRead", "getData", "getChildren2"} {
			srv.Inject(zktest.Fault{Op: op, PathPrefix: "/r", After: 2, Times: 4, Action: zktest.CutBefore})
		}
		tree := open(t, c, "/r")
		same(t, srv, tree)
	})
}

// The Stat of a node arrives, and shows that there are new children, but the session ends before the list arrives. In the
// next session the Stat is unchanged, but the cache must still read the list.
func TestAListThatNeverCame(t *testing.T) {
	for after := range 4 {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
				create(t, srv, "/r/a/x", "/r/b")
				tree := open(t, c, "/r")
				l := listenTo(t, tree)
				settle()
				create(t, srv, "/r/a/y")
				expire(t, srv, c)
				create(t, srv, "/r/a/z", "/r/b/1", "/r/c/2")
				lost := srv.Inject(zktest.Fault{Op: "multiRead", Action: zktest.DropRequest, After: after, Times: -1})
				time.Sleep(time.Second)
				expire(t, srv, c)
				lost.Remove()
				settle()
				require.NoError(t, tree.WaitSynced(t.Context()))
				same(t, srv, tree)
				l.replays(t, srv, "/r")
			})
		})
	}
}

// A server skips the request that arms the watch again, and replies to the next one: the Stat of a parent then shows a
// child without an event. The cache must not believe that it knows all children.
func TestAnAnswerOnAConnectionWithoutTheWatch(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a/x", "/r/a/y")
		tree := open(t, c, "/r")
		l := listenTo(t, tree)
		settle()
		require.NoError(t, srv.Delete("/r/a/x")) // the parent's Stat will be read a little later
		time.Sleep(100 * time.Millisecond)
		skipped := srv.Inject(zktest.Fault{Op: "setWatches2", Action: zktest.DropRequest})
		srv.Cut(0)
		<-skipped.Struck()
		create(t, srv, "/r/a/new")
		settle()
		expire(t, srv, c)
		settle()
		require.NoError(t, tree.WaitSynced(t.Context()))
		same(t, srv, tree)
		l.replays(t, srv, "/r")
	})
}

// In a new session the watch is refused for long. The cache shows its reads of that time, though more may be missing.
func TestAWatchThatIsRefusedForLong(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, c *framework.Client) {
		create(t, srv, "/r/a")
		tree := open(t, c, "/r")
		refused := srv.Inject(zktest.Fault{
			Op: "addWatch", Times: -1, Action: zktest.ReplyError, Err: zktest.ErrThrottledOp,
		})
		srv.Expire(srv.Sessions()[0].ID)
		create(t, srv, "/r/b")
		time.Sleep(20 * time.Second)
		assert.False(t, tree.Progress().Synced)
		same(t, srv, tree)
		refused.Remove()
		require.NoError(t, tree.WaitSynced(t.Context()))
		create(t, srv, "/r/c")
		settle()
		same(t, srv, tree)
	})
}

// Another request in flight may keep the cache's request for the server's zxid waiting, longer than a request waits for its
// turn. Then the cache must not wait for the next reconnect.
func TestAQuestionThatWasNotSent(t *testing.T) {
	bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
		create(t, srv, "/r/a", "/other")
		gate := make(chan struct{}, 100)
		gate <- struct{}{}
		gated := func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-gate:
				return srv.Dial(ctx, network, addr)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		c := dial(t, srv, framework.WithWindow(1), framework.WithConnectionTimeout(time.Second),
			framework.WithDialer(gated))
		tree := open(t, c, "/r")
		settle()
		srv.Cut(0)
		create(t, srv, "/r/missed")
		time.Sleep(500 * time.Millisecond)
		hold := srv.Inject(zktest.Fault{Op: "getData", PathPrefix: "/other", Action: zktest.HoldReply})
		// this request will be the first on the new connection
		first := c.GetData().InBackground().ForPath(t.Context(), "/other")
		gate <- struct{}{}
		<-hold.Struck()
		time.Sleep(2 * time.Second)
		hold.Release()
		_, err := first.Wait(t.Context())
		require.NoError(t, err)
		require.NoError(t, srv.Set("/r/a", []byte("new")))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.True(t, tree.Progress().Synced)
		same(t, srv, tree)
	})
}

// ticket is a login that fails once its ticket has expired.
type ticket struct{ out atomic.Bool }

func (*ticket) Name() string { return "TICKET" }

func (l *ticket) Start(context.Context, string) (framework.SASLLogin, error) {
	if l.out.Load() {
		return nil, errors.New("no ticket")
	}
	return l, nil
}

func (*ticket) Step([]byte) (response []byte, done bool, err error) { return []byte{}, true, nil }

// attempts counts a client's requests in the background, and closes many at a number that no correct cache reaches. In
// virtual time nothing else would end a cache that sends requests without a pause.
type attempts struct {
	n    atomic.Int64
	many chan struct{}
}

func (a *attempts) hooks() framework.Hooks {
	count := func(_ context.Context, op framework.Operation) func(framework.OperationEnd) {
		if op.Background && a.n.Add(1) == 20_000 {
			close(a.many)
		}
		return nil
	}
	return framework.Hooks{Operation: count}
}

// pass lets time pass.
func (a *attempts) pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-a.many:
		require.Fail(t, "the cache asks without a pause")
	case <-time.After(d):
	}
}

// While no server accepts the login every request is refused immediately. The cache retries from time to time, and
// continues when the login is accepted.
func TestWhileTheLoginIsRefused(t *testing.T) {
	for name, opts := range watching {
		t.Run(name, func(t *testing.T) {
			bubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, _ *framework.Client) {
				grow(t, srv, "/r", 500)
				login, asked := &ticket{}, &attempts{many: make(chan struct{})}
				c := dial(t, srv, framework.WithSASL(login), framework.WithHooks(asked.hooks()),
					framework.WithSessionTimeout(5*time.Minute))
				loaded := open(t, c, "/r", opts...)
				// A read that is due later, from a time when the login was accepted.
				require.NoError(t, srv.Delete("/r/dir-0001/node-00000100"))
				login.out.Store(true)
				srv.Cut(0)
				asked.pass(t, 2*time.Second)
				require.ErrorIs(t, c.Health().Err(), framework.ErrAuthFailed)
				late, err := cache.NewTree(c, "/r", opts...) // the session lives
				require.NoError(t, err)
				defer late.Close()
				asked.n.Store(0)
				asked.pass(t, time.Minute)
				assert.Less(t, asked.n.Load(), int64(200), "requests in a minute")
				create(t, srv, "/r/new")

				login.out.Store(false)
				asked.pass(t, 15*time.Second)
				for _, tree := range []*cache.Cache{loaded, late} {
					require.NoError(t, tree.WaitSynced(t.Context()))
					same(t, srv, tree)
				}
				require.NoError(t, srv.Set("/r/new", []byte("newer")))
				settle()
				same(t, srv, late)
				same(t, srv, loaded)
			})
		})
	}
}
