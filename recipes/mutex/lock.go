package mutex

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Lock is a lock that the caller holds, until Release or the loss of it. Safe for concurrent use: any
// goroutine may release it.
type Lock struct {
	m      *Mutex
	handle *queue.Handle
}

// Context is the one to work under: it ends when the lock is lost or finally released, and context.Cause says
// why: ErrSessionLost, ErrNodeDeleted, ErrSuspended, ErrReleased, or framework.ErrClosed. When the session is
// lost it ends before the servers can give the lock to somebody else. It has the values of the context that
// the lock was acquired with, but neither its end nor its deadline. Acquire with it re-enters. Locks that
// share a hold share the context.
//
// Its Err also looks at the clock, like Valid; that of contexts derived from it does not.
func (l *Lock) Context() context.Context { return l.handle.Context() }

// Valid says, from the clock, whether the lock is certainly held now. Ask it after anything that may have
// taken long, right before what must not happen without the lock.
func (l *Lock) Valid() bool { return l.handle.Valid() }

// Remaining is how long the lock is certainly held if nothing is heard of the servers any more; 0 if it is
// not. It is renewed all the time while the connection works.
func (l *Lock) Remaining() time.Duration { return l.handle.Remaining() }

// FencingToken is a number that grows from holder to holder (the czxid of the lock's node). A store that
// remembers the largest one it has seen and refuses smaller ones cannot be written to by a former holder. It
// is the same for all Locks that share a hold. It grows as long as the ensemble keeps its data: restoring a
// backup, or moving to another ensemble, may set it back.
func (l *Lock) FencingToken() int64 { return l.handle.Grant.Czxid }

// Guard is an operation for [framework.Client.Transaction], of any client of the same ensemble: the
// transaction is executed only while the lock is held, and otherwise fails with ErrNoNode. The server decides
// when it commits: no clock is involved.
func (l *Lock) Guard() framework.TransactionOp {
	return l.m.line.Client.TransactionOp().Check().ForPath(l.Path())
}

// Path is that of the lock's node, as the client that acquired, or re-entered, sees it.
func (l *Lock) Path() string { return zkpath.Join(l.m.line.Dir, l.Node()) }

// Node is the name of the lock's node.
func (l *Lock) Node() string { return l.handle.Grant.Name }

// Release gives the lock back. With the last Release of those that share the hold, the context ends, at once,
// and the node is deleted, by its own, unique name: a later holder is not affected. Release waits until the
// server has confirmed that. When ctx ends first, or the connection is lost, the client goes on with it for
// as long as the session lives, and the error says why Release did not wait.
//
// A second Release of the same Lock returns ErrReleased and does nothing. If the hold was lost before, the
// error of the last Release says how (ErrSessionLost, …): what was done under the lock may not have been
// protected to its end. Release is needed then, too: the node may still be there.
func (l *Lock) Release(ctx context.Context) error {
	return l.m.wrap("release", l.handle.Release(ctx))
}
