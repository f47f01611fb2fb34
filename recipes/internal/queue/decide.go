package queue

import (
	"math"
	"strings"

	"github.com/go-curator/curator/internal/zkpath"
)

// Limit is the first sequence number that is refused. The counter of a directory sticks at 2147483647, where ZooKeeper hands out
// the same number again and again: there the order, and with it the lock, is void for everybody. The distance of 2^20 is room for
// the contenders that are on their way when the first one is refused.
const Limit = math.MaxInt32 + 1 - 1<<20

// firstKey is the sort key of the first node ever created in a directory.
const firstKey = "0000000000"

// Order says who comes before whom in a directory. The zero value is of no use: Names must hold a name.
type Order struct {
	// Names are the names that contenders carry in front of their number: "lock-" for a mutex, "latch-" for a latch, "__READ__"
	// and "__WRIT__" for a read-write lock, in the order in which Java takes the sort key by them.
	Names []string
	// Blockers, if set, is the one of Names whose owners block: a reader stands behind "__WRIT__" only. Empty: every contender
	// ahead blocks.
	Blockers string
}

// Verdict is what a list means for the owner of a node.
type Verdict int8

const (
	// Granted says that nobody ahead blocks.
	Granted Verdict = iota + 1
	// Wait says that Predecessor has to go first.
	Wait
	// Missing says that the own node is not in the list: the list is older than the node, or the node is gone.
	Missing
	// Refused says that the own number is at the end of the counter.
	Refused
)

func (v Verdict) String() string {
	return [...]string{"none", "granted", "wait", "missing", "refused"}[max(0, min(v, Refused))]
}

// Decision is the meaning of one list.
type Decision struct {
	Verdict Verdict
	// Predecessor is the nearest contender ahead that blocks; set with Wait.
	Predecessor string
	// Ahead counts the contenders ahead that block.
	Ahead int
	// Sole says that the deletion of Predecessor alone makes the owner the first, without another list: it is the only child ahead
	// in Java's order over all children, and no name in the directory is out of the ordinary.
	Sole bool
	// Foreign is a child that is no contender, if there is one; rather one that Java counts as being ahead.
	Foreign string
	// ForeignAhead says that Foreign sorts before the own node: contenders with Curator for Java wait for it.
	ForeignAhead bool
}

// Decide says what the list of children means for the owner of own. It looks at names only: the caller knows that the list was
// read after the node was created, and in the same session.
//
// The order is Curator's for Java: by the text behind the name, compared as a string, equal ones as listed. A child that carries
// none of the names is no contender and blocks nobody here. Java counts it, so a Java contender may wait where we do not; the
// other way round, which would make two holders, cannot happen: Java passes nobody that we wait for.
func (o Order) Decide(own string, children []string) Decision {
	ownKey := o.key(own)
	if number, ok := zkpath.Sequence(ownKey); !ok || number < 0 || number >= Limit {
		return Decision{Verdict: Refused}
	}
	var (
		d         Decision
		seen      bool   // own has been met: equal keys from here on are behind
		predKey   string // sort key of d.Predecessor
		javaAhead int    // children ahead for Java, which filters nothing
		odd       bool   // a contender's name that no recipe writes
	)
	for _, name := range children {
		if name == own {
			seen = true
			continue
		}
		key := o.key(name)
		ahead := key < ownKey || key == ownKey && !seen && o.Blockers == ""
		if ahead {
			javaAhead++
		}
		if !o.contender(name) {
			if d.Foreign == "" || ahead && !d.ForeignAhead {
				d.Foreign, d.ForeignAhead = name, ahead
			}
			continue
		}
		if _, ok := zkpath.Sequence(key); !ok || len(key) != len(firstKey) || key[0] == '-' {
			odd = true
		}
		if !ahead || !o.blocks(name) {
			continue
		}
		d.Ahead++
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
		d.Sole = javaAhead == 1 && d.Foreign == "" && !odd && len(o.Names) == 1 && o.Blockers == ""
	}
	return d
}

// Taken returns the first contender that a newcomer would have to wait for, "" if there is none. It may say "" where Decide says
// Wait later; never the other way round as long as the list stands.
func (o Order) Taken(children []string) string {
	first, least := "", ""
	for _, name := range children {
		if !o.blocks(name) {
			continue
		}
		key := o.key(name)
		if _, ok := zkpath.Sequence(key); !ok && key >= firstKey {
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
		if o.contender(name) {
			line = append(line, name)
		}
	}
	zkpath.Sort(line, o.Names...)
	return line
}

// Number returns the sequence number of a contender's node.
func (o Order) Number(name string) (int64, bool) { return zkpath.Sequence(o.key(name)) }

func (o Order) key(name string) string {
	for _, lockName := range o.Names {
		name = zkpath.SortKey(name, lockName)
	}
	return name
}

// contender: any client's node, whatever stands in front of the name: Curator's, go-zookeeper's, a plain "lock-0000000001".
func (o Order) contender(name string) bool {
	for _, lockName := range o.Names {
		if strings.Contains(name, lockName) {
			return true
		}
	}
	return false
}

func (o Order) blocks(name string) bool {
	if o.Blockers != "" {
		return strings.Contains(name, o.Blockers)
	}
	return o.contender(name)
}
