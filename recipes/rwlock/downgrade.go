package rwlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// digits is how many digits the server appends to a name.
const digits = 10

// beside makes a read hold in the place in line of the write lock w: its node has w's number, so that every
// writer after w is after it, too. There is nobody to wait for, and therefore no list.
//
// It is created by a transaction that needs w's node. So if an administrator has deleted w and the line has
// moved on, there is no read node that would be taken for a right that it does not give.
//
// It releases w, which so stays at least until the read lock is there.
func (s *Side) beside(ctx context.Context, w *Lock) (*queue.Grant, error) {
	defer func() {
		_ = w.Release(ctx) // the client removes the node for certain; if it was lost, its other Locks tell
	}()
	session, number := w.handle.Grant.Session.As(s.line.Client), w.Node()[len(w.Node())-digits:]
	view := session.Client()
	name := zkpath.Protect(zkpath.NewGUID(), readName+number)
	path := zkpath.Join(s.line.Dir, name)
	create := view.TransactionOp().Create().WithMode(framework.Ephemeral).ForPath(path, s.line.Data)

	made, granted := false, false // made: certainly or perhaps
	defer func() {
		if made && !granted {
			queue.Remove(view, path)
		}
	}()
	err := view.Retry(ctx, func(ctx context.Context) error {
		_, err := queue.Result(view.TransactionInBackground(ctx, w.Guard(), create))
		made = made || err == nil || errors.Is(err, framework.ErrOutcomeUnknown)
		// Nobody else has this name: it is ours, from an attempt whose reply was lost.
		return queue.Unless(err, framework.ErrNodeExists)
	})
	if errors.Is(err, framework.ErrNoNode) {
		w.handle.Grant.Hold.End(ErrNodeDeleted) // it would have found out a little later
	}
	if lost := w.handle.Lost(); err != nil && lost != nil {
		return nil, fmt.Errorf("the write lock was lost: %w", lost)
	}
	if err != nil {
		return nil, err
	}
	grant := &queue.Grant{Session: session, Path: path, Name: name, Czxid: w.FencingToken()}
	if err := s.line.Hold(ctx, grant, framework.HoldOptions{}); err != nil {
		return nil, err
	}
	granted = true
	return grant, nil
}
