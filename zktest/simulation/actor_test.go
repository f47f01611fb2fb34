package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest/chaos"
)

// actor is a client, or one of its contenders, at one work.
type actor struct {
	w    *world
	p    *chaos.Process
	c    *framework.Client
	id   int // of the client
	who  int // unique at this work
	work workload
	r    *rand.Rand
	turn int

	called time.Duration // when it began to wait for its next grant
}

// live takes turns until the faults are over, and one more turn, which must not fail. If its process ends before, the
// next process has an actor in its place.
func (a *actor) live() {
	defer func() {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		if !a.dead() {
			a.w.active--
		}
	}()
	for !a.w.calm() && !a.dead() {
		limit, across := a.w.plan.patience(), false
		if a.r.IntN(4) == 0 {
			limit = below(a.r, 2*time.Second)
		} else if rest := a.w.plan.Trouble - a.w.Elapsed(); rest < limit { // the faults stop while it waits: it must get its turn
			limit, across = rest+mending+a.w.plan.ending(), true
		}
		a.turn++
		ctx, cancel := context.WithTimeout(a.own(), limit)
		a.called = a.w.Elapsed()
		err := a.work.turn(ctx, a)
		cancel()
		if err != nil && across && !a.dead() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			a.w.violate(
				"client %d: who waited at %s when the faults stopped waited on until the end of patience: %v",
				a.id,
				a.name(),
				err,
			)
		}
		if err != nil {
			a.expected(ctx, err)
			time.Sleep(below(a.r, time.Second))
			continue
		}
		a.w.Count("turns", 1)
		a.idle()
	}
	ctx, cancel := context.WithTimeout(a.own(), a.w.plan.ending())
	defer cancel()
	var err error
	for ctx.Err() == nil && !a.dead() {
		// The connection may still be suspended, and a right granted before may be lost in this turn.
		a.called = a.w.Elapsed()
		if err = a.work.turn(ctx, a); err == nil {
			return
		}
		a.expected(ctx, err)
		time.Sleep(100 * time.Millisecond)
	}
	if a.dead() {
		return
	}
	a.w.violate(
		"client %d: no turn at %s within %v after the last fault: %v",
		a.id,
		a.name(),
		a.w.plan.ending(),
		err,
	)
}

// dead reports whether its process is asked to stop, or has ended.
func (a *actor) dead() bool { return a.p.Context().Err() != nil }

// own returns a context that names the owner of a hold.
func (a *actor) own() context.Context {
	return context.WithValue(background, turnKey{}, fmt.Sprint(a.who, " ", a.turn))
}

// mending is how much later the faults may end: a member whose data is lost waits for the other members.
const mending = time.Minute

func (a *actor) name() string {
	return strings.TrimPrefix(fmt.Sprintf("%T", a.work), "*simulation_test.")
}

// expected reports an error that a caller could not distinguish from a mistake in its own code.
func (a *actor) expected(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case framework.Retryable(err),
		errors.Is(err, framework.ErrSessionLost),
		errors.Is(err, framework.ErrNodeDeleted),
		errors.Is(err, framework.ErrSuspended),
		errors.Is(
			err,
			framework.ErrNotConnected,
		),
		errors.Is(err, framework.ErrReleased),
		errors.Is(err, framework.ErrTimeoutTooShort) && a.w.plan.shortens(),
		errors.Is(err, errNotNow),
		errors.Is(err, framework.ErrClosed) && a.dead(),
		errors.Is(err, framework.ErrNotReadOnly) && a.w.plan.ReadOnly:
	default:
		a.w.violate("client %d, %s: an unexpected error: %v", a.id, a.name(), err)
	}
}

// rest pauses before a turn at something that all clients see: the more clients, the longer the pause.
func (a *actor) rest() { time.Sleep(below(a.r, 2*time.Second*time.Duration(1+a.w.plan.Clients/8))) }

// errNotNow means that a turn was not taken, which is not a failure.
var errNotNow = errors.New("not now")

// late is the time after the end of its context within which a call must return.
const late = 50 * time.Millisecond

// timed reports a call that outlives its context (promise P4).
func (a *actor) timed(ctx context.Context, what string) func() {
	from := time.Now()
	a.called = a.w.Elapsed()
	if end, ok := ctx.Deadline(); ok && end.After(from) {
		from = end
	}
	return func() {
		if over := time.Since(from); ctx.Err() != nil && over > late {
			a.w.violate("client %d: %s returned %v after its context's end", a.id, what, over)
		}
	}
}

// within limits a step that is not the turn's main one.
func (a *actor) within(d time.Duration) (context.Context, context.CancelFunc) {
	if a.w.calm() {
		d = a.w.plan.patience()
	} else {
		d = below(a.r, d)
	}
	return context.WithTimeout(background, d)
}
