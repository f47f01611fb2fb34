package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// libraryCalls holds all calls of the library that send a request, by operation.
var libraryCalls = map[int32]func(c *zk.Conn) error{
	jute.OpCreate: func(c *zk.Conn) error { _, err := c.Create("/n/a", nil, 0, zkWorld); return err },
	jute.OpCreateContainer: func(c *zk.Conn) error {
		_, err := c.CreateContainer("/n/c", nil, zk.FlagContainer, zkWorld)
		return err
	},
	jute.OpCreateTTL: func(c *zk.Conn) error {
		_, err := c.CreateTTL("/n/t", nil, zk.FlagTTL, zkWorld, time.Hour)
		return err
	},
	jute.OpDelete:       func(c *zk.Conn) error { return c.Delete("/n/gone", -1) },
	jute.OpExists:       func(c *zk.Conn) error { _, _, _, err := c.ExistsW("/n"); return err },
	jute.OpGetData:      func(c *zk.Conn) error { _, _, _, err := c.GetW("/n"); return err },
	jute.OpSetData:      func(c *zk.Conn) error { _, err := c.Set("/n", []byte("x"), -1); return err },
	jute.OpGetACL:       func(c *zk.Conn) error { _, _, err := c.GetACL("/n"); return err },
	jute.OpSetACL:       func(c *zk.Conn) error { _, err := c.SetACL("/n", zkWorld, -1); return err },
	jute.OpGetChildren2: func(c *zk.Conn) error { _, _, _, err := c.ChildrenW("/n"); return err },
	jute.OpSync:         func(c *zk.Conn) error { _, err := c.Sync("/n"); return err },
	jute.OpAuth:         func(c *zk.Conn) error { return c.AddAuth("digest", []byte("a:b")) },
	jute.OpMulti: func(c *zk.Conn) error {
		_, err := c.Multi(&zk.CreateRequest{Path: "/n/m", Acl: zkWorld},
			&zk.SetDataRequest{Path: "/n/m", Version: -1},
			&zk.CheckVersionRequest{Path: "/n/m", Version: -1}, &zk.DeleteRequest{Path: "/n/m", Version: -1})
		return err
	},
	jute.OpReconfig: func(c *zk.Conn) error {
		_, err := c.Reconfig([]string{"server.1=a:1:2;3"}, -1)
		return err
	},
}

// All requests of the library get a reply.
func TestTheLibraryGetsRightAnswers(t *testing.T) {
	onServer(t, zktest.Config{ExtendedTypes: true}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial)
		lib := c.Conn()
		c.create("/n", jute.ModePersistent)
		c.create("/n/gone", jute.ModePersistent)
		for op, call := range libraryCalls {
			if err := call(lib); op == jute.OpReconfig {
				assert.ErrorIs(t, err, zk.ErrReconfigDisabled)
			} else {
				require.NoError(t, err, OpName(op))
			}
		}
		_, err := lib.Multi(&zk.DeleteRequest{Path: "/n/none", Version: -1},
			&zk.DeleteRequest{Path: "/n/a", Version: -1})
		require.ErrorIs(t, err, zk.ErrNoNode)
		assert.NotContains(t, c.seen(), Disconnected)
	})
}

// answering returns a script that replies to every request on the first connection with this body; on later ones it has no
// nodes.
func answering(body []byte) func(n int, p *peer) {
	return func(n int, p *peer) {
		p.welcome(10 * time.Second)
		for {
			h, _ := p.next()
			if n > 1 {
				p.reply(h, 1, jute.CodeNoNode)
				continue
			}
			p.reply(h, 1, 0, rawRecord(body))
		}
	}
}

// The library allocates as many elements as a count announces, and may not survive that. So it gets no reply that has not
// been checked: the connection ends instead.
func TestTheLibrarySurvivesAnyAnswer(t *testing.T) {
	count := func(n uint32, behind int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, n), make([]byte, behind)...)
	}
	many := bytes.Repeat(jute.Marshal(&jute.MultiHeader{Type: jute.OpDelete}), 100)
	asked := []int32{jute.OpCreate, jute.OpSetData, jute.OpCheck, jute.OpDelete}
	bodies := [][]byte{nil, {0, 0, 0, 1}, count(0x7fffffff, 8), count(0xffffffff, 80), count(1<<31, 80), many}
	for op, call := range libraryCalls {
		for _, body := range bodies {
			if jute.CheckReply(op, asked, body) == nil {
				continue
			}
			bubble(t, func(t *testing.T) {
				f := scripted(t, answering(body))
				c := connected(t, f.Dial)
				require.Error(t, call(c.Conn()), "%s: %x", OpName(op), body)
				assert.ErrorIs(t, c.await(Disconnected).Err, ErrProtocol)
				c.await(Connected)
			})
		}
	}
}

