package wire

import (
	"context"
	"errors"
	"time"
)

// dial makes one connection after the other until the session ends, and reads each to its end. Once Close was
// called it begins no other: a session that was just closed would be called expired.
func (s *Session) dial() {
	for {
		server, wait := s.hosts.next()
		if !sleep(s.ctx, wait) || s.closing() {
			return
		}
		l, err := s.connect(server)
		if err == nil {
			s.hosts.connected()
			s.serveLink(l)
			if serversFault(l.err()) {
				s.hosts.shun(server)
			}
			continue
		}
		s.cfg.Logger.Debug("cannot connect", "server", server, "err", err)
		if !errors.Is(err, ErrClosed) {
			s.attemptFailed(server, err)
		}
	}
}

// connect makes a link to the server: the dial, the handshake, credentials, the earlier sessions' end,
// watches; only then anything else.
func (s *Session) connect(server string) (*link, error) {
	if s.cannotRearm(server) {
		return nil, errTooOld
	}
	a, err := s.dialOne(s.ctx, server)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(s.ctx, func() { a.conn.Close() })
	defer stop()
	l, err := a.establish()
	if err != nil {
		if Reason(err) != "closed" { // a server that just hangs up does not serve yet
			s.hosts.refused()
		}
		a.conn.Close()
		return nil, err
	}
	if !stop() { // the session has ended, and the connection is closed
		close(l.end.gone)
		return nil, ErrClosed // whatever ended the session, it was not this server's word
	}
	a.conn.SetDeadline(time.Time{})
	s.startLink(l, Event{Kind: Connected, SessionID: s.ID(), Timeout: s.Timeout(), Server: server, ReadOnly: l.readOnly,
		Reattached: l.n > 1})
	return l, nil
}

// serversFault reports whether a connection was ended because of what its server did, or did not do.
func serversFault(why error) bool {
	return isAny(why, errSilent, errTrickle, errStuck, errSkipped, ErrProtocol)
}

// guard waits for the end of the session's time, and is the only caller of OnLapse. Until it has notified the owner it
// takes no lock but the validity's, which is held only briefly: so all holds end in time, however busy the other
// goroutines are.
func (s *Session) guard() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	wait, changed, why := s.validity.watch()
	for ; why == nil; wait, changed, why = s.validity.watch() {
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-changed:
		}
	}
	if s.cfg.OnLapse != nil {
		s.cfg.OnLapse(why)
	}
	s.end(why)
}

// run starts the session's goroutines.
func (s *Session) run() {
	s.wg.Go(s.dial)
	s.wg.Go(s.guard)
	s.wg.Go(s.watchPatience)
}
