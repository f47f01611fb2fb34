// Package proxy puts a TCP relay in front of a server, so that a test can disturb the connection while both ends stay
// alive.
//
// The address never changes. There are two kinds of faults: Cut, which both ends notice immediately, and Hang, which
// neither notices.
package proxy

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Direction is one way through the proxy, or both.
type Direction int

// The ways through the proxy.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// Tap is called for each connection with a number that counts up from 1, and
// returns the functions that are shown its bytes just before they are
// forwarded, in order; nil for none. The two are called concurrently with each
// other, and must not keep the slice. They may change its bytes.
type Tap func(conn int) (toServer, toClient func(chunk []byte))

// Proxy relays between its address and a server. Addr and Stats are safe for
// concurrent use; Cut, Hang, Heal and Close belong to one goroutine at a time.
type Proxy struct {
	settings Settings
	listener net.Listener
	gates    map[Direction]*gate
	tasks    sync.WaitGroup

	accepted, refused atomic.Int64
	bytes             map[Direction]*atomic.Int64

	mu    sync.Mutex
	cut   bool
	links map[*link]struct{}
}

// New starts a proxy in front of the server at target, which need not be up. It
// ends with the test.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	return NewTapped(t, target, nil)
}

// NewTapped is New with a look at all bytes.
func NewTapped(t testing.TB, target string, tap Tap) *Proxy {
	t.Helper()
	p, err := Listen(Settings{Addr: "127.0.0.1:0", Target: target, Tap: tap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Settings configure a proxy. Addr and Target must be given.
type Settings struct {
	// Addr is the proxy's own address.
	Addr string
	// Target is the server's address, present or future.
	Target string
	// Tap may be nil.
	Tap Tap
	// Redial is for how long a connection is kept waiting for a server that is
	// not there yet, before it is reset. 0: not at all.
	Redial time.Duration
}

// Listen starts a proxy that its caller closes.
func Listen(s Settings) (*Proxy, error) {
	listener, err := net.Listen("tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		settings: s,
		listener: listener,
		gates:    map[Direction]*gate{ToServer: {}, ToClient: {}},
		bytes:    map[Direction]*atomic.Int64{ToServer: {}, ToClient: {}},
		links:    map[*link]struct{}{},
	}
	p.tasks.Go(p.accept)
	return p, nil
}

// Addr is the host:port for clients.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut resets all connections, on both sides, and every new one as soon as it
// is made. It lasts until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	p.cut = true
	cut := p.links
	p.links = map[*link]struct{}{}
	p.mu.Unlock()
	for l := range cut {
		l.abort()
	}
}

// Hang is a black hole: when it returns, not a single byte goes the given way any more, and no end of a connection
// either. Connections stay, and new ones are accepted; while the way to the server is closed the server does not see
// them. It lasts until Heal, which delivers the delayed bytes, as TCP would: late, and even if their sender has given
// up since. Only a connection made and given up during the hang never gets to the server.
func (p *Proxy) Hang(way Direction) {
	for _, direction := range []Direction{ToServer, ToClient} {
		if way&direction == 0 {
			continue
		}
		idle := p.gates[direction].close()
		// A write to an end that does not read would keep us waiting.
		p.setWriteDeadline(direction, time.Unix(1, 0))
		<-idle
		p.setWriteDeadline(direction, time.Time{})
	}
}

// Sever is a cut that one side notices and the other does not: the server's
// side with ToServer, the clients' with ToClient. For the one it is Cut, for
// the other it is Hang(Both). It lasts until Heal, which ends the connections
// on the other side, too.
func (p *Proxy) Sever(side Direction) {
	p.Hang(Both)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = side&ToClient != 0
	for l := range p.links {
		l.sever(side)
	}
}

// Heal ends Cut, Hang and Sever. Connections that were reset stay so.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.cut = false
	p.mu.Unlock()
	p.gates[ToServer].open()
	p.gates[ToClient].open()
}

// Stats are counters since the start.
type Stats struct {
	Accepted int64 // connections, including refused ones
	Refused  int64 // connections reset immediately, by Cut or because the server is down
	Open     int   // connections now
	ToServer int64 // bytes
	ToClient int64 // bytes
}

// Stats returns the counters.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	open := len(p.links)
	p.mu.Unlock()
	return Stats{
		Accepted: p.accepted.Load(),
		Refused:  p.refused.Load(),
		Open:     open,
		ToServer: p.bytes[ToServer].Load(),
		ToClient: p.bytes[ToClient].Load(),
	}
}

// Close ends the proxy and its connections and returns when all its goroutines have ended.
func (p *Proxy) Close() {
	p.listener.Close()
	p.Cut()
	p.tasks.Wait()
}

func (p *Proxy) accept() {
	for conn := 1; ; conn++ {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		l := newLink(client.(*net.TCPConn))
		if !p.add(l) {
			p.refused.Add(1)
			l.abort()
			continue
		}
		p.tasks.Go(func() {
			defer p.remove(l)
			p.serve(l, conn)
		})
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	l.abort()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) setWriteDeadline(direction Direction, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.setWriteDeadline(direction, at)
	}
}

// serve runs a connection to its end.
func (p *Proxy) serve(l *link, conn int) {
	early, alive := l.readUntil(p.gates[ToServer].wait())
	if !alive {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	stop := l.onAbort(cancel)
	server, err := p.dial(ctx)
	stop()
	cancel()
	if err != nil {
		p.refused.Add(1)
		return
	}
	if !l.attach(server.(*net.TCPConn)) {
		return
	}
	var toServer, toClient func([]byte)
	if p.settings.Tap != nil {
		toServer, toClient = p.settings.Tap(conn)
	}
	var back sync.WaitGroup
	back.Go(func() { p.pump(l, ToClient, nil, toClient) })
	p.pump(l, ToServer, early, toServer)
	back.Wait()
	l.close()
}

// dial connects to the server, once, or as often as Redial allows.
func (p *Proxy) dial(ctx context.Context) (net.Conn, error) {
	for began := time.Now(); ; {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.settings.Target)
		if err == nil || time.Since(began) >= p.settings.Redial {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pump moves bytes one way until that way ends.
//
// The end of a connection is held back by a shut gate like its bytes. A failed
// write therefore does not end the connection: the pump of the other way will
// read the same failure and report it through its own gate.
func (p *Proxy) pump(l *link, direction Direction, early []byte, tap func([]byte)) {
	gate, from, to := p.gates[direction], l.client, l.server
	if direction == ToClient {
		from, to = l.server, l.client
	}
	if !p.forward(l, direction, to, early, tap) {
		return
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if !p.forward(l, direction, to, buffer[:n], tap) {
			return
		}
		if err != nil {
			if gate.enter(l.aborted) {
				l.end(to, err == io.EOF && !l.broken.Load())
				gate.leave()
			}
			return
		}
	}
}

// forward writes a chunk as far as the gate lets it. It returns false if the link has ended.
func (p *Proxy) forward(l *link, direction Direction, to *net.TCPConn, chunk []byte, tap func([]byte)) bool {
	gate := p.gates[direction]
	for shown := false; len(chunk) > 0; {
		if !gate.enter(l.aborted) {
			return false
		}
		if tap != nil && !shown {
			tap(chunk)
			shown = true
		}
		n, err := to.Write(chunk)
		p.bytes[direction].Add(int64(n))
		gate.leave()
		chunk = chunk[n:]
		if err != nil && !isTimeout(err) {
			l.broken.Store(true)
			return false
		}
	}
	return true
}
