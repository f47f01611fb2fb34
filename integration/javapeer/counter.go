package javapeer

import (
	"context"
	"strconv"
)

// Long is a DistributedAtomicLong of the peer.
type Long struct {
	peer *Peer
	name string
}

// Long makes one at path, known to the peer by name; lock, if there is one, is
// the path of its PromotedToLock.
func (p *Peer) Long(ctx context.Context, name, path string, lock ...string) (*Long, error) {
	_, err := p.Call(ctx, "long", append([]string{name, path}, lock...)...)
	return &Long{p, name}, err
}

// Add adds delta so many times, one after the other, and returns the last sum.
func (l *Long) Add(ctx context.Context, delta int64, times int) (int64, error) {
	return l.peer.number(ctx, "long-add", l.name, strconv.FormatInt(delta, 10), strconv.Itoa(times))
}

// Get returns the value that Java reads.
func (l *Long) Get(ctx context.Context) (int64, error) { return l.peer.number(ctx, "long-get", l.name) }

// Initialize sets n if there is no value yet, and reports whether it did.
func (l *Long) Initialize(ctx context.Context, n int64) (bool, error) {
	return l.peer.truth(ctx, "long-initialize", l.name, strconv.FormatInt(n, 10))
}

// IDs makes a CachedAtomicLong over the Long, known to the peer by name.
func (l *Long) IDs(ctx context.Context, name string, block int) (*IDs, error) {
	_, err := l.peer.Call(ctx, "ids", name, l.name, strconv.Itoa(block))
	return &IDs{l.peer, name}, err
}

// IDs is a CachedAtomicLong of the peer.
type IDs struct {
	peer *Peer
	name string
}

// Next is the next number.
func (i *IDs) Next(ctx context.Context) (int64, error) { return i.peer.number(ctx, "ids-next", i.name) }

// AddToInteger adds delta to the DistributedAtomicInteger at path, and returns
// the sum.
func (p *Peer) AddToInteger(ctx context.Context, path string, delta int32) (int64, error) {
	return p.number(ctx, "integer-add", path, strconv.Itoa(int(delta)))
}

// Value is a SharedValue of the peer.
type Value struct {
	peer *Peer
	name string
}

// Value starts one at path, known to the peer by name; seed is its value if there is none yet.
func (p *Peer) Value(ctx context.Context, name, path, seed string) (*Value, error) {
	_, err := p.Call(ctx, "value", name, path, seed)
	return &Value{p, name}, err
}

// Get returns the value that Java has last seen.
func (v *Value) Get(ctx context.Context) (string, error) {
	return v.peer.word(ctx, "value-get", v.name)
}

// Set sets it, whatever it was.
func (v *Value) Set(ctx context.Context, text string) error {
	_, err := v.peer.Call(ctx, "value-set", v.name, text)
	return err
}

// TrySet sets it if it is still what Java believes that it is.
func (v *Value) TrySet(ctx context.Context, text string) (bool, error) {
	return v.peer.truth(ctx, "value-try", v.name, text)
}
