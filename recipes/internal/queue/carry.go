package queue

import (
	"context"
	"iter"
)

// A context carries what was acquired on the way to it, so that a caller that acquires again with it does not
// wait for itself. It is a list and not one value per lock: contexts are merged (those of the work and of a
// lock, those of several locks), and an entry that has ended must not hide one that has not.

type Carriable interface {
	// Live says whether it is still held.
	Live() bool
}

type carried struct {
	owner any
	what  Carriable
	next  *carried
}

type carryKey struct{}

func carriedBy(ctx context.Context) *carried {
	list, _ := ctx.Value(carryKey{}).(*carried)
	return list
}

// Carry returns ctx carrying what as well. owner says whose it is, as for [AllCarried].
func Carry(ctx context.Context, owner any, what Carriable) context.Context {
	return context.WithValue(ctx, carryKey{}, &carried{owner, what, carriedBy(ctx)})
}

// CarryFrom returns ctx carrying also what other carries and is still live.
func CarryFrom(ctx, other context.Context) context.Context {
	list := carriedBy(ctx)
	all := list
	for entry := carriedBy(other); entry != nil; entry = entry.next {
		if entry.what.Live() && !list.has(entry.what) {
			all = &carried{entry.owner, entry.what, all}
		}
	}
	if all == list {
		return ctx
	}
	return context.WithValue(ctx, carryKey{}, all)
}

func (list *carried) has(what Carriable) bool {
	for ; list != nil; list = list.next {
		if list.what == what {
			return true
		}
	}
	return false
}

// AllCarried yields the live entries of owner's that ctx carries, the last first.
func AllCarried[C Carriable](ctx context.Context, owner any) iter.Seq[C] {
	return func(yield func(C) bool) {
		for entry := carriedBy(ctx); entry != nil; entry = entry.next {
			if entry.owner != owner || !entry.what.Live() {
				continue
			}
			if what, ok := entry.what.(C); ok && !yield(what) {
				return
			}
		}
	}
}
