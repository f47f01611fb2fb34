package rwlock

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Lock is a read or a write lock that the caller holds, until Release or the loss of it. Its methods are
// those of a mutex.Lock; here is what is different. Safe for concurrent use: any goroutine may release it.
type Lock struct {
	s      *Side
	handle *queue.Handle
}

// Kind says which of the two locks.
func (l *Lock) Kind() Kind { return l.s.kind }

// Context is the one to work under: it ends, with a cause, when the lock is lost or finally released. That of
// a read lock acquired beside the write lock goes on when the write lock is released. Acquire with it enters
// again, downgrades, or refuses; see the package's documentation.
func (l *Lock) Context() context.Context { return l.handle.Context() }

// Valid says, from the clock, whether the lock is certainly held now.
func (l *Lock) Valid() bool { return l.handle.Valid() }

// Remaining is how long the lock is certainly held if nothing is heard of the servers any more; 0 if it is
// not.
func (l *Lock) Remaining() time.Duration { return l.handle.Remaining() }

// FencingToken is a number for stores that protect themselves from former holders: the czxid of the lock's
// node, or, for a read lock acquired beside the write lock, that of the write lock's node. A writer's is
// larger than that of all that held the lock before, and a reader's larger than that of every writer before,
// except its own before a downgrade. A store refuses
//
//   - a read whose token is smaller than the largest that came with a write,
//   - a write whose token is smaller than the largest that came with anything,
//
// and not one reader for another's token: readers hold the lock together. Restoring a backup of the ensemble,
// or moving to another one, may set tokens back.
func (l *Lock) FencingToken() int64 { return l.handle.Grant.Czxid }

// Guard is an operation for [framework.Client.Transaction], of any client of the same ensemble: the
// transaction is executed only while the lock is held, and otherwise fails with ErrNoNode.
func (l *Lock) Guard() framework.TransactionOp {
	return l.s.line.Client.TransactionOp().Check().ForPath(l.Path())
}

// Path is that of the lock's node, as the client that acquired, or re-entered, sees it.
func (l *Lock) Path() string { return zkpath.Join(l.s.line.Dir, l.Node()) }

// Node is the name of the lock's node.
func (l *Lock) Node() string { return l.handle.Grant.Name }

// Release gives the lock back, as that of a mutex.Lock does: with the last Release of those that share the
// hold, its node is deleted; a second Release of the same Lock returns ErrReleased; if the hold was lost
// before, the error of the last Release says how. The read lock and the write lock of one downgrade are
// released in any order, each for itself.
func (l *Lock) Release(ctx context.Context) error {
	return l.s.wrap("release", l.handle.Release(ctx))
}

// Revoke asks a participant to give up its lock, as mutex.Revoke does: the one whose node is at path, see
// [RWLock.Holders] and [Lock.Path]. A writer asks all holders, each for itself. Only those listen that are
// made with [WithRevocation], or Curator's makeRevocable. Corresponds to Curator's Revoker.attemptRevoke.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	return queue.Wrap("rwlock", "", "revoke", queue.Revoke(ctx, client, path))
}

// Revoked is closed when somebody has asked for this lock with [Revoke], or Curator's Revoker, as that of a
// mutex.Lock is; without [WithRevocation] it is nil. The read and the write lock of one downgrade have one
// each, since each has a node of its own.
func (l *Lock) Revoked() <-chan struct{} { return l.handle.Revoked() }
