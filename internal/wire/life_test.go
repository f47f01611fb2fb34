package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// The life and the end of a session: promise P1.

// deadline returns the instant when the session lapses if no further reply comes.
func (c *client) deadline() time.Time { return time.Now().Add(c.Validity().Remaining()) }

// lapses checks that the session is lost exactly at the instant.
func (c *client) lapses(at time.Time) {
	c.t.Helper()
	time.Sleep(time.Until(at) - time.Nanosecond)
	synctest.Wait()
	require.False(c.t, c.Validity().Lost())
	require.NotContains(c.t, c.seen(), Lost)
	ev := c.await(Lost)
	assert.ErrorIs(c.t, ev.Err, ErrLapsed)
	assert.Equal(c.t, at, time.Now())
	assert.False(c.t, c.Validity().Valid())
	assert.True(c.t, c.Validity().Lost())
}

func TestASilentServerIsGivenUpAndTheSessionLostInTime(t *testing.T) {
	for _, rule := range []Servers{
		{Standalone: true}, {Report: time.Second, Stale: 4 * time.Second, Margin: 500 * time.Millisecond},
	} {
		for name, silence := range map[string]func(*zktest.Server){
			"paused":               func(s *zktest.Server) { s.Pause() },
			"nothing gets through": func(s *zktest.Server) { s.BlackHole(0, zktest.Both) },
			"requests are lost":    func(s *zktest.Server) { s.BlackHole(0, zktest.FromClient) },
			"replies are lost":     func(s *zktest.Server) { s.BlackHole(0, zktest.ToClient) },
			"stopped":              func(s *zktest.Server) { s.Stop() },
		} {
			for _, held := range []bool{true, false} {
				about := fmt.Sprintf("%s, %v, held: %v", name, rule, held)
				t.Run(about, served(zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
					c := connected(t, srv.Dial, func(cfg *Config) { cfg.Assume = always(rule) })
					ping, most := rule.Pace(10 * time.Second)
					pause := rule.Rest(10 * time.Second)
					if held {
						require.True(t, c.Validity().BeginHold())
						pause = ping
					}
					time.Sleep(33_333 * time.Millisecond)
					require.Empty(t, c.seen())
					assert.GreaterOrEqual(t, time.Until(c.deadline()), (10*time.Second-rule.Stale)/2-rule.Margin, "pinged at the pace")
					silence(srv)
					synctest.Wait()
					left, _ := c.Validity().timeToLapse()
					at, start := time.Now().Add(left), time.Now()
					ev := c.await(Disconnected)
					assert.LessOrEqual(t, time.Since(start), most+pause+ping)
					if name != "stopped" {
						assert.ErrorIs(t, ev.Err, errSilent)
					}
					c.lapses(at)
				}))
			}
		}
	}
}

// Without holds a session is kept alive by as many pings as Java's, and a new hold has time.
func TestPingsAreFewWhileNothingIsHeld(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.Assume = always(Servers{Standalone: true, Margin: time.Second}) })
		pings := func() int {
			srv.ResetCounts()
			time.Sleep(time.Minute)
			return srv.Counts()["ping"]
		}
		assert.InDelta(t, 20, pings(), 1)
		time.Sleep(2900 * time.Millisecond) // right before the next
		require.True(t, c.Validity().BeginHold())
		assert.Greater(t, c.Validity().Remaining(), 6*time.Second-time.Second/3)
		synctest.Wait()
		assert.Equal(t, 9*time.Second, c.Validity().Remaining(), "it has pinged at once")
		assert.InDelta(t, 72, pings(), 1)
		c.Validity().EndHold()
		assert.InDelta(t, 20, pings(), 1)
		assert.Empty(t, c.seen())
	})
}

// A server is not silent if it got no request during a rest that is longer than the silence that a hold allows: a hold that
// begins at any moment of the rest sends pings, and keeps its connection.
func TestAHoldThatBeginsAfterARestKeepsItsConnection(t *testing.T) {
	for _, timeout := range []time.Duration{25 * time.Second, 30 * time.Second, 34 * time.Second, 40 * time.Second} {
		rule := Servers{Report: 3 * time.Second, Stale: 12 * time.Second, Margin: time.Second}
		rest := rule.Rest(timeout)
		for begin := rest / 20; begin < rest; begin += rest / 20 {
			onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
				c := connected(t, srv.Dial, func(cfg *Config) { cfg.Timeout, cfg.Assume = timeout, always(rule) })
				time.Sleep(2*rest + begin)
				require.True(t, c.Validity().BeginHold())
				time.Sleep(timeout)
				assert.Empty(t, c.seen(), "T = %v, begun %v after a ping", timeout, begin)
			})
		}
	}
}

