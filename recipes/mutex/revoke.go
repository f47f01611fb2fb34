package mutex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/queue"
)

// revokeData is what a revoker puts into the node of the lock that it would like to have. It is part of the contract with Curator for Java.
const revokeData = "__REVOKE__"

// lookAgain is when to read the node again after that has failed.
const lookAgain = time.Second

// Revoke asks a participant to give up the lock: the one whose node is at path, with any client, see [Mutex.Participants] and [Lock.Path].
// It is a request, and only heard by those who listen: locks made with [WithRevocation], and Curator's makeRevocable. Whether and
// when they follow it is theirs to decide. It replaces the node's data; the lock and its Guard are not affected. A participant
// who has left already is fine.
//
// It is repeated as the retry policy says. Errors: ErrNoAuth without WRITE on the node; ErrInvalidPath; ErrConnectionLoss, and then it may
// have been asked or not; ErrNotConnected; ErrClosed; ctx's.
//
// Corresponds to Curator's Revoker.attemptRevoke.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	if client == nil {
		return errors.New("mutex: revoke: the client is nil: make one with framework.New")
	}
	_, err := client.SetData().ForPath(ctx, path, []byte(revokeData))
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return fmt.Errorf("mutex: revoke: %w", err)
	}
	return nil
}

// Revoked is closed when somebody has asked for the lock with [Revoke], or Curator's Revoker, if it was made with [WithRevocation]; else it is
// nil, and blocks for ever. The lock stays held until it is released. A request that came while the lock was still waited for counts.
// Locks that share a hold share the channel. A request made while the connection is lost is noticed when it is back.
func (l *Lock) Revoked() <-chan struct{} { return l.revoked }

// revocation waits for somebody to ask for a lock. All but the first look happens on the goroutine of the client's callbacks, and nothing
// has to be stopped: what it waits for ends with the hold, and the watch goes with the node.
type revocation struct {
	grant *queue.Grant
	asked chan struct{}
}

// look reads the node, and has changed called with the next change.
func (r *revocation) look() {
	ctx := r.grant.Hold.Context()
	r.grant.Session.Client().GetData().Watching(r.changed).InBackground().ForPath(ctx, r.grant.Path).Then(r.seen)
}

func (r *revocation) changed(ev framework.Event) {
	if ev.Type == framework.EventNodeDataChanged && !r.done() {
		r.look()
	}
}

func (r *revocation) seen(node framework.DataResult, err error) {
	switch {
	case r.done(), errors.Is(err, framework.ErrNoNode): // of the latter the hold hears, too
	case err == nil && string(node.Data) == revokeData:
		close(r.asked)
	case err == nil:
	case errors.Is(err, framework.ErrNoAuth):
		r.grant.Session.Client().Logger().Warn("a lock may not read its own node: nobody can ask for it to be given up", "path", r.grant.Path)
	default:
		time.AfterFunc(lookAgain, func() {
			if !r.done() {
				r.look()
			}
		})
	}
}

// done says that it has been asked, or that there is nothing to ask for any more.
func (r *revocation) done() bool {
	select {
	case <-r.asked:
		return true
	case <-r.grant.Hold.Context().Done():
		return true
	default:
		return false
	}
}
