package ways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

// ledgerNode is what a guarded hold writes to.
const ledgerNode = "/compare/ledger"

// curator is this library.
type curator struct {
	client  *framework.Client
	mutex   *mutex.Mutex
	guarded bool
}

func openCurator(guarded bool) func(context.Context, Config) (Way, error) {
	return func(_ context.Context, c Config) (Way, error) {
		client, err := framework.New(strings.Join(c.Servers, ","), framework.WithSessionTimeout(c.Lease),
			framework.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			return nil, err
		}
		return &curator{client, mutex.New(client, "/locks/"+name), guarded}, nil
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
	if w.guarded {
		_, err := w.client.Create().CreatingParentsIfNeeded().ForPath(lock.Context(), ledgerNode, nil)
		if err != nil && !errors.Is(err, framework.ErrNodeExists) {
			lock.ReleaseInBackground()
			return nil, err
		}
		return guardedLock{curatorLock{w, lock}}, nil
	}
	return curatorLock{w, lock}, nil
}

func (w *curator) Close() error { return w.client.Close() }

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
		// What the network did to it is repeated for as long as there is a lock.
		if errors.Is(err, framework.ErrNoNode) || h.Lost() != nil || ctx.Err() != nil {
			return 0, err
		}
		select {
		case <-time.After(again):
		case <-h.lock.Context().Done():
		}
	}
}
