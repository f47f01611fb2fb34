package counter_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

func TestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		long := counter.NewLong(c, path)
		require.NoError(t, long.Set(background, 100))
		ids := counter.NewIDs(long, 3)
		synctest.Wait()
		s.ResetCounts()
		for want := range int64(7) {
			id, err := ids.Next(background)
			require.NoError(t, err)
			require.Equal(t, 100+want, id)
		}
		counts(t, s, "seven ids", map[string]int{"getData": 1, "create2": 1, "multi": 3})
		require.EqualValues(t, 109, at(t, s), "as Curator's CachedAtomicLong leaves it")

		id, err := counter.NewIDs(long, 1).Next(background)
		require.NoError(t, err)
		require.EqualValues(t, 109, id)

		var none context.Context
		_, err = ids.Next(none)
		require.ErrorIs(t, err, framework.ErrNilContext)
		_, err = counter.NewIDs(long, 0).Next(background)
		require.ErrorIs(t, err, framework.ErrBadArguments)
		for _, wrong := range []*counter.IDs{nil, {}} {
			_, err = wrong.Next(background)
			require.ErrorIs(t, err, framework.ErrNoClient)
		}
	})
}

// Several processes with several callers, while replies are lost: no id is returned twice.
func TestIDsAreUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		s.Delay(0, time.Millisecond)
		var mu sync.Mutex
		seen := map[int64]bool{}
		var wg sync.WaitGroup
		s.Inject(zktest.Fault{Op: "multi", Action: zktest.LoseReply, Times: 5})
		for range 3 {
			ids := counter.NewIDs(counter.NewLong(newClient(t, s), path), 10)
			for range 4 {
				wg.Go(func() {
					for range 50 {
						id, err := ids.Next(background)
						assert.NoError(t, err)
						mu.Lock()
						assert.False(t, seen[id], id)
						seen[id] = true
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		require.Len(t, seen, 600)
		require.EqualValues(t, 600, at(t, s), "and none was lost")
		tidy(t, s)
	})
}

// A caller that waits for another's next block returns when its context ends.
func TestIDsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		ids := counter.NewIDs(counter.NewLong(newClient(t, s), path), 10)
		hold := s.Inject(zktest.Fault{Op: "multi", Action: zktest.Hold})
		first := recipetest.Begin(t, func() (int64, error) { return ids.Next(background) }).Waits()
		ctx, cancel := context.WithCancel(background)
		second := recipetest.Begin(t, func() (int64, error) { return ids.Next(ctx) }).Waits()
		cancel()
		_, err := second.Returned()
		require.ErrorIs(t, err, context.Canceled)
		hold.Release()
		require.Zero(t, first.OK())
	})
}

// The number is deleted, set back, or restored from an old dump: Next returns an error, and returns no id twice.
func TestIDsAreNotRepeated(t *testing.T) {
	for what, back := range map[string]func(s *zktest.Server) error{
		"deleted":      func(s *zktest.Server) error { return s.Delete(path) },
		"set back":     func(s *zktest.Server) error { return s.Set(path, []byte{0, 0, 0, 0, 0, 0, 0, 2}) },
		"set below 0":  func(s *zktest.Server) error { return s.Set(path, []byte{255, 255, 255, 255, 255, 255, 255, 254}) },
		"without data": func(s *zktest.Server) error { return s.Set(path, nil) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				ids := counter.NewIDs(counter.NewLong(newClient(t, s), path), 3)
				last, refused := int64(-1), 0
				for n := range 20 {
					if n == 5 {
						time.Sleep(11 * time.Second) // until the mark is deleted
						require.NoError(t, back(s))
					}
					id, err := ids.Next(background)
					if err != nil {
						require.ErrorIs(t, err, counter.ErrBadValue)
						require.NotErrorIs(t, err, framework.ErrOutcomeUnknown)
						require.Zero(t, id)
						refused++
						continue
					}
					require.Greater(t, id, last)
					last = id
				}
				require.Positive(t, refused)
				require.Greater(t, last, int64(6), "it goes on behind what was handed out")
			})
		})
	}
}

// A number may be negative from the start.
func TestIDsOfANegativeNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		long := counter.NewLong(newClient(t, s), path)
		require.NoError(t, long.Set(background, -2))
		ids := counter.NewIDs(long, 3)
		for want := int64(-2); want < 4; want++ {
			id, err := ids.Next(background)
			require.NoError(t, err)
			require.Equal(t, want, id)
		}
	})
}
