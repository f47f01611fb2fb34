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
			l.reader()
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

func (s *Session) closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending.closing
}

// serversFault reports whether a connection was ended because of what its server did, or did not do.
func serversFault(why error) bool {
	return isAny(why, errSilent, errTrickle, errStuck, errSkipped, ErrProtocol)
}

// sleep waits, and returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
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
