package line_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
)

// Zero recipes and caches, and those with a nil or zero client, return an error.
func TestWhatNobodyHasMade(t *testing.T) {
	ctx := context.Background()
	first := func(_ any, err error) error { return err }
	f := func(context.Context) error { return nil }
	for name, err := range map[string]error{
		"mutex":              first((&mutex.Mutex{}).Acquire(ctx)),
		"mutex try":          first((&mutex.Mutex{}).TryAcquire(ctx)),
		"mutex do":           (&mutex.Mutex{}).Do(ctx, f),
		"mutex line":         first((&mutex.Mutex{}).Participants(ctx)),
		"multi":              first((&mutex.Multi{}).Acquire(ctx)),
		"read":               first((&rwlock.RWLock{}).ReadLock().Acquire(ctx)),
		"write":              first((&rwlock.RWLock{}).WriteLock().TryAcquire(ctx)),
		"side":               first((&rwlock.Side{}).Acquire(ctx)),
		"readers":            first((&rwlock.Readers{}).Acquire(ctx)),
		"side line":          first((&rwlock.Side{}).Participants(ctx)),
		"rw holders":         first((&rwlock.RWLock{}).Holders(ctx)),
		"semaphore":          first((&semaphore.Semaphore{}).Acquire(ctx, 1)),
		"semaphore do":       (&semaphore.Semaphore{}).Do(ctx, 1, f),
		"semaphore mutex":    first((&semaphore.Mutex{}).Acquire(ctx)),
		"count":              first((&semaphore.Count{}).Get(ctx)),
		"barrier":            (&barrier.Barrier{}).Wait(ctx),
		"double":             first((&barrier.Double{}).Enter(ctx)),
		"latch":              first((&leader.Latch{}).Await(ctx)),
		"latch leaves":       (&leader.Latch{}).Leave(ctx, leader.Silent),
		"latch closes":       (&leader.Latch{}).Close(),
		"latch line":         first((&leader.Latch{}).Participants(ctx)),
		"selector":           (&leader.Selector{}).Run(ctx),
		"selector line":      first((&leader.Selector{}).Participants(ctx)),
		"nil for a selector": leader.NewSelector(nil, "/s", f).RunOnce(ctx),
		"cache":              (&cache.Cache{}).WaitSynced(ctx),
		"children":           (&cache.PathChildren{}).WaitSynced(ctx),
		"single":             (&cache.Single{}).WaitSynced(ctx),
		"zero client":        first(mutex.New(&framework.Client{}, "/m").Acquire(ctx)),
		"nil client":         first(mutex.New(nil, "/m").Acquire(ctx)),
		"nil for a latch":    first(leader.NewLatch(nil, "/l")),
		"zero for a latch":   first(leader.NewLatch(&framework.Client{}, "/l")),
		"zero for a cache":   first(cache.NewTree(&framework.Client{}, "/c")),
		"zero for a count":   first(semaphore.NewCount(&framework.Client{}, "/c").Get(ctx)),
	} {
		require.ErrorIs(t, err, framework.ErrNoClient, name)
	}
	for _, err := range (&cache.Cache{}).Events(ctx) {
		require.ErrorIs(t, err, framework.ErrNoClient)
	}
	for _, err := range leader.Observe(ctx, nil, "/l") {
		require.ErrorIs(t, err, framework.ErrNoClient)
	}
	require.False(t, (&leader.Latch{}).HasLeadership())
	_ = (&leader.Latch{}).Health()
	_ = (&leader.Selector{}).Health()
	require.Nil(t, (&leader.Selector{}).Term())
	require.Zero(t, (&cache.Cache{}).Len())
	require.NoError(t, (&cache.Cache{}).Close())
}
