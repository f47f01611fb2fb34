package ways

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"
)

// redisWay is a lock in one Redis.
type redisWay struct {
	client *goredis9.Client
	config Config
	take   func(ctx context.Context, w *redisWay) (Hold, error)
}

func openRedis(take func(context.Context, *redisWay) (Hold, error)) func(context.Context, Config) (Way, error) {
	return func(ctx context.Context, c Config) (Way, error) {
		client := goredis9.NewClient(&goredis9.Options{Addr: c.Servers[0]})
		if err := client.Ping(ctx).Err(); err != nil {
			return nil, errors.Join(err, client.Close())
		}
		return &redisWay{client, c, take}, nil
	}
}

func (w *redisWay) Acquire(ctx context.Context) (Hold, error) { return poll(ctx, w.Try) }
func (w *redisWay) Try(ctx context.Context) (Hold, error)     { return w.take(ctx, w) }
func (w *redisWay) Close() error                              { return w.client.Close() }

// twoCommands is the oldest recipe: SETNX, then EXPIRE, and DEL.
func twoCommands(ctx context.Context, w *redisWay) (Hold, error) {
	ok, err := w.client.SetNX(ctx, name, w.config.ID, 0).Result()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrHeld
	}
	if err := w.client.Expire(ctx, name, w.config.Lease).Err(); err != nil {
		return nil, err
	}
	return untold{func(ctx context.Context) error { return w.client.Del(ctx, name).Err() }}, nil
}

// releaseIfMine is the script of Redis's own documents.
var releaseIfMine = goredis9.NewScript(
	`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)

var errGone = errors.New("the lock was not this holder's any more")

// oneCommand is SET NX PX with a value that is unique, and the script.
func oneCommand(ctx context.Context, w *redisWay) (Hold, error) {
	value := unique(w.config.ID)
	ok, err := w.client.SetNX(ctx, name, value, w.config.Lease).Result()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrHeld
	}
	return untold{func(ctx context.Context) error {
		n, err := releaseIfMine.Run(ctx, w.client, []string{name}, value).Int()
		if err == nil && n == 0 {
			return errGone
		}
		return err
	}}, nil
}

// watchdog is redislock with a goroutine that refreshes, which the library leaves to its user.
type watchdog struct {
	client *goredis9.Client
	locker *redislock.Client
	config Config
}

func openWatchdog(ctx context.Context, c Config) (Way, error) {
	client := goredis9.NewClient(&goredis9.Options{Addr: c.Servers[0]})
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &watchdog{client, redislock.New(client), c}, nil
}

func (w *watchdog) Acquire(ctx context.Context) (Hold, error) { return poll(ctx, w.Try) }

func (w *watchdog) Try(ctx context.Context) (Hold, error) {
	began := time.Now()
	lock, err := w.locker.Obtain(ctx, name, w.config.Lease, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.Background())
	h := &watched{lock: lock, stop: stop}
	h.dog.Go(func() { h.watch(watching, w.config.Lease, began) })
	return h, nil
}

func (w *watchdog) Close() error { return w.client.Close() }

type watched struct {
	lock *redislock.Lock
	stop context.CancelFunc
	dog  sync.WaitGroup

	mu   sync.Mutex
	lost error
}

func (h *watched) watch(ctx context.Context, lease time.Duration, renewed time.Time) {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		once, cancel := context.WithTimeout(ctx, lease/3)
		err := h.lock.Refresh(once, lease, nil)
		cancel()
		switch {
		case err == nil:
			renewed = asked
		case errors.Is(err, redislock.ErrNotObtained) || time.Since(renewed) > lease:
			h.mu.Lock()
			h.lost = err
			h.mu.Unlock()
			return
		}
	}
}

func (h *watched) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

func (h *watched) Reenter(context.Context) error { return ErrNone }

func (h *watched) Release(ctx context.Context) error {
	h.stop()
	h.dog.Wait()
	return h.lock.Release(ctx)
}

// redlock is redsync over several servers.
type redlock struct {
	clients []*goredis9.Client
	redsync *redsync.Redsync
	lease   time.Duration
}

func openRedsync(ctx context.Context, c Config) (Way, error) {
	w := &redlock{lease: c.Lease}
	var pools []redis.Pool
	for _, addr := range c.Servers {
		client := goredis9.NewClient(&goredis9.Options{Addr: addr})
		w.clients = append(w.clients, client)
		pools = append(pools, goredis.NewPool(client))
		if err := client.Ping(ctx).Err(); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	w.redsync = redsync.New(pools...)
	return w, nil
}

func (w *redlock) Acquire(ctx context.Context) (Hold, error) {
	mutex := w.redsync.NewMutex(name, redsync.WithExpiry(w.lease))
	for {
		err := mutex.LockContext(ctx) // 32 tries, with its own pauses
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue
		}
		return redlocked(mutex, err)
	}
}

func (w *redlock) Try(ctx context.Context) (Hold, error) {
	mutex := w.redsync.NewMutex(name, redsync.WithExpiry(w.lease))
	err := mutex.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return nil, ErrHeld
	}
	return redlocked(mutex, err)
}

func redlocked(mutex *redsync.Mutex, err error) (Hold, error) {
	if err != nil {
		return nil, err
	}
	return untold{func(ctx context.Context) error {
		ok, err := mutex.UnlockContext(ctx)
		if err == nil && !ok {
			return errGone
		}
		return err
	}}, nil
}

func (w *redlock) Close() (err error) {
	for _, client := range w.clients {
		err = errors.Join(err, client.Close())
	}
	return err
}
