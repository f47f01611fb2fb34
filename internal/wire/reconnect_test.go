package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

func TestACutFailsWhatIsInFlightAndSendsWhatIsQueued(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		id := c.ID()
		hold := srv.Inject(zktest.Fault{Op: "create", Action: zktest.Hold})
		flying := c.start(jute.OpCreate, creation("/flying", 0))
		<-hold.Struck()
		srv.Stop()
		r := <-flying
		assert.ErrorIs(t, r.Err, ErrConnectionLost)
		assert.NotErrorIs(t, r.Err, ErrNotSent)
		assert.NotErrorIs(t, r.Err, ErrSessionLost)
		assert.False(t, r.Sent.IsZero())
		ev := c.await(Disconnected)
		assert.Error(t, ev.Err)
		assert.False(t, c.Connected())
		queued := c.start(jute.OpCreate, creation("/queued", 0))
		require.NoError(t, srv.Start())
		ev = c.await(Connected)
		assert.True(t, ev.Reattached)
		assert.Equal(t, id, ev.SessionID)
		next := <-queued
		require.NoError(t, next.Err)
		assert.Greater(t, next.Connection, r.Connection)
		assert.True(t, srv.Exists("/queued"))
		assert.False(t, srv.Exists("/flying"))
	})
}

// Promise P2.
func TestNothingCrossesSessions(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		id := c.ID()
		c.lose(srv)
		var queued []chan Reply
		for i := range 50 {
			queued = append(queued, c.start(jute.OpCreate, creation(fmt.Sprintf("/n%d", i), jute.ModeEphemeral)))
		}
		byLibrary := make(chan error, 1)
		go func() {
			_, err := c.Conn().Create("/library", nil, 0, zkWorld)
			byLibrary <- err
		}()
		synctest.Wait()
		srv.Expire(id)
		require.NoError(t, srv.Start())
		ev := c.await(Lost)
		assert.ErrorIs(t, ev.Err, ErrExpired)
		for _, q := range queued {
			r := <-q
			assert.ErrorIs(t, r.Err, ErrNotSent)
			assert.ErrorIs(t, r.Err, ErrSessionLost)
			assert.ErrorIs(t, r.Err, ErrExpired)
		}
		require.Error(t, <-byLibrary)
		c.Wait()
		time.Sleep(time.Minute)
		assert.Empty(t, srv.Tree()["/library"].ACL)
		assert.Len(t, srv.Tree(), 1, "nothing but the root")
		assert.Empty(t, c.seen(), "nothing comes after Lost")
		assert.Empty(t, srv.Sessions(), "and no session was made for it")
	})
}

// A read that was waiting for the connection must not show a change before the watch event that announces it.
func TestMissedEventsComeBeforeTheReplyOfAnyQueuedRead(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.NoError(t, srv.Create("/w", nil))
		c.watch(Persistent, "/other")
		for round := range 30 {
			var mu sync.Mutex
			var order []string
			note := func(s string) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, s)
			}
			h := listen(Data, "/w")
			h.Fn = func(WatchEvent) { note("event") }
			x, r := arming(h)
			c.Submit(x)
			require.NoError(t, (<-r).Err)
			c.lose(srv)
			var wg sync.WaitGroup
			for range 40 {
				wg.Add(1)
				c.Submit(&Call{Op: jute.OpGetData, Body: jute.Marshal(read("/w")), Done: func(r Reply) {
					assert.NoError(t, r.Err)
					note("reply")
					wg.Done()
				}})
			}
			require.NoError(t, srv.Set("/w", []byte{byte(round)}))
			require.NoError(t, srv.Start())
			wg.Wait()
			require.Equal(t, "event", order[0], "round %d", round)
			require.Len(t, order, 41)
			c.await(Connected)
			time.Sleep(2 * minHeldTime)
		}
	})
}

