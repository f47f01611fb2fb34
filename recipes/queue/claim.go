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

// claim is an item's lock: an ephemeral node with the item's name in the directory of the locks. The consumer that
// created it handles the item. The transaction that deletes the item deletes the lock too, so it is refused if it was
// executed before, or if the lock was lost.
type claim struct {
	q       *Queue
	session *framework.Session
	path    string
	guid    string // the node's data, which identify this lock
	czxid   int64
	held    *framework.Hold // nil before hold
}

// claim creates an item's lock and reads the item, both in flight at the same time. ErrNodeExists means that another
// consumer has the lock. If the claim is not nil the lock was created, and the error is the read's.
func (q *Queue) claim(ctx context.Context, name string) (_ *claim, data []byte, _ error) {
	session, err := q.client.SessionSoon(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := &claim{q: q, session: session, path: zkpath.Join(q.lockPath, name), guid: zkpath.NewGUID()}
	view := session.Client()
	var made, doubt bool
	var read *framework.Pending[framework.DataResult]
	defer func() {
		if doubt && !made { // also if a hook does not return
			c.settle()
		}
	}()
	err = view.Retry(ctx, func(ctx context.Context) (err error) {
		for range 3 { // another client may delete the directory
			creating := c.create(ctx)
			read = view.GetData().Undecompressed().InBackground().ForPath(ctx, q.item(name))
			node, failed := line.Result(creating)
			var then entry
			doubt, then = entered(failed, doubt)
			switch err = failed; then {
			case locked:
				made, c.czxid = true, node.Stat.Czxid
				return nil
			case asks:
				if made, failed = c.mine(ctx); made || failed != nil {
					return failed
				}
				doubt = false
				return err
			case fails:
				return err
			}
			if failed := makeNode(ctx, view, q.lockPath); failed != nil {
				return failed
			}
		}
		return err
	})
	if !made {
		return nil, nil, err
	}
	item, err := line.Result(read)
	if data = item.Data; err != nil && framework.Retryable(err) {
		err = line.Outlast(ctx, view, line.Outages, func(ctx context.Context) (err error) {
			data, err = view.GetData().Undecompressed().ForPath(ctx, q.item(name))
			return err
		})
	}
	return c, data, err
}

// entry is the next step after a try to create a lock.
type entry int8

const (
	locked entry = iota // the lock is there
	fails               // the try ends with its error
	asks                // a lock exists, and may have been created by an earlier try
	lacks               // the directory is missing
)

// entered returns whether this try or an earlier one may have created the lock, and the next step.
func entered(err error, doubt bool) (bool, entry) {
	switch {
	case err == nil:
		return doubt, locked
	case errors.Is(err, framework.ErrOutcomeUnknown):
		return true, fails
	case errors.Is(err, framework.ErrNodeExists) && doubt:
		return doubt, asks
	case !errors.Is(err, framework.ErrNoNode):
		return doubt, fails
	}
	return false, lacks
}

func (c *claim) create(ctx context.Context) *framework.Pending[framework.CreateResult] {
	return c.session.Client().Create().WithMode(framework.Ephemeral).InBackground().
		ForPath(ctx, c.path, []byte(c.guid))
}

// mine reports whether the existing lock is this one.
func (c *claim) mine(ctx context.Context) (bool, error) {
	read := c.session.Client().GetData().Undecompressed().InBackground().ForPath(ctx, c.path)
	lock, err := line.Result(read)
	switch {
	case errors.Is(err, framework.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	}
	if guid, err := c.session.Client().Unpacked(c.path, lock.Data); err != nil || !c.made(guid) {
		return false, nil
	}
	c.czxid = lock.Stat.Czxid
	return true, nil
}

// made reports whether a lock with these data is this one.
func (c *claim) made(data []byte) bool { return string(data) == c.guid }

// settle is called when no caller waits for the lock any more and it is unknown whether it was created. It sends the
// create again, which settles that, and then deletes the lock.
func (c *claim) settle() {
	view := c.session.Client()
	view.Spawn(func(ctx context.Context) {
		_ = line.Outlast(ctx, view, line.RefusedCredentials, func(ctx context.Context) error {
			_, err := line.Result(c.create(ctx))
			return line.Unless(err, framework.ErrNodeExists)
		})
		c.remove(ctx)
	})
}

// remove deletes the lock if it exists, and only this one. A plain delete that is repeated until it succeeds could
// delete the next consumer's lock, which has the same name, so the delete is a write with a marker. If another client
// deletes the marker while the outcome is unknown, no earlier try can be executed any more: the lock is read again,
// and if it still exists it is deleted with another marker.
func (c *claim) remove(ctx context.Context) {
	view := c.session.Client()
	m := marker{client: view, dir: c.q.marks(), patient: true}
	defer m.forget()
	err := errUndecided
	for errors.Is(err, errUndecided) && view.Err() == nil {
		err = line.Outlast(ctx, view, line.RefusedCredentials, func(ctx context.Context) error {
			mine, err := c.mine(ctx)
			if err != nil || !mine {
				return err
			}
			return m.write(ctx, func(to framework.TransactionOps) []framework.TransactionOp {
				return []framework.TransactionOp{to.Delete().ForPath(c.path)}
			})
		})
	}
	if err != nil && !gone(err) && view.Err() == nil {
		view.Logger().Warn("the lock of an item is not deleted: it stays until the session ends", "path", c.path,
			"err", err)
	}
}

// hold starts the hold of the lock.
func (c *claim) hold(ctx context.Context) (err error) {
	c.held, err = c.session.Hold(ctx, framework.HoldOptions{
		Path: c.path, Recipe: "queue", Czxid: c.czxid, Loss: framework.SessionOnly, Values: ctx,
	})
	return err
}

// abandon releases the lock: the item stays. The client retries the deletion in the background.
func (c *claim) abandon() { c.giveBack(nil) }

// giveBack is abandon after an error, which may be that the item is gone. The channel is closed when the lock was
// deleted, or cannot be.
func (c *claim) giveBack(err error) <-chan struct{} {
	c.end()
	if drops(err) {
		return line.Remove(c.session.Client(), c.path).Done()
	}
	over := make(chan struct{})
	c.session.Client().Spawn(func(ctx context.Context) {
		defer close(over)
		c.remove(ctx)
	})
	return over
}

// giveBackSoon is abandon, and waits for a second at most until the lock is deleted.
func (c *claim) giveBackSoon() {
	late := time.NewTimer(finishing)
	defer late.Stop()
	select {
	case <-c.giveBack(nil):
	case <-late.C:
	}
}

// drops reports whether the lock may be deleted without reading whether it is this one: the item is gone, so no
// consumer will lock that name again.
func drops(err error) bool { return errors.Is(err, framework.ErrNoNode) }

// end ends the hold, before the node is deleted.
func (c *claim) end() {
	if c.held != nil {
		c.held.End(framework.ErrReleased)
	}
}

// finishing is how long, after its context has ended, a consumer waits for a handled item to be taken off the queue.
// The client continues in the background after that.
const finishing = time.Second

// finish executes the operations and deletes the lock in one transaction. ErrNodeDeleted means that the lock was lost
// before, so that nothing was executed.
func (c *claim) finish(ctx context.Context, what ops) error {
	c.end()
	view := c.session.Client()
	done := make(chan error, 1)
	view.Spawn(func(ctx context.Context) {
		err := errNotDone // if a hook ends the goroutine
		defer func() { done <- err }()
		err = c.release(ctx, view, what)
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(finishing)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return fmt.Errorf("%w: %w", view.Left(ctx, nil), framework.ErrOutcomeUnknown)
	}
}

var errNotDone = fmt.Errorf("a hook ended the goroutine: %w", framework.ErrOutcomeUnknown)

func (c *claim) release(ctx context.Context, view *framework.Client, what ops) error {
	doubt := false
	err := line.Outlast(ctx, view, line.RefusedCredentials, func(ctx context.Context) error {
		to := view.TransactionOp()
		all := append([]framework.TransactionOp{to.Delete().ForPath(c.path)}, what(to)...)
		_, err := view.Transaction(ctx, all...)
		doubt, err = finished(err, doubt)
		return err
	})
	if err != nil {
		c.giveBack(err)
	}
	return err
}

// finished returns whether this try to delete the lock, with other operations, or an earlier one may have been
// executed, and the error: nil if one was executed.
func finished(err error, doubt bool) (bool, error) {
	var refused *framework.TransactionError
	switch {
	case err == nil:
		return doubt, nil
	case !errors.As(err, &refused):
		return doubt || errors.Is(err, framework.ErrOutcomeUnknown), err
	case refused.Index > 0: // also if it was executed before, and another consumer has locked the item since
		return doubt, err
	case errors.Is(err, framework.ErrNoNode) && doubt:
		return doubt, nil // an earlier try deleted the lock
	case errors.Is(err, framework.ErrNoNode):
		return doubt, fmt.Errorf("the lock of an item: %w", framework.ErrNodeDeleted)
	}
	return doubt, err
}
