package zktest

import (
	"slices"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// clientRequest is a request being executed.
type clientRequest struct {
	conn    *clientConn
	xid, op int32
	body    *jute.Coder
	path    string // for the trace, once known
	parts   string // of a multi, for the trace

	injected Error           // the reply of an injected fault; the request is not executed
	pending  bool            // in clientConn.pending
	waits    bool            // for its entry in the ensemble's log; otherwise only for the requests before it
	strike   injectionEffect // the effect of an injection on its reply
	listed   bool            // the reply has a body in spite of its error
}

// decodeRecord reads the request's record.
func (r *clientRequest) decodeRecord(rec jute.Record) Error {
	if rec.Fields(r.body); r.body.Err() != nil {
		return ErrMarshalling
	}
	return ok
}

// operationKind is one operation of the protocol. A read has serve, which runs under the server's lock and returns
// the reply's body and code; a body is sent even with an error. A write is ordered: prepare fills the entry of the
// log at the server that orders writes, and answer makes the reply's body from the results, at the client's server.
type operationKind struct {
	serve   func(*Server, *clientRequest) (jute.Record, Error)
	prepare func(*Server, *clientRequest, *logEntry) Error
	answer  func(*clientRequest, []applyResult) jute.Record
}

var operations map[int32]operationKind

// The table is filled in init, since it refers to functions that read it (multi).
func init() {
	operations = map[int32]operationKind{
		jute.OpPing:                 {serve: (*Server).ping},
		jute.OpCreate:               {prepare: (*Server).prepareWrite, answer: writePathReply},
		jute.OpCreate2:              {prepare: (*Server).prepareWrite, answer: writePathReply},
		jute.OpCreateContainer:      {prepare: (*Server).prepareWrite, answer: writePathReply},
		jute.OpCreateTTL:            {prepare: (*Server).prepareWrite, answer: writePathReply},
		jute.OpDelete:               {prepare: (*Server).prepareWrite, answer: writePathReply},
		jute.OpDeleteContainer:      {prepare: (*Server).deleteContainer},
		jute.OpSetData:              {prepare: (*Server).prepareWrite, answer: writePathReply},
		jute.OpSetACL:               {prepare: (*Server).prepareWrite, answer: writePathReply},
		jute.OpCheck:                {prepare: (*Server).prepareWrite, answer: writePathReply},
		jute.OpReconfig:             {prepare: (*Server).reconfig, answer: reconfigReply},
		jute.OpMulti:                {prepare: (*Server).multi, answer: multiReply},
		jute.OpCreateSession:        {prepare: (*Server).createSession},
		jute.OpCloseSession:         {prepare: (*Server).closeOwnSession},
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

// findOperation returns the operation of an opcode, and reports whether the server has it.
func (s *Server) findOperation(op int32) (operationKind, bool) {
	found, known := operations[op]
	return found, known && !slices.Contains(s.cfg.Profile.behaviour().unknown, op)
}

// submitRequest is the request pipeline. It touches the session first, whatever the request. It drops requests
// without a session, and sends no reply.
func (s *Server) submitRequest(r *clientRequest, injected Error) {
	c := r.conn
	if c.session == nil {
		c.traceText("request dropped: no such session")
		return
	}
	s.touchSession(c.session, c.timeout)
	r.injected = injected
	if s.member != nil && s.member.parkRequest(r) {
		return
	}
	s.executeRequest(r)
}

// executeRequest answers a request, or orders its entry: then commit answers it.
func (s *Server) executeRequest(r *clientRequest) {
	c := r.conn
	op, known := s.findOperation(r.op)
	switch {
	case r.injected != ok:
		s.replyNow(r, r.injected, nil)
	case !known:
		s.replyWithZxid(r, -1, ErrUnimplemented, nil)
		c.closeConn(true)
	case s.isReadOnly() && r.op == jute.OpCloseSession:
		if c.session != nil && c.session.local {
			s.removeSession(c.sessionID)
		} // otherwise the session stays: it can only be closed by the log
		s.replyNow(r, ok, nil)
		c.closeConn(true)
	case s.isReadOnly() && (op.prepare != nil || r.op == jute.OpSync):
		s.replyNow(r, ErrNotReadOnly, nil)
	case op.prepare != nil:
		s.passToOrderer(&logEntry{request: r, at: s}, func(l *Server, e *logEntry) { e.err = op.prepare(l, r, e) })
	default:
		rec, err := op.serve(s, r)
		s.replyNow(r, err, rec)
	}
}

// replyToWrite replies to a write that has been applied here.
func (s *Server) replyToWrite(e *logEntry, results []applyResult) {
	r := e.request
	if e.err == ErrSessionMoved {
		r.conn.closeConn(true) // without a reply
		return
	}
	var rec jute.Record
	if answer := operations[r.op].answer; answer != nil && (e.err == ok || r.listed) {
		rec = answer(r, results)
	}
	if r.op == jute.OpCheck && e.err == ok {
		r.conn.traceText("check succeeds outside a multi: never answered, as in 3.8")
		return
	}
	if r.op == jute.OpCreateSession && e.err == ok {
		r.conn.queueFrame(jute.Frame(r.conn.handshakeReply()))
		return
	}
	s.replyNow(r, e.err, rec)
	if r.op == jute.OpCloseSession {
		r.conn.closeConn(true)
	}
}

func (s *Server) replyNow(r *clientRequest, err Error, rec jute.Record) {
	if r.op == jute.OpPing {
		r.xid = jute.XidPing
	}
	s.replyWithZxid(r, s.zxid, err, rec)
}

func (s *Server) replyWithZxid(r *clientRequest, zxid int64, err Error, rec jute.Record) {
	s.trace.addEntry(traceEntry{
		kind: traceReply, conn: r.conn.id, session: r.conn.sessionID, from: r.conn.from,
		xid: r.xid, op: r.op, path: r.path, parts: r.parts, zxid: zxid, err: err,
	})
	r.conn.lastXid, r.conn.lastZxid, r.conn.answered = r.xid, zxid, time.Now()
	header := &jute.ReplyHeader{Xid: r.xid, Zxid: zxid, Err: int32(err)}
	if rec == nil {
		r.conn.queueFrame(jute.Frame(header))
		return
	}
	r.conn.queueFrame(jute.Frame(header, rec))
}