// The server replies, and closes the connection. The client notices that by a write that fails, and still reads the reply.
func TestAReplyBeforeAWriteThatFails(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		var broken atomic.Bool
		c := connected(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := srv.Dial(ctx, network, addr)
			return failingConn{conn, &broken}, err
		})
		hold := srv.Inject(zktest.Fault{Op: "getData", Action: zktest.HoldReply})
		first := c.start(jute.OpGetData, read("/"))
		<-hold.Struck()
		broken.Store(true)
		second := c.start(jute.OpGetData, read("/"))
		synctest.Wait()
		broken.Store(false)
		hold.Release()
		answered(t, <-first, jute.CodeOK)
		assert.ErrorIs(t, (<-second).Err, ErrConnectionLost)
		c.await(Disconnected)
		c.await(Connected)
	})
}

// failingConn is a connection whose writes fail while broken is set.
type failingConn struct {
	net.Conn
	broken *atomic.Bool
}

func (c failingConn) Write(b []byte) (int, error) {
	if c.broken.Load() {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(b)
}

// The watch of the hold's own node is armed before the predecessor's, and its event comes first: no contender may be
// granted a lock whose node is gone.
func TestMissedEventsComeInTheOrderOfArming(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		for _, names := range [][2]string{{"/z-own", "/a-pred"}, {"/a-own", "/z-pred"}} {
			require.NoError(t, srv.Create(names[0], nil))
			require.NoError(t, srv.Create(names[1], nil))
			var order []string
			for _, path := range names {
				h := listen(Data, path)
				h.Fn = func(ev WatchEvent) {
					assert.Equal(t, jute.EventNodeDeleted, ev.Type)
					order = append(order, ev.Path)
				}
				x, r := arming(h)
				x.Op = jute.OpExists
				c.Submit(x)
				require.NoError(t, (<-r).Err)
			}
			c.lose(srv)
			require.NoError(t, srv.Delete(names[1]))
			require.NoError(t, srv.Delete(names[0]))
			c.regain(srv)
			c.sync()
			assert.Equal(t, names[:], order)
		}
	})
}

func TestWatchesFireForWhatHappenedInTheGap(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		for _, path := range []string{"/changed", "/deleted", "/dir", "/quiet"} {
			require.NoError(t, srv.Create(path, nil))
		}
		c := connected(t, srv.Dial)
		absent := func(path string) *heard {
			h := listen(Data, path)
			x, r := arming(h)
			x.Op = jute.OpExists
			c.Submit(x)
			require.NoError(t, (<-r).Err)
			return h
		}
		created, stillAbsent := absent("/created"), absent("/never")
		existed := absent("/deleted") // exists() has found the node
		changed, dir, quiet := c.watch(Data, "/changed"), c.watch(Child, "/dir"), c.watch(Data, "/quiet")
		c.lose(srv)
		require.NoError(t, srv.Create("/created", nil))
		require.NoError(t, srv.Set("/changed", nil))
		require.NoError(t, srv.Delete("/deleted"))
		require.NoError(t, srv.Create("/dir/x", nil))
		c.regain(srv)
		c.sync()
		assert.Equal(t, []int32{jute.EventNodeCreated}, created.types())
		assert.Equal(t, []int32{jute.EventNodeDataChanged}, changed.types())
		assert.Equal(t, []int32{jute.EventNodeDeleted}, existed.types())
		assert.Equal(t, []int32{jute.EventNodeChildrenChanged}, dir.types())
		assert.Empty(t, quiet.types())
		assert.Empty(t, stillAbsent.types())
		require.NoError(t, srv.Set("/quiet", nil))
		require.NoError(t, srv.Create("/never", nil))
		c.sync()
		assert.Equal(t, []int32{jute.EventNodeDataChanged}, quiet.types(), "armed again")
		assert.Equal(t, []int32{jute.EventNodeCreated}, stillAbsent.types())
	})
}

