package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Shared by the tests of all recipes.
var (
	newClient = recipetest.Client
	session   = recipetest.Session
	counts    = recipetest.Counts
)

const path = "/services/web"

var background = context.Background()

// keep creates a keeper, and waits until its node exists.
func keep(t *testing.T, c *framework.Client, data string, opts ...node.Option) *node.Keeper {
	t.Helper()
	k, err := node.NewKeeper(c, path, []byte(data), opts...)
	require.NoError(t, err)
	require.NoError(t, k.WaitCreated(background))
	return k
}

// has asserts the owner and data of the server's node at the path.
func has(t *testing.T, s *zktest.Server, owner int64, data string) {
	t.Helper()
	synctest.Wait()
	got, stat, err := s.Get(path)
	require.NoError(t, err)
	assert.Equal(t, data, string(got))
	assert.Equal(t, owner, stat.EphemeralOwner)
}

// soon waits until is returns true, at most for a virtual minute.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 6000 {
		if synctest.Wait(); is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// ends closes a keeper, and asserts that nothing is left.
func ends(t *testing.T, s *zktest.Server, k *node.Keeper) {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, 5*time.Minute) // longer than each session's timeout
	defer cancel()
	require.NoError(t, k.Close(ctx))
	assert.False(t, s.Exists(k.Path()), k.Path())
	assert.Equal(t, node.Missing, k.Status().State)
	require.ErrorIs(t, k.Status().Err, node.ErrClosed)
	recipetest.Clean(t, s)
}

func state(k *node.Keeper) node.State { return k.Status().State }
