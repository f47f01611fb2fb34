package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// within closes the session, and checks how long that takes.
func (c *client) within(ctx context.Context, most time.Duration) error {
	c.t.Helper()
	start := time.Now()
	err := c.Close(ctx)
	assert.LessOrEqual(c.t, time.Since(start), most)
	assert.Error(c.t, c.Err())
	select {
	case <-c.ctx.Done():
	default:
		c.t.Error("Done is not closed")
	}
	return err
}

func TestCloseIsAcknowledged(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/e", jute.ModeEphemeral)
		watch := c.watch(Persistent, "/x")
		last := c.start(jute.OpCreate, creation("/last", 0))
		require.NoError(t, c.within(t.Context(), 5*time.Millisecond))
		require.NoError(t, (<-last).Err, "after everything submitted before")
		assert.True(t, srv.Exists("/last"))
		assert.False(t, srv.Exists("/e"))
		assert.Empty(t, srv.Sessions())
		ev := c.await(Lost)
		assert.ErrorIs(t, ev.Err, ErrClosed)
		end := <-watch.events
		assert.Equal(t, EventEnd, end.Type)
		assert.ErrorIs(t, end.Err, ErrClosed)
		r := c.do(jute.OpGetData, read("/"))
		assert.ErrorIs(t, r.Err, ErrClosed)
		assert.ErrorIs(t, r.Err, ErrNotSent)
		require.NoError(t, c.within(t.Context(), 0), "a second time")
	})
}

func TestCloseBehindAFullWindow(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.Window = 2 })
		srv.Delay(0, 10*time.Millisecond)
		var replies []chan Reply
		for range 20 {
			replies = append(replies, c.start(jute.OpCreate, creation("/n-", jute.ModePersistentSequential)))
		}
		require.NoError(t, c.within(t.Context(), time.Second))
		for _, r := range replies {
			require.NoError(t, (<-r).Err)
		}
		names, err := srv.Children("/")
		require.NoError(t, err)
		assert.Len(t, names, 21) // and /zookeeper
	})
}

func TestCloseWithoutAConnection(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.lose(srv)
		waiting := c.start(jute.OpGetData, read("/"))
		require.ErrorIs(t, c.within(t.Context(), time.Second), ErrUnacknowledged)
		assert.ErrorIs(t, (<-waiting).Err, ErrNotSent)
		require.NoError(t, srv.Start())
		time.Sleep(time.Second)
		assert.Equal(t, 1, srv.Counts()["connect"], "nobody comes back")
	})
}

func TestCloseOfAHungServerEndsWithItsContext(t *testing.T) {
	for name, hang := range map[string]func(*zktest.Server){
		"paused":            func(s *zktest.Server) { s.Pause() },
		"requests are lost": func(s *zktest.Server) { s.BlackHole(0, zktest.FromClient) },
		"replies are lost":  func(s *zktest.Server) { s.BlackHole(0, zktest.ToClient) },
	} {
		t.Run(name, func(t *testing.T) {
			onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
				flying := c.start(jute.OpGetData, read("/"))
				<-flying
				hang(srv)
				flying = c.start(jute.OpGetData, read("/"))
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				require.ErrorIs(t, c.within(ctx, 1500*time.Millisecond), ErrUnacknowledged)
				assert.ErrorIs(t, (<-flying).Err, ErrConnectionLost)
			})
			onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
				hang(srv)
				require.ErrorIs(t, c.within(context.Background(), 10*time.Second), ErrUnacknowledged,
					"without a deadline: when the server counts as silent")
			})
			onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
				hang(srv)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				require.ErrorIs(t, c.within(ctx, time.Second), ErrUnacknowledged)
			})
		})
	}
}

