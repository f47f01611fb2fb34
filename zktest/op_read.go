package zktest

import (
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// exists (3), getData (4), getACL (6), getChildren (8), getChildren2 (12), getEphemerals (103),
// getAllChildrenNumber (104).

// readableNode returns a node that the connection may READ. Paths are not validated: an invalid path names no node,
// and a null one makes the real server fail.
func (s *Server) readableNode(c *clientConn, path string) (*treeNode, Error) {
	n := s.tree.lookup(path)
	switch {
	case path == jute.Null:
		return nil, ErrMarshalling
	case n == nil:
		return nil, ErrNoNode
	case !c.hasPermission(s, n.acl, jute.PermRead):
		return nil, ErrNoAuth
	}
	return n, ok
}

func (s *Server) addIfWatching(t *watchTable, c *clientConn, r *jute.PathWatchRequest) {
	if r.Watch {
		t.addWatch(r.Path, c, oneShot)
	}
}

// exists also watches an absent node.
func (s *Server) exists(r *clientRequest) (jute.Record, Error) {
	var req jute.PathWatchRequest
	if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	switch r.path = req.Path; {
	case req.Path == jute.Null:
		return nil, ErrMarshalling
	case strings.IndexByte(req.Path, 0) >= 0:
		return nil, ErrBadArguments
	}
	n := s.tree.lookup(req.Path)
	if n != nil && s.cfg.Profile.behaviour().existsNeedsRead && !r.conn.hasPermission(s, n.acl, jute.PermRead) {
		return nil, ErrNoAuth
	}
	s.addIfWatching(s.dataWatches, r.conn, &req)
	if n == nil {
		return nil, ErrNoNode
	}
	return &jute.StatResponse{Stat: n.clientStat()}, ok
}

func (s *Server) readAndWatch(r *clientRequest, t *watchTable) (*treeNode, Error) {
	var req jute.PathWatchRequest
	if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	r.path = req.Path
	n, err := s.readableNode(r.conn, req.Path)
	if err == ok {
		s.addIfWatching(t, r.conn, &req)
	}
	return n, err
}

func (s *Server) getData(r *clientRequest) (jute.Record, Error) {
	n, err := s.readAndWatch(r, s.dataWatches)
	if err != ok {
		return nil, err
	}
	return &jute.GetDataResponse{Data: n.data, Stat: n.clientStat()}, ok
}

func (s *Server) getChildren(r *clientRequest) (jute.Record, Error) {
	n, err := s.readAndWatch(r, s.kidWatches)
	if err != ok {
		return nil, err
	}
	return &jute.ChildrenResponse{Children: n.childNames()}, ok
}

func (s *Server) getChildren2(r *clientRequest) (jute.Record, Error) {
	n, err := s.readAndWatch(r, s.kidWatches)
	if err != ok {
		return nil, err
	}
	return &jute.Children2Response{Children: n.childNames(), Stat: n.clientStat()}, ok
}

// getACL needs READ or ADMIN; without ADMIN the hashes of digests are hidden.
func (s *Server) getACL(r *clientRequest) (jute.Record, Error) {
	var req jute.PathRequest
	if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	r.path = req.Path
	n := s.tree.lookup(req.Path)
	switch {
	case req.Path == jute.Null:
		return nil, ErrMarshalling
	case n == nil:
		return nil, ErrNoNode
	case !r.conn.hasPermission(s, n.acl, jute.PermRead|jute.PermAdmin):
		return nil, ErrNoAuth
	}
	acl := n.acl
	if acl == nil {
		acl = openACL
	}
	if !r.conn.hasPermission(s, n.acl, jute.PermAdmin) {
		shown := make([]jute.ACL, len(acl))
		for i, a := range acl {
			if user, _, hashed := strings.Cut(a.ID, ":"); a.Scheme == "digest" && hashed {
				a.ID = user + ":x"
			}
			shown[i] = a
		}
		acl = shown
	}
	return &jute.GetACLResponse{ACL: acl, Stat: n.clientStat()}, ok
}

// getEphemerals lists the session's own nodes whose paths begin with a prefix: "/a" also selects "/ab".
func (s *Server) getEphemerals(r *clientRequest) (jute.Record, Error) {
	var req jute.PathRequest
	if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	r.path = req.Path
	own := s.tree.ephemeralsOf(r.conn.sessionID)
	if prefix := strings.TrimSpace(req.Path); prefix != "" && prefix != rootPath && req.Path != jute.Null {
		kept := own[:0]
		for _, path := range own {
			if strings.HasPrefix(path, req.Path) {
				kept = append(kept, path)
			}
		}
		own = kept
	}
	return &jute.ChildrenResponse{Children: own}, ok
}

func (s *Server) getAllChildrenNumber(r *clientRequest) (jute.Record, Error) {
	var req jute.PathRequest
	if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	r.path = req.Path
	if _, err := s.readableNode(r.conn, req.Path); err != ok {
		return nil, err
	}
	return &jute.IntResponse{Value: int32(s.tree.countBelow(req.Path))}, ok
}
