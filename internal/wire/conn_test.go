package wire

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// The library's own requests, through Conn().

var zkWorld = zk.WorldACL(zk.PermAll)

func TestTheLibraryKeepsWorking(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		conn := c.Conn()
		_, err := conn.Create("/a", []byte("1"), zk.FlagEphemeral, zkWorld)
		require.NoError(t, err)
		_, stat, err := conn.Get("/a")
		require.NoError(t, err)
		assert.Equal(t, c.ID(), stat.EphemeralOwner)
		assert.Equal(t, c.ID(), conn.SessionID())
		assert.Equal(t, zk.StateHasSession, conn.State())
		for range 5 {
			srv.Cut(0)
			_, err = conn.Set("/a", nil, -1)
			if err != nil { // it may have been in flight
				c.await(Connected)
			}
			time.Sleep(2 * minHeldTime)
		}
		_, _, err = conn.Children("/")
		require.NoError(t, err)
		assert.Equal(t, c.ID(), conn.SessionID())
	})
}

func TestTheLibraryAndWeShareOneOrder(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/n", 0)
		for i := range 200 {
			x, r := call(jute.OpSetData, &jute.SetDataRequest{Path: "/n", Data: []byte{byte(i)}, Version: -1})
			c.Submit(x)
			data, _, err := c.Conn().Get("/n")
			require.NoError(t, err)
			require.Equal(t, []byte{byte(i)}, data)
			require.Len(t, r, 1, "our reply came first")
		}
	})
}

// The session sends pings at its own pace, whatever the library sends: replies to the library do not prove when their
// requests were sent.
func TestABusyLibraryDoesNotKeepUsFromPinging(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		for range 600 {
			_, _, err := c.Conn().Get("/")
			require.NoError(t, err)
			require.Greater(t, c.Validity().Remaining(), 5*time.Second)
			time.Sleep(100 * time.Millisecond)
		}
		assert.Empty(t, c.seen())
	})
}

func TestLibraryWatchesSurviveReconnects(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		for _, path := range []string{"/a", "/b"} {
			require.NoError(t, srv.Create(path, nil))
		}
		c := connected(t, srv.Dial)
		_, _, a, err := c.Conn().GetW("/a")
		require.NoError(t, err)
		_, _, b, err := c.Conn().ChildrenW("/b")
		require.NoError(t, err)
		_, _, e, err := c.Conn().ExistsW("/e")
		require.NoError(t, err)
		c.lose(srv)
		require.NoError(t, srv.Set("/a", nil))
		require.NoError(t, srv.Start())
		assert.Equal(t, zk.EventNodeDataChanged, (<-a).Type)
		require.NoError(t, srv.Create("/b/x", nil))
		assert.Equal(t, zk.EventNodeChildrenChanged, (<-b).Type)
		require.NoError(t, srv.Create("/e", nil))
		assert.Equal(t, zk.EventNodeCreated, (<-e).Type)
	})
}

// The library sends the zxid of the last reply that it has seen, which may be a reply on the new connection: then the
// server would send no events of the gap.
func TestLibraryWatchesAreRearmedAsOfTheDisconnect(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		spy := spyOn(srv.Dial)
		require.NoError(t, srv.Create("/a", nil))
		c := connected(t, spy.Dial)
		_, _, _, err := c.Conn().GetW("/a")
		require.NoError(t, err)
		c.create("/b", 0)
		seen := c.MaxZxid()
		c.lose(srv)
		require.NoError(t, srv.Set("/a", nil))
		queued := c.start(jute.OpSetData, &jute.SetDataRequest{Path: "/b", Version: -1})
		require.NoError(t, srv.Start())
		require.NoError(t, (<-queued).Err)
		synctest.Wait()
		found := false
		for _, f := range spy.frames(spy.links() - 1) {
			if f.op == jute.OpSetWatches {
				found = true
				assert.Equal(t, seen, int64(binary.BigEndian.Uint64(f.body)))
			}
		}
		assert.True(t, found)
	})
}

func TestLibraryWatchesAreNotLostBehindQueuedRequests(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.NoError(t, srv.Create("/a", nil))
		for round := range 30 {
			_, _, changed, err := c.Conn().GetW("/a")
			require.NoError(t, err)
			c.lose(srv)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() { _, _ = c.Conn().Sync("/") })
			}
			synctest.Wait()
			require.NoError(t, srv.Set("/a", nil))
			require.NoError(t, srv.Start())
			wg.Wait()
			c.await(Connected)
			time.Sleep(2 * minHeldTime)
			require.Len(t, changed, 1, "round %d", round)
		}
	})
}

