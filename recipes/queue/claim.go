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

// claim is an item's lock: an ephemeral node with the item's name in the directory of the locks. Whoever
// makes it handles the item. It is deleted in the transaction that takes the item off: so that transaction is
// refused if it was executed before, or if the lock was lost.
type claim struct {
	q       *Queue
	session *framework.Session
	path    string
	guid    string // the node's data, by which a lock is found to be this one
	czxid   int64
	held    *framework.Hold // nil before hold
}

// claim makes an item's lock and reads the item, in one flight. ErrNodeExists says that somebody else has the
// lock. If the claim is not nil the lock was made; the error is that of reading then.
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
		for range 3 { // somebody may delete the directory
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

// entry is what follows from a try to make a lock.
type entry int8

const (
	locked entry = iota // the lock is there
	fails               // the try ends with its error
	asks                // a lock is there, and may be that of an earlier try
	lacks               // the directory is missing
)

// entered returns whether the lock may have been made by a try, or one before it, and what follows.
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

// mine says whether the lock that is there is this one.
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

// settle is called when nobody waits for the lock any more, and it is not known whether it was made. To make
// it once more finds that out; then it is deleted.
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

// remove deletes the lock, if it is there, and only this one. A delete that is repeated until it succeeds
// could meet the lock of the next consumer, which has the same name: so it is a write with a marker. If
// somebody deletes that while the outcome is unknown, no earlier try can be executed any more: then the lock
// tells, and if it is still there, it is deleted with another marker.
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

// hold begins to watch over the lock.
func (c *claim) hold(ctx context.Context) (err error) {
	c.held, err = c.session.Hold(ctx, framework.HoldOptions{
		Path: c.path, Recipe: "queue", Czxid: c.czxid, Loss: framework.SessionOnly, Values: ctx,
	})
	return err
}

// abandon gives the lock back: the item stays. The client goes on until it is done.
func (c *claim) abandon() { c.giveBack(nil) }

// giveBack is abandon after an error, which may be that the item is gone. The channel is closed when the lock is deleted,
// or cannot be.
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

// drops reports whether a lock need not be found to be one's own before it is deleted: that of an item that is gone.
// Nobody will ever need a lock of that name again.
func drops(err error) bool { return errors.Is(err, framework.ErrNoNode) }

// end ends the hold, before the node is deleted.
func (c *claim) end() {
	if c.held != nil {
		c.held.End(framework.ErrReleased)
	}
}

// finishing is how long after its context's end a consumer waits until an item that was handled is off the
// queue. The client goes on after that.
const finishing = time.Second

// finish executes the operations, and gives the lock back, in one transaction. ErrNodeDeleted says that the
// lock was lost before, so that nothing was executed.
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

// finished returns whether a try to delete the lock, with other operations, or one before it may have been executed, and
// the error: nil if one was.
func finished(err error, doubt bool) (bool, error) {
	var refused *framework.TransactionError
	switch {
	case err == nil:
		return doubt, nil
	case !errors.As(err, &refused):
		return doubt || errors.Is(err, framework.ErrOutcomeUnknown), err
	case refused.Index > 0: // also if it was executed before, and somebody has made the lock once more since
		return doubt, err
	case errors.Is(err, framework.ErrNoNode) && doubt:
		return doubt, nil // the lock went with an earlier try
	case errors.Is(err, framework.ErrNoNode):
		return doubt, fmt.Errorf("the lock of an item: %w", framework.ErrNodeDeleted)
	}
	return doubt, err
}
