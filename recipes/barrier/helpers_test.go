package barrier_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
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

const path = "/barriers/step"

var (
	background = context.Background()
	none       context.Context
)

// call is a blocking call on its own goroutine.
type call[T any] = recipetest.Call[T]

func entering(t *testing.T, ctx context.Context, d *barrier.Double) *call[*barrier.Member] {
	return recipetest.Begin(t, func() (*barrier.Member, error) { return d.Enter(ctx) })
}

func leaving(t *testing.T, ctx context.Context, m *barrier.Member) *call[struct{}] {
	return recipetest.Begin(t, func() (struct{}, error) { return struct{}{}, m.Leave(ctx) })
}

func enter(t *testing.T, d *barrier.Double) *barrier.Member {
	t.Helper()
	return entering(t, background, d).OK()
}

// enterAll lets n members enter, each with its own client, and returns them in the order of their nodes' names.
func enterAll(
	t *testing.T, s *zktest.Server, n int,
) (members []*barrier.Member, clients []*framework.Client) {
	t.Helper()
	type pair struct {
		m *barrier.Member
		c *framework.Client
	}
	var calls []*call[*barrier.Member]
	for range n {
		c := newClient(t, s)
		clients = append(clients, c)
		calls = append(calls, entering(t, background, barrier.NewDouble(c, path, n)))
	}
	var pairs []pair
	for i, c := range calls {
		pairs = append(pairs, pair{c.OK(), clients[i]})
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		if a.m.Path() < b.m.Path() {
			return -1
		}
		return 1
	})
	for i, p := range pairs {
		members, clients[i] = append(members, p.m), p.c
	}
	return members, clients
}

// java creates the node of a member as Curator for Java, or any other library, does: a plain ephemeral child.
func java(t *testing.T, s *zktest.Server, c *framework.Client, name string) {
	t.Helper()
	_, err := s.CreateNode(path+"/"+name, nil, zktest.Ephemeral, session(t, c))
	require.NoError(t, err)
}

// refuseSetWatches makes the server refuse setWatches: members then arm each watch by a read.
func refuseSetWatches(s *zktest.Server) {
	s.Inject(zktest.Fault{Op: "setWatches", PathPrefix: path, Times: -1, Action: zktest.ReplyError, Err: zktest.ErrNoAuth})
}

// clean asserts that no member, no "ready" and no watch is left on the server.
func clean(t *testing.T, s *zktest.Server) {
	t.Helper()
	require.Empty(t, children(t, s))
	require.Empty(t, s.Watches())
}

func children(t *testing.T, s *zktest.Server) []string {
	t.Helper()
	synctest.Wait()
	if !s.Exists(path) { // it is a container: the server deletes it when it has been empty for a while
		return nil
	}
	names, err := s.Children(path)
	require.NoError(t, err)
	return names
}
