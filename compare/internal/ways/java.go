package ways

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/compare/internal/bed"
	"github.com/go-curator/curator/integration/javapeer"
)

// java is Curator for Java: a separate process, which executes this one's commands. It is in the process group of
// this one: a signal that stops or kills the group stops or kills both.
type java struct {
	bed  *bed.Bed
	peer *javapeer.Peer
	lock *javapeer.Lock
}

func openJava(ctx context.Context, c Config) (Way, error) {
	w := &java{bed: bed.New(c.Dir)}
	err := w.bed.Try(func() { w.peer = javapeer.Start(w.bed) })
	if err == nil {
		err = w.peer.Connect(ctx, strings.Join(c.Servers, ","), c.Lease)
	}
	if err == nil {
		w.lock, err = w.peer.Mutex(ctx, name, "/locks/"+name)
	}
	if err != nil {
		return nil, errors.Join(err, w.bed.End())
	}
	return w, nil
}

func (w *java) Acquire(ctx context.Context) (Hold, error) { return w.ask(ctx, javapeer.Forever) }

func (w *java) Try(ctx context.Context) (Hold, error) { return w.ask(ctx, 0) }

// Clock implements Clocked.
func (w *java) Clock(ctx context.Context) (time.Time, error) { return w.peer.Clock(ctx) }

func (w *java) ask(ctx context.Context, limit time.Duration) (Hold, error) {
	seen := len(w.peer.Events())
	_, err := w.lock.Acquire(ctx, limit)
	if errors.Is(err, javapeer.ErrTimeout) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, err
	}
	h := &javaLock{way: w}
	watching, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.watcher.Go(func() {
		event, _, err := w.peer.AwaitEvent(watching, seen, func(e javapeer.Event) bool {
			return e.Name == "state" && len(e.Words) == 1 && (e.Words[0] == "SUSPENDED" || e.Words[0] == "LOST")
		})
		if err == nil {
			h.lost.Store(fmt.Errorf("the connection is %s", event.Words[0]))
		}
	})
	return h, nil
}

func (w *java) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(w.peer.Quit(ctx), w.bed.End())
}

type javaLock struct {
	way     *java
	watcher sync.WaitGroup
	stop    context.CancelFunc
	lost    atomic.Value
}

func (h *javaLock) Lost() error {
	err, _ := h.lost.Load().(error)
	return err
}

func (h *javaLock) Reenter(ctx context.Context) error {
	if _, err := h.way.lock.Acquire(ctx, 0); err != nil {
		return err
	}
	return h.way.lock.Release(ctx)
}

func (h *javaLock) Release(ctx context.Context) error {
	h.stop()
	h.watcher.Wait()
	return h.way.lock.Release(ctx)
}
