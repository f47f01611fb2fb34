package wire

import "slices"

// lengths counts paths by their length. What a server names is looked up only where something of that length is registered: else a path of its choice,
// a long one with many names, would cost a hash of every node above it, while the session's lock is held. Session.mu guards it.
type lengths struct {
	n      map[int]int
	sorted []int // the longest first
}

func (l *lengths) add(length int) {
	if l.n == nil {
		l.n = map[int]int{}
	}
	if l.n[length]++; l.n[length] == 1 {
		at, _ := slices.BinarySearchFunc(l.sorted, length, longerFirst)
		l.sorted = slices.Insert(l.sorted, at, length)
	}
}

func (l *lengths) remove(length int) {
	if l.n[length]--; l.n[length] > 0 {
		return
	}
	delete(l.n, length)
	if at, found := slices.BinarySearchFunc(l.sorted, length, longerFirst); found {
		l.sorted = slices.Delete(l.sorted, at, at+1)
	}
}

func (l *lengths) has(length int) bool { return l.n[length] > 0 }

func longerFirst(a, b int) int { return b - a }
