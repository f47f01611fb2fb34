package stories

import (
	"context"
	"math/rand/v2"
	"regexp"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
)

// policy is the one or the other, so that the two meet.
func policy(who int) framework.LossPolicy {
	return []framework.LossPolicy{framework.SessionOnly, framework.SuspendedIsLoss}[who%2]
}

func mutexes(g *group, s *scene) part {
	s.held = true
	r := &register{capacity: 1}
	return func(ctx context.Context, who int) {
		m := mutex.New(g.clients[who], s.path, mutex.WithLossPolicy(policy(who)))
		for ctx.Err() == nil {
			lock, err := m.Acquire(ctx)
			if !s.fine(ctx, err) {
				continue
			}
			s.keep(ctx, r, &hold{who: who, token: lock.FencingToken(), valid: lock.Valid})
			if s.fine(ctx, lock.Release(ctx)) {
				s.done(who)
			}
			think(ctx)
		}
	}
}

// Two need both locks, one needs the second alone.
func multis(g *group, s *scene) part {
	s.held = true
	s.dirs = regexp.MustCompile(`^/[ab]$`)
	both := [2]*register{{capacity: 1}, {capacity: 1}}
	return func(ctx context.Context, who int) {
		a, b := mutex.New(g.clients[who], s.path+"/a"), mutex.New(g.clients[who], s.path+"/b")
		parts, of := []mutex.Part{mutex.Of(a), mutex.Of(b)}, both[:]
		if who == clients-1 {
			parts, of = parts[1:], of[1:]
		}
		m := mutex.NewMulti(parts...)
		for ctx.Err() == nil {
			lock, err := m.Acquire(ctx)
			if !s.fine(ctx, err) {
				continue
			}
			s.keepAll(ctx, of, lock.Parts(), who)
			if s.fine(ctx, lock.Release(ctx)) {
				s.done(who)
			}
			think(ctx)
		}
	}
}

func (s *scene) keepAll(ctx context.Context, of []*register, parts []mutex.Held, who int) {
	if len(parts) == 0 {
		return
	}
	lock := parts[0].(*mutex.Lock)
	h := &hold{who: who, token: lock.FencingToken(), valid: lock.Valid, weight: 1}
	if len(parts) == 1 {
		s.keep(ctx, of[0], h)
		return
	}
	valid, err := of[0].enter(h)
	if err != nil {
		s.fail("%v", err)
	}
	if valid {
		defer of[0].leave(h)
	}
	s.keepAll(ctx, of[1:], parts[1:], who)
}

func rwlocks(g *group, s *scene) part {
	s.held = true
	r := &register{capacity: 1}
	return func(ctx context.Context, who int) {
		rw := rwlock.New(g.clients[who], s.path, rwlock.WithLossPolicy(policy(who)))
		for ctx.Err() == nil {
			side := rw.ReadLock()
			if rand.N(3) == 0 {
				side = rw.WriteLock()
			}
			lock, err := side.Acquire(ctx)
			if !s.fine(ctx, err) {
				continue
			}
			s.keep(ctx, r, &hold{who: who, token: lock.FencingToken(), shared: side.Kind() == rwlock.Read,
				valid: lock.Valid})
			if s.fine(ctx, lock.Release(ctx)) {
				s.done(who)
			}
			think(ctx)
		}
	}
}

// Three leases, of which everybody takes one or two.
func semaphores(g *group, s *scene) part {
	const leases = 3
	s.held = true
	s.dirs = regexp.MustCompile(`^/(leases|locks)$`)
	r := &register{capacity: leases}
	return func(ctx context.Context, who int) {
		sem := semaphore.New(g.clients[who], s.path, leases, semaphore.WithLossPolicy(policy(who)))
		for ctx.Err() == nil {
			n := 1 + rand.N(2)
			lease, err := sem.Acquire(ctx, n)
			if !s.fine(ctx, err) {
				continue
			}
			s.keep(ctx, r, &hold{who: who, weight: n, valid: lease.Valid})
			if s.fine(ctx, lease.Release(ctx)) {
				s.done(who)
			}
			think(ctx)
		}
	}
}
