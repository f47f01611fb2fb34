package wire

import (
	"fmt"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// pace returns the ping interval, and the silence after which the connection is closed. A server may grant a month to a
// client that has requested ten seconds: then the requested timeout counts.
func (s *Session) pace(granted time.Duration) (ping, silence time.Duration) {
	ping, silence = s.validity.servers().Pace(granted)
	often, soon := Servers{Alone: true}.Pace(s.cfg.Timeout)
	return min(ping, often), min(silence, soon)
}

// rest returns the ping interval while nothing is held; see pace.
func (s *Session) rest(granted time.Duration) time.Duration {
	return min(s.validity.servers().Rest(granted), Servers{Alone: true}.Rest(s.cfg.Timeout))
}

// keeper pings when nothing else was sent. It closes the connection when the server is silent although it
// owes an answer, sends bytes but answers nothing, or does not answer one request.
func (l *link) keeper() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	last, due := now(), time.Hour
	for {
		_, changed := l.s.validity.held()
		ping, silence := l.s.pace(l.s.Timeout())
		wait := min(ping, due)
		if left, ok := l.s.validity.lapseIn(); ok && left > silence/4 {
			wait = min(wait, left-silence/4)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-l.end.ctx.Done():
			return
		}
		at := now()
		late := elapsed(last, at) > 2*ping // the process stood still: read the frames that have come in first
		last = at
		var err error
		if due, err = l.check(at, ping, silence); err != nil && !late {
			l.close(err)
			return
		}
	}
}

// check pings if it is time, and returns when the next ping is due, and an error if the connection has to be closed.
func (l *link) check(at instant, ping, silence time.Duration) (due time.Duration, err error) {
	s := l.s
	var silent, unheard, forgotten, longest time.Duration
	often := ping
	held, _ := s.validity.held()
	if !held {
		often = s.rest(s.Timeout())
	}
	s.locked(func() (t todo) {
		owed := l.owes(at) // a server that was not asked is not silent
		if held {
			owed += ping // with pings this often, silence counts from the last answer; right after a rest, from the first ping
		}
		silent, unheard = min(elapsed(l.in.last(), at), owed), min(elapsed(l.pulse.heard, at), owed)
		if first := s.calls.flight.first; first != nil && s.links.live == l {
			forgotten = elapsed(first.sent, at)
		}
		longest = min(s.validity.timeout(s.identity.timeout), s.cfg.Timeout)
		l.window.late = ping / windowShare
		if elapsed(l.pulse.sent, at) >= often {
			l.pulse.pings = append(l.pulse.pings, at)
			l.sends(at)
			l.output.add(jute.XidPing, jute.OpPing, nil)
		}
		due = often - elapsed(l.pulse.sent, at)
		s.removeAgain(&t)
		return t
	})
	switch {
	case silent > silence:
		return due, fmt.Errorf("%w for %v", errSilent, silent.Round(time.Millisecond))
	case unheard > silence && !l.worthWaiting(at, silence, unheard): // however many bytes have come
		return due, fmt.Errorf("%w for %v", errTrickle, unheard.Round(time.Millisecond))
	case forgotten > longest, forgotten > silence/4 && s.endsWithin(silence/4):
		return due, errStuck
	}
	return due, nil
}

// endsWithin reports whether the session lapses within d. A server may continue answering pings while the writes hang
// that keep the session's holds. The connection is closed as late as there is time for another server: the writes may
// only be slow, and then they are so everywhere.
func (s *Session) endsWithin(d time.Duration) bool {
	left, ok := s.validity.lapseIn()
	return ok && left <= d
}

// worthWaiting reports whether the frame that is coming in, possibly a large answer on a slow network, deserves more
// patience than a silent server: if at its present pace it is complete before three quarters of the time have passed
// without an answer, and while there is time for another server.
func (l *link) worthWaiting(at instant, silence, unheard time.Duration) bool {
	left := silence*9/4 - unheard
	if lapse, ok := l.s.validity.lapseIn(); ok {
		left = min(left, lapse-silence/2)
	}
	rest, known := l.in.rest(at)
	return known && rest <= left
}
