package simulation_test

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

func init() {
	kinds["multi"] = func(w *world) workload {
		return &multiWork{
			[]*ledger{newLedger(w, "multi-a"), newLedger(w, "multi-b")},
			[]string{root + "/multi-a", root + "/multi-b"},
		}
	}
	kinds["striped"] = newStripedWork
	kinds["revocation"] = func(w *world) workload {
		return &revocationWork{
			l:     newLedger(w, "revocation"),
			path:  root + "/revocation",
			asked: map[string]time.Time{},
		}
	}
}

// multiWork: two locks, or one of them.
type multiWork struct {
	ledgers []*ledger
	paths   []string
}

func (k *multiWork) turn(ctx context.Context, a *actor) error {
	locks := make([]*mutex.Mutex, len(k.paths))
	parts := make([]mutex.Part, len(k.paths))
	for i, dir := range k.paths {
		locks[i] = mutex.New(a.c, dir, mutex.WithLossPolicy(a.w.plan.Loss))
		parts[i] = mutex.Of(locks[i])
	}
	if i := a.r.IntN(2 * len(locks)); i < len(locks) && !a.w.calm() { // only one
		done := k.ledgers[i].wants(ctx, a, "Acquire")
		lock, err := locks[i].Acquire(ctx)
		done()
		if err != nil {
			return err
		}
		g := k.enter(a, i, lock)
		k.ledgers[i].use(a, g, one(lock.Guard))
		return release(a, k.ledgers[i], g, lock.Release)
	}
	done := a.timed(ctx, "Acquire")
	both, err := mutex.NewMulti(parts...).Acquire(ctx)
	done()
	if err != nil {
		return err
	}
	var grants []*grant
	var guards []framework.TransactionOp
	for i, held := range both.Parts() {
		if lock, ok := held.(*mutex.Lock); ok {
			grants = append(grants, k.enter(a, i, lock))
			guards = append(guards, lock.Guard())
		}
	}
	if len(grants) != len(parts) {
		a.w.violate("multi: %d parts instead of %d", len(grants), len(parts))
		return nil
	}
	timer := time.NewTimer(below(a.r, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-both.Context().Done():
	}
	for i, g := range grants {
		g.claim.Returning()
		k.ledgers[i].noticed(g)
		k.ledgers[i].save(g)
		if a.r.IntN(3) == 0 {
			k.ledgers[i].guarded(a, g, guards[i])
		}
		if both.Valid() && !g.Valid() {
			a.w.violate("multi: valid without %v", g)
		}
	}
	return release(a, k.ledgers[0], grants[0], both.Release)
}

func (k *multiWork) enter(a *actor, i int, lock *mutex.Lock) *grant {
	return k.ledgers[i].granted(a, &grant{hold: lock, path: lock.Path(), token: lock.FencingToken()})
}

func (k *multiWork) settle(w *world) {
	for i, l := range k.ledgers {
		l.settle()
		w.empty(k.paths[i])
	}
}

// stripedWork: locks of one to four of eight keys, which have three stripes. The holder of a key holds its stripe, and
// a waiter for several keys, in any order, gets them all.
type stripedWork struct {
	path    string
	ledgers map[string]*ledger // by the stripe's path
}

const stripes = 3

func newStripedWork(w *world) workload {
	k := &stripedWork{root + "/striped", map[string]*ledger{}}
	for i := range stripes {
		k.ledgers[fmt.Sprintf("%s/%d", k.path, i)] = newLedger(w, fmt.Sprint("striped-", i))
	}
	return k
}

func (k *stripedWork) turn(ctx context.Context, a *actor) error {
	s := mutex.NewStriped(a.c, k.path, stripes, mutex.WithLossPolicy(a.w.plan.Loss))
	var keys []string
	want := map[string]bool{}
	for _, i := range a.r.Perm(8)[:1+a.r.IntN(4)] {
		keys = append(keys, fmt.Sprint("order ", i))
		want[s.Of(keys[len(keys)-1]).Path()] = true
	}
	if len(keys) == 1 {
		m := s.Of(keys[0])
		l := k.ledgers[m.Path()]
		done := l.wants(ctx, a, "Acquire")
		lock, err := m.Acquire(ctx)
		done()
		if err != nil {
			return err
		}
		g := l.granted(a, &grant{hold: lock, path: lock.Path(), token: lock.FencingToken(), line: holders(a, m)})
		l.use(a, g, one(lock.Guard))
		return release(a, l, g, lock.Release)
	}
	done := a.timed(ctx, "Acquire")
	all, err := s.OfAll(keys...).Acquire(ctx)
	done()
	if err != nil {
		return err
	}
	var grants []*grant
	for _, held := range all.Parts() {
		lock := held.(*mutex.Lock)
		l := k.ledgers[path.Dir(lock.Path())]
		grants = append(grants, l.granted(a, &grant{hold: lock, path: lock.Path(), token: lock.FencingToken()}))
		delete(want, path.Dir(lock.Path()))
	}
	if len(want) > 0 {
		a.w.violate("striped: the locks of %v are there without %v", keys, want)
	}
	timer := time.NewTimer(below(a.r, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-all.Context().Done():
	}
	for _, g := range grants {
		g.claim.Returning()
		l := k.ledgers[path.Dir(g.path)]
		l.noticed(g)
		l.save(g)
	}
	return release(a, k.ledgers[path.Dir(grants[0].path)], grants[0], all.Release)
}

func (k *stripedWork) settle(w *world) {
	for dir, l := range k.ledgers {
		l.settle()
		w.empty(dir)
	}
}

// revocationWork: locks that are released on request, and such requests.
type revocationWork struct {
	l    *ledger
	path string

	mu    sync.Mutex
	asked map[string]time.Time // when the request was certainly in a holder's node
}

func (k *revocationWork) turn(ctx context.Context, a *actor) error {
	m := mutex.New(a.c, k.path, mutex.WithLossPolicy(a.w.plan.Loss), mutex.WithRevocation())
	if a.r.IntN(3) == 0 {
		if err := k.revoke(ctx, a, m); err != nil {
			return err
		}
	}
	done := k.l.wants(ctx, a, "Acquire")
	lock, err := m.Acquire(ctx)
	done()
	if err != nil {
		return err
	}
	g := k.l.granted(a, &grant{hold: lock, path: lock.Path(), token: lock.FencingToken()})
	since := time.Now()
	stay := below(a.r, pick(a.r, 3*time.Second, 3*time.Second, 2*a.w.slack()+3*time.Second))
	if a.w.calm() {
		stay = below(a.r, time.Second)
	}
	timer := time.NewTimer(stay)
	defer timer.Stop()
	select {
	case <-timer.C:
		k.heard(a, lock, g, since)
	case <-lock.Revoked():
		a.w.Logf("REVOKED %v", g)
	case <-lock.Context().Done():
	}
	k.l.save(g)
	if a.r.IntN(3) == 0 {
		k.l.guarded(a, g, lock.Guard())
	}
	return release(a, k.l, g, lock.Release)
}

func (k *revocationWork) revoke(ctx context.Context, a *actor, m *mutex.Mutex) error {
	done := a.timed(ctx, "Holder")
	holder, ok, err := m.Holder(ctx)
	done()
	if err != nil || !ok {
		return err
	}
	done = a.timed(ctx, "Revoke")
	err = mutex.Revoke(ctx, a.c, holder.Path)
	done()
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if _, before := k.asked[holder.Path]; !before {
			k.asked[holder.Path] = time.Now()
		}
	}
	return err
}

// heard reports a holder that still has its lock and has not noticed the request, long after the grant and the request.
// A contender that was asked before its grant reads the request after the grant, and the reply takes time.
func (k *revocationWork) heard(a *actor, lock *mutex.Lock, g *grant, since time.Time) {
	k.mu.Lock()
	at, asked := k.asked[lock.Path()]
	k.mu.Unlock()
	select {
	case <-lock.Revoked():
		return
	default:
	}
	if asked && min(time.Since(at), time.Since(since)) > a.w.slack() && lock.Valid() {
		a.w.violate("revocation: %v was asked to give up %v ago, and has not heard of it", g, time.Since(at))
	}
}

func (k *revocationWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path)
}