// broken makes a server send frames on the first connection, while a watch is armed and a read and a create are in flight,
// and returns the reason why the connection ended; nil if it did not.
func broken(t *testing.T, say func(p *peer, read, create jute.RequestHeader), options ...option) (why error) {
	t.Helper()
	onScript(t, func(n int, p *peer) {
		p.welcome(10 * time.Second)
		if n == 1 {
			h, _ := p.next()
			p.reply(h, 1, 0, &jute.GetDataResponse{})
			r, _ := p.next()
			w, _ := p.next()
			say(p, r, w)
		}
		p.obey()
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial, options...)
		c.watch(Recursive, "/a")
		c.start(jute.OpGetData, read("/a"))
		c.start(jute.OpCreate, creation("/a/b", 0))
		time.Sleep(time.Second)
		for len(c.events) > 0 {
			if ev := <-c.events; ev.Kind == Disconnected {
				why = ev.Err
			}
		}
	})
	return why
}

func TestWhatNoServerSaysEndsTheConnection(t *testing.T) {
	event := func(path string) func(*peer, jute.RequestHeader, jute.RequestHeader) {
		return func(p *peer, _, _ jute.RequestHeader) {
			p.send(&jute.ReplyHeader{Xid: jute.XidNotification},
				&jute.WatcherEvent{Type: jute.EventNodeCreated, State: 3, Path: path})
		}
	}
	for name, say := range map[string]func(p *peer, read, create jute.RequestHeader){
		"an empty path":        event(""),
		"a relative path":      event("a/b"),
		"an empty name":        event("/a//b"),
		"a slash at the end":   event("/a/"),
		"a null character":     event("/a/\x00"),
		"a path too long":      event("/a/" + strings.Repeat("b", maxEventPath)),
		"a path much too long": event("/a" + strings.Repeat("/b", 2*maxEventPath)),
		"half an event": func(p *peer, _, _ jute.RequestHeader) {
			p.send(&jute.ReplyHeader{Xid: jute.XidNotification})
		},
		"a reply to nothing":        func(p *peer, _, _ jute.RequestHeader) { p.send(&jute.ReplyHeader{Xid: -5000}) },
		"a reply to nobody's first": func(p *peer, _, _ jute.RequestHeader) { p.send(&jute.ReplyHeader{Xid: 0}) },
		"a reply to nobody":         func(p *peer, _, _ jute.RequestHeader) { p.send(&jute.ReplyHeader{Xid: 5000}) },
		"a long pong": func(p *peer, _, _ jute.RequestHeader) {
			p.send(&jute.ReplyHeader{Xid: jute.XidPing}, rawRecord(make([]byte, 5000)))
		},
		"half a header":        func(p *peer, _, _ jute.RequestHeader) { p.raw([]byte{0, 0, 0, 15, 1, 2, 3}) },
		"a frame of no length": func(p *peer, _, _ jute.RequestHeader) { p.raw([]byte{0, 0, 0, 0}) },
		"a create's long answer": func(p *peer, r, w jute.RequestHeader) {
			p.reply(r, 1, 0)
			p.reply(w, 1, 0, rawRecord(make([]byte, 2<<20)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorIs(t, broken(t, say), ErrProtocol)
		})
	}
	// older servers allow some of these paths
	for _, path := range []string{"/", "/a", "/a/\u007f", "/a/\ufffd", "/a/" + strings.Repeat("b", maxEventPath-3)} {
		assert.NoError(t, broken(t, event(path)))
	}
}

// Xids that ZooKeeper reserves, or that the client uses only in handshakes, have no effect later.
func TestReservedXidsMeanNothing(t *testing.T) {
	for _, xid := range []int32{jute.XidSetWatches, jute.XidAuth, handshakeXid, loginXid} {
		assert.NoError(t, broken(t, func(p *peer, _, _ jute.RequestHeader) { p.send(&jute.ReplyHeader{Xid: xid}) }), xid)
	}
}

// A reply above the limit, to an operation that may have large replies, is skipped.
func TestALargeAnswerIsReadPast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var removed atomic.Int64
		f := scripted(t, func(_ int, p *peer) {
			p.welcome(10 * time.Second)
			for {
				switch h, _ := p.next(); h.Op {
				case jute.OpGetData:
					p.reply(h, 7, 0, rawRecord(make([]byte, 2<<20)))
				case jute.OpRemoveWatches:
					removed.Add(1)
					p.reply(h, 7, 0)
				default:
					p.reply(h, 7, 0)
				}
			}
		})
		c := connected(t, f.Dial, func(cfg *Config) { cfg.MaxFrame, cfg.MaxReply = 1<<20, 1<<20 })
		_, r := c.arm(Data, "/a")
		reply := <-r
		require.ErrorIs(t, reply.Err, ErrReplyTooLarge)
		assert.Nil(t, reply.Body)
		assert.EqualValues(t, 7, reply.Zxid, "it was an answer")
		require.NoError(t, c.do(jute.OpDelete).Err)
		assert.EqualValues(t, 1, removed.Load(), "the watch that it has armed: nobody knows of it")
		_, _, err := c.Conn().Get("/a")
		require.Error(t, err)
		assert.NotErrorIs(t, err, zk.ErrConnectionClosed)
		require.NoError(t, c.Conn().Delete("/a", -1))
		assert.NotContains(t, c.seen(), Disconnected)
	})
}

