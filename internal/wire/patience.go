package wire

import (
	"errors"
	"time"
)

// patience says when calls have waited too long for a connection. A goroutine watches the queue while there
// is none. Session.mu guards it.
type patience struct {
	since   time.Time     // when the last connection was lost
	next    time.Time     // when the first call's patience ends; zero if no call has a limit
	watched bool          // the goroutine runs
	wake    chan struct{} // tells it that next is earlier now, or that there is a connection
}

var errNoConnection = errors.New("no connection in time")

// settled says that a call and those after it in its list need no look now: none of them has waited long
// enough at that time, or ends before next. They were submitted in this order, so where all have the same
// patience the first that goes on waiting settles the others, however many there are.
func (p *patience) settled(c *Call, at time.Time) bool {
	earliest := p.from(c).Add(c.list.least)
	return c.list.least == 0 || earliest.After(at) && !p.next.IsZero() && !earliest.Before(p.next)
}

// from is when a call has begun to wait for a connection.
func (p *patience) from(c *Call) time.Time {
	if p.since.After(c.queued) {
		return p.since
	}
	return c.queued
}

// ends is when a call that waits for a connection has waited long enough. limited is false if it has no
// limit.
func (p *patience) ends(c *Call) (at time.Time, limited bool) {
	return p.from(c).Add(c.Patience), c.Patience > 0
}

// add counts a call that waits. It says whether the goroutine has to look earlier because of it.
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
