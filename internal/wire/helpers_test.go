package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/guest"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// ---- a session under test ----

// client is a session that records its events.
type client struct {
	*Session
	Conn   func() *zk.Conn // of the session's guest, which is made at the first call
	t      *testing.T
	events chan Event
}

type (
	option = func(*Config)
	dialer = func(ctx context.Context, network, addr string) (net.Conn, error)
)

// open starts a session on dial, which is aborted when the test ends.
func open(t *testing.T, dial dialer, options ...option) *client {
	t.Helper()
	c := &client{t: t, events: make(chan Event, 1000)}
	cfg := Config{Servers: []string{"one:2181"}, Dial: dial, Timeout: 10 * time.Second}
	cfg.OnEvent, cfg.Assume = func(ev Event) { c.events <- ev }, always(Servers{Standalone: true})
	for _, o := range options {
		o(&cfg)
	}
	s, err := Open(cfg)
	require.NoError(t, err)
	c.Session = s
	c.Conn = sync.OnceValue(func() *zk.Conn {
		g := guest.New(s, guest.Config{Server: s.cfg.Servers[0], Timeout: s.cfg.Timeout, MaxFrame: s.cfg.MaxFrame,
			Logger: s.cfg.Logger})
		return g.Connect(s.Invite(g))
	})
	t.Cleanup(func() {
		s.Abort(ErrClosed)
		s.Wait()
	})
	return c
}

// connected opens a session, and waits until it is connected.
func connected(t *testing.T, dial dialer, options ...option) *client {
	t.Helper()
	c := open(t, dial, options...)
	c.await(Connected)
	return c
}

// abandoned returns a session that has ended for the client, with an ephemeral node /e, while the server keeps it alive.
func abandoned(t *testing.T, srv *zktest.Server, options ...option) *client {
	t.Helper()
	c := connected(t, srv.Dial, options...)
	c.create("/e", jute.ModeEphemeral)
	c.Abort(errors.New("given up"))
	c.Wait()
	return c
}

// fenced makes c the session before the one that is opened; a request of c may be in flight for so long.
func (c *client) fenced(until time.Duration) option {
	id, password := c.Identity()
	fence := Fence{SessionID: id, Password: password, Until: time.Now().Add(until)}
	return func(cfg *Config) { cfg.Fences = []Fence{fence} }
}

// reconnect cuts the connection and waits for the next one.
func (c *client) reconnect(srv *zktest.Server) {
	c.t.Helper()
	srv.Cut(0)
	c.await(Disconnected)
	c.await(Connected)
}

// lose stops the server and waits until the connection is lost; regain starts it again.
func (c *client) lose(srv *zktest.Server) {
	c.t.Helper()
	srv.Stop()
	c.await(Disconnected)
}

func (c *client) regain(srv *zktest.Server) {
	c.t.Helper()
	require.NoError(c.t, srv.Start())
	c.await(Connected)
}

// await skips events until the next of this kind.
func (c *client) await(kind EventKind) Event {
	c.t.Helper()
	timeout := time.After(time.Hour)
	for {
		select {
		case ev := <-c.events:
			if ev.Kind == kind {
				return ev
			}
			if ev.Kind == Lost {
				c.t.Fatalf("session lost instead of event %d: %v", kind, ev.Err)
			}
		case <-timeout:
			c.t.Fatalf("no event %d within an hour", kind)
		}
	}
}

// seen returns the kinds of the events that no test has awaited.
func (c *client) seen() (kinds []EventKind) {
	for {
		select {
		case ev := <-c.events:
			kinds = append(kinds, ev.Kind)
		default:
			return kinds
		}
	}
}

// call returns a call whose reply goes to the returned channel.
func call(op int32, records ...jute.Record) (*Call, chan Reply) {
	r := make(chan Reply, 2)
	return &Call{Op: op, Body: jute.Marshal(records...), Done: func(x Reply) { r <- x }}, r
}

func (c *client) start(op int32, records ...jute.Record) chan Reply {
	x, r := call(op, records...)
	c.Submit(x)
	return r
}

func (c *client) do(op int32, records ...jute.Record) Reply {
	return <-c.start(op, records...)
}

// sync returns when all that the server has sent before is received.
func (c *client) sync() Reply { return c.do(jute.OpSync, &jute.PathRequest{Path: "/"}) }

// answered requires a reply with this code.
func answered(t *testing.T, r Reply, code int32) {
	t.Helper()
	require.NoError(t, r.Err)
	require.Equal(t, code, r.Code)
}

var anybody = []jute.ACL{{Perms: jute.PermAll, Scheme: "world", ID: "anyone"}}

func creation(path string, mode int32) *jute.CreateRequest {
	return &jute.CreateRequest{Path: path, Data: []byte(path), ACL: anybody, Flags: mode}
}

func read(path string) *jute.PathWatchRequest { return &jute.PathWatchRequest{Path: path} }