func TestCloseWhileConnecting(t *testing.T) {
	for name, tc := range map[string]struct {
		serve  func(p *peer)
		unsure bool
	}{
		"silent handshake":         {func(p *peer) { p.swallow() }, true},
		"half handshake":           {func(p *peer) { p.hello(); p.raw([]byte{0, 0}); p.swallow() }, true},
		"closed without an answer": {func(p *peer) { p.hello() }, true},
		"no session given":         {func(p *peer) { p.hello(); p.send(&jute.ConnectResponse{}) }, false},
		"refused":                  {func(*peer) {}, false},
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 30 * time.Second} {
			t.Run(name+after.String(), bubbled(func(t *testing.T) {
				f := scripted(t, func(_ int, p *peer) { tc.serve(p) })
				c := open(t, f.Dial)
				time.Sleep(after)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := c.within(ctx, time.Second)
				switch {
				case !tc.unsure:
					require.NoError(t, err, "there is no session")
				case after > 0:
					require.ErrorIs(t, err, ErrUnacknowledged, "there may be one")
				}
			}))
		}
	}
	bubble(t, func(t *testing.T) {
		c := open(t, refusing)
		time.Sleep(time.Minute)
		require.NoError(t, c.within(t.Context(), time.Second))
	})
}

// Close is called at every instant of the first handshake: its result is true.
func TestCloseDuringTheFirstHandshake(t *testing.T) {
	const way = 10 * time.Millisecond // the delay each way
	for name, tc := range map[string]struct {
		cfg   zktest.Config
		opt   option
		fault *zktest.Fault
		err   error // after the connect request was sent
	}{
		"all is well":      {},
		"with credentials": {opt: func(cfg *Config) { cfg.Credentials = []Credential{{"digest", []byte("a:b")}} }},
		"with a session to be closed": {opt: func(cfg *Config) {
			cfg.Fences = []Fence{{SessionID: 4711, Password: make([]byte, 16), Until: time.Now().Add(time.Minute)}}
		}},
		"the answer is lost": {fault: &zktest.Fault{Op: "connect", Times: -1, Action: zktest.LoseReply},
			err: ErrUnacknowledged},
	} {
		for at := time.Duration(0); at <= 6*way; at += way / 4 {
			t.Run(name+" "+at.String(), served(tc.cfg, func(t *testing.T, srv *zktest.Server) {
				srv.Delay(0, way)
				if tc.fault != nil {
					srv.Inject(*tc.fault)
				}
				if tc.opt == nil {
					tc.opt = func(*Config) {}
				}
				c := open(t, srv.Dial, tc.opt)
				time.Sleep(at)
				err := c.within(t.Context(), 5*time.Second)
				if err == nil {
					assert.Empty(t, srv.Sessions())
				}
				if len(srv.Sessions()) == 0 && tc.err == nil && name != "with a session to be closed" {
					assert.NoError(t, err)
				} else if at > 0 && tc.err != nil {
					assert.ErrorIs(t, err, tc.err)
				}
			}))
		}
	}
}

func TestCloseWhileReconnecting(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		if n == 1 {
			p.welcome(10 * time.Second)
			p.next()
			return
		}
		p.swallow()
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial)
		c.do(jute.OpSync)
		time.Sleep(time.Second)
		require.ErrorIs(t, c.within(t.Context(), time.Second), ErrUnacknowledged)
	})
}

func TestALostReplyToCloseIsUnacknowledged(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		srv.Inject(zktest.Fault{Op: "closeSession", Action: zktest.LoseReply})
		require.ErrorIs(t, c.within(context.Background(), time.Second), ErrUnacknowledged,
			"that the server knows no such session is no proof")
	})
}

// The connection is lost while Close waits for the window: the session is closed on another one, and the queued requests
// are not sent.
func TestACutWhileCloseWaitsItsTurn(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial, func(cfg *Config) { cfg.Window = 1 })
		hold := srv.Inject(zktest.Fault{Op: "getData", Action: zktest.Hold})
		flying, queued := c.start(jute.OpGetData, read("/")), c.start(jute.OpGetData, read("/"))
		<-hold.Struck()
		go func() {
			time.Sleep(100 * time.Millisecond)
			srv.Cut(0)
		}()
		require.NoError(t, c.within(context.Background(), time.Second))
		assert.ErrorIs(t, (<-flying).Err, ErrConnectionLost)
		assert.ErrorIs(t, (<-queued).Err, ErrNotSent)
		assert.Empty(t, srv.Sessions())
	})
}

