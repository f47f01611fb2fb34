package cache

import "slices"

// keptCapacity is for how many values an empty queue keeps memory.
const keptCapacity = 16

// fifoQueue is a queue. Its memory depends on the values in it now, not on all that ever were, even if it is never
// empty.
type fifoQueue[T any] struct {
	items []T
	head  int // items[:head] has been taken
}

func (f *fifoQueue[T]) len() int { return len(f.items) - f.head }

func (f *fifoQueue[T]) push(v T) {
	if 2*f.head > len(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

func (f *fifoQueue[T]) grow(n int) { f.items = slices.Grow(f.items, n) }

func (f *fifoQueue[T]) pop() (v T, ok bool) {
	if f.len() == 0 {
		return v, false
	}
	v = f.items[f.head]
	clear(f.items[f.head : f.head+1]) // to free the memory that it refers to
	f.head++
	if f.len() == 0 {
		if f.items, f.head = f.items[:0], 0; cap(f.items) > keptCapacity {
			f.items = nil
		}
	}
	return v, true
}
