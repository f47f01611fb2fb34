package zktest

import (
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// delete (2). deleteContainer (20) is the reaper's.

func (p *preparation) delete(r *jute.PathVersionRequest) (*transaction, Error) {
	dir, err := parseDeletePath(r.Path)
	if err != ok {
		return nil, err
	}
	parent, err := p.lookup(dir)
	if err != ok {
		return nil, err
	}
	n, missing := p.lookup(r.Path)
	if missing != ok && p.s.cfg.Profile.behaviour().nodeFirst {
		return nil, missing
	}
	if err := p.checkPermission(parent, jute.PermDelete); err != ok {
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
	p.recordFuture(dir, parent)
	p.recordFuture(r.Path, futureNode{gone: true})
	return &transaction{op: jute.OpDelete, path: r.Path}, ok
}

func parseDeletePath(path string) (dir string, err Error) {
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
	parent := s.tree.lookup(dir)
	s.tree.removeNode(path)
	parent.pzxid = max(parent.pzxid, zxid)
	s.quotaDeleted(path, n)
	told := s.triggerWatches(s.dataWatches, jute.EventNodeDeleted, path, zxid, n.acl, nil)
	s.triggerWatches(s.kidWatches, jute.EventNodeDeleted, path, zxid, n.acl, told)
	s.triggerWatches(s.kidWatches, jute.EventNodeChildrenChanged, parentOf(path), zxid, parent.acl, nil)
}