// A server closes the connection after its reply to closeSession. A later write breaks it, and the reply may be lost with
// it.
func TestNothingIsWrittenBehindTheCloseOfTheSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		closing, unwatched, behind := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		f := scripted(t, func(_ int, p *peer) {
			p.welcome(10 * time.Second)
			h, _ := p.next()
			p.reply(h, 1, 0, &jute.GetDataResponse{})
			h, _ = p.next()
			close(closing)
			<-unwatched
			_ = p.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) // before the next ping
			_, err := readFrame(p.br, 1<<20)
			behind <- err
			p.reply(h, 2, 0)
		})
		c := open(t, f.Dial)
		c.await(Connected)
		h := c.watch(Data, "/x")
		go func() {
			<-closing
			c.Unwatch(&h.Watch)
			close(unwatched)
		}()
		require.NoError(t, c.within(context.Background(), 2*time.Second))
		assert.ErrorIs(t, <-behind, os.ErrDeadlineExceeded, "a frame")
	})
}

func TestASecondCloseDoesNotCutTheFirstShort(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		hold := srv.Inject(zktest.Fault{Op: "closeSession", Action: zktest.Hold})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { assert.NoError(t, c.Close(t.Context())) })
		}
		<-hold.Struck()
		time.Sleep(time.Second)
		r := c.do(jute.OpGetData, read("/"))
		assert.ErrorIs(t, r.Err, ErrClosed, "nothing is accepted after closeSession")
		assert.ErrorIs(t, r.Err, ErrNotSent)
		hold.Release()
		wg.Wait()
		assert.Empty(t, srv.Sessions())
		assert.ErrorIs(t, c.await(Lost).Err, ErrClosed)
	})
}

// When Wait returns all watches have got the end, even if another goroutine ended the session.
func TestWaitBehindAnAbort(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		for i := range 1000 {
			c := connected(t, srv.Dial)
			w := c.watch(Data, "/")
			var wg sync.WaitGroup
			if i%2 == 0 {
				srv.Cut(0)
			}
			wg.Go(func() { c.Abort(ErrClosed) })
			for range 2 {
				wg.Go(func() {
					<-c.ctx.Done()
					c.Wait()
					assert.Len(t, w.events, 1, "the end")
				})
			}
			wg.Wait()
		}
	})
}

func TestAbortTellsTheServerNothing(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/e", jute.ModeEphemeral)
		flying := c.start(jute.OpGetData, read("/"))
		why := errors.New("why")
		c.Abort(why)
		c.Abort(errors.New("again"))
		c.Wait()
		r := <-flying
		if r.Err != nil { // the reply may have come first
			assert.ErrorIs(t, r.Err, why)
			assert.ErrorIs(t, r.Err, ErrSessionLost)
		}
		assert.ErrorIs(t, c.await(Lost).Err, why)
		assert.True(t, srv.Exists("/e"))
		require.Len(t, srv.Sessions(), 1)
		require.ErrorIs(t, c.Close(t.Context()), ErrUnacknowledged, "it lives")
		time.Sleep(20 * time.Second)
		assert.False(t, srv.Exists("/e"))
	})
}

// The end of a watch is its last event, even if another event is being delivered at that moment.
func TestTheEndOfAWatchIsItsLastEvent(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		require.NoError(t, srv.Create("/x", nil))
		w := listen(Persistent, "/x")
		w.Fn = func(ev WatchEvent) {
			if ev.Type != EventEnd {
				time.Sleep(time.Second) // the reader has not got to it yet
			}
			w.events <- ev
		}
		x, r := arming(w)
		c.Submit(x)
		<-r
		require.NoError(t, srv.Set("/x", nil))
		synctest.Wait()
		c.Abort(ErrClosed)
		c.Wait()
		assert.Equal(t, []int32{jute.EventNodeDataChanged, EventEnd}, w.types())
	})
}

