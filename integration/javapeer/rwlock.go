package javapeer

import (
	"context"
	"fmt"
)

// ReadWrite makes an InterProcessReadWriteLock on path, known to the peer by name. Its two sides are acquired on
// separate threads, so that each waits for the other as for any other contender; see Downgrade.
func (p *Peer) ReadWrite(ctx context.Context, name, path string) (read, write *Lock, err error) {
	if _, err := p.Call(ctx, "rwlock", name, path); err != nil {
		return nil, nil, err
	}
	return &Lock{p, name + ".read"}, &Lock{p, name + ".write"}, nil
}

// Downgrade acquires the read lock on the thread of write, which holds the write
// lock. The function it returns releases the read lock.
func (l *Lock) Downgrade(
	ctx context.Context, read *Lock,
) (release func(ctx context.Context) error, err error) {
	if _, err := l.peer.Call(ctx, "acquire", read.name, "-1", l.name); err != nil {
		return nil, fmt.Errorf("downgrade %s: %w", l.name, err)
	}
	return func(ctx context.Context) error {
		_, err := l.peer.Call(ctx, "release", read.name, l.name)
		return err
	}, nil
}
