package semaphore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// leaseSnapshot is the state of the semaphore in one reply of the server.
type leaseSnapshot struct {
	children []string       // of the node "leases"
	dir      framework.Stat // of the node "leases"; zero if it is missing
	max      int
	// watches are set on the children and on the shared count. Each is nil if it was not requested, or if its node is
	// missing.
	watches [2]*framework.Watch
}

// hasSameLeases reports whether two snapshots show the same leases and limit, in whatever order.
func (s leaseSnapshot) hasSameLeases(o leaseSnapshot) bool {
	children, others := slices.Sorted(slices.Values(s.children)), slices.Sorted(slices.Values(o.children))
	return s.max == o.max && slices.Equal(children, others)
}

// stopWatches removes the watches.
func (s leaseSnapshot) stopWatches() {
	for _, w := range s.watches {
		w.Stop()
	}
}

// countTaken counts the leases, of all clients.
func (s leaseSnapshot) countTaken() (n int) {
	for _, name := range s.children {
		if isLease(name) {
			n++
		}
	}
	return n
}

// checkRoom returns nil if n more leases are free.
func (s leaseSnapshot) checkRoom(n int) error {
	if taken := s.countTaken(); n > s.max-taken {
		return fmt.Errorf("%w: %d wanted, %d of %d taken", ErrNotAcquired, n, taken, s.max)
	}
	return nil
}

// lacksOneLease reports whether exactly one more lease would have to be free for n.
func (s leaseSnapshot) lacksOneLease(n int) bool { return n-1 == s.max-s.countTaken() }

// hasLeaseOf reports whether the owner of this place in the line has taken a lease by leaving it: the place and the
// lease have the same UUID.
func (s leaseSnapshot) hasLeaseOf(place string) bool {
	guid, _, ok := zkpath.ParseProtected(place)
	its := func(name string) bool { return strings.HasPrefix(name, zkpath.Protect(guid, leaseName)) }
	return ok && slices.ContainsFunc(s.children, its)
}

// countCreated returns how many children "leases" has ever had, which is the next number. A Stat's cversion counts
// creates and deletes, so that plus the children it is twice the creates.
func (s leaseSnapshot) countCreated() int64 {
	return (int64(s.dir.Cversion) + int64(s.dir.NumChildren)) / 2
}

// foreignChild returns a child that is not a lease, "" if there is none. Curator for Java counts such a child as a lease.
func (s leaseSnapshot) foreignChild() string {
	i := slices.IndexFunc(s.children, func(name string) bool { return !isLease(name) })
	if i < 0 {
		return ""
	}
	return s.children[i]
}

// leaseVerdict is the result of a snapshot for a caller that created lease nodes before the snapshot.
type leaseVerdict int8

const (
	granted   leaseVerdict = iota + 1 // the nodes are leases
	overLimit                         // others were faster
	// nodeMissing means that the list lacks one of the nodes: the list is older, or another client has deleted the node.
	nodeMissing
	numbersExhausted // the sequence numbers below "leases" are used up
)

// judgeNodes decides whether the nodes own, all of them together, are within the limit.
//
// The rule: in the order of their numbers, the leases up to and including the last of own are at most max.
// This never allows more than max leases. Proof: of the leases that are taken at some moment, take the one
// created last. The list that granted it was made after its creation, so that list had all the others, with
// smaller numbers. The rule of Curator for Java is stricter: all children together are at most max. So both
// can be mixed. By Curator's rule two callers that race for the last lease may both give up; here the first
// gets it.
//
// A lease whose number cannot be parsed counts as ahead.
func (s leaseSnapshot) judgeNodes(own []string) leaseVerdict {
	last := int64(-1)
	for _, name := range own {
		n, ok := leaseNumber(name)
		if !ok || n >= line.SequenceLimit {
			return numbersExhausted
		}
		last = max(last, n)
	}
	found, upTo := 0, 0
	for _, name := range s.children {
		if !isLease(name) {
			continue
		}
		if n, ok := leaseNumber(name); !ok || n <= last {
			upTo++
		}
		if slices.Contains(own, name) {
			found++
		}
	}
	switch {
	case found < len(own):
		return nodeMissing
	case upTo > s.max:
		return overLimit
	}
	return granted
}

// isLease reports whether a child is a lease's node, of any client, with any prefix.
func isLease(name string) bool { return strings.Contains(name, leaseName) }

// leaseNumber parses the sequence number of a lease: exactly ten digits.
func leaseNumber(name string) (n int64, ok bool) {
	key := zkpath.SortKey(name, leaseName)
	n, ok = zkpath.Sequence(key)
	return n, ok && n >= 0 && len(key) == 10
}
