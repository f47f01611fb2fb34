package stories

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/barrier"
)

// gate is one round of a barrier: the last client sets it and removes it, the others wait.
type gate struct {
	path     string
	set      chan struct{} // closed when it is set
	removing atomic.Bool
}

func barriers(g *group, s *scene) part {
	s.dirs = regexp.MustCompile(`^/mark-\d$`)
	all := &rounds[*gate]{begin: func(n int) *gate {
		return &gate{path: fmt.Sprintf("%s/%d", s.path, n), set: make(chan struct{})}
	}}
	return func(ctx context.Context, who int) {
		do := func(f func(context.Context) error) {
			for ctx.Err() == nil && !s.fine(ctx, f(ctx)) {
			}
		}
		for n := 0; ctx.Err() == nil; n++ {
			this := all.get(n).what
			b := barrier.New(g.clients[who], this.path)
			if who == clients-1 {
				do(b.Set)
				close(this.set)
				think(ctx)
				this.removing.Store(true)
				do(b.Remove)
				if ctx.Err() != nil { // the barrier must be removed all the same
					s.fine(g.t.Context(), b.Remove(kit.Context(g.t)))
				}
			} else {
				select {
				case <-this.set:
				case <-ctx.Done():
				}
				// A member may lag, and not have the barrier yet. After a write of this client it does.
				do(func(ctx context.Context) error {
					_, err := g.clients[who].Create().CreatingParentContainersIfNeeded().OrSetData().
						ForPath(ctx, fmt.Sprintf("%s/mark-%d", s.path, who), nil)
					return err
				})
				do(b.Wait)
				if ctx.Err() == nil && !this.removing.Load() {
					s.fail("%d has passed barrier %d while it was set", who, n)
				}
			}
			if all.finish(ctx, n) {
				s.done(who)
			}
		}
	}
}

// meeting is one round of a double barrier.
type meeting struct {
	path string
	ctx  context.Context // ends when a client has failed: the others would wait in vain
	stop context.CancelFunc

	mu      sync.Mutex
	came    int // number of clients that have begun to enter
	broken  bool
	inside  [clients]*barrier.Member
	leaving [clients]bool
}

// fails ends the round: a client has failed.
func (m *meeting) fails() {
	m.mu.Lock()
	m.broken = true
	m.mu.Unlock()
	m.stop()
}

func doubles(g *group, s *scene) part {
	s.dirs = regexp.MustCompile(`^/\d+(/ready)?$`) // of a round that was broken off, until the session ends
	all := &rounds[*meeting]{begin: func(n int) *meeting {
		ctx, stop := context.WithCancel(g.ctx)
		return &meeting{path: fmt.Sprintf("%s/%d", s.path, n), ctx: ctx, stop: stop}
	}}
	return func(ctx context.Context, who int) {
		for n := 0; ctx.Err() == nil; n++ {
			this := all.get(n).what
			s.meet(g, this, who)
			whole := all.finish(ctx, n) && !this.broken
			this.stop()
			if whole {
				s.done(who)
			}
			think(ctx)
		}
	}
}

func (s *scene) meet(g *group, this *meeting, who int) {
	this.mu.Lock()
	this.came++
	this.mu.Unlock()
	member, err := barrier.NewDouble(g.clients[who], this.path, clients).Enter(this.ctx)
	if !s.fine(this.ctx, err) {
		this.fails()
		return
	}
	this.mu.Lock()
	if this.came < clients {
		s.fail("%d is in before all have come", who)
	}
	this.inside[who] = member
	this.mu.Unlock()
	think(this.ctx)
	this.mu.Lock()
	this.leaving[who] = true
	this.mu.Unlock()
	if !s.fine(this.ctx, member.Leave(this.ctx)) {
		this.fails()
		return
	}
	this.mu.Lock()
	defer this.mu.Unlock()
	for other, member := range this.inside {
		if !this.broken && member != nil && !this.leaving[other] && member.Context().Err() == nil {
			s.fail("%d is out while %d is in", who, other)
		}
	}
}
