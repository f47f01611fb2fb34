package zktest

import "github.com/go-curator/curator/internal/jute"

// setData (5), setACL (7), check (13).

func (p *preparation) setData(r *jute.SetDataRequest) (*transaction, Error) {
	if !validPath(r.Path) {
		return nil, ErrBadArguments
	}
	n, err := p.lookup(r.Path)
	if err != ok {
		return nil, err
	}
	if err := p.checkPermission(n, jute.PermWrite); err != ok {
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
	p.recordFuture(r.Path, n)
	return &transaction{op: jute.OpSetData, path: r.Path, data: r.Data, cversion: n.version}, ok
}

func (s *Server) applySetData(t *transaction, zxid, now int64) *jute.Stat {
	n := s.tree.lookup(t.path)
	before := len(n.data)
	n.data, n.version, n.mzxid, n.mtime = t.data, t.cversion, zxid, now
	stat := n.clientStat()
	s.quotaChanged(t.path, int64(len(n.data)-before), 0)
	s.triggerWatches(s.dataWatches, jute.EventNodeDataChanged, t.path, zxid, n.acl, nil)
	return &stat
}

func (p *preparation) setACL(r *jute.SetACLRequest) (*transaction, Error) {
	if !validPath(r.Path) {
		return nil, ErrBadArguments
	}
	acl, err := p.s.resolveACL(r.ACL, p.auth)
	if err != ok {
		return nil, err
	}
	n, err := p.lookup(r.Path)
	if err != ok {
		return nil, err
	}
	if err := p.checkPermission(n, jute.PermAdmin); err != ok {
		return nil, err
	}
	if r.Version != -1 && r.Version != n.aversion {
		return nil, ErrBadVersion
	}
	n.aversion++
	n.acl = acl
	p.recordFuture(r.Path, n)
	return &transaction{op: jute.OpSetACL, path: r.Path, acl: acl, cversion: n.aversion}, ok
}

func (p *preparation) check(r *jute.PathVersionRequest) (*transaction, Error) {
	if !validPath(r.Path) {
		return nil, ErrBadArguments
	}
	n, err := p.lookup(r.Path)
	if err != ok {
		return nil, err
	}
	if err := p.checkPermission(n, jute.PermRead); err != ok {
		return nil, err
	}
	if r.Version != -1 && r.Version != n.version {
		return nil, ErrBadVersion
	}
	return &transaction{op: jute.OpCheck, path: r.Path}, ok
}
