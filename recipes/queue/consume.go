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
// ends. It takes the next item when handle has returned, so a consumer takes no more than it can handle; call Consume
// from several goroutines for several items at a time. All consumers, of all processes, share the items: one of them
// handles an item at a time. A single consumer handles the items in the queue's order; several begin them about in that
// order. Consume makes the queue's node if there is none, and waits for items.
//
// Without [WithLockPath] an item is handled at most once: it is off the queue before handle is called. With it an
// item is handled at least once: it is locked, handled, and taken off in one transaction with its lock. The package's
// documentation lists the cases in which an item is not handled, or handled twice.
//
// [OnFailure] decides about an item whose handle returned an error, or that cannot be read; neither ends Consume.
// After failures in a row it pauses, for a second at most. If handle fails with one of the items of a
// [Queue.PutMany], with [WithLockPath] all of them are handled again, and without it the rest is handled. If handle
// returns nil after the end of ctx, the item counts as handled. If it returns an error then, the item stays at its place
// for other consumers with WithLockPath, and is off the queue without it.
//
// Consume continues through lost connections and lost sessions. Its error is ctx's; ErrClosed; ErrSessionLost for the
// view of a session that has ended; ErrNoAuth without READ, CREATE or DELETE on the nodes; ErrTimeoutTooShort with
// WithLockPath, as with a mutex; ErrReplyTooLarge if there are too many items to list. If handle panics, so does
// Consume; the lock is released first, and Consume waits at most a second for that.
func (q *Queue) Consume(ctx context.Context, handle Handler) error {
	err := q.checkReady(ctx)
	if err == nil && handle == nil {
		err = fmt.Errorf("%w: Consume without a handler", framework.ErrBadArguments)
	}
	if err == nil {
		c := &itemConsumer{q: q, handle: handle, lister: itemLister{dir: &q.itemDirectory},
			backlog: itemBacklog{order: q.order},
			reader:  readAhead{dir: &q.itemDirectory, results: map[string]framework.ReadResult{}},
			writer:  markedWriter{client: q.client, markDir: q.marksPath(), untilSessionEnds: true}}
		defer c.writer.forgetMark()
		defer c.lister.stop()
		err = c.run(ctx)
	}
	return wrapError(q.path, "consume", err)
}

// itemConsumer is a call of Consume.
type itemConsumer struct {
	q             *Queue
	handle        Handler
	lister        itemLister
	backlog       itemBacklog
	reader        readAhead    // for atMostOnce
	writer        markedWriter // for atMostOnce
	failuresInRow int
	listAgain     bool   // list again, though no change was reported
	loggedLock    string // the path of the last lock that was logged as not ephemeral
}

func (c *itemConsumer) run(ctx context.Context) error {
	for {
		if err := c.listItems(ctx); err != nil {
			return err
		}
		if err := c.processBacklog(ctx); err != nil {
			return err
		}
	}
}

func (c *itemConsumer) listItems(ctx context.Context) error {
	c.listAgain = false
	names, err := c.lister.listAndWatch(ctx)
	if err != nil {
		return err
	}
	var locks []string
	if c.q.lockPath != "" && len(names) > 0 {
		err = line.RetryThrough(ctx, c.q.client, line.Outages, func(ctx context.Context) (err error) {
			locks, err = c.q.client.GetChildren().ForPath(ctx, c.q.lockPath)
			return line.IgnoreError(err, framework.ErrNoNode)
		})
	}
	c.backlog.replaceItems(names, locks)
	return err
}

// processBacklog works off the list, and waits, until the queue has to be listed again.
func (c *itemConsumer) processBacklog(ctx context.Context) error {
	for changed := false; ; {
		changed = changed || c.lister.hasChanged()
		if c.listAgain || changed && c.backlog.isOutdated() {
			return nil
		}
		name, wait := c.backlog.next(time.Now(), rand.IntN)
		if name == "" {
			if changed {
				return nil
			}
			return c.awaitChange(ctx, wait)
		}
		if ctx.Err() != nil {
			return c.q.client.WaitError(ctx, nil)
		}
		if err := c.processItem(ctx, name); err != nil {
			return err
		}
	}
}

