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

// knownNumber is the number as the writer last saw it, and the mark that existed then.
type knownNumber[T Integral] struct {
	n    T
	stat framework.Stat
	mark *ownMark
}

// enqueueAdd queues the add a for the writer, a goroutine that runs only while callers wait, and starts it if none runs.
func (n *Number[T]) enqueueAdd(a *pendingAdd[T]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waitingAdds = append(n.waitingAdds, a)
	n.callersWaiting++
	select {
	case n.added <- struct{}{}:
	default:
	}
	if !n.writerRuns {
		n.writerRuns = true
		n.node.client.Spawn(n.runWriter)
	}
}

// withdrawAdd is called when a's context has ended. It returns nil if a was finished nevertheless.
func (n *Number[T]) withdrawAdd(ctx context.Context, a *pendingAdd[T]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-a.done:
		return nil
	default:
	}
	a.callerLeft = true
	if n.callersWaiting--; n.callersWaiting == 0 && n.cancelRound != nil {
		n.cancelRound()
	}
	err := n.node.client.WaitError(ctx, nil)
	if a.inBatch {
		return fmt.Errorf("%w while it was being written: %w", err, framework.ErrOutcomeUnknown)
	}
	n.waitingAdds = slices.DeleteFunc(n.waitingAdds, func(other *pendingAdd[T]) bool { return a == other })
	return fmt.Errorf("%w: nothing was added", err)
}

// runWriter is the writer: it writes until no caller waits.
func (n *Number[T]) runWriter(ctx context.Context) {
	returned := false
	defer func() {
		if !returned {
			n.abortWriter()
		}
	}()
	for n.nextRound(ctx) {
	}
	returned = true
}