// A lost ping, whose reply never comes, does not make a server silent that replies to all others.
func TestALostPingIsNoSilence(t *testing.T) {
	for _, held := range []bool{false, true} {
		onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
			c := connected(t, srv.Dial, func(cfg *Config) { cfg.Assume = always(Servers{Standalone: true}) })
			require.True(t, !held || c.Validity().BeginHold())
			lost := srv.Inject(zktest.Fault{Op: "ping", Action: zktest.DropRequest})
			for range 100 {
				time.Sleep(12_300 * time.Millisecond) // some pings, and one is nearly due
				srv.Delay(0, 1500*time.Millisecond)
				require.NoError(t, (<-c.start(jute.OpGetData, read("/"))).Err)
				srv.Delay(0, 0)
			}
			<-lost.Struck()
			assert.Empty(t, c.seen())
		})
	}
}

// A hold depends on committed writes, and its session ends with it.
func TestHeldByHeartbeats(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		rule := Servers{Report: 1500 * time.Millisecond}
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.Assume = always(rule) })
		c.create("/own", jute.ModeEphemeral)
		time.Sleep(2 * time.Second)
		beat := func() {
			check := jute.MultiOp{Op: jute.OpCheck, Request: &jute.PathVersionRequest{Path: "/own", Version: -1}}
			r := c.do(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{check}})
			require.NoError(t, r.Err)
		}
		beat()
		require.True(t, c.Validity().BeginHold())
		ping, _ := rule.Pace(10 * time.Second)
		for range 20 {
			time.Sleep(time.Second)
			beat()
			left := c.Validity().Remaining()
			require.Less(t, left, 10*time.Second-rule.Report, "what was sent since may not have been reported")
			require.GreaterOrEqual(t, left, 10*time.Second-rule.Report-2*ping)
		}
		c.lapses(c.deadline()) // the server continues to reply to pings
	})
}

func TestAHoleInOneConnectionIsLeftBehind(t *testing.T) {
	for _, dir := range []zktest.Direction{zktest.FromClient, zktest.ToClient, zktest.Both} {
		onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
			time.Sleep(5 * time.Second)
			srv.BlackHole(c.ID(), dir)
			r := c.start(jute.OpGetData, read("/"))
			assert.ErrorIs(t, (<-r).Err, ErrConnectionLost)
			start := time.Now()
			ev := c.await(Connected)
			assert.True(t, ev.Reattached)
			assert.Less(t, time.Since(start), time.Second)
			time.Sleep(time.Minute)
			assert.Empty(t, c.seen())
		})
	}
}

// Members that hang must not use up the time in which another member could be found.
func TestHungMembersLeaveTimeForTheOthers(t *testing.T) {
	for name, hang := range map[string]func(ctx context.Context) error{
		"in the handshake": nil,
		"in the dial":      func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				bubble(t, func(t *testing.T) {
					var hung atomic.Bool
					f := scripted(t, func(n int, p *peer) {
						if hung.Load() && p.addr != "d:1" {
							p.swallow()
						}
						p.welcome(9 * time.Second)
						for {
							h, _ := p.request()
							if hung.Load() && p.addr != "d:1" {
								p.swallow()
							}
							p.reply(h, 1, 0)
						}
					})
					dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
						if hang != nil && hung.Load() && addr != "d:1" {
							return nil, hang(ctx)
						}
						return f.Dial(ctx, network, addr)
					}
					c := connected(t, dial, func(cfg *Config) {
						cfg.Servers, cfg.Timeout = []string{"a:1", "b:1", "c:1", "d:1"}, 9*time.Second
					})
					time.Sleep(10 * time.Second)
					hung.Store(true)
					time.Sleep(20 * time.Second)
					assert.NotContains(t, c.seen(), Lost)
					assert.True(t, c.Validity().Valid())
				})
			}
		})
	}
}

// When the time runs out, the pauses between the attempts get shorter: a server that is back in time is found in time.
func TestTheBackOffLeavesTimeForAnotherAttempt(t *testing.T) {
	for range 20 {
		onServer(t, zktest.Config{TickTime: time.Second}, func(t *testing.T, srv *zktest.Server) {
			c := connected(t, srv.Dial, func(cfg *Config) { cfg.Timeout = 6 * time.Second })
			time.Sleep(10 * time.Second)
			srv.Stop()
			synctest.Wait()
			time.Sleep(c.Validity().Remaining() - time.Second)
			require.NoError(t, srv.Start())
			time.Sleep(10 * time.Second)
			assert.NotContains(t, c.seen(), Lost)
		})
	}
}

func TestARequestThatIsNeverAnsweredEndsTheConnection(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		srv.Inject(zktest.Fault{Op: "getData", Action: zktest.DropRequest})
		start := time.Now()
		r := c.do(jute.OpGetData, read("/"))
		assert.ErrorIs(t, r.Err, ErrConnectionLost)
		assert.ErrorIs(t, r.Err, errStuck)
		assert.InDelta(t, 10, time.Since(start).Seconds(), 2)
		assert.ErrorIs(t, c.await(Disconnected).Err, errStuck)
		c.await(Connected)
	})
}

