package zktest

import "github.com/go-curator/curator/internal/jute"

// setData (5), setACL (7), check (13).

func (p *prep) setData(r *jute.SetDataRequest) (*txn, Error) {
	if !validPath(r.Path) {
		return nil, ErrBadArguments
	}
	n, err := p.lookup(r.Path)
	if err != ok {
		return nil, err
	}
	if err := p.allowed(n, jute.PermWrite); err != ok {
		return nil, err
	}
	if err := p.s.checkQuota(r.Path, int64(len(r.Data)-n.size), 0); err != ok {
		return nil, err
	}
	if r.Version != -1 && r.Version != n.version {
		return nil, ErrBadVersion
	}
	n.version++
	n.mzxid, n.mtime, n.size = p.zxid, p.now, len(r.Data)
	p.note(r.Path, n)
	return &txn{op: jute.OpSetData, path: r.Path, data: r.Data, cversion: n.version}, ok
}

func (s *Server) applySetData(t *txn, zxid, now int64) *jute.Stat {
	n := s.tree.get(t.path)
	before := len(n.data)
	n.data, n.version, n.mzxid, n.mtime = t.data, t.cversion, zxid, now
	stat := n.stat()
	s.quotaChanged(t.path, int64(len(n.data)-before), 0)
	s.trigger(s.dataWatches, jute.EventNodeDataChanged, t.path, zxid, n.acl, nil)
	return &stat
}

func (p *prep) setACL(r *jute.SetACLRequest) (*txn, Error) {
	if !validPath(r.Path) {
		return nil, ErrBadArguments
	}
	acl, err := p.s.fixACL(r.ACL, p.auth)
	if err != ok {
		return nil, err
	}
	n, err := p.lookup(r.Path)
	if err != ok {
		return nil, err
	}
	if err := p.allowed(n, jute.PermAdmin); err != ok {
		return nil, err
	}
	if r.Version != -1 && r.Version != n.aversion {
		return nil, ErrBadVersion
	}
	n.aversion++
	n.acl = acl
	p.note(r.Path, n)
	return &txn{op: jute.OpSetACL, path: r.Path, acl: acl, cversion: n.aversion}, ok
}

func (p *prep) check(r *jute.PathVersionRequest) (*txn, Error) {
	if !validPath(r.Path) {
		return nil, ErrBadArguments
	}
	n, err := p.lookup(r.Path)
	if err != ok {
		return nil, err
	}
	if err := p.allowed(n, jute.PermRead); err != ok {
		return nil, err
	}
	if r.Version != -1 && r.Version != n.version {
		return nil, ErrBadVersion
	}
	return &txn{op: jute.OpCheck, path: r.Path}, ok
}
