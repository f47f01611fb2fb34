package queue

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// itemBacklog is the consumer's state of the queue: the items of its last list, in order, that it has not tried yet. It
// does no I/O.
type itemBacklog struct {
	order       Order
	items       []string
	excluded    map[string]bool // not tried again by this consumer
	firstLocked string          // the first item that another consumer has locked; empty if there is none

	listedCount, triedCount int // items in the last list, and how many were tried since
	lossesInRow             int // lost races for an item, in a row
}

// replaceItems replaces the backlog with new lists of the queue and of the locks.
func (b *itemBacklog) replaceItems(names, locks []string) {
	locked := make(map[string]bool, len(locks))
	for _, name := range locks {
		locked[name] = true
	}
	excluded := map[string]bool{} // names that are no longer listed are dropped
	b.items, b.firstLocked, b.triedCount = b.items[:0], "", 0
	for _, name := range names {
		switch {
		case !strings.HasPrefix(name, itemPrefix):
		case b.excluded[name]:
			excluded[name] = true
		case locked[name]:
			b.recordLocked(name)
		default:
			b.items = append(b.items, name)
		}
	}
	b.excluded, b.listedCount = excluded, len(b.items)
	b.order.sortNames(b.items)
}

// next removes and returns the item to try next: the first, or after lost races a random one of the first few, so
// that consumers do not compete for the same item each time. If no item is due, it returns the time until the first
// one is; 0 if there are no items.
func (b *itemBacklog) next(now time.Time, random func(n int) int) (name string, wait time.Duration) {
	due := b.items
	if b.order == ByDelay {
		nowMillis := now.UnixMilli()
		n := 0
		for n < len(due) && dueMillis(due[n]) <= nowMillis {
			n++
		}
		if due = due[:n]; n == 0 && len(b.items) > 0 {
			return "", timeUntil(dueMillis(b.items[0]), now)
		}
	}
	if len(due) == 0 {
		return "", 0
	}
	i := random(min(len(due), 1<<min(b.lossesInRow, 6)))
	name = due[i]
	b.items = slices.Delete(b.items, i, i+1)
	b.triedCount++
	return name, 0
}

// upcoming returns the first n items, or all if there are fewer. In ByDelay they may not be due: then it returns none.
func (b *itemBacklog) upcoming(n int) []string {
	if b.order == ByDelay {
		return nil
	}
	return b.items[:min(n, len(b.items))]
}

// timeUntil returns the time until a later moment in milliseconds since 1970, at most an hour.
func timeUntil(millis int64, now time.Time) time.Duration {
	return min(time.UnixMilli(millis).Sub(now), time.Hour)
}

// isOutdated reports whether to list again before the next item, given that the queue has changed since the last list.
// In a FIFO new items come last, so the list is worked off first. In other orders a new item may come first; but a
// hundredth of a long list is worked off before the next list, so that lists cost at most a hundred names an item.
func (b *itemBacklog) isOutdated() bool {
	if b.order == FIFO || b.order == ByID {
		return len(b.items) == 0
	}
	return b.triedCount*100 >= b.listedCount
}

// recordWin and recordLoss record the result of a race with other consumers for an item.
func (b *itemBacklog) recordWin()  { b.lossesInRow = 0 }
func (b *itemBacklog) recordLoss() { b.lossesInRow++ }

func (b *itemBacklog) excludeItem(name string) { b.excluded[name] = true }

func (b *itemBacklog) recordLocked(name string) {
	b.firstLocked = min(name, cmp.Or(b.firstLocked, name))
}