func TestHandshakesThatDoNotEndAreBounded(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"half":   {Op: "connect", Action: zktest.HalfHandshake, Times: 2},
		"silent": {Op: "connect", Action: zktest.Hold, Times: 2},
		"lost":   {Op: "connect", Action: zktest.DropRequest, Times: 2},
		"cut":    {Op: "connect", Action: zktest.CutBefore, Times: 2},
	} {
		t.Run(name, served(zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
			fault := srv.Inject(fault)
			start := time.Now()
			c := connected(t, srv.Dial)
			assert.LessOrEqual(t, time.Since(start), 2*(10*time.Second/3)+300*time.Millisecond)
			assert.Equal(t, 2, fault.Hits())
			_ = c
		}))
	}
}

func TestADialThatHangsIsBounded(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		n := 0
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if n++; n == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return srv.Dial(ctx, network, addr)
		}
		start := time.Now()
		connected(t, dial, func(cfg *Config) { cfg.ConnectTimeout = 3 * time.Second })
		assert.InDelta(t, 3, time.Since(start).Seconds(), 0.1)
	})
}

// A second connection with the session's id and password can end the session: the first one notices by the end of its
// connection.
func TestExpiryByASecondConnection(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/e", jute.ModeEphemeral)
		watch := c.watch(Data, "/e")
		id, password := c.Identity()
		time.Sleep(5 * time.Second)
		start := time.Now()
		conn, err := srv.Dial(t.Context(), "", "")
		require.NoError(t, err)
		defer conn.Close()
		attach := jute.Frame(&jute.ConnectRequest{Timeout: 10_000, SessionID: id, Password: password})
		_, err = conn.Write(append(attach, requestFrame(1, jute.OpCloseSession)...))
		require.NoError(t, err)
		ev := c.await(Lost)
		assert.ErrorIs(t, ev.Err, ErrExpired)
		assert.Less(t, time.Since(start), 5*time.Millisecond)
		assert.False(t, c.Validity().Valid())
		end := <-watch.events
		assert.Equal(t, EventEnd, end.Type)
		assert.ErrorIs(t, end.Err, ErrExpired)
		assert.ErrorIs(t, end.Err, ErrSessionLost)
	})
}

// A server may report the expiry in a reply, too.
func TestExpiryByAReply(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		srv.Inject(zktest.Fault{Op: "create", Action: zktest.ReplyError, Err: zktest.ErrSessionExpired})
		r := c.do(jute.OpCreate, creation("/a", 0))
		assert.ErrorIs(t, r.Err, ErrSessionLost)
		assert.ErrorIs(t, c.await(Lost).Err, ErrExpired)
	})
}

func TestWipedDataEndTheSessionAndTheNextOneStartsAnew(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/a", 0)
		time.Sleep(10 * time.Second)
		at := c.deadline()
		srv.Wipe()
		c.lapses(at)
		c.Wait()

		spy := spyOn(srv.Dial)
		start := time.Now()
		next := open(t, spy.Dial, func(cfg *Config) { cfg.LastZxid = c.MaxZxid() })
		ev := next.await(Regressed)
		assert.Error(t, ev.Err)
		next.await(Connected)
		assert.GreaterOrEqual(t, time.Since(start), 10*time.Second)
		assert.Less(t, time.Since(start), 25*time.Second)
		assert.Less(t, next.MaxZxid(), c.MaxZxid())
		next.create("/b", 0)
		srv.Cut(0)
		next.await(Connected)
		assert.Equal(t, next.MaxZxid(), spy.connectOf(spy.links()-1).LastZxidSeen)
	})
}

// Servers that do not serve look like servers with wiped data for a long time. They have lost nothing, and the client
// continues to claim its zxid.
func TestAnOutageIsNoRegression(t *testing.T) {
	for name, outage := range map[string]func(f *fake, p *peer){
		"closing the connection": func(_ *fake, p *peer) { p.hello() },
		"silent":                 func(_ *fake, p *peer) { p.swallow() },
		"closing without a look": func(*fake, *peer) {},
		"accepting only without claim, but not behind": func(_ *fake, p *peer) {
			r := p.hello()
			if r.LastZxidSeen != 0 {
				return
			}
			p.send(&jute.ConnectResponse{Timeout: 10_000, SessionID: fakeSession, Password: make([]byte, 16)})
			h, _ := p.next()
			p.reply(h, 500, 0)
			p.obey()
		},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			start := time.Now()
			claims := make(chan int64, 1000)
			var f *fake
			f = scripted(t, func(_ int, p *peer) {
				if time.Since(start) < 2*time.Minute {
					outage(f, p)
					return
				}
				claims <- p.welcome(10 * time.Second).LastZxidSeen
				for {
					h, _ := p.request()
					p.reply(h, 600, 0)
				}
			})
			c := open(t, f.Dial, func(cfg *Config) { cfg.LastZxid = 500 })
			c.await(Connected)
			time.Sleep(2*time.Minute + time.Second)
			for len(claims) > 0 {
				if claim := <-claims; claim != 0 { // a probe: its server was tried
					assert.EqualValues(t, 500, claim)
				}
			}
			assert.NotContains(t, c.seen(), Regressed)
			assert.GreaterOrEqual(t, c.MaxZxid(), int64(500))
		}))
	}
}

