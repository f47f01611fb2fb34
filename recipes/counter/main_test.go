package counter_test

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Shared by the tests of all recipes.
var (
	newClient = recipetest.Client
	session   = recipetest.Session
	counts    = recipetest.Counts
)

const path = "/counters/orders"

var background = context.Background()

// at returns the server's number.
func at(t *testing.T, s *zktest.Server) int64 {
	t.Helper()
	data, _, err := s.Get(path)
	require.NoError(t, err)
	require.Len(t, data, 8)
	return int64(binary.BigEndian.Uint64(data))
}

func add(t *testing.T, n *counter.Long, delta int64) int64 {
	t.Helper()
	sum, err := n.Add(background, delta)
	require.NoError(t, err)
	return sum
}

// marks returns the children of the number.
func marks(t *testing.T, s *zktest.Server) []string {
	t.Helper()
	synctest.Wait()
	children, err := s.Children(path)
	require.NoError(t, err)
	return children
}

// tidy asserts that nothing is left after the numbers were not used for a while.
func tidy(t *testing.T, s *zktest.Server, clients ...*framework.Client) {
	t.Helper()
	time.Sleep(11 * time.Second)
	recipetest.Clean(t, s, path)
	recipetest.Tidy(t, clients...)
}
