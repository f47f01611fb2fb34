package zktest

import (
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// delete (2). deleteContainer (20) is the reaper's.

func (p *prep) delete(r *jute.PathVersionRequest) (*txn, Error) {
	dir, err := deletable(r.Path)
	if err != ok {
		return nil, err
	}
	parent, err := p.lookup(dir)
	if err != ok {
		return nil, err
	}
	n, missing := p.lookup(r.Path)
	if missing != ok && p.s.cfg.Profile.is().nodeFirst {
		return nil, missing
	}
	if err := p.allowed(parent, jute.PermDelete); err != ok {
		return nil, err
	}
	if missing != ok {
		return nil, missing
	}
	switch {
	case r.Version != -1 && r.Version != n.version:
		return nil, ErrBadVersion
	case n.children > 0:
		return nil, ErrNotEmpty
	}
	parent.children--
	parent.pzxid = p.zxid
	p.note(dir, parent)
	p.note(r.Path, record{gone: true})
	return &txn{op: jute.OpDelete, path: r.Path}, ok
}

func deletable(path string) (dir string, err Error) {
	if path == jute.Null {
		return "", ErrMarshalling
	}
	if !strings.Contains(path, "/") || strings.IndexByte(path, 0) >= 0 || specialPath(path) {
		return "", ErrBadArguments
	}
	dir, _ = splitPath(path)
	return dir, ok
}

// applyDelete fires the node's data watches, then its child watches except of connections that have got the event
// already, then the parent's child watches.
func (s *Server) applyDelete(path string, zxid int64) {
	n := s.tree.nodes[path]
	dir, _ := splitPath(path)
	parent := s.tree.get(dir)
	s.tree.remove(path)
	parent.pzxid = max(parent.pzxid, zxid)
	s.quotaDeleted(path, n)
	told := s.trigger(s.dataWatches, jute.EventNodeDeleted, path, zxid, n.acl, nil)
	s.trigger(s.kidWatches, jute.EventNodeDeleted, path, zxid, n.acl, told)
	s.trigger(s.kidWatches, jute.EventNodeChildrenChanged, parentOf(path), zxid, parent.acl, nil)
}
