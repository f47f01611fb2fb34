package zktest

import (
	"fmt"

	"github.com/go-curator/curator/internal/jute"
)

// create (1), create2 (15), createContainer (19), createTTL (21).

// create checks in the server's order: mode, TTL, path, ACL, parent, right, final name, existence, ephemeral
// parent, quota.
func (p *preparation) create(op int32, r *jute.CreateRequest, ttl int64) (*transaction, Error) {
	if r.Flags < jute.ModePersistent || r.Flags > jute.ModePersistentSequentialTTL {
		return nil, ErrBadArguments
	}
	isEphemeral := r.Flags == jute.ModeEphemeral || r.Flags == jute.ModeEphemeralSequential
	switch {
	case isTTL(r.Flags) && !p.s.cfg.ExtendedTypes:
		return nil, ErrUnimplemented
	case isTTL(r.Flags) && (ttl <= 0 || ttl > maxTTL), !isTTL(r.Flags) && ttl >= 0:
		return nil, ErrBadArguments
	}
	if op == jute.OpCreateTTL && !isTTL(r.Flags) {
		return nil, ErrBadArguments // a real 3.8 dies of it
	}
	dir, err := parentForWrite(r.Path)
	if err != ok {
		return nil, err
	}
	acl, err := p.s.resolveACL(r.ACL, p.auth)
	if err != ok {
		return nil, err
	}
	parent, err := p.lookup(dir)
	if err != ok {
		return nil, err
	}
	if err := p.checkPermission(parent, jute.PermCreate); err != ok {
		return nil, err
	}
	path := r.Path
	if isSequential(r.Flags) {
		path += fmt.Sprintf("%010d", parent.cversion)
	}
	if !validPath(path) {
		return nil, ErrBadArguments
	}
	if _, err := p.lookup(path); err == ok {
		return nil, ErrNodeExists
	}
	if p.s.tree.kindOfOwner(parent.owner) == ownedBySession {
		return nil, ErrNoChildrenForEphemerals
	}
	if err := p.s.checkQuota(path, int64(len(r.Data)), 1); err != ok {
		return nil, err
	}
	t := &transaction{op: op, path: path, data: r.Data, acl: acl, cversion: parent.cversion + 1}
	// The opcode decides the kind of node, not the flags: a plain create with the container flag makes a
	// persistent node.
	switch {
	case op == jute.OpCreateContainer:
		t.owner = ownerContainer
	case op == jute.OpCreateTTL:
		t.owner = ownerTTL | ttl
	case isEphemeral:
		t.owner = p.session
	}
	parent.children++
	parent.cversion = t.cversion // overflows within one multi; applyCreate does not
	parent.pzxid = p.zxid
	p.recordFuture(dir, parent)
	p.recordFuture(path, futureNode{storedStat: newStoredStat(p.zxid, p.now, t.owner), acl: acl, size: len(r.Data)})
	return t, ok
}

func isTTL(flags int32) bool {
	return flags == jute.ModePersistentTTL || flags == jute.ModePersistentSequentialTTL
}

func isSequential(flags int32) bool {
	switch flags {
	case jute.ModePersistentSequential, jute.ModeEphemeralSequential, jute.ModePersistentSequentialTTL:
		return true
	}
	return false
}

// newStoredStat returns the storedStat of a new node.
func newStoredStat(zxid, now, owner int64) storedStat {
	return storedStat{czxid: zxid, mzxid: zxid, pzxid: zxid, ctime: now, mtime: now, owner: owner}
}

func (s *Server) applyCreate(t *transaction, zxid, now int64) *jute.Stat {
	dir, _ := splitPath(t.path)
	parent := s.tree.lookup(dir)
	if t.cversion > parent.cversion || s.cfg.Profile.behaviour().counterWraps {
		parent.cversion, parent.pzxid = t.cversion, zxid
	} // else the counter has overflowed: it stays at 2147483647, and sequential names are ties from here on
	n := &treeNode{storedStat: newStoredStat(zxid, now, t.owner), data: t.data, acl: t.acl}
	s.tree.addNode(t.path, n)
	if t.owner == ownerContainer || s.tree.kindOfOwner(t.owner) == ownedAsTTL {
		s.wakeReaper()
	}
	stat := n.clientStat()
	s.quotaCreated(t.path, n)
	s.triggerWatches(s.dataWatches, jute.EventNodeCreated, t.path, zxid, n.acl, nil)
	s.triggerWatches(s.kidWatches, jute.EventNodeChildrenChanged, parentOf(t.path), zxid, parent.acl, nil)
	return &stat
}
