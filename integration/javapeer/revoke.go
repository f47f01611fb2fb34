package javapeer

import (
	"context"
	"fmt"
)

// MakeRevocable is Curator's makeRevocable of a mutex that will be acquired next. AwaitRevoked waits for a request.
func (l *Lock) MakeRevocable(ctx context.Context) error {
	_, err := l.peer.Call(ctx, "revocable", l.name)
	return err
}

// AwaitRevoked waits for the first request to release the lock.
func (l *Lock) AwaitRevoked(ctx context.Context) error {
	_, _, err := l.peer.AwaitEvent(ctx, 0,
		func(e Event) bool { return e.Name == "revoked" && e.Words[0] == l.name })
	if err != nil {
		return fmt.Errorf("revoked %s: %w", l.name, err)
	}
	return nil
}

// Revoke is Curator's Revoker.attemptRevoke of the holder whose node is at path.
func (p *Peer) Revoke(ctx context.Context, path string) error {
	_, err := p.Call(ctx, "revoke", path)
	return err
}
