package counter

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Watch yields the present value, and again after each change, until the loop is left or ctx ends: always the latest.
// Of changes in quick succession, or while the loop is busy, only the last may be seen; it is always seen.
// [Value.Follow] omits less, and reports the connection's state. Watch continues through lost connections and lost
// sessions, and waits while the node is missing. It runs on the caller's goroutine. It costs one read per change, and
// one about every session timeout, in case an event gets lost.
//
// The last yield may be an error: ctx's, ErrClosed, ErrNoAuth and the like; ErrSessionLost for the view of a session
// that has ended. But a node that contains no such value yields ErrBadValue, and Watch continues.
func (v *Value[T]) Watch(ctx context.Context) iter.Seq2[Seen[T], error] {
	return func(yield func(Seen[T], error) bool) {
		err := v.checkReady(ctx)
		if err == nil {
			last := int64(-1) // mzxid of the last yield
			err = v.readEachChange(ctx, nil, func(c nodeReading) bool {
				if !c.exists || c.stat.Mzxid == last {
					return true
				}
				last = c.stat.Mzxid
				seen, bad := v.decodeContent(c.nodeContent, nil)
				return yield(seen, v.wrapError("watch", bad))
			})
		}
		if err != nil {
			yield(Seen[T]{}, v.wrapError("watch", err))
		}
	}
}

// nodeReading is the result of a read, and whether it is current.
type nodeReading struct {
	nodeContent
	exists, current bool
	state           framework.StateChange
}

// readEachChange calls show with each read, first and whenever the node may have changed, until show returns false;
// then it returns nil. states, if not nil, is called with the client's states in between.
func (v *Value[T]) readEachChange(
	ctx context.Context, states func(framework.StateChange), show func(nodeReading) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := valueWatcher{client: v.node.client, path: v.node.path, onState: states}
	if states != nil {
		w.states, w.lastState = w.client.StateChanges(ctx), w.client.State()
	}
	// The watch of the last read. It is stopped after the next one is armed, which costs no request.
	var armed *framework.Watch
	defer func() { armed.Stop() }()
	for failures := 0; ; {
		c, exists, watch, err := w.readAndWatch(ctx)
		armed.Stop()
		armed = watch
		switch {
		case err == nil:
			failures = 0
			if w.drainStates(ctx); w.isOutdated() {
				continue
			}
			if !show(nodeReading{c, exists, w.isCurrent(), w.lastState}) {
				return nil
			}
			if err := w.awaitChange(ctx, watch); err != nil {
				return err
			}
		case ctx.Err() != nil, !line.IsTransient(w.client)(err):
			return err
		default:
			failures++
			if err := line.Backoff(ctx, w.client, failures); err != nil {
				return err
			}
		}
	}
}

// valueWatcher reads a node and waits for a reason to read it again.
type valueWatcher struct {
	client  *framework.Client
	path    string
	states  <-chan framework.StateChange // nil if states are not reported
	onState func(framework.StateChange)

	lastState      framework.StateChange // the last state reported, or the initial one
	sameConnection bool                  // no state was reported since the last read began
}

// isCurrent reports whether the last read was on the present connection.
func (w *valueWatcher) isCurrent() bool { return w.lastState.State.IsConnected() && w.sameConnection }

// isOutdated reports whether the last read was on an earlier connection, and another is present.
func (w *valueWatcher) isOutdated() bool { return w.lastState.State.IsConnected() && !w.sameConnection }

// readAndWatch reads the node and arms a watch, of its creation if it is missing.
func (w *valueWatcher) readAndWatch(ctx context.Context) (c nodeContent, exists bool, _ *framework.Watch, _ error) {
	for {
		w.sameConnection = true
		data, err := awaitResult(w, ctx, w.client.GetData().Undecompressed().WithWatch().InBackground().ForPath(ctx, w.path))
		if !errors.Is(err, framework.ErrNoNode) {
			data.Data, err = line.UnpackData(w.client, w.path, data.Data, err)
			return nodeContent{data.Data, data.Stat}, true, data.Watch, err
		}
		found, err := awaitResult(w, ctx, w.client.CheckExists().WithWatch().InBackground().ForPath(ctx, w.path))
		if err != nil || found.Stat == nil {
			return nodeContent{}, false, found.Watch, err
		}
		found.Watch.Stop() // created in between
	}
}

// awaitResult waits for an operation that ends with ctx, and reports the states until then.
func awaitResult[T any](w *valueWatcher, ctx context.Context, p *framework.Pending[T]) (T, error) {
	for {
		select {
		case <-p.Done():
			return line.AwaitResult(p)
		case change, more := <-w.states:
			w.reportState(change, more)
		}
	}
}

// awaitChange waits until the node may have changed, or there is another connection.
func (w *valueWatcher) awaitChange(ctx context.Context, watch *framework.Watch) error {
	every := time.NewTimer(line.SessionTimeoutInterval(w.client)())
	defer every.Stop()
	for !w.isOutdated() {
		select {
		case <-watch.C:
			return nil
		case <-every.C:
			return nil
		case <-ctx.Done():
			return w.client.WaitError(ctx, nil)
		case change, more := <-w.states:
			w.reportState(change, more)
			if !more {
				return nil
			}
		}
	}
	return nil
}

// reportState reports a state. The channel closes with the client.
func (w *valueWatcher) reportState(change framework.StateChange, more bool) {
	switch {
	case !more:
		w.states = nil
	case change != w.lastState: // the channel begins with the present state
		w.lastState, w.sameConnection = change, false
		w.onState(change)
	}
}

// drainStates reports the states so far, so that a value that was read on a new connection is reported after the new
// connection's state.
func (w *valueWatcher) drainStates(ctx context.Context) {
	for w.states != nil && w.lastState != w.client.State() {
		select {
		case change, more := <-w.states:
			w.reportState(change, more)
		case <-ctx.Done():
			return
		}
	}
}
