package ways

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// Those that need no more than a ZooKeeper are tried with the one in this process; the others by compare run,
// which makes their servers.
func TestOnZooKeeper(t *testing.T) {
	for _, id := range []string{"curator", "curator-guard", "curator-fenced", "go-zookeeper"} {
		t.Run(id, func(t *testing.T) {
			kind, err := Find(id)
			require.NoError(t, err)
			server := zktest.RunT(t, zktest.Config{Listen: "127.0.0.1:0"})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := Config{Servers: []string{server.Addr()}, Lease: 10 * time.Second, ID: "a", Store: miniredis.RunT(t).Addr()}
			first, err := kind.Open(ctx, c)
			require.NoError(t, err)
			second, err := kind.Open(ctx, c)
			require.NoError(t, err)

			hold, err := first.Acquire(ctx)
			require.NoError(t, err)
			require.NoError(t, hold.Lost())
			_, err = second.Try(ctx)
			if id == "go-zookeeper" {
				require.ErrorIs(t, err, ErrNone)
				assert.ErrorIs(t, hold.Reenter(ctx), ErrNone)
			} else {
				require.ErrorIs(t, err, ErrHeld)
				assert.NoError(t, hold.Reenter(ctx))
				require.NoError(t, hold.Lost(), "after the re-entry")
			}
			last := int64(0)
			guarded, isGuarded := hold.(Guarded)
			assert.Equal(t, id == "curator-guard" || id == "curator-fenced", isGuarded)
			for range 3 {
				if isGuarded {
					order, err := guarded.Act(ctx)
					require.NoError(t, err)
					assert.Greater(t, order, last)
					last = order
				}
			}
			require.NoError(t, hold.Release(ctx))
			next, err := second.Acquire(ctx)
			require.NoError(t, err)
			if isGuarded {
				_, err = next.(Guarded).Act(ctx)
				require.NoError(t, err)
				_, err := guarded.Act(ctx)
				assert.Error(t, err, "a late act is refused")
			}
			require.NoError(t, next.Release(ctx))
			require.NoError(t, first.Close())
			require.NoError(t, second.Close())
		})
	}
}

func TestEachWayIsDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range All {
		assert.False(t, seen[k.ID], k.ID)
		seen[k.ID] = true
		assert.NotEmpty(t, k.Title)
		assert.NotEmpty(t, k.Use, k.ID)
		assert.NotEmpty(t, k.Has.Source, k.ID)
		assert.NotNil(t, k.Open, k.ID)
	}
	_, err := Find("none")
	assert.ErrorContains(t, err, "there is no way")
}

func TestPollEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	_, err := poll(ctx, func(context.Context) (Hold, error) {
		if asked++; asked == 2 {
			cancel()
		}
		return nil, ErrHeld
	})
	assert.ErrorIs(t, err, context.Canceled)
	other := errors.New("no server")
	_, err = poll(t.Context(), func(context.Context) (Hold, error) { return nil, other })
	assert.ErrorIs(t, err, other)
}
