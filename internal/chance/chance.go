// Package chance is where the moments come from at which something is tried again, and the order in which servers are tried: random ones, so that
// clients do not move in step. A simulation has them from a seed, so that the same happens again.
package chance

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

var (
	seeded atomic.Bool
	mu     sync.Mutex
	source *rand.Rand // guarded by mu; while seeded
)

// Seed makes what follows depend on the seed, until end is called. It is for the whole process, and for one simulation at a time.
func Seed(seed uint64) (end func()) {
	mu.Lock()
	defer mu.Unlock()
	source = rand.New(rand.NewPCG(seed, 1<<32))
	seeded.Store(true)
	return func() { seeded.Store(false) }
}

// N returns a random number from 0 up to but excluding n; 0 if there is none.
func N[T ~int64](n T) T {
	switch {
	case n <= 0:
		return 0
	case !seeded.Load():
		return rand.N(n)
	}
	mu.Lock()
	defer mu.Unlock()
	return T(source.Int64N(int64(n)))
}

// Shuffle puts n elements into a random order.
func Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, int(N(int64(i+1))))
	}
}

// UpTo returns a random duration from half of d to d: the pause of those who try again and must not go on in step.
func UpTo(d time.Duration) time.Duration { return d/2 + N(d/2+1) }

// Around returns a random duration from three quarters to five quarters of d: it spreads what many do from time to time.
func Around(d time.Duration) time.Duration { return d*3/4 + N(d/2+1) }
