package counter

import (
	"context"
	"sync"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Integral is the constraint of numbers.
type Integral interface{ int32 | int64 }

// Number is a number in a node that every client may add to. Make one and share it: deltas that are added through one
// Number at the same time are added in one write. Safe for concurrent use.
//
// Corresponds to Curator's DistributedAtomicNumber, and shares the node with it: persistent, 4 or 8 bytes,
// big-endian, and none for 0. Its other methods are [Value]'s.
type Number[T Integral] struct {
	*Value[T]
	turns turns

	mu      sync.Mutex
	waiting []*adder[T]        // not yet in a write; guarded by mu
	batch   []*adder[T]        // in the write in flight; guarded by mu
	callers int                // those in waiting and batch that have not left; guarded by mu
	running bool               // the writer runs; guarded by mu
	stop    context.CancelFunc // ends the writer's round when all have left; guarded by mu

	known current[T] // the writer's
	sent  bool       // the batch may have been written; the writer's
}

// Long is a Number of eight bytes. Corresponds to Curator's DistributedAtomicLong.
type Long = Number[int64]

// Integer is a Number of four bytes. Corresponds to Curator's DistributedAtomicInteger.
type Integer = Number[int32]

// NewLong makes the number at path, as [NewValue] does.
func NewLong(client *framework.Client, path string, opts ...Option) *Long {
	return newNumber(client, path, longs, opts)
}

// NewInteger makes the number at path, as [NewValue] does.
func NewInteger(client *framework.Client, path string, opts ...Option) *Integer {
	return newNumber(client, path, ints, opts)
}

func newNumber[T Integral](client *framework.Client, path string, codec Codec[T], opts []Option) *Number[T] {
	n := &Number[T]{Value: NewValue(client, path, codec)}
	n.turns.client = client
	if n.reg.err == nil {
		n.reg.err = line.Configure(client, path, &n.turns, opts)
	}
	return n
}

// adder is a waiting Add.
type adder[T Integral] struct {
	delta T
	taken bool // is in a batch; guarded by the Number's mu
	left  bool // its caller's context has ended; guarded by the Number's mu
	done  chan struct{}
	sum   T
	err   error
}

// Add adds delta, which may be negative, and returns the sum; the number before was the sum minus delta. It makes the
// node, and missing parents as containers, if there is none.
//
// Deltas that are added through one Number at the same time go into one write, in the order of the calls; each Add
// returns its own sum. When other processes are faster it tries again until ctx ends; then it was not executed. It
// waits through a lost connection, or for one, as long as the retry policy allows.
//
// Each delta is added once or not at all, also when replies are lost, as the package's documentation says. If that
// cannot be known the error matches ErrOutcomeUnknown, also when ctx ends while the write is in flight. Other errors:
// ErrOverflow, if the sum with the number at the time of the call does not fit; ErrBadValue if the node contains no
// such number; ErrNoAuth without READ and WRITE on the node; the errors that every operation can return. None of them
// has added anything.
//
// Corresponds to Curator's add, subtract, increment and decrement.
func (n *Number[T]) Add(ctx context.Context, delta T) (T, error) {
	if n == nil {
		return 0, wrap("", "add", framework.ErrNoClient)
	}
	if err := n.ready(ctx); err != nil {
		return 0, n.wrap("add", err)
	}
	a := &adder[T]{delta: delta, done: make(chan struct{})}
	n.join(a)
	select {
	case <-a.done:
	case <-ctx.Done():
		if err := n.quit(ctx, a); err != nil {
			return 0, n.wrap("add", err)
		}
	}
	return a.sum, n.wrap("add", a.err)
}
