package simulation_test

import (
	"context"

	"github.com/go-curator/curator/recipes/leader"
)

func init() {
	kinds["latch"] = func(w *world) workload { return &latchWork{newLedger(w, "latch").oneAtATime(), root + "/latch"} }
	kinds["selector"] = func(w *world) workload {
		return &selectorWork{newLedger(w, "selector").oneAtATime(), root + "/selector"}
	}
}

// lead has a leader's term.
func lead(
	a *actor, l *ledger, term *leader.Term, participants func(context.Context) ([]leader.Participant, error),
) *grant {
	g := l.granted(a, &grant{hold: term, path: term.Path(), token: term.FencingToken(),
		line: line(participants, func(p leader.Participant) string { return p.Path })})
	l.use(a, g, one(term.Guard))
	return g
}

// latchWork: a latch is made, waits, leads some terms, and leaves.
type latchWork struct {
	l    *ledger
	path string
}

func (k *latchWork) turn(ctx context.Context, a *actor) (err error) {
	latch, err := leader.NewLatch(a.c, k.path, leader.WithLossPolicy(a.w.plan.Loss))
	if err != nil {
		return err
	}
	defer func() { a.w.must(latch.Close()) }()
	for range 1 + a.r.IntN(2) {
		done := k.l.wants(ctx, a, "Await")
		term, err := latch.Await(ctx)
		done()
		if err != nil {
			return err
		}
		g := lead(a, k.l, term, latch.Participants)
		if a.r.IntN(2) == 0 {
			_ = release(a, k.l, g, term.Resign)
		}
		if a.w.calm() {
			break
		}
	}
	leaving, cancel := a.within(a.w.plan.SessionTimeout)
	defer cancel()
	defer a.timed(leaving, "Leave")()
	if err := latch.Leave(leaving, leader.Silent); err != nil {
		a.expected(leaving, err)
	}
	return nil
}

func (k *latchWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path)
}

// selectorWork: a selector's function runs while its client leads.
type selectorWork struct {
	l    *ledger
	path string
}

func (k *selectorWork) turn(ctx context.Context, a *actor) error {
	var sel *leader.Selector
	sel = leader.NewSelector(a.c, k.path, func(ctx context.Context) error {
		term := leader.TermOf(ctx)
		a.w.witness.leads(term)
		lead(a, k.l, term, sel.Participants)
		return nil
	}, leader.WithLossPolicy(a.w.plan.Loss))
	return sel.RunOnce(ctx)
}

func (k *selectorWork) settle(w *world) {
	k.l.settle()
	w.empty(k.path)
}
