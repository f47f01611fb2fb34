package ways

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcd is the package concurrency of etcd's client: a session that is a lease, and a mutex on it.
type etcd struct {
	client  *clientv3.Client
	ttl     int
	session *concurrency.Session
}

func openEtcd(_ context.Context, c Config) (Way, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Servers, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	w := &etcd{client: client, ttl: int(c.Lease / time.Second)}
	if err := w.renew(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return w, nil
}

// renew makes a session if there is none, or none that lives.
func (w *etcd) renew() (err error) {
	if w.session != nil {
		select {
		case <-w.session.Done():
		default:
			return nil
		}
	}
	w.session, err = concurrency.NewSession(w.client, concurrency.WithTTL(w.ttl))
	if err != nil {
		w.session = nil
	}
	return err
}

func (w *etcd) Acquire(ctx context.Context) (Hold, error) {
	return w.acquire(ctx, (*concurrency.Mutex).Lock)
}

func (w *etcd) Try(ctx context.Context) (Hold, error) {
	hold, err := w.acquire(ctx, (*concurrency.Mutex).TryLock)
	if errors.Is(err, concurrency.ErrLocked) {
		return nil, ErrHeld
	}
	return hold, err
}

func (w *etcd) acquire(ctx context.Context, lock func(*concurrency.Mutex, context.Context) error) (Hold, error) {
	if err := w.renew(); err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(w.session, "/locks/"+name)
	if err := lock(mutex, ctx); err != nil {
		return nil, err
	}
	return etcdLock{w.session, mutex}, nil
}

func (w *etcd) Close() error {
	var err error
	if w.session != nil {
		err = w.session.Close()
	}
	return errors.Join(err, w.client.Close())
}

type etcdLock struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (h etcdLock) Lost() error {
	select {
	case <-h.session.Done():
		return concurrency.ErrSessionExpired
	default:
		return nil
	}
}

func (h etcdLock) Reenter(context.Context) error { return ErrNone } // a session's second Lock is the first's key

func (h etcdLock) Release(ctx context.Context) error { return h.mutex.Unlock(ctx) }
