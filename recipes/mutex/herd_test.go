package mutex_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// watch is a watch on the server.
type watch struct {
	path    string
	session int64
}

func watches(s *zktest.Server) map[watch]bool {
	all := map[watch]bool{}
	for _, w := range s.Watches() {
		all[watch{w.Path, w.Session}] = true
	}
	return all
}

// A thousand contenders wait for one lock, in ten sessions: a release fires only the next waiter's watches, and costs one
// request.
func TestThousandWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters, sessions = 1000, 10
		s := zktest.RunT(t)
		clients := make([]*framework.Client, sessions)
		for i := range clients {
			clients[i] = newClient(t, s)
		}
		lock := acquire(t, mutex.New(clients[0], path))
		done := make(chan *mutex.Lock, waiters)
		owners := map[string]int64{}
		for i := range waiters {
			c := clients[i%sessions]
			go func() {
				lock, err := mutex.New(c, path).Acquire(background)
				assert.NoError(t, err)
				done <- lock
			}()
		}
		synctest.Wait()
		line, err := mutex.New(clients[0], path).Participants(background)
		require.NoError(t, err)
		require.Len(t, line, waiters+1)
		for _, p := range line {
			owners[p.Name] = p.SessionID
		}
		before, fired := watches(s), []watch(nil)
		require.LessOrEqual(t, len(before), 3*waiters)
		for i := range waiters {
			s.ResetCounts()
			require.Equal(t, line[i].Name, lock.Node(), "the order of the line")
			released, next := lock.Path(), owners[line[i+1].Name]
			release(t, lock)
			lock = <-done
			synctest.Wait()
			require.Empty(t, done, "one is granted")
			want := map[string]int{"multi": 1}
			fired = append(fired, watch{released, next}, watch{released + "-released", next})
			if i == 0 { // it has not waited, so no waiter relies on its mark
				want, fired = map[string]int{"delete": 1}, fired[:1]
			}
			require.Equal(t, want, s.Counts())
			if i%100 != 99 {
				continue
			}
			// Each release has fired only the watches of the next waiter and the former holder's watch on its own node.
			after := watches(s)
			for _, w := range fired {
				require.True(t, before[w] && !after[w])
				delete(before, w)
				delete(before, watch{w.path, owners[w.path[len(path)+1:]]})
			}
			require.Equal(t, before, after)
			before, fired = after, nil
		}
		release(t, lock)
		clean(t, s, path)
	})
}

// Newcomers whose contexts end together, at any moment of joining the line, cause no extra lists.
func TestNewcomersThatGiveUpTogether(t *testing.T) {
	for _, after := range []time.Duration{0, 5, 15, 25, 35} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.RunT(t)
			c := newClient(t, s)
			lock := acquire(t, mutex.New(c, path))
			synctest.Wait()
			s.Delay(0, 10*time.Millisecond)
			s.ResetCounts()
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			const n = 300
			done := make(chan error, n)
			for range n {
				go func() {
					_, err := mutex.New(c, path).Acquire(ctx)
					done <- err
				}()
			}
			time.Sleep(after * time.Millisecond)
			cancel()
			for range n {
				require.ErrorIs(t, <-done, context.Canceled)
			}
			time.Sleep(time.Second)
			assert.LessOrEqual(t, s.Counts()["getChildren2"], 3, "after %d ms", after)
			s.Delay(0, 0)
			release(t, lock)
			clean(t, s, path)
		})
	}
}

// Waiters that arrive one after the other list the line each. They keep no names while they wait.
func TestAWaiterKeepsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		lock := acquire(t, mutex.New(c, path))
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		done := make(chan error, 1000)
		come := func(n int) (each uint64) {
			before := live()
			for range n {
				go func() {
					_, err := mutex.New(c, path).Acquire(ctx)
					done <- err
				}()
				synctest.Wait()
			}
			return (live() - before) / uint64(n)
		}
		first, next := come(500), come(500)
		t.Logf("%d and %d bytes for each, with what the server has", first, next)
		assert.Less(t, next, first+8_000, "the longer the line, the more each keeps")
		cancel()
		for range 1000 {
			require.ErrorIs(t, <-done, context.Canceled)
		}
		release(t, lock)
		clean(t, s, path)
	})
}

// live returns the number of heap bytes in use.
func live() uint64 {
	synctest.Wait()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Callers that give up before a slow server replies leave no requests behind for it to serve.
func TestImpatientCallersAtASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		require.NoError(t, s.Create(path, nil))
		c := newClient(t, s)
		synctest.Wait()
		s.Delay(0, 3*time.Second)
		s.ResetCounts()
		for range 200 {
			impatient(20, func(ctx context.Context) error {
				_, err := mutex.New(c, path).Acquire(ctx)
				return err
			})
		}
		s.Delay(0, 0)
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, s.Counts()["getChildren2"], 50, "of 4000 callers: %v", s.Counts())
		clean(t, s, path)
	})
}

// impatient runs n calls at the same time whose contexts end soon.
func impatient(n int, call func(context.Context) error) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
			defer cancel()
			_ = call(ctx)
		})
	}
	all.Wait()
}