// Once the watches are armed again, a later reconnect reports no change from before.
func TestNoChangeIsReportedOnceMoreAfterAReconnect(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.NoError(t, srv.Create("/a", nil))
		require.NoError(t, srv.Create("/b", nil))
		c.watch(Data, "/b")
		c.reconnect(srv)
		require.NoError(t, srv.Set("/a", nil))
		seen := c.watch(Data, "/a")
		time.Sleep(2 * minHeldTime)
		c.reconnect(srv)
		c.sync()
		assert.Empty(t, seen.types())
	})
}

// The watches are armed again by two requests, and the connection is lost between them, twice in a row. The reply to the first
// has shown a newer zxid; the second, on the last connection, asks for what happened since the time before the first loss.
func TestWatchesFireForTheWholeGapWhenHalfOfThemWereArmed(t *testing.T) {
	const limit = 16 << 10
	onServer(t, zktest.Config{MaxFrame: limit}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.MaxFrame = limit })
		var watches []*heard
		for _, name := range []string{"a", "b"} {
			path := "/" + strings.Repeat(name, limit/2)
			require.NoError(t, srv.Create(path, nil))
			watches = append(watches, c.watch(Data, path))
		}
		changed := watches[1]
		c.lose(srv)
		require.NoError(t, srv.Set(changed.Path, nil))
		for range 2 {
			hold := srv.Inject(zktest.Fault{Op: "setWatches", After: 1, Action: zktest.Hold})
			c.regain(srv)
			<-hold.Struck()
			synctest.Wait()
			c.lose(srv)
			hold.Release()
		}
		c.regain(srv)
		c.sync()
		assert.Empty(t, watches[0].types())
		assert.Equal(t, []int32{jute.EventNodeDataChanged}, changed.types())
	})
}

func TestPersistentWatchesAreToldToReadAgain(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.NoError(t, srv.Create("/p", nil))
		p, deep := c.watch(Persistent, "/p"), c.watch(Recursive, "/p")
		stopped := c.watch(Recursive, "/gone")
		one := c.watch(Data, "/p")
		c.lose(srv)
		hold := srv.Inject(zktest.Fault{Op: "setWatches2", Action: zktest.HoldReply})
		queued := c.start(jute.OpGetData, read("/p"))
		require.NoError(t, srv.Set("/p", nil))
		require.NoError(t, srv.Start())
		<-hold.Struck()
		synctest.Wait()
		c.Unwatch(&stopped.Watch)
		hold.Release()
		<-queued
		assert.Equal(t, []int32{jute.EventNodeDataChanged}, one.types(), "the one-shot that they serve caught up")
		assert.Equal(t, []int32{jute.EventNodeDataChanged, EventReset}, p.types(), "and they heard of it")
		assert.Equal(t, []int32{jute.EventNodeDataChanged, EventReset}, deep.types())
		assert.Empty(t, stopped.types(), "nothing comes after Unwatch")
		require.NoError(t, srv.Create("/p/x", nil))
		c.sync()
		assert.Equal(t, []int32{jute.EventNodeCreated}, deep.types())
		assert.Equal(t, []int32{jute.EventNodeChildrenChanged}, p.types())
	})
}

func TestAResetWaitsForAConnectionThatLasts(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		p := c.watch(Persistent, "/")
		srv.Inject(zktest.Fault{Op: "setWatches2", Action: zktest.CutBefore, Times: 3})
		srv.Cut(0)
		for range 4 {
			c.await(Connected)
		}
		c.sync()
		assert.Equal(t, []int32{EventReset}, p.types())
	})
}

