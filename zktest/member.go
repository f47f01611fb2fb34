package zktest

import (
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// role is a member's state in the ensemble.
type role uint8

const (
	looking   role = iota // looking for a leader; no client is served
	following             // a leader
	leading
	onlyReads // looking for a leader, and serving read-only clients
)

// member is a server's part in an ensemble. It is guarded by the lock that all members share.
type member struct {
	e     *Ensemble
	s     *Server
	index int
	role  role
	epoch int64
	log   []*entry        // accepted, in order; this member has not learned that they are committed
	queue []applying      // committed, in order, to be applied
	lag   time.Duration   // between the two
	boss  *bond           // a follower's, to its leader
	crew  []*bond         // a leader's, to its followers
	moved map[int64]int64 // a follower's: timeouts of the sessions touched since the leader's last ping

	config  *membership // the newest committed one in this member's log
	retired bool        // of a leader: the last configuration that it committed gives it no vote

	ahead      map[string]*record // a leader's: the nodes that the entries of log will change
	nextTick   time.Time          // a leader's next ping, zero while nothing depends on it
	odd        bool               // every second ping it counts its followers
	readOnlyAt time.Time          // when a looking member begins to serve reads, zero: never
}

// applying is an entry, or the reply to a sync, with the time when it is due.
type applying struct {
	at    time.Time
	entry *entry
	then  func()
}

func (m *member) bit() uint { return 1 << m.index }

func (m *member) id() int64 { return int64(m.index + 1) }

// tracks reports whether this member has to expire the session.
func (m *member) tracks(ses *session) bool { return m.role == leading || ses.local }

// touched records a session for the reply to the leader's next ping: only by this reply the leader learns that the
// client is alive.
func (m *member) touched(id, timeout int64) {
	if m.role == following {
		m.moved[id] = timeout
	}
}

func (s *Server) readOnly() bool { return s.member != nil && s.member.role == onlyReads }

// lastLogged returns the zxid of the newest transaction in the member's log.
func (m *member) lastLogged() int64 {
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

// welcomes reports whether this member can serve the client now.
func (m *member) welcomes(c *conn, req *jute.ConnectRequest) bool {
	note := ""
	switch {
	case m.role == looking:
		note = "refused: this member has no leader"
	case m.role == onlyReads && !req.ReadOnly:
		note = "refused: this member only reads, the client wants to write"
	default:
		return true
	}
	m.s.trace.add(traceEntry{kind: traceNote, conn: c.id, session: req.SessionID, note: note})
	return false
}

// revalidate asks the leader whether a session is alive. If it is, that touches the session and makes this
// member its owner.
func (m *member) revalidate(id, timeout int64, done func(*session)) {
	switch m.role {
	case leading:
		if !m.own(id, timeout, m.s) {
			done(nil)
			return
		}
		done(m.s.sessions[id])
	case following:
		b := m.boss
		b.toLeader(func(l *member) {
			valid := l.own(id, timeout, m.s)
			b.toFollower(func(f *member) {
				if !valid {
					done(nil)
					return
				}
				if f.s.sessions[id] == nil { // the entry that opens it is not applied here yet
					f.s.sessions[id] = &session{id: id, timeout: timeout}
				}
				done(f.s.sessions[id])
			})
		})
	default:
		done(m.s.sessions[id])
	}
}

// own reports, at the leader, whether a session is alive. If it is, own touches it and makes a server its owner.
func (m *member) own(id, timeout int64, owner *Server) bool {
	ses := m.s.sessions[id]
	if ses == nil || ses.closing {
		return false
	}
	ses.owner = owner
	m.s.touch(ses, timeout)
	return true
}

// park queues a request that has to wait for the log, and later requests of the same connection. It returns false if
// the request can be answered immediately.
func (m *member) park(r *request) bool {
	op, known := m.s.operation(r.op)
	if !known && r.injected == ok {
		return false // it is answered ahead of the requests in flight
	}
	known = known && r.injected == ok
	isSync := r.op == jute.OpSync && m.role == following
	ordered := known && (op.prepare != nil || isSync) && (m.role == leading || m.role == following)
	if !ordered && len(r.conn.pending) == 0 {
		return false
	}
	r.conn.park(append(r.conn.pending, r))
	r.pending, r.waits = true, ordered
	switch {
	case isSync && ordered:
		m.sync(r)
	case ordered:
		m.s.execute(r)
	}
	return true
}

// unpark removes an answered request from the queue, and executes the requests that waited only for it.
func (m *member) unpark(r *request) {
	c := r.conn
	r.pending, r.waits = false, false
	c.park(slices.DeleteFunc(c.pending, func(q *request) bool { return q == r }))
	for len(c.pending) > 0 && !c.pending[0].waits {
		q := c.pending[0]
		q.pending = false
		c.park(c.pending[1:])
		q.strike.begin(c)
		m.s.execute(q)
		q.strike.finish(c)
	}
}

// sync sends a sync to the leader. The leader replies after all entries in its log are committed, and the client gets
// its reply after they are applied here. The reply does not prove that the leader has a quorum.
func (m *member) sync(r *request) {
	b := m.boss
	b.toLeader(func(l *member) {
		back := func() {
			b.toFollower(func(f *member) {
				f.enqueue(applying{then: func() {
					if r.conn.closed {
						return
					}
					strike := r.strike
					strike.begin(r.conn)
					rec, err := f.s.sync(r)
					f.s.reply(r, err, rec)
					f.unpark(r)
					strike.finish(r.conn)
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

// forward sends an entry to the leader. If the connection to the leader ends, the outcome is unknown to the client.
func (m *member) forward(e *entry, prepare func(*Server, *entry)) {
	accept := func(l *member) {
		l.s.propose(e, func(e *entry) {
			if e.err = l.checkSession(e); e.err == ok {
				prepare(l.s, e)
			}
		})
	}
	switch m.role {
	case leading:
		accept(m)
	case following:
		m.boss.toLeader(accept)
	}
}

// checkSession refuses a write of a session that has ended, or has moved to another member.
func (m *member) checkSession(e *entry) Error {
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

// propose sends a leader's new entry to its followers.
func (m *member) propose(e *entry) {
	m.log = append(m.log, e)
	e.acks |= m.bit()
	e.quorums = m.quorums()
	for _, b := range m.crew {
		b.toFollower(func(f *member) {
			f.log = append(f.log, e)
			b.acknowledge(e)
		})
	}
	m.tryCommit()
}

// tryCommit commits, in order, the entries that a majority has. A retired leader commits no entry.
func (m *member) tryCommit() {
	for len(m.log) > 0 && !m.retired && agreed(m.log[0].quorums, m.log[0].acks) {
		e := m.log[0]
		m.log = m.log[1:]
		if len(m.log) == 0 {
			m.log = nil
			clear(m.ahead)
		}
		e.committed = true
		if e.config != nil {
			m.config, m.retired = e.config, !e.config.votes(m)
		}
		m.apply(e)
		for _, b := range m.crew {
			b.toFollower(func(f *member) {
				f.log = f.log[1:] // it is e: proposals and commits come in the same order
				f.enqueue(applying{entry: e})
				f.adopt(e.config)
			})
		}
		for _, back := range e.syncs {
			back()
		}
	}
}

func (m *member) apply(e *entry) {
	m.s.commit(e)
	if m.e.applied != nil {
		m.e.applied(m.index, e)
	}
}

// enqueue schedules an entry or a sync reply after the member's lag, and after those enqueued earlier.
func (m *member) enqueue(a applying) {
	a.at = time.Now().Add(m.lag)
	if n := len(m.queue); n > 0 && m.queue[n-1].at.After(a.at) {
		a.at = m.queue[n-1].at
	}
	m.queue = append(m.queue, a)
}

// applyDue applies the entries and sync replies that are due, and reports whether there were any.
func (m *member) applyDue(now time.Time) bool {
	any := false
	for len(m.queue) > 0 && !m.s.paused && !m.queue[0].at.After(now) {
		a := m.queue[0]
		if m.queue = m.queue[1:]; len(m.queue) == 0 {
			m.queue = nil
		}
		if a.entry != nil {
			m.apply(a.entry)
		} else {
			a.then()
		}
		any = true
	}
	return any
}

// ephemeralsOf lists the nodes that are deleted with a session, and records their deletion. In an ensemble it includes
// nodes whose creation is proposed, and excludes nodes whose deletion is proposed.
func (s *Server) ephemeralsOf(e *entry) []string {
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
	p := s.prepFor(e, 0, nil)
	for _, path := range paths {
		p.noteDelete(path)
	}
	p.keep()
	return paths
}