// create creates a node, and requires success.
func (c *client) create(path string, mode int32) {
	c.t.Helper()
	r := c.do(jute.OpCreate, creation(path, mode))
	answered(c.t, r, jute.CodeOK)
}

// heard is a watch with its events.
type heard struct {
	Watch
	events chan WatchEvent
}

func listen(kind WatchKind, path string) *heard {
	h := &heard{events: make(chan WatchEvent, 250)}
	h.Watch = Watch{Kind: kind, Path: path, Fn: func(ev WatchEvent) { h.events <- ev }}
	return h
}

// types returns the types of the events so far.
func (h *heard) types() (types []int32) {
	for {
		select {
		case ev := <-h.events:
			types = append(types, ev.Type)
		default:
			return types
		}
	}
}

// arming returns the call that arms a watch: a read for one-shots, addWatch for the others.
func arming(h *heard) (*Call, chan Reply) {
	op, rec := jute.OpGetData, jute.Record(read(h.Path))
	switch h.Kind {
	case Child:
		op = jute.OpGetChildren2
	case Persistent:
		op, rec = jute.OpAddWatch, &jute.PathIntRequest{Path: h.Path, Value: jute.WatchPersistent}
	case Recursive:
		op, rec = jute.OpAddWatch, &jute.PathIntRequest{Path: h.Path, Value: jute.WatchPersistentRecursive}
	}
	x, r := call(op, rec)
	x.Watch = &h.Watch
	return x, r
}

// arm submits the call that arms a watch.
func (c *client) arm(kind WatchKind, path string) (*heard, chan Reply) {
	h := listen(kind, path)
	x, r := arming(h)
	c.Submit(x)
	return h, r
}

// watch arms a watch, and requires success.
func (c *client) watch(kind WatchKind, path string) *heard {
	c.t.Helper()
	h, r := c.arm(kind, path)
	reply := <-r
	answered(c.t, reply, jute.CodeOK)
	return h
}

// looseLink returns a connection that leads nowhere, of a session that does not run.
func looseLink(t *testing.T) (*Session, *connection) {
	end, other := net.Pipe()
	t.Cleanup(func() { end.Close(); other.Close() })
	s := &Session{cfg: Config{Limits: Limits{MaxFrame: 100, MaxReply: 1000}, Timeout: time.Second},
		validity: newValidity(always(Servers{Standalone: true}), time.Second),
		identity: sessionIdentity{id: 7}, calls: newPendingCalls(), watches: newWatchRegistry()}
	l := (&connectAttempt{s: s, conn: end}).newConnection(false)
	s.connections.makeLive(l)
	return s, l
}

func requestFrame(xid, op int32, records ...jute.Record) []byte {
	return jute.Frame(append([]jute.Record{&jute.RequestHeader{Xid: xid, Op: op}}, records...)...)
}

// rawRecord holds bytes that are encoded already.
type rawRecord []byte

func (r rawRecord) Fields(c *jute.Coder) { c.Raw(r) }

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// bubbled returns a subtest in virtual time.
func bubbled(f func(t *testing.T)) func(*testing.T) { return func(t *testing.T) { bubble(t, f) } }

// served returns a subtest of onServer.
func served(cfg zktest.Config, f func(t *testing.T, srv *zktest.Server)) func(*testing.T) {
	return func(t *testing.T) { onServer(t, cfg, f) }
}

// onServer runs f in virtual time with an in-process ZooKeeper.
func onServer(t *testing.T, cfg zktest.Config, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	bubble(t, func(t *testing.T) { f(t, zktest.RunT(t, cfg)) })
}

// onClient is onServer with a session.
func onClient(t *testing.T, f func(t *testing.T, srv *zktest.Server, c *client)) {
	t.Helper()
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) { f(t, srv, connected(t, srv.Dial)) })
}

// ---- a server that plays a script ----

// fake serves connections as scripts say.
type fake struct {
	t       *testing.T
	mu      sync.Mutex
	serve   func(n int, c *peer)
	n       int
	wg      sync.WaitGroup
	refuse  bool
	dialled []time.Time
}

// scripted starts a server whose n-th connection, counted from 1, is served by serve in a goroutine of its own, and closed
// after it.
func scripted(t *testing.T, serve func(n int, c *peer)) *fake {
	f := &fake{t: t, serve: serve}
	t.Cleanup(f.wg.Wait)
	return f
}

// onScript runs test in virtual time with a scripted server.
func onScript(t *testing.T, serve func(n int, p *peer), test func(t *testing.T, f *fake)) {
	t.Helper()
	bubble(t, func(t *testing.T) { test(t, scripted(t, serve)) })
}

func (f *fake) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.dialled = append(f.dialled, time.Now())
	if f.refuse {
		return nil, io.ErrUnexpectedEOF
	}
	ours, theirs := net.Pipe()
	n := f.n
	f.wg.Go(func() {
		defer ours.Close()
		f.serve(n, &peer{Conn: ours, br: bufio.NewReader(ours), addr: addr})
	})
	return theirs, nil
}