func TestTheOldSessionIsClosedBeforeTheNewOneIsAnnounced(t *testing.T) {
	for _, auth := range []bool{false, true} {
		onServer(t, zktest.Config{RequireAuth: auth}, func(t *testing.T, srv *zktest.Server) {
			credentials := func(cfg *Config) {
				if auth {
					cfg.Credentials = []Credential{{"digest", []byte("u:p")}}
				}
			}
			old := abandoned(t, srv, credentials)
			require.True(t, srv.Exists("/e"))
			seen := false
			spy, log := spyOn(srv.Dial), &lines{}
			next := open(t, spy.Dial, credentials, old.fenced(time.Minute), func(cfg *Config) {
				cfg.LastZxid, cfg.Logger = old.MaxZxid(), slog.New(log)
				was := cfg.OnEvent
				cfg.OnEvent = func(ev Event) {
					seen = seen || srv.Exists("/e")
					was(ev)
				}
			})
			next.await(Connected)
			assert.False(t, seen, "its ephemeral nodes are gone before anybody hears of the new session")
			assert.Zero(t, log.n.Load(), "nothing has failed")
			require.Len(t, srv.Sessions(), 1)
			assert.Equal(t, next.ID(), srv.Sessions()[0].ID)
			assert.Zero(t, spy.connectOf(0).SessionID)
			assert.Equal(t, old.ID(), spy.connectOf(1).SessionID)
			srv.Cut(0)
			next.await(Connected)
			assert.Equal(t, 3, spy.links(), "once")
		})
	}
}

func TestFencingIsRepeatedUntilItIsKnownToBeDone(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"lost reply":   {Op: "closeSession", Action: zktest.LoseReply},
		"lost request": {Op: "closeSession", Action: zktest.CutBefore, Times: 2},
		"error":        {Op: "closeSession", Action: zktest.ReplyError, Err: zktest.ErrSystemError},
		"silence":      {Op: "closeSession", Action: zktest.DropRequest},
		"handshake":    {Op: "connect", Action: zktest.CutBefore, Times: 3},
	} {
		t.Run(name, served(zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
			old := abandoned(t, srv, func(cfg *Config) { cfg.Timeout = 40 * time.Second })
			srv.Inject(fault)
			next := connected(t, srv.Dial, old.fenced(time.Minute))
			assert.False(t, srv.Exists("/e"))
			assert.NotEqual(t, old.ID(), next.ID())
			time.Sleep(15 * time.Second)
			assert.Len(t, srv.Sessions(), 1, "sessions that nobody uses are closed, or expire")
		}))
	}
}

// The reply to a credential is no reply to the close of the earlier session.
func TestFencingWithACredential(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var tries atomic.Int64
		f := scripted(t, func(_ int, p *peer) {
			fence := p.welcome(10*time.Second).SessionID == 77
			for {
				h, _ := p.request()
				if fence && h.Op == jute.OpCloseSession && tries.Add(1) == 1 {
					return
				}
				p.reply(h, 1, 0)
			}
		})
		connected(t, f.Dial, func(cfg *Config) {
			cfg.Credentials = []Credential{{"digest", []byte("a:b")}}
			cfg.Fences = []Fence{{SessionID: 77, Password: make([]byte, 16), Until: time.Now().Add(time.Minute)}}
		})
		assert.EqualValues(t, 2, tries.Load(), "the first was lost")
	})
}

// After an outage the servers give every session its whole timeout again. The earlier session is closed late, too.
func TestFencingAfterALongOutage(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"at once": {Op: "setACL", Action: zktest.DropRequest}, // no request matches
		"refused": {Op: "closeSession", Action: zktest.ReplyError, Err: zktest.ErrSystemError},
		"cut":     {Op: "connect", Action: zktest.CutBefore, After: 1},
	} {
		t.Run(name, served(zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
			long := func(cfg *Config) { cfg.Timeout = 40 * time.Second }
			old := abandoned(t, srv, long)
			srv.Stop()
			next := open(t, srv.Dial, long, old.fenced(time.Second))
			time.Sleep(3 * time.Minute)
			srv.Inject(fault)
			require.NoError(t, srv.Start())
			next.await(Connected)
			assert.False(t, srv.Exists("/e"))
			assert.NoError(t, next.Close(t.Context()))
		}))
	}
}

// After its time the client leaves an earlier session to expire.
func TestFencingIsGivenUp(t *testing.T) {
	why := errors.New("why")
	for _, underWay := range []bool{true, false} {
		f := Fence{SessionID: 7, Until: time.Now()}
		if underWay {
			f.Until = f.Until.Add(time.Hour)
		}
		fs := openFences{open: []Fence{f}}
		for try := range fenceTries {
			stop, abandoned := fs.recordTry(f, why, time.Now())
			last := try == fenceTries-1 && !underWay
			assert.Equal(t, !last, stop != nil)
			assert.Equal(t, last, abandoned != nil)
		}
		_, _ = fs.recordTry(f, nil, time.Now())
		assert.Empty(t, fs.listOpen())
	}
}

