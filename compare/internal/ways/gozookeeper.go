package ways

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"
)

// goZookeeper is the library go-zookeeper, which this one uses, with its own Lock.
type goZookeeper struct {
	conn   *zk.Conn
	reader sync.WaitGroup

	mu      sync.Mutex
	expired int // sessions
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func openGoZookeeper(ctx context.Context, c Config) (Way, error) {
	conn, events, err := zk.Connect(c.Servers, c.Lease, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	w := &goZookeeper{conn: conn}
	connected := make(chan struct{})
	w.reader.Go(func() {
		first := true
		for event := range events {
			switch {
			case event.State == zk.StateHasSession && first:
				close(connected)
				first = false
			case event.State == zk.StateExpired:
				w.mu.Lock()
				w.expired++
				w.mu.Unlock()
			}
		}
	})
	select {
	case <-connected:
		return w, nil
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), w.Close())
	}
}

func (w *goZookeeper) sessions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.expired
}

// Acquire does not end with ctx, since Lock has none.
func (w *goZookeeper) Acquire(context.Context) (Hold, error) {
	lock := zk.NewLock(w.conn, "/locks/"+name, zk.WorldACL(zk.PermAll))
	before := w.sessions()
	if err := lock.Lock(); err != nil {
		return nil, err
	}
	return zkLock{w, lock, before}, nil
}

func (w *goZookeeper) Try(context.Context) (Hold, error) { return nil, ErrNone }

func (w *goZookeeper) Close() error {
	w.conn.Close()
	w.reader.Wait()
	return nil
}

type zkLock struct {
	way    *goZookeeper
	lock   *zk.Lock
	before int // sessions that had expired when it was asked for
}

func (h zkLock) Lost() error {
	if h.way.sessions() != h.before {
		return zk.ErrSessionExpired
	}
	return nil
}

// Reenter is refused with zk.ErrDeadlock.
func (h zkLock) Reenter(context.Context) error {
	if err := h.lock.Lock(); !errors.Is(err, zk.ErrDeadlock) {
		return err
	}
	return ErrNone
}

func (h zkLock) Release(context.Context) error { return h.lock.Unlock() }
