package wire

import (
	"context"
	"errors"
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

// connectTo makes a link to the server: the dial, the handshake, credentials, the earlier sessions' end,
// watches; only then anything else.
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
	s.startLink(l, Event{Kind: Connected, SessionID: s.ID(), Timeout: s.Timeout(), Server: server, ReadOnly: l.readOnly,
		Reattached: l.number > 1})
	return l, nil
}

// isServerFault reports whether a connection was ended because of what its server did, or did not do.
func isServerFault(why error) bool {
	return matchesAny(why, errSilent, errTrickle, errStuck, errSkipped, ErrProtocol)
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

// startGoroutines starts the session's goroutines.
func (s *Session) startGoroutines() {
	s.wg.Go(s.dialServers)
	s.wg.Go(s.guardValidity)
	s.wg.Go(s.watchPatience)
}