// The library's Close waits for a reply for up to a second: the session's end does not wait for that.
func TestTheEndIsPrompt(t *testing.T) {
	moments := map[string]func(i int, srv *zktest.Server, c *client){
		"in a pause between two passes": func(i int, srv *zktest.Server, c *client) {
			srv.Stop()
			time.Sleep(10*time.Second + time.Duration(i)*19*time.Millisecond)
			c.Abort(ErrClosed)
			_ = srv.Start()
		},
		"when the connection breaks": func(_ int, srv *zktest.Server, c *client) {
			srv.Cut(0)
			c.Abort(ErrClosed)
		},
		"when the connection breaks while it closes": func(_ int, srv *zktest.Server, c *client) {
			srv.Inject(zktest.Fault{Op: "closeSession", Action: zktest.CutBefore})
			assert.NoError(t, c.Close(context.Background()), "it is closed on another connection")
			assert.Empty(t, srv.Sessions())
		},
		"expired, on a connection": func(_ int, srv *zktest.Server, c *client) { srv.Expire(c.ID()) },
		"expired, without a connection": func(_ int, srv *zktest.Server, c *client) {
			srv.Stop()
			srv.Expire(c.ID())
			_ = srv.Start()
		},
	}
	for name, end := range moments {
		t.Run(name, served(zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
			for i := range 200 {
				lost := make(chan time.Time, 1)
				c := connected(t, srv.Dial, func(cfg *Config) {
					cfg.Timeout = 40 * time.Second
					tell := cfg.OnEvent
					cfg.OnEvent = func(ev Event) {
						if ev.Kind == Lost {
							lost <- time.Now()
						}
						tell(ev)
					}
				})
				end(i, srv, c)
				ended := <-lost
				c.Wait()
				require.Equal(t, ended, time.Now())
			}
		}))
	}
}

// A Close in a pause between two connections does not leave the session to expire.
func TestCloseMakesAConnectionToCloseTheSession(t *testing.T) {
	onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
		c.create("/e", jute.ModeEphemeral)
		srv.Cut(0)
		synctest.Wait()
		require.NoError(t, c.Close(t.Context()))
		assert.False(t, srv.Exists("/e"))
		assert.Empty(t, srv.Sessions())
	})
	t.Run("no server", func(t *testing.T) {
		onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
			srv.Stop()
			begun := time.Now()
			require.ErrorIs(t, c.Close(t.Context()), ErrUnacknowledged)
			assert.Zero(t, time.Since(begun))
		})
	})
	t.Run("one of two servers", func(t *testing.T) {
		for range 20 { // in either order
			onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
				c := connected(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == "down:2181" {
						return nil, io.ErrUnexpectedEOF
					}
					return srv.Dial(ctx, network, addr)
				}, func(cfg *Config) { cfg.Servers = []string{"one:2181", "down:2181"} })
				srv.Cut(0)
				synctest.Wait()
				require.NoError(t, c.Close(t.Context()))
				assert.Empty(t, srv.Sessions())
			})
		}
	})
	t.Run("a silent server", func(t *testing.T) {
		onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
			srv.Cut(0)
			synctest.Wait()
			srv.Pause()
			begun := time.Now()
			require.ErrorIs(t, c.Close(t.Context()), ErrUnacknowledged)
			assert.LessOrEqual(t, time.Since(begun), closeSearchTime)
			srv.Resume()
		})
	})
	t.Run("a server that has lost its quorum", func(t *testing.T) {
		onClient(t, func(t *testing.T, srv *zktest.Server, c *client) {
			srv.Cut(0)
			synctest.Wait()
			srv.Inject(zktest.Fault{Op: "connect", Action: zktest.ReplyError, Err: zktest.ErrSessionExpired})
			require.ErrorIs(t, c.Close(t.Context()), ErrUnacknowledged,
				"its word that the session is gone is no proof")
		})
	})
}

// Sessions that are opened and ended at every moment leave nothing: the bubble would not end.
func TestEndAtAnyMoment(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		srv.Delay(0, 3*time.Millisecond)
		for i := range 60 {
			c := open(t, srv.Dial, func(cfg *Config) { cfg.Credentials = []Credential{{"digest", []byte("a:b")}} })
			go c.arm(Data, "/")
			go func() { _, _, _ = c.Conn().Get("/") }()
			time.Sleep(time.Duration(i) * 300 * time.Microsecond)
			switch i % 4 {
			case 0:
				c.Abort(ErrClosed)
			case 1:
				_ = c.Close(t.Context())
			case 2:
				srv.Cut(0)
				_ = c.Close(t.Context())
			default:
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
				_ = c.Close(ctx)
				cancel()
			}
			c.Wait()
		}
		synctest.Wait()
	})
}
