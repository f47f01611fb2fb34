package inspect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// followed starts FollowWho, and returns its lines and its error.
func followed(t *testing.T, ctx context.Context, c *framework.Client, path string) (seen <-chan inspect.Line, end <-chan error) {
	lines, ended := make(chan inspect.Line, 1000), make(chan error, 1)
	go func() {
		for line, err := range inspect.FollowWho(ctx, c, path) {
			if err != nil {
				ended <- err
				return
			}
			lines <- line
		}
	}()
	return lines, ended
}

// last returns the latest line, once no more lines come.
func last(t *testing.T, seen <-chan inspect.Line) (line inspect.Line) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	require.NotEmpty(t, seen, "nothing new was seen")
	for len(seen) > 0 {
		line = <-seen
	}
	return line
}

func TestFollowWho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		watcher, holder, waiter := newClient(t, s), newClient(t, s), newClient(t, s)
		ctx, cancel := context.WithCancel(background)
		seen, end := followed(t, ctx, watcher, "/locks/a")
		assert.Equal(t, inspect.Nothing, last(t, seen).Kind)

		lock, err := mutex.New(holder, "/locks/a").Acquire(background)
		require.NoError(t, err)
		assert.Len(t, last(t, seen).Holders, 1)
		wait(t, func(ctx context.Context) {
			if next, err := mutex.New(waiter, "/locks/a").Acquire(ctx); err == nil {
				<-ctx.Done()
				_ = next.Release(background)
			}
		})
		assert.Len(t, last(t, seen).Waiting, 1)

		s.ResetCounts()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Empty(t, seen, "nothing changes")
		for op, n := range requests(s) {
			t.Errorf("%d %s without a change", n, op)
		}

		require.NoError(t, mutex.Revoke(background, watcher, lock.Path()))
		assert.True(t, last(t, seen).Holders[0].Revoked)
		require.NoError(t, lock.Release(background))
		line := last(t, seen)
		assert.Equal(t, session(t, waiter), line.Holders[0].Session)
		assert.Empty(t, line.Waiting)

		s.Stop() // changes during that time are seen afterwards
		time.Sleep(5 * time.Second)
		require.NoError(t, s.Start())
		for _, c := range []*framework.Client{watcher, holder, waiter} {
			require.NoError(t, c.WaitConnected(background))
		}
		require.NoError(t, s.Delete("/locks/a/"+line.Holders[0].Name))
		assert.Empty(t, last(t, seen).Holders)

		cancel()
		assert.ErrorIs(t, <-end, context.Canceled)
		synctest.Wait()
		s.ResetCounts()
		require.NoError(t, s.Create("/locks/a/"+numbered("lock-", 9), nil))
		time.Sleep(time.Second)
		for op := range requests(s) {
			t.Errorf("%s after the end", op)
		}
	})
}

// A line that changes a hundred times a second is read ten times a second, and its last state is seen.
func TestFollowIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		seen, _ := followed(t, ctx, c, "/locks")
		last(t, seen)
		for i := range 300 {
			require.NoError(t, s.Create("/locks/"+numbered("lock-", i), nil))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.LessOrEqual(t, len(seen), 40)
		var line inspect.Line
		for len(seen) > 0 {
			line = <-seen
		}
		assert.Len(t, line.Waiting, 299)
	})
}

func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		seen, end := followed(t, background, c, "/locks")
		last(t, seen)
		require.NoError(t, c.Close())
		assert.ErrorIs(t, <-end, framework.ErrClosed)

		c = newClient(t, s)
		for _, err := range inspect.FollowWho(background, c, "locks") {
			assert.ErrorIs(t, err, framework.ErrInvalidPath)
		}
		for _, err := range inspect.FollowWho(background, nil, "/locks") {
			assert.ErrorIs(t, err, framework.ErrNoClient)
		}
		n := 0
		for _, err := range inspect.FollowLocks(background, c, "/nowhere") {
			assert.ErrorIs(t, err, framework.ErrNoNode)
			n++
		}
		assert.Equal(t, 1, n)
		require.NoError(t, s.Create("/locks/a/"+numbered("lock-", 0), nil))
		for found, err := range inspect.FollowLocks(background, c, "/locks") {
			require.NoError(t, err)
			assert.Empty(t, found.Lines, "without a session nobody stands there")
			break
		}
	})
}