// A session that could not be closed and was left to expire may live for long: each attempt gave it its whole timeout
// again. Close does not return nil before it has closed that session, too (found by the simulation).
func TestCloseTriesWhatWasLeft(t *testing.T) {
	for name, strikes := range map[string]int{"in time": fenceTries, "too late": -1} {
		for _, handedOn := range []bool{false, true} {
			title := fmt.Sprint(name, ", handed on: ", handedOn)
			t.Run(title, served(zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
				long := func(cfg *Config) { cfg.Timeout = 40 * time.Second }
				old := abandoned(t, srv, long)
				srv.Inject(zktest.Fault{Session: old.ID(), Op: "closeSession", Times: strikes, Action: zktest.CutBefore})
				next := connected(t, srv.Dial, long, old.fenced(0))
				assert.True(t, srv.Exists("/e"), "left to expire")
				if handedOn {
					next.Abort(errors.New("given up, too"))
					next.Wait()
					spy := spyOn(srv.Dial)
					next = connected(t, spy.Dial, long, func(cfg *Config) { cfg.Fences = next.Unfenced() })
					assert.Equal(t, 1, spy.links(), "it holds nobody up any more")
				}
				err := next.within(t.Context(), time.Second)
				if strikes > 0 {
					assert.NoError(t, err)
					assert.False(t, srv.Exists("/e"))
				} else {
					assert.ErrorIs(t, err, ErrUnacknowledged)
				}
			}))
		}
	}
}

// A member without a quorum may have missed the create of the session: its reply that there is no such session proves
// nothing (found by the simulation).
func TestAReadOnlyMemberDoesNotEndASession(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		switch n {
		case 1:
			p.welcome(10 * time.Second)
		case 2:
			p.hello()
			p.send(&jute.ConnectResponse{Password: make([]byte, 16), HasReadOnly: true, ReadOnly: true})
		default:
			p.welcome(10 * time.Second)
			p.obey()
		}
	}, func(t *testing.T, f *fake) {
		c := open(t, f.Dial, func(cfg *Config) { cfg.ReadOnly = true })
		c.await(Connected)
		c.await(Disconnected)
		assert.True(t, c.await(Connected).Reattached)
	})
}

// A session that ends before it could close the earlier one leaves that to the next session (found by the simulation).
func TestFencesAreHandedOn(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		old := abandoned(t, srv)
		srv.Stop()
		between := open(t, srv.Dial, old.fenced(time.Hour))
		between.Abort(errors.New("given up, too"))
		left := between.Unfenced()
		require.Len(t, left, 1)
		assert.Equal(t, old.ID(), left[0].SessionID)
		assert.ErrorIs(t, between.Close(t.Context()), ErrUnacknowledged)

		require.NoError(t, srv.Start())
		for i := range maxFences + 2 { // sessions that do not exist
			left = slices.Insert(left, 0, Fence{SessionID: int64(100 + i), Password: make([]byte, 16),
				Until: time.Now().Add(time.Hour)})
		}
		spy := spyOn(srv.Dial)
		next := connected(t, spy.Dial, func(cfg *Config) { cfg.Fences = left })
		assert.False(t, srv.Exists("/e"))
		assert.Empty(t, next.Unfenced())
		assert.Equal(t, 1+maxFences, spy.links(), "the latest")
		assert.NoError(t, next.Close(t.Context()))
	})
}

// ---- what extends the validity, and what does not ----

func TestPingsArePairedWithTheOldest(t *testing.T) {
	onScript(t, func(_ int, p *peer) {
		p.welcome(10 * time.Second)
		var unanswered []jute.RequestHeader
		for {
			h, _ := p.request()
			if unanswered = append(unanswered, h); len(unanswered) == 2 { // always one ping behind
				p.reply(unanswered[0], 0, 0)
				unanswered = unanswered[1:]
			}
		}
	}, func(t *testing.T, f *fake) {
		start := time.Now()
		c := connected(t, f.Dial)
		require.True(t, c.Validity().BeginHold())
		ping, _ := Servers{Standalone: true}.Pace(10 * time.Second)
		for range 50 {
			time.Sleep(time.Second)
			left := c.Validity().Remaining()
			require.LessOrEqual(t, left, 10*time.Second)
			if time.Since(start) > 4*ping {
				// The latest reply belongs to the last ping but one.
				require.LessOrEqual(t, left, 10*time.Second-ping)
				require.Greater(t, left, 10*time.Second-6*ping)
			}
		}
		assert.Empty(t, c.seen())
	})
}

