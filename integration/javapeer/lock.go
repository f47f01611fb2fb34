package javapeer

import (
	"context"
	"fmt"
	"time"
)

// Lock is a lock of the peer, an InterProcessLock of any kind. It is acquired and released on a separate Java thread,
// since it belongs to a thread.
type Lock struct {
	peer *Peer
	name string
}

// Mutex makes an InterProcessMutex on path, known to the peer by name.
func (p *Peer) Mutex(ctx context.Context, name, path string) (*Lock, error) {
	if _, err := p.Call(ctx, "mutex", name, path); err != nil {
		return nil, err
	}
	return &Lock{p, name}, nil
}

// MultiLock makes an InterProcessMultiLock of the mutexes on paths, in this
// order, known to the peer by name.
func (p *Peer) MultiLock(ctx context.Context, name string, paths ...string) (*Lock, error) {
	_, err := p.Call(ctx, "multi", append([]string{name}, paths...)...)
	return &Lock{p, name}, err
}

// Forever is a limit for Acquire that never comes.
const Forever = time.Duration(-1)

// Acquire waits for the lock, up to limit or Forever, and returns the name of
// its node. It is ErrTimeout if the limit comes first. When ctx ends Java waits
// on.
func (l *Lock) Acquire(ctx context.Context, limit time.Duration) (node string, err error) {
	return l.GoAcquire(limit)(ctx)
}

// GoAcquire is Acquire without the wait: the function it returns waits; call it
// once at most. Acquires of several locks sent one after the other may reach
// the server in any order.
func (l *Lock) GoAcquire(limit time.Duration) (wait func(ctx context.Context) (node string, err error)) {
	if limit > 0 && limit < time.Millisecond {
		limit = time.Millisecond
	}
	argument := milliseconds(limit)
	if limit < 0 {
		argument = "-1"
	}
	words := l.peer.Go("acquire", l.name, argument)
	return func(ctx context.Context) (string, error) {
		got, err := words(ctx)
		if err != nil {
			return "", fmt.Errorf("acquire %s: %w", l.name, err)
		}
		if len(got) == 0 {
			return "", nil // a lock that does not report its node
		}
		return got[0], nil
	}
}

// Release releases the lock.
func (l *Lock) Release(ctx context.Context) error {
	_, err := l.peer.Call(ctx, "release", l.name)
	return err
}

// Held is Curator's isAcquiredInThisProcess, which does not consider a lost session.
func (l *Lock) Held(ctx context.Context) (bool, error) {
	return l.peer.truth(ctx, "held", l.name)
}

// Token is the czxid of the node of the holder, read by the class that docs/from-java-curator.md shows. Only a Mutex
// has it.
func (l *Lock) Token(ctx context.Context) (int64, error) { return l.peer.number(ctx, "token", l.name) }

// Participants are the names of the nodes in a mutex's queue as Curator sorts
// them, the holder's first.
func (l *Lock) Participants(ctx context.Context) ([]string, error) {
	return l.peer.Call(ctx, "participants", l.name)
}

// Participants returns the participants of the mutex at path.
func (p *Peer) Participants(ctx context.Context, path string) ([]string, error) {
	return p.Call(ctx, "participants", path)
}
