package counter

import (
	"context"
	"iter"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
)

// View is a value as last read, the connection's state, and whether the value is up to date.
type View[T any] struct {
	Seen[T]
	// Missing reports whether the node did not exist.
	Missing bool
	// Bad is ErrBadValue while the node contains no such value, and nil otherwise.
	Bad error
	// Current reports whether this was read on the present connection. Otherwise it was read before, and may be out
	// of date.
	Current bool
	// State is the client's connection state at that time.
	State framework.StateChange
}

// Follow yields views of the value, in order and without loss: the first, one after each change that was read, and
// one after each change of the connection's state, until the loop is left or ctx ends. Reading does not wait for the
// loop: views that the loop has not taken yet are kept. (Changes that were never read cannot be yielded: of several
// changes while one event is in flight ZooKeeper reports only the last. The Version shows how many there were.)
// Unlike [Value.Watch] it also yields when the node is missing, and when the connection is suspended.
//
// The last yield may be an error, as with Watch. Corresponds to Curator's SharedValueListener.
func (v *Value[T]) Follow(ctx context.Context) iter.Seq2[View[T], error] {
	return func(yield func(View[T], error) bool) {
		if err := v.checkReady(ctx); err != nil {
			yield(View[T]{}, v.wrapError("follow", err))
			return
		}
		inner, cancel := context.WithCancel(ctx)
		views, ended := flow.NewQueue[View[T]](), make(chan error, 1)
		goroutineEnded := make(chan struct{})
		v.node.client.Spawn(func(closing context.Context) {
			defer close(goroutineEnded)
			stop := context.AfterFunc(closing, cancel)
			defer stop()
			ended <- v.queueViews(inner, views)
		})
		defer func() {
			cancel()
			<-goroutineEnded
		}()
		show := func() bool {
			for _, view := range views.Take() {
				if !yield(view, nil) {
					return false
				}
			}
			return true
		}
		for {
			select {
			case <-views.More():
				if !show() {
					return
				}
			case err := <-ended:
				if ctx.Err() != nil {
					err = v.node.client.WaitError(ctx, nil)
				}
				if show() {
					yield(View[T]{}, v.wrapError("follow", err))
				}
				return
			}
		}
	}
}

// queueViews queues the views, until an error ends it.
func (v *Value[T]) queueViews(ctx context.Context, views *flow.Queue[View[T]]) error {
	var last View[T]
	hasRead := false // after the first read
	err := v.readEachChange(ctx, func(state framework.StateChange) {
		if last.State, last.Current = state, false; hasRead {
			views.Put(last)
		}
	}, func(r nodeReading) bool {
		next := View[T]{Missing: !r.exists, Current: r.current, State: r.state}
		if r.exists {
			if next.Seen, next.Bad = v.decodeContent(r.nodeContent, nil); next.Bad != nil {
				next.Seen = newSeen(next.N, r.stat)
			}
			next.Bad = v.wrapError("follow", next.Bad)
		}
		same := next.Current == last.Current && next.Missing == last.Missing && next.Mzxid == last.Mzxid
		if !hasRead || !same {
			views.Put(next)
		}
		last, hasRead = next, true
		return true
	})
	if closed := v.node.client.Err(); closed != nil {
		return closed
	}
	return err
}
