package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

func campaign(t *testing.T, ctx context.Context, c *framework.Client, opts ...leader.Option) *recipetest.Call[*leader.Term] {
	t.Helper()
	return recipetest.Begin(t, func() (*leader.Term, error) { return leader.Campaign(ctx, c, path, opts...) })
}

// Two clients lead in turn, in one election with a selector.
func TestCampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		one, two, three := newClient(t, s), newClient(t, s), newClient(t, s)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(background, key{}, "value"))
		first := campaign(t, ctx, one, leader.WithID("one")).OK()
		cancel()
		assert.True(t, first.Valid(), "the term outlives the call's context")
		assert.Equal(t, "value", first.Context().Value(key{}))
		assert.Same(t, first, leader.TermOf(first.Context()))
		next := campaign(t, background, two).Waits()
		selected := make(chan *leader.Term, 1)
		ran := recipetest.Begin(t, func() (any, error) {
			return nil, leader.NewSelector(three, path, func(ctx context.Context) error {
				selected <- leader.TermOf(ctx)
				return nil
			}).RunOnce(background)
		}).Waits()
		require.NoError(t, first.Resign(background))
		ended(t, first, leader.ErrReleased)
		assert.False(t, s.Exists(first.Path()))
		require.ErrorIs(t, first.Resign(background), leader.ErrReleased)
		second := next.OK()
		assert.Greater(t, second.FencingToken(), first.FencingToken())
		ran.Waits()
		require.NoError(t, second.Resign(second.Context()), "does not wait")
		ran.OK()
		assert.Greater(t, (<-selected).FencingToken(), second.FencingToken())
		recipetest.Clean(t, s, path)
		recipetest.Tidy(t, one, two, three)
	})
}

// A term is lost: its node is deleted in the background, and the next participant leads.
func TestCampaignLost(t *testing.T) {
	for name, c := range map[string]struct {
		policy framework.LossPolicy
		lose   func(*testing.T, *zktest.Server, *framework.Client, *leader.Term)
		cause  error
	}{
		"suspended": {framework.SuspendedIsLoss, func(t *testing.T, s *zktest.Server, c *framework.Client, _ *leader.Term) {
			s.Cut(session(t, c))
		}, leader.ErrSuspended},
		"expired": {framework.SessionOnly, func(t *testing.T, s *zktest.Server, c *framework.Client, _ *leader.Term) {
			s.Expire(session(t, c))
		}, leader.ErrSessionLost},
		"deleted": {framework.SessionOnly, func(_ *testing.T, s *zktest.Server, _ *framework.Client, term *leader.Term) {
			_ = s.Delete(term.Path())
		}, leader.ErrNodeDeleted},
		"closed": {framework.SessionOnly, func(_ *testing.T, _ *zktest.Server, c *framework.Client, _ *leader.Term) {
			_ = c.Close()
		}, framework.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t)
				one, two := newClient(t, s), newClient(t, s)
				term := campaign(t, background, one, leader.WithLossPolicy(c.policy)).OK()
				time.Sleep(time.Second) // so that a watch on its node is armed
				next := campaign(t, background, two, leader.WithLossPolicy(framework.SessionOnly)).Waits()
				c.lose(t, s, one, term)
				<-term.Context().Done()
				ended(t, term, c.cause)
				require.ErrorIs(t, term.Resign(background), c.cause)
				require.NoError(t, next.End().OK().Resign(background))
				recipetest.Clean(t, s, path)
			})
		})
	}
}

// A call that fails, or whose context ends, leaves no participant.
func TestCampaignFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		one, two := newClient(t, s), newClient(t, s)
		recipetest.CancelWhileTheServerHangs(t, s, []string{path}, func(ctx context.Context) error {
			_, err := leader.Campaign(ctx, one, path)
			return err
		})
		term := campaign(t, background, one).OK()
		_, err := leader.Campaign(term.Context(), one, path)
		require.ErrorIs(t, err, leader.ErrSelfWait)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err = leader.Campaign(ctx, two, path)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, term.Resign(background))
		recipetest.Clean(t, s, path)

		_, err = leader.Campaign(background, one, "/")
		require.ErrorIs(t, err, framework.ErrInvalidPath)
		_, err = leader.Campaign(background, nil, path)
		require.ErrorIs(t, err, framework.ErrNoClient)
		_, err = leader.Campaign(background, one, path, leader.WithListener(leader.Listener{OnLeader: func(*leader.Term) {}}))
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		s.Stop()
		time.Sleep(time.Minute)
		_, err = leader.Campaign(background, one, path)
		require.ErrorIs(t, err, framework.ErrNotConnected)
		_ = one.Close()
		_, err = leader.Campaign(background, one, path)
		require.ErrorIs(t, err, framework.ErrClosed)
	})
}
