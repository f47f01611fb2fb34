package zktest

import (
	"slices"

	"github.com/go-curator/curator/internal/jute"
)

// The direct methods change the tree as an administrator would, without a connection and without permission
// checks. They are transactions with a zxid, and fire watches. They also work on a stopped or paused server.
// Errors are of type [Error].
//
// In an ensemble the direct methods go to the leader and wait until a majority has the change, for SyncLimit
// ticks at most. After that time the error is [ErrConnectionLoss], and the change may or may not be made
// later. Without a leader the error is the same, and nothing is changed.

// orderingServer returns the server that orders writes: s itself, or the leader of its ensemble.
func (s *Server) orderingServer() (*Server, Error) {
	if s.member == nil {
		return s, ok
	}
	if l := s.member.e.leadingServer(); l != nil {
		return l, ok
	}
	return nil, ErrConnectionLoss
}

// writeDirectly executes one write and returns the path. It refuses the write if this server does not lead any more, since
// an earlier write of the same call has waited for its commit.
func (s *Server) writeDirectly(op int32, session int64, rec jute.Record) (string, Error) {
	if !s.ordersWrites() {
		return "", ErrConnectionLoss
	}
	var path string
	e := &logEntry{}
	s.proposeEntry(e, func(e *logEntry) {
		p := s.preparationFor(e, session, []provedIdentity{{Scheme: "super"}})
		t, err := p.prepareOperation(op, rec)
		if e.err = err; err == ok {
			p.publishFuture()
			e.txns, path = []*transaction{t}, t.path
			s.trace.addEntry(traceEntry{kind: traceReply, op: op, path: t.path, zxid: p.zxid})
		}
	})
	if s.member != nil && e.err == ok && !s.member.e.awaitCommit(e) {
		return "", ErrConnectionLoss
	}
	return path, e.err
}

// Create makes a persistent node with an ACL that allows everything to all clients, and its missing parents.
func (s *Server) Create(path string, data []byte) error {
	s.mu.Lock()
	defer s.unlock()
	if !validPath(path) {
		return ErrBadArguments
	}
	s, err := s.orderingServer()
	if err != ok {
		return err
	}
	if err := s.createParents(path); err != ok {
		return err
	}
	_, err = s.writeDirectly(jute.OpCreate, 0, &jute.CreateRequest{Path: path, Data: data, ACL: openACL})
	return err.asError()
}

func (s *Server) createParents(path string) Error {
	dir := parentOf(path)
	if s.tree.lookup(dir) != nil {
		return ok
	}
	if err := s.createParents(dir); err != ok {
		return err
	}
	_, err := s.writeDirectly(jute.OpCreate, 0, &jute.CreateRequest{Path: dir, Data: []byte{}, ACL: openACL})
	return err
}

// CreateNode makes a node of any mode but TTL below an existing parent and returns its path, which a
// sequential mode extends. An ephemeral node belongs to session, which must be alive ([ErrSessionExpired]
// otherwise); for other modes session is ignored.
func (s *Server) CreateNode(path string, data []byte, mode Mode, session int64) (string, error) {
	s.mu.Lock()
	defer s.unlock()
	s, err := s.orderingServer()
	if err != ok {
		return "", err
	}
	if (mode == Ephemeral || mode == EphemeralSequential) && s.sessions[session] == nil {
		return "", ErrSessionExpired
	}
	op := jute.OpCreate
	if mode == Container {
		op = jute.OpCreateContainer
	}
	req := &jute.CreateRequest{Path: path, Data: data, ACL: openACL, Flags: int32(mode)}
	path, err = s.writeDirectly(op, session, req)
	return path, err.asError()
}

// Set sets a node's data, whatever its version.
func (s *Server) Set(path string, data []byte) error {
	s.mu.Lock()
	defer s.unlock()
	s, err := s.orderingServer()
	if err != ok {
		return err
	}
	_, err = s.writeDirectly(jute.OpSetData, 0, &jute.SetDataRequest{Path: path, Data: data, Version: -1})
	return err.asError()
}

// SetACL sets a node's ACL.
func (s *Server) SetACL(path string, acl ...ACL) error {
	s.mu.Lock()
	defer s.unlock()
	s, err := s.orderingServer()
	if err != ok {
		return err
	}
	_, err = s.writeDirectly(jute.OpSetACL, 0, &jute.SetACLRequest{Path: path, ACL: acl, Version: -1})
	return err.asError()
}

// Delete removes a node without children.
func (s *Server) Delete(path string) error {
	s.mu.Lock()
	defer s.unlock()
	s, err := s.orderingServer()
	if err != ok {
		return err
	}
	_, err = s.writeDirectly(jute.OpDelete, 0, &jute.PathVersionRequest{Path: path, Version: -1})
	return err.asError()
}

// DeleteAll deletes a node and all nodes below it, children first, each in a separate transaction.
func (s *Server) DeleteAll(path string) error {
	s.mu.Lock()
	defer s.unlock()
	s, err := s.orderingServer()
	if err != ok {
		return err
	}
	return s.deleteSubtree(path).asError()
}

func (s *Server) deleteSubtree(path string) Error {
	if n := s.tree.lookup(path); n != nil && !specialPath(path) {
		for _, name := range n.childNames() {
			if err := s.deleteSubtree(path + "/" + name); err != ok {
				return err
			}
		}
	}
	_, err := s.writeDirectly(jute.OpDelete, 0, &jute.PathVersionRequest{Path: path, Version: -1})
	return err
}

// Get returns a node's data and Stat.
func (s *Server) Get(path string) ([]byte, Stat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.lookup(path)
	if n == nil {
		return nil, Stat{}, ErrNoNode
	}
	return slices.Clone(n.data), n.clientStat(), nil
}

// Exists reports whether the node exists.
func (s *Server) Exists(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree.lookup(path) != nil
}

// Children returns the names of a node's children, sorted.
func (s *Server) Children(path string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.lookup(path)
	if n == nil {
		return nil, ErrNoNode
	}
	return slices.Sorted(slices.Values(n.childNames())), nil
}

// SetSequence makes next the number of the next sequential child of path, without a transaction. As in
// ZooKeeper since 3.6 the counter stops at 2147483647, and numbers repeat then; with [V35] they become negative.
func (s *Server) SetSequence(path string, next int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []*Server{s}
	if s.member != nil {
		all = s.member.e.members
	}
	for _, s := range all {
		n := s.tree.lookup(path)
		if n == nil {
			return ErrNoNode
		}
		n.cversion = next
	}
	return nil
}