// Before 3.9 a one-shot watch of the library would replace the session's own persistent watch on the same path; and the
// removal of the session's watch would also remove the library's.
func TestLibraryWatchesAndOursShareAPath(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V38, zktest.V39} {
		for _, kind := range []WatchKind{Persistent, Recursive} {
			for _, reconnect := range []bool{false, true} {
				onServer(t, zktest.Config{Profile: profile}, func(t *testing.T, srv *zktest.Server) {
					require.NoError(t, srv.Create("/x", nil))
					c := connected(t, srv.Dial)
					conn := c.Conn()
					p := c.watch(kind, "/x")
					synctest.Wait() // else the library might arm its watches once more, as after a reconnect
					_, _, data, err := conn.GetW("/x")
					require.NoError(t, err)
					_, _, kids, err := conn.ChildrenW("/x")
					require.NoError(t, err)
					if reconnect {
						c.reconnect(srv)
						synctest.Wait()
						time.Sleep(time.Second)
					}
					for range 3 {
						require.NoError(t, srv.Set("/x", nil))
					}
					require.NoError(t, srv.Create("/x/c", nil))
					c.sync()
					assert.Equal(t, zk.EventNodeDataChanged, (<-data).Type)
					changes, children := 0, 0
					for _, typ := range p.types() {
						switch typ {
						case jute.EventNodeDataChanged:
							changes++
						case jute.EventNodeChildrenChanged, jute.EventNodeCreated:
							children++
						}
					}
					assert.Equal(t, 3, changes, "%s, kind %d, reconnect %t", profile, kind, reconnect)
					assert.NotZero(t, children)
					if kind == Persistent || profile == zktest.V39 {
						assert.Equal(t, zk.EventNodeChildrenChanged, (<-kids).Type)
					}
				})
			}
		}
	}
}

func TestAPersistentWatchOnItsWayIsArmedAgainBehindTheLibrary(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.NoError(t, srv.Create("/x", nil))
		hold := srv.Inject(zktest.Fault{Op: "addWatch", Action: zktest.Hold})
		p, r := c.arm(Persistent, "/x")
		<-hold.Struck()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, _, err := c.Conn().GetW("/x")
			assert.NoError(t, err)
		})
		synctest.Wait()
		hold.Release()
		<-r
		wg.Wait()
		c.sync()
		for range 3 {
			require.NoError(t, srv.Set("/x", nil))
		}
		c.sync()
		changes, resets := 0, 0
		for _, typ := range p.types() {
			switch typ {
			case jute.EventNodeDataChanged:
				changes++
			case EventReset:
				resets++
			}
		}
		assert.Equal(t, 3, changes)
		assert.Equal(t, 1, resets, "a change between the two requests has no event")
	})
}

// It is unknown whether a failed request of the library has armed a watch, so the session's own watch stays on the server
// after its end. On the next connection the library arms its own watch, and the session does not arm that one again.
func TestAWatchThatIsKeptForTheLibraryEndsWithTheConnection(t *testing.T) {
	for _, kind := range []WatchKind{Data, Child} {
		onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
			require.NoError(t, srv.Create("/x", nil))
			ours := c.watch(kind, "/x")
			srv.Inject(zktest.Fault{Op: "getData", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
			srv.Inject(zktest.Fault{Op: "getChildren2", Action: zktest.ReplyError, Err: zktest.ErrThrottledOp})
			_, _, _, err := c.Conn().GetW("/x")
			require.Error(t, err)
			_, _, _, err = c.Conn().ChildrenW("/x")
			require.Error(t, err)
			c.Unwatch(&ours.Watch)
			c.reconnect(srv)
			c.sync()
			assert.Empty(t, srv.Watches())
			assert.Empty(t, c.watches.entries)
		})
	}
}

func TestOurUnwatchLeavesTheLibraryItsWatch(t *testing.T) {
	for _, kind := range []WatchKind{Data, Child, Persistent, Recursive} {
		onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
			require.NoError(t, srv.Create("/x", nil))
			ours := c.watch(kind, "/x")
			var events <-chan zk.Event
			var err error
			if kind == Child {
				_, _, events, err = c.Conn().ChildrenW("/x")
			} else {
				_, _, events, err = c.Conn().GetW("/x")
			}
			require.NoError(t, err)
			c.Unwatch(&ours.Watch)
			c.sync()
			if kind == Child {
				require.NoError(t, srv.Create("/x/c", nil))
			} else {
				require.NoError(t, srv.Set("/x", nil))
			}
			<-events
			c.sync()
			assert.Empty(t, srv.Watches(), "what we kept for it goes with its event")
			assert.Empty(t, c.watches.entries)
		})
	}
}