// restart counts connections from 1 again.
func (f *fake) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n = 0
}

func (f *fake) dials() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time(nil), f.dialled...)
}

// peer is the server's end of a connection. Its methods end the goroutine when the connection has ended.
type peer struct {
	net.Conn
	br   *bufio.Reader
	addr string
}

func (p *peer) frame() []byte {
	b, err := readFrame(p.br, 64<<20)
	if err != nil {
		p.Close()
		runtime.Goexit()
	}
	return b
}

func (p *peer) hello() (r jute.ConnectRequest) {
	if err := jute.Unmarshal(p.frame(), &r); err != nil {
		panic(err)
	}
	return r
}

const fakeSession = int64(0x1234)

// welcome replies to a connect request.
func (p *peer) welcome(timeout time.Duration) jute.ConnectRequest { return p.admit(timeout, false) }

// admit replies as welcome does, as a member without a quorum if readOnly is set.
func (p *peer) admit(timeout time.Duration, readOnly bool) jute.ConnectRequest {
	r := p.hello()
	p.send(&jute.ConnectResponse{Timeout: int32(timeout / time.Millisecond), SessionID: fakeSession,
		Password: make([]byte, 16), HasReadOnly: true, ReadOnly: readOnly})
	return r
}

func (p *peer) request() (h jute.RequestHeader, body []byte) {
	b := p.frame()
	if err := jute.Unmarshal(b, &h); err != nil {
		panic(err)
	}
	return h, b[8:]
}

// next returns the next request other than pings and the question how old the server is; it replies to these.
func (p *peer) next() (h jute.RequestHeader, body []byte) {
	for {
		switch h, body = p.request(); h.Op {
		case jute.OpPing:
			p.reply(h, 0, 0)
		case jute.OpCheckWatches:
			p.reply(h, 1, jute.CodeNoWatcher)
		default:
			return h, body
		}
	}
}

func (p *peer) send(records ...jute.Record) { p.raw(jute.Frame(records...)) }

func (p *peer) raw(b []byte) {
	if _, err := p.Write(b); err != nil {
		p.Close()
		runtime.Goexit()
	}
}

func (p *peer) reply(h jute.RequestHeader, zxid int64, code int32, records ...jute.Record) {
	p.send(append([]jute.Record{&jute.ReplyHeader{Xid: h.Xid, Zxid: zxid, Err: code}}, records...)...)
}

// obey replies to everything with success until the connection ends.
func (p *peer) obey() {
	for {
		h, _ := p.request()
		p.reply(h, 1, 0)
		if h.Op == jute.OpCloseSession {
			return
		}
	}
}

// swallow reads, and replies to nothing.
func (p *peer) swallow() {
	for {
		p.frame()
	}
}

// ---- the frames on the wire ----

// spy records the frames that a client sends, by connection.
type spy struct {
	dial func(context.Context, string, string) (net.Conn, error)
	mu   sync.Mutex
	sent [][]sentFrame
}

type sentFrame struct {
	xid, op int32 // of a connect request: 0, createSession
	body    []byte
}

func spyOn(dial dialer) *spy {
	return &spy{dial: dial}
}

func (s *spy) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := s.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, nil)
	return &spied{Conn: c, s: s, n: len(s.sent) - 1}, nil
}

type spied struct {
	net.Conn
	s   *spy
	n   int
	buf []byte
}

func (c *spied) Write(b []byte) (int, error) {
	c.s.mu.Lock()
	c.buf = append(c.buf, b...)
	for len(c.buf) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(c.buf))
		if len(c.buf) < n {
			break
		}
		f := c.buf[4:n:n]
		c.buf = c.buf[n:]
		if len(c.s.sent[c.n]) == 0 {
			c.s.sent[c.n] = append(c.s.sent[c.n], sentFrame{0, jute.OpCreateSession, f})
			continue
		}
		var h jute.RequestHeader
		_ = jute.Unmarshal(f, &h)
		c.s.sent[c.n] = append(c.s.sent[c.n], sentFrame{h.Xid, h.Op, f[8:]})
	}
	c.s.mu.Unlock()
	return c.Conn.Write(b)
}

// frames returns the frames of the n-th connection, counted from 0, without pings.
func (s *spy) frames(n int) (out []sentFrame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.sent[n] {
		if f.op != jute.OpPing {
			out = append(out, f)
		}
	}
	return out
}

func (s *spy) links() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

func opsOf(frames []sentFrame) (ops []int32) {
	for _, f := range frames {
		ops = append(ops, f.op)
	}
	return ops
}

// connectOf returns the connect request of the n-th connection.
func (s *spy) connectOf(n int) (r jute.ConnectRequest) {
	if err := jute.Unmarshal(s.frames(n)[0].body, &r); err != nil {
		panic(err)
	}
	return r
}

// always makes the same assumptions about every server.
func always(s Servers) assumption { return func(time.Duration, bool) Servers { return s } }
