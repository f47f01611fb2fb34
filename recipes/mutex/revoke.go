package mutex

import (
	"context"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Revoke asks a participant to give up the lock: the one whose node is at path, with any client, see
// [Mutex.Participants] and [Lock.Path]. It is a request, and only heard by those that listen: locks made with
// [WithRevocation], and Curator's makeRevocable. They decide whether and when to follow it. It replaces the
// node's data; the lock and its Guard are not affected. A participant that has left already is no error.
//
// It is repeated as the retry policy says. Errors: ErrNoAuth without WRITE on the node; ErrInvalidPath;
// ErrConnectionLoss, and then it may have been asked or not; ErrNotConnected; ErrClosed; ctx's.
//
// Corresponds to Curator's Revoker.attemptRevoke.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	return queue.Wrap("mutex", "", "revoke", queue.Revoke(ctx, client, path))
}

// Revoked is closed when somebody has asked for this lock with [Revoke], or Curator's Revoker, if it was made
// with [WithRevocation]; else it is nil, and blocks for ever. The lock stays held until it is released. A
// request that came before the lock was acquired counts. Locks that share a hold share the channel. A request
// made while the connection is lost is noticed when it is back.
func (l *Lock) Revoked() <-chan struct{} { return l.handle.Revoked() }
