package rwlock

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Lock is a read or a write lock that the caller holds, until Release or the loss of it. Safe for concurrent
// use: any goroutine may release it.
type Lock struct {
	s      *Side
	handle *queue.Handle
}

// Kind says which of the two locks.
func (l *Lock) Kind() Kind { return l.s.kind }

// Context is the one to work under: it ends when the lock is lost or finally released, and context.Cause says
// why: ErrSessionLost, ErrNodeDeleted, ErrSuspended, ErrReleased, or framework.ErrClosed. When the session is
// lost it ends before the servers can give the lock to somebody else. It has the values of the context that
// the lock was acquired with, but neither its end nor its deadline: that of a read lock acquired beside the
// write lock goes on when the write lock is released. Acquire with it enters again, downgrades, or refuses;
// see the package's documentation. Locks that share a hold share the context.
//
// Its Err also looks at the clock, like Valid; that of contexts derived from it does not.
func (l *Lock) Context() context.Context { return l.handle.Context() }

// Valid says, from the clock, whether the lock is certainly held now. Ask it after anything that may have
// taken long, right before what must not happen without the lock.
func (l *Lock) Valid() bool { return l.handle.Valid() }

// Remaining is how long the lock is certainly held if nothing is heard of the servers any more; 0 if it is
// not. It is renewed all the time while the connection works.
func (l *Lock) Remaining() time.Duration { return l.handle.Remaining() }

// FencingToken is a number for stores that protect themselves from former holders: the czxid of the lock's
// node, or, for a read lock acquired beside the write lock, that of the write lock's node. A writer's is
// larger than that of all that held the lock before, and a reader's larger than that of every writer before,
// except its own before a downgrade. A store refuses
//
//   - a read whose token is smaller than the largest that came with a write,
//   - a write whose token is smaller than the largest that came with anything.
//
// It must not refuse one reader for another's token: readers hold the lock together. All that is true as long
// as the ensemble keeps its data: restoring a backup, or moving to another ensemble, may set tokens back.
func (l *Lock) FencingToken() int64 { return l.handle.Grant.Czxid }

// Guard is an operation for [framework.Client.Transaction], of any client of the same ensemble: the
// transaction is executed only while the lock is held, and otherwise fails with ErrNoNode. The server decides
// when it commits: no clock is involved.
func (l *Lock) Guard() framework.TransactionOp {
	return l.s.line.Client.TransactionOp().Check().ForPath(l.Path())
}

// Path is that of the lock's node, as the client that acquired, or re-entered, sees it.
func (l *Lock) Path() string { return zkpath.Join(l.s.line.Dir, l.Node()) }

// Node is the name of the lock's node.
func (l *Lock) Node() string { return l.handle.Grant.Name }

// Release gives the lock back. With the last Release of those that share the hold, the context ends, at once,
// and the node is deleted, by its own, unique name: a later holder is not affected. Release waits until the
// server has confirmed that. When ctx ends first, or the connection is lost, the client goes on with it for
// as long as the session lives, and the error says why Release did not wait.
//
// The read lock and the write lock of one downgrade are released in any order, each for itself.
//
// A second Release of the same Lock returns ErrReleased and does nothing. If the hold was lost before, the
// error of the last Release says how (ErrSessionLost, …): what was done under the lock may not have been
// protected to its end. Release is needed then, too: the node may still be there.
func (l *Lock) Release(ctx context.Context) error {
	return l.s.wrap("release", l.handle.Release(ctx))
}

// Revoke asks a participant to give up its lock: the one whose node is at path, with any client, see
// [RWLock.Holders] and [Lock.Path]. A writer asks all holders, each for itself. It is a request, and only
// heard by those that listen: locks made with [WithRevocation], and Curator's makeRevocable. They decide
// whether and when to follow it. It replaces the node's data; the lock and its Guard are not affected. A
// participant that has left already is no error.
//
// It is repeated as the retry policy says. Errors: ErrNoAuth without WRITE on the node; ErrInvalidPath;
// ErrConnectionLoss, and then it may have been asked or not; ErrNotConnected; ErrClosed; ctx's.
//
// Corresponds to Curator's Revoker.attemptRevoke.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	return queue.Wrap("rwlock", "", "revoke", queue.Revoke(ctx, client, path))
}

// Revoked is closed when somebody has asked for this lock with [Revoke], or Curator's Revoker, if it was made
// with [WithRevocation]; else it is nil, and blocks for ever. The lock stays held until it is released. A
// request that came before the lock was acquired counts. Locks that share a hold share the channel; the read
// and the write lock of one downgrade have one each, since each has a node of its own. A request made while
// the connection is lost is noticed when it is back.
func (l *Lock) Revoked() <-chan struct{} { return l.handle.Revoked() }