func TestCredentialsThenWatchesThenRequests(t *testing.T) {
	onServer(t, zktest.Config{RequireAuth: true}, func(t *testing.T, srv *zktest.Server) {
		spy := spyOn(srv.Dial)
		c := connected(t, spy.Dial, func(cfg *Config) {
			cfg.Credentials = []Credential{{"digest", []byte("u:p")}, {"digest", []byte("v:q")}}
		})
		c.create("/a", 0)
		c.watch(Data, "/a")
		c.watch(Recursive, "/a")
		c.lose(srv)
		queued := c.start(jute.OpGetData, read("/a"))
		require.NoError(t, srv.Start())
		require.NoError(t, (<-queued).Err)
		n := spy.links() - 1
		assert.Equal(t, []int32{jute.OpCreateSession, jute.OpAuth, jute.OpAuth, jute.OpSetWatches,
			jute.OpSetWatches2, jute.OpGetData}, opsOf(spy.frames(n)))
		assert.Equal(t, jute.XidAuth, spy.frames(n)[1].xid)
		assert.NotContains(t, c.seen(), AuthFailed)
		var who jute.WhoAmIResponse
		require.NoError(t, jute.Unmarshal(c.do(jute.OpWhoAmI).Body, &who))
		assert.Contains(t, who.Info, jute.ClientInfo{Scheme: "digest", User: "u"})
		assert.Contains(t, who.Info, jute.ClientInfo{Scheme: "digest", User: "v"})
	})
}

func TestTheConnectRequestCarriesWhatWeHaveSeen(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		for range 20 {
			require.NoError(t, srv.Set("/", nil))
		}
		spy := spyOn(srv.Dial)
		c := connected(t, spy.Dial, func(cfg *Config) { cfg.LastZxid = 17 })
		first := spy.connectOf(0)
		assert.EqualValues(t, 17, first.LastZxidSeen)
		assert.Zero(t, first.SessionID)
		assert.Equal(t, make([]byte, 16), first.Password)
		assert.True(t, first.HasReadOnly)
		assert.False(t, first.ReadOnly)

		c.create("/a", 0)
		seen := srv.Zxid()
		assert.Equal(t, seen, c.MaxZxid())
		require.NoError(t, srv.Set("/", nil))
		time.Sleep(time.Minute) // a ping's zxid does not count
		c.reconnect(srv)
		again := spy.connectOf(1)
		assert.Equal(t, seen, again.LastZxidSeen)
		id, password := c.Identity()
		assert.Equal(t, id, again.SessionID)
		assert.Equal(t, password, again.Password)
		assert.NotEqual(t, make([]byte, 16), password)

		require.NoError(t, srv.Set("/", nil))
		_, _, err := c.Conn().Get("/") // the library's replies count, too
		require.NoError(t, err)
		assert.Equal(t, srv.Zxid(), c.MaxZxid())
		srv.Cut(0)
		c.await(Connected)
		assert.Equal(t, srv.Zxid(), spy.connectOf(2).LastZxidSeen)
	})
}

func TestRefusedSetWatchesAreTriedOnAnotherConnection(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		h := c.watch(Data, "/")
		srv.Inject(zktest.Fault{Op: "setWatches", Action: zktest.ReplyError, Err: zktest.ErrSystemError, Times: 2})
		srv.Cut(0)
		for range 3 {
			c.await(Connected)
		}
		require.NoError(t, srv.Set("/", nil))
		c.sync()
		assert.Equal(t, []int32{jute.EventNodeDataChanged}, h.types())
	})
}

// A server without setWatches2 cannot keep a session with persistent watches; the client tries once.
func TestAServerWithoutSetWatches2IsAvoided(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asked atomic.Int32
		f := scripted(t, func(n int, p *peer) {
			p.welcome(10 * time.Second)
			for {
				h, _ := p.next()
				if p.addr == "old:2181" && (h.Op == jute.OpSetWatches2 || h.Op == jute.OpAddWatch) {
					if h.Op == jute.OpSetWatches2 {
						asked.Add(1)
					}
					p.reply(h, -1, jute.CodeUnimplemented)
					return
				}
				p.reply(h, 1, 0)
				if h.Op == jute.OpSync {
					return // the connection is cut
				}
			}
		})
		c := connected(t, f.Dial, func(cfg *Config) { cfg.Servers = []string{"old:2181", "new:2181"} })
		for {
			_, r := c.arm(Persistent, "/")
			if reply := <-r; reply.Err == nil && reply.Code == 0 {
				break
			}
			c.sync() // to the next server
		}
		for range 20 {
			c.sync()
			time.Sleep(2 * minHeldTime)
		}
		r := c.do(jute.OpGetData, read("/"))
		require.NoError(t, r.Err)
		assert.LessOrEqual(t, asked.Load(), int32(1))
	})
}