func TestALibraryFrameOverTheLimitIsAnswered(t *testing.T) {
	onServer(t, zktest.Config{MaxFrame: 1000}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.MaxFrame = 1000 })
		require.NoError(t, srv.Create("/a", nil))
		_, err := c.Conn().Set("/a", make([]byte, 2000), -1)
		require.Error(t, err)
		_, err = c.Conn().Set("/a", make([]byte, 900), -1)
		require.NoError(t, err)
		assert.Empty(t, c.seen(), "the connection stands")
	})
}

// Credentials that the user adds through the library are sent again by the library. A write error during that would block
// it without end.
func TestLibraryCredentialsAreSentAgainAndDoNotDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var auths atomic.Int32
		f := scripted(t, func(n int, p *peer) {
			p.welcome(10 * time.Second)
			for {
				h, _ := p.next()
				if h.Op == jute.OpAuth {
					auths.Add(1)
					if n > 1 && n < 12 {
						return // during the repetition
					}
				}
				p.reply(h, 1, 0)
				if h.Op == jute.OpSync && n == 1 {
					return
				}
			}
		})
		c := connected(t, f.Dial)
		for _, user := range []string{"a:a", "b:b", "c:c"} {
			require.NoError(t, c.Conn().AddAuth("digest", []byte(user)))
		}
		c.sync()
		for range 11 {
			c.await(Connected)
		}
		err := c.Conn().Delete("/a", -1)
		if err != nil {
			err = c.Conn().Delete("/a", -1)
		}
		require.NoError(t, err)
		assert.EqualValues(t, 3+10+3, auths.Load())
		start := time.Now()
		require.NoError(t, c.Close(t.Context()))
		assert.Less(t, time.Since(start), 10*time.Millisecond)
	})
}

func TestRefusedLibraryCredentials(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.ErrorIs(t, c.Conn().AddAuth("nosuchscheme", nil), zk.ErrAuthFailed)
		c.await(Disconnected)
		c.await(Connected)
		_, _, err := c.Conn().Get("/")
		require.NoError(t, err)
	})
}

// Closing the library's connection ends the session, since the library would never reconnect.
func TestClosingTheLibraryEndsTheSession(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		start := time.Now()
		c.Conn().Close()
		ev := c.await(Lost)
		assert.Error(t, ev.Err)
		assert.Less(t, time.Since(start), 2*time.Second)
		c.Wait()
		assert.Empty(t, srv.Sessions())
		require.ErrorIs(t, c.Close(t.Context()), ErrUnacknowledged, "the server's word was for the library")
	})
}

// Without a server the library's requests fail at the next long pause. Nothing ends that pause, but it is a
// second at the most.
func TestLibraryRequestsWithoutAServer(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		for i := range 20 {
			c := connected(t, srv.Dial, func(cfg *Config) { cfg.Timeout = 40 * time.Second })
			conn := c.Conn()
			if i%2 == 0 { // it repeats them on every connection, also on one that leads nowhere
				require.NoError(t, conn.AddAuth("digest", []byte("a:b")))
			}
			srv.Stop()
			time.Sleep(time.Second)
			start := time.Now()
			_, _, err := conn.Get("/")
			require.ErrorIs(t, err, zk.ErrNoServer)
			assert.LessOrEqual(t, time.Since(start), 8*time.Second)
			time.Sleep(time.Duration(i) * 300 * time.Millisecond)
			start = time.Now()
			c.Abort(ErrClosed)
			c.Wait()
			assert.LessOrEqual(t, time.Since(start), time.Second)
			require.NoError(t, srv.Start())
		}
	})
}

// After such an outage a short loss of the connection costs the library's requests neither an error nor that pause.
func TestLibraryRequestsAfterAnOutage(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.Timeout = 40 * time.Second })
		conn := c.Conn()
		for range 3 {
			c.lose(srv)
			time.Sleep(time.Second)
			_, _, err := conn.Get("/")
			require.ErrorIs(t, err, zk.ErrNoServer)
			c.regain(srv)
			time.Sleep(10 * time.Second)
			for range 3 {
				c.reconnect(srv)
				start := time.Now()
				_, _, err = conn.Get("/")
				require.NoError(t, err)
				assert.Less(t, time.Since(start), time.Second)
				time.Sleep(2 * minHeldTime)
			}
		}
	})
}

func TestLibraryRequestsEndWithTheSession(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		srv.Pause()
		errs := make(chan error, 40)
		for range 40 {
			go func() {
				_, _, err := c.Conn().Get("/")
				errs <- err
			}()
		}
		time.Sleep(time.Second)
		start := time.Now()
		c.Abort(errors.New("enough"))
		for range 40 {
			require.Error(t, <-errs)
		}
		c.Wait()
		assert.LessOrEqual(t, time.Since(start), time.Second)
		_, _, err := c.Conn().Get("/")
		require.Error(t, err)
	})
}
