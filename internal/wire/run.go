package wire

import (
	"errors"
	"time"
)

// dial makes one connection after the other until the session ends, and reads each to its end.
func (s *Session) dial() {
	for {
		server, wait := s.hosts.next()
		if !s.pause(wait) {
			return
		}
		l, err := s.connect("tcp", server)
		if err == nil {
			s.hosts.connected()
			l.reader()
			if givenUp(l.err) {
				s.hosts.shun(server)
			}
			s.seeOff(l.guest())
			continue
		}
		s.log.Debug("cannot connect", "server", server, "err", err)
		if !errors.Is(err, ErrClosed) {
			s.failed(server, err)
		}
	}
}

// givenUp says that a connection has ended because of what its server did, or did not do, while it was there.
func givenUp(why error) bool {
	return errors.Is(why, errSilent) || errors.Is(why, errTrickle) || errors.Is(why, errStuck) || errors.Is(why, errSkipped) || errors.Is(why, ErrProtocol)
}

// noticing is how long the library is given to notice that a connection has ended, which it does at once.
const noticing = 100 * time.Millisecond

// seeOff waits until the library has noticed the end of its connection: what it sends before that is lost, also if we are connected again.
func (s *Session) seeOff(lib *libConn) {
	if lib == nil {
		return
	}
	timer := time.NewTimer(noticing)
	defer timer.Stop()
	select {
	case <-lib.left:
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// pause waits, and returns false if the session has ended.
func (s *Session) pause(d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.ctx.Done():
		}
	}
	return s.ctx.Err() == nil
}

// guard watches over the session's time. Until that has run out, and everybody who has to know at once knows, it takes no lock but that of the validity,
// which nobody holds for long: whatever keeps the others busy, nothing is held for longer than it is certain.
func (s *Session) guard() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		changed := s.validity.Changed()
		if left, ok := s.validity.lapseIn(); ok {
			if left <= 0 {
				s.validity.Lapsed()
				break
			}
			wait = min(left, s.validity.glance())
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-s.ctx.Done():
			return
		}
	}
	why := s.validity.Why()
	if s.cfg.OnLapse != nil {
		s.cfg.OnLapse(why)
	}
	s.end(why)
}
