package line

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/go-curator/curator/internal/zkpath"
)

// No contender waits or holds with a sequence number of SequenceLimit or more. ZooKeeper gives the last number of
// a directory, 2147483647, to all further nodes. 2^20 numbers before it are for the creates in flight when the first
// contender reaches the limit.
const SequenceLimit = math.MaxInt32 + 1 - 1<<20

// firstSortKey is the sort key of the first node ever created in a directory.
const firstSortKey = "0000000000"

// Order is the order of the contenders in a directory. Names must have at least one name.
type Order struct {
	// Names are the prefixes of the number in the names of contenders' nodes: "lock-" for a mutex, "latch-" for a
	// latch, "__READ__" and "__WRIT__" for a read-write lock, in the order in which Java looks for them.
	Names []string
	// Blockers, if set, is the one of Names whose contenders exclude the owner: a reader waits only for "__WRIT__".
	// Empty: the owner waits for every contender ahead.
	Blockers string
	// Foreign, if set, reports which other names, with ten digits at their end, belong to contenders of an
	// implementation that is neither this one nor Curator. Only without Blockers.
	Foreign func(name string) bool
}

type Verdict int8

const (
	Granted   Verdict = iota + 1 // no contender ahead blocks
	Wait                         // for Predecessor
	Missing                      // the own node is not in the list: it is gone, or the list is older
	Exhausted                    // the own number is not below SequenceLimit
)

func (v Verdict) String() string {
	return [...]string{"none", "granted", "wait", "missing", "exhausted"}[max(0, min(v, Exhausted))]
}

type Decision struct {
	Verdict     Verdict
	Predecessor string // the nearest contender ahead that blocks; set with Wait
	Ahead       int    // counts the contenders ahead that block
	// OnlyAhead reports whether the owner is the first as soon as Predecessor is deleted: that is the only child ahead, in
	// Java's order over all children, and OrderAgreed's conditions on names hold.
	OnlyAhead bool
	// OrderAgreed reports whether all contenders count the same nodes ahead, in the same order. Then the owner is the first
	// if Predecessor was the first when it was deleted. The conditions: all children are contenders, no name is unusual,
	// all are of one kind; and none ahead is Order.Foreign's, or has the number of Predecessor or of the owner.
	OrderAgreed bool
	// NonContender is a child that is not a contender, "" if there is none; one that Java counts as ahead is preferred.
	NonContender      string
	NonContenderAhead bool // Java counts it as ahead, and its contenders wait for it
}

// Decide returns the conclusion from a list of children for the owner of own. It looks at names only: the caller knows
// that the list was read after the node was created, and in the same session.
//
// The order is Curator's for Java: by the text after the name, compared as a string, equal ones as listed. A child that
// has none of the names is not a contender, and does not block here. Java counts it, so a Java contender may wait where
// this one does not. The reverse, which would make two holders, cannot happen: Java waits for every contender that this
// one waits for.
func (o Order) Decide(own string, children []string) Decision {
	ownKey := o.sortKey(own)
	if number, ok := zkpath.Sequence(ownKey); !ok || number < 0 || number >= SequenceLimit {
		return Decision{Verdict: Exhausted}
	}
	var (
		d         Decision
		seen      bool   // own has come in the list: equal keys from here on are behind it
		predKey   string // sort key of d.Predecessor
		javaAhead int    // children ahead for Java, which filters nothing
		odd       bool   // there is a contender's name that no recipe writes
		disputed  bool   // other contenders may count or order one ahead differently
	)
	for _, name := range children {
		if name == own {
			seen = true
			continue
		}
		key := o.sortKey(name)
		ahead := key < ownKey || key == ownKey && !seen && o.Blockers == ""
		if ahead {
			javaAhead++
		}
		if !o.IsContender(name) {
			if d.NonContender == "" || ahead && !d.NonContenderAhead {
				d.NonContender, d.NonContenderAhead = name, ahead
			}
			continue
		}
		if _, ok := zkpath.Sequence(key); !ok || len(key) != len(firstSortKey) || key[0] == '-' {
			odd = true
		}
		if !ahead || !o.isBlocker(name) {
			continue
		}
		d.Ahead++
		disputed = disputed || key == ownKey || d.Ahead > 1 && key == predKey || o.isForeign(name)
		if d.Ahead == 1 || key >= predKey { // of equal keys the later listed is the nearer
			d.Predecessor, predKey = name, key
		}
	}
	switch {
	case !seen:
		return Decision{Verdict: Missing, NonContender: d.NonContender, NonContenderAhead: d.NonContenderAhead}
	case d.Ahead == 0:
		d.Verdict = Granted
	default:
		d.Verdict = Wait
		usual := d.NonContender == "" && !odd && o.hasOneKind()
		d.OnlyAhead, d.OrderAgreed = javaAhead == 1 && usual, usual && !disputed
	}
	return d
}

// isNodeLost reports whether the own node is gone: it is missing from a list, and confirmed means that this list was
// requested after the create's reply. The first list may be older.
func (d Decision) isNodeLost(confirmed bool) bool { return d.Verdict == Missing && confirmed }

// FirstBlocker returns the first contender that a new one would have to wait for, "" if there is none. It returns a
// contender only if Decide would return Wait for the same children and a new node.
func (o Order) FirstBlocker(children []string) string {
	first, least := "", ""
	for _, name := range children {
		if !o.isBlocker(name) {
			continue
		}
		key := o.sortKey(name)
		if _, ok := zkpath.Sequence(key); !ok && key >= firstSortKey {
			continue // it may sort behind the number of a new node
		}
		if first == "" || key < least {
			first, least = name, key
		}
	}
	return first
}

// Contenders returns the contenders among children, first in line first.
func (o Order) Contenders(children []string) []string {
	line := make([]string, 0, len(children))
	for _, name := range children {
		if o.IsContender(name) {
			line = append(line, name)
		}
	}
	slices.SortStableFunc(line, func(a, b string) int { return cmp.Compare(o.sortKey(a), o.sortKey(b)) })
	return line
}

// SequenceNumber returns the sequence number of a contender's node.
func (o Order) SequenceNumber(name string) (int64, bool) { return zkpath.Sequence(o.sortKey(name)) }

// hasOneKind reports whether there is one kind of contender, so that each waits for all ahead of it.
func (o Order) hasOneKind() bool { return len(o.Names) == 1 && o.Blockers == "" }

func (o Order) sortKey(name string) string {
	if o.isForeign(name) {
		return name[len(name)-len(firstSortKey):]
	}
	for _, lockName := range o.Names {
		name = zkpath.SortKey(name, lockName)
	}
	return name
}

// IsContender reports whether a child is a contender's node, of any client, whatever is in front of the name: Curator's
// GUID, go-zookeeper's, or nothing.
func (o Order) IsContender(name string) bool { return o.hasKnownName(name) || o.isForeign(name) }

func (o Order) hasKnownName(name string) bool {
	return slices.ContainsFunc(o.Names, func(lockName string) bool { return strings.Contains(name, lockName) })
}

func (o Order) isForeign(name string) bool {
	if o.Foreign == nil || o.hasKnownName(name) {
		return false
	}
	_, ok := zkpath.Sequence(name)
	return ok && o.Foreign(name)
}

func (o Order) isBlocker(name string) bool {
	if o.Blockers != "" {
		return strings.Contains(name, o.Blockers)
	}
	return o.IsContender(name)
}
