package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
)

// FollowWho yields the result of [Who] for a path, first immediately and then after every change there. It uses
// watches and does not poll. Changes that come faster than ten a second are combined; the last state is always
// yielded. A result is at least as new as the change that caused it.
//
// It keeps a cache of the nodes below the path. Without a connection nothing is yielded; after the reconnect the
// iteration continues. It ends when the loop breaks, or with one error: the error of ctx, an error of Who that
// waiting does not remove (ErrNoAuth, ErrInvalidPath), or ErrClosed. Then no watch is left at the server.
func FollowWho(ctx context.Context, client *framework.Client, path string, opts ...Option) iter.Seq2[Line, error] {
	read := func(ctx context.Context) (Line, error) { return Who(ctx, client, path, opts...) }
	return followChanges(ctx, client, "follow who", []string{path, path + kazooLineSuffix}, read, opts)
}

// FollowLocks yields what [Locks] finds below a root, as [FollowWho] does for a path. It keeps a cache of all
// that is below the root.
func FollowLocks(
	ctx context.Context, client *framework.Client, root string, opts ...Option,
) iter.Seq2[Found, error] {
	read := func(ctx context.Context) (Found, error) { return Locks(ctx, client, root, opts...) }
	return followChanges(ctx, client, "follow locks", []string{root}, read, opts)
}

// readInterval is the least time from the end of one read to the start of the next.
const readInterval = 100 * time.Millisecond

func followChanges[T any](
	ctx context.Context, client *framework.Client, what string, paths []string,
	read func(context.Context) (T, error), opts []Option,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if _, err := newServerReader(ctx, client, opts); err != nil {
			yield(none, fmt.Errorf("inspect: %s: %w", what, err))
			return
		}
		var t changeSignal
		defer t.stopWatching()
		if err := t.startWatching(ctx, client, paths); err != nil {
			yield(none, pathError(what, paths[0], err))
			return
		}
		for {
			value, err := read(t.ctx)
			switch {
			case t.ctx.Err() != nil:
				yield(none, pathError(what, paths[0], t.endError(ctx, client)))
				return
			case err != nil && isTransient(err): // after the reconnect the caches report a change
			case err != nil:
				yield(none, err)
				return
			case !yield(value, nil):
				return
			}
			client.Pause(t.ctx, readInterval)
			select {
			case <-t.changed:
			case <-t.ctx.Done():
			}
		}
	}
}

// isTransient reports whether an error is about the connection, so that a repeat may succeed.
func isTransient(err error) bool {
	return errors.Is(err, framework.ErrNotConnected) || errors.Is(err, framework.ErrConnectionLoss) ||
		errors.Is(err, framework.ErrSessionLost)
}

// changeSignal signals when to read again.
type changeSignal struct {
	ctx     context.Context // ends with the caller's, or with a cache, whose error is its cause
	cancel  context.CancelCauseFunc
	changed chan struct{} // 1 slot: something at the paths, or the connection, has changed
	caches  []*cache.Cache
	wg      sync.WaitGroup
}

// startWatching begins to watch. stopWatching must be called, also after an error.
func (t *changeSignal) startWatching(ctx context.Context, client *framework.Client, paths []string) error {
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.changed = make(chan struct{}, 1)
	for _, path := range paths {
		c, err := cache.New(client, path, cache.WithoutData())
		if err != nil {
			return err
		}
		t.caches = append(t.caches, c)
		t.wg.Go(func() {
			for _, err := range c.Events(t.ctx) {
				if err != nil {
					t.cancel(err)
					return
				}
				select {
				case t.changed <- struct{}{}:
				default:
				}
			}
		})
	}
	return nil
}

func (t *changeSignal) stopWatching() {
	if t.cancel != nil {
		t.cancel(nil)
	}
	for _, c := range t.caches {
		_ = c.Close()
	}
	t.wg.Wait()
}

// endError returns the error that ends the iteration.
func (t *changeSignal) endError(ctx context.Context, client *framework.Client) error {
	if ctx.Err() != nil {
		return client.WaitError(ctx, nil)
	}
	return context.Cause(t.ctx)
}