func TestManyWatchesFitASmallPacketLimit(t *testing.T) {
	const limit = 16 << 10
	onServer(t, zktest.Config{MaxFrame: limit}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.MaxFrame = limit })
		var all []*heard
		var last chan Reply
		for i := range 500 {
			path := fmt.Sprintf("/%s%d", strings.Repeat("x", 100), i)
			require.NoError(t, srv.Create(path, nil))
			for _, kind := range []WatchKind{Data, Child} {
				h := listen(kind, path)
				x, _ := arming(h)
				c.Submit(x)
				all = append(all, h)
			}
			_, r := c.arm([]WatchKind{Persistent, Recursive}[i%2], path+"-p")
			last = r
		}
		<-last // the call behind all others
		c.reconnect(srv)
		require.NoError(t, c.do(jute.OpGetData, read("/")).Err)
		assert.Empty(t, c.seen(), "the connection stands")
		for _, h := range all {
			assert.Empty(t, h.types())
		}
		assert.Len(t, srv.Watches(), 1500)
	})
}

func TestUnwatchTakesTheLastWatchOffTheServer(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.NoError(t, srv.Create("/x", nil))
		for _, kind := range []WatchKind{Data, Child, Persistent, Recursive} {
			a, b := c.watch(kind, "/x"), listen(kind, "/x")
			require.True(t, c.Join(&b.Watch))
			c.Unwatch(&a.Watch)
			c.sync()
			require.Len(t, srv.Watches(), 1)
			c.Unwatch(&b.Watch)
			c.Unwatch(&b.Watch)
			c.sync()
			require.Empty(t, srv.Watches())
		}
		// Before the reply.
		hold := srv.Inject(zktest.Fault{Op: "getData", Action: zktest.Hold})
		h, r := c.arm(Data, "/x")
		<-hold.Struck()
		c.Unwatch(&h.Watch)
		hold.Release()
		require.NoError(t, (<-r).Err)
		c.sync()
		assert.Empty(t, srv.Watches())
		require.NoError(t, srv.Set("/x", nil))
		c.sync()
		assert.Empty(t, h.types())
		assert.Empty(t, c.watches.entries)

		// While disconnected.
		h = c.watch(Data, "/x")
		c.lose(srv)
		c.Unwatch(&h.Watch)
		c.regain(srv)
		c.sync()
		assert.Empty(t, srv.Watches())
		assert.Equal(t, 0, srv.Counts()["setWatches"])
	})
}

// A persistent watch stays on the server without subscribers while it serves a one-shot watch of its path, and goes with
// the last event of that: of the node itself, or of a child.
func TestAPersistentWatchGoesWithTheLastWatchThatItServes(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.NoError(t, srv.Create("/p", nil))
		for kind, change := range map[WatchKind]func() error{
			Data:  func() error { return srv.Set("/p", nil) },
			Child: func() error { return srv.Create("/p/c", nil) },
		} {
			deep := c.watch(Recursive, "/p")
			served := c.watch(kind, "/p")
			c.Unwatch(&deep.Watch)
			c.sync()
			require.Len(t, srv.Watches(), 1)
			require.NoError(t, change())
			c.sync()
			require.Len(t, served.types(), 1)
			c.sync()
			assert.Empty(t, srv.Watches(), "kind %d", kind)
			assert.Empty(t, c.watches.entries)
		}
	})
}

