package ways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	goredis9 "github.com/redis/go-redis/v9"

	fenceredis "github.com/go-curator/curator/contrib/fence/redis"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

// ledgerNode is the node for the writes of guarded holds.
const ledgerNode = "/compare/ledger"

// deciding names the party that decides whether an act is executed.
type deciding int

const (
	plain   deciding = iota // the holder, by its clock
	guarded                 // ZooKeeper, by a transaction
	fenced                  // the store, by the token
)

// curator is this library.
type curator struct {
	client *framework.Client
	mutex  *mutex.Mutex
	by     deciding
	store  *goredis9.Client // if fenced
	fences *fenceredis.Fence
}

func openCurator(by deciding) func(context.Context, Config) (Way, error) {
	return func(_ context.Context, c Config) (Way, error) {
		client, err := framework.New(strings.Join(c.Servers, ","), framework.WithSessionTimeout(c.Lease),
			framework.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			return nil, err
		}
		w := &curator{client: client, mutex: mutex.New(client, "/locks/"+name), by: by}
		if by == fenced {
			w.store = goredis9.NewClient(&goredis9.Options{Addr: c.Store, MaxRetries: -1})
			w.fences = fenceredis.New(w.store)
		}
		return w, nil
	}
}

func (w *curator) Acquire(ctx context.Context) (Hold, error) { return w.hold(w.mutex.Acquire(ctx)) }

func (w *curator) Try(ctx context.Context) (Hold, error) {
	hold, err := w.hold(w.mutex.TryAcquire(ctx))
	if errors.Is(err, mutex.ErrNotAcquired) {
		return nil, ErrHeld
	}
	return hold, err
}

func (w *curator) hold(lock *mutex.Lock, err error) (Hold, error) {
	if err != nil {
		return nil, err
	}
	switch w.by {
	case fenced:
		return fencedLock{curatorLock{w, lock}}, nil
	case guarded:
		_, err := w.client.Create().CreatingParentsIfNeeded().ForPath(lock.Context(), ledgerNode, nil)
		if err != nil && !errors.Is(err, framework.ErrNodeExists) {
			lock.ReleaseInBackground()
			return nil, err
		}
		return guardedLock{curatorLock{w, lock}}, nil
	}
	return curatorLock{w, lock}, nil
}

func (w *curator) Close() (err error) {
	if w.store != nil {
		err = w.store.Close()
	}
	return errors.Join(err, w.client.Close())
}

type curatorLock struct {
	way  *curator
	lock *mutex.Lock
}

func (h curatorLock) Lost() error {
	if h.lock.Valid() {
		return nil
	}
	return fmt.Errorf("the lock is lost: %w", context.Cause(h.lock.Context()))
}

func (h curatorLock) Reenter(ctx context.Context) error {
	again, err := h.way.mutex.Acquire(h.lock.Context())
	if err != nil {
		return err
	}
	return again.Release(ctx)
}

func (h curatorLock) Release(ctx context.Context) error { return h.lock.Release(ctx) }

// guardedLock acts in ZooKeeper, which refuses the act when the lock's node is gone.
type guardedLock struct{ curatorLock }

func (h guardedLock) Act(ctx context.Context) (order int64, err error) {
	client := h.way.client
	for {
		results, err := client.Transaction(ctx, h.lock.Guard(),
			client.TransactionOp().SetData().ForPath(ledgerNode, []byte(h.lock.Node())))
		if err == nil {
			return results[1].Stat.Mzxid, nil
		}
		// A request that the network has lost is repeated for as long as the lock is held.
		if errors.Is(err, framework.ErrNoNode) || h.Lost() != nil || ctx.Err() != nil {
			return 0, err
		}
		select {
		case <-time.After(again):
		case <-h.lock.Context().Done():
		}
	}
}

// fencedLock acts in a store, which refuses the act when it has seen a larger token.
type fencedLock struct{ curatorLock }

var count = fenceredis.NewScript(`return redis.call("INCR", KEYS[1])`)

func (h fencedLock) Act(ctx context.Context) (order int64, err error) {
	// Errors of the store are not repeated: no fault affects it.
	n, err := h.way.fences.Run(ctx, name, h.lock.FencingToken(), count, []string{fenceredis.Key(name, "acts")})
	if err != nil {
		return 0, err
	}
	return n.(int64), nil
}
