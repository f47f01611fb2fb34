package queue

import (
	"slices"
	"strings"
	"time"
)

// backlog is the consumer's state of the queue: the items of its last list, in order, that it has not tried yet. It
// does no I/O.
type backlog struct {
	order Order
	items []string
	shun  map[string]bool // not tried again by this consumer
	busy  string          // the first item that another consumer has locked; empty if there is none

	listed, tried int // items in the last list, and how many were tried since
	losses        int // lost races for an item, in a row
}

// list replaces the backlog with new lists of the queue and of the locks.
func (b *backlog) list(names, locks []string) {
	locked := make(map[string]bool, len(locks))
	for _, name := range locks {
		locked[name] = true
	}
	shun := map[string]bool{} // names that are no longer listed are dropped
	b.items, b.busy, b.tried = b.items[:0], "", 0
	for _, name := range names {
		switch {
		case !strings.HasPrefix(name, itemPrefix):
		case b.shun[name]:
			shun[name] = true
		case locked[name]:
			b.taken(name)
		default:
			b.items = append(b.items, name)
		}
	}
	b.shun, b.listed = shun, len(b.items)
	b.order.sort(b.items)
}

// next removes and returns the item to try next: the first, or after lost races a random one of the first few, so
// that consumers do not compete for the same item each time. If no item is due, it returns the time until the first
// one is; 0 if there are no items.
func (b *backlog) next(now time.Time, random func(n int) int) (name string, wait time.Duration) {
	due := b.items
	if b.order == ByDelay {
		late := now.UnixMilli()
		n := 0
		for n < len(due) && dueAt(due[n]) <= late {
			n++
		}
		if due = due[:n]; n == 0 && len(b.items) > 0 {
			return "", until(dueAt(b.items[0]), now)
		}
	}
	if len(due) == 0 {
		return "", 0
	}
	i := 0
	if b.losses > 0 {
		i = random(min(len(due), 1<<min(b.losses, 6)))
	}
	name = due[i]
	b.items = slices.Delete(b.items, i, i+1)
	b.tried++
	return name, 0
}

// until returns the time until a moment in milliseconds since 1970, at most an hour, so that it cannot overflow.
func until(epoch int64, now time.Time) time.Duration {
	const most = time.Hour
	if epoch < now.Add(most).UnixMilli() {
		return max(time.UnixMilli(epoch).Sub(now), time.Microsecond)
	}
	return most
}

// outdated reports whether to list again before the next item, given that the queue has changed since the last list.
// New items of a FIFO come last, so it works off its list first. In other orders a new item may come first; but a
// hundredth of a long list is worked off before the next list, so that lists cost at most a hundred names an item.
func (b *backlog) outdated() bool {
	if b.order == FIFO || b.order == ByID {
		return len(b.items) == 0
	}
	return b.tried*100 >= b.listed
}

// won and lost record the result of a race for an item.
func (b *backlog) won()  { b.losses = 0 }
func (b *backlog) lost() { b.losses++ }

// leave excludes the item from this consumer's later lists.
func (b *backlog) leave(name string) { b.shun[name] = true }

// taken records that another consumer has locked the item.
func (b *backlog) taken(name string) {
	if b.busy == "" || name < b.busy {
		b.busy = name
	}
}
