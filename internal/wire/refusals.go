package wire

import (
	"errors"
	"fmt"
	"time"
)

// refusalRecord records the servers that refuse this client. Session.mu guards it.
//
// Servers refuse for two reasons. A server that closes the connection on the handshake does not serve yet, or its data
// are older than this process has seen (of one lagging member, or of all after their data were wiped): it gives no
// reason. A server that refuses the credentials reports that.
type refusalRecord struct {
	hangUps      int          // handshakes in a row that servers refused, or hung up on
	hangUpsSince clockReading // the first of them
	zeroZxid     bool         // the next handshake claims to have seen nothing

	authRequired bool            // a server has required authentication: see authenticate
	refusedBy    map[string]bool // servers that have refused the credentials since the last connection
	refused      error           // the last of these refusals, if all servers refuse
}

// recordAdmission resets the record: a server has accepted the client.
func (a *refusalRecord) recordAdmission() {
	a.hangUps, a.zeroZxid = 0, false
	a.refusedBy, a.refused = nil, nil
}

// recordHangUp records that a server has closed the connection on the handshake. long means that all handshakes have
// ended so, for the session timeout and more handshakes than there are servers. Then, without a session, every other
// handshake claims zxid 0: if a server with a quorum accepts it, acceptGrant compares that server's zxid.
func (a *refusalRecord) recordHangUp(at clockReading, servers int, timeout time.Duration, session bool) (long bool) {
	if a.hangUps == 0 {
		a.hangUpsSince = at
	}
	a.hangUps++
	long = a.hangUps > servers && elapsed(a.hangUpsSince, at) >= timeout
	a.zeroZxid = !a.zeroZxid && long && !session
	return long
}

// recordRefusal records that a server refuses the credentials. all reports whether every server does.
func (a *refusalRecord) recordRefusal(server string, err error, within func(map[string]bool) bool) (all bool) {
	if a.refusedBy == nil {
		a.refusedBy = map[string]bool{}
	}
	a.refusedBy[server] = true
	if all = within(a.refusedBy); all {
		a.refused = err
	}
	return all
}

// recordFailedHandshake records that a handshake has failed. A session that only a member without a quorum has confirmed
// does not lapse, so it ends here when servers have refused it for long. (A session that a quorum knows lapses by the
// clock. A silent server has not refused.)
func (s *Session) recordFailedHandshake(err error) {
	s.mu.Lock()
	known := &s.identity
	session, hopeless := known.id != 0, false
	if !known.quorumConfirmed && known.zxid != 0 && !isTimeout(err) {
		hopeless = s.refusals.recordHangUp(readClock(), s.hosts.Len(), s.cfg.Timeout, session) && session
	}
	s.mu.Unlock()
	if hopeless {
		s.endSession(ErrLapsed)
	}
}

// requireLogin records that a server has ended a connection because the client had not authenticated.
func (s *Session) requireLogin(server string) {
	s.mu.Lock()
	s.refusals.authRequired = true
	s.mu.Unlock()
	s.reportFailedAttempt(server, errLoginRequired)
}

// reportFailedAttempt reports to the owner that an attempt to connect has failed.
func (s *Session) reportFailedAttempt(server string, err error) {
	kind := Failed
	if errors.Is(err, ErrAuthFailed) {
		kind = AuthFailed
		s.recordAuthRefusal(server, err)
	}
	s.events.emit(Event{Kind: kind, SessionID: s.ID(), Server: server, Err: err})
}

// recordAuthRefusal records that a server refuses the credentials. When all servers do, without a connection in
// between, calls with Patience fail now, and later ones until the next connection. The session continues dialling, since
// the servers' configuration may be corrected.
func (s *Session) recordAuthRefusal(server string, err error) {
	err = fmt.Errorf("%s: %w", server, err)
	s.withLock(func() (t callbackList) {
		if s.refusals.recordRefusal(server, err, s.hosts.areAllIn) {
			s.calls.forEachQueued(func(c *Call) {
				if c.Patience > 0 {
					s.failQueued(c, err, &t)
				}
			})
		}
		return t
	})
}
