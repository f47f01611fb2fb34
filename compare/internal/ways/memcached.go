package ways

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// unique is a value that no other hold has.
func unique(id string) string { return id + " " + rand.Text() }

// memcached is add, which fails if the key is there.
type memcached struct {
	client *memcache.Client
	config Config
}

func openMemcached(_ context.Context, c Config) (Way, error) {
	client := memcache.New(c.Servers[0])
	if err := client.Ping(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &memcached{client, c}, nil
}

func (w *memcached) Acquire(ctx context.Context) (Hold, error) { return poll(ctx, w.Try) }

func (w *memcached) Try(context.Context) (Hold, error) {
	err := w.client.Add(&memcache.Item{Key: name, Value: []byte(w.config.ID), Expiration: int32(w.config.Lease / time.Second)})
	if errors.Is(err, memcache.ErrNotStored) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, err
	}
	return untold{func(context.Context) error { return w.client.Delete(name) }}, nil
}

func (w *memcached) Close() error { return w.client.Close() }
