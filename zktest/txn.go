package zktest

import (
	"maps"

	"github.com/go-curator/curator/internal/jute"
)

// A write has two halves, as in the real server: prepare checks it against the future state (the tree, overlaid with
// the effects of earlier operations of the same multi, and in an ensemble of entries in the log) and returns a
// transaction; apply changes the tree and fires watches.

// transaction is a change that has been checked.
type transaction struct {
	op       int32 // jute.OpCreate …, jute.OpCheck; jute.OpError for an operation of a failed multi
	path     string
	data     []byte
	acl      []jute.ACL
	owner    int64
	cversion int32 // create: the parent's; setData and setACL: the version
	err      Error
}

// applyResult is the result of apply.
type applyResult struct {
	op   int32
	path string
	stat *jute.Stat
	err  Error
}

// preparation prepares the operations of one request under one zxid.
type preparation struct {
	s       *Server
	session int64
	auth    []provedIdentity
	zxid    int64
	now     int64
	ahead   map[string]*futureNode // nodes after this request; nil if no later operation reads them
}

// futureNode is a node in the future state.
type futureNode struct {
	storedStat
	gone     bool
	children int
	acl      []jute.ACL
	size     int
}

func (s *Server) newPreparation(r *clientRequest, e *logEntry) *preparation {
	return s.preparationFor(e, r.conn.sessionID, r.conn.auth)
}

func (s *Server) preparationFor(e *logEntry, session int64, auth []provedIdentity) *preparation {
	p := &preparation{s: s, session: session, auth: auth, zxid: e.zxid, now: e.now}
	if s.member != nil {
		p.ahead = map[string]*futureNode{}
	}
	return p
}

// publishFuture makes the future state visible to later requests, in an ensemble.
func (p *preparation) publishFuture() {
	if p.s.member != nil {
		maps.Copy(p.s.member.ahead, p.ahead)
	}
}

func (p *preparation) lookup(path string) (futureNode, Error) {
	if rec, found := p.ahead[path]; found {
		if rec.gone {
			return futureNode{}, ErrNoNode
		}
		return *rec, ok
	}
	if p.s.member != nil {
		if rec, found := p.s.member.ahead[path]; found {
			if rec.gone {
				return futureNode{}, ErrNoNode
			}
			return *rec, ok
		}
	}
	n := p.s.tree.lookup(path)
	if n == nil {
		return futureNode{}, ErrNoNode
	}
	return futureNode{storedStat: n.storedStat, children: len(n.children), acl: n.acl, size: len(n.data)}, ok
}

func (p *preparation) recordFuture(path string, rec futureNode) {
	if p.ahead != nil {
		p.ahead[path] = &rec
	}
}

func (p *preparation) checkPermission(rec futureNode, perm int32) Error {
	if !aclAllows(rec.acl, perm, p.auth) {
		return ErrNoAuth
	}
	return ok
}

// prepareOperation checks one operation and returns its transaction.
func (p *preparation) prepareOperation(op int32, rec jute.Record) (*transaction, Error) {
	switch r := rec.(type) {
	case *jute.CreateRequest:
		return p.create(op, r, -1)
	case *jute.CreateTTLRequest:
		return p.create(op, &r.CreateRequest, r.TTL)
	case *jute.PathVersionRequest:
		if op == jute.OpCheck {
			return p.check(r)
		}
		return p.delete(r)
	case *jute.SetDataRequest:
		return p.setData(r)
	case *jute.SetACLRequest:
		return p.setACL(r)
	}
	return nil, ErrMarshalling
}

// prepareWrite prepares a request that is one transaction. A write that fails also consumes a zxid.
func (s *Server) prepareWrite(r *clientRequest, e *logEntry) Error {
	rec := decodeWrite(r.op)
	if err := r.decodeRecord(rec); err != ok {
		return err
	}
	r.path = recordPath(rec)
	p := s.newPreparation(r, e)
	t, err := p.prepareOperation(r.op, rec)
	if err != ok {
		return err
	}
	p.publishFuture()
	e.txns = []*transaction{t}
	return ok
}

func writePathReply(r *clientRequest, results []applyResult) jute.Record {
	res := results[0]
	r.path = res.path
	switch r.op {
	case jute.OpCreate:
		return &jute.PathResponse{Path: res.path}
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return &jute.Create2Response{Path: res.path, Stat: *res.stat}
	case jute.OpSetData, jute.OpSetACL:
		return &jute.StatResponse{Stat: *res.stat}
	}
	return nil
}

func decodeWrite(op int32) jute.Record {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		return &jute.CreateRequest{}
	case jute.OpCreateTTL:
		return &jute.CreateTTLRequest{}
	case jute.OpDelete, jute.OpCheck:
		return &jute.PathVersionRequest{}
	case jute.OpSetData:
		return &jute.SetDataRequest{}
	case jute.OpSetACL:
		return &jute.SetACLRequest{}
	}
	return nil
}

// recordPath returns the path of a request's record, "" if it has none.
func recordPath(rec any) string {
	switch r := rec.(type) {
	case *jute.CreateRequest:
		return r.Path
	case *jute.CreateTTLRequest:
		return r.Path
	case *jute.PathVersionRequest:
		return r.Path
	case *jute.PathRequest:
		return r.Path
	case *jute.PathWatchRequest:
		return r.Path
	case *jute.PathIntRequest:
		return r.Path
	case *jute.SetDataRequest:
		return r.Path
	case *jute.SetACLRequest:
		return r.Path
	}
	return ""
}

// applyTransaction changes the tree. It cannot fail: prepare has checked the transaction.
func (s *Server) applyTransaction(t *transaction, zxid, now int64) applyResult {
	res := applyResult{op: t.op, path: t.path, err: t.err}
	switch t.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		res.stat = s.applyCreate(t, zxid, now)
	case jute.OpDelete, jute.OpDeleteContainer:
		s.applyDelete(t.path, zxid)
	case jute.OpSetData:
		res.stat = s.applySetData(t, zxid, now)
	case jute.OpReconfig:
		res.stat = s.applyReconfig(t, zxid, now)
	case jute.OpSetACL:
		n := s.tree.lookup(t.path)
		n.acl, n.aversion = t.acl, t.cversion
		stat := n.clientStat()
		res.stat = &stat
	}
	return res
}
