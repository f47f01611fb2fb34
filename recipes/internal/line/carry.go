package line

import (
	"context"
	"iter"

	"github.com/go-curator/curator/internal/fencing"
)

// A context carries the grants that it was derived from, so that a caller that acquires again with it does not wait for
// itself. They form a list, and are not one value per lock, because contexts are merged (of the work and of a lock, or
// of several locks), and an entry that has ended must not hide a valid one.

// lineKey is the key of the grants in a context. It is common to all Lines of the same client, in whatever view of it, at
// the same node and with the same name.
type lineKey struct {
	place any
	name  string
}

func (l *Line) lineKey() *lineKey {
	own := l.cachedLineKey.Load()
	if own == nil {
		own = &lineKey{l.Client.Place(l.Dir), l.Name}
		l.cachedLineKey.Store(own)
	}
	return own
}

type carriedGrant struct {
	key   *lineKey
	grant *Grant
	next  *carriedGrant
}

type grantsContextKey struct{}

// grantContext is the context of a grant: that of its hold or, for a turn, one that ends before. It carries a list.
type grantContext struct {
	context.Context
	grant  *Grant
	grants *carriedGrant
}

// Err implements [context.Context]. It looks at the clock, as that of the hold's context does.
func (c *grantContext) Err() error {
	err := c.Context.Err()
	if err == nil && c.grant.turn != nil {
		c.grant.Hold.Valid()
		err = c.Context.Err()
	}
	return err
}

// Value implements [context.Context].
func (c *grantContext) Value(key any) any {
	if key == (grantsContextKey{}) {
		return c.grants
	}
	t := c.grant.turn
	if t == nil {
		return c.Context.Value(key)
	}
	list, ok := key.(*fencing.List)
	if ok { // all turns of the node have its czxid
		list.Add(fencing.Hold{Path: t.Path, Shared: true, Context: c})
	}
	if v := t.values.Value(key); v != nil || ok {
		return v
	}
	return c.Context.Value(key)
}

func carriedGrants(ctx context.Context) *carriedGrant {
	list, _ := ctx.Value(grantsContextKey{}).(*carriedGrant)
	return list
}

// mergeHeld returns the list with those of other that are still held.
func (list *carriedGrant) mergeHeld(other *carriedGrant) *carriedGrant {
	all := list
	for ; other != nil; other = other.next {
		if other.grant.isHeld() && !list.contains(other.grant) {
			all = &carriedGrant{other.key, other.grant, all}
		}
	}
	return all
}

func (list *carriedGrant) contains(g *Grant) bool {
	for ; list != nil; list = list.next {
		if list.grant == g {
			return true
		}
	}
	return false
}

// IsCarriedBy reports whether ctx carries the grant.
func (g *Grant) IsCarriedBy(ctx context.Context) bool { return carriedGrants(ctx).contains(g) }

// OwnerFromContext returns the owner of the innermost grant that ctx carries, ended or not, with an owner of the type T.
func OwnerFromContext[T any](ctx context.Context) (owner T) {
	for entry := carriedGrants(ctx); entry != nil; entry = entry.next {
		if owner, ok := entry.grant.Owner.(T); ok {
			return owner
		}
	}
	return owner
}

// HeldGrants yields the grants of this Line, or one like it, that ctx carries and that are still held, the last
// first.
func (l *Line) HeldGrants(ctx context.Context) iter.Seq[*Grant] {
	return func(yield func(*Grant) bool) {
		list := carriedGrants(ctx)
		if list == nil {
			return
		}
		for own := l.lineKey(); list != nil; list = list.next {
			if *list.key == *own && list.grant.isHeld() && !yield(list.grant) {
				return
			}
		}
	}
}

// HeldGrant returns a grant of this Line, or one like it, that ctx carries and that is still held; nil if there
// is none.
func (l *Line) HeldGrant(ctx context.Context) *Grant {
	for g := range l.HeldGrants(ctx) {
		return g
	}
	return nil
}
