// Package fencing finds the holds that a context belongs to: what contrib/fence takes fencing tokens from.
package fencing

import "context"

// Hold is a hold as its context tells of it.
type Hold struct {
	Path    string          // of its node, as its client sees it
	Token   int64           // the czxid of the node; 0 while it is not known
	Shared  bool            // others may hold the same at the same time, so that no order follows from Token
	Context context.Context // of the hold; it tells holds apart
}

// List is what [Of] fills. It is also the key that a context is asked for: those of holds add theirs, and pass
// the question on to the context that they have their values from. So a hold costs nothing until somebody
// asks, and contexts that others have derived, or merged, need no knowledge of it.
type List struct{ holds []Hold }

// Add adds a hold, once.
func (l *List) Add(h Hold) {
	for _, known := range l.holds {
		if known.Context == h.Context {
			return
		}
	}
	l.holds = append(l.holds, h)
}

// Of returns the holds that ctx belongs to, the innermost first, also those that have ended.
func Of(ctx context.Context) []Hold {
	var list List
	_ = ctx.Value(&list)
	return list.holds
}
