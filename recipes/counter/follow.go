package counter

import (
	"context"
	"iter"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
)

// View is what is known of a value, and how well.
type View[T any] struct {
	Seen[T]
	// Missing says that there is no node.
	Missing bool
	// Bad is ErrBadValue while the node contains something else, and nil otherwise.
	Bad error
	// Current says that this was read on the connection that there is. Else it is what was read before, and
	// may be out of date.
	Current bool
	// State is the client's connection state when this was known.
	State framework.StateChange
}

// Follow yields what is known of the value, in order and without loss: first, after each change that was
// read, and after each change of the connection's state, until the loop is left or ctx ends. Reading does not
// wait for the loop: what the loop has not taken yet is kept. (What nobody has read cannot be yielded: of
// several changes while one event is on its way ZooKeeper tells only the last. The Version says how many
// there were.) Unlike [Value.Watch] it also tells when there is no node, and when the connection is away.
//
// An error is the last thing that is yielded, as with Watch. Corresponds to Curator's SharedValueListener.
func (v *Value[T]) Follow(ctx context.Context) iter.Seq2[View[T], error] {
	return func(yield func(View[T], error) bool) {
		if err := v.ready(ctx); err != nil {
			yield(View[T]{}, v.wrap("follow", err))
			return
		}
		inner, cancel := context.WithCancel(ctx)
		views, ended := flow.NewQueue[View[T]](), make(chan error, 1)
		over := make(chan struct{})
		v.reg.client.Spawn(func(closing context.Context) {
			defer close(over)
			stop := context.AfterFunc(closing, cancel)
			defer stop()
			ended <- v.follow(inner, views)
		})
		defer func() {
			cancel()
			<-over // nothing is left behind
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
					err = v.reg.client.Left(ctx, nil)
				}
				if show() {
					yield(View[T]{}, v.wrap("follow", err))
				}
				return
			}
		}
	}
}

// follow puts what it learns into the queue, until it cannot go on.
func (v *Value[T]) follow(ctx context.Context, views *flow.Queue[View[T]]) error {
	var last View[T]
	known := false // there was a first read
	err := v.watch(ctx, func(state framework.StateChange) {
		if last.State, last.Current = state, false; known {
			views.Put(last)
		}
	}, func(r reading) bool {
		next := View[T]{Missing: !r.there, Current: r.current, State: r.state}
		if r.there {
			if next.Seen, next.Bad = v.seen(r.content, nil); next.Bad != nil {
				next.Seen = seenAs(next.N, r.stat)
			}
			next.Bad = v.wrap("follow", next.Bad)
		}
		same := next.Current == last.Current && next.Missing == last.Missing && next.Mzxid == last.Mzxid
		if !known || !same {
			views.Put(next)
		}
		last, known = next, true
		return true
	})
	if over := v.reg.client.Err(); over != nil {
		return over
	}
	return err
}
