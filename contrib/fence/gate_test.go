package fence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/contrib/fence/fencetest"
)

func TestGateWaitsForOlderWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		g := fence.NewGate(fence.NewMemory(10))
		old, leave, err := g.Enter(ctx, "orders", 1)
		require.NoError(t, err)
		_, leaveToo, err := g.Enter(ctx, "orders", 1)
		require.NoError(t, err, "the same holder")
		_, other, err := g.Enter(ctx, "stock", 9)
		require.NoError(t, err, "another resource")
		other()

		entered := make(chan error)
		go func() {
			_, leave, err := g.Enter(ctx, "orders", 2)
			if err == nil {
				defer leave()
			}
			entered <- err
		}()
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(old), fence.ErrOutdated, "it is told")
		_, _, err = g.Enter(ctx, "orders", 1)
		assert.ErrorIs(t, err, fence.ErrOutdated, "although 2 has not entered yet")
		leave()
		leave() // once
		synctest.Wait()
		select {
		case <-entered:
			t.Fatal("one with an older token is inside")
		default:
		}
		leaveToo()
		require.NoError(t, <-entered)
		_, _, err = g.Enter(ctx, "orders", 1)
		assert.ErrorIs(t, err, fence.ErrOutdated, "the store knows")
	})
}

func TestGateWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fence.NewGate(fence.NewMemory(10))
		_, leave, err := g.Enter(t.Context(), "orders", 1)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		refused := make(chan error)
		go func() { // waits with token 2, until token 3 comes
			_, _, err := g.Enter(t.Context(), "orders", 2)
			refused <- err
		}()
		synctest.Wait()
		_, _, err = g.Enter(short, "orders", 3)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, <-refused, fence.ErrOutdated)
		leave()
		_, leave, err = g.Enter(t.Context(), "orders", 1)
		require.NoError(t, err, "3 has not entered, and nobody is there any more")
		leave()
	})
}

// store calls before, which fails or is slow, before each Admit.
type store struct {
	fence.Store
	before func(ctx context.Context, token int64) error
}

func (s store) Admit(ctx context.Context, resource string, token int64) error {
	if err := s.before(ctx, token); err != nil {
		return err
	}
	return s.Store.Admit(ctx, resource, token)
}

func TestGateAndItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		away := errors.New("the store is away")
		fails := away
		g := fence.NewGate(store{fence.NewMemory(10), func(ctx context.Context, token int64) error {
			if token == 1 { // slow, until the test continues
				<-ctx.Done()
				return ctx.Err()
			}
			return fails
		}})
		_, _, err := g.Enter(ctx, "orders", 2)
		assert.ErrorIs(t, err, away, "nobody is let in without the store")
		fails = nil
		_, _, err = g.Enter(ctx, "orders", 0)
		assert.ErrorIs(t, err, fence.ErrBadArguments)

		refused := make(chan error)
		go func() {
			_, _, err := g.Enter(ctx, "orders", 1)
			refused <- err
		}()
		synctest.Wait()
		_, leave, err := g.Enter(ctx, "orders", 2)
		require.NoError(t, err)
		leave()
		assert.ErrorIs(t, <-refused, fence.ErrOutdated)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _, err = g.Enter(short, "stock", 1)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// gated is a store whose writes are slow, behind a Gate or behind its Store alone.
type gated struct {
	gate  *fence.Gate
	check fence.Store

	mu   sync.Mutex
	logs map[string][]string
}

func (g *gated) Append(ctx context.Context, resource string, token int64, entry string) error {
	leave := func() {}
	var err error
	if g.gate != nil {
		_, leave, err = g.gate.Enter(ctx, resource, token)
	} else {
		err = g.check.Admit(ctx, resource, token)
	}
	if err != nil {
		return err
	}
	defer leave()
	for range rand.IntN(20) {
		runtime.Gosched()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.logs[resource] = append(g.logs[resource], entry)
	return nil
}

func (g *gated) Log(_ context.Context, resource string) ([]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.logs[resource], nil
}

type open struct{}

func (open) Admit(context.Context, string, int64) error { return nil }

func TestNoLateWriteGetsThroughAGate(t *testing.T) {
	fencetest.Run(t, &gated{gate: fence.NewGate(fence.NewMemory(1 << 20)), logs: map[string][]string{}})
	fencetest.Catches(t, &gated{check: open{}, logs: map[string][]string{}})
}
