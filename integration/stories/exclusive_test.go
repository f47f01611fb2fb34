package stories

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
)

// policy returns one loss policy or the other, so that both meet.
func policy(who int) framework.LossPolicy {
	return []framework.LossPolicy{framework.SessionOnly, framework.SuspendedIsLoss}[who%2]
}

func mutexes(g *group, s *scene) part {
	s.held = true
	r := &register{capacity: 1}
	s.java = func(ctx context.Context, p *guest) {
		if lock, err := p.Mutex(ctx, s.name, s.path); err == nil { // on an error the process was killed
			s.turns(ctx, p, r, lock, false, g.czxid)
		}
	}
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

// held is a hold of a mutex, by any way to hold it.
type held interface {
	Node() string
	Valid() bool
	Release(ctx context.Context) error
	ReleaseInBackground(then ...func(err error))
}

// number returns the sequence number of a lock's node, counted from 1.
func number(node string) int64 {
	n, err := strconv.ParseInt(node[strings.LastIndex(node, "-")+1:], 10, 32)
	if err != nil {
		return 0
	}
	return n + 1
}

// ways has all ways to hold a mutex in a process at one path: goroutines that pass it on, goroutines of which one keeps
// it, and a release that is not waited for. Turns have no token; the numbers of the nodes grow, since the directory
// stays.
func ways(g *group, s *scene) part {
	s.held = true
	r := &register{capacity: 1}
	_, err := g.clients[0].Create().CreatingParentsIfNeeded().ForPath(kit.Context(s.t), s.path, nil)
	require.NoError(s.t, err)
	s.java = func(ctx context.Context, p *guest) {
		if lock, err := p.Mutex(ctx, s.name, s.path); err == nil {
			s.turns(ctx, p, r, lock, false, number)
		}
	}
	return func(ctx context.Context, who int) {
		var acquire func(ctx context.Context) (held, error)
		contenders := 2
		switch client := g.clients[who]; who {
		case 0:
			m := mutex.NewCohort(client, s.path, mutex.WithTurns(5, time.Second))
			acquire = func(ctx context.Context) (held, error) { return some(m.Acquire(ctx)) }
		case 1:
			m := mutex.NewCohort(client, s.path, mutex.WithKept(time.Second))
			acquire = func(ctx context.Context) (held, error) { return some(m.Acquire(ctx)) }
		default:
			m := mutex.New(client, s.path)
			acquire = func(ctx context.Context) (held, error) { return some(m.Acquire(ctx)) }
			contenders = 1
		}
		var all sync.WaitGroup
		for range contenders {
			all.Go(func() {
				for ctx.Err() == nil {
					lock, err := acquire(ctx)
					if !s.fine(ctx, err) {
						continue
					}
					s.keep(ctx, r, &hold{who: who, token: number(lock.Node()), valid: lock.Valid})
					if who == 0 {
						if s.fine(ctx, lock.Release(ctx)) {
							s.done(who)
						}
					} else {
						lock.ReleaseInBackground()
						s.done(who)
					}
					think(ctx)
				}
			})
		}
		all.Wait()
	}
}

// some returns a nil held with an error.
func some[H held](h H, err error) (held, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Two clients need both locks, one needs only the second.
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

// All clients read and write; one client has more readers, which share nodes.
func rwlocks(g *group, s *scene) part {
	s.held = true
	r := &register{capacity: 1}
	s.java = func(ctx context.Context, p *guest) {
		read, write, err := p.ReadWrite(ctx, s.name, s.path)
		if err != nil {
			return
		}
		var both sync.WaitGroup
		defer both.Wait()
		both.Go(func() { s.turns(ctx, p, r, read, true, g.czxid) })
		both.Go(func() { s.turns(ctx, p, r, write, false, g.czxid) })
	}
	share := func(ctx context.Context, who int) {
		readers := rwlock.NewReaders(g.clients[who], s.path, rwlock.WithJoins(5, 200*time.Millisecond))
		for range 2 {
			g.work.Go(func() {
				for ctx.Err() == nil {
					reading, err := readers.Acquire(ctx)
					if !s.fine(ctx, err) {
						continue
					}
					s.keep(ctx, r, &hold{who: who, token: reading.FencingToken(), shared: true, valid: reading.Valid})
					s.fine(ctx, reading.Release(ctx))
					think(ctx)
				}
			})
		}
	}
	return func(ctx context.Context, who int) {
		if who == 1 {
			share(ctx, who)
		}
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

// Three leases, of which each client takes one or two.
func semaphores(g *group, s *scene) part {
	const leases = 3
	s.held = true
	s.dirs = regexp.MustCompile(`^/(leases|locks)$`)
	r := &register{capacity: leases}
	s.java = func(ctx context.Context, p *guest) {
		sem, err := p.Semaphore(ctx, s.name, s.path, leases)
		if err != nil {
			return
		}
		for n := 0; ctx.Err() == nil; n++ {
			key := strconv.Itoa(n)
			names, err := sem.Acquire(context.Background(), key, 1+n%2, 2*timeout)
			if err != nil {
				pause(ctx, 20*time.Millisecond)
				continue
			}
			var nodes []string
			for _, name := range names {
				nodes = append(nodes, s.path+"/leases/"+name)
			}
			s.keeps(ctx, p, r, &hold{weight: len(nodes)}, nodes...)
			if sem.Return(context.Background(), key) == nil {
				s.done(java)
			}
			think(ctx)
		}
	}
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
