package simulation_test

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/zktest/chaos"
)

func init() {
	kinds["claim"] = newClaimWork
	crowded["claim"] = true
}

// claimWork: all clients, and several actors of one client, claim the same name, with the same data. One owner has it
// at a time, and tokens grow from owner to owner. Some connections break while their owner releases, and some
// contenders wait for that moment.
type claimWork struct {
	path  string
	right *chaos.Right
}

func newClaimWork(w *world) workload {
	w.directory(root + "/claim")
	return &claimWork{root + "/claim/name", w.Exclusive("claim").ByClock()}
}

func (k *claimWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	claim, err := k.try(ctx, a)
	if errors.Is(err, node.ErrNotAcquired) && a.r.IntN(3) == 0 && !a.w.calm() {
		claim, err = k.await(ctx, a)
	} else if a.r.IntN(3) == 0 { // it tries often, and so may succeed right after a release
		for range 50 {
			if !errors.Is(err, node.ErrNotAcquired) || a.w.calm() {
				break
			}
			time.Sleep(below(a.r, 40*time.Millisecond))
			claim, err = k.try(ctx, a)
		}
	}
	if err != nil {
		return k.taken(a, notTaken(err, node.ErrNotAcquired), err)
	}
	// Where an administrator deletes the node, the next owner may have its claim before the last one knows. This can
	// happen with all holds; but here their nodes have one path, so that chaos cannot distinguish them.
	var g *chaos.Grant
	if !a.w.plan.Meddling {
		g = k.right.Claimed(a.p, chaos.Claim{
			Until: claim.Context(), Token: claim.FencingToken(), Session: sessionOf(a.c),
		})
	}
	a.w.Count("claims", 1)
	end := time.Now().Add(below(a.r, pick(a.r, time.Second, 2*a.w.plan.SessionTimeout)))
	for time.Now().Before(end) && !a.w.calm() && claim.Context().Err() == nil {
		time.Sleep(below(a.r, 500*time.Millisecond))
		if claim.Valid() && claim.Context().Err() != nil {
			a.w.violate("claim: valid after the end of its context")
		}
	}
	if g != nil {
		g.Returning()
	}
	within, cancel := a.within(10 * time.Second)
	defer cancel()
	defer a.timed(within, "Release")()
	breaks := a.r.IntN(4) == 0 && a.w.plan.Before == "" && !a.w.calm() // the connection breaks during the release
	if id := sessionOf(a.c); id != 0 && breaks {
		defer time.AfterFunc(below(a.r, 20*time.Millisecond), func() { a.w.ens.Cut(id) }).Stop()
	}
	if err := claim.Release(within); err != nil {
		a.expected(within, err)
	}
	return nil
}

func (k *claimWork) try(ctx context.Context, a *actor) (*node.Claim, error) {
	defer a.timed(ctx, "TryClaim")()
	return node.TryClaim(ctx, a.c, k.path, nil, node.WithLossPolicy(a.w.plan.Loss))
}

// await waits for the name, for some seconds.
func (k *claimWork) await(ctx context.Context, a *actor) (*node.Claim, error) {
	within, cancel := context.WithTimeout(ctx, below(a.r, 10*time.Second))
	defer cancel()
	defer a.timed(within, "AwaitClaim")()
	claim, err := node.AwaitClaim(within, a.c, k.path, nil, node.WithLossPolicy(a.w.plan.Loss))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, node.ErrNotAcquired
	}
	return claim, err
}

// taken counts a refused claim as a turn after the faults.
func (k *claimWork) taken(a *actor, marked, err error) error {
	if marked != err && a.w.calm() {
		return nil
	}
	return marked
}

func (k *claimWork) settle(w *world) { w.empty(root + "/claim") }
