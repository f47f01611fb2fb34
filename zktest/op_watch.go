package zktest

import (
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// setWatches (101), setWatches2 (105), addWatch (106), checkWatches (17), removeWatches (18).

// setWatches re-arms a client's watches after a reconnect. A watch on a node that has changed since the client's zxid
// fires instead, before the reply; an exists-watch fires when the node exists, whatever its age; persistent watches get
// no missed events.
func (s *Server) setWatches(r *clientRequest) (jute.Record, Error) {
	var req jute.SetWatches2
	if r.op == jute.OpSetWatches {
		if err := r.decodeRecord(&req.SetWatches); err != ok {
			return nil, err
		}
	} else if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	// The real server fails when it reaches a null path.
	c := r.conn
	if req.Data == nil {
		return nil, ErrMarshalling
	}
	for _, path := range req.Data {
		switch n := s.tree.lookup(path); {
		case path == jute.Null:
			return nil, ErrMarshalling
		case n == nil:
			s.sendEvent(c, jute.EventNodeDeleted, path, -1)
		case n.mzxid > req.RelativeZxid:
			s.sendEvent(c, jute.EventNodeDataChanged, path, -1)
		default:
			s.dataWatches.addWatch(path, c, oneShot)
		}
	}
	if req.Exist == nil {
		return nil, ErrMarshalling
	}
	for _, path := range req.Exist {
		switch {
		case path == jute.Null:
			return nil, ErrMarshalling
		case s.tree.lookup(path) != nil:
			s.sendEvent(c, jute.EventNodeCreated, path, -1)
		default:
			s.dataWatches.addWatch(path, c, oneShot)
		}
	}
	if req.Child == nil {
		return nil, ErrMarshalling
	}
	for _, path := range req.Child {
		switch n := s.tree.lookup(path); {
		case path == jute.Null:
			return nil, ErrMarshalling
		case n == nil:
			s.sendEvent(c, jute.EventNodeDeleted, path, -1)
		case n.pzxid > req.RelativeZxid:
			s.sendEvent(c, jute.EventNodeChildrenChanged, path, -1)
		default:
			s.kidWatches.addWatch(path, c, oneShot)
		}
	}
	if r.op == jute.OpSetWatches2 && req.Persistent == nil {
		return nil, ErrMarshalling
	}
	for _, path := range req.Persistent {
		s.addPersistent(c, path, persistent)
	}
	if r.op == jute.OpSetWatches2 && req.Recursive == nil {
		return nil, ErrMarshalling
	}
	for _, path := range req.Recursive {
		s.addPersistent(c, path, recursive)
	}
	return nil, ok
}

func (s *Server) addPersistent(c *clientConn, path string, mode watchMode) {
	s.dataWatches.addWatch(path, c, mode)
	if mode != recursive || !s.cfg.Profile.behaviour().stackedModes {
		s.kidWatches.addWatch(path, c, mode)
	}
}

// addWatch's reply has a body, the code 0.
func (s *Server) addWatch(r *clientRequest) (jute.Record, Error) {
	var req jute.PathIntRequest
	if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	switch r.path = req.Path; req.Value {
	case jute.WatchPersistent:
		s.addPersistent(r.conn, req.Path, persistent)
	case jute.WatchPersistentRecursive:
		s.addPersistent(r.conn, req.Path, recursive)
	default:
		return nil, ErrMarshalling
	}
	return &jute.IntResponse{}, ok
}

// watcherType returns the modes in each table that a type of checkWatches and removeWatches stands for.
func (s *Server) watcherType(value int32) (data, kids watchMode, err Error) {
	const all = oneShot | persistent | recursive
	stacked := s.cfg.Profile.behaviour().stackedModes
	switch {
	case value == jute.WatcherChildren && stacked:
		return 0, oneShot, ok
	case value == jute.WatcherData && stacked:
		return oneShot, 0, ok
	case value == jute.WatcherChildren:
		return 0, all, ok
	case value == jute.WatcherData:
		return all, 0, ok
	case value == jute.WatcherAny:
		return all, all, ok
	case value == jute.WatcherPersistent && stacked:
		return persistent, persistent, ok
	case value == jute.WatcherPersistentRecursive && stacked:
		return recursive, recursive, ok
	}
	return 0, 0, ErrMarshalling
}

func (s *Server) checkWatches(r *clientRequest) (jute.Record, Error) {
	var req jute.PathIntRequest
	if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	r.path = req.Path
	data, kids, err := s.watcherType(req.Value)
	if err != ok {
		return nil, err
	}
	if !s.cfg.Profile.behaviour().ownWatches && req.Path != "" && !strings.Contains(req.Path, "/") {
		return nil, ErrMarshalling // a flaw of 3.6 to 3.8: they look for the parent of a path without one
	}
	if s.hasWatch(s.dataWatches, req.Path, r.conn, data) || s.hasWatch(s.kidWatches, req.Path, r.conn, kids) {
		return nil, ok
	}
	return nil, ErrNoWatcher
}

// hasWatch copies a flaw of 3.6 to 3.8, which check whether any client watches the path.
func (s *Server) hasWatch(t *watchTable, path string, c *clientConn, modes watchMode) bool {
	if modes == 0 {
		return false
	}
	if !s.cfg.Profile.behaviour().ownWatches {
		return len(t.paths[path]) > 0
	}
	return t.paths[path][c]&modes != 0
}

func (s *Server) removeWatches(r *clientRequest) (jute.Record, Error) {
	var req jute.PathIntRequest
	if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	r.path = req.Path
	data, kids, err := s.watcherType(req.Value)
	if err != ok {
		return nil, err
	}
	fromData := s.dataWatches.removeModes(req.Path, r.conn, data)
	fromKids := s.kidWatches.removeModes(req.Path, r.conn, kids)
	if !fromData && !fromKids {
		return nil, ErrNoWatcher
	}
	return nil, ok
}
