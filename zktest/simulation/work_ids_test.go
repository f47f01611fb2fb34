package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
)

func init() { kinds["ids"] = newIDsWork }

// idsWork: all clients take numbers from one. No client gets a number of another client, and the numbers of one process
// grow. Where an administrator sets the number back, processes may get numbers of others, but none gets its own again,
// and each continues when the number is set beyond all.
type idsWork struct {
	path string

	mu    sync.Mutex
	ids   map[*framework.Client]*counter.IDs
	given map[int64]int // number, and the client that has it
	last  map[int]int64 // by client
	most  int64         // of all clients
	back  bool          // it was set back
}

func newIDsWork(*world) workload {
	return &idsWork{path: root + "/ids", ids: map[*framework.Client]*counter.IDs{}, given: map[int64]int{}, last: map[int]int64{}}
}

// of returns the IDs that the actors of a client share.
func (k *idsWork) of(c *framework.Client) *counter.IDs {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ids[c] == nil {
		k.ids[c] = counter.NewIDs(counter.NewLong(c, k.path), 5)
	}
	return k.ids[c]
}

func (k *idsWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	k.setBack(a)
	ids := k.of(a.c)
	for range 1 + a.r.IntN(12) {
		done := a.timed(ctx, "Next")
		id, err := ids.Next(ctx)
		done()
		switch {
		case errors.Is(err, framework.ErrOutcomeUnknown):
			return fmt.Errorf("%w: %w", errNotNow, err)
		case errors.Is(err, counter.ErrBadValue) && k.wasSetBack():
			if err := k.mend(ctx, a); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			k.got(a, id)
		}
	}
	return nil
}

func (k *idsWork) got(a *actor, id int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, some := k.last[a.id]
	if other, twice := k.given[id]; twice && !k.back {
		a.w.violate("ids: clients %d and %d have both got %d", a.id, other, id)
	}
	if some && id <= last {
		a.w.violate("ids: client %d gets %d after %d", a.id, id, last)
	}
	k.given[id], k.last[a.id], k.most = a.id, id, max(k.most, id)
}

// setBack deletes the number or sets it back, once, where an administrator meddles.
func (k *idsWork) setBack(a *actor) {
	leader := a.w.newest()
	if !a.w.plan.Meddling || a.w.calm() || leader == nil || a.w.Elapsed() < 20*time.Second || a.r.IntN(4) > 0 {
		return
	}
	k.mu.Lock()
	again := k.back
	k.back = true
	k.mu.Unlock() // the writes below take until they are committed
	if again {
		return
	}
	if a.r.IntN(2) == 0 {
		_ = leader.Set(k.path, make([]byte, 8))
	} else {
		_ = leader.DeleteAll(k.path) // with the marks below
	}
}

func (k *idsWork) wasSetBack() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.back
}

// mend sets the number beyond all that clients have.
func (k *idsWork) mend(ctx context.Context, a *actor) error {
	k.mu.Lock()
	most := k.most
	k.mu.Unlock()
	defer a.timed(ctx, "Set")()
	err := counter.NewLong(a.c, k.path).Set(ctx, most+1_000)
	if errors.Is(err, framework.ErrOutcomeUnknown) {
		err = fmt.Errorf("%w: %w", errNotNow, err)
	}
	return err
}

func (k *idsWork) settle(w *world) {
	if len(k.given) == 0 {
		w.violate("ids: nobody has got any")
	}
}
