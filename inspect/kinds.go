package inspect

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-curator/curator/internal/zkpath"
)

// Kind classifies a path, by its children.
type Kind string

// Kinds.
const (
	// Nothing: the node does not exist.
	Nothing Kind = "nothing"
	// Idle: there were children once, and there are none now: a lock without contenders, for example.
	Idle Kind = "idle"
	// Mutex: a lock, or the election of a leader selector, which writes the same nodes.
	Mutex Kind = "mutex"
	// ReadWriteLock: see [Participant.Reader].
	ReadWriteLock Kind = "read-write lock"
	// Latch: the election of a leader latch.
	Latch Kind = "leader latch"
	// Semaphore: those with leases hold, and the others stand in the line for them.
	Semaphore Kind = "semaphore"
	// DoubleBarrier: the members inside hold if it is open, and wait if it is not.
	DoubleBarrier Kind = "double barrier"
	// Members: nodes with random names. A double barrier that has not opened yet, or a register of services.
	Members Kind = "members"
	// Queue: the items wait, in the order of their delivery, each since it was put or put back; the tree records neither
	// how often an item was tried nor items that were given up. A queue's lock path is shown as a Queue, too: of the
	// items that are being handled, each with the session of the consumer that holds its lock.
	Queue Kind = "queue"
	// Number: a counter, whose value is in [Line.Number].
	Number Kind = "number"
	// Leaf: a node that never had children. If it is a barrier, it is set.
	Leaf Kind = "leaf"
	// Unknown: there are children, but none is a participant of a known kind.
	Unknown Kind = "unknown"
)

// Library is the client library that wrote a participant's node, judged by its name.
type Library string

// Libraries. The zero value stands for a name that any could have written.
const (
	Go          Library = "go"   // this one
	Java        Library = "java" // Curator
	Kazoo       Library = "kazoo"
	GoZookeeper Library = "go-zookeeper"
)

// libraryOf judges a name. Curator's random UUIDs are of version 4, this library's of version 8.
func libraryOf(name string) Library {
	guid, _, protected := zkpath.ParseProtected(name)
	switch {
	case protected && zkpath.IsOurGUID(guid), isUUID(name) && zkpath.IsOurGUID(name):
		return Go
	case protected, isUUID(name):
		return Java
	case strings.HasPrefix(name, "_c_") && hasHexPrefix(name[3:]):
		return GoZookeeper
	case hasHexPrefix(name), strings.HasPrefix(name, "entry-"):
		return Kazoo
	}
	return ""
}

