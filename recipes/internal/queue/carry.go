package queue

import (
	"context"
	"iter"
)

// A context carries what was acquired on the way to it, so that who acquires again with it need not wait for itself. It is a list and not one
// value per lock: contexts come together (those of a work and of a lock, those of several locks), and what has ended must not hide what has not.

// Sharer is what is carried: a [Share], or what contains one.
type Sharer interface{ Live() bool }

// carried is one entry. It is not changed.
type carried struct {
	owner any
	share Sharer
	next  *carried
}

type carryKey struct{}

func carriedBy(ctx context.Context) *carried {
	list, _ := ctx.Value(carryKey{}).(*carried)
	return list
}

// Carry returns ctx carrying a share of what owner, a recipe's lock, gives out. It may have Begin called later.
func Carry(ctx context.Context, owner any, share Sharer) context.Context {
	return context.WithValue(ctx, carryKey{}, &carried{owner, share, carriedBy(ctx)})
}

// CarryFrom returns ctx carrying also what other carries and what is still live.
func CarryFrom(ctx, other context.Context) context.Context {
	list := carriedBy(ctx)
	all := list
	for entry := carriedBy(other); entry != nil; entry = entry.next {
		if entry.share.Live() && !list.has(entry.share) {
			all = &carried{entry.owner, entry.share, all}
		}
	}
	if all == list {
		return ctx
	}
	return context.WithValue(ctx, carryKey{}, all)
}

func (list *carried) has(share Sharer) bool {
	for ; list != nil; list = list.next {
		if list.share == share {
			return true
		}
	}
	return false
}

// Carried returns the live share of owner's that ctx carries, the last of them; false if there is none.
func Carried[S Sharer](ctx context.Context, owner any) (share S, ok bool) {
	for share := range AllCarried[S](ctx, owner) {
		return share, true
	}
	return share, false
}

// AllCarried yields the live shares of owner's that ctx carries, the last first.
func AllCarried[S Sharer](ctx context.Context, owner any) iter.Seq[S] {
	return func(yield func(S) bool) {
		for entry := carriedBy(ctx); entry != nil; entry = entry.next {
			if entry.owner != owner || !entry.share.Live() {
				continue
			}
			if share, ok := entry.share.(S); ok && !yield(share) {
				return
			}
		}
	}
}
