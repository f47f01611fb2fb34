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

func init() {
	kinds["adders"] = newAddersWork
	kinds["limits"] = newLimitsWork
}

// addersWork: all clients add to one number, each through a counter that the client's actors share. No addition is
// executed twice and none is lost: no two additions return the same sum, each client's sums grow, and in the end the
// number is the sum of the acknowledged additions and of a part of the additions with unknown outcome.
type addersWork struct {
	path string

	mu      sync.Mutex
	numbers map[*framework.Client]*counter.Long
	sums    map[int64]int // the client of each sum
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

// number returns the counter that the actors of a client share.
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

// failed counts additions with unknown outcome, which do not fail the turn.
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

// limitsWork: all clients add to one number of 32 bits, and subtract, so much that every other sum does not fit. An
// addition was refused only if the number was such that the sum did not fit.
type limitsWork struct {
	path string

	mu      sync.Mutex
	numbers map[*framework.Client]*counter.Integer
}

// stride is the amount that is added: four numbers fit.
const stride = 1 << 30

func newLimitsWork(w *world) workload {
	return &limitsWork{path: root + "/limits", numbers: map[*framework.Client]*counter.Integer{}}
}

// number returns the counter that the actors of a client share.
func (k *limitsWork) number(c *framework.Client) *counter.Integer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.numbers[c] == nil {
		k.numbers[c] = counter.NewInteger(c, k.path)
	}
	return k.numbers[c]
}

// is returns the number, and the zxid of its last write, 0 if that is not known.
func (k *limitsWork) is(w *world) (n int32, by int64) {
	leader := w.newest()
	if leader == nil {
		return 0, 0
	}
	data, stat, err := leader.Get(k.path)
	if err != nil || len(data) != 4 {
		return 0, 0
	}
	return int32(binary.BigEndian.Uint32(data)), stat.Mzxid
}

func (k *limitsWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	n := k.number(a.c)
	for range 1 + a.r.IntN(8) {
		delta := pick(a.r, int32(stride), -stride)
		_, by := k.is(a.w)
		done := a.timed(ctx, "Add")
		sum, err := n.Add(ctx, delta)
		done()
		is, still := k.is(a.w)
		switch fits := int64(is)+int64(delta) == int64(is+delta); {
		case errors.Is(err, counter.ErrOverflow):
			if by != 0 && by == still && fits {
				a.w.violate("limits: client %d: %d does not fit, and the number was %d all the time: %v", a.id, delta, is, err)
			}
			a.w.Count("refused sums", 1)
		case errors.Is(err, framework.ErrOutcomeUnknown):
			return fmt.Errorf("%w: %w", errNotNow, err)
		case err != nil:
			return err
		case sum%stride != 0 || int64(sum)-int64(delta) != int64(sum-delta):
			a.w.violate("limits: client %d has added %d, and the sum is %d", a.id, delta, sum)
		}
	}
	return nil
}

func (k *limitsWork) settle(w *world) {
	if n, by := k.is(w); by != 0 && n%stride != 0 {
		w.violate("limits: the number is %d", n)
	}
}