// hasHexPrefix reports whether a name begins with a random UUID as Python's uuid4().hex and go-zookeeper write it.
func hasHexPrefix(name string) bool {
	if len(name) < 32 {
		return false
	}
	for _, c := range []byte(name[:32]) {
		if !isHex(c) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// isUUID reports whether a name is a random UUID and nothing else, as double barriers write it.
func isUUID(name string) bool {
	_, _, ok := zkpath.ParseProtected("_c_" + name + "-x")
	return ok && len(name) == 36
}

// isMember reports whether a name belongs to a member: a UUID in either form.
func isMember(name string) bool { return isUUID(name) || len(name) == 32 && hasHexPrefix(name) }

// childRole is the part that a child plays among its siblings.
type childRole int

const (
	foreignChild   childRole = iota
	lockContender            // of a mutex or an election: …lock-SEQ
	latchCandidate           // of a latch: …latch-SEQ
	lockReader               // of a read-write lock: …__READ__SEQ
	lockWriter               // …__WRIT__SEQ
	kazooLock                // <hex>__lock__SEQ: a contender, or a writer among readers
	kazooReader              // <hex>__rlock__SEQ
	leaseNode                // of a semaphore: …lease-SEQ
	memberNode               // a UUID
	readyNode                // of a double barrier that is open
	queueItem                // of a queue
	counterNode              // of a number that is written to: a mark, or a place in line
)

// childEntry is a child with its role, and its sort key in the line.
type childEntry struct {
	name, key string
	role      childRole
}

const (
	readyName             = "ready"
	leasesName, locksName = "leases", "locks"
	kazooLineSuffix       = "-__lock__" // suffix of the sibling of a kazoo semaphore that has the line for its leases
)

// parseChild judges the name of a child. A contender is every name that contains "lock-", as for Curator: it stands in the
// line, whichever client made it.
func parseChild(name string) childEntry {
	of := func(r childRole, key string) childEntry { return childEntry{name, key, r} }
	switch {
	case name == readyName:
		return of(readyNode, "")
	case isMember(name):
		return of(memberNode, name)
	case strings.Contains(name, "__WRIT__"):
		return of(lockWriter, zkpath.SortKey(zkpath.SortKey(name, "__READ__"), "__WRIT__"))
	case strings.Contains(name, "__READ__"):
		return of(lockReader, zkpath.SortKey(name, "__READ__"))
	case strings.Contains(name, "lease-"):
		return of(leaseNode, zkpath.SortKey(name, "lease-"))
	case strings.Contains(name, "latch-"):
		return of(latchCandidate, zkpath.SortKey(name, "latch-"))
	case strings.Contains(name, "lock-"):
		return of(lockContender, zkpath.SortKey(name, "lock-"))
	}
	if hasHexPrefix(name) {
		r := kazooLock
		number, found := strings.CutPrefix(name[32:], "__lock__")
		if !found {
			r = kazooReader
			number, found = strings.CutPrefix(name[32:], "__rlock__")
		}
		if _, numbered := zkpath.Sequence(number); found && numbered && len(number) <= 11 {
			return of(r, number)
		}
	}
	if key, ok := itemKey(name); ok {
		return of(queueItem, key)
	}
	if _, rest, ok := zkpath.ParseProtected(name); ok && (rest == "mark" || strings.HasPrefix(rest, "turn-")) {
		return of(counterNode, name)
	}
	return of(foreignChild, "")
}

// itemKey returns the sort key of a queue's item: of Curator's queues (queue-SEQ, with a priority, a time or an id in
// between), of SimpleDistributedQueue (qn-SEQ), or of kazoo's (entry-PPP-SEQ).
func itemKey(name string) (key string, ok bool) {
	rest, found := strings.CutPrefix(name, "queue-")
	for _, prefix := range []string{"qn-", "entry-"} {
		if !found {
			rest, found = strings.CutPrefix(name, prefix)
		}
	}
	number, numbered := sequenceDigits(rest)
	if !found || !numbered {
		return "", false
	}
	within := strings.TrimSuffix(rest, number)
	if !strings.HasPrefix(within, "|") || !strings.HasSuffix(within, "|") || len(within) < 2 {
		return rest, true // numbers, and priorities in front of them, sort as text
	}
	due, err := strconv.ParseUint(within[1:len(within)-1], 16, 63)
	if err != nil || len(within) < 10 || strings.ToUpper(within) != within {
		return number, true // an id: the number counts
	}
	return strconv.FormatUint(1e18+due, 10) + number, true // a time
}

// sequenceDigits returns the ten digits that the server has put at the end of a name.
func sequenceDigits(name string) (string, bool) {
	if _, ok := zkpath.Sequence(name); !ok || len(name) < 10 {
		return "", false
	}
	return name[len(name)-10:], true
}

// lineShape is the result of classifyChildren.
type lineShape struct {
	kind             Kind
	holders, waiting []childEntry
	foreign          []string
	leases, locks    bool // there are children of these names, as a semaphore's
	fromKazoo        bool // members, all with names as kazoo writes them
	hasReady         bool // there is a child ready
}

// kindRoles has the roles of each kind. The kind with the most children wins, of several the first.
var kindRoles = []struct {
	kind  Kind
	roles []childRole
}{
	{ReadWriteLock, []childRole{lockReader, lockWriter}},
	{Mutex, []childRole{lockContender}},
	{Mutex, []childRole{kazooLock, kazooReader}},
	{Latch, []childRole{latchCandidate}},
	{Members, []childRole{memberNode}},
	{Queue, []childRole{queueItem}},
	{Number, []childRole{counterNode}},
}

// classifyChildren judges the names of a node's children. It is a pure function: names come from the tree, where any client
// may have written them.
func classifyChildren(names []string) lineShape {
	s := lineShape{kind: Unknown}
	if len(names) == 0 {
		return lineShape{kind: Leaf}
	}
	all := make([]childEntry, len(names))
	count := map[childRole]int{}
	for i, name := range names {
		all[i] = parseChild(name)
		count[all[i].role]++
		s.leases = s.leases || name == leasesName
		s.locks = s.locks || name == locksName
		s.hasReady = s.hasReady || name == readyName
	}
	largest, roles := 0, []childRole(nil)
	for _, g := range kindRoles {
		n := 0
		for _, r := range g.roles {
			n += count[r]
		}
		if n > largest {
			largest, roles, s.kind = n, g.roles, g.kind
		}
	}
	if s.hasReady && (s.kind == Unknown || s.kind == Members) {
		s.kind = DoubleBarrier
	}
	if count[kazooReader] > 0 && s.kind == Mutex && roles[0] == kazooLock {
		s.kind = ReadWriteLock
	}
	var line []childEntry
	for _, e := range all {
		switch {
		case slices.Contains(roles, e.role):
			line = append(line, e)
		case e.role == readyNode && s.kind == DoubleBarrier:
		default:
			s.foreign = append(s.foreign, e.name)
		}
	}
	slices.SortStableFunc(line, func(a, b childEntry) int { return strings.Compare(a.key, b.key) })
	others := slices.ContainsFunc(line, func(e childEntry) bool { return isUUID(e.name) })
	s.fromKazoo = s.kind == Members && !others
	s.splitLine(line)
	return s
}

// splitLine divides the line into holders and waiters.
func (s *lineShape) splitLine(line []childEntry) {
	switch s.kind {
	case Mutex, Latch:
		s.holders, s.waiting = line[:1], line[1:]
	case ReadWriteLock:
		s.splitReadWrite(line)
	case DoubleBarrier:
		if s.hasReady {
			s.holders = line
		} else {
			s.waiting = line
		}
	case Members:
		s.holders = line
	case Queue:
		s.waiting = line
	}
}

// splitReadWrite divides the line of a read-write lock: a writer holds if no contender is ahead, a reader if no writer
// is ahead. A contender with the same key is not ahead: it is the writer's own read lock.
func (s *lineShape) splitReadWrite(line []childEntry) {
	writers, firstWriterKey := 0, ""
	for _, e := range line {
		reads := e.role == lockReader || e.role == kazooReader
		switch {
		case reads && (writers == 0 || e.key == firstWriterKey), !reads && e.key == line[0].key && writers == 0:
			s.holders = append(s.holders, e)
		default:
			s.waiting = append(s.waiting, e)
		}
		if !reads {
			if writers++; writers == 1 {
				firstWriterKey = e.key
			}
		}
	}
}

// maxSequence is the largest sequence number. The server assigns it again to every later node.
const maxSequence = 1<<31 - 1

// numbersUsed returns the number of sequence numbers used up, as far as the names show.
func numbersUsed(line []childEntry) (used int64) {
	for _, e := range line {
		key := e.key
		if e.role == queueItem {
			key, _ = sequenceDigits(e.name)
		}
		switch n, ok := zkpath.Sequence(key); {
		case !ok || e.role == memberNode:
		case n < 0:
			return maxSequence // it has overflowed
		default:
			used = max(used, min(n+1, maxSequence))
		}
	}
	return used
}