// nextRound does a round with a context that ends when all callers have left. If no caller waits it leaves the line and
// returns false: then the writer ends.
func (n *Number[T]) nextRound(ctx context.Context) bool {
	if n.turns.isInLine() && !n.awaitAdd(ctx) {
		n.turns.endTurnEarly(ctx)
	}
	n.mu.Lock()
	if len(n.waitingAdds) == 0 {
		n.writerRuns = false
		n.mu.Unlock()
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.cancelRound = cancel
	n.mu.Unlock()
	n.writeRound(ctx)
	return true
}

// awaitAdd waits for a caller for about half the time of a write, so that a process in line does not lose its turn to a
// short pause between two calls. It reports whether one waits.
func (n *Number[T]) awaitAdd(ctx context.Context) bool {
	n.mu.Lock()
	select {
	case <-n.added: // of an earlier call
	default:
	}
	waiting := len(n.waitingAdds) > 0
	n.mu.Unlock()
	if waiting {
		return true
	}
	timer := time.NewTimer(n.turns.unit() / 2)
	defer timer.Stop()
	select {
	case <-n.added:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// writeRound waits for its turn and then writes the waiting deltas.
func (n *Number[T]) writeRound(ctx context.Context) {
	err := mark.NotExecuted(n.turns.awaitTurn(ctx))
	if ctx.Err() != nil && n.node.client.Err() == nil {
		return // all have left; others may be waiting by now
	}
	n.takeBatch()
	var again bool
	if err == nil {
		again, err = n.writeBatch(ctx)
	}
	if closed := n.node.client.Err(); err != nil && closed != nil && ctx.Err() != nil {
		err, again = closedError(closed, err), false
	}
	if again {
		n.returnBatch()
		return
	}
	n.finishBatch(err)
	// The callers that have just got their results may add again: let them, before the next round begins.
	runtime.Gosched()
}

// closedError returns the error for the waiting adds if the client was closed. The context that has ended is the
// writer's, not theirs.
func closedError(closed, err error) error {
	if errors.Is(err, framework.ErrOutcomeUnknown) {
		return fmt.Errorf("%w: %w", closed, framework.ErrOutcomeUnknown)
	}
	return closed
}

// writeBatch writes the sum of the batch. again means that it was not executed, because another client was faster. A
// delta that does not fit fails alone; the others are added.
func (n *Number[T]) writeBatch(ctx context.Context) (again bool, _ error) {
	if err := n.node.acquireSlot(ctx); err != nil {
		return false, err
	}
	defer n.node.releaseSlot()
	now, err := n.currentNumber(ctx)
	if err != nil {
		return false, mark.NotExecuted(err)
	}
	sum, some := n.sumBatch(now.n)
	if !some { // no write will show whether the number has changed
		n.lastKnown = knownNumber[T]{}
		err = n.node.proveUnchanged(ctx, now.stat.Mzxid)
		again = errors.Is(err, errChanged) || errors.Is(err, framework.ErrNoNode)
		if again {
			err = nil
			n.turns.recordLoss()
		}
		return again, mark.NotExecuted(err)
	}
	data, err := n.encodeValue(sum)
	if err != nil {
		return false, err
	}
	n.lastKnown, n.maybeSent = knownNumber[T]{}, true
	n.turns.beginWrite()
	began := time.Now()
	stat, err := n.node.writeIfVersion(ctx, now.stat, data)
	if err == nil {
		n.turns.recordWin(time.Since(began), stat)
	}
	if err == nil && n.node.mark.isPresent() && stat.Mzxid != 0 {
		n.lastKnown = knownNumber[T]{sum, stat, n.node.mark}
	}
	again = !errors.Is(err, framework.ErrOutcomeUnknown) &&
		(errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode))
	if again {
		n.turns.recordLoss()
	}
	return again, err
}

// sumBatch adds up the batch, starting at from. some reports whether any delta fits.
func (n *Number[T]) sumBatch(from T) (sum T, some bool) {
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

// currentNumber returns the number: the result of the last write while its mark exists, so that the next write itself
// shows whether it is still current. Otherwise it reads. It also reads if others have probably written since: then the
// write would be refused, and cost a request before the read.
func (n *Number[T]) currentNumber(ctx context.Context) (knownNumber[T], error) {
	own := n.lastKnown.mark != nil && n.lastKnown.mark == n.node.mark && n.lastKnown.mark.isPresent()
	if own && n.turns.mayWriteUnread() {
		return n.lastKnown, nil
	}
	zero, err := n.encodeValue(0)
	if err != nil {
		return knownNumber[T]{}, err
	}
	if err := n.node.prepareMark(ctx); err != nil {
		return knownNumber[T]{}, err
	}
	c, err := n.node.readOrCreate(ctx, zero)
	if own && err == nil {
		n.turns.overtaken = c.stat.Mzxid != n.lastKnown.stat.Mzxid
	}
	seen, err := n.decodeContent(c, err)
	return knownNumber[T]{n: seen.N, stat: c.stat}, err
}

// takeBatch moves the waiting adds into the batch.
func (n *Number[T]) takeBatch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batch, n.waitingAdds, n.maybeSent = n.waitingAdds, nil, false
	for _, a := range n.batch {
		a.inBatch = true
	}
}

// returnBatch reverts takeBatch after a write that was not executed. Adds whose callers have left are dropped: these have
// returned ErrOutcomeUnknown.
func (n *Number[T]) returnBatch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	again := slices.DeleteFunc(n.batch, func(a *pendingAdd[T]) bool { return a.callerLeft })
	for _, a := range again {
		a.inBatch = false
	}
	n.waitingAdds, n.batch = append(again, n.waitingAdds...), nil
}

// finishBatch gives the adds in the batch their results; err is for all of them.
func (n *Number[T]) finishBatch(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reportResults(n.batch, err)
	n.batch, n.callersWaiting = nil, len(n.waitingAdds)
}

func (n *Number[T]) reportResults(batch []*pendingAdd[T], err error) {
	for _, a := range batch {
		switch {
		case err != nil && a.err != nil: // it was not in the write
			a.sum, a.err = 0, mark.NotExecuted(err)
		case err != nil:
			a.sum, a.err = 0, err
		}
		close(a.done)
	}
}

// abortWriter is called when a hook has ended the writer's goroutine.
func (n *Number[T]) abortWriter() {
	n.turns.deletePlace()
	n.mu.Lock()
	defer n.mu.Unlock()
	err := error(apart.ErrNoReturn)
	if n.maybeSent {
		err = fmt.Errorf("%w: %w", err, framework.ErrOutcomeUnknown)
	}
	n.reportResults(n.batch, err)
	n.reportResults(n.waitingAdds, apart.ErrNoReturn)
	n.batch, n.waitingAdds, n.callersWaiting, n.writerRuns = nil, nil, 0, false
}
