package zktest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/go-curator/curator/internal/jute"
)

// Owners of nodes that belong to no session.
const (
	ownerContainer int64 = -1 << 63
	ownerTTL       int64 = -1 << 56 // 0xff in the top byte; the TTL in milliseconds below
	maxTTL         int64 = 1<<40 - 1
)

// storedStat is the stored part of a Stat. cversion counts creates only; see treeNode.clientStat.
type storedStat struct {
	czxid, mzxid, ctime, mtime, pzxid, owner int64
	version, cversion, aversion              int32
}

type treeNode struct {
	storedStat
	data     []byte
	acl      []jute.ACL        // nil: anyone may do anything
	children map[string]uint64 // by name; numbered in the order of creation
	born     uint64            // children ever
	table    uint32            // size that Java's hash table of the children would have
	names    []string          // the children in the order of replies; nil after a change
}

func (n *treeNode) addChild(name string) {
	if n.children == nil {
		n.children, n.table = map[string]uint64{}, 8
	}
	n.born++
	n.children[name] = n.born
	n.names = nil
	if uint32(len(n.children)) > n.table/4*3 {
		n.table *= 2
	}
}

func (n *treeNode) removeChild(name string) {
	delete(n.children, name)
	n.names = nil
}

// clientStat is the node's Stat as clients see it. Their cversion counts changes, so deletes are added: twice the
// creates, less the present children. The owners of containers and TTL nodes are not shown.
func (n *treeNode) clientStat() jute.Stat {
	children := int32(len(n.children))
	return jute.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: n.cversion*2 - children, Aversion: n.aversion,
		EphemeralOwner: max(n.owner, 0), DataLength: int32(len(n.data)), NumChildren: children,
	}
}

// childNames returns the children's names in the order of Java's HashSet: by hash bucket, then in order of
// creation. It is not sorted, so that a client that forgets to sort fails. The caller must not change it.
func (n *treeNode) childNames() []string {
	if n.names != nil || len(n.children) == 0 {
		return n.names
	}
	n.names = hashOrder(n.children, n.table)
	return n.names
}

// hashOrder lists the members of a set in the order of Java's hash table: by bucket, then in order of insertion, which
// their numbers give.
func hashOrder(members map[string]uint64, table uint32) []string {
	type place struct {
		bucket uint32
		born   uint64
		name   string
	}
	order := make([]place, 0, len(members))
	for name, born := range members {
		order = append(order, place{javaHash(name) & (table - 1), born, name})
	}
	slices.SortFunc(order, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.born, b.born))
	})
	names := make([]string, len(order))
	for i, p := range order {
		names[i] = p.name
	}
	return names
}

// javaHash is String.hashCode, spread as HashMap does.
func javaHash(s string) uint32 { return spreadHash(javaStringHash(s)) }

func spreadHash(h uint32) uint32 { return h ^ h>>16 }

func javaStringHash(s string) uint32 {
	var h uint32
	for _, r := range s {
		if r > 0xffff {
			hi, lo := utf16.EncodeRune(r)
			h = (h*31+uint32(hi))*31 + uint32(lo)
			continue
		}
		h = h*31 + uint32(r)
	}
	return h
}

// nodeTree is the data. It is guarded by the server's lock.
type nodeTree struct {
	nodes      map[string]*treeNode        // "/" and every other path
	ephemerals map[int64]map[string]uint64 // by session and path; numbered in the order of creation
	born       uint64                      // ephemerals ever
	containers map[string]struct{}
	ttls       map[string]struct{}
	quotas     int // number of zookeeper_limits nodes
	extended   bool
}

func newNodeTree(extended bool, ensembleConfig string) *nodeTree {
	readOnly := []jute.ACL{{Perms: jute.PermRead, Scheme: "world", ID: "anyone"}}
	t := &nodeTree{
		nodes: map[string]*treeNode{
			rootPath:   {},
			procPath:   {},
			quotaPath:  {},
			configPath: {acl: readOnly, data: []byte(ensembleConfig)},
		},
		ephemerals: map[int64]map[string]uint64{},
		containers: map[string]struct{}{}, ttls: map[string]struct{}{}, extended: extended,
	}
	for _, n := range t.nodes {
		if n.data == nil {
			n.data = []byte{}
		}
	}
	t.nodes[rootPath].addChild("zookeeper")
	t.nodes[procPath].addChild("quota")
	t.nodes[procPath].addChild("config")
	t.nodes[configPath].aversion = -1
	return t
}