// awaitChange waits for a change. If other consumers have locked all items left, it also watches one of these locks:
// when that consumer dies, the queue's node does not change.
func (c *itemConsumer) awaitChange(ctx context.Context, d time.Duration) error {
	if c.backlog.firstLocked == "" {
		return c.lister.awaitEvent(ctx, d, nil)
	}
	path := zkpath.Join(c.q.lockPath, c.backlog.firstLocked)
	stat, watch, err := c.q.client.CheckExists().WithWatch().ForPath(ctx, path)
	if errors.Is(err, framework.ErrNoAuth) { // the lock exists, but this client may not read it
		return c.lister.awaitEvent(ctx, d, nil)
	}
	defer watch.Stop()
	if err != nil || stat == nil {
		return c.pauseIfTransient(ctx, err)
	}
	if stat.EphemeralOwner == 0 && c.loggedLock != path {
		c.loggedLock = path
		c.q.client.Logger().Warn("the lock of an item is not an ephemeral node, so no consumer holds it, and the item is not "+
			"handled: delete the lock", "path", path)
	}
	return c.lister.awaitEvent(ctx, d, watch.C)
}

// pauseIfTransient pauses after an error of the connection, which does not end Consume, and returns nil; it returns
// other errors.
func (c *itemConsumer) pauseIfTransient(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return c.q.client.WaitError(ctx, err)
	case !line.IsTransient(c.q.client)(err) && !line.IsPlaceLost(err) && !errors.Is(err, framework.ErrNotReadOnly):
		return err
	}
	if closed := c.q.client.Err(); closed != nil {
		return closed
	}
	c.listAgain = true
	c.failuresInRow++
	return line.Backoff(ctx, c.q.client, c.failuresInRow)
}

// processItem handles an item, if no other consumer is faster.
func (c *itemConsumer) processItem(ctx context.Context, name string) error {
	handle := c.atMostOnce
	if c.q.lockPath != "" {
		handle = c.atLeastOnce
	}
	err := handle(ctx, name)
	switch {
	case isUnavailable(err):
		c.backlog.recordLoss()
		return nil
	case err == nil:
		c.backlog.recordWin()
	}
	return c.pauseIfTransient(ctx, err)
}

// atMostOnce takes an item off the queue, and then handles it.
func (c *itemConsumer) atMostOnce(ctx context.Context, name string) error {
	data, stat, err := c.reader.readItem(ctx, name, &c.backlog)
	items, err := c.q.decodeNode(name, data, err)
	deletion := c.q.deleteOperation(name, stat.Version)
	switch fate, unreadable := c.reportUnreadable(name, data, err); {
	case unreadable && fate == Delete:
		return c.writer.writeExactlyOnce(ctx, deletion)
	case unreadable:
		return nil
	case err != nil:
		return err
	}
	err = c.writer.writeExactlyOnce(ctx, deletion)
	mine, unknown := takeOutcome(err)
	if unknown {
		c.reportFailure(name, data, err)
		if c.listAgain = true; ctx.Err() == nil && c.q.client.Err() == nil {
			return nil
		}
	}
	if !mine {
		return err
	}
	defer func(began time.Time) { c.reader.handleTime = time.Since(began) }(time.Now())
	for _, item := range items {
		if err := c.handle(ctx, item); err != nil {
			c.reportFailure(name, data, err)
			c.pauseAfterFailure(ctx)
			continue
		}
		c.failuresInRow = 0
	}
	return nil
}

// takeOutcome reports, from the result of the consumer's delete, whether the item is its own, and otherwise whether the
// delete may have taken it off the queue.
func takeOutcome(err error) (mine, unknown bool) {
	return err == nil, errors.Is(err, framework.ErrOutcomeUnknown)
}

