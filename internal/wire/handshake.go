package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// minTimeout is the shortest session timeout that a server can mean.
const minTimeout = 10 * time.Millisecond

// connectAttempt is a connection until its handshake is complete, used by one goroutine only.
type connectAttempt struct {
	s        *Session
	server   string
	deadline time.Time // when ZooKeeper's handshake must be complete, a login included
	conn     net.Conn
	in       *meteredReader

	zeroZxid, authRequired bool // as in refusalRecord, at the connect request
}

// beginAttempt begins an attempt to connect.
func (s *Session) beginAttempt(ctx context.Context, server string) (*connectAttempt, error) {
	limit := time.Now().Add(s.capToHalfLeft(s.cfg.ConnectTimeout))
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	conn, err := s.cfg.Dial(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	return &connectAttempt{s: s, server: server, deadline: limit, conn: conn, in: newMeteredReader(conn)}, nil
}

// exchangeConnect writes a connect request and reads its response. From here on the connection has a deadline: the
// attempt's, or the limit of a silent connection if that is sooner.
func (a *connectAttempt) exchangeConnect(req *jute.ConnectRequest, more ...byte) (
	resp jute.ConnectResponse, err error) {
	_, silence := a.s.validity.pingPace(a.s.cfg.Timeout)
	limit := a.deadline
	if silent := time.Now().Add(a.s.capToHalfLeft(silence)); silent.Before(limit) {
		limit = silent
	}
	a.conn.SetDeadline(limit)
	if n, err := a.conn.Write(append(jute.Frame(req), more...)); err != nil {
		if n == 0 {
			err = unsentError{err}
		}
		return resp, err
	}
	body, err := readFrame(a.in, maxPlainReply)
	switch {
	case isHangUp(err):
		err = fmt.Errorf("%w: %w", ErrHungUp, err)
	case isTimeout(err):
		err = fmt.Errorf("%w: is it a ZooKeeper server? (%w)", errSilent, err)
	case err == nil:
		err = parseRefusal(body)
	}
	if err != nil {
		return resp, err
	}
	return resp, jute.Unmarshal(body, &resp)
}

// unsentError is the error of a write that sent no byte.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// parseRefusal reads a refusal in the form of a plain reply, which is shorter than any connect response. In this way a
// member without a quorum refuses to open sessions.
func parseRefusal(body []byte) error {
	var h jute.ReplyHeader
	if len(body) != replyHeaderSize || jute.Unmarshal(body, &h) != nil {
		return nil
	}
	if h.Err == jute.CodeNotReadOnly {
		return ErrOpensNoSessions
	}
	return fmt.Errorf("%w: error code %d", errRefused, h.Err)
}

// establishConnection performs the handshake. While it runs the session's identity records that the server may open a
// session. The error is ErrClosed if the session is being closed and has had no connection.
func (a *connectAttempt) establishConnection() (*connection, error) {
	s := a.s
	s.mu.Lock()
	unwanted := s.identity.id == 0 && s.ending.closing
	if !unwanted {
		s.identity.beginHandshake()
	}
	s.mu.Unlock()
	if unwanted {
		return nil, ErrClosed
	}
	l, err := a.performHandshake()
	s.mu.Lock()
	s.identity.endHandshake()
	s.mu.Unlock()
	return l, err
}

// connectRequest returns the connect request.
func (a *connectAttempt) connectRequest() *jute.ConnectRequest {
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	a.zeroZxid, a.authRequired = s.refusals.zeroZxid, s.refusals.authRequired
	req := &jute.ConnectRequest{LastZxidSeen: s.identity.zxid, Timeout: int32(s.cfg.Timeout / time.Millisecond),
		SessionID: s.identity.id, Password: s.identity.password, HasReadOnly: true, ReadOnly: s.cfg.ReadOnly}
	if a.zeroZxid {
		req.LastZxidSeen = 0
		req.ReadOnly = false // only the data of a member with a quorum prove that all are older
	}
	if len(req.Password) == 0 {
		req.Password = make([]byte, 16)
	}
	return req
}

// performHandshake opens the session, or attaches the connection to it, presents the credentials, and primes the
// connection.
func (a *connectAttempt) performHandshake() (*connection, error) {
	s := a.s
	req := a.connectRequest()
	sent := readClock()
	s.validity.recordConnecting(sent)
	resp, err := a.exchangeConnect(req)
	if err != nil {
		if errors.As(err, new(unsentError)) || matchesAny(err, errRefused, ErrOpensNoSessions) {
			s.clearStray()
		}
		if !errors.Is(err, ErrOpensNoSessions) { // otherwise the refusal does not depend on the zxid
			s.recordFailedHandshake(err)
		}
		return nil, fmt.Errorf("handshake: %w", err)
	}
	if resp.SessionID == 0 || resp.ReadOnly { // no session, or a read-only member's own
		s.clearStray()
	}
	if resp.SessionID == 0 || resp.Timeout <= 0 {
		if req.SessionID == 0 {
			return nil, fmt.Errorf("%w: the server opened no session", errRefused)
		}
		if resp.ReadOnly && s.Agreed() { // it may have missed that the session was opened
			return nil, fmt.Errorf("%w: a member without a quorum does not know the session", errRefused)
		}
		return nil, s.endSession(ErrExpired)
	}
	l, err := a.acceptGrant(req, &resp, sent)
	if err != nil && req.SessionID == 0 && !resp.ReadOnly && a.closeUnusedSession() {
		s.clearStray()
	}
	return l, err
}

// checkGrant returns an error if a server's grant cannot be accepted.
func checkGrant(req *jute.ConnectRequest, resp *jute.ConnectResponse, timeout time.Duration) error {
	switch {
	case req.SessionID != 0 && resp.SessionID != req.SessionID:
		return fmt.Errorf("%w: the server confirmed session %#x instead of %#x",
			errRefused, resp.SessionID, req.SessionID)
	case resp.ReadOnly && !req.ReadOnly:
		return fmt.Errorf("%w: the server has no quorum, and no read-only session was asked for", errRefused)
	case timeout < minTimeout:
		return fmt.Errorf("%w: the server granted the impossible session timeout %v", errRefused, timeout)
	}
	return nil
}

// acceptGrant checks a session that the server has confirmed, presents the credentials, closes the earlier sessions, and
// records the connection.
func (a *connectAttempt) acceptGrant(req *jute.ConnectRequest, resp *jute.ConnectResponse, sent clockReading) (
	*connection, error) {
	s := a.s
	timeout := time.Duration(resp.Timeout) * time.Millisecond
	if err := checkGrant(req, resp, timeout); err != nil {
		return nil, err
	}
	// Before the connect reply counts: a session whose credentials every server refuses has to lapse.
	if err := a.authenticate(); err != nil {
		return nil, err
	}
	if !resp.ReadOnly {
		if err := s.closeEarlierSessions(a.server); err != nil {
			return nil, err
		}
	}
	if !s.validity.recordConnected(sent, timeout, resp.ReadOnly) {
		return nil, s.endSession(ErrLapsed)
	}
	behind := false
	if a.zeroZxid {
		// The server has accepted a handshake with zxid 0; its last zxid is in each reply.
		h, err := a.makeRequest(jute.OpExists, &jute.PathWatchRequest{Path: "/"})
		if err != nil {
			return nil, err
		}
		if behind = h.Zxid < s.MaxZxid(); behind {
			s.events.emit(Event{Kind: Regressed, Err: errBehind})
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ending.err != nil:
		return nil, s.ending.err
	case s.identity.id == 0 && s.ending.closing:
		return nil, ErrClosed // Close waits for this handshake
	}
	if behind {
		s.identity.zxid = 0
	}
	s.refusals.recordAdmission()
	s.identity.recordConnection(resp.SessionID, resp.Password, timeout, !resp.ReadOnly)
	l := a.newConnection(resp.ReadOnly)
	s.connections.makeLive(l)
	wakeReceiver(s.calls.patience.wake) // no call waits for a connection now
	s.primeConnection(l)
	return l, nil
}

// newConnection returns the connection that the attempt has made. Session.mu is held.
func (a *connectAttempt) newConnection(readOnly bool) *connection {
	s := a.s
	ping, _ := s.validity.pingPace(s.effectiveTimeout())
	l := &connection{
		number: s.connections.count + 1, server: a.server, conn: a.conn, in: a.in, readOnly: readOnly,
		output: outputBuffer{wake: make(chan struct{}, 1)}, window: newRequestWindow(s.cfg.Window, ping),
		pulse: connectionPulse{lastSent: readClock(), lastReply: readClock()},
	}
	l.end.reported = make(chan struct{})
	l.end.ctx, l.end.cancel = context.WithCancelCause(context.Background())
	return l
}

// closeUnusedSession closes a new session that will not be used, and reports whether the server has confirmed that.
// Unless Close waits for it, the reply has to come within the time of the attempt.
func (a *connectAttempt) closeUnusedSession() bool {
	a.s.mu.Lock()
	closing := a.s.ending.closing
	a.s.mu.Unlock()
	a.conn.SetWriteDeadline(time.Now().Add(drainTime))
	if closing {
		a.conn.SetReadDeadline(time.Now().Add(a.s.cfg.ConnectTimeout))
	}
	h, err := a.makeRequest(jute.OpCloseSession)
	return err == nil && h.Err == jute.CodeOK
}

// handshakeXid is the xid of makeRequest, and of no other request: members match replies to sessions by (session, xid).
const handshakeXid = firstXid + 1

// makeRequest makes one request and waits for its reply.
func (a *connectAttempt) makeRequest(op int32, records ...jute.Record) (h jute.ReplyHeader, err error) {
	request := jute.Frame(append([]jute.Record{&jute.RequestHeader{Xid: handshakeXid, Op: op}}, records...)...)
	if _, err := a.conn.Write(request); err != nil {
		return h, err
	}
	return a.awaitReply()
}

// awaitReply waits for the reply with handshakeXid.
func (a *connectAttempt) awaitReply() (h jute.ReplyHeader, err error) {
	for {
		frame, err := readFrame(a.in, maxPlainReply)
		if err != nil {
			return h, err
		}
		if err := jute.Unmarshal(frame, &h); err != nil || h.Xid == handshakeXid {
			return h, err
		}
	}
}
