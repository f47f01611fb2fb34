package wire

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// admission is what is known of servers that do not let us in. Session.mu guards it.
//
// Servers refuse for two reasons. Those that close the connection on our handshake are not serving yet, or they are behind what this process has seen: one lagging
// member, or all of them after their data was wiped. Those that refuse our credentials say so.
type admission struct {
	closings int     // handshakes in a row that ended so
	since    instant // the first of them
	probe    bool    // the next handshake claims to have seen nothing

	wary     bool            // a server has closed a connection for want of authentication: the next one asks first
	unwanted map[string]bool // servers that have refused our credentials since the last connection
	refused  error           // the last of these refusals, when that is all servers
}

// admitted starts anew: there is a connection.
func (a *admission) admitted() {
	a.closings, a.probe = 0, false
	a.unwanted, a.refused = nil, nil
}

// closedOn notes that a server has closed the connection on our handshake. It says whether nothing else has come for long: from more handshakes than there are servers,
// and for the session timeout. While there is no session a fresh one is then tried with no claim at all, every other time: only a server that serves with a
// quorum accepts it, and only one that is behind had refused the other.
func (a *admission) closedOn(at instant, servers int, timeout time.Duration, session bool) (long bool) {
	if a.closings == 0 {
		a.since = at
	}
	a.closings++
	long = a.closings > servers && elapsed(a.since, at) >= timeout
	a.probe = !a.probe && long && !session
	return long
}

// refusedBy notes that a server refuses our credentials. all says whether every server does.
func (a *admission) refusedBy(server string, err error, within func(map[string]bool) bool) (all bool) {
	if a.unwanted == nil {
		a.unwanted = map[string]bool{}
	}
	a.unwanted[server] = true
	if all = within(a.unwanted); all {
		a.refused = err
	}
	return all
}

// noteRefusal notes that a handshake has failed. A session that only a member without a quorum knows of does not lapse: when it is refused for long it is given up.
func (s *Session) noteRefusal(err error) {
	if s.refusedForLong(err) {
		s.end(ErrLapsed)
	}
}

// refusedForLong is noteRefusal, for the state. It says whether the session is to be given up.
func (s *Session) refusedForLong(err error) (hopeless bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var timeout net.Error
	if s.birth.agreed || s.maxZxid == 0 || errors.As(err, &timeout) && timeout.Timeout() {
		return false // a session that a quorum knows of has its time; and a silent server has refused nothing
	}
	return s.admission.closedOn(now(), s.hosts.Len(), s.cfg.Timeout, s.id != 0) && s.id != 0
}

// unwelcome notes that the server has ended a connection because it does not know who we are: the next one asks first.
func (s *Session) unwelcome(server string) {
	s.mu.Lock()
	s.admission.wary = true
	s.mu.Unlock()
	s.notWanted(server, unwelcome())
	s.emit(Event{Kind: AuthFailed, SessionID: s.ID(), Server: server, Err: unwelcome()})
}

// failed tells the owner that an attempt to connect has failed.
func (s *Session) failed(server string, err error) {
	kind := Failed
	if errors.Is(err, ErrAuthFailed) {
		kind = AuthFailed
		s.notWanted(server, err)
	}
	s.emit(Event{Kind: kind, SessionID: s.ID(), Server: server, Err: err})
}

// notWanted notes that a server refuses our credentials. When all of them do, and there was no connection in between, nobody is left waiting for one: calls that
// would wait for a limited time fail now, as do those that come until there is a connection. We go on asking: what is wrong may be put right.
func (s *Session) notWanted(server string, err error) {
	var t todo
	err = fmt.Errorf("%s: %w", server, err)
	s.mu.Lock()
	if s.admission.refusedBy(server, err, s.hosts.within) {
		s.queue.each(func(c *Call) {
			if c.Patience > 0 {
				s.unqueue(c, err, &t)
			}
		})
	}
	s.mu.Unlock()
	t.run()
}

// Refused is why no server accepts us; nil if that is not known of all of them.
func (s *Session) Refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admission.refused
}
