package zktest

import (
	"github.com/go-curator/curator/internal/jute"
)

// request is a request being executed.
type request struct {
	conn    *conn
	xid, op int32
	body    *jute.Decoder
	path    string // for the trace, once known
}

// decode reads the request's record.
func (r *request) decode(rec jute.Decodable) Error {
	if rec.Decode(r.body); r.body.Err() != nil {
		return ErrMarshalling
	}
	return ok
}

// operation is one operation of the protocol. serve runs under the server's lock and returns the reply's body and code; a body with an error is
// sent, too.
type operation struct {
	serve   func(*Server, *request) (jute.Record, Error)
	since36 bool // unknown to 3.5
}

var operations map[int32]operation

// The table refers to functions that look into it (multi), hence init.
func init() {
	operations = map[int32]operation{
		jute.OpPing:                 {serve: (*Server).ping},
		jute.OpCreate:               {serve: (*Server).write},
		jute.OpCreate2:              {serve: (*Server).write},
		jute.OpCreateContainer:      {serve: (*Server).write},
		jute.OpCreateTTL:            {serve: (*Server).write},
		jute.OpDelete:               {serve: (*Server).write},
		jute.OpDeleteContainer:      {serve: (*Server).deleteContainer},
		jute.OpSetData:              {serve: (*Server).write},
		jute.OpSetACL:               {serve: (*Server).write},
		jute.OpCheck:                {serve: (*Server).write},
		jute.OpReconfig:             {serve: (*Server).reconfig},
		jute.OpMulti:                {serve: (*Server).multi},
		jute.OpCloseSession:         {serve: (*Server).closeBySelf},
		jute.OpExists:               {serve: (*Server).exists},
		jute.OpGetData:              {serve: (*Server).getData},
		jute.OpGetACL:               {serve: (*Server).getACL},
		jute.OpGetChildren:          {serve: (*Server).getChildren},
		jute.OpGetChildren2:         {serve: (*Server).getChildren2},
		jute.OpSync:                 {serve: (*Server).sync},
		jute.OpMultiRead:            {serve: (*Server).multiRead, since36: true},
		jute.OpGetEphemerals:        {serve: (*Server).getEphemerals, since36: true},
		jute.OpGetAllChildrenNumber: {serve: (*Server).getAllChildrenNumber, since36: true},
		jute.OpWhoAmI:               {serve: (*Server).whoAmI, since36: true},
		jute.OpSetWatches:           {serve: (*Server).setWatches},
		jute.OpSetWatches2:          {serve: (*Server).setWatches, since36: true},
		jute.OpAddWatch:             {serve: (*Server).addWatch, since36: true},
		jute.OpCheckWatches:         {serve: (*Server).checkWatches},
		jute.OpRemoveWatches:        {serve: (*Server).removeWatches},
	}
}

// submit is the request pipeline: it touches the session first, whatever the request is worth, and drops without an answer what belongs to no session.
func (s *Server) submit(r *request, injected Error) {
	c := r.conn
	if c.session == nil {
		s.trace.add(traceEntry{kind: traceNote, conn: c.id, session: c.sessionID, note: "request dropped: no such session"})
		return
	}
	s.touch(c.session, c.timeout)
	op, known := operations[r.op]
	switch {
	case injected != ok:
		s.reply(r, injected, nil)
	case !known || op.since36 && s.cfg.Profile == V35:
		s.replyAt(r, -1, ErrUnimplemented, nil)
		c.end(true)
	default:
		rec, err := op.serve(s, r)
		if r.op == jute.OpCheck && err == ok {
			s.trace.add(traceEntry{kind: traceNote, conn: c.id, session: c.sessionID, note: "check succeeds outside a multi: never answered, as in 3.8"})
			return
		}
		s.reply(r, err, rec)
		if r.op == jute.OpCloseSession {
			c.end(true)
		}
	}
}

func (s *Server) reply(r *request, err Error, rec jute.Record) {
	if r.op == jute.OpPing {
		r.xid = jute.XidPing
	}
	s.replyAt(r, s.zxid, err, rec)
}

func (s *Server) replyAt(r *request, zxid int64, err Error, rec jute.Record) {
	s.trace.add(traceEntry{kind: traceReply, conn: r.conn.id, session: r.conn.sessionID, xid: r.xid, op: r.op, path: r.path, zxid: zxid, err: err})
	r.conn.lastXid, r.conn.lastZxid = r.xid, zxid
	header := &jute.ReplyHeader{Xid: r.xid, Zxid: zxid, Err: int32(err)}
	if rec == nil {
		r.conn.send(jute.Frame(header))
		return
	}
	r.conn.send(jute.Frame(header, rec))
}