// Only replies to the session's own requests count, and of these not all.
func TestOnlyAnswersToOurRequestsExtendTheValidity(t *testing.T) {
	for name, say := range map[string]func(p *peer){
		"watch events": func(p *peer) {
			p.send(&jute.ReplyHeader{Xid: jute.XidNotification},
				&jute.WatcherEvent{Type: jute.EventNodeDataChanged, State: 3, Path: "/a"})
		},
		"auth replies":           func(p *peer) { p.send(&jute.ReplyHeader{Xid: jute.XidAuth}) },
		"replies to the library": func(p *peer) { p.send(&jute.ReplyHeader{Xid: 7, Zxid: 1}) },
		"replies to nobody":      func(p *peer) { p.send(&jute.ReplyHeader{Xid: -5000, Zxid: 1}) },
		"reserved xids":          func(p *peer) { p.send(&jute.ReplyHeader{Xid: jute.XidSetWatches, Zxid: 1}) },
		"refusals for want of a login": func(p *peer) {
			p.send(&jute.ReplyHeader{Xid: jute.XidPing, Err: jute.CodeSessionClosedRequireSASL})
		},
		"replies to a session that has moved": func(p *peer) {
			p.send(&jute.ReplyHeader{Xid: jute.XidPing, Err: jute.CodeSessionMoved})
		},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			f := scripted(t, func(n int, p *peer) {
				if n > 1 {
					p.swallow()
				}
				p.welcome(10 * time.Second)
				go p.swallow()
				for {
					say(p)
					time.Sleep(500 * time.Millisecond)
				}
			})
			c := connected(t, f.Dial)
			at := c.deadline()
			assert.Equal(t, 10*time.Second, time.Until(at))
			c.lapses(at)
		}))
	}
}

func TestAMemberWithoutAQuorumDoesNotExtendTheValidity(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		p.admit(10*time.Second, n > 1)
		if n == 1 {
			return // and the connection is cut
		}
		p.obey()
	}, func(t *testing.T, f *fake) {
		c := open(t, f.Dial, func(cfg *Config) { cfg.ReadOnly = true })
		assert.False(t, c.await(Connected).ReadOnly)
		at := c.deadline()
		assert.True(t, c.await(Connected).ReadOnly)
		for range 9 {
			time.Sleep(time.Second)
			require.NoError(t, c.do(jute.OpGetData, read("/")).Err)
			require.Equal(t, at, c.deadline())
		}
		c.lapses(at)
	})
}

// Servers refuse a client that has seen a larger zxid than theirs. A session of a member without a quorum never lapses: it
// would be refused without end.
func TestASessionThatOnlyAReadOnlyMemberKnowsIsGivenUp(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		if n > 1 {
			p.hello()
			return // a hang-up
		}
		p.admit(10*time.Second, true)
		h, _ := p.next()
		p.reply(h, 1<<40, jute.CodeOK)
	}, func(t *testing.T, f *fake) {
		c := open(t, f.Dial, func(cfg *Config) { cfg.ReadOnly = true })
		assert.True(t, c.await(Connected).ReadOnly)
		require.NoError(t, c.do(jute.OpSync, read("/")).Err)
		c.await(Disconnected)
		refused := time.Now()
		assert.ErrorIs(t, c.await(Lost).Err, ErrLapsed)
		assert.WithinRange(t, time.Now(), refused.Add(10*time.Second), refused.Add(15*time.Second))
		assert.Greater(t, c.MaxZxid(), int64(1<<39), "the next session knows what to ask for")
	})
}

// A session at a member without a quorum holds nothing and never lapses, so the client must allow it. A server may refuse
// the handshake in the form of a plain reply.
func TestRefusedHandshakes(t *testing.T) {
	for code, want := range map[int32]error{jute.CodeNotReadOnly: ErrOpensNoSessions, jute.CodeSystemError: errRefused} {
		onScript(t, func(n int, p *peer) {
			if n > 1 {
				p.welcome(10 * time.Second)
				p.obey()
			}
			p.hello()
			p.reply(jute.RequestHeader{}, 0, code)
		}, func(t *testing.T, f *fake) {
			c := open(t, f.Dial)
			assert.ErrorIs(t, c.await(Failed).Err, want)
			c.await(Connected)
		})
	}
}

// The client closes the connection to a server that opens no session. It has no session yet that could have expired.
func TestAServerThatOpensNoSession(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		if n == 1 {
			p.hello()
			p.send(&jute.ConnectResponse{Password: make([]byte, 16)})
			return
		}
		p.welcome(10 * time.Second)
		p.obey()
	}, func(t *testing.T, f *fake) {
		c := open(t, f.Dial)
		assert.ErrorIs(t, c.await(Failed).Err, errRefused)
		c.await(Connected)
	})
}

// The client leaves a member without a quorum as soon as another member has one.
func TestAMemberWithAQuorumIsPreferred(t *testing.T) {
	onScript(t, func(_ int, p *peer) {
		if p.addr == "one:2181" {
			p.admit(10*time.Second, true)
			p.obey()
		}
		if word, err := p.br.Peek(4); err == nil && string(word) == "isro" {
			p.raw([]byte("rw"))
			return
		}
		p.welcome(10 * time.Second)
		p.obey()
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial, func(cfg *Config) { cfg.ReadOnly = true })
		c.SetServers([]string{"one:2181", "two:2181"}, nil)
		time.Sleep(2 * seekFrom)
		assert.ErrorIs(t, c.await(Disconnected).Err, errQuorumFound)
		ev := c.await(Connected)
		assert.Equal(t, "two:2181", ev.Server)
		assert.False(t, ev.ReadOnly)
	})
}

// The reply of a server that does not have the session extends nothing.
func TestASessionWithoutTimeHasExpired(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		if n == 1 {
			p.welcome(10 * time.Second)
			_, _ = p.next()
			return
		}
		p.welcome(0)
		p.obey()
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial)
		c.start(jute.OpGetData, read("/"))
		c.await(Disconnected)
		assert.ErrorIs(t, c.await(Lost).Err, ErrExpired)
	})
}

