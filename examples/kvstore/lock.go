package kvstore

import (
	"context"
	"errors"
	"net/url"
	"path"
	"sync"
	"time"

	"github.com/kvtools/valkeyrie/store"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

// NewLock makes a lock for the key, which is free. A holder's value is written to the key. The lock lasts for
// as long as the store's session; with RenewLock it is given up one TTL after that channel is closed.
func (s *Store) NewLock(_ context.Context, key string, opts *store.LockOptions) (store.Locker, error) {
	l := &locker{store: s, key: key}
	if opts != nil {
		l.opts = *opts
	}
	l.mutex = mutex.New(s.client, "/locks/"+url.PathEscape(at(key)[1:]), mutex.WithNodeData(l.opts.Value))
	return l, nil
}

type locker struct {
	store *Store
	key   string
	opts  store.LockOptions
	mutex *mutex.Mutex

	mu   sync.Mutex
	held *mutex.Lock // guarded by mu
}

// Lock waits for the lock until ctx ends, first come, first served. The channel is closed when the lock is lost,
// before another client can hold it, or released.
func (l *locker) Lock(ctx context.Context) (<-chan struct{}, error) {
	held, err := l.mutex.Acquire(ctx)
	if err != nil {
		return nil, errors.Join(store.ErrCannotLock, err)
	}
	if err := l.write(ctx, held); err != nil {
		held.ReleaseInBackground()
		return nil, errors.Join(store.ErrCannotLock, err)
	}
	l.mu.Lock()
	l.held = held
	l.mu.Unlock()
	if l.opts.RenewLock != nil {
		l.store.work.Go(func() { l.expire(held) })
	}
	return held.Context().Done(), nil
}

// write writes the holder's value to the key, for as long as it is the holder: the guard has the server refuse later
// writes.
func (l *locker) write(ctx context.Context, held *mutex.Lock) error {
	if err := l.store.client.Ensure(ctx, path.Dir(at(l.key))); err != nil {
		return err
	}
	return l.guarded(ctx, held, l.store.client.TransactionOp().Create().OrSetData().
		ForPath(at(l.key), append([]byte{}, l.opts.Value...)))
}

// guarded executes op while the lock is held. It may be executed twice: while the lock is held no other client writes
// the same.
func (l *locker) guarded(ctx context.Context, held *mutex.Lock, op framework.TransactionOp) error {
	for {
		_, err := l.store.client.Transaction(ctx, held.Guard(), op)
		if !errors.Is(err, framework.ErrOutcomeUnknown) || ctx.Err() != nil || !held.Valid() {
			return err
		}
	}
}

// expire releases the lock when it has not been renewed in time.
func (l *locker) expire(held *mutex.Lock) {
	select {
	case <-l.opts.RenewLock:
	case <-held.Context().Done():
		return
	}
	select {
	case <-time.After(l.opts.TTL):
		held.ReleaseInBackground()
	case <-held.Context().Done():
	}
}

// Unlock releases the lock. If it was lost before, the error has the reason.
func (l *locker) Unlock(ctx context.Context) error {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if held == nil {
		return mutex.ErrReleased
	}
	var err error
	if l.opts.DeleteOnUnlock {
		err = l.guarded(ctx, held, l.store.client.TransactionOp().Delete().ForPath(at(l.key)))
		if errors.Is(err, framework.ErrNoNode) { // executed before, or the lock is lost, as Release will report
			err = nil
		}
	}
	return errors.Join(err, held.Release(ctx))
}
