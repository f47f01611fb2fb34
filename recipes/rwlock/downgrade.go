package rwlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// digits is how many the server appends.
const digits = 10

// beside makes a read hold in the place in line of the write lock w: its node has w's number, so that every writer behind w is behind it,
// too. There is nobody to wait for, and therefore no list.
//
// It is created by a transaction that needs w's node. So it cannot come to stand in a line that has moved on, because an administrator has
// deleted w, and be taken there for a right that it has not.
//
// It releases w, which so stays at least until the read lock is there.
func (s *Side) beside(ctx, values context.Context, w *Lock) (*queue.Grant, error) {
	defer func() { _ = w.Release(ctx) }() // the node goes for certain; how the write lock was lost, its other Locks tell
	session, number := w.handle.Grant().Session.As(s.line.Client), w.Node()[len(w.Node())-digits:]
	view := session.Client()
	name := zkpath.Protect(zkpath.NewGUID(), readName+number)
	path := zkpath.Join(s.line.Dir, name)
	create := view.TransactionOp().Create().WithMode(framework.Ephemeral).ForPath(path, s.line.Data)

	made, granted := false, false // made: or perhaps
	defer func() {
		if made && !granted {
			view.Delete().Quietly().Guaranteed().InBackground().ForPath(context.Background(), path)
		}
	}()
	err := view.Retry(ctx, func(ctx context.Context) error {
		_, err := queue.Result(view.TransactionInBackground(ctx, w.Guard(), create))
		made = made || err == nil || errors.Is(err, framework.ErrOutcomeUnknown)
		if errors.Is(err, framework.ErrNodeExists) { // nobody else has this name: it is ours, from a try whose reply was lost
			return nil
		}
		return err
	})
	if errors.Is(err, framework.ErrNoNode) {
		w.handle.Grant().Hold.End(ErrNodeDeleted) // it would have found out a little later
	}
	if lost := w.handle.Lost(); err != nil && lost != nil {
		return nil, fmt.Errorf("the write lock was lost: %w", lost)
	}
	if err != nil {
		return nil, err
	}
	hold, err := session.Hold(ctx, framework.HoldOptions{Path: path, Recipe: s.line.Recipe, Loss: s.line.Loss, Values: values})
	if err != nil {
		return nil, err
	}
	granted = true
	grant := &queue.Grant{Session: session, Hold: hold, Path: path, Name: name, Czxid: w.FencingToken()}
	return grant, nil
}