// The first subscriber stops while a second one's read is in flight, which then fails.
func TestAFailedReadDoesNotKeepAnothersWatch(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.NoError(t, srv.Create("/x", nil))
		first := c.watch(Data, "/x")
		require.NoError(t, srv.SetACL("/x", zktest.ACL{Perms: jute.PermWrite, Scheme: "world", ID: "anyone"}))
		hold := srv.Inject(zktest.Fault{Op: "getData", Action: zktest.Hold})
		x, r := arming(listen(Data, "/x"))
		c.Submit(x)
		<-hold.Struck()
		c.Unwatch(&first.Watch)
		hold.Release()
		require.Equal(t, jute.CodeNoAuth, (<-r).Code)
		c.sync()
		assert.Empty(t, srv.Watches())
		assert.Empty(t, c.watches.entries)
	})
}

// All kinds of watches on one path, on servers where they replace each other and on one where they do not.
func TestEveryKindOnOnePath(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V37, zktest.V38, zktest.V39} {
		for _, order := range [][]WatchKind{{Data, Child, Persistent, Recursive},
			{Recursive, Persistent, Child, Data}, {Persistent, Data, Recursive, Child}} {
			cfg := zktest.Config{Profile: profile}
			t.Run(fmt.Sprint(profile, order), served(cfg, func(t *testing.T, srv *zktest.Server) {
				require.NoError(t, srv.Create("/x", nil))
				c := connected(t, srv.Dial)
				for round := range 3 {
					h := map[WatchKind]*heard{}
					for _, kind := range order {
						h[kind] = c.watch(kind, "/x")
					}
					if round == 1 {
						c.reconnect(srv)
						c.sync()
						assert.Equal(t, []int32{EventReset}, h[Persistent].types())
						assert.Equal(t, []int32{EventReset}, h[Recursive].types())
					}
					require.NoError(t, srv.Create("/x/c", nil))
					c.sync()
					assert.Equal(t, []int32{jute.EventNodeChildrenChanged}, h[Child].types())
					assert.Contains(t, h[Persistent].types(), jute.EventNodeChildrenChanged)
					assert.Equal(t, []int32{jute.EventNodeCreated}, h[Recursive].types())
					assert.Empty(t, h[Data].types())
					require.NoError(t, srv.Set("/x", nil))
					require.NoError(t, srv.Set("/x", nil))
					require.NoError(t, srv.Set("/x/c", nil))
					c.sync()
					assert.Equal(t, []int32{jute.EventNodeDataChanged}, h[Data].types())
					assert.Equal(t, []int32{jute.EventNodeDataChanged, jute.EventNodeDataChanged}, h[Persistent].types())
					assert.Equal(t, []int32{jute.EventNodeDataChanged, jute.EventNodeDataChanged,
						jute.EventNodeDataChanged}, h[Recursive].types())
					c.Unwatch(&h[Recursive].Watch)
					c.sync()
					require.NoError(t, srv.Delete("/x/c"))
					c.sync()
					assert.Contains(t, h[Persistent].types(), jute.EventNodeChildrenChanged)
					assert.Empty(t, h[Recursive].types())
					// One-shots are armed and removed next to the persistent watch without harming it.
					for _, kind := range []WatchKind{Data, Child} {
						one := c.watch(kind, "/x")
						c.Unwatch(&one.Watch)
						c.sync()
					}
					require.NoError(t, srv.Set("/x", nil))
					c.sync()
					assert.Equal(t, []int32{jute.EventNodeDataChanged}, h[Persistent].types())
					c.Unwatch(&h[Persistent].Watch)
					c.sync()
					require.Empty(t, srv.Watches())
					require.Empty(t, c.watches.entries)
				}
			}))
		}
	}
}

// A connection that is lost at any moment of arming leaves every watch either armed or failed.
func TestCutsWhileArming(t *testing.T) {
	for _, op := range []string{"getData", "getChildren2", "addWatch", "setWatches", "setWatches2"} {
		for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
			onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
				require.NoError(t, srv.Create("/x", nil))
				require.NoError(t, srv.Create("/keep", nil))
				c.watch(Data, "/keep")
				srv.Inject(zktest.Fault{Op: op, Action: action, Times: 2, After: 1})
				for range 6 {
					for _, kind := range []WatchKind{Data, Child, Persistent, Recursive} {
						for {
							h, r := c.arm(kind, "/x")
							reply := <-r
							if reply.Err != nil {
								require.ErrorIs(t, reply.Err, ErrConnectionLost)
								continue
							}
							require.Equal(t, jute.CodeOK, reply.Code)
							c.Unwatch(&h.Watch)
							break
						}
					}
				}
				c.sync()
				for _, w := range srv.Watches() {
					assert.Equal(t, "/keep", w.Path)
				}
			})
		}
	}
}