// atLeastOnce locks an item, handles it, and then takes it off the queue.
func (c *itemConsumer) atLeastOnce(ctx context.Context, name string) error {
	lock, data, err := c.q.lockAndRead(ctx, name, untilCertain)
	if lock == nil {
		if errors.Is(err, framework.ErrNodeExists) {
			c.backlog.recordLocked(name)
		}
		return err
	}
	returned := false
	defer func() {
		if !returned { // a handler, or a hook, has panicked or ended the goroutine, and the process may end with it
			lock.releaseAndWait()
		}
	}()
	err = c.handleLocked(ctx, lock, name, data, err)
	returned = true
	return err
}

// handleLocked handles a locked item, whose read has returned data and err.
func (c *itemConsumer) handleLocked(ctx context.Context, lock *itemLock, name string, data []byte, err error) error {
	items, err := c.q.decodeNode(name, data, err)
	fate, unreadable := c.reportUnreadable(name, data, err)
	if err != nil && !unreadable {
		lock.releaseAfter(err)
		return err
	}
	if !unreadable {
		if err := lock.startHold(ctx); err != nil {
			lock.releaseLock()
			return err
		}
		if err = c.callHandler(ctx, lock, items); err == nil {
			fate, c.failuresInRow = Delete, 0
		}
		switch lost := line.HoldLoss(lock.hold); {
		case lost != nil:
			c.q.client.Logger().Warn("the lock of an item was lost while the item was handled; handling the item again",
				"path", c.q.itemPath(name), "err", lost)
			lock.releaseLock()
			return lost
		case err != nil && ctx.Err() != nil:
			lock.releaseLock()
			return err
		case err != nil:
			fate = c.reportFailure(name, data, err)
		}
	}
	switch {
	case fate == Skip:
		c.backlog.excludeItem(name)
		lock.releaseLock()
	case fate == Requeue:
		if err := c.q.ensureOrder(ctx); err != nil {
			lock.releaseLock()
			return err
		}
		if err := lock.finishItem(ctx, c.q.replaceOperations(name, data)); err != nil {
			return err
		}
	default:
		if err := lock.finishItem(ctx, c.q.deleteOperation(name, -1)); err != nil {
			return err
		}
	}
	if err != nil {
		return c.pauseAfterFailure(ctx)
	}
	return nil
}

// callHandler handles the items of a node under its lock.
func (c *itemConsumer) callHandler(ctx context.Context, lock *itemLock, items [][]byte) error {
	workContext, stop := line.WorkContext(ctx, lock.hold.Context())
	defer stop(nil)
	for _, item := range items {
		if err := c.handle(workContext, item); err != nil {
			return err
		}
	}
	return nil
}

// pauseAfterFailure pauses after a failure, longer after several in a row.
func (c *itemConsumer) pauseAfterFailure(ctx context.Context) error {
	c.failuresInRow++
	return line.Backoff(ctx, c.q.client, c.failuresInRow)
}

// decodeNode decodes the items of a node whose read has returned data and err.
func (q *Queue) decodeNode(name string, data []byte, err error) ([][]byte, error) {
	if data, err = q.unpackItem(name, data, err); err != nil {
		return nil, err
	}
	return decodeItems(data)
}

// reportUnreadable reports whether err concerns one item, not the queue. If so it returns the item's fate.
func (c *itemConsumer) reportUnreadable(name string, data []byte, err error) (fate Fate, unreadable bool) {
	if !errors.Is(err, ErrUnreadable) && !errors.Is(err, framework.ErrNoAuth) {
		return 0, false
	}
	if fate = c.reportFailure(name, data, err); fate != Delete {
		fate = Skip
		c.backlog.excludeItem(name)
	}
	return fate, true
}

// reportFailure returns the fate of an item, from OnFailure if it was given.
func (c *itemConsumer) reportFailure(name string, data []byte, err error) Fate {
	failure := &ItemError{c.q.itemPath(name), data, err}
	if c.q.onFailure != nil {
		return c.q.onFailure(failure)
	}
	c.q.client.Logger().Warn("handling an item of a queue failed", "path", failure.Path, "err", err)
	return Requeue
}
