package line

import (
	"context"
	"iter"

	"github.com/go-curator/curator/internal/fencing"
)

// A context carries the grants from whose contexts it is derived, so that a caller that acquires again with it does not
// wait for itself. They form a list, and are not one value per lock, because contexts are merged ([WorkContext]), and an
// ended grant must not hide a live one.

// lineKey is the key of a line's grants in a context. It is equal for all Lines of the same client, or views of it, with
// the same directory and name.
type lineKey struct {
	place any
	name  string
}

func (l *Line) lineKey() *lineKey {
	key := l.cachedLineKey.Load()
	if key == nil {
		key = &lineKey{l.Client.Place(l.Dir), l.Name}
		l.cachedLineKey.Store(key)
	}
	return key
}

type carriedGrant struct {
	key   *lineKey
	grant *Grant
	next  *carriedGrant
}

type grantsContextKey struct{}

// grantContext is the context of a grant. It ends with the hold; for a turn it may end earlier. It carries the list.
type grantContext struct {
	context.Context
	grant  *Grant
	grants *carriedGrant
}

// Err implements [context.Context]. Like Err of the hold's context it reads the clock.
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

// mergeHeld returns the list together with the grants of other that are still held.
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

// HeldGrants yields the grants with this Line's lineKey that ctx carries and that are still held, the innermost first.
func (l *Line) HeldGrants(ctx context.Context) iter.Seq[*Grant] {
	return func(yield func(*Grant) bool) {
		list := carriedGrants(ctx)
		if list == nil {
			return
		}
		for key := l.lineKey(); list != nil; list = list.next {
			if *list.key == *key && list.grant.isHeld() && !yield(list.grant) {
				return
			}
		}
	}
}

// HeldGrant returns the first of HeldGrants; nil if there is none.
func (l *Line) HeldGrant(ctx context.Context) *Grant {
	for g := range l.HeldGrants(ctx) {
		return g
	}
	return nil
}