// A new session whose grant is refused is closed, since no client will use it; but never the client's own.
func TestAGrantThatIsRefused(t *testing.T) {
	var sent [5][]int32
	onScript(t, func(n int, p *peer) {
		n = min(n, 4)
		p.welcome(map[bool]time.Duration{true: minTimeout - time.Millisecond, false: 10 * time.Second}[n%2 == 1])
		for {
			h, _ := p.next()
			sent[n] = append(sent[n], h.Op)
			p.reply(h, 1, 0)
			if h.Op == jute.OpSync && n == 2 {
				return
			}
		}
	}, func(t *testing.T, f *fake) {
		c := open(t, f.Dial)
		assert.ErrorIs(t, c.await(Failed).Err, errRefused)
		c.await(Connected)
		answered(t, c.sync(), jute.CodeOK)
		assert.ErrorIs(t, c.await(Failed).Err, errRefused)
		c.await(Connected)
		assert.Equal(t, []int32{jute.OpCloseSession}, sent[1])
		assert.Empty(t, sent[3])
	})
}

// The shortest session timeout that a server can grant is minTimeout.
func TestTheShortestTimeout(t *testing.T) {
	for _, granted := range []time.Duration{minTimeout, minTimeout - time.Millisecond} {
		onScript(t, func(_ int, p *peer) {
			p.welcome(granted)
			p.obey()
		}, func(t *testing.T, f *fake) {
			c := open(t, f.Dial)
			if granted == minTimeout {
				assert.Equal(t, granted, c.await(Connected).Timeout)
			} else {
				assert.ErrorIs(t, c.await(Failed).Err, errRefused)
			}
		})
	}
}

func TestAReadOnlyMemberThatWasNotAskedFor(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		assert.False(t, p.admit(10*time.Second, n == 1).ReadOnly)
		if n > 1 {
			p.obey()
		}
	}, func(t *testing.T, f *fake) {
		c := open(t, f.Dial)
		assert.False(t, c.await(Connected).ReadOnly)
		assert.Len(t, f.dials(), 2)
	})
}

func TestOurRepliesExtendTheValidityFromTheirSending(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		srv.Delay(0, 200*time.Millisecond)
		time.Sleep(12_345 * time.Millisecond)
		sent := time.Now()
		r := c.do(jute.OpGetData, read("/"))
		assert.Equal(t, sent, r.Sent)
		assert.Equal(t, 200*time.Millisecond, time.Since(sent))
		assert.Equal(t, sent.Add(10*time.Second), c.deadline())
	})
}

// After a pause of the process the client reads the replies that have arrived before any timer fires.
func TestAnswersThatComeTooLateEndTheSession(t *testing.T) {
	for name, answer := range map[string]func(s *Session, l *connection, c *Call) bool{
		"ping": func(s *Session, l *connection, _ *Call) bool { return s.handlePong(l, jute.ReplyHeader{}) == nil },
		"call": func(s *Session, l *connection, c *Call) bool {
			return s.handleReply(l, incomingFrame{head: jute.ReplyHeader{Xid: c.xid}}) == nil
		},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			s, l := looseLink(t)
			s.validity = newValidity(always(Servers{Standalone: true}), 10*time.Second)
			s.validity.recordConnected(readClock(), 10*time.Second, false)
			l.window = newRequestWindow(10, time.Second)
			l.pulse.pingsInFlight = []clockReading{readClock()}
			c, r := call(jute.OpGetData, read("/"))
			s.Submit(c)
			time.Sleep(10 * time.Second)
			require.False(t, answer(s, l, c))
			assert.True(t, s.validity.Lost())
			assert.Zero(t, s.validity.Remaining())
			if name == "call" {
				reply := <-r
				assert.ErrorIs(t, reply.Err, ErrConnectionLost)
				assert.ErrorIs(t, reply.Err, ErrSessionLost)
			}
		}))
	}
}

func TestNothingRevivesALostSession(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/e", jute.ModeEphemeral)
		time.Sleep(time.Second)
		srv.BlackHole(0, zktest.Both)
		c.await(Lost)
		srv.Heal()
		time.Sleep(time.Minute)
		assert.Empty(t, c.seen())
		assert.False(t, c.Validity().Valid())
		assert.False(t, c.Connected())
		c.Wait()
	})
}

func TestAMemberWithASmallerLimitShortensTheTimeEvenUnheard(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		switch n {
		case 1:
			p.welcome(20 * time.Second)
			p.next() // cut
		case 2:
			p.welcome(4 * time.Second)
			p.next() // cut
		case 3:
			p.welcome(20 * time.Second)
			h, _ := p.next()
			p.reply(h, 1, 0)
			p.next() // cut
		default:
			p.swallow()
		}
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial, func(cfg *Config) { cfg.Timeout = 20 * time.Second })
		for range 2 {
			c.start(jute.OpSync)
			c.await(Connected)
		}
		c.do(jute.OpDelete, &jute.PathVersionRequest{Path: "/a"})
		assert.Equal(t, 4*time.Second, c.Timeout(), "it may yet report a touch")
		c.start(jute.OpSync)
		c.await(Disconnected)
		synctest.Wait() // a connect request is in flight now
		c.lapses(time.Now().Add(4 * time.Second))
	})
}

