package curatorprom_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curatorprom "github.com/go-curator/curator/contrib/prometheus"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// now returns the lines of the longest waits and the oldest holds at this moment.
func now(t *testing.T, c *curatorprom.Collector) []string {
	t.Helper()
	lines := []string{}
	for line := range strings.Lines(exposed(t, c, "curator_longest_wait_seconds", "curator_oldest_hold_seconds")) {
		if line[0] != '#' {
			lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "curator_"))
		}
	}
	return lines
}

// acquiring acquires a lock, keeps it for some time, and releases it.
func acquiring(t *testing.T, m *mutex.Mutex, wait, keep time.Duration) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		lock, err := m.Acquire(ctx)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, framework.ErrClosed) {
			return
		}
		if assert.NoError(t, err) {
			select {
			case <-time.After(keep):
			case <-lock.Context().Done():
			}
			_ = lock.Release(context.Background())
		}
	}()
	synctest.Wait()
}

// A lock that moves does not hide a lock that is stuck. Waits and holds that have ended leave no series.
func TestTheLongestWaitAndTheOldestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := zktest.RunT(t), curatorprom.NewCollector()
		one, two := client(t, s, c, "one"), client(t, s, c, "two")
		assert.Empty(t, now(t, c))
		stuck, err := mutex.New(one, "/locks/stuck").Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		acquiring(t, mutex.New(two, "/locks/stuck"), time.Hour, time.Minute)
		for range 10 {
			acquiring(t, mutex.New(two, "/locks/moves"), time.Hour, time.Minute)
		}
		time.Sleep(20*time.Minute + time.Second)
		assert.Equal(t, []string{
			`longest_wait_seconds{client="two",recipe="mutex"} 1201`,
			`oldest_hold_seconds{client="one",recipe="mutex"} 1261`,
		}, now(t, c))
		require.NoError(t, stuck.Release(t.Context()))
		time.Sleep(time.Second)
		assert.Equal(t, []string{`oldest_hold_seconds{client="two",recipe="mutex"} 1`}, now(t, c))
		time.Sleep(time.Hour)
		assert.Empty(t, now(t, c))
	})
}

// The wait for a place in line counts from the place's first wait, whatever contenders ahead leave; another place is
// another wait.
func TestALongestWaitIsThatOfAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := zktest.RunT(t), curatorprom.NewCollector(curatorprom.WithPaths(func(path string) string { return path }))
		one, two := client(t, s, c, "one"), client(t, s, c, "two")
		acquiring(t, mutex.New(one, path), time.Hour, time.Hour)
		acquiring(t, mutex.New(one, path), time.Minute, 0) // ahead of it, and gives up
		acquiring(t, mutex.New(two, path), time.Hour, time.Minute)
		wait := func(client string, seconds int) string {
			return fmt.Sprintf(`longest_wait_seconds{client=%q,path="/locks/orders",recipe="mutex"} %d`, client, seconds)
		}
		time.Sleep(30 * time.Second)
		assert.Equal(t, []string{wait("one", 30), wait("two", 30)}, now(t, c)[:2])
		time.Sleep(40 * time.Second)
		assert.Equal(t, []string{
			wait("two", 70), `oldest_hold_seconds{client="one",path="/locks/orders",recipe="mutex"} 70`,
		}, now(t, c))

		line, err := mutex.New(two, path).Participants(t.Context())
		require.NoError(t, err)
		require.Len(t, line, 2)
		require.NoError(t, s.Delete(line[1].Path))
		time.Sleep(5 * time.Second)
		assert.Equal(t, wait("two", 5), now(t, c)[0], "it stands at the end of the line again")

		session, err := two.Session(t.Context())
		require.NoError(t, err)
		s.Stop()
		time.Sleep(15 * time.Second)
		assert.Empty(t, now(t, c), "nobody stands in line without a session")
		require.NoError(t, s.Start())
		time.Sleep(time.Minute)
		next, err := two.Session(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, session.ID(), next.ID())
		_ = two.Close()
		synctest.Wait()
		assert.Empty(t, now(t, c))
	})
}

