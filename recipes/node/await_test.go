package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/zktest"
)

func await(t *testing.T, ctx context.Context, c *framework.Client) *recipetest.Call[*node.Claim] {
	t.Helper()
	return recipetest.Begin(t, func() (*node.Claim, error) { return node.AwaitClaim(ctx, c, path, []byte("waiter")) }).Waits()
}

// A waiter sends two requests, and a third, the create, after the release.
func TestAwaitClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		held := claim(t, c)
		time.Sleep(time.Second) // until a watch on its node is armed
		s.ResetCounts()
		awaited := await(t, background, other)
		counts(t, s, "waits", map[string]int{"create2": 1, "exists": 1})
		require.NoError(t, s.Set(path, []byte("renamed")))
		counts(t, s, "the node has changed: its holder reads it, too", map[string]int{"exists": 2})
		require.NoError(t, held.Release(background))
		counts(t, s, "granted", map[string]int{"exists": 1, "delete": 1, "create2": 1})
		next := awaited.OK()
		has(t, s, session(t, other), "waiter")
		assert.Greater(t, next.FencingToken(), held.FencingToken())
		require.NoError(t, next.Release(background))

		free, err := node.AwaitClaim(background, c, path, nil)
		require.NoError(t, err)
		require.NoError(t, free.Release(background))
		recipetest.Clean(t, s, "/services")
		recipetest.Tidy(t, c, other)
	})
}

// The name is claimed through the same client: the waiter needs no other node.
func TestAwaitClaimOfOneClient(t *testing.T) {
	for name, end := range map[string]func(*zktest.Server, *framework.Client, *node.Claim){
		"released": func(_ *zktest.Server, _ *framework.Client, held *node.Claim) { held.ReleaseInBackground() },
		"lost":     func(s *zktest.Server, c *framework.Client, _ *node.Claim) { s.Expire(session(t, c)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				c := newClient(t, s)
				held := claim(t, c)
				awaited := await(t, background, c)
				end(s, c, held)
				next := awaited.End().OK()
				assert.False(t, held.Valid())
				assert.True(t, next.Valid())
				require.NoError(t, next.Release(background))
				recipetest.Clean(t, s, "/services")
			})
		})
	}
}

// A waiter keeps waiting when its connection and its session are lost, and the holder's.
func TestAwaitClaimThroughOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		claim(t, c)
		awaited := await(t, background, other)
		s.Expire(session(t, other))
		time.Sleep(time.Minute)
		awaited.Waits()
		s.Stop()
		time.Sleep(5 * time.Minute)
		awaited.Waits()
		require.NoError(t, s.Start())
		require.True(t, awaited.End().OK().Valid())
		has(t, s, session(t, other), "waiter")
	})
}

// When a waiter's context ends, neither a node nor a watch is left.
func TestAwaitClaimGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c, other := newClient(t, s), newClient(t, s)
		held := claim(t, c)
		for _, client := range []*framework.Client{c, other} {
			ctx, cancel := context.WithCancel(background)
			awaited := await(t, ctx, client)
			cancel()
			_, err := awaited.Returned()
			require.ErrorIs(t, err, context.Canceled)
		}
		recipetest.Tidy(t, other)
		awaited := []*recipetest.Call[*node.Claim]{await(t, background, c), await(t, background, other)}
		require.NoError(t, other.Close())
		require.NoError(t, c.Close())
		for _, call := range awaited {
			<-call.Done
			require.ErrorIs(t, call.Err, framework.ErrClosed)
		}
		require.ErrorIs(t, context.Cause(held.Context()), framework.ErrClosed)
		assert.False(t, s.Exists(path))
	})
}

// If there was never a connection, the retry policy ends the call, as with TryClaim.
func TestAwaitClaimWithoutAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		s.Stop()
		time.Sleep(time.Minute)
		_, err := node.AwaitClaim(background, c, path, nil)
		require.ErrorIs(t, err, framework.ErrNotConnected)
	})
}

// The call returns immediately, even in an outage, and the callback gets Release's error.
func TestClaimReleasedInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		results := make(chan error, 1)
		report := func(err error) { results <- err }
		s.Delay(0, time.Second)
		held, began := claim(t, c), time.Now()
		held.ReleaseInBackground(nil, report)
		assert.Zero(t, time.Since(began))
		require.ErrorIs(t, context.Cause(held.Context()), node.ErrReleased)
		require.NoError(t, <-results)
		assert.False(t, s.Exists(path))
		held.ReleaseInBackground(report)
		require.ErrorIs(t, <-results, node.ErrReleased)

		held = claim(t, c)
		s.Stop()
		held.ReleaseInBackground(report)
		time.Sleep(2 * time.Second)
		assert.Empty(t, results)
		require.NoError(t, s.Start())
		require.NoError(t, <-results)
		assert.False(t, s.Exists(path))

		held = claim(t, c)
		s.Expire(session(t, c))
		<-held.Context().Done()
		held.ReleaseInBackground(report)
		require.ErrorIs(t, <-results, node.ErrSessionLost)

		claim(t, c).ReleaseInBackground(report)
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-results, framework.ErrClosed)
		assert.False(t, s.Exists(path))
	})
}
