package wire

import (
	"errors"
	"time"
)

// patience determines which calls have waited too long for a connection. A goroutine watches the queue while there is
// none. Session.mu guards it.
type patience struct {
	since   time.Time     // when the last connection was lost
	next    time.Time     // when the first call's patience ends; zero if no call has a limit
	watched bool          // the goroutine runs
	wake    chan struct{} // wakes it: next is earlier now, or there is a connection
}

var errNoConnection = errors.New("no connection in time")

// settled reports whether a call and all later ones in its list can be skipped: none of them has waited long enough at
// that time, or ends before next. The list is in the order of Submit, so if all calls have the same patience, the first
// one that still waits settles the others, however many they are.
func (p *patience) settled(c *Call, at time.Time) bool {
	earliest := p.from(c).Add(c.list.least)
	return c.list.least == 0 || earliest.After(at) && !p.next.IsZero() && !earliest.Before(p.next)
}

// from returns the time from which a call has waited for a connection.
func (p *patience) from(c *Call) time.Time {
	if p.since.After(c.queued) {
		return p.since
	}
	return c.queued
}

// ends returns the time at which a call stops waiting for a connection. limited is false if it has no limit.
func (p *patience) ends(c *Call) (at time.Time, limited bool) {
	return p.from(c).Add(c.Patience), c.Patience > 0
}

// add counts a call that waits. It reports whether the goroutine has to look earlier because of it.
func (p *patience) add(c *Call) (earlier bool) {
	ends, limited := p.ends(c)
	if earlier = limited && (p.next.IsZero() || ends.Before(p.next)); earlier {
		p.next = ends
	}
	return earlier
}

// expireQueued fails the calls that have waited too long for a connection, and returns how long until the
// next ones have. down is false if there is a connection: then the goroutine that asks ends.
func (s *Session) expireQueued() (wait time.Duration, down bool) {
	s.locked(func() (t todo) {
		p := &s.calls.patience
		p.watched = s.links.live == nil
		if wait, down = time.Hour, p.watched; !down {
			return t
		}
		at := time.Now()
		p.next = time.Time{}
		for _, l := range []*callList{&s.calls.urgent, &s.calls.others} {
			for c := l.first; c != nil && !p.settled(c, at); {
				following := c.next
				if ends, limited := p.ends(c); limited && !ends.After(at) {
					s.unqueue(c, errNoConnection, &t)
				} else {
					p.add(c)
				}
				c = following
			}
		}
		if !p.next.IsZero() {
			wait = p.next.Sub(at)
		}
		return t
	})
	return wait, down
}

// watchPatience ends calls that wait too long for a connection, until there is one.
func (s *Session) watchPatience() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for wait, down := s.expireQueued(); down; wait, down = s.expireQueued() {
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.calls.patience.wake:
		case <-s.ctx.Done():
			return
		}
	}
}

// awaitConnection has the queued calls begin to wait for a connection. Session.mu is held.
func (s *Session) awaitConnection() {
	p := &s.calls.patience
	p.since = time.Now()
	if !p.watched {
		p.watched = true
		s.wg.Go(s.watchPatience)
	} else {
		wake(p.wake)
	}
}
