package semaphore_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// A thousand callers arrive at the same time, each with its own semaphore, in ten sessions: those of a client share their lists
// of the leases and of the line. Only a node and a watch are needed for each caller.
func TestThousandCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, sessions = 1000, 10
		s := zktest.RunT(t)
		for _, dir := range []string{locks, leases} {
			require.NoError(t, s.Create(dir, nil))
		}
		holder := acquire(t, semaphore.New(newClient(t, s), path, 1), 1)
		clients := make([]*framework.Client, sessions)
		for i := range clients {
			clients[i] = newClient(t, s)
		}
		synctest.Wait()
		s.Delay(0, 10*time.Millisecond)
		s.ResetCounts()
		ctx, cancel := context.WithCancel(background)
		var all []*call
		for i := range callers {
			all = append(all, begin(t, ctx, semaphore.New(clients[i%sessions], path, 1), 1))
		}
		time.Sleep(time.Second)
		got := s.Counts()
		assert.Equal(t, callers, got["create2"])
		// Four callers of a client list for themselves; the others share one or two lists.
		assert.LessOrEqual(t, got["sync"], 6*sessions)
		assert.LessOrEqual(t, got["exists"], 6*sessions)
		assert.LessOrEqual(t, got["getChildren2"], 9*sessions+1) // the leases and the line; the first in the line lists again
		assert.LessOrEqual(t, got["getData"], callers)
		cancel()
		for _, c := range all {
			require.ErrorIs(t, c.End().Err, context.Canceled)
		}
		s.Delay(0, 0)
		time.Sleep(time.Second)
		release(t, holder)
		clean(t, s)
	})
}

// The first callers list for themselves, and later ones share a list. If the context of one ends, the others still get their
// leases, whichever of them was to send the list.
func TestCallersThatLookTogetherGiveUpAlone(t *testing.T) {
	for who := range 7 {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			for _, dir := range []string{locks, leases} {
				require.NoError(t, s.Create(dir, nil))
			}
			sem := semaphore.New(newClient(t, s), path, 7)
			synctest.Wait()
			s.Delay(0, time.Second)
			ctx, cancel := context.WithCancel(background)
			var all [7]*call
			for i := range all {
				of := background
				if i == who {
					of = ctx
				}
				all[i] = begin(t, of, sem, 1).Waits()
			}
			cancel()
			synctest.Wait()
			_, err := all[who].Returned()
			require.ErrorIs(t, err, context.Canceled, "at once")
			time.Sleep(10 * time.Second)
			s.Delay(0, 0)
			for i, c := range all {
				if i != who {
					release(t, c.OK())
				}
			}
			clean(t, s)
		})
	}
}

// Callers that give up before the reply of a slow or disconnected server leave no requests behind for it to serve.
func TestImpatientCallersAtASlowServer(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			for _, dir := range []string{locks, leases} {
				require.NoError(t, s.Create(dir, nil))
			}
			c := newClient(t, s)
			synctest.Wait()
			s.Delay(0, 3*time.Second)
			if away {
				s.Pause()
				s.Cut(0)
			}
			s.ResetCounts()
			most := 0
			for range 200 {
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
						defer cancel()
						_, err := semaphore.New(c, path, 1).Acquire(ctx, 1)
						assert.ErrorIs(t, err, context.DeadlineExceeded)
					})
				}
				all.Wait()
				h := c.Health()
				most = max(most, h.Queued+h.InFlight)
			}
			assert.LessOrEqual(t, most, 100, "requests of 20 callers at a time")
			s.Delay(0, 0)
			if away {
				s.Resume()
			}
			time.Sleep(time.Minute)
			assert.LessOrEqual(t, s.Counts()["sync"], 50, "of 4000 callers: %v", s.Counts())
			clean(t, s)
		})
	}
}
