package wire

import (
	"context"
	"errors"
	"io"
	"time"
)

// dialServers makes one connection after the other until the session ends, and reads each to its end. Once Close was
// called it begins no other: a session that was just closed would be called expired.
func (s *Session) dialServers() {
	for {
		server, wait := s.hosts.nextServer()
		if !sleepContext(s.ctx, wait) || s.isClosing() {
			return
		}
		l, err := s.connectTo(server)
		if err == nil {
			s.hosts.recordConnection()
			s.serveLink(l)
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

// connectTo makes a link to the server: the dial, the handshake, credentials, the earlier sessions' end, watches; only
// then anything else. It announces the link and starts its goroutines, except for the reader.
func (s *Session) connectTo(server string) (*link, error) {
	if s.cannotRearm(server) {
		return nil, errTooOld
	}
	a, err := s.beginAttempt(s.ctx, server)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(s.ctx, func() { a.conn.Close() })
	defer stop()
	l, err := a.establishLink()
	if err != nil {
		if Reason(err) != "closed" { // a server that just hangs up does not serve yet
			s.hosts.recordRefusal()
		}
		a.conn.Close()
		return nil, err
	}
	if !stop() { // the session has ended, and the connection is closed
		close(l.end.reported)
		return nil, ErrClosed // whatever ended the session, it was not this server's word
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

// isServerFault reports whether a connection was ended because of what its server did, or did not do.
func isServerFault(why error) bool {
	return matchesAny(why, errSilent, errTrickle, errStuck, errSkipped, ErrProtocol)
}

const (
	// seekFrom and seekUpTo bound the pauses between two attempts to find a member with a quorum.
	seekFrom = time.Second
	seekUpTo = 15 * time.Second
)

// seekQuorum looks for a member with a quorum while this one has none, one member at a time, and ends the
// link when it has found one.
func (s *Session) seekQuorum(l *link) {
	for wait := seekFrom; sleepContext(l.end.ctx, wait); wait = min(2*wait, seekUpTo) {
		server := s.hosts.anotherServer(l.server)
		if server != "" && s.hasQuorum(l.end.ctx, server) {
			s.hosts.preferServer(server)
			l.closeWith(errQuorumFound)
			return
		}
	}
}

// hasQuorum asks a member by the four-letter word that every server that can be read-only answers.
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
	answer := make([]byte, 2)
	_, err = io.ReadFull(conn, answer)
	return err == nil && string(answer) == "rw"
}

// guardValidity waits for the end of the session's time, and is the only caller of OnLapse. Until it has notified the
// owner it takes no lock but the validity's, which is held only briefly: so all holds end in time, however busy the
// other goroutines are.
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
	if s.cfg.OnLapse != nil {
		s.cfg.OnLapse(why)
	}
	s.endSession(why)
}