// The refusal of a client without a login ends the connection: one event, one end, however often the server sends it.
func TestARefusalForWantOfALoginIsHeardOnce(t *testing.T) {
	onScript(t, func(n int, p *peer) {
		p.welcome(10 * time.Second)
		if n > 1 {
			p.obey()
			return
		}
		h, _ := p.next()
		all := say(h.Xid, 1, jute.CodeSessionClosedRequireSASL)
		for range 10_000 {
			all = append(all, say(jute.XidPing, 1, jute.CodeSessionClosedRequireSASL)...)
		}
		p.raw(all)
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial)
		r := c.sync()
		require.NoError(t, r.Err, "it is an answer, too")
		assert.Equal(t, jute.CodeSessionClosedRequireSASL, r.Code)
		time.Sleep(5 * time.Second)
		var kinds []EventKind
		for len(c.events) > 0 {
			ev := <-c.events
			if kinds = append(kinds, ev.Kind); ev.Kind == Disconnected {
				assert.ErrorIs(t, ev.Err, ErrAuthFailed)
			}
		}
		assert.Equal(t, []EventKind{AuthFailed, Disconnected, Connected}, kinds)
	})
}

// lines counts log lines, at any level.
type lines struct{ n atomic.Int64 }

func (l *lines) Enabled(context.Context, slog.Level) bool  { return true }
func (l *lines) Handle(context.Context, slog.Record) error { l.n.Add(1); return nil }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l *lines) WithGroup(string) slog.Handler             { return l }

// A server cannot cause a log line, an event or an allocation for each frame that it sends again and again.
func TestFramesWithoutEndMakeNoNoise(t *testing.T) {
	const many = 20_000
	event := jute.Marshal(&jute.WatcherEvent{Type: jute.EventNodeDataChanged, State: 3, Path: "/a"})
	none := jute.Marshal(&jute.WatcherEvent{Type: jute.EventNone, State: jute.StateExpired, Path: "/a"})
	for name, frame := range map[string][]byte{
		"answers to nothing":         say(-4000, 1, 0),
		"answers to the library":     say(4000, 1, 0),
		"refusals to the library":    say(4000, 1, jute.CodeNoNode),
		"answers to what it asked":   say(1, 1, 0),
		"reserved xids":              say(jute.XidSetWatches, 1, 0),
		"answers to credentials":     say(jute.XidAuth, 1, jute.CodeAuthFailed),
		"pongs":                      say(jute.XidPing, 1, 0),
		"refusals":                   say(jute.XidPing, 1, jute.CodeSessionClosedRequireSASL),
		"sessions that have moved":   say(jute.XidPing, 1, jute.CodeSessionMoved),
		"sessions that have expired": say(jute.XidPing, 1, jute.CodeSessionExpired),
		"events":                     say(jute.XidNotification, 1, 0, event...),
		"events of no kind":          say(jute.XidNotification, 1, 0, none...),
		"events of what is not there": say(jute.XidNotification, 1, 0,
			jute.Marshal(&jute.WatcherEvent{Type: 3, State: 3, Path: "/b"})...),
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			log := &lines{}
			f := scripted(t, func(n int, p *peer) {
				p.welcome(10 * time.Second)
				if n > 1 {
					p.swallow()
				}
				h, _ := p.next()
				p.reply(h, 1, 0, &jute.GetDataResponse{})
				go p.swallow()
				time.Sleep(time.Millisecond) // the library gets its reply before the session may end
				p.raw(bytes.Repeat(frame, many))
			})
			c := connected(t, f.Dial, func(cfg *Config) { cfg.Logger = slog.New(log) })
			_, _, _, err := c.Conn().GetW("/a")
			require.NoError(t, err)
			time.Sleep(3 * time.Second)
			assert.Less(t, log.n.Load(), int64(20))
			assert.Less(t, len(c.events), 20)
		}))
	}
}

