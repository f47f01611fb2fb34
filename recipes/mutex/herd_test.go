package mutex_test

import (
	"testing"
	"testing/synctest"

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

// A thousand wait for one lock, in ten sessions: a release fires the watch of the next one in line and of
// nobody else, and costs the delete and, on the average, at most one request more.
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
		before, fired, all := watches(s), []watch(nil), 0
		require.LessOrEqual(t, len(before), 2*waiters)
		for i := range waiters {
			s.ResetCounts()
			require.Equal(t, line[i].Name, lock.Node(), "the order of the line")
			released, next := lock.Path(), owners[line[i+1].Name]
			release(t, lock)
			lock = <-done
			synctest.Wait()
			require.Empty(t, done, "one is granted")
			counts := s.Counts()
			require.Equal(t, 1, counts["delete"])
			require.LessOrEqual(t, counts["getChildren2"], 1, "of the next one")
			require.LessOrEqual(t, counts["getData"], 1, "of the one after it, if that is of the same client")
			require.LessOrEqual(t, sum(counts), 3, "%v", counts)
			all += sum(counts)
			fired = append(fired, watch{released, next})
			if i%100 != 99 {
				continue
			}
			// Each release has fired the watch of the next one, and of nobody else but the former holder, whose own
			// node it was.
			after := watches(s)
			for _, w := range fired {
				require.True(t, before[w] && !after[w])
				delete(before, w)
				delete(before, watch{w.path, owners[w.path[len(path)+1:]]})
			}
			for w := range after {
				own := w.session == owners[w.path[len(path)+1:]]
				require.True(t, own || before[w], "only the next one in line begins to watch, its own node")
				delete(before, w)
			}
			require.Empty(t, before)
			before, fired = after, nil
		}
		require.LessOrEqual(t, all, 2*waiters, "a list or a watch of the own node, not both")
		release(t, lock)
		clean(t, s, path)
	})
}
