package mutex

import (
	"context"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Lock is an acquired lock. It lasts until Release, or until the lock is lost. Safe for concurrent use: any
// goroutine may release it. It has these methods besides those below:
//
//   - Context() context.Context returns the context for the work that needs the lock. It ends when the lock is lost or
//     released for the last time, and context.Cause returns the reason: ErrSessionLost, ErrNodeDeleted, ErrSuspended,
//     ErrReleased, or framework.ErrClosed. When the session is lost, the context ends before another contender can
//     acquire the lock. It has the values of the context that the lock was acquired with, but neither its end nor its
//     deadline. Acquire with it re-enters; Locks that share a node by re-entry share the context. Its Err also checks
//     the clock, like Valid; the Err of a derived context does not.
//   - Valid() bool reports whether the caller certainly holds the lock now, computed from the clock. Call it right
//     before an action that must not happen without the lock, above all after anything that may have taken a long time.
//   - Remaining() time.Duration returns how long the lock certainly lasts if no server answers from now on; 0 if it is
//     lost or released. While the connection works, replies extend the time again and again.
//   - Path() string returns the path of the lock's node, as seen by the client that acquired this Lock (without that
//     client's namespace). Node() string returns the name of that node.
type Lock struct {
	*grantShare
	m *Mutex
}

type grantShare = line.Share

// FencingToken returns a number that grows from holder to holder: the czxid of the lock's node. A store that
// remembers the largest token and refuses smaller ones is safe from writes of a former holder. Locks that
// share a node by re-entry have the same token. Tokens grow as long as the ensemble keeps its data: after
// restoring a backup, or moving to another ensemble, they may be smaller.
func (l *Lock) FencingToken() int64 { return line.GrantOf(l.grantShare).Czxid }

// Guard returns an operation for [framework.Client.Transaction], of any client of the same ensemble. With it
// the server executes the transaction only if the lock's node exists at the commit; otherwise the transaction
// fails with framework.ErrNotHeld. No clock is involved.
func (l *Lock) Guard() framework.TransactionOp { return line.Guard(l.grantShare) }

// Release releases the lock. After re-entries only the last Release does so. The context ends immediately, and the
// node is deleted by its own, unique name, so that a later holder is not affected. Release waits until the server has
// confirmed the deletion. If ctx ends first, or the connection is lost, Release returns that error, and the client
// keeps trying to delete the node for as long as the session lives.
//
// A second Release of the same Lock returns ErrReleased and does nothing. If the lock was lost before, the error of
// the last Release is the cause (ErrSessionLost, …): the end of the work may not have been protected. Call Release
// also after a loss, since the node may still exist.
func (l *Lock) Release(ctx context.Context) error {
	return l.m.wrapError("release", line.Release(ctx, l.grantShare))
}

// ReleaseInBackground is Release for a caller that does not wait: it returns immediately, whatever the network does.
// The context has ended then, and the delete is in flight: the client sends this goroutine's next requests after it,
// without waiting for its reply. The client retries it until it is executed or the session has ended, and Close waits
// for it as for all clean-ups. So it is the call to defer:
//
//	defer lock.ReleaseInBackground()
//
// then, if given, gets the error that Release would return, on the client's goroutine for callbacks (see
// [framework.Pending.Then]): ErrConnectionLoss and ErrNotConnected there mean that the client continues. Without it
// only a refusal is logged.
func (l *Lock) ReleaseInBackground(then ...func(err error)) {
	line.ReleaseInBackground(l.grantShare, l.m.wrapError, then)
}

// Revoke asks the participant whose node is at path to release the lock: see [Mutex.Participants] and Path of a [Lock].
// Only locks made with [WithRevocation], or with Curator's makeRevocable, receive the request, and they decide
// whether and when to comply. Revoke replaces the node's data; the lock and its Guard are not affected. If the node
// is gone already, Revoke returns nil.
//
// Revoke is repeated by the retry policy. Errors: ErrNoAuth if the client lacks WRITE permission on the node;
// ErrInvalidPath; ErrConnectionLoss if it is unknown whether the request was made; ErrNotConnected; ErrClosed; ctx's.
// Corresponds to Curator's Revoker.attemptRevoke.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	return line.WrapError("mutex", "", "revoke", line.Revoke(ctx, client, path))
}

// Revoked returns a channel that is closed after a request for this lock with [Revoke] or Curator's Revoker. Without
// [WithRevocation] the channel is nil and blocks for ever. A request does not release the lock: the holder has to. A
// request made while this lock was still waiting counts. A request made while the connection is lost is reported
// after the reconnect. Locks that share a node by re-entry share the channel.
func (l *Lock) Revoked() <-chan struct{} { return line.Revoked(l.grantShare) }
