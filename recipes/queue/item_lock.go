package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// itemLock is an item's lock: an ephemeral node with the item's name in the directory of the locks. The consumer that
// created it handles the item. The item is deleted in one transaction with the lock, which is refused if it was
// executed before, or if the lock was lost.
type itemLock struct {
	q       *Queue
	session *framework.Session
	path    string
	guid    string // the node's data, which identify this lock
	czxid   int64
	hold    *framework.Hold // nil before startHold
}

// lockAndRead creates an item's lock and reads the item, both in flight at the same time. ErrNodeExists means that
// another consumer has the lock. If the itemLock is not nil the lock was created, and the error is the read's. repeat
// repeats the create.
func (q *Queue) lockAndRead(ctx context.Context, name string, repeat repeater) (_ *itemLock, data []byte, _ error) {
	session, err := q.client.SessionSoon(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := &itemLock{q: q, session: session, path: zkpath.Join(q.lockPath, name), guid: zkpath.NewGUID()}
	view := session.Client()
	var created, unknown bool
	var read *framework.Pending[framework.DataResult]
	defer func() {
		if unknown && !created { // also if a hook does not return
			c.settleCreate()
		}
	}()
	err = repeat(ctx, view, func(ctx context.Context) (err error) {
		for range 3 { // another client may delete the directory
			creating := c.sendCreate(ctx)
			read = view.GetData().Undecompressed().InBackground().ForPath(ctx, q.itemPath(name))
			node, failed := line.AwaitResult(creating)
			var step lockCreateStep
			unknown, step = afterLockCreate(failed, unknown)
			switch err = failed; step {
			case lockCreated:
				created, c.czxid = true, node.Stat.Czxid
				return nil
			case readLockOwner:
				if created, failed = c.isOwnLock(ctx); created || failed != nil {
					return failed
				}
				unknown = false
				return err
			case createFails:
				return err
			}
			if failed := createNode(ctx, view, q.lockPath); failed != nil {
				return failed
			}
		}
		return err
	})
	if !created {
		return nil, nil, err
	}
	item, err := line.AwaitResult(read)
	if data = item.Data; err != nil && framework.Retryable(err) {
		err = line.RetryThrough(ctx, view, line.Outages, func(ctx context.Context) (err error) {
			data, err = view.GetData().Undecompressed().ForPath(ctx, q.itemPath(name))
			return err
		})
	}
	return c, data, err
}

// repeater repeats an operation of a client after failures.
type repeater func(ctx context.Context, view *framework.Client, op func(context.Context) error) error

// untilCertain repeats the create of a lock as long as its outcome may be unknown. A consumer that gave up earlier could
// take its own lock for another consumer's, and handle the next item before this one.
func untilCertain(ctx context.Context, view *framework.Client, create func(context.Context) error) error {
	return line.RetryThrough(ctx, view, line.Outages, create)
}

// byRetryPolicy repeats an operation as the client's retry policy says.
func byRetryPolicy(ctx context.Context, view *framework.Client, op func(context.Context) error) error {
	return view.Retry(ctx, op)
}

// lockCreateStep is the next step after a try to create a lock.
type lockCreateStep int8

const (
	lockCreated     lockCreateStep = iota // the lock is there
	createFails                           // the try ends with its error
	readLockOwner                         // a lock exists, and may have been created by an earlier try
	createDirectory                       // the directory is missing
)

// afterLockCreate returns whether this try or an earlier one may have created the lock, and the next step.
func afterLockCreate(err error, unknown bool) (bool, lockCreateStep) {
	switch {
	case err == nil:
		return unknown, lockCreated
	case errors.Is(err, framework.ErrOutcomeUnknown):
		return true, createFails
	case errors.Is(err, framework.ErrNodeExists) && unknown:
		return unknown, readLockOwner
	case !errors.Is(err, framework.ErrNoNode):
		return unknown, createFails
	}
	return false, createDirectory
}

func (c *itemLock) sendCreate(ctx context.Context) *framework.Pending[framework.CreateResult] {
	return c.session.Client().Create().WithMode(framework.Ephemeral).InBackground().
		ForPath(ctx, c.path, []byte(c.guid))
}

// isOwnLock reports whether the existing lock is this one.
func (c *itemLock) isOwnLock(ctx context.Context) (bool, error) {
	read := c.session.Client().GetData().Undecompressed().InBackground().ForPath(ctx, c.path)
	lock, err := line.AwaitResult(read)
	switch {
	case errors.Is(err, framework.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	}
	if guid, err := c.session.Client().Unpacked(c.path, lock.Data); err != nil || !c.hasOwnGUID(guid) {
		return false, nil
	}
	c.czxid = lock.Stat.Czxid
	return true, nil
}

// hasOwnGUID reports whether a lock with these data is this one.
func (c *itemLock) hasOwnGUID(data []byte) bool { return string(data) == c.guid }

// settleCreate is called after a create of unknown outcome, when no caller waits for the lock any more. It sends the
// create again, until the outcome is known, and then deletes the lock.
func (c *itemLock) settleCreate() {
	view := c.session.Client()
	view.Spawn(func(ctx context.Context) {
		_ = line.RetryThrough(ctx, view, line.RefusedCredentials, func(ctx context.Context) error {
			_, err := line.AwaitResult(c.sendCreate(ctx))
			return line.IgnoreError(err, framework.ErrNodeExists)
		})
		c.removeLock(ctx)
	})
}

// removeLock deletes the lock if it exists, and only this one. A plain delete that is repeated until it succeeds could
// delete the next consumer's lock, which has the same name, so the delete is a write with a mark. If another client
// deletes the mark while the outcome is unknown, no earlier try can be executed any more: the lock is read again,
// and if it still exists it is deleted with another mark.
func (c *itemLock) removeLock(ctx context.Context) {
	view := c.session.Client()
	writer := markedWriter{client: view, markDir: c.q.marksPath(), untilSessionEnds: true}
	defer writer.forgetMark()
	err := errMarkGone
	for errors.Is(err, errMarkGone) && view.Err() == nil {
		err = line.RetryThrough(ctx, view, line.RefusedCredentials, func(ctx context.Context) error {
			isOwn, err := c.isOwnLock(ctx)
			if err != nil || !isOwn {
				return err
			}
			return writer.writeExactlyOnce(ctx, func(to framework.TransactionOps) []framework.TransactionOp {
				return []framework.TransactionOp{to.Delete().ForPath(c.path)}
			})
		})
	}
	if err != nil && !isUnavailable(err) && view.Err() == nil {
		view.Logger().Warn("cannot delete the lock of an item; it stays until the session ends", "path", c.path,
			"err", err)
	}
}

func (c *itemLock) startHold(ctx context.Context) (err error) {
	c.hold, err = c.session.Hold(ctx, framework.HoldOptions{
		Path: c.path, Recipe: "queue", Czxid: c.czxid, Loss: framework.SessionOnly, Values: ctx,
	})
	return err
}

// releaseLock releases the lock: the item stays. The client retries the deletion in the background.
func (c *itemLock) releaseLock() { c.releaseAfter(nil) }

// releaseAfter is releaseLock after an error of the item: the item may be gone. The channel is closed when the lock was
// deleted, or cannot be deleted.
func (c *itemLock) releaseAfter(err error) <-chan struct{} {
	c.endHold()
	if mayDeleteUnread(err) {
		return line.QueueDelete(c.session.Client(), c.path).Done()
	}
	released := make(chan struct{})
	c.session.Client().Spawn(func(ctx context.Context) {
		defer close(released)
		c.removeLock(ctx)
	})
	return released
}

// releaseAndWait is releaseLock, and waits for a second at most until the lock is deleted.
func (c *itemLock) releaseAndWait() {
	timeout := time.NewTimer(finishTimeout)
	defer timeout.Stop()
	select {
	case <-c.releaseAfter(nil):
	case <-timeout.C:
	}
}

// mayDeleteUnread reports whether the lock may be deleted without reading whether it is this one: the item is gone, so
// no consumer will lock that name again.
func mayDeleteUnread(err error) bool { return errors.Is(err, framework.ErrNoNode) }

// endHold ends the hold, before the node is deleted.
func (c *itemLock) endHold() {
	if c.hold != nil {
		c.hold.End(framework.ErrReleased)
	}
}

// finishTimeout is how long, after its context has ended, a consumer waits for a handled item to be taken off the
// queue. The client continues in the background after that.
const finishTimeout = time.Second

// finishItem executes the operations that build returns, and deletes the lock, in one transaction. ErrNodeDeleted means
// that the lock was lost before, so that nothing was executed.
func (c *itemLock) finishItem(ctx context.Context, build operationBuilder) error {
	c.endHold()
	view := c.session.Client()
	done := make(chan error, 1)
	view.Spawn(func(ctx context.Context) {
		err := errGoroutineEnded // if a hook ends the goroutine
		defer func() { done <- err }()
		err = c.deleteWithLock(ctx, view, build)
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timeout := time.NewTimer(finishTimeout)
	defer timeout.Stop()
	select {
	case err := <-done:
		return err
	case <-timeout.C:
		return fmt.Errorf("%w: %w", view.WaitError(ctx, nil), framework.ErrOutcomeUnknown)
	}
}

var errGoroutineEnded = fmt.Errorf("a hook ended the goroutine: %w", framework.ErrOutcomeUnknown)

func (c *itemLock) deleteWithLock(ctx context.Context, view *framework.Client, build operationBuilder) error {
	unknown := false
	err := line.RetryThrough(ctx, view, line.RefusedCredentials, func(ctx context.Context) error {
		to := view.TransactionOp()
		all := append([]framework.TransactionOp{to.Delete().ForPath(c.path)}, build(to)...)
		_, err := view.Transaction(ctx, all...)
		unknown, err = afterLockDelete(err, unknown)
		return err
	})
	if err != nil {
		c.releaseAfter(err)
	}
	return err
}

// afterLockDelete returns whether this try to delete the lock, with other operations, or an earlier one may have been
// executed, and the error: nil if one was executed.
func afterLockDelete(err error, unknown bool) (bool, error) {
	var refused *framework.TransactionError
	switch {
	case err == nil:
		return unknown, nil
	case !errors.As(err, &refused):
		return unknown || errors.Is(err, framework.ErrOutcomeUnknown), err
	case refused.Index > 0: // also if it was executed before, and another consumer has locked the item since
		return unknown, err
	case errors.Is(err, framework.ErrNoNode) && unknown:
		return unknown, nil // an earlier try deleted the lock
	case errors.Is(err, framework.ErrNoNode):
		return unknown, fmt.Errorf("the lock of an item: %w", framework.ErrNodeDeleted)
	}
	return unknown, err
}
