package javapeer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Semaphore is an InterProcessSemaphoreV2 of the peer.
type Semaphore struct {
	peer *Peer
	name string
}

// Semaphore makes one of max leases on path, known to the peer by name.
func (p *Peer) Semaphore(ctx context.Context, name, path string, max int) (*Semaphore, error) {
	_, err := p.Call(ctx, "semaphore", name, path, strconv.Itoa(max))
	return &Semaphore{p, name}, err
}

// SharedSemaphore makes one whose number of leases is the count.
func (p *Peer) SharedSemaphore(ctx context.Context, name, path string, count *Count) (*Semaphore, error) {
	_, err := p.Call(ctx, "semaphore", name, path, count.name)
	return &Semaphore{p, name}, err
}

// Acquire waits for n leases and returns the names of their nodes; key names
// them for Return. It is ErrTimeout if limit comes first. When ctx ends Java
// waits on.
func (s *Semaphore) Acquire(
	ctx context.Context, key string, n int, limit time.Duration,
) (nodes []string, err error) {
	nodes, err = s.peer.Call(ctx, "lease", s.name, key, strconv.Itoa(n), milliseconds(limit))
	if err != nil {
		return nil, fmt.Errorf("acquire %s: %w", s.name, err)
	}
	return nodes, nil
}

// Return returns the leases of a key.
func (s *Semaphore) Return(ctx context.Context, key string) error {
	_, err := s.peer.Call(ctx, "return", key)
	return err
}

// Count is a SharedCount of the peer.
type Count struct {
	peer *Peer
	name string
}

// Count starts a SharedCount at path, known to the peer by name, which is not a number; seed is its value if there is
// none yet.
func (p *Peer) Count(ctx context.Context, name, path string, seed int32) (*Count, error) {
	_, err := p.Call(ctx, "count", name, path, strconv.Itoa(int(seed)))
	return &Count{p, name}, err
}

// Get returns the count that Java has last seen.
func (c *Count) Get(ctx context.Context) (int32, error) {
	n, err := c.peer.number(ctx, "count-get", c.name)
	return int32(n), err
}

// Set sets it, whatever it was.
func (c *Count) Set(ctx context.Context, n int32) error {
	_, err := c.peer.Call(ctx, "count-set", c.name, strconv.Itoa(int(n)))
	return err
}

// SemaphoreMutex makes an InterProcessSemaphoreMutex on path, known to the peer
// by name.
func (p *Peer) SemaphoreMutex(ctx context.Context, name, path string) (*Lock, error) {
	_, err := p.Call(ctx, "semaphore-mutex", name, path)
	return &Lock{p, name}, err
}
