// Package redistest has the tests that the fence has to pass on each server: in this module one in memory, in
// contrib/fence/integration real ones.
package redistest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/contrib/fence/fencetest"
	fenceredis "github.com/go-curator/curator/contrib/fence/redis"
)

// Run runs all tests. The client's server must be empty.
func Run(t *testing.T, client redis.UniversalClient) {
	t.Run("LateWrite", func(t *testing.T) { lateWrite(t, client) })
	t.Run("Scripts", func(t *testing.T) { scripts(t, client) })
	t.Run("Schedules", func(t *testing.T) {
		fencetest.Run(t, &logs{fences: fenceredis.New(client), client: client})
		fencetest.Catches(t, &logs{client: client})
	})
}

func lateWrite(t *testing.T, client redis.UniversalClient) {
	ctx := t.Context()
	f, key := fenceredis.New(client), fenceredis.Key("orders", "total")
	require.NoError(t, f.Set(ctx, "orders", 9, key, "first", 0))
	require.NoError(t, f.Set(ctx, "orders", 10, key, "second", 0), "9 and 10 have not the same number of digits")
	require.NoError(t, f.Set(ctx, "orders", 10, key, "third", 0), "the same holder")
	err := f.Set(ctx, "orders", 9, key, "late", 0)
	var outdated *fence.OutdatedError
	require.ErrorAs(t, err, &outdated)
	assert.Equal(t, fence.OutdatedError{Resource: "orders", Token: 9, Newest: 10}, *outdated)
	value, err := client.Get(ctx, key).Result()
	require.NoError(t, err)
	assert.Equal(t, "third", value)
	require.NoError(t, f.Admit(ctx, "stock", 9), "another resource")

	require.NoError(t, f.Set(ctx, "orders", 1<<62, key, "large", time.Hour))
	assert.ErrorIs(t, f.Set(ctx, "orders", 1<<62-1, key, "late", 0), fence.ErrOutdated, "every digit counts")
	left, err := client.PTTL(ctx, key).Result()
	require.NoError(t, err)
	assert.Greater(t, left, time.Minute)
	assert.ErrorIs(t, f.Del(ctx, "orders", 3, key), fence.ErrOutdated)
	require.NoError(t, f.Del(ctx, "orders", 1<<62, key))
	assert.ErrorIs(t, f.Admit(ctx, "orders", 3), fence.ErrOutdated, "the token is kept")
	require.NoError(t, fenceredis.New(client, fenceredis.WithPrefix("other:")).Admit(ctx, "orders", 3))
}

func scripts(t *testing.T, client redis.UniversalClient) {
	ctx := t.Context()
	f := fenceredis.New(client)
	a, b := fenceredis.Key("script", "a"), fenceredis.Key("script", "b")
	add := fenceredis.NewScript(`redis.call('INCRBY', KEYS[1], ARGV[1]) -- a comment
return {redis.call('INCRBY', KEYS[2], ARGV[2]), #KEYS, #ARGV}`)
	got, err := f.Run(ctx, "script", 5, add, []string{a, b}, 2, 3)
	require.NoError(t, err)
	assert.Equal(t, []any{int64(3), int64(2), int64(2)}, got)
	_, err = f.Run(ctx, "script", 4, add, []string{a, b}, 2, 3)
	assert.ErrorIs(t, err, fence.ErrOutdated)
	n, err := client.Get(ctx, a).Int()
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	_, err = f.Run(ctx, "script", 5, fenceredis.NewScript(`return redis.call('GET', KEYS[1])`), []string{fenceredis.Key("script", "none")})
	assert.ErrorIs(t, err, redis.Nil)
	_, err = f.Run(ctx, "script", 5, fenceredis.NewScript(`return redis.call('INCRBY', KEYS[1], 'x')`), []string{a})
	assert.ErrorContains(t, err, "integer")
}

// logs is a fencetest.Store whose logs are lists. If fences is nil, it writes without a fence.
type logs struct {
	fences *fenceredis.Fence
	client redis.UniversalClient
	once   sync.Once
	push   *fenceredis.Script
}

func (l *logs) Append(ctx context.Context, resource string, token int64, entry string) error {
	l.once.Do(func() { l.push = fenceredis.NewScript(`return redis.call('RPUSH', KEYS[1], ARGV[1])`) })
	key := fenceredis.Key(resource, "log")
	if l.fences == nil {
		return l.client.RPush(ctx, key, entry).Err()
	}
	_, err := l.fences.Run(ctx, resource, token, l.push, []string{key}, entry)
	return err
}

func (l *logs) Log(ctx context.Context, resource string) ([]string, error) {
	return l.client.LRange(ctx, fenceredis.Key(resource, "log"), 0, -1).Result()
}
