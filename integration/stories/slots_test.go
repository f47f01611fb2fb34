package stories

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/go-curator/curator/recipes/assignment"
	"github.com/go-curator/curator/recipes/once"
)

// slot is the state of a slot.
type slot struct {
	mu   sync.Mutex
	runs int
	done bool // a client's Do has returned that it is done
}

// slots has all clients do one slot after the other, together. No two functions run at a time; at least once, a slot
// that was reported as done is not run again; at most once, none is run twice.
func slots(most bool) func(g *group, s *scene) part {
	return func(g *group, s *scene) part {
		s.dirs = regexp.MustCompile(`^/job(/lock|/slots(/\d+)?)?$`)
		r := rounds[*slot]{begin: func(int) *slot { return &slot{} }}
		running := &register{capacity: 1}
		opts := []once.Option{once.WithKeep(20)}
		if most {
			opts = append(opts, once.AtMostOnce())
		}
		return func(ctx context.Context, who int) {
			jobs := once.New(g.clients[who], s.path, opts...)
			for n := 0; ctx.Err() == nil; n++ {
				this := r.get(n).what
				for ctx.Err() == nil {
					outcome, err := jobs.Do(ctx, "job", once.Named(fmt.Sprint(n)),
						func(ctx context.Context, run once.Run) error {
							return s.runs(ctx, running, this, run, who, most)
						})
					if s.fine(ctx, err) {
						if outcome != once.Done && outcome != once.Ran && !(most && outcome == once.Begun) {
							s.fail("slot %d: %v", n, outcome)
						}
						this.mu.Lock()
						this.done = outcome != once.Begun // a client whose run has begun may call the function only now
						this.mu.Unlock()
						s.done(who)
						break
					}
				}
				if !r.finish(ctx, n) {
					return
				}
			}
		}
	}
}

func (s *scene) runs(ctx context.Context, r *register, this *slot, run once.Run, who int, most bool) error {
	this.mu.Lock()
	this.runs++
	again, done := this.runs > 1, this.done
	this.mu.Unlock()
	switch {
	case done:
		s.fail("slot %v is run again", run.Slot)
	case most && again:
		s.fail("slot %v is run twice", run.Slot)
	}
	s.keep(ctx, r, &hold{who: who, token: run.FencingToken, valid: func() bool { return run.Remaining() > 0 }})
	return nil
}

// assignments has every client join, have some of six items for a while, and leave. No item has two owners, and its
// tokens grow.
func assignments(g *group, s *scene) part {
	s.held = true
	s.dirs = regexp.MustCompile(`^/(members|items(/\d)?)$`)
	list := []string{"0", "1", "2", "3", "4", "5"}
	owners := map[string]*register{}
	for _, name := range list {
		owners[name] = &register{capacity: 1}
	}
	return func(ctx context.Context, who int) {
		for ctx.Err() == nil {
			running, leave := context.WithCancel(ctx)
			var once sync.Once
			a := assignment.New(g.clients[who], s.path, list, assignment.WithID(fmt.Sprint("member-", who)),
				assignment.WithSettle(tick/10))
			err := a.Run(running, func(ctx context.Context, item assignment.Item) error {
				h := &hold{who: who, token: item.FencingToken(), valid: item.Valid, weight: 1}
				valid, err := owners[item.Name()].enter(h)
				if err != nil {
					s.fail("%s: %v", item.Name(), err)
				}
				if valid {
					defer owners[item.Name()].leave(h)
				}
				s.holds[who].Add(1)
				defer s.holds[who].Add(-1)
				once.Do(func() {
					s.done(who)
					g.work.Go(func() {
						defer leave()
						think(running)
						for s.g.cling[who].Load() && s.g.ctx.Err() == nil && running.Err() == nil {
							think(running)
						}
					})
				})
				<-ctx.Done()
				return ctx.Err()
			})
			leave()
			if !errors.Is(err, context.Canceled) {
				s.fine(ctx, err)
			}
		}
	}
}
