package simulation_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

func init() { kinds[visits] = newVisitsWork }

// visits is the name of a work that [NewPlan] adds to others.
const visits = "visits"

// visitsWork: clients connect, contend for a lock, and close at any moment: while they wait, hold, or have a request in
// flight.
type visitsWork struct {
	l    *ledger
	path string
}

func newVisitsWork(w *world) workload { return &visitsWork{newLedger(w, visits), root + "/" + visits} }

// visitor is a client of a short time.
type visitor struct {
	a *actor
	c *framework.Client

	mu       sync.Mutex
	sessions []int64   // that it has had, not always all
	closed   bool      // its CloseContext has returned
	at       time.Time // when CloseContext returned
}

func (k *visitsWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	c, err := framework.New(a.w.ConnectString(), append(a.w.options(a.id), framework.WithDialer(a.p.Dial))...)
	if err != nil {
		a.w.violate("visits: client %d: %v", a.id, err)
		return nil
	}
	v := &visitor{a: a, c: c}

	calm := a.w.calm()
	early := a.r.IntN(2) == 0 && !calm
	stay, patience := below(
		a.r,
		pick(a.r, 2*time.Second, 3*a.w.plan.SessionTimeout),
	), below(
		a.r,
		pick(a.r, time.Second, 3*a.w.plan.SessionTimeout),
	)
	if calm {
		patience = a.w.plan.patience()
	}
	var leaving sync.WaitGroup
	if early {
		leaving.Go(func() {
			time.Sleep(stay)
			v.close(patience, calm)
		})
	}
	err = k.contend(ctx, v)
	if !early {
		v.close(patience, calm)
	}
	leaving.Wait()
	if early && errors.Is(err, framework.ErrClosed) {
		return errNotNow
	}
	return err
}

// contend acquires the lock, uses it, and releases it, or leaves the release to the client's end.
func (k *visitsWork) contend(ctx context.Context, v *visitor) error {
	a := v.a
	began := time.Now()
	session, err := v.c.Session(ctx)
	if err != nil {
		return v.over(began, err)
	}
	v.has(session.ID())
	var beside *framework.Pending[framework.CreateResult]
	if a.r.IntN(2) == 0 {
		beside = session.Client().
			Create().
			WithMode(framework.EphemeralSequential).
			InBackground().
			ForPath(ctx, root+"/visitor-", nil)
	}
	began = time.Now()
	done := k.l.wants(ctx, a, "Acquire")
	lock, err := mutex.New(v.c, k.path, mutex.WithLossPolicy(a.w.plan.Loss)).Acquire(ctx)
	done()
	if err != nil {
		return v.over(began, err)
	}
	id := a.w.witness.session(lock.Path()) // the client may have another session by now
	v.has(id)
	g := k.l.granted(a, &grant{hold: lock, path: lock.Path(), token: lock.FencingToken()})
	k.l.use(a, g, one(lock.Guard))
	if a.r.IntN(2) == 0 {
		limited, cancel := a.within(10 * time.Second)
		defer cancel()
		began := time.Now()
		done := a.timed(limited, "Release")
		err := lock.Release(limited)
		done()
		if err := v.over(began, err); err != nil && !errors.Is(err, framework.ErrClosed) {
			a.expected(limited, err)
		}
	}
	if beside != nil {
		began := time.Now()
		_, err := beside.Wait(ctx)
		if err := v.over(began, err); err != nil && !errors.Is(err, framework.ErrClosed) {
			a.expected(ctx, err)
		}
	}
	return nil
}

func (v *visitor) has(session int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sessions = append(v.sessions, session)
}

// over reports a call that has outlived its client, or that was begun after the client's end and did not return
// immediately.
func (v *visitor) over(began time.Time, err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.at.After(began) {
		began = v.at
	}
	if v.closed && time.Since(began) > late && errors.Is(err, framework.ErrClosed) {
		v.a.w.violate(
			"visits: client %d: a call returned %v after its client had closed: %v",
			v.a.id,
			time.Since(v.at),
			err,
		)
	}
	return err
}

// close ends the client. If it returns that the session is closed, the session's nodes are gone.
func (v *visitor) close(patience time.Duration, calm bool) {
	w := v.a.w
	ctx, cancel := context.WithTimeout(background, patience)
	defer cancel()
	began := time.Now()
	err := v.c.CloseContext(ctx)
	w.Logf("CLOSED visitor of client %d: %v", v.a.id, err)
	if over := time.Since(began) - patience; over > 2*late { // a part of it is the time in which its goroutines end
		w.violate("visits: client %d: CloseContext returned %v after its context's end", v.a.id, over)
	}
	v.mu.Lock()
	v.closed, v.at = true, time.Now()
	sessions := v.sessions
	v.mu.Unlock()
	if err == nil {
		v.gone(sessions)
	} else if wrong := closedWrongly(err, len(sessions) > 0, calm && !w.plan.Tracks); wrong != "" {
		w.violate("visits: client %d %s: %v", v.a.id, wrong, err)
	}
	if _, err := v.c.CheckExists().ForPath(background, root); !errors.Is(err, framework.ErrClosed) {
		w.violate("visits: client %d, which is closed, reads: %v", v.a.id, err)
	}
}

// closedWrongly describes an error of CloseContext that must not occur, "" if err may occur.
func closedWrongly(err error, hadSession, calm bool) string {
	switch {
	case calm && (hadSession || !errors.Is(err, framework.ErrUnacknowledged)):
		// A client without a session may have met only members that closed its connection, as they do without a leader:
		// any of them may have opened a session before. A client that follows the servers' list disconnects from a
		// member that is not in the list, perhaps at this very moment: for such a client calm is false.
		return "does not close"
	case !errors.Is(err, framework.ErrUnacknowledged) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, framework.ErrSessionLost):
		return "gets an unexpected error from CloseContext"
	}
	return ""
}

// gone reports nodes of sessions that have been closed.
func (v *visitor) gone(sessions []int64) {
	leader := v.a.w.newest()
	if leader == nil {
		return
	}
	sessions = slices.DeleteFunc(slices.Clone(sessions), func(id int64) bool {
		return v.a.w.MayHaveEnded(id) // a server whose clock is ahead may have called it expired on its own
	})
	for _, s := range leader.Sessions() {
		if slices.Contains(sessions, s.ID) {
			v.a.w.violate(
				"visits: client %d has closed its session, and it lives, with %v",
				v.a.id,
				s.Ephemerals,
			)
		}
	}
	for path, node := range leader.Tree() {
		if node.Stat.EphemeralOwner != 0 && slices.Contains(sessions, node.Stat.EphemeralOwner) {
			v.a.w.violate("visits: client %d has closed its session, and %s is left", v.a.id, path)
		}
	}
}

func (k *visitsWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path)
}
