package zktest

import (
	"slices"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// multi (14) and multiRead (22).

// multi executes all operations under one zxid, or none. In the reply of a failed multi each operation has an error: 0
// before the failed operation, its error for that operation, and runtime inconsistency after it.
func (s *Server) multi(r *clientRequest, e *logEntry) Error {
	ops, err := decodeMulti(r)
	if err != ok {
		return err
	}
	if slices.ContainsFunc(ops, func(op jute.MultiOp) bool { return recordPath(op.Request) == jute.Null }) {
		r.listed = s.cfg.Profile.behaviour().listsNothing
		return ErrMarshalling
	}
	if len(ops) > 0 && isReadOperation(ops[0]) {
		return ErrMarshalling
	}
	p := s.newPreparation(r, e)
	p.ahead = map[string]*futureNode{}
	txns := make([]*transaction, 0, len(ops))
	failed := ok
	for _, op := range ops {
		if failed != ok {
			txns = append(txns, &transaction{op: jute.OpError, err: ErrRuntimeInconsistency})
			continue
		}
		kind, rec := multiKind(op, p.s.cfg.Profile.behaviour().keepsCreate2)
		if kind == 0 {
			return ErrMarshalling
		}
		t, err := p.prepareOperation(kind, rec)
		if err == ErrMarshalling {
			return err // not a refusal: the server fails
		}
		if err != ok {
			failed = err
			for _, earlier := range txns {
				earlier.op, earlier.err = jute.OpError, ok
			}
			t = &transaction{op: jute.OpError, err: err}
		}
		txns = append(txns, t)
	}
	if e.txns = txns; failed == ok {
		p.publishFuture()
	}
	return ok
}

func multiReply(_ *clientRequest, results []applyResult) jute.Record {
	response := &jute.MultiResponse{}
	for _, res := range results {
		part := jute.MultiResult{Op: res.op, Err: int32(res.err), Path: res.path}
		if res.stat != nil {
			part.Stat = *res.stat
		}
		if res.op == jute.OpCreateContainer || res.op == jute.OpCreateTTL {
			part.Op = jute.OpCreate2
		}
		response.Results = append(response.Results, part)
	}
	return response
}

// multiKind returns the opcode and the record that the server executes for an operation. A create's flags decide
// first: the container flag makes a container (answered like create2, as is a TTL node). Then, if the server keeps
// create2, the opcode decides. The opcode 0 means TTL flags without a TTL.
func multiKind(op jute.MultiOp, keepsCreate2 bool) (int32, jute.Record) {
	switch c := op.Request.(type) {
	case *jute.CreateTTLRequest:
		if isTTL(c.Flags) {
			return jute.OpCreateTTL, c
		}
		return createKind(jute.OpCreate, c.Flags), &c.CreateRequest
	case *jute.CreateRequest:
		if keepsCreate2 {
			return createKind(op.Op, c.Flags), c
		}
		return createKind(jute.OpCreate, c.Flags), c
	}
	return op.Op, op.Request
}

func createKind(op, flags int32) int32 {
	switch {
	case flags == jute.ModeContainer:
		return jute.OpCreateContainer
	case isTTL(flags):
		return 0
	}
	return op
}

func decodeMulti(r *clientRequest) ([]jute.MultiOp, Error) {
	var req jute.MultiRequest
	bad := r.decodeRecord(&req)
	if len(req.Ops) > 0 {
		r.path = recordPath(req.Ops[0].Request)
	}
	r.parts = describeMulti(req.Ops)
	is := r.conn.s.cfg.Profile.behaviour()
	for _, op := range req.Ops {
		if c, create := op.Request.(*jute.CreateRequest); create && is.keepsCreate2 {
			switch {
			case c.Flags < jute.ModePersistent || c.Flags >= jute.ModePersistentTTL:
				return nil, ErrMarshalling
			case c.ACL == nil:
				r.listed = is.listsNothing
				return nil, ErrMarshalling
			}
		}
		if isReadOperation(op) != isReadOperation(req.Ops[0]) {
			return nil, ErrMarshalling // reads and writes do not mix
		}
		if isReadOperation(op) && slices.Contains(is.unknown, jute.OpMultiRead) {
			return nil, ErrMarshalling
		}
	}
	return req.Ops, bad
}

// describeMulti describes the operations of a multi for the trace, which keeps only the beginning of the text.
func describeMulti(ops []jute.MultiOp) string {
	var b strings.Builder
	for i, op := range ops {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(opName(op.Op) + " " + recordPath(op.Request))
		if b.Len() > tracePath {
			break
		}
	}
	return b.String()
}

func isReadOperation(op jute.MultiOp) bool {
	return op.Op == jute.OpGetData || op.Op == jute.OpGetChildren
}

func totalLength(names []string) (n int) {
	for _, name := range names {
		n += len(name)
	}
	return n
}

// multiRead answers each read separately. It ignores the watch flag, as the real server does. A small request may
// ask for a large node many times: a reply above drownLimit ends the connection instead.
func (s *Server) multiRead(r *clientRequest) (jute.Record, Error) {
	ops, err := decodeMulti(r)
	if err != ok {
		return nil, err
	}
	response, size := &jute.MultiResponse{}, 0
	for _, op := range ops {
		req, read := op.Request.(*jute.PathWatchRequest)
		if !read || req.Path == jute.Null {
			return response, ErrMarshalling
		}
		part := jute.MultiResult{Op: op.Op}
		n, err := s.readableNode(r.conn, req.Path)
		switch {
		case err != ok:
			part = jute.MultiResult{Op: jute.OpError, Err: int32(err)}
		case op.Op == jute.OpGetData:
			part.Data, part.Stat = n.data, n.clientStat()
		default:
			part.Children = n.childNames()
		}
		response.Results = append(response.Results, part)
		if size += len(part.Data) + totalLength(part.Children); size > drownLimit {
			s.logWarning("closing the connection: the answer to a multiRead would be too long", "conn", r.conn.id)
			r.conn.closeConn(true)
			return nil, ErrMarshalling
		}
	}
	return response, ok
}
