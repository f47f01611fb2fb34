package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Handler handles an item. ctx is Consume's, and with [WithLockPath] ends also when the item's lock is lost: then
// another consumer may have the item. A returned error means that the item was not handled.
type Handler func(ctx context.Context, item []byte) error

// Consume takes items off the queue and has handle handle them, one at a time, on the caller's goroutine, until ctx
// ends. It takes the next item when handle has returned, so a consumer takes no more than it can handle; call it from
// several goroutines for several items at a time. Consumers, of all processes, share the items; each item is with one
// of them at a time. A single consumer handles them in the queue's order; several begin them about in that order. It
// makes the queue's node if there is none, and waits for items.
//
// Without [WithLockPath] an item is handled at most once: it is off the queue before handle is called. With it an
// item is handled at least once: it is locked, handled, and taken off in one transaction with its lock. The package's
// documentation lists the cases in which an item is not handled, or handled twice.
//
// [OnFailure] decides about an item whose handle returned an error, or that cannot be read; neither ends Consume.
// After failures in a row it pauses, for a second at most. If handle fails with one of the items of a
// [Queue.PutMany], with [WithLockPath] all of them are handled again, and without it the rest is handled. When ctx
// ends, and handle returns nil, the item is handled; if it returns an error the item is left, at its place, to others
// with WithLockPath, and is off the queue without it.
//
// Consume continues through lost connections and lost sessions. Its error is ctx's; ErrClosed; ErrSessionLost for the
// view of a session that has ended; ErrNoAuth without READ, CREATE or DELETE on the nodes; ErrTimeoutTooShort with
// WithLockPath, as with a mutex; ErrReplyTooLarge if there are too many items to list. If handle panics, so does
// Consume; the lock is released first, and Consume waits at most a second for that.
func (q *Queue) Consume(ctx context.Context, handle Handler) error {
	err := q.ready(ctx)
	if err == nil && handle == nil {
		err = fmt.Errorf("%w: Consume without a handler", framework.ErrBadArguments)
	}
	if err == nil {
		c := &consumer{q: q, handle: handle, list: lister{dir: &q.dir},
			backlog: backlog{order: q.order}, marker: marker{client: q.client, dir: q.marks(), patient: true}}
		defer c.marker.forget()
		defer c.list.stop()
		err = c.run(ctx)
	}
	return wrap(q.path, "consume", err)
}

// consumer is a call of Consume.
type consumer struct {
	q        *Queue
	handle   Handler
	list     lister
	backlog  backlog
	marker   marker // at most once
	failures int    // in a row
	again    bool   // list again, though no change was reported
	stuck    string // the path of a lock that no consumer made and that was logged
}

func (c *consumer) run(ctx context.Context) error {
	for {
		if err := c.look(ctx); err != nil {
			return err
		}
		if err := c.work(ctx); err != nil {
			return err
		}
	}
}

// look lists the queue and the locks.
func (c *consumer) look(ctx context.Context) error {
	c.again = false
	names, err := c.list.names(ctx)
	if err != nil {
		return err
	}
	var locks []string
	if c.q.lockPath != "" && len(names) > 0 {
		err = line.Outlast(ctx, c.q.client, line.Outages, func(ctx context.Context) (err error) {
			locks, err = c.q.client.GetChildren().ForPath(ctx, c.q.lockPath)
			return line.Unless(err, framework.ErrNoNode)
		})
	}
	c.backlog.list(names, locks)
	return err
}

// work works off the list, and waits, until the queue has to be listed again.
func (c *consumer) work(ctx context.Context) error {
	for changed := false; ; {
		changed = changed || c.list.changed()
		if c.again || changed && c.backlog.outdated() {
			return nil
		}
		name, wait := c.backlog.next(time.Now(), rand.IntN)
		if name == "" && changed {
			return nil
		}
		if name == "" {
			return c.await(ctx, wait)
		}
		if ctx.Err() != nil {
			return c.q.client.Left(ctx, nil)
		}
		if err := c.one(ctx, name); err != nil {
			return err
		}
	}
}

// await waits for a change. If other consumers have locked all items left, it also watches one of these locks: when
// that consumer dies, the queue's node does not change.
func (c *consumer) await(ctx context.Context, d time.Duration) error {
	if c.backlog.busy == "" {
		return c.list.await(ctx, d, nil)
	}
	path := zkpath.Join(c.q.lockPath, c.backlog.busy)
	stat, watch, err := c.q.client.CheckExists().WithWatch().ForPath(ctx, path)
	if errors.Is(err, framework.ErrNoAuth) { // the lock exists, but this client may not read it
		return c.list.await(ctx, d, nil)
	}
	defer watch.Stop()
	if err != nil || stat == nil {
		return c.transient(ctx, err)
	}
	if stat.EphemeralOwner == 0 && c.stuck != path {
		c.stuck = path
		c.q.client.Logger().Warn("the lock of an item is no ephemeral node, so no consumer has it, and the item is not "+
			"handled: delete the lock", "path", path)
	}
	return c.list.await(ctx, d, watch.C)
}

// transient pauses after an error of the connection, which does not end Consume, and returns nil; it returns other
// errors.
func (c *consumer) transient(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return c.q.client.Left(ctx, err)
	case !line.Transient(c.q.client)(err) && !line.PlaceLost(err) && !errors.Is(err, framework.ErrNotReadOnly):
		return err
	}
	if over := c.q.client.Err(); over != nil {
		return over
	}
	c.again = true
	c.failures++
	return line.Backoff(ctx, c.q.client, c.failures)
}

