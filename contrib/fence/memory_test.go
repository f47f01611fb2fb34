package fence_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/contrib/fence"
)

func TestMemory(t *testing.T) {
	ctx := t.Context()
	m := fence.NewMemory(10)
	require.NoError(t, m.Admit(ctx, "orders", 5))
	require.NoError(t, m.Admit(ctx, "orders", 5), "the same holder writes again")
	require.NoError(t, m.Admit(ctx, "orders", 7))
	err := m.Admit(ctx, "orders", 5)
	assert.ErrorIs(t, err, fence.ErrOutdated)
	var typed *fence.OutdatedError
	require.ErrorAs(t, err, &typed)
	assert.Equal(t, fence.OutdatedError{Resource: "orders", Token: 5, Newest: 7}, *typed)
	require.NoError(t, m.Admit(ctx, "stock", 5), "another resource")
	assert.ErrorIs(t, m.Admit(ctx, "", 5), fence.ErrBadArguments)
	ended, end := context.WithCancel(ctx)
	end()
	assert.ErrorIs(t, m.Admit(ended, "orders", 9), context.Canceled)
	require.NoError(t, m.Admit(ctx, "orders", 8), "9 was not noted")
}

func TestMemoryForgetsNothingThatMatters(t *testing.T) {
	ctx := t.Context()
	m := fence.NewMemory(2)
	require.NoError(t, m.Admit(ctx, "a", 10))
	require.NoError(t, m.Admit(ctx, "b", 20))
	require.NoError(t, m.Admit(ctx, "a", 11))
	require.NoError(t, m.Admit(ctx, "c", 30)) // b is forgotten
	require.NoError(t, m.Admit(ctx, "a", 11), "written to later than b")
	err := m.Admit(ctx, "b", 19)
	assert.ErrorIs(t, err, fence.ErrForgotten)
	assert.NotErrorIs(t, err, fence.ErrOutdated)
	assert.ErrorIs(t, m.Admit(ctx, "d", 19), fence.ErrForgotten, "it might be one that was forgotten")
	require.NoError(t, m.Admit(ctx, "b", 20), "the holder itself")
}

// However small it is, a Memory admits no token that an unlimited one would refuse.
func TestASmallMemoryIsAsSafeAsALargeOne(t *testing.T) {
	ctx := t.Context()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		small, large := fence.NewMemory(1+r.IntN(4)), fence.NewMemory(1000)
		for range 200 {
			resource, token := fmt.Sprint(r.IntN(8)), int64(1+r.IntN(40))
			if small.Admit(ctx, resource, token) == nil {
				require.NoError(t, large.Admit(ctx, resource, token), "seed %d", seed)
			}
		}
	}
}
