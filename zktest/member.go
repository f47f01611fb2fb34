package zktest

import (
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// memberRole is a member's state in the ensemble.
type memberRole uint8

const (
	looking   memberRole = iota // looking for a leader; no client is served
	following                   // a leader
	leading
	onlyReads // looking for a leader, and serving read-only clients
)

// ensembleMember is a server's part in an ensemble. It is guarded by the lock that all members share.
type ensembleMember struct {
	e     *Ensemble
	s     *Server
	index int
	role  memberRole
	epoch int64
	log   []*logEntry      // accepted, in order; this member has not learned that they are committed
	queue []scheduledEntry // committed, in order, to be applied
	lag   time.Duration    // between the two
	boss  *followerConn    // a follower's, to its leader
	crew  []*followerConn  // a leader's, to its followers
	moved map[int64]int64  // a follower's: timeouts of the sessions touched since the leader's last ping

	config  *membership // the newest committed one in this member's log
	retired bool        // of a leader: the last configuration that it committed gives it no vote

	ahead      map[string]*futureNode // a leader's: the nodes that the entries of log will change
	nextTick   time.Time              // a leader's next ping, zero while nothing depends on it
	odd        bool                   // every second ping it counts its followers
	readOnlyAt time.Time              // when a looking member begins to serve reads, zero: never
}

// scheduledEntry is an entry, or the reply to a sync, with the time when it is due.
type scheduledEntry struct {
	at    time.Time
	entry *logEntry
	then  func()
}

func (m *ensembleMember) indexBit() uint { return 1 << m.index }

func (m *ensembleMember) serverID() int64 { return int64(m.index + 1) }

// expiresSession reports whether this member has to expire the session.
func (m *ensembleMember) expiresSession(ses *sessionRecord) bool {
	return m.role == leading || ses.local
}

// recordTouch records a session for the reply to the leader's next ping: only by this reply the leader learns that
// the client is alive.
func (m *ensembleMember) recordTouch(id, timeout int64) {
	if m.role == following {
		m.moved[id] = timeout
	}
}

func (s *Server) isReadOnly() bool { return s.member != nil && s.member.role == onlyReads }

// lastLogged returns the zxid of the newest transaction in the member's log.
func (m *ensembleMember) lastLogged() int64 {
	if n := len(m.log); n > 0 {
		return m.log[n-1].zxid
	}
	for _, a := range slices.Backward(m.queue) {
		if a.entry != nil {
			return a.entry.zxid
		}
	}
	return m.s.zxid
}

// canServe reports whether this member can serve the client now.
func (m *ensembleMember) canServe(c *clientConn, req *jute.ConnectRequest) bool {
	note := ""
	switch {
	case m.role == looking:
		note = "refused: this member has no leader"
	case m.role == onlyReads && !req.ReadOnly:
		note = "refused: this member only reads, the client wants to write"
	default:
		return true
	}
	m.s.trace.addEntry(traceEntry{kind: traceNote, conn: c.id, session: req.SessionID, note: note})
	return false
}

// revalidate asks the leader whether a session is alive. If it is, that touches the session and makes this
// member its owner.
func (m *ensembleMember) revalidate(id, timeout int64, done func(*sessionRecord)) {
	switch m.role {
	case leading:
		if !m.claimSession(id, timeout, m.s) {
			done(nil)
			return
		}
		done(m.s.sessions[id])
	case following:
		b := m.boss
		b.sendToLeader(func(l *ensembleMember) {
			valid := l.claimSession(id, timeout, m.s)
			b.sendToFollower(func(f *ensembleMember) {
				if !valid {
					done(nil)
					return
				}
				if f.s.sessions[id] == nil { // the entry that opens it is not applied here yet
					f.s.sessions[id] = &sessionRecord{id: id, timeout: timeout}
				}
				done(f.s.sessions[id])
			})
		})
	default:
		done(m.s.sessions[id])
	}
}

// claimSession reports, at the leader, whether a session is alive. If it is, own touches it and makes a server its
// owner.
func (m *ensembleMember) claimSession(id, timeout int64, owner *Server) bool {
	ses := m.s.sessions[id]
	if ses == nil || ses.closing {
		return false
	}
	ses.owner = owner
	m.s.touchSession(ses, timeout)
	return true
}

// parkRequest queues a request that has to wait for the log, and later requests of the same connection. It returns
// false if the request can be answered immediately.
func (m *ensembleMember) parkRequest(r *clientRequest) bool {
	op, known := m.s.findOperation(r.op)
	if !known && r.injected == ok {
		return false // it is answered ahead of the requests in flight
	}
	known = known && r.injected == ok
	isSync := r.op == jute.OpSync && m.role == following
	ordered := known && (op.prepare != nil || isSync) && (m.role == leading || m.role == following)
	if !ordered && len(r.conn.pending) == 0 {
		return false
	}
	r.conn.setParked(append(r.conn.pending, r))
	r.pending, r.waits = true, ordered
	switch {
	case isSync && ordered:
		m.forwardSync(r)
	case ordered:
		m.s.executeRequest(r)
	}
	return true
}

// unparkRequest removes an answered request from the queue, and executes the requests that waited only for it.
func (m *ensembleMember) unparkRequest(r *clientRequest) {
	c := r.conn
	r.pending, r.waits = false, false
	c.setParked(slices.DeleteFunc(c.pending, func(q *clientRequest) bool { return q == r }))
	for len(c.pending) > 0 && !c.pending[0].waits {
		q := c.pending[0]
		q.pending = false
		c.setParked(c.pending[1:])
		q.strike.beforeExecution(c)
		m.s.executeRequest(q)
		q.strike.afterExecution(c)
	}
}

// forwardSync sends a sync to the leader. The leader replies after all entries in its log are committed, and the
// client gets its reply after they are applied here. The reply does not prove that the leader has a quorum.
func (m *ensembleMember) forwardSync(r *clientRequest) {
	b := m.boss
	b.sendToLeader(func(l *ensembleMember) {
		back := func() {
			b.sendToFollower(func(f *ensembleMember) {
				f.scheduleEntry(scheduledEntry{then: func() {
					if r.conn.closed {
						return
					}
					strike := r.strike
					strike.beforeExecution(r.conn)
					rec, err := f.s.sync(r)
					f.s.replyNow(r, err, rec)
					f.unparkRequest(r)
					strike.afterExecution(r.conn)
				}})
			})
		}
		if n := len(l.log); n > 0 {
			l.log[n-1].syncs = append(l.log[n-1].syncs, back)
			return
		}
		back()
	})
}

// forwardEntry sends an entry to the leader. If the connection to the leader ends, the outcome is unknown to the
// client.
func (m *ensembleMember) forwardEntry(e *logEntry, prepare func(*Server, *logEntry)) {
	accept := func(l *ensembleMember) {
		l.s.proposeEntry(e, func(e *logEntry) {
			if e.err = l.checkSession(e); e.err == ok {
				prepare(l.s, e)
			}
		})
	}
	switch m.role {
	case leading:
		accept(m)
	case following:
		m.boss.sendToLeader(accept)
	}
}

// checkSession refuses a write of a session that has ended, or has moved to another member.
func (m *ensembleMember) checkSession(e *logEntry) Error {
	if e.request == nil || e.request.op == jute.OpCloseSession {
		return ok
	}
	ses := m.s.sessions[e.request.conn.sessionID]
	switch {
	case ses == nil || ses.closing:
		return ErrSessionExpired
	case ses.owner == nil:
		ses.owner = e.at
	case ses.owner != e.at:
		return ErrSessionMoved
	}
	return ok
}

// proposeToFollowers sends a leader's new entry to its followers.
func (m *ensembleMember) proposeToFollowers(e *logEntry) {
	m.log = append(m.log, e)
	e.acks |= m.indexBit()
	e.quorums = m.requiredMajorities()
	for _, b := range m.crew {
		b.sendToFollower(func(f *ensembleMember) {
			f.log = append(f.log, e)
			b.acknowledgeEntry(e)
		})
	}
	m.tryCommit()
}

// tryCommit commits, in order, the entries that a majority has. A retired leader commits no entry.
func (m *ensembleMember) tryCommit() {
	for len(m.log) > 0 && !m.retired && hasAllMajorities(m.log[0].quorums, m.log[0].acks) {
		e := m.log[0]
		m.log = m.log[1:]
		if len(m.log) == 0 {
			m.log = nil
			clear(m.ahead)
		}
		e.committed = true
		if e.config != nil {
			m.config, m.retired = e.config, !e.config.hasVoter(m)
		}
		m.applyEntry(e)
		for _, b := range m.crew {
			b.sendToFollower(func(f *ensembleMember) {
				f.log = f.log[1:] // it is e: proposals and commits come in the same order
				f.scheduleEntry(scheduledEntry{entry: e})
				f.adoptMembership(e.config)
			})
		}
		for _, back := range e.syncs {
			back()
		}
	}
}

func (m *ensembleMember) applyEntry(e *logEntry) {
	m.s.commitEntry(e)
	if m.e.applied != nil {
		m.e.applied(m.index, e)
	}
}

// scheduleEntry schedules an entry or a sync reply after the member's lag, and after those enqueued earlier.
func (m *ensembleMember) scheduleEntry(a scheduledEntry) {
	a.at = time.Now().Add(m.lag)
	if n := len(m.queue); n > 0 && m.queue[n-1].at.After(a.at) {
		a.at = m.queue[n-1].at
	}
	m.queue = append(m.queue, a)
}

// applyDueEntries applies the entries and sync replies that are due, and reports whether there were any.
func (m *ensembleMember) applyDueEntries(now time.Time) bool {
	any := false
	for len(m.queue) > 0 && !m.s.paused && !m.queue[0].at.After(now) {
		a := m.queue[0]
		if m.queue = m.queue[1:]; len(m.queue) == 0 {
			m.queue = nil
		}
		if a.entry != nil {
			m.applyEntry(a.entry)
		} else {
			a.then()
		}
		any = true
	}
	return any
}

// ephemeralsOf lists the nodes that are deleted with a session, and records their deletion. In an ensemble it includes
// nodes whose creation is proposed, and excludes nodes whose deletion is proposed.
func (s *Server) ephemeralsOf(e *logEntry) []string {
	paths := s.tree.ephemeralsOf(e.closes)
	if s.member == nil {
		return paths
	}
	ahead := s.member.ahead
	paths = slices.DeleteFunc(paths, func(path string) bool { return ahead[path] != nil })
	var more []string
	for path, rec := range ahead {
		if !rec.gone && rec.owner == e.closes {
			more = append(more, path)
		}
	}
	slices.Sort(more)
	paths = append(paths, more...)
	p := s.preparationFor(e, 0, nil)
	for _, path := range paths {
		p.recordDeletion(path)
	}
	p.publishFuture()
	return paths
}
