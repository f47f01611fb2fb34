// Package speed measures how fast contenders in one process take turns, each with a separate connection.
package speed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/compare/internal/ways"
)

// Figures are the results of one measurement.
type Figures struct {
	Contenders   int
	Long         time.Duration
	Turns        int
	P50, P99     time.Duration // from asking to the grant
	Fewest, Most int           // turns of a contender
}

// Rate is turns per second.
func (f Figures) Rate() float64 { return float64(f.Turns) / f.Long.Seconds() }

// Fairness is the fewest turns of a contender as a part of the most.
func (f Figures) Fairness() float64 {
	if f.Most == 0 {
		return 0
	}
	return float64(f.Fewest) / float64(f.Most)
}

// Run has n contenders take the lock and release it, without work, for so long.
func Run(kind ways.Kind, c ways.Config, n int, long time.Duration) (f Figures, err error) {
	opening, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all []ways.Way
	defer func() {
		for _, w := range all {
			err = errors.Join(err, w.Close())
		}
	}()
	for i := range n {
		each := c
		each.ID = fmt.Sprint("s", i)
		w, err := kind.Open(opening, each)
		if err != nil {
			return f, err
		}
		all = append(all, w)
	}
	// A turn that has begun before the end is waited for, since not all ways can be interrupted.
	over := time.Now().Add(long)
	var (
		turning sync.WaitGroup
		mu      sync.Mutex
		waits   []time.Duration
		turns   = make([]int, n)
		errs    []error
	)
	for i, w := range all {
		turning.Go(func() {
			var mine []time.Duration
			var err error
			for err == nil && time.Now().Before(over) {
				var took time.Duration
				if took, err = turn(w); err == nil {
					mine = append(mine, took)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			waits, turns[i], errs = append(waits, mine...), len(mine), append(errs, err)
		})
	}
	turning.Wait()
	if err := errors.Join(errs...); err != nil {
		return f, err
	}
	slices.Sort(waits)
	at := func(part float64) time.Duration {
		if len(waits) == 0 {
			return 0
		}
		return waits[int(part*float64(len(waits)-1))]
	}
	return Figures{n, long, len(waits), at(0.5), at(0.99), slices.Min(turns), slices.Max(turns)}, nil
}

func turn(w ways.Way) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	asked := time.Now()
	hold, err := w.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	took = time.Since(asked)
	return took, hold.Release(ctx)
}

// Can has a way's capabilities, as tested.
type Can struct {
	Reenter bool // a holder acquires the lock again, and keeps it
	Try     bool // a refusal comes immediately if another contender holds it
}

// Probe tries it out.
func Probe(kind ways.Kind, c ways.Config) (can Can, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first, err := kind.Open(ctx, c)
	if err != nil {
		return can, err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	second, err := kind.Open(ctx, c)
	if err != nil {
		return can, err
	}
	defer func() { err = errors.Join(err, second.Close()) }()
	hold, err := first.Acquire(ctx)
	if err != nil {
		return can, err
	}
	defer func() { err = errors.Join(err, hold.Release(ctx)) }()
	switch err := hold.Reenter(ctx); {
	case err == nil:
		can.Reenter = true
	case !errors.Is(err, ways.ErrNone):
		return can, err
	}
	switch _, err := second.Try(ctx); {
	case errors.Is(err, ways.ErrHeld):
		can.Try = true
	case err == nil:
		return can, errors.New("a lock that was held was granted to somebody else")
	case !errors.Is(err, ways.ErrNone):
		return can, err
	}
	return can, nil
}