// The node of a Cohort or Readers waits for all its callers, on a goroutine that no acquisition began: that is one
// wait, too, whatever contenders ahead leave.
func TestALongestWaitOfANodeThatCallersShare(t *testing.T) {
	for recipe, shared := range map[string]struct {
		front, joins func(context.Context, *framework.Client) (mutex.Held, error)
	}{
		"mutex": {
			func(ctx context.Context, c *framework.Client) (mutex.Held, error) {
				return mutex.New(c, path).Acquire(ctx)
			},
			func(ctx context.Context, c *framework.Client) (mutex.Held, error) {
				return mutex.NewCohort(c, path).Acquire(ctx)
			},
		},
		"read-lock": {
			func(ctx context.Context, c *framework.Client) (mutex.Held, error) {
				return rwlock.New(c, path).WriteLock().Acquire(ctx)
			},
			func(ctx context.Context, c *framework.Client) (mutex.Held, error) {
				return rwlock.NewReaders(c, path).Acquire(ctx)
			},
		},
	} {
		t.Run(recipe, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := zktest.RunT(t), curatorprom.NewCollector()
				one, two := client(t, s, c, "one"), client(t, s, c, "two")
				first, err := shared.front(t.Context(), one)
				require.NoError(t, err)
				inFront, giveUp := context.WithCancel(t.Context())
				go func() { _, _ = shared.front(inFront, one) }()
				synctest.Wait()
				got := make(chan mutex.Held, 1)
				go func() {
					held, err := shared.joins(context.Background(), two)
					assert.NoError(t, err)
					got <- held
				}()
				waits := func(seconds int) string {
					return fmt.Sprintf(`longest_wait_seconds{client="two",recipe=%q} %d`, recipe, seconds)
				}
				time.Sleep(30 * time.Second)
				assert.Contains(t, now(t, c), waits(30))
				giveUp()
				time.Sleep(40 * time.Second)
				assert.Contains(t, now(t, c), waits(70))

				nodes, err := s.Children(path)
				require.NoError(t, err)
				require.Len(t, nodes, 2)
				number := func(name string) string { return name[len(name)-10:] }
				slices.SortFunc(nodes, func(a, b string) int { return strings.Compare(number(a), number(b)) })
				require.NoError(t, s.Delete(path+"/"+nodes[1]))
				time.Sleep(20 * time.Second) // the loss is noticed in about a session timeout
				line := strings.Join(now(t, c), "\n")
				assert.Contains(t, line, `longest_wait_seconds{client="two"`)
				assert.NotContains(t, line, waits(90), "it stands at the end of the line again")

				require.NoError(t, first.Release(t.Context()))
				held := <-got
				time.Sleep(time.Second)
				assert.Equal(t, []string{fmt.Sprintf(`oldest_hold_seconds{client="two",recipe=%q} 1`, recipe)}, now(t, c))
				require.NoError(t, held.Release(t.Context()))
				synctest.Wait()
				assert.Empty(t, now(t, c))
			})
		})
	}
}

// A directory for which WithPaths returns "" is in no gauge; a directory with a label is.
func TestWhatWithPathsLeavesOutIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := curatorprom.NewCollector(curatorprom.WithPaths(func(dir string) string {
			if dir == path {
				return ""
			}
			return dir
		}))
		one, two := client(t, s, c, "one"), client(t, s, c, "two")
		for _, dir := range []string{path, "/other"} {
			acquiring(t, mutex.New(one, dir), time.Hour, time.Minute)
			acquiring(t, mutex.New(two, dir), time.Hour, time.Minute)
		}
		time.Sleep(5 * time.Second)
		assert.Equal(t, []string{
			`longest_wait_seconds{client="two",path="/other",recipe="mutex"} 5`,
			`oldest_hold_seconds{client="one",path="/other",recipe="mutex"} 5`,
		}, now(t, c))
		time.Sleep(time.Hour)
		assert.Empty(t, now(t, c))
	})
}

