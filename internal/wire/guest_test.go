package wire

import (
	"net"
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

// The first call makes a connection that is ready; later calls return the same one.
func TestTheGuestEntersALinkThatStands(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		time.Sleep(time.Minute)
		var all [10]*zk.Conn
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				all[i] = c.Conn()
				assert.Equal(t, zk.StateHasSession, all[i].State())
				assert.Equal(t, c.ID(), all[i].SessionID())
				assert.Equal(t, "one:2181", all[i].Server())
			})
		}
		wg.Wait()
		for _, conn := range all {
			assert.Same(t, all[0], conn)
		}
		assert.EqualValues(t, 1, c.Connections(), "no connection was made for it")
	})
}

// The guest is connected to the same server as the session.
func TestTheGuestMovesWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3)
		c := connected(t, e.Dial, func(cfg *Config) { cfg.Servers = e.Addrs() })
		conn := c.Conn()
		seen := map[string]bool{}
		for range 20 {
			server := conn.Server()
			seen[server] = true
			c.SetServers(without(e.Addrs(), server), nil)
			c.await(Disconnected)
			c.await(Connected)
			_, _, err := conn.Get("/")
			require.NoError(t, err)
			assert.NotEqual(t, server, conn.Server())
			c.SetServers(e.Addrs(), nil)
		}
		assert.Len(t, seen, 3)
	})
}

func without(all []string, one string) (rest []string) {
	for _, s := range all {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

func TestAGuestThatComesAfterTheEnd(t *testing.T) {
	// its bubble ends only when all its goroutines have ended
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		for _, ended := range []func(c *client){
			func(c *client) { require.NoError(t, c.Close(t.Context())) },
			func(c *client) { c.Abort(ErrExpired); c.Wait() },
		} {
			c := connected(t, srv.Dial)
			ended(c)
			start := time.Now()
			_, _, err := c.Conn().Get("/")
			require.ErrorIs(t, err, zk.ErrConnectionClosed)
			assert.Zero(t, time.Since(start))
			start = time.Now()
			c.Conn().Close()
			assert.Zero(t, time.Since(start), "it is closed")
		}
	})
}

// Conn may be called in all callbacks of a session, also in that of its end.
func TestConnInsideCallbacks(t *testing.T) {
	for _, kind := range []EventKind{Connected, Disconnected, Failed, Lost} {
		onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
			var s atomic.Pointer[client]
			got := make(chan *zk.Conn, 100)
			c := connected(t, srv.Dial, func(cfg *Config) {
				tell := cfg.OnEvent
				cfg.OnEvent = func(ev Event) {
					if tell(ev); ev.Kind == kind && s.Load() != nil {
						got <- s.Load().Conn()
					}
				}
			})
			s.Store(c)
			srv.Cut(0)
			c.await(Connected)
			srv.Stop()
			time.Sleep(time.Second)
			c.Abort(ErrClosed)
			assert.Same(t, c.Conn(), <-got)
		})
	}
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		got := make(chan *zk.Conn, 1)
		c.Submit(&Call{Op: jute.OpSync, Body: jute.Marshal(&jute.PathRequest{Path: "/"}),
			Done: func(Reply) { got <- c.Conn() }})
		assert.Equal(t, zk.StateHasSession, (<-got).State(), "also where answers are read")
	})
}

// A guest that has no connection yet waits for one, and fails the requests that wait with it once in a while.
func TestAGuestBeforeTheFirstConnection(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		srv.Stop()
		c := open(t, srv.Dial)
		start := time.Now()
		conn := c.Conn()
		assert.Zero(t, time.Since(start))
		assert.Zero(t, conn.SessionID())
		for range 5 {
			start = time.Now()
			_, _, err := conn.Get("/")
			require.ErrorIs(t, err, zk.ErrNoServer)
			assert.LessOrEqual(t, time.Since(start), 3*time.Second)
		}
		c.regain(srv)
		time.Sleep(time.Second) // the library's pause
		_, _, err := conn.Get("/")
		require.NoError(t, err)
		assert.Equal(t, c.ID(), conn.SessionID())
	})
}

// When the session expires without a connection, the library's watches get an event of that.
func TestTheGuestIsToldThatTheSessionHasExpired(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		_, _, events, err := c.Conn().GetW("/")
		require.NoError(t, err)
		srv.Expire(c.ID())
		ev := c.await(Lost)
		require.ErrorIs(t, ev.Err, ErrExpired)
		assert.Equal(t, zk.EventNotWatching, (<-events).Type)
		c.Wait()
	})
}

// The library's requests go over the connection on which the guest was admitted, whatever the session sends between them.
func TestTheGuestIsLetInAgainAfterEachLoss(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		conn := c.Conn()
		for range 30 {
			srv.Cut(0)
			c.await(Connected)
			c.create("/n", 0) // the session's own request comes first on the new connection
			_, _, err := conn.Get("/n")
			require.NoError(t, err)
			require.Equal(t, jute.CodeOK, c.do(jute.OpDelete, &jute.PathIntRequest{Path: "/n", Value: -1}).Code)
			time.Sleep(2 * minHeldTime)
		}
		assert.EqualValues(t, 31, c.Connections())
	})
}

// The library may close a connection late: its later calls for that connection do not reach the next.
func TestTheGuestIsLateOnAConnectionThatHasEnded(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		s := spyOn(srv.Dial)
		c := connected(t, s.Dial)
		var ended uint64
		c.WithConnection(func(number uint64, _ string, _ time.Duration, _ int64) { ended = number })
		c.reconnect(srv)
		h := jute.RequestHeader{Xid: 1, Op: jute.OpCreate}
		assert.False(t, c.Forward(ended, h, jute.Marshal(creation("/late", 0))))
		c.Disconnect(ended, net.ErrClosed)
		c.sync()
		assert.Equal(t, []int32{jute.OpCreateSession, jute.OpSync}, opsOf(s.frames(1)))
		assert.False(t, srv.Exists("/late"))
		assert.Empty(t, c.seen(), "the connection stays")
	})
}

// A server is not silent if it got no request since its reply to the guest: there is no hold, so pings are few.
func TestARestAfterARequestOfTheGuest(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		rule := Servers{Report: 3 * time.Second, Stale: 12 * time.Second, Margin: time.Second}
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.Timeout, cfg.Assume = 30*time.Second, always(rule) })
		for range 10 {
			_, _, err := c.Conn().Get("/")
			require.NoError(t, err)
			time.Sleep(rule.Rest(30*time.Second) + time.Second)
		}
		assert.Empty(t, c.seen())
	})
}
