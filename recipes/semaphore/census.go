package semaphore

import (
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// sight is what the servers say about the semaphore at one moment.
type sight struct {
	children []string // of the directory of leases
	max      int
	watches  [2]*framework.Watch // on that directory and on the shared count, if they were asked for and there is something to watch
}

// same says whether two sights show the same, in whatever order.
func (s sight) same(o sight) bool {
	children, others := slices.Sorted(slices.Values(s.children)), slices.Sorted(slices.Values(o.children))
	return s.max == o.max && slices.Equal(children, others)
}

// stop removes the watches.
func (s sight) stop() {
	for _, w := range s.watches {
		w.Stop()
	}
}

// taken counts the leases, whoever's.
func (s sight) taken() (n int) {
	for _, name := range s.children {
		if isLease(name) {
			n++
		}
	}
	return n
}

// foreign returns a child that is no lease, if there is one. Curator for Java counts it as one.
func (s sight) foreign() string {
	for _, name := range s.children {
		if !isLease(name) {
			return name
		}
	}
	return ""
}

// verdict is what a sight means for somebody who has created lease nodes before it.
type verdict int8

const (
	// granted says that they are leases now.
	granted verdict = iota + 1
	// full says that others were faster.
	full
	// missing says that not all of them are there: the list is older than they are, or somebody has deleted them.
	missing
	// exhausted says that the directory's sequence numbers are used up.
	exhausted
)

// judge decides whether own nodes, all of them together, are within the limit.
//
// The rule: the leases up to and including the last own one, in the order of their numbers, are at most max. That never makes more than max
// holders: take, of those who hold leases at some moment, the one created last. Its list was made after its creation, so all the others
// were in it, before it. And the rule of Curator for Java, that all children together are at most max, is a stricter one, so that the
// two can be mixed. Where the stricter rule has two who race for the last lease both give up, this one lets the first have it.
//
// A lease whose number cannot be read counts as being in front.
func (s sight) judge(own []string) verdict {
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

// isLease tells leases from what does not belong here: anybody's "lease-", with whatever in front.
func isLease(name string) bool { return strings.Contains(name, leaseName) }

// number reads the number of a lease: ten digits and nothing else.
func number(name string) (n int64, ok bool) {
	key := zkpath.SortKey(name, leaseName)
	n, ok = zkpath.Sequence(key)
	return n, ok && n >= 0 && len(key) == 10
}