// one handles an item, if no other consumer is faster.
func (c *consumer) one(ctx context.Context, name string) error {
	handle := c.atMostOnce
	if c.q.lockPath != "" {
		handle = c.atLeastOnce
	}
	err := handle(ctx, name)
	switch {
	case gone(err):
		c.backlog.lost()
		return nil
	case err == nil:
		c.backlog.won()
	}
	return c.transient(ctx, err)
}

// atMostOnce takes an item off the queue, and then handles it.
func (c *consumer) atMostOnce(ctx context.Context, name string) error {
	var stat framework.Stat
	data, err := c.q.client.GetData().Undecompressed().StoringStatIn(&stat).ForPath(ctx, c.q.item(name))
	items, err := c.q.decoded(name, data, err)
	deletion := c.q.deletion(name, stat.Version)
	switch fate, unreadable := c.unreadable(name, data, err); {
	case unreadable && fate == Delete:
		return c.marker.write(ctx, deletion)
	case unreadable:
		return nil
	case err != nil:
		return err
	}
	err = c.marker.write(ctx, deletion)
	mine, perhaps := took(err)
	if perhaps {
		c.failed(name, data, err)
		if c.again = true; ctx.Err() == nil && c.q.client.Err() == nil {
			return nil
		}
	}
	if !mine {
		return err
	}
	for _, item := range items {
		if err := c.handle(ctx, item); err != nil {
			c.failed(name, data, err)
			c.pause(ctx)
			continue
		}
		c.failures = 0
	}
	return nil
}

// took reports, from the result of the consumer's delete, whether the item is its own, and otherwise whether the
// delete may have taken it off the queue.
func took(err error) (mine, perhaps bool) {
	return err == nil, errors.Is(err, framework.ErrOutcomeUnknown)
}

// atLeastOnce locks an item, handles it, and then takes it off the queue.
func (c *consumer) atLeastOnce(ctx context.Context, name string) error {
	lock, data, err := c.q.claim(ctx, name)
	if lock == nil {
		if errors.Is(err, framework.ErrNodeExists) {
			c.backlog.taken(name)
		}
		return err
	}
	ended := false
	defer func() {
		if !ended { // a handler, or a hook, has panicked or ended the goroutine, and the process may end with it
			lock.giveBackSoon()
		}
	}()
	err = c.locked(ctx, lock, name, data, err)
	ended = true
	return err
}

// locked handles an item that is locked, and was read with an error or none.
func (c *consumer) locked(ctx context.Context, lock *claim, name string, data []byte, err error) error {
	items, err := c.q.decoded(name, data, err)
	fate, unreadable := c.unreadable(name, data, err)
	if err != nil && !unreadable {
		lock.giveBack(err)
		return err
	}
	if !unreadable {
		if err := lock.hold(ctx); err != nil {
			lock.abandon()
			return err
		}
		if err = c.under(ctx, lock, items); err == nil {
			fate, c.failures = Delete, 0
		}
		switch lost := line.Lost(lock.held); {
		case lost != nil:
			c.q.client.Logger().Warn("the lock of an item was lost while it was handled: it is handled again",
				"path", c.q.item(name), "err", lost)
			lock.abandon()
			return lost
		case err != nil && ctx.Err() != nil:
			lock.abandon()
			return err
		case err != nil:
			fate = c.failed(name, data, err)
		}
	}
	switch {
	case fate == Skip:
		c.backlog.leave(name)
		lock.abandon()
	case fate == Requeue:
		if err := c.q.inOrder(ctx); err != nil {
			lock.abandon()
			return err
		}
		if err := lock.finish(ctx, c.q.replacement(name, data)); err != nil {
			return err
		}
	default:
		if err := lock.finish(ctx, c.q.deletion(name, -1)); err != nil {
			return err
		}
	}
	if err != nil {
		return c.pause(ctx)
	}
	return nil
}

// under handles the items of a node under its lock.
func (c *consumer) under(ctx context.Context, lock *claim, items [][]byte) error {
	work, stop := line.WorkContext(ctx, lock.held.Context())
	defer stop()
	for _, item := range items {
		if err := c.handle(work, item); err != nil {
			return err
		}
	}
	return nil
}

// pause is the pause after failures in a row.
func (c *consumer) pause(ctx context.Context) error {
	c.failures++
	return line.Backoff(ctx, c.q.client, c.failures)
}

// decoded decodes the data of an item's read.
func (q *Queue) decoded(name string, data []byte, err error) ([][]byte, error) {
	if data, err = q.unpacked(name, data, err); err != nil {
		return nil, err
	}
	return decode(data)
}

// unreadable reports whether an error concerns one item, not the queue, and returns the item's fate.
func (c *consumer) unreadable(name string, data []byte, err error) (fate Fate, unreadable bool) {
	if !errors.Is(err, ErrUnreadable) && !errors.Is(err, framework.ErrNoAuth) {
		return 0, false
	}
	if fate = c.failed(name, data, err); fate != Delete {
		fate = Skip
		c.backlog.leave(name)
	}
	return fate, true
}

// failed returns the fate of an item, from OnFailure if it was given.
func (c *consumer) failed(name string, data []byte, err error) Fate {
	failure := &ItemError{c.q.item(name), data, err}
	if c.q.failure != nil {
		return c.q.failure(failure)
	}
	c.q.client.Logger().Warn("an item of a queue was not handled", "path", failure.Path, "err", err)
	return Requeue
}
