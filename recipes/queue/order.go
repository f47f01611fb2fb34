package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// Order determines the names of a queue's items, and so their order. All producers and consumers of a queue must
// agree on it.
type Order int8

const (
	// FIFO is first in, first out. Corresponds to Curator's DistributedQueue.
	FIFO Order = iota
	// ByPriority takes items with the smallest [Priority] first, and of those the oldest. Corresponds to
	// Curator's DistributedPriorityQueue.
	ByPriority
	// ByDelay keeps each item until it is [Due]. Corresponds to Curator's DistributedDelayQueue.
	ByDelay
	// ByID is FIFO with an id for each item, with which [Queue.Remove] finds it. Corresponds to Curator's
	// DistributedIdQueue.
	ByID
)

// PutOption configures one put: [Priority], [Due] or [ID]. If one is given several times the last counts.
type PutOption func(*placing)

type placing struct {
	order    Order // which the options are for
	priority int32
	due      time.Time
	id       string
}

// Priority is for queues with [ByPriority]: the smaller, the earlier. Without it the priority is 0.
func Priority(n int32) PutOption { return func(p *placing) { p.order, p.priority = ByPriority, n } }

// Due is for queues with [ByDelay]: the item is not handled before that time, by the consumers' clocks, to the
// millisecond. Without it the item is due immediately. Times before 1970 are 1970.
func Due(t time.Time) PutOption { return func(p *placing) { p.order, p.due = ByDelay, t } }

// ID is for queues with [ByID], which need it. Several items may have the same id. In the name of the node "/" and
// "|" become "_", so ids that differ only in those are the same.
func ID(id string) PutOption { return func(p *placing) { p.order, p.id = ByID, id } }

const itemPrefix = "queue-"

// namePrefix returns the name of an item's node without the number.
func (o Order) namePrefix(opts []PutOption) (string, error) {
	var p placing
	for _, opt := range opts {
		if opt == nil {
			return "", fmt.Errorf("%w: an option is nil; leave it out", framework.ErrBadArguments)
		}
		if opt(&p); p.order != o {
			return "", fmt.Errorf("%w: the queue is not ordered by what the option says; see WithOrder",
				framework.ErrBadArguments)
		}
	}
	switch o {
	case ByPriority:
		sign := 1
		if p.priority < 0 {
			sign = 0
		}
		return fmt.Sprintf("%s%d%08X", itemPrefix, sign, uint32(p.priority)), nil
	case ByDelay:
		millis := int64(0)
		if p.due.After(time.UnixMilli(0)) {
			millis = p.due.UnixMilli()
			if p.due.After(time.UnixMilli(millis)) {
				millis++ // not before that time
			}
		}
		return fmt.Sprintf("%s|%08X|", itemPrefix, millis), nil
	case ByID:
		id := escapeID(p.id)
		if id == "" {
			return "", fmt.Errorf("%w: a queue ordered by id needs one", framework.ErrBadArguments)
		}
		if err := zkpath.Validate("/"+id, true); err != nil {
			return "", fmt.Errorf("%w: the id %q: %w", framework.ErrBadArguments, id, err)
		}
		return itemPrefix + "|" + id + "|", nil
	}
	return itemPrefix, nil
}

func escapeID(id string) string { return strings.NewReplacer("/", "_", "|", "_").Replace(id) }

// withoutNumber returns the name without its number, for putting the item again.
func withoutNumber(name string) string {
	const digits = 10
	n := len(name) - digits
	if n <= len(itemPrefix) || strings.Trim(name[n:], "0123456789") != "" {
		return itemPrefix
	}
	if name[n-1] == '-' { // a number that has overflowed
		n--
	}
	return name[:n]
}

// sortNames sorts items as Curator's consumers do: as strings; ByDelay by due time; ByID without the id.
func (o Order) sortNames(names []string) {
	switch o {
	case ByDelay:
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(dueMillis(a), dueMillis(b)), strings.Compare(a, b))
		})
	case ByID:
		slices.SortStableFunc(names, func(a, b string) int {
			_, a, _ = splitID(a)
			_, b, _ = splitID(b)
			return strings.Compare(a, b)
		})
	default:
		slices.Sort(names)
	}
}

// dueMillis returns the time when an item is due, in milliseconds since 1970, from between the last two pipes of its
// name. It is 0, due immediately, if the name has none.
func dueMillis(name string) int64 {
	head := name[:max(strings.LastIndexByte(name, '|'), 0)]
	millis, err := strconv.ParseInt(head[strings.LastIndexByte(head, '|')+1:], 16, 64)
	if err != nil {
		return 0
	}
	return millis
}

// splitID returns the id, which stands between the first two pipes, and the name without it. Without an id it returns
// the whole name as rest, and ok is false.
func splitID(name string) (id, rest string, ok bool) {
	before, after, _ := strings.Cut(name, "|")
	id, last, ok := strings.Cut(after, "|")
	if !ok {
		return "", name, false
	}
	return id, before + last, true
}
