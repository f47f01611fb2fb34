package javapeer

import (
	"context"
	"strconv"
	"time"
)

// Barrier is a DistributedBarrier of the peer.
type Barrier struct {
	peer *Peer
	name string
}

// Barrier makes one on path, known to the peer by name.
func (p *Peer) Barrier(ctx context.Context, name, path string) (*Barrier, error) {
	_, err := p.Call(ctx, "barrier", name, path)
	return &Barrier{p, name}, err
}

// Set sets the barrier. While a Barrier waits, Java does not allow setting or removing it: make another.
func (b *Barrier) Set(ctx context.Context) error {
	_, err := b.peer.Call(ctx, "barrier-set", b.name)
	return err
}

// Remove removes the barrier.
func (b *Barrier) Remove(ctx context.Context) error {
	_, err := b.peer.Call(ctx, "barrier-remove", b.name)
	return err
}

// Wait waits until the barrier is not set. It is ErrTimeout if limit comes
// first. When ctx ends Java waits on.
func (b *Barrier) Wait(ctx context.Context, limit time.Duration) error {
	_, err := b.peer.Call(ctx, "barrier-wait", b.name, milliseconds(limit))
	return err
}

// Double is a DistributedDoubleBarrier of the peer, which is one member.
type Double struct {
	peer *Peer
	name string
}

// Double makes one on path for quantity members, known to the peer by name.
func (p *Peer) Double(ctx context.Context, name, path string, quantity int) (*Double, error) {
	_, err := p.Call(ctx, "double", name, path, strconv.Itoa(quantity))
	return &Double{p, name}, err
}

// Enter waits until all members are there. It is ErrTimeout if limit comes
// first. When ctx ends Java waits on.
func (d *Double) Enter(ctx context.Context, limit time.Duration) error {
	_, err := d.peer.Call(ctx, "enter", d.name, milliseconds(limit))
	return err
}

// Leave waits until all members have left, in Curator's opinion, with the limit
// of Enter.
func (d *Double) Leave(ctx context.Context, limit time.Duration) error {
	_, err := d.peer.Call(ctx, "leave", d.name, milliseconds(limit))
	return err
}
