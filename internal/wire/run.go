package wire

import (
	"context"
	"errors"
	"io"
	"time"
)

// dialServers makes one connection after the other until the session ends, and reads each to its end. After Close was
// called it makes no other: the server would report the closed session as expired.
func (s *Session) dialServers() {
	for {
		server, wait := s.hosts.nextServer()
		if !sleepContext(s.ctx, wait) || s.isClosing() {
			return
		}
		l, err := s.connectTo(server)
		if err == nil {
			s.hosts.recordConnection()
			s.serveConnection(l)
			if isServerFault(l.endReason()) {
				s.hosts.avoidServer(server)
			}
			continue
		}
		s.cfg.Logger.Debug("cannot connect", "server", server, "err", err)
		if !errors.Is(err, ErrClosed) {
			s.reportFailedAttempt(server, err)
		}
	}
}

// connectTo connects to the server: it dials, performs the handshake, announces the connection, and starts its
// goroutines, except for the reader.
func (s *Session) connectTo(server string) (*connection, error) {
	if s.cannotRearm(server) {
		return nil, errTooOld
	}
	a, err := s.beginAttempt(s.ctx, server)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(s.ctx, func() { a.conn.Close() })
	defer stop()
	l, err := a.establishConnection()
	if err != nil {
		if Reason(err) != "closed" { // a server that only hangs up does not serve yet
			s.hosts.recordRefusal()
		}
		a.conn.Close()
		return nil, err
	}
	if !stop() { // the session has ended, and the connection is closed
		close(l.end.reported)
		return nil, ErrClosed // not this server's fault: no failed attempt is reported
	}
	a.conn.SetDeadline(time.Time{})
	s.events.emit(Event{Kind: Connected, SessionID: s.ID(), Timeout: s.Timeout(), Server: server, ReadOnly: l.readOnly,
		Reattached: l.number > 1})
	l.wg.Go(func() { s.writeOutput(l) })
	l.wg.Go(func() { s.keepAlive(l) })
	if l.readOnly {
		l.wg.Go(func() { s.seekQuorum(l) })
	}
	return l, nil
}

// isServerFault reports whether a connection was ended by the client because of its server.
func isServerFault(why error) bool {
	return matchesAny(why, errSilent, errTrickle, errStuck, errSkipped, ErrProtocol)
}

const (
	// seekFrom and seekUpTo bound the pauses between two attempts to find a member with a quorum.
	seekFrom = time.Second
	seekUpTo = 15 * time.Second
)

// seekQuorum looks for a member with a quorum while this one has none, one member at a time, and ends the connection when
// it has found one.
func (s *Session) seekQuorum(l *connection) {
	for wait := seekFrom; sleepContext(l.end.ctx, wait); wait = min(2*wait, seekUpTo) {
		server := s.hosts.anotherServer(l.server)
		if server != "" && s.hasQuorum(l.end.ctx, server) {
			s.hosts.preferServer(server)
			l.closeWith(errQuorumFound)
			return
		}
	}
}

// hasQuorum reports whether a member has a quorum, by the four-letter word isro, which no server with read-only mode
// forbids.
func (s *Session) hasQuorum(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer cancel()
	conn, err := s.cfg.Dial(ctx, "tcp", server)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write([]byte("isro")); err != nil {
		return false
	}
	reply := make([]byte, 2)
	_, err = io.ReadFull(conn, reply)
	return err == nil && string(reply) == "rw"
}

// guardValidity waits until the session is lost, and is the only caller of OnLoss. Until then it takes no lock but the
// validity's, which is held only briefly: so all holds end in time, however busy the other goroutines are.
func (s *Session) guardValidity() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	wait, changed, why := s.validity.nextCheck()
	for ; why == nil; wait, changed, why = s.validity.nextCheck() {
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-changed:
		}
	}
	if s.cfg.OnLoss != nil {
		s.cfg.OnLoss()
	}
	s.endSession(why)
}