// The next connection is dialled only when the last one has ended.
func TestDialsWaitForTheEndOfTheLastConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		open, most := 0, 0
		f := scripted(t, func(_ int, p *peer) {
			mu.Lock()
			open++
			most = max(most, open)
			mu.Unlock()
			defer func() {
				mu.Lock()
				open--
				mu.Unlock()
			}()
			p.welcome(10 * time.Second)
			h, _ := p.next()
			p.reply(h, 1, 0)
		})
		c := connected(t, f.Dial)
		for range 10 {
			c.sync()
			c.await(Connected)
		}
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, 1, most)
	})
}

// The library can give up a connection before the session does: here because a server refuses its user's credentials when
// they are sent again.
func TestCallsFailWhenTheLibraryGivesTheConnectionUp(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		p.welcome(10 * time.Second)
		var auth jute.RequestHeader
		asked := false
		for {
			h, _ := p.next()
			switch {
			case n != 2:
				p.reply(h, 1, 0)
			case h.Op == jute.OpAuth:
				auth = h
			case h.Op == jute.OpGetData:
				asked = true
			}
			if asked && auth.Op != 0 {
				p.reply(auth, 1, jute.CodeAuthFailed)
			}
			if h.Op == jute.OpSync {
				return
			}
		}
	}, func(t *testing.T, f *fake) {
		for range 20 {
			c := connected(t, f.Dial)
			require.NoError(t, c.Conn().AddAuth("digest", []byte("a:b")))
			c.do(jute.OpSync)
			c.await(Connected)
			time.Sleep(2 * minHeldTime) // then the next dial comes without a pause
			r := c.do(jute.OpGetData, read("/"))
			require.ErrorContains(t, r.Err, "go-zookeeper closed its connection")
			c.await(Connected)
			require.NoError(t, c.do(jute.OpGetData, read("/")).Err)
			require.Zero(t, c.Load().InFlight)
			c.Abort(ErrClosed)
			c.Wait()
			f.restart()
		}
	})
}

// refusing is a dialer that never connects.
func refusing(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }

// A server replies in order. When it has skipped a request the connection is closed, as in Java's client: the request may
// have been one that arms watches again, and then a reply may come before the events of the state that it shows.
func TestAServerThatSkipsARequestIsLeft(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/a", jute.ModePersistent)
		h := c.watch(Recursive, "/a")
		srv.Inject(zktest.Fault{Op: "setWatches2", Action: zktest.DropRequest})
		c.reconnect(srv)
		require.NoError(t, srv.Create("/a/unheard", nil)) // no event of it comes on this connection
		r := c.do(jute.OpGetData, read("/a"))
		require.ErrorIs(t, r.Err, ErrConnectionLost, "an answer that shows more than what was told is none")
		c.await(Disconnected)
		c.await(Connected)
		synctest.Wait()
		require.Equal(t, []int32{EventReset}, h.types(), "it reads again, with its watch armed")
		require.NoError(t, c.do(jute.OpGetData, read("/a")).Err)
		require.NoError(t, srv.Create("/a/heard", nil))
		synctest.Wait()
		require.Equal(t, []int32{jute.EventNodeCreated}, h.types())
	})
}

// lazy waits a millisecond before each read, and so reads all that has arrived by then in one call.
type lazy struct{ net.Conn }

func (c lazy) Read(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return c.Conn.Read(b)
}

