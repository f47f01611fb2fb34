package zktest

import (
	"maps"

	"github.com/go-curator/curator/internal/jute"
)

// A write has two halves, as in the real server: prepare checks it against the future state (the tree, overlaid with
// the effects of earlier operations of the same multi, and in an ensemble of entries in the log) and returns a
// transaction; apply changes the tree and fires watches.

// txn is a change that has been checked.
type txn struct {
	op       int32 // jute.OpCreate …, jute.OpCheck; jute.OpError for an operation of a failed multi
	path     string
	data     []byte
	acl      []jute.ACL
	owner    int64
	cversion int32 // create: the parent's; setData and setACL: the version
	err      Error
}

// result is the result of apply.
type result struct {
	op   int32
	path string
	stat *jute.Stat
	err  Error
}

// prep prepares the operations of one request under one zxid.
type prep struct {
	s       *Server
	session int64
	auth    []identity
	zxid    int64
	now     int64
	ahead   map[string]*record // nodes after this request; nil if no later operation reads them
}

// record is a node in the future state.
type record struct {
	nodeStat
	gone     bool
	children int
	acl      []jute.ACL
	size     int
}

func (s *Server) newPrep(r *request, e *entry) *prep {
	return s.prepFor(e, r.conn.sessionID, r.conn.auth)
}

func (s *Server) prepFor(e *entry, session int64, auth []identity) *prep {
	p := &prep{s: s, session: session, auth: auth, zxid: e.zxid, now: e.now}
	if s.member != nil {
		p.ahead = map[string]*record{}
	}
	return p
}

// keep makes the future state visible to later requests, in an ensemble.
func (p *prep) keep() {
	if p.s.member != nil {
		maps.Copy(p.s.member.ahead, p.ahead)
	}
}

func (p *prep) lookup(path string) (record, Error) {
	if rec, found := p.ahead[path]; found {
		if rec.gone {
			return record{}, ErrNoNode
		}
		return *rec, ok
	}
	if p.s.member != nil {
		if rec, found := p.s.member.ahead[path]; found {
			if rec.gone {
				return record{}, ErrNoNode
			}
			return *rec, ok
		}
	}
	n := p.s.tree.get(path)
	if n == nil {
		return record{}, ErrNoNode
	}
	return record{nodeStat: n.nodeStat, children: len(n.children), acl: n.acl, size: len(n.data)}, ok
}

func (p *prep) note(path string, rec record) {
	if p.ahead != nil {
		p.ahead[path] = &rec
	}
}

func (p *prep) allowed(rec record, perm int32) Error {
	if !allowed(rec.acl, perm, p.auth) {
		return ErrNoAuth
	}
	return ok
}

// prepare checks one operation and returns its transaction.
func (p *prep) prepare(op int32, rec jute.Record) (*txn, Error) {
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

// write prepares a request that is one transaction. A write that fails also consumes a zxid.
func (s *Server) write(r *request, e *entry) Error {
	rec := writeRecord(r.op)
	if err := r.decode(rec); err != ok {
		return err
	}
	r.path = pathOf(rec)
	p := s.newPrep(r, e)
	t, err := p.prepare(r.op, rec)
	if err != ok {
		return err
	}
	p.keep()
	e.txns = []*txn{t}
	return ok
}

func written(r *request, results []result) jute.Record {
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

func writeRecord(op int32) jute.Record {
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

// pathOf returns the path of a request's record, "" if it has none.
func pathOf(rec any) string {
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

// apply changes the tree. It cannot fail: prepare has checked the transaction.
func (s *Server) apply(t *txn, zxid, now int64) result {
	res := result{op: t.op, path: t.path, err: t.err}
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
		n := s.tree.get(t.path)
		n.acl, n.aversion = t.acl, t.cversion
		stat := n.stat()
		res.stat = &stat
	}
	return res
}
