package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

var (
	errLibraryClosed = errors.New("connection given up by the library")
	errSilent        = errors.New("no answer from the server")
	errTrickle       = errors.New("no whole answer from the server")
	errStuck         = errors.New("a request was never answered")
	errSkipped       = errors.New("a request was skipped by the server")
	errRefused       = errors.New("handshake refused")
	errBehind        = errors.New("the servers are behind what this process has seen")
	errNotListed     = errors.New("the server is not on the list any more")
	errTooOld        = errors.New("the server cannot arm persistent watches again")
)

// drainTime is how long a connection is read from after it could not be written to.
const drainTime = time.Second

// link is one live connection. Its goroutines: reader (owner of the end), writer, keeper (pings and watchdog).
type link struct {
	s        *Session
	n        uint64
	server   string
	conn     net.Conn
	in       *meter
	readOnly bool
	quit     chan struct{} // closed when the link is to end
	gone     chan struct{} // closed when it has ended and everybody knows
	wake     chan struct{} // the writer has something to do
	wg       sync.WaitGroup

	// Guarded by Session.mu.
	out        []byte
	room       room
	sent       instant         // when the last request of ours was written
	pings      []instant       // unanswered pings, oldest first: they share one xid
	heard      instant         // when the last whole answer to something that was asked came in
	asked      map[int32]asked // what the library waits for, by xid
	since      int64           // what we had seen before this connection
	lib        *libConn        // what the library holds of it, nil if it does not
	libWatches bool            // the library has watches of its own: it gets the events, too

	once   sync.Once
	err    error       // why it ends; set before quit is closed
	broken atomic.Bool // it could not be written to
}

// start announces the link and starts its goroutines, but for the reader.
func (l *link) start(ev Event) {
	l.s.emit(ev)
	l.wg.Go(l.writer)
	l.wg.Go(l.keeper)
	if l.readOnly {
		l.wg.Go(l.seek)
	}
}

// append adds a frame to the output. Session.mu is held.
func (l *link) append(h *jute.RequestHeader, body []byte) {
	l.out = binary.BigEndian.AppendUint32(l.out, uint32(8+len(body)))
	l.out = binary.BigEndian.AppendUint32(l.out, uint32(h.Xid))
	l.out = binary.BigEndian.AppendUint32(l.out, uint32(h.Op))
	l.out = append(l.out, body...)
	l.wakeWriter()
}

func (l *link) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// close makes the link end; the first reason counts.
func (l *link) close(err error) {
	first := false
	l.once.Do(func() {
		l.err, first = err, true
		close(l.quit)
	})
	if first { // not inside: the connection may be a user's own kind
		l.conn.Close()
	}
}

// reader reads to the end of the link, and returns when everybody knows of it.
func (l *link) reader() {
	err := l.read()
	l.close(err)
	<-l.quit
	l.wg.Wait()
	ending := l.s.detached(l, l.err)
	switch lib := l.guest(); {
	case lib == nil:
	case ending:
		lib.retire()
	default:
		lib.fail(l.err)
	}
	close(l.gone)
}

func (l *link) read() error {
	for {
		in, err := l.receive()
		if err != nil {
			return err
		}
		select {
		case <-l.quit: // the connection was given up over what came before: what has arrived behind that does not count
			return nil
		default:
		}
		if err := l.take(in); err != nil {
			return err
		}
	}
}

// take does with a frame what it is for. An error ends the connection.
func (l *link) take(in incoming) error {
	h := in.head
	switch {
	case h.Err == jute.CodeSessionExpired && !l.readOnly:
		l.s.end(ErrExpired)
		return ErrExpired
	case h.Err == jute.CodeSessionClosedRequireSASL: // its last word, which may be the answer to something
		l.s.unwelcome(l.server)
		if err := l.handle(in); err != nil {
			return err
		}
		return unwelcome()
	}
	return l.handle(in)
}

func (l *link) handle(in incoming) error {
	h := in.head
	switch {
	case h.Xid == jute.XidPing:
		if !l.pong(h.Err) {
			l.s.end(ErrLapsed)
			return ErrLapsed
		}
	case h.Xid == jute.XidNotification:
		return l.event(in)
	case h.Xid < firstXid:
		err := l.s.replied(l, in)
		if errors.Is(err, ErrLapsed) {
			l.s.end(err)
		}
		return err
	case h.Xid >= 0:
		return l.answerLibrary(in)
	}
	return nil
}

