package zktest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// Stat is a node's metadata, with the fields of ZooKeeper's Stat. Times are milliseconds since 1970.
type Stat = jute.Stat

// ACL grants permissions (READ 1, WRITE 2, CREATE 4, DELETE 8, ADMIN 16) to an identity of a scheme.
type ACL = jute.ACL

// Mode is a node's kind, with the numbers of ZooKeeper's create flags.
type Mode int32

// Modes.
const (
	Persistent           = Mode(jute.ModePersistent)
	Ephemeral            = Mode(jute.ModeEphemeral)
	PersistentSequential = Mode(jute.ModePersistentSequential)
	EphemeralSequential  = Mode(jute.ModeEphemeralSequential)
	Container            = Mode(jute.ModeContainer)
	TTL                  = Mode(jute.ModePersistentTTL)
)

func (m Mode) String() string {
	switch m {
	case Persistent:
		return "persistent"
	case Ephemeral:
		return "ephemeral"
	case PersistentSequential:
		return "persistent sequential"
	case EphemeralSequential:
		return "ephemeral sequential"
	case Container:
		return "container"
	case TTL:
		return "ttl"
	}
	return fmt.Sprintf("mode %d", int32(m))
}

// Node describes a node in [Server.Tree]. Its Mode is Persistent, Ephemeral, Container or TTL; whether the
// mode was sequential is not kept.
type Node struct {
	Data []byte
	Stat Stat
	ACL  []ACL
	Mode Mode
}

// SessionInfo describes a live session.
type SessionInfo struct {
	ID         int64
	Timeout    time.Duration // negotiated
	Connected  bool
	Expires    time.Duration // from now, if the client sends nothing
	Ephemerals []string      // sorted
}

// WatchKind is the kind of a watch.
type WatchKind string

// Kinds of watches. An exists watch is a data watch.
const (
	DataWatch       WatchKind = "data"
	ChildWatch      WatchKind = "child"
	PersistentWatch WatchKind = "persistent"
	RecursiveWatch  WatchKind = "recursive"
)

// WatchInfo describes a watch. Path names a node that need not exist.
type WatchInfo struct {
	Session int64
	Path    string
	Kind    WatchKind
}

func (s *Server) countRequest(session int64, op int32) {
	s.counts[op]++
	of := s.countsOf[session]
	if of == nil {
		of = map[int32]int{}
		s.countsOf[session] = of
	}
	of[op]++
}

// Counts returns the number of requests received since the start or ResetCounts, by operation: [OpCreate2],
// [OpGetData], … , and [OpConnect] for handshakes. An unknown operation is named "op N". Requests lost
// by a fault are also counted.
func (s *Server) Counts() map[Op]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return namedCounts(s.counts)
}

// CountsOf is Counts for one session. A handshake that asks for a new session counts for session 0.
func (s *Server) CountsOf(session int64) map[Op]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return namedCounts(s.countsOf[session])
}

func namedCounts(counts map[int32]int) map[Op]int {
	named := make(map[Op]int, len(counts))
	for op, n := range counts {
		named[opName(op)] = n
	}
	return named
}

// ResetCounts sets all counts to 0.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytesIn, s.bytesOut = 0, 0
	clear(s.counts)
	clear(s.countsOf)
}

// Bytes returns the number of bytes received and sent in frames, with their length fields, since the start or
// ResetCounts.
func (s *Server) Bytes() (in, out int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytesIn, s.bytesOut
}

// Sessions lists the live sessions in the order of their ids. In an ensemble the list is this member's and may lag
// behind the leader's: Connected means connected to this member, and Expires is meaningful only at the leader.
func (s *Server) Sessions() []SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]SessionInfo, 0, len(s.sessions))
	for _, ses := range s.sessions {
		if ses.local {
			continue
		}
		list = append(list, SessionInfo{
			ID:         ses.id,
			Timeout:    time.Duration(cmp.Or(ses.granted, ses.timeout)) * time.Millisecond,
			Connected:  ses.conn != nil,
			Expires:    time.Duration(ses.expires)*time.Millisecond - s.elapsedTime(),
			Ephemerals: slices.Sorted(slices.Values(s.tree.ephemeralsOf(ses.id))),
		})
	}
	slices.SortFunc(list, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Watches lists the watches of all connections, ordered by path, session and kind. A watch belongs to a
// connection, and is removed when the connection closes.
func (s *Server) Watches() []WatchInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := map[WatchInfo]struct{}{}
	collect := func(t *watchTable, single WatchKind) {
		kinds := map[watchMode]WatchKind{
			oneShot: single, persistent: PersistentWatch, recursive: RecursiveWatch,
		}
		for path, conns := range t.paths {
			for c, mode := range conns {
				for m, kind := range kinds {
					if mode&m != 0 {
						set[WatchInfo{c.sessionID, path, kind}] = struct{}{}
					}
				}
			}
		}
	}
	collect(s.dataWatches, DataWatch)
	collect(s.kidWatches, ChildWatch)
	return slices.SortedFunc(maps.Keys(set), func(a, b WatchInfo) int {
		return cmp.Or(
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Kind, b.Kind))
	})
}

// Tree returns all nodes by path, except /zookeeper and the nodes below it.
func (s *Server) Tree() map[string]Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	dump := make(map[string]Node, len(s.tree.nodes))
	for path, n := range s.tree.nodes {
		if path == procPath || strings.HasPrefix(path, procPath+"/") {
			continue
		}
		dump[path] = s.describe(n)
	}
	return dump
}

func (s *Server) describe(n *treeNode) Node {
	d := Node{Data: slices.Clone(n.data), Stat: n.clientStat(), ACL: slices.Clone(n.acl)}
	if d.ACL == nil {
		d.ACL = slices.Clone(openACL)
	}
	switch s.tree.kindOfOwner(n.owner) {
	case ownedBySession:
		d.Mode = Ephemeral
	case ownedAsContainer:
		d.Mode = Container
	case ownedAsTTL:
		d.Mode = TTL
	}
	return d
}
