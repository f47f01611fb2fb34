package node

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Set keeps nodes by path: a [Keeper] for each, for a program that registers and unregisters by name. Safe for concurrent
// use.
type Set struct {
	client *framework.Client
	opts   []Option

	mu      sync.Mutex
	keepers map[string]*setKeeper
	closed  bool
}

type setKeeper struct {
	*Keeper
	closing bool // Remove was called; another keeper of the path begins only when this one has ended
}

// NewSet returns a set without nodes. The options are for each of its keepers. Close it when its nodes are not wanted any
// more; it also ends with its client.
func NewSet(client *framework.Client, opts ...Option) *Set {
	return &Set{client: client, opts: opts, keepers: map[string]*setKeeper{}}
}

// Keep makes the set keep a node at path with these data, and waits until the node is there and has them. If the set keeps
// the node already, Keep only changes its data; if they are the data that the node has, it sends nothing. It is a
// [NewKeeper] with [Keeper.WaitCreated], or a [Keeper.SetData], and has their errors. When ctx ends the set keeps the node
// all the same, unless Keep still waits for the end of an earlier Remove of the path. After Close the error is [ErrClosed].
func (s *Set) Keep(ctx context.Context, path string, data []byte) error {
	err := line.CheckCall(ctx, s.client, nil)
	for err == nil {
		k, created, failed := s.keeperAt(path, data)
		switch {
		case failed != nil:
			err = failed
		case k.closing:
			if failed = k.Close(ctx); !s.forgetEnded(path, k) {
				err = failed
			}
		default:
			if created || k.hasAccepted(data) {
				failed = k.WaitCreated(ctx)
			} else {
				failed = k.SetData(ctx, data)
			}
			if !errors.Is(failed, ErrClosed) {
				return failed
			}
			<-k.done // Remove was called, or the keeper's own Close
			s.forgetEnded(path, k)
		}
	}
	return line.WrapError("node set", path, "keep", err)
}

// keeperAt returns a copy of the entry at path, which it creates unless there is one.
func (s *Set) keeperAt(path string, data []byte) (k setKeeper, created bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return k, false, ErrClosed
	}
	if s.keepers[path] == nil {
		keeper, err := NewKeeper(s.client, path, data, s.opts...)
		if err != nil {
			return k, false, err
		}
		s.keepers[path], created = &setKeeper{Keeper: keeper}, true
	}
	return *s.keepers[path], created, nil
}

// hasAccepted reports whether data are those of the last SetData, and the node has had them.
func (k *Keeper) hasAccepted(data []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := k.wantedContent
	return bytes.Equal(wanted.data, data) && (wanted.data == nil) == (data == nil) && // nil is the default data
		k.acceptedContent.sequence >= wanted.sequence
}

// forgetEnded removes the entry if its keeper has ended, and reports whether it has.
func (s *Set) forgetEnded(path string, k setKeeper) bool {
	select {
	case <-k.done:
	default:
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.keepers[path]; now != nil && now.Keeper == k.Keeper {
		delete(s.keepers, path)
	}
	return true
}

// Remove deletes the node at path for certain, and waits for that, as [Keeper.Close] does. If ctx ends before, the node is
// deleted in the background. If the set does not keep a node there, Remove does nothing.
func (s *Set) Remove(ctx context.Context, path string) error {
	if err := line.CheckCall(ctx, s.client, nil); err != nil {
		return line.WrapError("node set", path, "remove", err)
	}
	s.mu.Lock()
	k := s.keepers[path]
	if k != nil {
		k.closing = true
	}
	s.mu.Unlock()
	if k == nil {
		return nil
	}
	err := k.Close(ctx)
	s.forgetEnded(path, setKeeper{Keeper: k.Keeper})
	return err
}

// Paths returns the paths of the kept nodes, sorted, as they were given to Keep.
func (s *Set) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := maps.Clone(s.keepers)
	maps.DeleteFunc(kept, func(_ string, k *setKeeper) bool { return k.closing })
	return slices.Sorted(maps.Keys(kept))
}

// Keeper returns the keeper of the node at path, to follow its status; nil if the set does not keep a node there.
func (s *Set) Keeper(path string) *Keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keepers[path]; k != nil && !k.closing {
		return k.Keeper
	}
	return nil
}

// Close deletes all nodes of the set for certain, at the same time, and waits for that, as [Keeper.Close] does. If ctx ends
// before, it returns ctx's error, and the nodes are deleted in the background; another Close waits for the same. The errors
// of several nodes are joined.
func (s *Set) Close(ctx context.Context) error {
	if err := line.CheckCall(ctx, s.client, nil); err != nil {
		return line.WrapError("node set", "", "close", err)
	}
	s.mu.Lock()
	s.closed = true
	for _, k := range s.keepers {
		k.closing = true
	}
	keepers := slices.Collect(maps.Values(s.keepers))
	s.mu.Unlock()
	for _, k := range keepers {
		k.inbox.Put(closeRequested)
	}
	ctx, cancel := withCloseDeadline(ctx, s.client)
	defer cancel()
	var failed []error
	for _, k := range keepers {
		failed = append(failed, k.Close(ctx))
	}
	return errors.Join(failed...)
}
