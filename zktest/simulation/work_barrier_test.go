package simulation_test

import (
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/recipes/barrier"
)

func init() {
	kinds["barrier"] = func(*world) workload { return &barrierWork{path: root + "/barrier"} }
	kinds["double"] = newDoubleWork
}

// barrierWork: the first client sets and removes the barrier, the others wait for its removal.
type barrierWork struct {
	path string

	mu  sync.Mutex
	set time.Time // since when it is certainly set; zero: it may not be
}

func (k *barrierWork) certain(since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set = since
}

func (k *barrierWork) turn(ctx context.Context, a *actor) error {
	b := barrier.New(a.c, k.path)
	if a.id == 0 {
		done := a.timed(ctx, "Set")
		err := b.Set(ctx)
		done()
		if err != nil {
			return err
		}
		k.certain(time.Now())
		time.Sleep(below(a.r, pick(a.r, 3*time.Second, 3*a.w.behind())))
		k.certain(time.Time{})
		defer a.timed(ctx, "Remove")()
		return b.Remove(ctx)
	}
	began := time.Now()
	done := a.timed(ctx, "Wait")
	err := b.Wait(ctx)
	done()
	k.mu.Lock()
	defer k.mu.Unlock()
	// A leader that has lost its quorum, and its followers, may show the state from before the barrier was set. The
	// time for which they may is known, except for members that serve without a quorum.
	if err == nil && !k.set.IsZero() && a.w.known(k.set, began) && !a.w.plan.ReadOnly {
		a.w.violate(
			"barrier: client %d, which began to wait %v ago, is let through; the barrier has been set for %v",
			a.id,
			time.Since(began),
			time.Since(k.set),
		)
	}
	return err
}

func (k *barrierWork) settle(w *world) {
	if l := w.ens.Leader(); l >= 0 && w.ens.Member(l).Exists(k.path) {
		w.violate("barrier: it is still set")
	}
}

// doubleWork: all clients try to enter and leave together, and once more at a new barrier when the faults are over.
type doubleWork struct{ during, after round }

// round is one double barrier with its members.
type round struct {
	path string

	mu      sync.Mutex
	members []member
	broken  bool // a client has given up; from then on rounds may overlap, as the recipe documents
}

func newDoubleWork(w *world) workload {
	return &doubleWork{
		round{path: root + "/double", members: make([]member, w.plan.Clients)},
		round{path: root + "/double-after", members: make([]member, w.plan.Clients)},
	}
}

// member is the known state of a client's membership.
type member struct {
	state   int       // outside, entering, in, leaving
	since   time.Time // when that state began
	finally bool      // it has had its last turn
	held    *barrier.Member
}

const (
	outside = iota
	entering
	inside
	leaving
)

func (k *round) move(a *actor, state int, held *barrier.Member) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	m := &k.members[a.id]
	switch state {
	case inside: // no member may have been outside for longer than the node of an abandoned attempt can remain
		for i, other := range k.members {
			if other.state == outside && other.since.Before(m.since) &&
				(!k.broken || now.Sub(other.since) > a.w.slack()) &&
				!a.w.plan.Meddling {
				a.w.violate(
					"double: client %d is in, and client %d has been outside for %v",
					a.id,
					i,
					now.Sub(other.since),
				)
			}
		}
	}
	m.state, m.since, m.held = state, now, held
}

// everybody reports whether all clients have had their last turn.
func (k *round) everybody(a *actor, had bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.members[a.id].finally = k.members[a.id].finally || had
	for _, m := range k.members {
		if !m.finally {
			return false
		}
	}
	return true
}

func (k *doubleWork) turn(ctx context.Context, a *actor) error {
	if !a.w.calm() {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second+below(a.r, 10*time.Second))
		defer cancel()
		return a.givenUp(limited, k.during.once(limited, a))
	}
	// After the faults each client continues until all clients have been through.
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	go func() {
		defer cancel()
		for limited.Err() == nil && !k.after.everybody(a, false) {
			time.Sleep(100 * time.Millisecond)
		}
	}()
	err := a.givenUp(limited, k.after.once(limited, a))
	if k.after.everybody(a, err == nil) {
		return nil
	}
	if err == nil {
		err = errNotNow
	}
	return err
}

// givenUp returns errNotNow for a turn that was given up.
func (a *actor) givenUp(limited context.Context, err error) error {
	if err != nil && limited.Err() != nil {
		a.expected(limited, err)
		return errNotNow
	}
	return err
}

func (k *round) once(ctx context.Context, a *actor) error {
	d := barrier.NewDouble(a.c, k.path, len(k.members))
	k.move(a, entering, nil)
	done := a.timed(ctx, "Enter")
	m, err := d.Enter(ctx)
	done()
	if err != nil {
		k.mu.Lock()
		k.broken = true
		k.mu.Unlock()
		k.move(a, outside, nil)
		return err
	}
	k.move(a, inside, m)
	a.w.Logf("INSIDE the double barrier: client %d", a.id)
	time.Sleep(below(a.r, time.Second))
	k.move(a, leaving, nil)
	leaving, cancel := a.within(20 * time.Second)
	defer cancel()
	done = a.timed(leaving, "Leave")
	err = m.Leave(leaving)
	done()
	a.w.Logf("OUTSIDE the double barrier: client %d: %v", a.id, err)
	k.left(a, err)
	k.move(a, outside, nil)
	if err != nil {
		a.expected(leaving, err)
	}
	return nil
}

// left checks that no member that was inside when this one left is still inside.
func (k *round) left(a *actor, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = k.broken || err != nil
	if k.broken || a.w.plan.Meddling {
		return
	}
	began := k.members[a.id].since
	for i, other := range k.members {
		if i != a.id && other.state == inside && other.since.Before(began) &&
			other.held.Context().Err() == nil {
			a.w.violate(
				"double: client %d has left, and client %d is still inside, since %v",
				a.id,
				i,
				time.Since(other.since),
			)
		}
	}
}

func (k *doubleWork) settle(w *world) {
	w.empty(k.during.path)
	w.empty(k.after.path)
}