// trickling is a connection that delivers the server's bytes one at a time, as soon as on is set.
type trickling struct {
	net.Conn
	on    *atomic.Bool
	every time.Duration
}

func (c *trickling) Read(b []byte) (int, error) {
	if !c.on.Load() {
		return c.Conn.Read(b)
	}
	time.Sleep(c.every)
	return c.Conn.Read(b[:1])
}

// A server that trickles does not keep the client: before the session lapses there is time for another server, and holds
// stay valid.
func TestATricklingServerIsLeftInTime(t *testing.T) {
	for _, every := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, time.Second,
		3 * time.Second} {
		onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
			var on atomic.Bool
			dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := srv.Dial(ctx, network, srv.Addr())
				if err == nil && addr == "one:2181" {
					conn = &trickling{conn, &on, every}
				}
				return conn, err
			}
			c := connected(t, dial, func(cfg *Config) { cfg.Servers = []string{"one:2181"} })
			c.SetServers([]string{"one:2181", "two:2181"}, nil)
			require.True(t, c.Validity().BeginHold())
			require.NoError(t, srv.Create("/large", make([]byte, 2*slowFrame)))
			answered(t, c.do(jute.OpGetData, read("/large")), jute.CodeOK) // its good pace does not count later
			on.Store(true)
			start := time.Now()
			if every >= 300*time.Millisecond { // else pongs are complete in time
				why := c.await(Disconnected).Err
				ping, most := c.validity.assumedServers().Pace(10 * time.Second)
				assert.LessOrEqual(t, time.Since(start), most+2*ping+every, "%v: no later than a silent one: %v", every,
					why)
			}
			for range 60 {
				time.Sleep(time.Second)
				require.True(t, c.Validity().Valid(), "%v: %v", every, c.Err())
			}
			if every >= 300*time.Millisecond {
				assert.Equal(t, "two:2181", c.Server())
			}
		})
	}
}

// The same holds for a handshake and a login.
func TestATricklingHandshakeEndsInTime(t *testing.T) {
	for name, login := range map[string]bool{"handshake": false, "login": true} {
		t.Run(name, bubbled(func(t *testing.T) {
			f := scripted(t, func(_ int, p *peer) {
				if p.addr == "two:2181" {
					p.welcome(10 * time.Second)
					if login {
						h, _ := p.next()
						p.reply(h, 1, 0, saslToken(nil))
					}
					p.obey()
					return
				}
				all := jute.Frame(&jute.ConnectResponse{Timeout: 10_000, SessionID: fakeSession,
					Password: make([]byte, 4000)})
				p.hello()
				if login {
					p.send(&jute.ConnectResponse{Timeout: 10_000, SessionID: fakeSession, Password: make([]byte, 16)})
					p.next()
					all = say(loginXid, 1, 0, make([]byte, 4000)...)
				}
				go p.swallow()
				for _, b := range all {
					p.raw([]byte{b})
					time.Sleep(500 * time.Millisecond)
				}
			})
			start := time.Now()
			c := open(t, f.Dial, func(cfg *Config) {
				cfg.Servers = []string{"one:2181", "two:2181"}
				if login {
					cfg.Login = steps("hello")
				}
			})
			c.await(Connected)
			assert.Less(t, time.Since(start), 10*time.Second)
			assert.Equal(t, "two:2181", c.Server())
		}))
	}
}

