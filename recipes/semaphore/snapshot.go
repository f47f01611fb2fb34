package semaphore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// snapshot is what the servers say about the semaphore at one moment.
type snapshot struct {
	children []string // of the directory of leases
	max      int
	// watches are those on that directory and on the shared count, if they were asked for and there is something
	// to watch.
	watches [2]*framework.Watch
}

// same says whether two snapshots show the same, in whatever order.
func (s snapshot) same(o snapshot) bool {
	children, others := slices.Sorted(slices.Values(s.children)), slices.Sorted(slices.Values(o.children))
	return s.max == o.max && slices.Equal(children, others)
}

// stop removes the watches.
func (s snapshot) stop() {
	for _, w := range s.watches {
		w.Stop()
	}
}

// taken counts the leases, of all clients.
func (s snapshot) taken() (n int) {
	for _, name := range s.children {
		if isLease(name) {
			n++
		}
	}
	return n
}

// room returns nil if n more leases are free.
func (s snapshot) room(n int) error {
	if taken := s.taken(); n > s.max-taken {
		return fmt.Errorf("%w: %d wanted, %d of %d taken", ErrNotAcquired, n, taken, s.max)
	}
	return nil
}

// foreign returns a child that is no lease, "" if there is none. Curator for Java counts it as one.
func (s snapshot) foreign() string {
	i := slices.IndexFunc(s.children, func(name string) bool { return !isLease(name) })
	if i < 0 {
		return ""
	}
	return s.children[i]
}

// verdict is what a snapshot means for a caller that has created lease nodes before it.
type verdict int8

const (
	granted verdict = iota + 1 // they are leases now
	full                       // others were faster
	// missing says that not all of them are there: the list is older than they are, or somebody has deleted
	// them.
	missing
	exhausted // the directory's sequence numbers are used up
)

// judge decides whether own nodes, all of them together, are within the limit.
//
// The rule: the leases up to and including the last own one, in the order of their numbers, are at most max.
// It never makes more than max holders: of those that hold leases at some moment, take the one created last.
// Its list was made after its creation, so all the others were in it, before it. The rule of Curator for
// Java, that all children together are at most max, is stricter, so that the two can be mixed. Where by the
// stricter rule two callers that race for the last lease both give up, here the first gets it.
//
// A lease whose number cannot be read counts as being ahead.
func (s snapshot) judge(own []string) verdict {
	last := int64(-1)
	for _, name := range own {
		n, ok := number(name)
		if !ok || n >= queue.Limit {
			return exhausted
		}
		last = max(last, n)
	}
	found, upTo := 0, 0
	for _, name := range s.children {
		if !isLease(name) {
			continue
		}
		if n, ok := number(name); !ok || n <= last {
			upTo++
		}
		if slices.Contains(own, name) {
			found++
		}
	}
	switch {
	case found < len(own):
		return missing
	case upTo > s.max:
		return full
	}
	return granted
}

// isLease says whether a child is a lease's node, of any client, whatever is in front of the name.
func isLease(name string) bool { return strings.Contains(name, leaseName) }

// number reads the number of a lease: ten digits and nothing else.
func number(name string) (n int64, ok bool) {
	key := zkpath.SortKey(name, leaseName)
	n, ok = zkpath.Sequence(key)
	return n, ok && n >= 0 && len(key) == 10
}