func TestTheRuleFollowsTheTimeoutAndTheServer(t *testing.T) {
	onServer(t, zktest.Config{TickTime: time.Second}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) {
			cfg.Timeout = time.Minute
			cfg.Assume = func(timeout time.Duration, alone bool) Servers {
				return Servers{Standalone: alone, Report: time.Second, Stale: timeout / 4}
			}
		})
		assert.Equal(t, 20*time.Second, c.Timeout(), "the server grants at most 20 ticks")
		time.Sleep(time.Second)
		require.NoError(t, c.sync().Err)
		assert.Equal(t, 19*time.Second, c.Validity().Remaining(), "a member, until it has said otherwise")
		assert.True(t, c.Validity().RecordVerdict(Later))
		assert.Equal(t, 19*time.Second, c.Validity().Remaining())
		assert.False(t, c.Validity().RecordVerdict(Standalone))
		assert.Equal(t, 20*time.Second, c.Validity().Remaining())
	})
}

// ---- servers that do not serve ----

func TestServersAreNotHammered(t *testing.T) {
	for name, serve := range map[string]func(p *peer){
		"closes at once":             func(*peer) {},
		"closes after the handshake": func(p *peer) { p.welcome(10 * time.Second) },
		"gives no session":           func(p *peer) { p.hello(); p.send(&jute.ConnectResponse{Timeout: 10_000}) },
		"gives no time":              func(p *peer) { p.admit(time.Millisecond, false) },
		"speaks nonsense":            func(p *peer) { p.hello(); p.raw([]byte("HTTP/1.1 400 Bad\r\n\r\n")) },
		"claims a huge response":     func(p *peer) { p.hello(); p.raw([]byte{0x7f, 0, 0, 0, 1, 2, 3}) },
		"short response":             func(p *peer) { p.hello(); p.raw([]byte{0, 0, 0, 2, 1, 2}) },
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			f := scripted(t, func(_ int, p *peer) { serve(p) })
			c := open(t, f.Dial, func(cfg *Config) { cfg.Servers = []string{"a:1", "b:1", "c:1"} })
			time.Sleep(time.Minute)
			dials := f.dials()
			most := 90
			if name == "closes at once" { // as servers do before they serve: each is tried once a second
				most = 220
			}
			assert.Less(t, len(dials), most)
			assert.Greater(t, len(dials), 10)
			assert.NotContains(t, c.seen(), Lost)
		}))
	}
}

func TestAForeignSessionIsRefused(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		if n == 1 {
			p.welcome(10 * time.Second)
			p.next()
			return
		}
		p.hello()
		p.send(&jute.ConnectResponse{Timeout: 10_000, SessionID: fakeSession + 1, Password: make([]byte, 16)})
		p.swallow()
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial)
		at := c.deadline()
		r := c.do(jute.OpSync)
		require.ErrorIs(t, r.Err, ErrConnectionLost)
		q := c.start(jute.OpSync)
		c.lapses(at)
		assert.ErrorIs(t, (<-q).Err, ErrNotSent)
	})
}

func TestWithoutAnyServerTheSessionWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := open(t, refusing)
		time.Sleep(24 * time.Hour)
		for _, kind := range c.seen() {
			require.Equal(t, Failed, kind, "nothing else is said")
		}
		assert.Zero(t, c.ID())
		assert.False(t, c.Validity().Valid())
		assert.False(t, c.Validity().Lost())
	})
}

func TestShortTimeoutsWork(t *testing.T) {
	onServer(t, zktest.Config{TickTime: 10 * time.Millisecond}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.Timeout = 20 * time.Millisecond })
		time.Sleep(10 * time.Second)
		assert.Empty(t, c.seen())
		assert.True(t, c.Validity().Valid())
		srv.Pause()
		synctest.Wait()
		c.lapses(c.deadline())
	})
}

func TestEventsSayWhatHappened(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv.Dial, func(cfg *Config) { cfg.Servers = []string{"host:1"} })
		ev := c.await(Connected)
		assert.Equal(t, Event{Kind: Connected, SessionID: c.ID(), Timeout: 10 * time.Second, Server: "host:1"}, ev)
		srv.Cut(0)
		ev = c.await(Disconnected)
		assert.Equal(t, "host:1", ev.Server)
		assert.Equal(t, c.ID(), ev.SessionID)
		ev = c.await(Connected)
		assert.True(t, ev.Reattached)
		links := c.Connections()
		assert.EqualValues(t, 2, links)
		srv.Expire(c.ID())
		c.await(Disconnected)
		ev = c.await(Lost)
		assert.ErrorIs(t, ev.Err, ErrExpired)
		assert.False(t, strings.Contains(ev.Err.Error(), "password"))
	})
}