// A member that has lost its leader continues to reply to pings for a while, a hostile one without end. A hold by committed
// writes outlives that, if there is another server.
func TestAServerThatAnswersNoWritesIsLeftInTime(t *testing.T) {
	for name, answers := range map[string]func(op int32) bool{
		"pings only":     func(op int32) bool { return op == jute.OpPing },
		"all but writes": func(op int32) bool { return op != jute.OpMulti },
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			var cut atomic.Bool
			f := scripted(t, func(_ int, p *peer) {
				p.welcome(10 * time.Second)
				for {
					if h, _ := p.request(); !cut.Load() || p.addr != "one:2181" || answers(h.Op) {
						p.reply(h, 1, 0)
					}
				}
			})
			rule := Servers{Report: 1500 * time.Millisecond, Margin: 250 * time.Millisecond}
			const every = 10 * time.Second / WritesPerTimeout
			beat := func(s *Session) {
				s.Submit(&Call{Op: jute.OpMulti, Urgent: true, Patience: every,
					Body: jute.Marshal(&jute.MultiRequest{})})
			}
			var s atomic.Pointer[Session]
			c := connected(t, f.Dial, func(cfg *Config) {
				tell := cfg.OnEvent
				cfg.Assume, cfg.OnEvent = always(rule), func(ev Event) {
					if tell(ev); ev.Kind == Connected && s.Load() != nil {
						beat(s.Load())
					}
				}
			})
			s.Store(c.Session)
			c.SetServers([]string{"one:2181", "two:2181"}, nil)
			beats := func(n int) {
				for range n {
					beat(c.Session)
					time.Sleep(every)
					require.True(t, c.Validity().Valid() || !cut.Load())
				}
			}
			beats(5)
			require.True(t, c.Validity().BeginHold())
			cut.Store(true)
			beats(20)
			assert.Equal(t, "two:2181", c.Server())
			assert.ErrorIs(t, c.await(Disconnected).Err, errStuck)
			assert.Equal(t, []EventKind{Connected}, c.seen())
		}))
	}
}

// A server that grants a month and falls silent, or does not reply to one request, keeps the client no longer than a server
// that grants the requested timeout.
func TestAGrantBeyondMeasureKeepsNobody(t *testing.T) {
	for name, serve := range map[string]func(p *peer){
		"silent":  func(p *peer) { p.swallow() },
		"forgets": func(p *peer) { p.next(); p.next() },
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			f := scripted(t, func(n int, p *peer) {
				if n == 1 {
					p.welcome(math.MaxInt32 * time.Millisecond)
					serve(p)
				}
				p.welcome(10 * time.Second)
				p.obey()
			})
			c := connected(t, f.Dial)
			start := time.Now()
			require.ErrorIs(t, c.sync().Err, ErrConnectionLost)
			assert.LessOrEqual(t, time.Since(start), 12*time.Second)
			assert.Contains(t, []string{"silent", "stuck"}, Reason(c.await(Disconnected).Err))
		}))
	}
}

// A caller of the library's Multi reads as many results as it has sent operations, and the Stat of each write: the reply
// has both, or the call fails.
func TestTheLibrarysMultiHasItsResults(t *testing.T) {
	for name, results := range map[string][]jute.MultiResult{
		"none":           nil,
		"too few":        {{Op: jute.OpCreate, Path: "/a"}},
		"another's":      {{Op: jute.OpDelete}, {Op: jute.OpDelete}},
		"no real errors": {{Op: jute.OpError}, {Op: jute.OpError}},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			f := scripted(t, func(_ int, p *peer) {
				p.welcome(10 * time.Second)
				for {
					h, _ := p.next()
					p.reply(h, 1, 0, &jute.MultiResponse{Results: results})
				}
			})
			c := connected(t, f.Dial)
			_, err := c.Conn().Multi(&zk.CreateRequest{Path: "/a", Acl: zkWorld},
				&zk.SetDataRequest{Path: "/a", Version: -1})
			require.Error(t, err)
			assert.ErrorIs(t, c.await(Disconnected).Err, ErrProtocol)
		}))
	}
}

// FuzzLibrary: no reply to any request of the library does harm.
func FuzzLibrary(f *testing.F) {
	var ops []int32
	for op := range libraryCalls {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	f.Add(jute.OpGetChildren2, []byte{0x7f, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(jute.OpGetACL, []byte{255, 255, 255, 255})
	f.Add(jute.OpMulti, []byte{0, 0, 0, 1})
	f.Add(jute.OpGetData, jute.Marshal(&jute.GetDataResponse{Data: []byte("x")}))
	f.Add(jute.OpGetChildren2, jute.Marshal(&jute.Children2Response{Children: []string{"a", "b"}}))
	f.Add(jute.OpGetACL, jute.Marshal(&jute.GetACLResponse{ACL: anybody}))
	f.Add(jute.OpMulti, jute.Marshal(&jute.MultiResponse{Results: []jute.MultiResult{
		{Op: jute.OpCreate, Path: "/a"}, {Op: jute.OpSetData}, {Op: jute.OpError, Err: -101}}}))
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		call := libraryCalls[op]
		if call == nil {
			call = libraryCalls[ops[int(uint32(op))%len(ops)]]
		}
		bubble(t, func(t *testing.T) {
			f := scripted(t, answering(body))
			c := connected(t, f.Dial)
			_ = call(c.Conn())
			c.Abort(ErrClosed)
			c.Wait()
		})
	})
}
