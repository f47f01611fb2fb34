package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// minTimeout is the shortest session timeout we believe a server to mean.
const minTimeout = 10 * time.Millisecond

// connect makes a link to the server: TCP, the handshake, credentials, the old session's end, watches; only then anything else.
func (s *Session) connect(network, addr string) (*link, error) {
	s.mu.Lock()
	old := s.lacking[addr][jute.OpSetWatches2] && s.watches.persistent()
	s.mu.Unlock()
	if old {
		return nil, errTooOld
	}
	conn, limit, err := s.dialOne(s.ctx, network, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(s.ctx, func() { conn.Close() })
	defer stop()
	if !s.greet() {
		conn.Close()
		return nil, ErrClosed
	}
	l, first, err := s.handshake(conn, limit, network, addr)
	s.greeted()
	if err != nil {
		conn.Close()
		if Reason(err) != "closed" { // without a word: it is not serving yet, as members are that look for a leader
			s.hosts.refused()
		}
		return nil, err
	}
	if !stop() { // the session has ended meanwhile, the connection is closed
		close(l.gone)
		return nil, ErrClosed // whatever ended the session, it was not this server's word
	}
	conn.SetDeadline(time.Time{})
	l.start(Event{Kind: Connected, SessionID: s.ID(), Timeout: s.Timeout(), Server: addr, ReadOnly: l.readOnly, Reattached: !first})
	return l, nil
}

// patience is d, but of an established session at most half of the time that is left: so that there is time for another attempt.
func (s *Session) patience(d time.Duration) time.Duration {
	if left, ok := s.validity.lapseIn(); ok {
		d = min(d, max(left/2, 50*time.Millisecond))
	}
	return d
}

// dialOne begins an attempt to connect; limit is when all of it must be done, ZooKeeper's handshake included.
func (s *Session) dialOne(ctx context.Context, network, addr string) (conn net.Conn, limit time.Time, err error) {
	limit = time.Now().Add(s.patience(s.cfg.ConnectTimeout))
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	conn, err = s.cfg.Dial(ctx, network, addr)
	return conn, limit, err
}

// exchange writes a connect request and reads its response. From here to limit the connection has its deadline, at most for as long as a silent one is given.
func (s *Session) exchange(conn net.Conn, limit time.Time, req *jute.ConnectRequest, behind ...byte) (resp jute.ConnectResponse, in *meter, err error) {
	_, silence := s.validity.ruleNow().pace(s.cfg.Timeout)
	if silent := time.Now().Add(s.patience(silence)); silent.Before(limit) {
		limit = silent
	}
	conn.SetDeadline(limit)
	if n, err := conn.Write(append(jute.Frame(req), behind...)); err != nil {
		if n == 0 {
			err = unsaid{err}
		}
		return resp, nil, err
	}
	in = newMeter(conn)
	body, err := readFrame(in, maxPlain)
	var timeout net.Error
	switch {
	case hungUp(err):
		err = fmt.Errorf("%w: %w", ErrHungUp, err)
	case errors.As(err, &timeout) && timeout.Timeout():
		err = fmt.Errorf("%w: is it one of ZooKeeper? (%w)", errSilent, err)
	}
	if err != nil {
		return resp, nil, err
	}
	if err := declined(body); err != nil {
		return resp, nil, err
	}
	err = jute.Unmarshal(body, &resp)
	return resp, in, err
}

// unsaid is a failed write of which nothing has left the house.
type unsaid struct{ error }

func (e unsaid) Unwrap() error { return e.error }

// declined reads a refusal in the form of a reply to a request, which is shorter than any connect response: so a member without a quorum tells that
// it may open no sessions. They would be its own, and that has to be allowed.
func declined(body []byte) error {
	var h jute.ReplyHeader
	if len(body) != replyHeaderSize || jute.Unmarshal(body, &h) != nil {
		return nil
	}
	if h.Err == jute.CodeNotReadOnly {
		return ErrNotReadOnly
	}
	return fmt.Errorf("%w: code %d", errRefused, h.Err)
}

// replyHeaderSize is that of a reply without a body.
const replyHeaderSize = 16

// handshake establishes or re-attaches the session, credentials first, and primes the link's output: watches, then what is queued.
func (s *Session) handshake(conn net.Conn, limit time.Time, network, addr string) (l *link, first bool, err error) {
	s.mu.Lock()
	req := &jute.ConnectRequest{LastZxidSeen: s.maxZxid, Timeout: int32(s.cfg.Timeout / time.Millisecond), SessionID: s.id, Password: s.password,
		HasReadOnly: true, ReadOnly: s.cfg.ReadOnly}
	probe := s.admission.probe
	s.mu.Unlock()
	if probe {
		req.LastZxidSeen = 0
	}
	if probe { // only a member with a quorum speaks for the data of all
		req.ReadOnly = false
	}
	if len(req.Password) == 0 {
		req.Password = make([]byte, 16)
	}
	sent := now()
	s.validity.connecting(sent)
	resp, in, err := s.exchange(conn, limit, req)
	if err != nil {
		if errors.As(err, new(unsaid)) || errors.Is(err, errRefused) || errors.Is(err, ErrNotReadOnly) {
			s.noStray()
		}
		if !errors.Is(err, ErrNotReadOnly) { // which has nothing to do with what we have seen
			s.noteRefusal(err)
		}
		return nil, false, fmt.Errorf("handshake: %w", err)
	}
	if resp.SessionID == 0 || resp.ReadOnly { // none, or one that nobody else knows of
		s.noStray()
	}
	if resp.SessionID == 0 || resp.Timeout <= 0 {
		if req.SessionID == 0 {
			return nil, false, fmt.Errorf("%w: no session given", errRefused)
		}
		if resp.ReadOnly && s.Agreed() { // it speaks for nobody else, and may have missed that the session was opened
			return nil, false, fmt.Errorf("%w: a member without a quorum does not know the session", errRefused)
		}
		s.end(ErrExpired)
		return nil, false, ErrExpired
	}
	l, first, err = s.settle(conn, in, limit, network, addr, req, &resp, sent, probe)
	if err != nil && req.SessionID == 0 && !resp.ReadOnly && s.farewell(conn, in) {
		s.noStray()
	}
	return l, first, err
}

// settle takes what the server has granted: who we are, the old session's end, the rule, watches.
func (s *Session) settle(conn net.Conn, in *meter, limit time.Time, network, addr string, req *jute.ConnectRequest, resp *jute.ConnectResponse,
	sent instant, probe bool) (l *link, first bool, err error) {
	timeout := time.Duration(resp.Timeout) * time.Millisecond
	switch {
	case req.SessionID != 0 && resp.SessionID != req.SessionID:
		return nil, false, fmt.Errorf("%w: session %#x instead of %#x", errRefused, resp.SessionID, req.SessionID)
	case resp.ReadOnly && !req.ReadOnly:
		return nil, false, fmt.Errorf("%w: a member without a quorum, which was not asked for", errRefused)
	case timeout < minTimeout:
		return nil, false, fmt.Errorf("%w: a session timeout of %v", errRefused, timeout)
	}
	// Before the answer counts: a session that cannot be used any more shall lapse.
	if err := s.authenticate(conn, in, limit, addr); err != nil {
		return nil, false, err
	}
	if !resp.ReadOnly {
		if err := s.fence(network, addr); err != nil {
			return nil, false, err
		}
	}
	if !s.validity.connected(sent, timeout, resp.ReadOnly) {
		s.end(ErrLapsed)
		return nil, false, ErrLapsed
	}

	behind := false
	if probe {
		if behind, err = s.behind(conn, in); err != nil {
			return nil, false, err
		}
	}
	if behind {
		s.emit(Event{Kind: Regressed, Err: errBehind})
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endErr != nil {
		return nil, false, s.endErr
	}
	if behind {
		s.maxZxid = 0
	}
	s.admission.admitted()
	if first = s.id == 0; first && s.closing {
		return nil, false, ErrClosed // Close waits for what becomes of it
	}
	s.birth.connected(!resp.ReadOnly)
	s.id, s.password, s.timeout = resp.SessionID, resp.Password, timeout
	s.links++
	l = &link{s: s, n: s.links, server: addr, conn: conn, in: in, readOnly: resp.ReadOnly, quit: make(chan struct{}), gone: make(chan struct{}),
		wake: make(chan struct{}, 1), room: newRoom(s.cfg.Window)}
	s.link, s.lastLink = l, l
	close(s.up)
	if s.guest != nil {
		s.guest.linked()
	}
	s.unremoved = map[string]bool{}
	l.prime()
	return l, first, nil
}

// prime queues what must come before anything else on a new connection. Session.mu is held.
func (l *link) prime() {
	s := l.s
	l.since, l.sent, l.heard = s.maxZxid, now(), now()
	if s.unarmed { // what happened before the connection in between has not been told
		l.since = min(l.since, s.gapFrom)
	}
	calls, gaps := s.watches.rearm(l.since, s.cfg.MaxFrame)
	left := len(calls)
	s.unarmed, s.gapFrom = left > 0, l.since
	for i, c := range calls {
		last := i == len(calls)-1
		c.Done = func(r Reply) {
			switch {
			case r.Err != nil:
				return
			case r.Code != jute.CodeOK:
				l.close(fmt.Errorf("wire: watches not armed again: %s", jute.CodeName(r.Code)))
				return
			case last:
				s.reset(gaps)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if left--; left == 0 && s.link == l {
				s.unarmed = false
			}
		}
		s.write(l, c)
	}
	var t todo
	s.pump(&t)
	if len(t) > 0 {
		s.wg.Go(t.run) // calls that this server is known to lack; nothing may be called back under the lock
	}
}

// behind asks a server that has accepted us without a claim whether its last zxid is really smaller than what we have seen.
func (s *Session) behind(conn net.Conn, in io.Reader) (bool, error) {
	h, err := s.ask(conn, in, jute.OpExists, &jute.PathWatchRequest{Path: "/"})
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.Zxid < s.maxZxid, nil
}

// farewell closes a new session that nobody is going to use, and says whether the server has done that. Unless Close waits for it, the answer has to come
// within the time of the attempt.
func (s *Session) farewell(conn net.Conn, in *meter) bool {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	conn.SetWriteDeadline(time.Now().Add(drainTime))
	if closing {
		conn.SetReadDeadline(time.Now().Add(s.cfg.ConnectTimeout))
	}
	h, err := s.ask(conn, in, jute.OpCloseSession)
	return err == nil && h.Err == jute.CodeOK
}

// askXid is used by no other request of a session: members match replies to sessions by (session, xid).
const askXid = firstXid + 1

// ask makes one request on a connection that nobody else uses yet, and waits for its reply.
func (s *Session) ask(conn net.Conn, in io.Reader, op int32, records ...jute.Record) (h jute.ReplyHeader, err error) {
	request := jute.Frame(append([]jute.Record{&jute.RequestHeader{Xid: askXid, Op: op}}, records...)...)
	if _, err := conn.Write(request); err != nil {
		return h, err
	}
	return answer(in)
}

// answer waits for the reply to the request of ask.
func answer(in io.Reader) (h jute.ReplyHeader, err error) {
	for {
		frame, err := readFrame(in, maxPlain)
		if err != nil {
			return h, err
		}
		if err := jute.Unmarshal(frame, &h); err != nil || h.Xid == askXid {
			return h, err
		}
	}
}

// credentials are the frames that go first on every connection.
func (s *Session) credentials() (frames []byte) {
	for _, a := range s.cfg.Credentials {
		frames = append(frames, jute.Frame(&jute.RequestHeader{Xid: jute.XidAuth, Op: jute.OpAuth}, &jute.AuthPacket{Scheme: a.Scheme, Auth: a.Auth})...)
	}
	return frames
}
