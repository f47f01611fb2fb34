package node_test

import (
	"context"
	"fmt"
	"sync"
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

// data returns the data of a node.
func data(t *testing.T, s *zktest.Server, path string) string {
	t.Helper()
	got, _, err := s.Get(path)
	require.NoError(t, err)
	return string(got)
}

func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		set := node.NewSet(c)
		require.NoError(t, set.Remove(background, "/services/none"))
		for i := range 3 {
			require.NoError(t, set.Keep(background, fmt.Sprintf("/services/%d", i), []byte("a")))
		}
		assert.Equal(t, []string{"/services/0", "/services/1", "/services/2"}, set.Paths())
		s.ResetCounts()
		require.NoError(t, set.Keep(background, "/services/1", []byte("a")))
		counts(t, s, "the same data", map[string]int{})
		require.NoError(t, set.Keep(background, "/services/1", []byte("b")))
		assert.Equal(t, "b", data(t, s, "/services/1"))
		require.NoError(t, set.Keep(background, "/services/1", nil), "the default data")
		assert.NotEqual(t, "b", data(t, s, "/services/1"))
		require.NoError(t, set.Keep(background, "/services/1", []byte{}))
		assert.Empty(t, data(t, s, "/services/1"))

		require.NoError(t, set.Remove(background, "/services/1"))
		assert.False(t, s.Exists("/services/1"))
		assert.Nil(t, set.Keeper("/services/1"))
		assert.Equal(t, []string{"/services/0", "/services/2"}, set.Paths())
		require.NoError(t, set.Keep(background, "/services/1", []byte("c")))
		assert.Equal(t, node.There, set.Keeper("/services/1").Status().State)

		require.NoError(t, set.Keeper("/services/1").Close(background))
		require.NoError(t, set.Keep(background, "/services/1", []byte("c")), "a new keeper begins")
		require.NoError(t, set.Keeper("/services/1").Close(background))
		require.NoError(t, set.Keep(background, "/services/1", []byte("d")))
		require.NoError(t, set.Keep(background, "/services/1", []byte("c")))

		s.Expire(session(t, c))
		soon(t, "created again", func() bool {
			return s.Exists("/services/0") && s.Exists("/services/1") && s.Exists("/services/2")
		})
		assert.Equal(t, "c", data(t, s, "/services/1"))

		require.NoError(t, set.Close(background))
		require.NoError(t, set.Close(background))
		recipetest.Clean(t, s, "/services")
		require.ErrorIs(t, set.Keep(background, "/services/3", nil), node.ErrClosed)
		require.ErrorIs(t, set.Keep(background, "/services/1", nil), node.ErrClosed)
		recipetest.Tidy(t, c)
	})
}

// A Remove whose caller does not wait, and a Keep of the same path: the new keeper starts when the old one has ended.
func TestSetKeepsWhatIsBeingRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		set := node.NewSet(c)
		require.NoError(t, set.Keep(background, path, []byte("a")))
		away := s.Inject(zktest.Fault{Op: "delete", Action: zktest.Hold})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.ErrorIs(t, set.Remove(ctx, path), context.DeadlineExceeded)
		assert.Empty(t, set.Paths())
		require.ErrorIs(t, set.Keep(ctx, path, []byte("b")), context.DeadlineExceeded)
		kept := recipetest.Begin(t, func() (any, error) { return nil, set.Keep(background, path, []byte("b")) }).Waits()
		away.Release()
		kept.OK()
		has(t, s, session(t, c), "b")
		require.NoError(t, set.Close(background))
		assert.Empty(t, set.Paths())
		assert.Nil(t, set.Keeper(path))
		recipetest.Clean(t, s, "/services")
	})
}

// A Keep waits for its data while another Keep of the same data is in progress.
func TestSetKeepsTheSameDataTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		set := node.NewSet(newClient(t, s))
		require.NoError(t, set.Keep(background, path, []byte("a")))
		s.Delay(0, time.Second)
		var calls []*recipetest.Call[any]
		for range 2 {
			calls = append(calls, recipetest.Begin(t, func() (any, error) { return nil, set.Keep(background, path, []byte("b")) }))
		}
		for _, call := range calls {
			<-call.Done
			require.NoError(t, call.Err)
			assert.Equal(t, "b", data(t, s, path))
		}
		require.NoError(t, set.Close(background))
	})
}

// A Keep of changed data, during which the node is removed: the set keeps it with the new data.
func TestSetRemovesDuringAKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		set := node.NewSet(newClient(t, s))
		require.NoError(t, set.Keep(background, path, []byte("a")))
		away := s.Inject(zktest.Fault{Op: "setData", Action: zktest.Hold})
		kept := recipetest.Begin(t, func() (any, error) { return nil, set.Keep(background, path, []byte("b")) }).Waits()
		removed := recipetest.Begin(t, func() (any, error) { return nil, set.Remove(background, path) }).Waits()
		away.Release()
		removed.End().OK()
		kept.End().OK()
		if s.Exists(path) { // the Keep came after the removal
			assert.Equal(t, "b", data(t, s, path))
		}
		require.NoError(t, set.Close(background))
		recipetest.Clean(t, s, "/services")
	})
}

func TestSetThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		set := node.NewSet(c)
		require.ErrorIs(t, set.Keep(background, "services", nil), framework.ErrInvalidPath)
		require.ErrorIs(t, node.NewSet(nil).Keep(background, path, nil), framework.ErrNoClient)
		require.ErrorIs(t, node.NewSet(c, node.WithTTL(-1)).Keep(background, path, nil), framework.ErrInvalidOption)
		require.ErrorIs(t, node.NewSet(nil).Remove(background, path), framework.ErrNoClient)
		require.ErrorIs(t, node.NewSet(nil).Close(background), framework.ErrNoClient)
		var none context.Context
		require.ErrorIs(t, set.Remove(none, path), framework.ErrNilContext)
		require.ErrorIs(t, set.Close(none), framework.ErrNilContext)
		assert.Empty(t, set.Paths())
		require.NoError(t, set.Keep(background, path, nil))
		require.NoError(t, set.Keep(background, "/other", nil))
		require.NoError(t, s.SetACL("/services", zktest.ACL{Perms: int32(framework.PermRead), Scheme: "world", ID: "anyone"}))
		require.ErrorIs(t, set.Close(background), framework.ErrNoAuth)
		assert.False(t, s.Exists("/other"), "the other nodes are deleted nevertheless")
		require.NoError(t, c.Close())
		require.ErrorIs(t, node.NewSet(c).Keep(background, path, nil), framework.ErrClosed)
	})
}

// Goroutines keep and remove the same paths at random.
func TestSetAtRandomMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		s.Delay(0, 3*time.Millisecond)
		set := node.NewSet(c)
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 40 {
					ctx, cancel := context.WithTimeout(background, time.Duration(1+(worker*5+i*3)%25)*time.Millisecond)
					at := fmt.Sprintf("/services/%d", (worker+i)%3)
					if i%2 == 0 {
						_ = set.Keep(ctx, at, []byte{byte(worker)})
					} else {
						_ = set.Remove(ctx, at)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		s.Heal()
		require.NoError(t, set.Keep(background, "/services/1", []byte("last")))
		assert.Equal(t, "last", data(t, s, "/services/1"))
		require.NoError(t, set.Close(background))
		recipetest.Clean(t, s, "/services")
		recipetest.Tidy(t, c)
	})
}
