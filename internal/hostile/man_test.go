package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// match is a kind of frame from the server.
type match byte

const (
	anything match = iota
	connecting
	pong
	event
	reply // to a request of the library's, or of go-zookeeper's
	list
	write
	login
	arming
	large
	farewell
	data
	refusal
	syncing
	foreign // go-zookeeper's
	matches
)

var matchNames = [matches]string{
	"anything", "connect responses", "pongs", "events", "replies", "lists", "writes", "logins", "armings",
	"large ones", "farewells", "data", "refusals", "syncs", "go-zookeeper's",
}

// Operations by the kind of their replies.
var (
	lists   = []int32{jute.OpGetChildren, jute.OpGetChildren2, jute.OpMultiRead, jute.OpGetACL}
	writes  = []int32{jute.OpCreate, jute.OpCreate2, jute.OpSetData, jute.OpDelete, jute.OpMulti}
	armings = []int32{jute.OpSetWatches, jute.OpSetWatches2, jute.OpAddWatch, jute.OpRemoveWatches}
)

// said is a frame from the server.
type said struct {
	body  []byte // without its length
	first bool   // of its connection: a connect response
	xid   int32
	code  int32
	op    int32     // of the request; 0 if it is not known
	asked time.Time // when the request was made; zero if the frame is no reply
	line  *line     // the line that the frame came on
}

func (f said) is(on match) bool {
	if f.first {
		return on == connecting || on == anything
	}
	own := f.xid < -1000 || f.xid >= 0
	switch on {
	case anything:
		return true
	case pong:
		return f.xid == jute.XidPing
	case event:
		return f.xid == jute.XidNotification
	case reply:
		return own
	case list:
		return own && slices.Contains(lists, f.op)
	case write:
		return own && slices.Contains(writes, f.op)
	case login:
		return f.xid == jute.XidAuth || f.op == jute.OpSASL
	case arming:
		return own && slices.Contains(armings, f.op)
	case large:
		return len(f.body) > 200
	case farewell:
		return f.op == jute.OpCloseSession
	case data:
		return own && slices.Contains([]int32{jute.OpGetData, jute.OpExists}, f.op)
	case refusal:
		return own && f.code != 0
	case syncing:
		return own && f.op == jute.OpSync
	case foreign:
		return f.xid > 0
	}
	return false
}

// man is the man in the middle. While hostile, it follows its script; while dark, it lets no connection through;
// when honest, it only forwards.
type man struct {
	srv    *zktest.Server
	script script
	wg     sync.WaitGroup
	light  chan struct{} // closed when the man is honest until the end

	mu        sync.Mutex
	next      int // step of the script
	skipped   int
	waited    int
	honest    bool
	dark      bool
	lines     map[*line]bool
	seen      []said
	refuse    int // connections to be refused; negative: neither refused nor served
	used      [tricks]int
	untrue    lies          // the lies so far that the client cannot detect
	granted   time.Duration // the longest session timeout that any client was granted
	last      time.Time     // when a client was last sent anything
	proof     time.Time     // when the latest request was made whose reply may have reached a client
	sent      int64         // bytes
	dials     int
	passwords map[string]bool
}

// lies are untruths that no client can detect, about its holds or about the state of the tree: the client is not at fault
// for believing them.
type lies byte

const (
	aboutHolds lies = 1 << iota
	aboutState
)

func newMan(srv *zktest.Server, s script) *man {
	return &man{
		srv: srv, script: s, light: make(chan struct{}), last: time.Now(),
		lines: map[*line]bool{}, passwords: map[string]bool{},
	}
}

// dial is the dialer for framework.WithDialer.
func (m *man) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	m.mu.Lock()
	m.dials++
	refused, silent := m.dark || m.refuse > 0, m.refuse < 0
	switch {
	case m.honest:
		silent = false
	case m.refuse > 0:
		m.refuse--
	case m.refuse < 0:
		m.refuse++
	}
	m.mu.Unlock()
	if silent {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.light:
		}
	}
	if refused {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	server, err := m.srv.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	l := &line{
		m: m, client: ours, server: server, born: time.Now(),
		known: make(chan struct{}), done: make(chan struct{}), ops: map[int32]int32{},
	}
	m.mu.Lock()
	m.lines[l] = true
	m.mu.Unlock()
	m.wg.Go(l.up)
	m.wg.Go(l.down)
	return theirs, nil
}

// goDark cuts all connections and lets none through.
func (m *man) goDark() {
	m.mu.Lock()
	m.dark = true
	var lines []*line
	for l := range m.lines {
		lines = append(lines, l)
	}
	m.mu.Unlock()
	for _, l := range lines {
		l.close()
	}
}

// goHonest ends goDark: from now on the man only forwards.
func (m *man) goHonest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dark, m.honest, m.refuse = false, true, 0
	close(m.light)
}

// lie records a lie that no client can detect.
func (m *man) lie(what lies) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.untrue |= what
}

func (m *man) told(what lies) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.untrue&what != 0
}

// decide returns the step for a frame, and whether there is one: usually there is none.
func (m *man) decide(f said) (step, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen = append(m.seen, f); len(m.seen) > 128 {
		m.seen = slices.Delete(m.seen, 0, 64)
	}
	if m.honest || m.next >= len(m.script.steps) {
		return step{}, false
	}
	p := m.script.steps[m.next]
	m.waited++
	switch {
	case f.is(p.on) && m.skipped >= p.skip:
		m.used[p.trick]++
		m.next, m.skipped, m.waited = m.next+1, 0, 0
		return p, true
	case f.is(p.on):
		m.skipped++
	case m.waited > maxWait:
		m.next, m.skipped, m.waited = m.next+1, 0, 0
	}
	return step{}, false
}

