package zktest

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Step is a step of a schedule: a function on an ensemble, and its time.
type Step struct {
	At   time.Duration // since the schedule began
	Name string        // for the trace
	Do   func(e *Ensemble)
}

// Play runs a schedule: each step at its time, steps of the same time in the order given. It returns after the last
// step, or with ctx's error if ctx ends first.
func (e *Ensemble) Play(ctx context.Context, steps ...Step) error {
	start := time.Now()
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	for _, step := range steps {
		select {
		case <-time.After(time.Until(start.Add(step.At))):
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		e.mu.Lock()
		e.traceText(0, "schedule: "+step.Name)
		e.mu.Unlock()
		step.Do(e)
	}
	return nil
}
