package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// drainTime limits the reading from a connection after a write to it has failed.
const drainTime = time.Second

// link is one live connection. Its goroutines: reader (owner of the end), writer, keeper (pings and
// watchdog).
type link struct {
	s        *Session
	n        uint64
	server   string
	conn     net.Conn
	in       *meter
	readOnly bool
	end      linkEnd
	wg       sync.WaitGroup

	// Guarded by Session.mu.
	output output
	window window
	asking bool // a question of how old the server is has no answer yet
	pulse  pulse
	since  int64 // the highest zxid before this connection, or before the last that had armed its watches

	guestWatches bool // the guest has its own watches on it, and gets the events, too
}

// linkEnd is the state of a link's end.
type linkEnd struct {
	ctx    context.Context // ends to end the link; its cause is the reason
	cancel context.CancelCauseFunc
	closed atomic.Bool
	broken atomic.Bool   // a write has failed
	gone   chan struct{} // closed when the link has ended and all have been notified
}

// pulse is a connection's signs of life.
type pulse struct {
	sent  instant   // when the last request was written, without the guest's
	heard instant   // when the last whole answer came in
	owing instant   // since when the server has owed an answer, as far as is known; zero if it owes none
	pings []instant // when the unanswered pings were written, oldest first: they share one xid
}

// sends records a request. Session.mu is held.
func (l *link) sends(at instant) {
	if l.pulse.sent = at; l.pulse.owing.t.IsZero() {
		l.pulse.owing = at
	}
}

// hears records a reply: the server is alive even if older requests are still unanswered. (Pings share one xid: after a
// lost ping later ones look unanswered, though they are not.) Session.mu is held.
func (l *link) hears(at instant) {
	if l.pulse.heard, l.pulse.owing = at, at; l.s.calls.flight.first == nil {
		l.pulse.owing = instant{}
	}
}

// owes returns the time for which the server has owed a reply. Session.mu is held.
func (l *link) owes(at instant) time.Duration {
	if l.pulse.owing.t.IsZero() {
		return 0
	}
	return elapsed(l.pulse.owing, at)
}

// output is the data that the writer has to write.
type output struct {
	buf  []byte
	wake chan struct{}
}

// add appends a frame.
func (o *output) add(xid, op int32, body []byte) {
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(8+len(body)))
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(xid))
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(op))
	o.buf = append(o.buf, body...)
	wake(o.wake)
}

// newLink makes the session's next link of an attempt that has succeeded. Session.mu is held.
func (s *Session) newLink(a *attempt, readOnly bool) *link {
	ping, _ := s.pace(s.validity.timeout(s.identity.timeout))
	l := &link{
		s: s, n: s.links.n + 1, server: a.server, conn: a.conn, in: a.in, readOnly: readOnly,
		output: output{wake: make(chan struct{}, 1)}, window: newWindow(s.cfg.Window, ping),
	}
	l.end.gone = make(chan struct{})
	l.end.ctx, l.end.cancel = context.WithCancelCause(context.Background())
	return l
}

// start announces the link and starts its goroutines, except for the reader.
func (l *link) start(ev Event) {
	l.s.events.emit(ev)
	l.wg.Go(l.writer)
	l.wg.Go(l.keeper)
	if l.readOnly {
		l.wg.Go(l.seekQuorum)
	}
}

// close makes the link end; the first reason counts.
func (l *link) close(err error) {
	if l.end.closed.CompareAndSwap(false, true) {
		l.end.cancel(err)
		l.conn.Close()
	}
}

// err returns the reason why the link ends, nil while it does not.
func (l *link) err() error { return context.Cause(l.end.ctx) }

// reader reads to the end of the link, and returns when all have been notified of it, the guest last.
func (l *link) reader() {
	l.close(l.read())
	<-l.end.ctx.Done()
	l.wg.Wait()
	guest, ending := l.s.detached(l, l.err())
	close(l.end.gone)
	if guest != nil {
		guest.Disconnected(l.n, l.err(), ending)
	}
}

func (l *link) read() error {
	for {
		in, err := l.receive()
		if err == nil && l.end.ctx.Err() != nil { // later frames do not count
			return nil
		}
		if err == nil {
			err = l.handle(in)
		}
		if err != nil {
			return err
		}
	}
}

// handle handles a frame. An error ends the connection.
func (l *link) handle(in incoming) (err error) {
	h := in.head
	if h.Err == jute.CodeSessionExpired && !l.readOnly {
		l.s.end(ErrExpired)
		return ErrExpired
	}
	lastWord := h.Err == jute.CodeSessionClosedRequireSASL // which may be an answer, too
	if lastWord {
		l.s.loginRequired(l.server)
	}
	switch {
	case h.Xid == jute.XidPing:
		err = l.pong(h)
	case h.Xid == jute.XidNotification:
		err = l.event(in)
	case h.Xid < firstXid:
		err = l.s.replied(l, in)
	case h.Xid >= 0:
		err = l.answerGuest(in)
	}
	switch {
	case errors.Is(err, ErrLapsed):
		l.s.end(err)
	case err == nil && lastWord:
		err = errLoginRequired
	}
	return err
}

// event hands a watch event to its subscribers.
func (l *link) event(in incoming) error {
	var ev jute.WatcherEvent
	if err := jute.Unmarshal(in.body, &ev); err != nil {
		return fmt.Errorf("%w: cannot decode an event: %w", ErrProtocol, err)
	}
	if err := l.s.cfg.checkPath(ev.Path); err != nil {
		return err
	}
	if guest := l.s.notified(l, ev); guest != nil {
		return guest.Event(l.n, in.head, ev)
	}
	return nil
}

// pong handles a ping's answer: it belongs to the oldest ping (rule R2). It returns ErrLapsed if the session
// had lapsed before.
func (l *link) pong(h jute.ReplyHeader) error {
	p, at := &l.pulse, now()
	l.s.mu.Lock()
	if len(p.pings) == 0 {
		l.s.mu.Unlock()
		return nil
	}
	sent := p.pings[0]
	p.pings = p.pings[1:]
	l.hears(at)
	alive := l.readOnly || !extends(h.Err) || l.s.validity.answer(sent, Local)
	if l.s.identity.ahead && l.s.links.live == l {
		l.s.identity.saw(h.Zxid)
	}
	l.s.mu.Unlock()
	if f := l.s.cfg.OnPong; f != nil {
		f(elapsed(sent, at))
	}
	if !alive {
		return ErrLapsed
	}
	return nil
}

func (l *link) writer() {
	var spare []byte
	for {
		select {
		case <-l.output.wake:
		case <-l.end.ctx.Done():
			return
		}
		l.s.mu.Lock()
		b := l.output.buf
		l.output.buf = spare[:0]
		l.s.mu.Unlock()
		if len(b) > 0 { // else the last round has written it
			if _, err := l.conn.Write(b); err != nil {
				l.end.broken.Store(true)
				// The reader reads the replies that the server sent before it closed the connection, and finds the end.
				if l.conn.SetReadDeadline(time.Now().Add(drainTime)) != nil {
					l.close(err)
				}
				return
			}
		}
		if spare = b; cap(spare) > 1<<20 {
			spare = nil // the memory of one large request is not kept
		}
	}
}
