package simulation_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/counter"
)

func init() { kinds["adders"] = newAddersWork }

// addersWork: all clients add to one number, each through a counter of its own, which their actors share. No
// addition is executed twice and none is lost: nobody gets the sum of another one, each client's sums grow,
// and in the end the number is what was acknowledged and a part of what is unknown.
type addersWork struct {
	path string

	mu      sync.Mutex
	numbers map[*framework.Client]*counter.Long
	sums    map[int64]int // and whose they are
	last    map[int]int64 // by actor
	acked   int64
	unknown int64
}

func newAddersWork(w *world) workload {
	k := &addersWork{path: root + "/adders", numbers: map[*framework.Client]*counter.Long{},
		sums: map[int64]int{}, last: map[int]int64{}}
	w.must(w.ens.Member(0).Create(k.path, nil))
	return k
}

// number is the one that the actors of a client share.
func (k *addersWork) number(c *framework.Client) *counter.Long {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.numbers[c] == nil {
		k.numbers[c] = counter.NewLong(c, k.path)
	}
	return k.numbers[c]
}

func (k *addersWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	n := k.number(a.c)
	for range 1 + a.r.IntN(8) {
		done := a.timed(ctx, "Add")
		sum, err := n.Add(ctx, 1)
		done()
		if err != nil {
			return k.failed(err)
		}
		k.added(a, sum)
	}
	return nil
}

// failed counts what is unknown: that is no failure of the turn.
func (k *addersWork) failed(err error) error {
	if !errors.Is(err, framework.ErrOutcomeUnknown) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unknown++
	return fmt.Errorf("%w: %w", errNotNow, err)
}

func (k *addersWork) added(a *actor, sum int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acked++
	if other, twice := k.sums[sum]; twice {
		a.w.violate("adders: actors %d and %d have both made %d", a.who, other, sum)
	}
	if k.sums[sum] = a.who; sum <= k.last[a.who] {
		a.w.violate("adders: actor %d makes %d after %d", a.who, sum, k.last[a.who])
	}
	k.last[a.who] = sum
}

func (k *addersWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	data, _, err := w.ens.Member(l).Get(k.path)
	w.must(err)
	sum := int64(0)
	if len(data) == 8 {
		sum = int64(binary.BigEndian.Uint64(data))
	}
	if sum < k.acked || sum > k.acked+k.unknown {
		w.violate("adders: the number is %d after %d additions and %d unknown outcomes",
			sum, k.acked, k.unknown)
	}
}