// Contenders of a semaphore wait in a line, and then, as the first, for a lease: that is one wait. The loss of a hold
// ends it.
func TestTheLongestWaitForALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := zktest.RunT(t), curatorprom.NewCollector(curatorprom.WithPaths(func(path string) string { return path }))
		one, two := client(t, s, c, "one"), client(t, s, c, "two")
		lease, err := semaphore.New(one, "/sem", 1).Acquire(t.Context(), 1)
		require.NoError(t, err)
		got := make(chan *semaphore.Lease, 2)
		for range 2 {
			go func() {
				if lease, err := semaphore.New(two, "/sem", 1).Acquire(context.Background(), 1); err == nil {
					got <- lease
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		assert.Equal(t, []string{
			`longest_wait_seconds{client="two",path="/sem",recipe="semaphore"} 60`,
			`oldest_hold_seconds{client="one",path="/sem",recipe="semaphore"} 60`,
			`oldest_hold_seconds{client="two",path="/sem",recipe="semaphore-line"} 60`, // the first place
		}, now(t, c))
		require.NoError(t, lease.Release(t.Context()))
		second := <-got
		time.Sleep(time.Second)
		assert.Equal(t, []string{
			`longest_wait_seconds{client="two",path="/sem",recipe="semaphore"} 61`,
			`oldest_hold_seconds{client="two",path="/sem",recipe="semaphore"} 1`,
			`oldest_hold_seconds{client="two",path="/sem",recipe="semaphore-line"} 1`,
		}, now(t, c))
		require.NoError(t, second.Release(t.Context()))
		third := <-got
		require.NoError(t, s.Delete(third.Paths()[0]))
		<-third.Context().Done()
		synctest.Wait()
		assert.Empty(t, now(t, c))
	})
}

// A contender that has got its hold has no contenders ahead any more.
func TestNobodyIsAheadOfAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := curatorprom.NewCollector(curatorprom.WithPaths(func(path string) string { return path }))
		one, two := client(t, s, c, "one"), client(t, s, c, "two")
		ahead := func(recipe, path string, n int) string {
			return fmt.Sprintf(`curator_queue_ahead{client="two",path=%q,recipe=%q} %d`, path, recipe, n)
		}
		lock, err := mutex.New(one, path).Acquire(t.Context())
		require.NoError(t, err)
		lease, err := semaphore.New(one, "/sem", 1).Acquire(t.Context(), 1)
		require.NoError(t, err)
		acquiring(t, mutex.New(two, path), time.Hour, time.Minute)
		for range 2 {
			go func() {
				if lease, err := semaphore.New(two, "/sem", 1).Acquire(context.Background(), 1); err == nil {
					time.Sleep(time.Minute)
					_ = lease.Release(context.Background())
				}
			}()
			synctest.Wait()
		}
		assert.Contains(t, exposed(t, c), ahead("mutex", path, 1))
		assert.Contains(t, exposed(t, c), ahead("semaphore-line", "/sem/locks", 1))
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, lease.Release(t.Context()))
		synctest.Wait()
		assert.Contains(t, exposed(t, c), ahead("mutex", path, 0))
		time.Sleep(61 * time.Second)
		assert.Contains(t, exposed(t, c), ahead("semaphore-line", "/sem/locks", 0))
		time.Sleep(time.Hour)
	})
}

// A TryAcquire that does not get the lock is not an error.
func TestALostTryHasAWordOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := zktest.RunT(t), curatorprom.NewCollector()
		cl := client(t, s, c, "a")
		lock, err := mutex.New(cl, path).Acquire(t.Context())
		require.NoError(t, err)
		_, err = mutex.New(cl, path).TryAcquire(t.Context())
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		assert.Contains(t, exposed(t, c),
			`curator_acquire_duration_seconds_count{client="a",recipe="mutex",result="not_acquired"} 1`)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// A hold under a lock that is not a lock itself has its own path, and does not count as the lock.
func TestAHoldUnderALockHasItsOwnPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := curatorprom.NewCollector(curatorprom.WithPaths(func(path string) string { return path }))
		cl := client(t, s, c, "a")
		lock, err := mutex.New(cl, path).Acquire(t.Context())
		require.NoError(t, err)
		session, err := cl.Session(t.Context())
		require.NoError(t, err)
		_, err = session.Client().Create().WithMode(framework.Ephemeral).ForPath(t.Context(), "/mine", nil)
		require.NoError(t, err)
		hold, err := session.Hold(lock.Context(), framework.HoldOptions{Path: "/mine", Recipe: "own", Values: lock.Context()})
		require.NoError(t, err)
		assert.Equal(t, []string{
			`oldest_hold_seconds{client="a",path="/",recipe="own"} 0`,
			`oldest_hold_seconds{client="a",path="/locks/orders",recipe="mutex"} 0`,
		}, now(t, c))
		hold.End(framework.ErrReleased)
		require.NoError(t, lock.Release(t.Context()))
	})
}