// event hands a watch event to whom it is for.
func (l *link) event(in incoming) error {
	var ev jute.WatcherEvent
	if err := jute.Unmarshal(in.body, &ev); err != nil {
		return fmt.Errorf("%w: an event: %w", ErrProtocol, err)
	}
	if err := l.s.checkPath(ev.Path); err != nil {
		return err
	}
	if l.s.notified(l, ev) && !l.lib.deliverEvent(&in.head, &ev) {
		return errSwamped
	}
	return nil
}

// pong handles a ping's answer. It returns false if the session had lapsed before.
func (l *link) pong(code int32) bool {
	sent, alive := l.ponged(code)
	if f := l.s.cfg.OnPong; f != nil && !sent.zero() {
		f(elapsed(sent, now()))
	}
	return alive
}

// ponged pairs a ping's answer with the oldest ping (rule R2).
func (l *link) ponged(code int32) (sent instant, alive bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if len(l.pings) == 0 {
		return sent, true
	}
	sent, l.heard = l.pings[0], now()
	l.pings = l.pings[1:]
	return sent, l.readOnly || !extends(code) || l.s.validity.answer(sent)
}

func (l *link) writer() {
	var spare []byte
	for {
		select {
		case <-l.wake:
		case <-l.quit:
			return
		}
		for {
			l.s.mu.Lock()
			b := l.out
			l.out = spare[:0]
			l.s.mu.Unlock()
			if len(b) == 0 {
				spare = b
				break
			}
			if _, err := l.conn.Write(b); err != nil {
				l.broken.Store(true)
				// What the server has said before it closed the connection shall be read: the reader finds the end.
				if l.conn.SetReadDeadline(time.Now().Add(drainTime)) != nil {
					l.close(err)
				}
				return
			}
			if spare = b; cap(spare) > 1<<20 {
				spare = nil // one large request shall not cost its memory for ever
			}
		}
	}
}

// pace is how often to ping and after how much silence to give the connection up. A server may grant a month to who has asked for ten seconds; that is no reason
// to wait for it for a week.
func (s *Session) pace(granted time.Duration) (ping, silence time.Duration) {
	ping, silence = s.validity.ruleNow().pace(granted)
	often, soon := Rule{}.pace(s.cfg.Timeout)
	return min(ping, often), min(silence, soon)
}

// keeper pings when nothing else was sent, and gives the connection up when the server is silent, says much and answers nothing, or forgets a request.
func (l *link) keeper() {
	s := l.s
	last := now()
	for {
		ping, silence := s.pace(s.Timeout())
		wait := ping / 2
		if left, ok := s.validity.lapseIn(); ok && left > silence/4 {
			wait = min(wait, left-silence/4)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.quit:
			timer.Stop()
			return
		}
		at := now()
		late := elapsed(last, at) > ping // the process stood still: what has come in meanwhile shall be read first
		last = at
		s.mu.Lock()
		silent, unheard := elapsed(l.in.last(), at), elapsed(l.heard, at)
		forgotten := time.Duration(0)
		if s.flight.first != nil && s.link == l {
			forgotten = elapsed(s.flight.first.sent, at)
		}
		longest := min(s.timeout, s.cfg.Timeout)
		if elapsed(l.sent, at) >= ping/2 {
			l.pings = append(l.pings, at)
			l.sent = at
			l.append(&jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing}, nil)
		}
		var t todo
		s.removeAgain(&t)
		s.mu.Unlock()
		t.run()
		switch {
		case late:
		case silent > silence:
			l.close(fmt.Errorf("%w for %v", errSilent, silent.Round(time.Millisecond)))
			return
		case unheard > silence && !l.soon(at, silence, unheard): // however many bytes have come
			l.close(fmt.Errorf("%w for %v", errTrickle, unheard.Round(time.Millisecond)))
			return
		case forgotten > longest, forgotten > silence/4 && s.ends(silence/4):
			l.close(errStuck)
			return
		}
	}
}

// ends says whether the session lapses within d. So it does at a server that goes on answering pings while the writes that what is held lives from hang. It is left
// as late as there is time for another, for those writes may only be slow, and then they are so everywhere.
func (s *Session) ends(d time.Duration) bool {
	left, ok := s.validity.lapseIn()
	return ok && left <= d
}

// soon says whether the frame that is coming in, a large answer on a slow network perhaps, is worth more patience than a silent server: if it goes on as it has
// begun it is complete before three quarters of the time have gone without an answer, and while there is time left for another server.
func (l *link) soon(at instant, silence, unheard time.Duration) bool {
	left := silence*9/4 - unheard
	if lapse, ok := l.s.validity.lapseIn(); ok {
		left = min(left, lapse-silence/2)
	}
	rest, known := l.in.rest(at)
	return known && rest <= left
}
