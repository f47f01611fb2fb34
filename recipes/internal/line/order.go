package line

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/go-curator/curator/internal/zkpath"
)

// SequenceLimit is the first sequence number that is refused. The counter of a directory sticks at 2147483647, where
// ZooKeeper hands out the same number again and again, and the order means nothing. The distance of 2^20
// leaves room for contenders that are on their way when the first one is refused.
const SequenceLimit = math.MaxInt32 + 1 - 1<<20

// firstSortKey is the sort key of the first node ever created in a directory.
const firstSortKey = "0000000000"

// Order is the order of the contenders in a directory. Names must have at least one name.
type Order struct {
	// Names are the prefixes of the number in the names of contenders' nodes: "lock-" for a mutex, "latch-" for a
	// latch, "__READ__" and "__WRIT__" for a read-write lock, in the order in which Java looks for them.
	Names []string
	// Blockers, if set, is the one of Names whose owners block: a reader waits for "__WRIT__" only. Empty:
	// every contender ahead blocks.
	Blockers string
	// Foreign, if set, reports which other names, with ten digits at their end, belong to contenders of an
	// implementation that is neither this one nor Curator. For lines where every contender blocks.
	Foreign func(name string) bool
}

type Verdict int8

const (
	Granted Verdict = iota + 1 // no contender ahead blocks
	Wait                       // Predecessor has to go first
	Missing                    // the own node is not in the list, which is older, or the node is gone
	Refused                    // the own number is at the end of the counter
)

func (v Verdict) String() string {
	return [...]string{"none", "granted", "wait", "missing", "refused"}[max(0, min(v, Refused))]
}

type Decision struct {
	Verdict     Verdict
	Predecessor string // the nearest contender ahead that blocks; set with Wait
	Ahead       int    // counts the contenders ahead that block
	// OnlyAhead reports whether the deletion of Predecessor alone makes the owner the first, without another list: it is
	// the only child ahead in Java's order over all children, and no name in the directory is unusual.
	OnlyAhead bool
	// MarkProves reports whether the deletion of Predecessor makes the owner the first if Predecessor was the first for its
	// own owner: no child and no name in the directory is unusual, no contender ahead is of another kind, which
	// that owner may not know, and no contender ahead has the number of Predecessor or of the owner.
	MarkProves bool
	// Foreign is a child that is not a contender, "" if there is none; a child that Java counts as being ahead is
	// preferred.
	Foreign      string
	ForeignAhead bool // Foreign sorts before the own node: contenders with Curator for Java wait for it
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
		return Decision{Verdict: Refused}
	}
	var (
		d         Decision
		seen      bool   // own has been met: equal keys from here on come after it
		predKey   string // sort key of d.Predecessor
		javaAhead int    // children ahead for Java, which filters nothing
		odd       bool   // a contender's name that no recipe writes
		unsure    bool   // of a contender ahead others may think differently
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
			if d.Foreign == "" || ahead && !d.ForeignAhead {
				d.Foreign, d.ForeignAhead = name, ahead
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
		unsure = unsure || key == ownKey || d.Ahead > 1 && key == predKey || o.isForeign(name)
		if d.Ahead == 1 || key >= predKey { // of equal keys the later listed is the nearer
			d.Predecessor, predKey = name, key
		}
	}
	switch {
	case !seen:
		return Decision{Verdict: Missing, Foreign: d.Foreign, ForeignAhead: d.ForeignAhead}
	case d.Ahead == 0:
		d.Verdict = Granted
	default:
		d.Verdict = Wait
		usual := d.Foreign == "" && !odd && o.isExclusive()
		d.OnlyAhead, d.MarkProves = javaAhead == 1 && usual, usual && !unsure
	}
	return d
}

// isNodeLost reports whether the own node is gone: it is missing from a list that was requested after the create's reply. The
// first list may be older.
func (d Decision) isNodeLost(confirmed bool) bool { return d.Verdict == Missing && confirmed }

// FirstBlocker returns the first contender that a newcomer would have to wait for, "" if there is none. It may return
// "" where Decide returns Wait later, never the other way round while the list is right.
func (o Order) FirstBlocker(children []string) string {
	first, least := "", ""
	for _, name := range children {
		if !o.isBlocker(name) {
			continue
		}
		key := o.sortKey(name)
		if _, ok := zkpath.Sequence(key); !ok && key >= firstSortKey {
			continue // whether it comes before a number yet to be given is not certain
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

// isExclusive reports whether every contender waits for all ahead of it.
func (o Order) isExclusive() bool { return len(o.Names) == 1 && o.Blockers == "" }

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
