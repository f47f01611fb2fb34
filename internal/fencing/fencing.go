// Package fencing finds the holds that a context belongs to, for contrib/fence.
package fencing

import "context"

// Hold describes a hold.
type Hold struct {
	Path    string          // of its node, as its client sees it
	Token   int64           // the czxid of the node; 0 while it is not known
	Shared  bool            // others may hold the same at the same time, so that no order follows from Token
	Context context.Context // of the hold; each hold has another
}

// List collects the holds for [Of]. A *List is also the key for Context.Value: the Value of a hold's context adds the hold
// to it, and calls Value of its parent. So a hold costs nothing before Of is called, and
// works through contexts that others have derived or merged.
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
