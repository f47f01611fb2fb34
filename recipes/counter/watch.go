package counter

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Watch yields the value as it is, and again after each change, until the loop is left or ctx ends: always
// the latest. Of changes in quick succession, or while the loop is busy, only the last may be seen; it is
// always seen. [Value.Follow] leaves out less, and tells of the connection. It goes on through lost
// connections and lost sessions, and while there is no node it waits for one. It costs one read per change, and one in about a session timeout to be safe from events that get lost.
//
// An error is the last thing that is yielded: ctx's, ErrClosed, ErrNoAuth and the like; ErrSessionLost for
// the view of a session that has ended. But a node that contains something else yields ErrBadValue, and Watch
// goes on.
func (v *Value[T]) Watch(ctx context.Context) iter.Seq2[Seen[T], error] {
	return func(yield func(Seen[T], error) bool) {
		err := v.ready(ctx)
		if err == nil {
			last := int64(-1) // mzxid of what was yielded
			err = v.watch(ctx, nil, func(c content, there bool) bool {
				if !there || c.stat.Mzxid == last {
					return true
				}
				last = c.stat.Mzxid
				seen, bad := v.seen(c, nil)
				return yield(seen, v.wrap("watch", bad))
			})
		}
		if err != nil {
			yield(Seen[T]{}, v.wrap("watch", err))
		}
	}
}

// watch calls show with what it reads, first and whenever there may be something new, until show returns
// false, which is no error. states, if not nil, is called with the client's states in between.
func (v *Value[T]) watch(
	ctx context.Context, states func(framework.StateChange), show func(c content, there bool) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := watcher{client: v.reg.client, path: v.reg.path, told: states}
	if states != nil {
		w.states = w.client.StateChanges(ctx)
	}
	// The watch of the last read. It is stopped after the next one is armed, which costs no request.
	var armed *framework.Watch
	defer func() { armed.Stop() }()
	for failures := 0; ; {
		c, there, watch, err := w.read(ctx)
		armed.Stop()
		armed = watch
		switch {
		case err == nil:
			failures = 0
			w.tellStates()
			if !show(c, there) {
				return nil
			}
			if err := w.await(ctx, watch); err != nil {
				return err
			}
		case ctx.Err() != nil, !queue.Transient(w.client)(err):
			return err
		default:
			failures++
			if err := queue.Backoff(ctx, w.client, failures); err != nil {
				return err
			}
		}
	}
}

// watcher reads a node and waits for a reason to read it again.
type watcher struct {
	client *framework.Client
	path   string
	states <-chan framework.StateChange
	told   func(framework.StateChange)
}

// read reads the node and arms a watch, of its creation if it is not there.
func (w *watcher) read(ctx context.Context) (c content, there bool, _ *framework.Watch, _ error) {
	for {
		data, err := result(w, ctx, w.client.GetData().WithWatch().InBackground().ForPath(ctx, w.path))
		if !errors.Is(err, framework.ErrNoNode) {
			return content{data.Data, data.Stat}, true, data.Watch, err
		}
		found, err := result(w, ctx, w.client.CheckExists().WithWatch().InBackground().ForPath(ctx, w.path))
		if err != nil || found.Stat == nil {
			return content{}, false, found.Watch, err
		}
		found.Watch.Stop() // made in between
	}
}

// result waits for an operation that ends with ctx, and tells of the states meanwhile.
func result[T any](w *watcher, ctx context.Context, p *framework.Pending[T]) (T, error) {
	for {
		select {
		case <-p.Done():
			return queue.Result(p)
		case change, more := <-w.states:
			w.tell(change, more)
		}
	}
}

// await waits until the node may have changed, or there is another connection.
func (w *watcher) await(ctx context.Context, watch *framework.Watch) error {
	every := time.NewTimer(queue.PerTimeout(w.client)())
	defer every.Stop()
	for {
		select {
		case <-watch.C:
			return nil
		case <-every.C:
			return nil
		case <-ctx.Done():
			return w.client.Left(ctx, nil)
		case change, more := <-w.states:
			w.tell(change, more)
			if !more || change.State == framework.Reconnected {
				return nil
			}
		}
	}
}

// tell passes a state on. When the client is closed there are no more of them.
func (w *watcher) tell(change framework.StateChange, more bool) {
	if !more {
		w.states = nil
		return
	}
	w.told(change)
}

// tellStates tells of the states that are known already, so that a value that a new connection has revealed
// comes after the news of the connection.
func (w *watcher) tellStates() {
	for {
		select {
		case change, more := <-w.states:
			w.tell(change, more)
		default:
			return
		}
	}
}
