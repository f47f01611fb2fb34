package stories

import (
	"context"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
)

// participant returns the options of a participant: some terms end with the connection, some with the session.
func participant(who int) []leader.Option {
	opts := []leader.Option{leader.WithID(fmt.Sprint(who))}
	if who%2 == 0 {
		opts = append(opts, leader.WithLossPolicy(framework.SessionOnly))
	}
	return opts
}

func latches(g *group, s *scene) part {
	s.held = true
	r := &register{capacity: 1}
	s.java = func(ctx context.Context, p *guest) {
		for n := 0; ctx.Err() == nil; n++ {
			latch, err := p.Latch(ctx, fmt.Sprint(s.name, n), s.path, "java")
			if err != nil {
				pause(ctx, 20*time.Millisecond)
				continue
			}
			_, err = latch.AwaitLeader(ctx)
			led := err == nil && s.leads(ctx, p, r)
			if latch.Close(context.Background()) == nil && led {
				s.done(java)
			}
			think(ctx)
		}
	}
	return func(ctx context.Context, who int) {
		latch, err := leader.NewLatch(g.clients[who], s.path, participant(who)...)
		if !s.fine(ctx, err) {
			return
		}
		defer latch.Close()
		for ctx.Err() == nil {
			term, err := latch.Await(ctx)
			if !s.fine(ctx, err) {
				continue
			}
			s.keep(ctx, r, &hold{who: who, token: term.FencingToken(), valid: term.Valid})
			if s.fine(ctx, term.Resign(ctx)) {
				s.done(who)
			}
			think(ctx)
		}
	}
}

func selectors(g *group, s *scene) part {
	s.held = true
	r := &register{capacity: 1}
	s.java = func(ctx context.Context, p *guest) {
		selector, err := p.Selector(ctx, s.name, s.path, "java")
		if err != nil {
			return
		}
		for ctx.Err() == nil {
			if _, err := selector.AwaitLeader(ctx); err != nil {
				return
			}
			led := s.leads(ctx, p, r)
			if selector.Resign(context.Background()) == nil && led {
				s.done(java)
			}
			think(ctx)
		}
		_ = selector.Close(context.Background())
	}
	return func(ctx context.Context, who int) {
		lead := func(ctx context.Context) error {
			term := leader.TermOf(ctx)
			s.keep(ctx, r, &hold{who: who, token: term.FencingToken(), valid: term.Valid})
			return nil
		}
		selector := leader.NewSelector(g.clients[who], s.path, lead, participant(who)...)
		for ctx.Err() == nil {
			if s.fine(ctx, selector.RunOnce(ctx)) {
				s.done(who)
			}
			think(ctx)
		}
	}
}
