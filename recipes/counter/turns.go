package counter

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/recipes/internal/line"
)

// mostWinsInRow is the number of writes that a process makes one after the other before it pauses for others. A write
// right after one's own needs no read, so longer turns cost all processes fewer requests.
const mostWinsInRow = 32

// lossesBeforeLock is the number of races lost in a row after which the lock is taken, if there is one.
const lossesBeforeLock = 2

// turns decides when a Number's writer tries to write. Only the writer uses it.
type turns struct {
	client *framework.Client
	line   *line.Line // the lock's; nil without one

	writeTime   time.Duration // about the duration of a write that wins
	lossesInRow int           // a win halves them, since contention does not end with it; with a lock it resets them
	winsInRow   int
	othersWrite bool        // others write as well
	notBefore   time.Time   // the earliest time of the next write
	lastWin     time.Time   // the end of the last write that won
	overtaken   bool        // at the last read, others had written since our last write
	lockShare   *line.Share // the lock, while it is held
}

// awaitTurn waits until the writer may try: after a pause, or with the lock.
func (t *turns) awaitTurn(ctx context.Context) error {
	if pause := time.Until(t.notBefore); pause > 0 {
		if err := line.Sleep(ctx, t.client, pause); err != nil {
			return err
		}
	}
	if t.holdsLock() && (!t.lockShare.Valid() || t.winsInRow >= mostWinsInRow) {
		t.releaseLock(ctx)
		t.lossesInRow = lossesBeforeLock // to the end of the line
	}
	if t.line == nil || t.holdsLock() || t.lossesInRow < lossesBeforeLock {
		return nil
	}
	held, err := t.line.AcquireShare(ctx, t.line.Acquire)
	if err == nil {
		t.lockShare, t.winsInRow = held, 0
	}
	return err
}

// recordLoss records that another client was faster. The first time the writer tries again immediately; the more often
// in a row, the longer it waits, in units of a write's duration.
func (t *turns) recordLoss() {
	t.winsInRow, t.othersWrite = 0, true
	t.lossesInRow++
	if t.lossesInRow > 1 && !t.holdsLock() {
		t.delayNext(min(2<<min(t.lossesInRow, 5), 2*mostWinsInRow))
	}
}

// recordWin records that a write was executed, how long it took, and whether others have marks.
func (t *turns) recordWin(took time.Duration, others bool) {
	t.lastWin = time.Now()
	if t.writeTime > 0 {
		took = min(took, t.writeTime*5/4) // a single slow write does not make the pauses long
	}
	t.writeTime = took
	if t.lossesInRow /= 2; t.line != nil {
		t.lossesInRow = 0 // losses of an earlier Add do not cause the lock to be taken
	}
	if t.winsInRow++; t.winsInRow >= mostWinsInRow && (others || t.othersWrite) && !t.holdsLock() {
		t.winsInRow, t.othersWrite = 0, false
		t.delayNext(mostWinsInRow / 2)
	}
}

// mayWriteUnread reports whether the last write is probably still the latest, so that the next needs no read: no other
// writers were seen, or they have hardly had the time to read and write.
func (t *turns) mayWriteUnread() bool {
	return !t.overtaken || t.winsInRow > 0 && time.Since(t.lastWin) < t.writeTime
}

// delayNext delays the next try by a random time, at most the duration of so many writes.
func (t *turns) delayNext(writes int) {
	unit := max(t.writeTime, 100*time.Microsecond)
	t.notBefore = time.Now().Add(min(chance.N(unit*time.Duration(writes)), time.Second))
}

func (t *turns) holdsLock() bool { return t.lockShare != nil }

// releaseLock releases the lock; the client continues in the background if that takes long.
func (t *turns) releaseLock(ctx context.Context) {
	err := line.ReleaseAfterWork(ctx, line.HeldShare{Share: t.lockShare}.Release)
	if err != nil {
		t.client.Logger().Warn("cannot release the lock of a counter; its node stays until the session ends",
			"path", t.line.Dir, "err", err)
	}
	t.lockShare, t.winsInRow = nil, 0
}