// lookup returns the node, or nil. The empty path is an alias of the root, as in the real server.
func (t *nodeTree) lookup(path string) *treeNode {
	if path == "" {
		path = rootPath
	}
	return t.nodes[path]
}

// ownerKind is the meaning of an EphemeralOwner.
type ownerKind int

const (
	ownedByNone ownerKind = iota
	ownedBySession
	ownedAsContainer
	ownedAsTTL
)

func (t *nodeTree) kindOfOwner(owner int64) ownerKind {
	switch {
	case owner == 0:
		return ownedByNone
	case owner == ownerContainer:
		return ownedAsContainer
	case t.extended && owner&ownerTTL == ownerTTL:
		return ownedAsTTL
	}
	return ownedBySession
}

// addNode puts a node below its parent; the caller has checked both.
func (t *nodeTree) addNode(path string, n *treeNode) {
	dir, name := splitPath(path)
	t.lookup(dir).addChild(name)
	t.nodes[path] = n
	switch t.kindOfOwner(n.owner) {
	case ownedAsContainer:
		t.containers[path] = struct{}{}
	case ownedAsTTL:
		t.ttls[path] = struct{}{}
	case ownedBySession:
		if t.ephemerals[n.owner] == nil {
			t.ephemerals[n.owner] = map[string]uint64{}
		}
		t.born++
		t.ephemerals[n.owner][path] = t.born
	}
}

// removeNode removes a node.
func (t *nodeTree) removeNode(path string) {
	n := t.nodes[path]
	dir, name := splitPath(path)
	t.lookup(dir).removeChild(name)
	delete(t.nodes, path)
	switch t.kindOfOwner(n.owner) {
	case ownedAsContainer:
		delete(t.containers, path)
	case ownedAsTTL:
		delete(t.ttls, path)
	case ownedBySession:
		if own := t.ephemerals[n.owner]; own != nil {
			if delete(own, path); len(own) == 0 {
				delete(t.ephemerals, n.owner)
			}
		}
	}
}

// ephemeralsOf returns a session's ephemeral nodes in the order of their deletion at the session's end: the order of a
// cloned HashSet, whose table is smaller.
func (t *nodeTree) ephemeralsOf(session int64) []string {
	own := t.ephemerals[session]
	grown, cloned := uint32(16), uint32(1)
	for int(grown) < (len(own)*4+2)/3 {
		grown *= 2
	}
	for int(cloned) < len(own)*4/3+1 {
		cloned *= 2
	}
	paths := hashOrder(own, grown)
	slices.SortStableFunc(paths, func(a, b string) int {
		return cmp.Compare(javaHash(a)&(cloned-1), javaHash(b)&(cloned-1))
	})
	return paths
}

// countBelow returns the number of nodes below path, at any depth.
func (t *nodeTree) countBelow(path string) int {
	if path == rootPath {
		return len(t.nodes) - 1
	}
	n, prefix := 0, path+"/"
	for p := range t.nodes {
		if strings.HasPrefix(p, prefix) {
			n++
		}
	}
	return n
}

// clone copies the tree for another member. It shares data, ACLs and lists of names, which are never changed in place.
func (t *nodeTree) clone() *nodeTree {
	c := *t
	c.nodes = make(map[string]*treeNode, len(t.nodes))
	c.ephemerals = make(map[int64]map[string]uint64, len(t.ephemerals))
	c.containers, c.ttls = maps.Clone(t.containers), maps.Clone(t.ttls)
	for path, n := range t.nodes {
		twin := *n
		twin.children = maps.Clone(n.children)
		c.nodes[path] = &twin
	}
	for session, own := range t.ephemerals {
		c.ephemerals[session] = maps.Clone(own)
	}
	return &c
}