// proves records that a reply is about to be delivered.
func (m *man) proves(asked time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if asked.After(m.proof) {
		m.proof = asked
	}
}

// older returns a frame that was sent earlier.
func (m *man) older(n int) said {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[n%len(m.seen)]
}

// line is a connection.
type line struct {
	m              *man
	client, server net.Conn
	born           time.Time
	known          chan struct{} // closed when word is known
	word           bool          // the client sends a four-letter word; written by up before it closes known
	once           sync.Once
	done           chan struct{}

	mu      sync.Mutex
	ops     map[int32]int32 // the operation of each request, by xid
	waiting []request       // for their replies
	drop    int             // how many of the client's next requests are dropped
	twice   int             // how many of them are forwarded twice
	head    []byte          // the first bytes that the client was sent

	held      []byte // a frame to be sent after the next one; only down uses it
	heldAsked time.Time
}

type request struct {
	xid, op int32
	at      time.Time
}

func (l *line) close() {
	l.once.Do(func() {
		close(l.done)
		l.client.Close()
		l.server.Close()
		l.m.mu.Lock()
		defer l.m.mu.Unlock()
		delete(l.m.lines, l)
	})
}

// up forwards the client's bytes: frames, or a four-letter word.
func (l *line) up() {
	defer l.close()
	var word [4]byte
	if _, err := io.ReadFull(l.client, word[:]); err != nil {
		return
	}
	client := io.MultiReader(bytes.NewReader(word[:]), l.client)
	if l.word = word[0] > 0; l.word {
		close(l.known)
		_, _ = io.Copy(l.server, client)
		return
	}
	close(l.known)
	for first := true; ; first = false {
		body, err := readFrame(client)
		if err != nil {
			return
		}
		times := 1
		if !first {
			xid, op := int32(binary.BigEndian.Uint32(body)), int32(binary.BigEndian.Uint32(body[4:]))
			times = l.asked(request{xid, op, time.Now()})
		}
		for range times {
			if _, err := l.server.Write(framed(body)); err != nil {
				return
			}
		}
	}
}

// asked records a request, and returns how often to forward it.
func (l *line) asked(r request) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drop > 0 {
		l.drop--
		return 0
	}
	l.ops[r.xid] = r.op
	l.waiting = append(l.waiting, r)
	if l.twice > 0 {
		l.twice--
		return 2
	}
	return 1
}

// down forwards the server's frames, or treats them as the script demands.
func (l *line) down() {
	defer l.close()
	select {
	case <-l.known:
	case <-l.done:
		return
	}
	if l.word {
		_, _ = io.Copy(l.client, l.server)
		return
	}
	for first := true; ; first = false {
		body, err := readFrame(l.server)
		if err != nil {
			return
		}
		f := l.heard(body, first)
		p, hit := l.m.decide(f)
		if !hit || !withholding[p.trick] {
			l.m.proves(f.asked)
		}
		held := l.held
		l.held = nil
		if hit {
			err = table[p.trick].do(l, f, p)
		} else {
			err = l.say(framed(f.body))
		}
		if err == nil && held != nil {
			l.m.proves(l.heldAsked)
			err = l.say(framed(held))
		}
		if err != nil {
			return
		}
	}
}

// heard returns a frame with its kind and its request.
func (l *line) heard(body []byte, first bool) said {
	f := said{body: body, first: first, line: l}
	if first {
		f.asked = l.born
		return f
	}
	var h jute.ReplyHeader
	_ = jute.Unmarshal(body, &h)
	f.xid, f.code = h.Xid, h.Err
	l.mu.Lock()
	defer l.mu.Unlock()
	f.op = l.ops[f.xid]
	if i := slices.IndexFunc(l.waiting, func(r request) bool { return r.xid == f.xid }); i >= 0 {
		f.asked = l.waiting[i].at // the oldest: pings share one xid
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return f
}

// say sends bytes to the client, and returns when the client has read them.
func (l *line) say(b []byte) error {
	l.m.mu.Lock()
	l.m.sent += int64(len(b))
	l.m.last = time.Now()
	l.m.mu.Unlock()
	l.grant(b)
	_, err := l.client.Write(b)
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.m.last = time.Now()
	return err
}

// grant reads the connect response that the client will receive, as the script has changed it.
func (l *line) grant(b []byte) {
	const timeout, password, end = 8, 24, 40 // offsets, including the length
	l.mu.Lock()
	defer l.mu.Unlock()
	had := len(l.head)
	if had >= end {
		return
	}
	l.head = append(l.head, b[:min(len(b), end-had)]...)
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if had < timeout+4 && len(l.head) >= timeout+4 {
		granted := int32(binary.BigEndian.Uint32(l.head[timeout:]))
		l.m.granted = max(l.m.granted, time.Duration(granted)*time.Millisecond)
	}
	if len(l.head) == end {
		l.m.passwords[string(l.head[password:end])] = true
	}
}

// wait pauses until the time is over, the connection ends, or the man becomes honest.
func (l *line) wait(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-l.m.light:
		return nil
	case <-l.done:
		return net.ErrClosed
	}
}

// readFrame reads a frame of an honest sender.
func readFrame(from io.Reader) ([]byte, error) {
	var h [4]byte
	if _, err := io.ReadFull(from, h[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(h[:]))
	_, err := io.ReadFull(from, body)
	return body, err
}

// framed prepends a frame's length.
func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
}
