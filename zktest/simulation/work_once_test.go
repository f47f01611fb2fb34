package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/recipes/once"
)

func init() {
	kinds["once"] = func(w *world) workload { return newOnceWork(w, "once") }
	kinds["atmostonce"] = func(w *world) workload { return newOnceWork(w, "atmostonce", once.AtMostOnce()) }
}

// onceWork: all clients run a function for slots of time. No slot is run by two at a time, and tokens grow. At least
// once: it is run again only after a run that failed, or was not recorded in time (see again). At most once: it is not
// run again. Do returns Done for a slot only if a run had returned nil.
type onceWork struct {
	name string
	most bool
	opts []once.Option
	path string

	mu    sync.Mutex
	slots map[string]*slotRuns
	now   context.Context // of the current run
	token int64
}

type slotRuns struct {
	begun, returned int
	recorded        []string // the locks of runs whose Do has reported the record
}

func newOnceWork(w *world, name string, opts ...once.Option) workload {
	return &onceWork{name: name, most: len(opts) > 0, opts: opts, path: root + "/" + name,
		slots: map[string]*slotRuns{}}
}

func (k *onceWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	slot := once.At(time.Now(), 4*time.Second)
	done := a.timed(ctx, "Do")
	lock := ""
	outcome, err := once.New(a.c, k.path, append(k.opts[:len(k.opts):len(k.opts)], once.WithKeep(1000))...).
		Do(ctx, "job", slot, func(ctx context.Context, run once.Run) error {
			lock = run.Path()
			return k.run(ctx, a, run)
		})
	if outcome != once.Ran { // a run may return a second late, for the record
		done()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.slots[slot.String()]
	switch {
	case outcome == once.Ran && err == nil:
		s.recorded = append(s.recorded, lock)
	case outcome == once.Done && (s == nil || s.returned == 0):
		a.w.violate("%s: %v is said to be done, and is not", k.name, slot)
	case outcome == once.Begun && !k.most:
		a.w.violate("%s: %v is said to be begun", k.name, slot)
	}
	if errors.Is(err, once.ErrNotRecorded) {
		return fmt.Errorf("%w: %w", errNotNow, err)
	}
	return err
}

func (k *onceWork) run(ctx context.Context, a *actor, run once.Run) error {
	k.begins(ctx, a, run)
	takes := below(a.r, 100*time.Millisecond)
	if a.r.IntN(5) == 0 && !a.w.calm() { // as long as it takes to lose a session
		takes = below(a.r, 3*a.w.plan.SessionTimeout)
	}
	select {
	case <-ctx.Done():
	case <-time.After(takes):
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == ctx {
		k.now = nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if a.r.IntN(10) == 0 && !a.w.calm() {
		return errNotNow
	}
	k.slots[run.Slot.String()].returned++
	return nil
}

func (k *onceWork) begins(ctx context.Context, a *actor, run once.Run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := run.Slot.String()
	s := k.slots[name]
	if s == nil {
		s = &slotRuns{}
		k.slots[name] = s
	}
	switch s.begun++; {
	case k.most && s.begun > 1:
		a.w.violate("%s: %d runs %s once more", k.name, a.who, name)
	case k.again(a.w, s, run):
		a.w.violate("%s: %d runs %s, which is done", k.name, a.who, name)
	case k.now != nil && k.now.Err() == nil && !a.w.plan.Meddling:
		a.w.violate("%s: %d runs %s beside another", k.name, a.who, name)
	case run.FencingToken <= k.token && !a.w.plan.Meddling:
		a.w.violate("%s: the token %d after %d", k.name, run.FencingToken, k.token)
	}
	k.now, k.token = ctx, max(k.token, run.FencingToken)
}

// again reports whether a run begins although its slot was done. The run looked its slot up at a member that had
// executed the create of its own lock, and the deletes of all locks ahead; so it saw a record from before its lock, and
// a record from before the delete of the writer's lock. It may have missed a record whose writer had lost its lock
// first: the next contender may have looked before the record was there, or at a member that lags, whose next reply is
// as old. Nor does a run see writes of others after its own lock was deleted. At most once, the record from before may
// be the run's own: it was written under a lock that was lost before the reply came.
func (k *onceWork) again(w *world, s *slotRuns, run once.Run) bool {
	if leader := w.newest(); leader != nil && !k.most {
		_, record, err := leader.Get(k.path + "/job/slots/" + run.Slot.String())
		if err == nil && record.Czxid < run.FencingToken {
			return true
		}
	}
	return w.witness.lasts(run.Path()) && slices.ContainsFunc(s.recorded, w.witness.lasts)
}

func (k *onceWork) settle(w *world) {
	w.empty(k.path + "/job/lock")
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, s := range k.slots {
		if len(s.recorded) > 0 && !w.ens.Member(l).Exists(k.path+"/job/slots/"+name) {
			w.violate("%s: %s has no record", k.name, name)
		}
	}
}
