package zktest

import (
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// request is a request being executed.
type request struct {
	conn    *conn
	xid, op int32
	body    *jute.Coder
	path    string // for the trace, once known
	parts   string // of a multi, for the trace

	injected Error  // the reply of an injected fault; the request is not executed
	pending  bool   // in conn.pending
	waits    bool   // for its entry in the ensemble's log; otherwise only for the requests before it
	strike   strike // the effect of an injection on its reply
	listed   bool   // the reply has a body in spite of its error
}

// decode reads the request's record.
func (r *request) decode(rec jute.Record) Error {
	if rec.Fields(r.body); r.body.Err() != nil {
		return ErrMarshalling
	}
	return ok
}

// operation is one operation of the protocol. A read has serve, which runs under the server's lock and returns the
// reply's body and code; a body is sent even with an error. A write is ordered: prepare fills the entry of the log at
// the server that orders writes, and answer makes the reply's body from the results, at the client's server.
type operation struct {
	serve   func(*Server, *request) (jute.Record, Error)
	prepare func(*Server, *request, *entry) Error
	answer  func(*request, []result) jute.Record
}

var operations map[int32]operation

// The table is filled in init, since it refers to functions that read it (multi).
func init() {
	operations = map[int32]operation{
		jute.OpPing:                 {serve: (*Server).ping},
		jute.OpCreate:               {prepare: (*Server).write, answer: written},
		jute.OpCreate2:              {prepare: (*Server).write, answer: written},
		jute.OpCreateContainer:      {prepare: (*Server).write, answer: written},
		jute.OpCreateTTL:            {prepare: (*Server).write, answer: written},
		jute.OpDelete:               {prepare: (*Server).write, answer: written},
		jute.OpDeleteContainer:      {prepare: (*Server).deleteContainer},
		jute.OpSetData:              {prepare: (*Server).write, answer: written},
		jute.OpSetACL:               {prepare: (*Server).write, answer: written},
		jute.OpCheck:                {prepare: (*Server).write, answer: written},
		jute.OpReconfig:             {prepare: (*Server).reconfig, answer: reconfigured},
		jute.OpMulti:                {prepare: (*Server).multi, answer: multiWritten},
		jute.OpCreateSession:        {prepare: (*Server).createSession},
		jute.OpCloseSession:         {prepare: (*Server).closeBySelf},
		jute.OpExists:               {serve: (*Server).exists},
		jute.OpGetData:              {serve: (*Server).getData},
		jute.OpGetACL:               {serve: (*Server).getACL},
		jute.OpGetChildren:          {serve: (*Server).getChildren},
		jute.OpGetChildren2:         {serve: (*Server).getChildren2},
		jute.OpSync:                 {serve: (*Server).sync},
		jute.OpMultiRead:            {serve: (*Server).multiRead},
		jute.OpGetEphemerals:        {serve: (*Server).getEphemerals},
		jute.OpGetAllChildrenNumber: {serve: (*Server).getAllChildrenNumber},
		jute.OpWhoAmI:               {serve: (*Server).whoAmI},
		jute.OpSetWatches:           {serve: (*Server).setWatches},
		jute.OpSetWatches2:          {serve: (*Server).setWatches},
		jute.OpAddWatch:             {serve: (*Server).addWatch},
		jute.OpCheckWatches:         {serve: (*Server).checkWatches},
		jute.OpRemoveWatches:        {serve: (*Server).removeWatches},
	}
}

// operation returns the operation of an opcode, and reports whether the server has it.
func (s *Server) operation(op int32) (operation, bool) {
	found, known := operations[op]
	return found, known && !slices.Contains(s.cfg.Profile.is().unknown, op)
}

// submit is the request pipeline. It touches the session first, whatever the request. It drops requests without a
// session, and sends no reply.
func (s *Server) submit(r *request, injected Error) {
	c := r.conn
	if c.session == nil {
		c.note("request dropped: no such session")
		return
	}
	s.touch(c.session, c.timeout)
	r.injected = injected
	if s.member != nil && s.member.park(r) {
		return
	}
	s.execute(r)
}

// execute answers a request, or orders its entry: then commit answers it.
func (s *Server) execute(r *request) {
	c := r.conn
	op, known := s.operation(r.op)
	switch {
	case r.injected != ok:
		s.reply(r, r.injected, nil)
	case !known:
		s.replyAt(r, -1, ErrUnimplemented, nil)
		c.end(true)
	case s.readOnly() && r.op == jute.OpCloseSession:
		if c.session != nil && c.session.local {
			s.closes(c.sessionID)
		} // otherwise the session stays: it can only be closed by the log
		s.reply(r, ok, nil)
		c.end(true)
	case s.readOnly() && (op.prepare != nil || r.op == jute.OpSync):
		s.reply(r, ErrNotReadOnly, nil)
	case op.prepare != nil:
		s.order(&entry{request: r, at: s}, func(l *Server, e *entry) { e.err = op.prepare(l, r, e) })
	default:
		rec, err := op.serve(s, r)
		s.reply(r, err, rec)
	}
}

// written replies to a write that has been applied here.
func (s *Server) written(e *entry, results []result) {
	r := e.request
	if e.err == ErrSessionMoved {
		r.conn.end(true) // without a reply
		return
	}
	var rec jute.Record
	if answer := operations[r.op].answer; answer != nil && (e.err == ok || r.listed) {
		rec = answer(r, results)
	}
	if r.op == jute.OpCheck && e.err == ok {
		r.conn.note("check succeeds outside a multi: never answered, as in 3.8")
		return
	}
	if r.op == jute.OpCreateSession && e.err == ok {
		r.conn.send(jute.Frame(r.conn.hello()))
		return
	}
	s.reply(r, e.err, rec)
	if r.op == jute.OpCloseSession {
		r.conn.end(true)
	}
}

func (s *Server) reply(r *request, err Error, rec jute.Record) {
	if r.op == jute.OpPing {
		r.xid = jute.XidPing
	}
	s.replyAt(r, s.zxid, err, rec)
}

func (s *Server) replyAt(r *request, zxid int64, err Error, rec jute.Record) {
	s.trace.add(traceEntry{
		kind: traceReply, conn: r.conn.id, session: r.conn.sessionID, from: r.conn.from,
		xid: r.xid, op: r.op, path: r.path, parts: r.parts, zxid: zxid, err: err,
	})
	r.conn.lastXid, r.conn.lastZxid, r.conn.answered = r.xid, zxid, time.Now()
	header := &jute.ReplyHeader{Xid: r.xid, Zxid: zxid, Err: int32(err)}
	if rec == nil {
		r.conn.send(jute.Frame(header))
		return
	}
	r.conn.send(jute.Frame(header, rec))
}
