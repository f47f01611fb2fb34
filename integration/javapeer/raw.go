package javapeer

import (
	"context"
	"time"
)

// ZooKeeper is a client of ZooKeeper's own, without Curator. Its events are named "raw"; their words are the
// client's name, state, type and path.
type ZooKeeper struct {
	peer *Peer
	name string
}

// ZooKeeper makes one, known to the peer by name, and waits until it is connected. A peer may have several.
func (p *Peer) ZooKeeper(
	ctx context.Context, name, connectString string, sessionTimeout time.Duration,
) (*ZooKeeper, error) {
	_, err := p.Call(ctx, "raw-connect", name, connectString, milliseconds(sessionTimeout))
	return &ZooKeeper{p, name}, err
}

// Do calls an operation of RawCommands.java and returns the words of its result.
func (z *ZooKeeper) Do(ctx context.Context, operation string, arguments ...string) ([]string, error) {
	return z.peer.Call(ctx, "raw", append([]string{z.name, operation}, arguments...)...)
}

// SessionID is the id of the current session.
func (z *ZooKeeper) SessionID(ctx context.Context) (int64, error) {
	return z.peer.number(ctx, "raw", z.name, "session")
}

// Await waits for an event of this client after the peer's first seen ones, and returns the number of the peer's
// events up to it.
func (z *ZooKeeper) Await(ctx context.Context, seen int, state, kind, path string) (int, error) {
	_, seen, err := z.peer.AwaitEvent(ctx, seen, func(e Event) bool {
		return e.Name == "raw" && len(e.Words) == 4 && e.Words[0] == z.name && e.Words[1] == state &&
			e.Words[2] == kind && e.Words[3] == path
	})
	return seen, err
}
