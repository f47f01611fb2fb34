package zktest

import (
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// role is what a member of an ensemble does.
type role uint8

const (
	looking   role = iota // for a leader; no client is served
	following             // a leader
	leading
	onlyReads // looking, and serving read-only clients meanwhile
)

// member is a server's part in an ensemble. It is guarded by the lock that all members share.
type member struct {
	e     *Ensemble
	s     *Server
	index int
	role  role
	epoch int64
	log   []*entry        // accepted, in order, and as far as this member knows not committed
	queue []applying      // committed, in order, to be applied
	lag   time.Duration   // between the two
	boss  *bond           // a follower's, to its leader
	crew  []*bond         // a leader's, to its followers
	moved map[int64]int64 // a follower's: timeouts of the sessions heard of since the leader last asked

	config  *membership // the newest that this member knows to be committed
	retired bool        // a leader's that the configuration it has committed last does not want as such

	ahead      map[string]*record // a leader's: what the entries of log will have changed
	nextTick   time.Time          // a leader's next ping, zero while nothing depends on it
	odd        bool               // every second ping it counts its followers
	readOnlyAt time.Time          // when a looking member begins to serve reads, zero: never
}

// applying is an entry, or the answer to a sync, that is applied when its time has come.
type applying struct {
	at    time.Time
	entry *entry
	then  func()
}

func (m *member) bit() uint { return 1 << m.index }

func (m *member) id() int64 { return int64(m.index + 1) }

// tracks reports whether this member has to expire the session.
func (m *member) tracks(ses *session) bool { return m.role == leading || ses.local }

// touched records a session for the answer to the leader's next ping, since only by this answer the leader
// learns that the client is alive.
func (m *member) touched(id, timeout int64) {
	if m.role == following {
		m.moved[id] = timeout
	}
}

func (s *Server) readOnly() bool { return s.member != nil && s.member.role == onlyReads }

// lastLogged is the newest transaction in the member's log.
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
				if f.s.sessions[id] == nil { // the log is not that far here
					f.s.sessions[id] = &session{id: id, timeout: timeout}
				}
				done(f.s.sessions[id])
			})
		})
	default:
		done(m.s.sessions[id])
	}
}

// own is a leader's answer to revalidate.
func (m *member) own(id, timeout int64, owner *Server) bool {
	ses := m.s.sessions[id]
	if ses == nil || ses.closing {
		return false
	}
	ses.owner = owner
	m.s.touch(ses, timeout)
	return true
}

// park queues a request that has to wait for the log, and later requests of the same connection. It returns
// false if the request can be answered at once.
func (m *member) park(r *request) bool {
	op, known := m.s.operation(r.op)
	if !known && r.injected == ok {
		return false // it is answered ahead of what is in flight
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

// unpark removes an answered request from the queue, and answers the requests that waited only for it.
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

// sync sends a sync to the leader. The answer comes back after all entries that the leader had committed, and
// is given after they are applied. It does not prove that the leader has a quorum.
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

// forward sends an entry to the leader. If the leader is gone, the client does not learn whether the entry
// was executed.
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

// checkSession refuses a write of a session that has ended, or has moved to another member since.
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

// tryCommit commits, in order, what a majority has. A leader that has retired commits nothing more.
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

// enqueue applies something after the member's lag, and after what was enqueued before.
func (m *member) enqueue(a applying) {
	a.at = time.Now().Add(m.lag)
	if n := len(m.queue); n > 0 && m.queue[n-1].at.After(a.at) {
		a.at = m.queue[n-1].at
	}
	m.queue = append(m.queue, a)
}

// applyDue applies what is due and says whether there was anything.
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

// ephemeralsOf lists the nodes that are deleted with a session: in an ensemble also those whose creation is
// proposed, but not those whose deletion is. It notes their deletion.
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
