package mutex_test

import (
	"context"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A service migrates to this library from an implementation whose nodes are named by ten digits only.
func TestForeignContenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		old, c := newClient(t, s), newClient(t, s)
		digits := regexp.MustCompile(`^[0-9]{10}$`)
		m := mutex.New(c, path, mutex.WithForeignContenders(digits.MatchString))
		stand := func() string {
			name, err := s.CreateNode(path+"/", nil, zktest.EphemeralSequential, session(t, old))
			require.NoError(t, err)
			return name
		}
		require.NoError(t, s.Create(path, nil))
		first := stand()
		_, err := m.TryAcquire(background)
		require.ErrorIs(t, err, mutex.ErrNotAcquired)
		waiter := waiting(t, background, m)
		second := stand()
		line, err := m.Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 3)
		assert.Equal(t, first, line[0].Path)
		assert.Equal(t, second, line[2].Path)
		line, err = mutex.New(c, path).Participants(background)
		require.NoError(t, err)
		require.Len(t, line, 1, "without the option")
		never := func(string) bool { return false }
		for _, both := range []*mutex.Mutex{
			mutex.New(c, path, mutex.WithForeignContenders(never), mutex.WithForeignContenders(digits.MatchString)),
			mutex.New(c, path, mutex.WithForeignContenders(digits.MatchString), mutex.WithForeignContenders(never)),
		} {
			line, err = both.Participants(background)
			require.NoError(t, err)
			require.Len(t, line, 3, "those of all options are")
		}

		require.NoError(t, s.Delete(first))
		waiter.End()
		require.NoError(t, waiter.Err)
		release(t, waiter.Value)
		next := waiting(t, background, m)
		require.NoError(t, s.Delete(second))
		next.End()
		require.NoError(t, next.Err)
		release(t, next.Value)
		clean(t, s, path)

		// Two contenders of the old implementation ahead, one after the other, while holds are long.
		first, second = stand(), stand()
		for range 2 {
			next = waiting(t, background, m)
			time.Sleep(time.Second)
			require.NoError(t, s.Delete(first))
			time.Sleep(time.Second)
			require.True(t, next.Pending())
			require.NoError(t, s.Delete(second))
			next.End()
			require.NoError(t, next.Err)
			first, second = stand(), stand()
			time.Sleep(time.Second)
			release(t, next.Value)
		}
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err = m.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		_, err = mutex.New(c, path, mutex.WithForeignContenders(nil)).Acquire(background)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
	})
}
