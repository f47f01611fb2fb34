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

	added          chan struct{} // 1 slot: an add was enqueued
	mu             sync.Mutex
	waitingAdds    []*pendingAdd[T]   // not yet in a write; guarded by mu
	batch          []*pendingAdd[T]   // in the write in flight; guarded by mu
	callersWaiting int                // those in waitingAdds and batch that have not left; guarded by mu
	writerRuns     bool               // the writer runs; guarded by mu
	cancelRound    context.CancelFunc // ends the writer's round when all have left; guarded by mu

	lastKnown knownNumber[T] // the writer's
	maybeSent bool           // the batch may have been written; the writer's
}

// Long is a Number of eight bytes. Corresponds to Curator's DistributedAtomicLong.
type Long = Number[int64]

// Integer is a Number of four bytes. Corresponds to Curator's DistributedAtomicInteger.
type Integer = Number[int32]

// NewLong makes the number at path, as [NewValue] does.
func NewLong(client *framework.Client, path string, opts ...Option) *Long {
	return newNumber(client, path, longCodec, opts)
}

// NewInteger makes the number at path, as [NewValue] does.
func NewInteger(client *framework.Client, path string, opts ...Option) *Integer {
	return newNumber(client, path, intCodec, opts)
}

func newNumber[T Integral](client *framework.Client, path string, codec Codec[T], opts []Option) *Number[T] {
	n := &Number[T]{Value: NewValue(client, path, codec), added: make(chan struct{}, 1)}
	n.turns.client, n.turns.path = client, path
	if n.node.err == nil {
		n.node.err = line.Configure(client, path, &n.turns, opts)
	}
	return n
}

// pendingAdd is a waiting Add.
type pendingAdd[T Integral] struct {
	delta      T
	inBatch    bool // is in a batch; guarded by the Number's mu
	callerLeft bool // its caller's context has ended; guarded by the Number's mu
	done       chan struct{}
	sum        T
	err        error
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
		return 0, wrapError("", "add", framework.ErrNoClient)
	}
	if err := n.checkReady(ctx); err != nil {
		return 0, n.wrapError("add", err)
	}
	a := &pendingAdd[T]{delta: delta, done: make(chan struct{})}
	n.enqueueAdd(a)
	select {
	case <-a.done:
	case <-ctx.Done():
		if err := n.withdrawAdd(ctx, a); err != nil {
			return 0, n.wrapError("add", err)
		}
	}
	return a.sum, n.wrapError("add", a.err)
}
