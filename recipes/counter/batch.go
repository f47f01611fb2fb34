package counter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/recipes/internal/mark"
)

// current is the number as the writer last saw it, and the mark that existed then.
type current[T Integral] struct {
	n    T
	stat framework.Stat
	mark *ownMark
}

// join queues a for the writer, and starts the writer if none runs. The writer runs only while callers wait.
func (n *Number[T]) join(a *adder[T]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(n.waiting, a)
	n.callers++
	if !n.running {
		n.running = true
		n.reg.client.Spawn(n.write)
	}
}

// quit is called when a's context has ended. It returns nil if a was finished nevertheless.
func (n *Number[T]) quit(ctx context.Context, a *adder[T]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-a.done:
		return nil
	default:
	}
	a.left = true
	if n.callers--; n.callers == 0 && n.stop != nil {
		n.stop()
	}
	err := n.reg.client.Left(ctx, nil)
	if a.taken {
		return fmt.Errorf("%w while it was being written: %w", err, framework.ErrOutcomeUnknown)
	}
	n.waiting = slices.DeleteFunc(n.waiting, func(other *adder[T]) bool { return a == other })
	return fmt.Errorf("%w: nothing was added", err)
}

// write is the writer: it writes until no caller waits.
func (n *Number[T]) write(ctx context.Context) {
	ended := false
	defer func() {
		if !ended {
			n.abort()
		}
	}()
	for n.next(ctx) {
	}
	ended = true
}

// next does a round with a context that ends when all callers have left. It returns false if no caller waits: then
// the writer has ended.
func (n *Number[T]) next(ctx context.Context) bool {
	n.mu.Lock()
	if len(n.waiting) == 0 {
		goOn := n.turns.locked()
		n.running = goOn
		n.mu.Unlock()
		if goOn {
			n.turns.unlock(ctx)
		}
		return goOn
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.stop = cancel
	n.mu.Unlock()
	n.round(ctx)
	return true
}

// round waits for its turn and then writes the waiting deltas.
func (n *Number[T]) round(ctx context.Context) {
	err := mark.NotSent(n.turns.wait(ctx))
	if ctx.Err() != nil && n.reg.client.Err() == nil {
		return // all have left; others may be waiting by now
	}
	n.take()
	var again bool
	began := time.Now()
	if err == nil {
		again, err = n.add(ctx)
	}
	if over := n.reg.client.Err(); err != nil && over != nil && ctx.Err() != nil {
		err, again = closed(over, err), false
	}
	switch {
	case again:
		n.turns.lost()
		n.putBack()
		return
	case err == nil:
		n.turns.won(time.Since(began), n.known.stat.NumChildren > 1)
	}
	n.finish(err)
	// The callers that were just answered may have more to add: let them join before the next round begins.
	runtime.Gosched()
}

// closed returns the error for the adders if the client was closed. The context that has ended is the writer's, not
// theirs.
func closed(over, err error) error {
	if errors.Is(err, framework.ErrOutcomeUnknown) {
		return fmt.Errorf("%w: %w", over, framework.ErrOutcomeUnknown)
	}
	return over
}

// add writes the sum of the batch. again means that it was not executed, because another client was faster. A delta
// that does not fit fails alone; the others are added.
func (n *Number[T]) add(ctx context.Context) (again bool, _ error) {
	if err := n.reg.enter(ctx); err != nil {
		return false, err
	}
	defer n.reg.leave()
	now, err := n.now(ctx)
	if err != nil {
		return false, mark.NotSent(err)
	}
	sum, some := n.sum(now.n)
	if !some { // nothing is written that would be refused if the number has changed: look what it is
		n.known = current[T]{}
		if err = n.reg.client.Sync().ForPath(ctx, n.reg.path); err == nil {
			now, err = n.now(ctx)
		}
		if err != nil {
			return false, mark.NotSent(err)
		}
		if sum, some = n.sum(now.n); !some {
			return false, nil
		}
	}
	data, err := n.encode(sum)
	if err != nil {
		return false, err
	}
	n.known, n.sent = current[T]{}, true
	stat, err := n.reg.swap(ctx, now.stat, data)
	if err == nil && n.reg.mark.standing() && stat.Mzxid != 0 {
		n.known = current[T]{sum, stat, n.reg.mark}
	}
	again = !errors.Is(err, framework.ErrOutcomeUnknown) &&
		(errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode))
	if again && now.mark != nil {
		n.turns.behind = true
	}
	return again, err
}

// sum adds up the batch, starting at from. some reports whether any delta has to be written.
func (n *Number[T]) sum(from T) (sum T, some bool) {
	sum = from
	for _, a := range n.batch {
		next := sum + a.delta
		if a.err = nil; a.delta != 0 && (next > sum) != (a.delta > 0) {
			a.err = ErrOverflow
			continue
		}
		a.sum, sum, some = next, next, true
	}
	return sum, some
}

// now returns the number: the result of the last write while its mark exists, so that the next write itself shows
// whether it is still current. Otherwise it reads. It also reads if others have probably written since: then the
// write would be refused, and cost a request before the read.
func (n *Number[T]) now(ctx context.Context) (current[T], error) {
	own := n.known.mark != nil && n.known.mark == n.reg.mark && n.known.mark.standing()
	if own && n.turns.fresh() {
		return n.known, nil
	}
	zero, err := n.encode(0)
	if err != nil {
		return current[T]{}, err
	}
	if err := n.reg.prepare(ctx); err != nil {
		return current[T]{}, err
	}
	c, err := n.reg.readOrMake(ctx, zero)
	if own && err == nil {
		n.turns.behind = c.stat.Mzxid != n.known.stat.Mzxid
	}
	seen, err := n.seen(c, err)
	return current[T]{n: seen.N, stat: c.stat}, err
}

// take moves the waiting adders into the batch.
func (n *Number[T]) take() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batch, n.waiting, n.sent = n.waiting, nil, false
	for _, a := range n.batch {
		a.taken = true
	}
}

// putBack reverts take after a write that was not executed. Callers that have left are dropped: they were answered
// with an unknown outcome.
func (n *Number[T]) putBack() {
	n.mu.Lock()
	defer n.mu.Unlock()
	again := slices.DeleteFunc(n.batch, func(a *adder[T]) bool { return a.left })
	for _, a := range again {
		a.taken = false
	}
	n.waiting, n.batch = append(again, n.waiting...), nil
}

// finish gives the adders in the batch their results; err is for all of them.
func (n *Number[T]) finish(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told(n.batch, err)
	n.batch, n.callers = nil, len(n.waiting)
}

func (n *Number[T]) told(batch []*adder[T], err error) {
	for _, a := range batch {
		switch {
		case err != nil && a.err != nil: // it was not in the write
			a.sum, a.err = 0, mark.NotSent(err)
		case err != nil:
			a.sum, a.err = 0, err
		}
		close(a.done)
	}
}

// abort is called when a hook has ended the writer's goroutine.
func (n *Number[T]) abort() {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := error(apart.ErrNoReturn)
	if n.sent {
		err = fmt.Errorf("%w: %w", err, framework.ErrOutcomeUnknown)
	}
	n.told(n.batch, err)
	n.told(n.waiting, apart.ErrNoReturn)
	n.batch, n.waiting, n.callers, n.running = nil, nil, 0, false
}