// The connection to a server that refuses to arm the watches again is closed. Later replies that have arrived already are
// not used: they come before the events of the state that they show (found by the simulation).
func TestAServerThatDoesNotArmTheWatchesIsNotBelieved(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := srv.Dial(ctx, network, addr)
			return lazy{conn}, err
		})
		c.create("/a", jute.ModePersistent)
		h := c.watch(Recursive, "/a")
		srv.Inject(zktest.Fault{Op: "setWatches2", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
		srv.Cut(0)
		c.await(Disconnected)
		require.NoError(t, srv.Create("/a/unheard", nil))
		r := c.do(jute.OpGetData, read("/a")) // sent right behind the watches
		require.ErrorIs(t, r.Err, ErrConnectionLost)
		c.await(Connected)
		c.await(Disconnected)
		c.await(Connected)
		synctest.Wait()
		require.NoError(t, c.do(jute.OpGetData, read("/a")).Err)
		require.Equal(t, []int32{EventReset}, h.types())
	})
}

// An overloaded server refuses to remove a watch. The request is repeated, since the watch would continue to send events
// for as long as the connection lasts (found by the simulation); but not while another subscriber watches the same path.
func TestAWatchThatIsNotRemovedAtOnce(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/a", jute.ModePersistent)
		gone := c.watch(Recursive, "/a")
		refused := srv.Inject(zktest.Fault{Op: "removeWatches", Action: zktest.ReplyError,
			Err: zktest.ErrThrottledOp, Times: 2})
		c.Unwatch(&gone.Watch)
		<-refused.Struck()
		synctest.Wait()
		h := c.watch(Data, "/a")
		time.Sleep(c.Timeout())
		require.Equal(t, 1, srv.Counts()["removeWatches"])
		require.NoError(t, srv.Set("/a", []byte("1")))
		synctest.Wait()
		require.Equal(t, []int32{jute.EventNodeDataChanged}, h.types())
		time.Sleep(c.Timeout())
		require.Empty(t, srv.Watches())
		require.Equal(t, 3, srv.Counts()["removeWatches"], "one more was refused")
		require.Equal(t, 1, srv.Counts()["connect"])
		require.Empty(t, gone.types())
	})
}

// A watch that was not removed ends with its connection: the next one costs no request for it.
func TestAWatchThatIsNotRemovedBeforeALoss(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/a", jute.ModePersistent)
		gone := c.watch(Data, "/a")
		refused := srv.Inject(zktest.Fault{Op: "removeWatches", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
		c.Unwatch(&gone.Watch)
		<-refused.Struck()
		synctest.Wait()
		c.reconnect(srv)
		time.Sleep(c.Timeout())
		assert.Empty(t, srv.Watches())
		assert.Equal(t, 1, srv.Counts()["removeWatches"])
	})
}

// A server that accepts a connection and sends nothing, or only the beginning of a frame, costs no more than the time for
// one attempt.
func TestASilentServerHoldsAnAttemptNoLongerThanTheDialTimeout(t *testing.T) {
	for name, serve := range map[string]func(p *peer){
		"before the handshake": func(p *peer) { p.swallow() },
		"within it":            func(p *peer) { p.hello(); p.raw([]byte{0, 0, 0}); p.swallow() },
		"at the credentials":   func(p *peer) { p.welcome(40 * time.Second); p.swallow() },
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			f := scripted(t, func(n int, p *peer) {
				if n < 3 {
					serve(p)
				}
				p.welcome(40 * time.Second)
				p.obey()
			})
			slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
				time.Sleep(time.Second) // of the same two seconds
				return f.Dial(ctx, network, addr)
			}
			c := open(t, slow, func(cfg *Config) {
				cfg.Timeout, cfg.ConnectTimeout = time.Minute, 2*time.Second
				cfg.Assume = always(Servers{Report: time.Second, Stale: 13 * time.Second})
				cfg.Credentials = []Credential{{"digest", []byte("a:b")}}
			})
			start := time.Now()
			c.await(Connected)
			assert.Less(t, time.Since(start), 2*2*time.Second+time.Second+500*time.Millisecond)
		}))
	}
}
