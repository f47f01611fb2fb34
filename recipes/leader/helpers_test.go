package leader_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Shared by the tests of all recipes.
var (
	newClient = recipetest.Client
	session   = recipetest.Session
	cut       = recipetest.Cut
	counts    = recipetest.Counts
)

const path = "/leaders/billing"

var background = context.Background()

// join creates a latch, which is closed with the test, and waits until it leads or its node is in the line.
func join(t *testing.T, c *framework.Client, opts ...leader.Option) *leader.Latch {
	t.Helper()
	l, err := leader.NewLatch(c, path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	synctest.Wait()
	return l
}

// await returns the term of a latch that must lead already.
func await(t *testing.T, l *leader.Latch) *leader.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, time.Hour)
	defer cancel()
	term, err := l.Await(ctx)
	require.NoError(t, err)
	require.True(t, term.Valid())
	return term
}

// follows asserts that a latch is in the line and does not lead.
func follows(t *testing.T, l *leader.Latch) {
	t.Helper()
	synctest.Wait()
	require.False(t, l.HasLeadership())
	require.Equal(t, leader.Following, l.Health().Role)
}

func left(t *testing.T, l *leader.Latch) {
	t.Helper()
	require.NoError(t, l.Leave(background, leader.Silent))
}

// ended asserts that a term has ended, with the cause.
func ended(t *testing.T, term *leader.Term, cause error) {
	t.Helper()
	synctest.Wait()
	require.Error(t, term.Context().Err())
	require.ErrorIs(t, context.Cause(term.Context()), cause)
	require.False(t, term.Valid())
	require.Zero(t, term.Remaining())
}

func ids(t *testing.T, list []leader.Participant, err error) (ids []string) {
	t.Helper()
	require.NoError(t, err)
	for i, p := range list {
		require.Equal(t, i == 0, p.Leader)
		ids = append(ids, p.ID)
	}
	return ids
}

// calls returns a listener that sends its calls to into.
func calls(name string, into chan<- string) leader.Option {
	return leader.WithListener(leader.Listener{
		OnLeader:    func(*leader.Term) { into <- name + " leads" },
		OnNotLeader: func(_ *leader.Term, cause error) { into <- fmt.Sprintf("%s leads no more: %v", name, cause) },
	})
}

func told(from chan string) (all []string) {
	synctest.Wait()
	for len(from) > 0 {
		all = append(all, <-from)
	}
	return all
}

// clean asserts that no participant and no watch is left on the server.
func clean(t *testing.T, s *zktest.Server) {
	t.Helper()
	recipetest.Clean(t, s, path)
}
