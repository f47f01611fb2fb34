package counter

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Processes that write at the same time wait in line for turns of several writes each: in the line of the places below
// the node, or with WithLock in that of the lock. Only the requests and the waits depend on it: a write is refused if
// another came first.

const (
	// roundLength is the number of writes in a round of turns, if few processes are in line.
	roundLength = 40
	// leastTurn is the length of the shortest turn. A write right after one's own needs no read, so longer turns cost all
	// processes fewer requests, and make all wait longer.
	leastTurn = 5
	// turnWithLock is the length of a turn with the lock, whose line takes longer to hand on.
	turnWithLock = 16
	// pauseBetweenTurns is the pause of a process that does not wait in line, in writes, if others write that do not
	// either, such as Curator's clients.
	pauseBetweenTurns = 8
	// repeatsBeforePause is the number of turns in a row after which a process pauses, if there are marks of others: their
	// processes may have no places.
	repeatsBeforePause = 32
	// turnWithoutPlace is the length of a turn of a process that can have no place.
	turnWithoutPlace = 16
	// roundPause is a pause in each round, in writes, in which clients can write that do not wait in line.
	roundPause = 4
	// lossesBeforeLine is the number of races lost in a row after which a process waits in line.
	lossesBeforeLine = 2
	// turnTime is the time after which a turn ends before its length, so that the others do not regard a process with slow
	// replies as hung.
	turnTime = 100 * time.Millisecond
)

// turnLength returns the length of a turn, in writes, beside so many other contenders.
func turnLength(others int) int { return max(roundLength/(others+1), leastTurn) }

// afterWin is the writer's next step after a write that was executed.
type afterWin int8

const (
	turnContinues afterWin = iota // the next write belongs to the same turn
	turnEnds                      // the next write waits in line
	turnRepeats                   // another turn begins
	turnPauses                    // another turn begins after a pause
)

// nextAfterWin returns the next step after a write that was executed, given so many writes and so long a time in a turn of this
// length. contended reports whether others may wait in line, overtaken whether others may write that do not.
func nextAfterWin(wins, length int, took time.Duration, contended, overtaken bool) afterWin {
	switch {
	case wins < length && took < turnTime:
		return turnContinues
	case contended:
		return turnEnds
	case overtaken:
		return turnPauses
	}
	return turnRepeats
}

// turns decides when a Number's writer tries to write. Only the writer uses it.
type turns struct {
	client *framework.Client
	path   string     // the number's
	lock   *line.Line // the lock's line; nil without one

	writeTime   time.Duration // about the duration of a write that wins
	lossesInRow int
	lastWin     time.Time      // the end of the last write that won
	overtaken   bool           // at the last read, others had written since our last write
	notBefore   time.Time      // the earliest time of the next write
	current     framework.Stat // the node's, after the last write

	wins     int       // in this turn
	repeats  int       // turns that have followed one another without a pause
	expected int       // the number of writes for which callers have come in the last turn; 0 for a whole turn
	began    time.Time // this turn
	ended    bool      // the next write waits in line

	place     *place         // in the line of places; nil without one
	listed    framework.Stat // the node's with the last list of places, own changes since then included
	others    int            // the number of other contenders in that list
	hung      []string       // places whose processes did not write in their turn
	refusedIn atomic.Int64   // the epoch of the session in which the server has refused a place; 0 for none
	epoch     int64          // of the session in which a place was last wanted
	lockShare *line.Share    // the lock, while it is held
}

// awaitTurn waits until the writer may try.
func (t *turns) awaitTurn(ctx context.Context) error {
	if err := line.Sleep(ctx, t.client, time.Until(t.notBefore)); err != nil {
		return err
	}
	if time.Since(t.lastWin) < t.unit()/2 {
		t.expected = 0 // the caller has come immediately
	}
	if t.isInLine() {
		if t.mayContinue() {
			return nil
		}
		t.leaveLine(ctx)
	}
	if time.Since(t.lastWin) > leastTurn*t.unit() { // it has rested for about the turn of another
		t.beginTurn()
	}
	switch {
	case !t.ended && t.lossesInRow < lossesBeforeLine:
		return nil
	case t.lock == nil:
		return t.awaitPlace(ctx)
	}
	held, err := t.lock.AcquireShare(ctx, t.lock.Acquire)
	if err == nil {
		t.lockShare = held
		t.beginTurn()
	}
	return err
}

func (t *turns) beginTurn() { t.wins, t.began, t.ended = 0, time.Now(), false }

// length returns the length of this turn.
func (t *turns) length() int {
	switch {
	case t.lock != nil:
		return turnWithLock
	case t.isPlaceRefused():
		return turnWithoutPlace
	case t.place == nil:
		return leastTurn
	}
	length := turnLength(t.others + int(max(t.current.NumChildren-t.listed.NumChildren, 0)))
	if t.expected > 0 {
		return min(t.expected, length)
	}
	return length
}

// timeInLine returns the time since a turn of a place has begun; 0 without a place.
func (t *turns) timeInLine() time.Duration {
	if t.place == nil {
		return 0
	}
	return time.Since(t.began)
}

// isContended reports whether others may wait in line.
func (t *turns) isContended() bool {
	if t.lock != nil {
		return t.holdsLock()
	}
	return t.current.NumChildren > 1 && (t.current.Cversion != t.listed.Cversion || t.isPlaceRefused())
}

// mustPause reports whether others may write that do not wait in line.
func (t *turns) mustPause() bool {
	marks := t.current.NumChildren
	if t.place != nil {
		marks--
	}
	return t.overtaken || marks > 1 && (t.lock != nil || t.repeats >= repeatsBeforePause)
}

// recordLoss records that a write was refused, because another client has written since the number was known.
func (t *turns) recordLoss() {
	t.lossesInRow++
	t.overtaken = true
}

// beginWrite is called before each write. It deletes the place just before the last write of a turn, so that the next in
// line gets the event while that write is executed.
func (t *turns) beginWrite() {
	if t.place == nil {
		return
	}
	if nextAfterWin(t.wins+1, t.length(), t.timeInLine()+t.writeTime, t.isContended(), false) == turnEnds {
		t.ended = true
		t.deletePlace()
	}
}

// recordWin records that a write was executed, how long it took, and the Stat that it has produced.
func (t *turns) recordWin(took time.Duration, made framework.Stat) {
	if t.writeTime > 0 {
		took = min(took, t.writeTime*5/4) // a single slow write does not make the pauses long
	}
	t.writeTime, t.lastWin, t.current = took, time.Now(), made
	t.lossesInRow = 0
	t.wins++
	if t.ended {
		return
	}
	switch nextAfterWin(t.wins, t.length(), t.timeInLine(), t.isContended(), t.mustPause()) {
	case turnEnds:
		t.ended = true
	case turnRepeats:
		t.beginTurn()
		t.repeats++
	case turnPauses:
		t.beginTurn()
		t.repeats = 0
		t.notBefore = t.lastWin.Add(min(pauseBetweenTurns*t.unit(), time.Second))
	}
}

// mayWriteUnread reports whether the last write is probably still the latest, so that the next needs no read: no other
// writers were seen, or they have hardly had the time to read and write.
func (t *turns) mayWriteUnread() bool {
	return !t.overtaken || time.Since(t.lastWin) < t.writeTime
}

// unit is the time that counts as a write in pauses.
func (t *turns) unit() time.Duration { return max(t.writeTime, 100*time.Microsecond) }

func (t *turns) holdsLock() bool { return t.lockShare != nil }

// isInLine reports whether the process has a place, or the lock.
func (t *turns) isInLine() bool { return t.holdsLock() || t.place != nil }

// mayContinue reports whether the process in line may continue its turn.
func (t *turns) mayContinue() bool {
	return !t.ended && (!t.holdsLock() || t.lockShare.Valid())
}

// endTurnEarly leaves the line because no caller has come. The next turn is expected to be as short.
func (t *turns) endTurnEarly(ctx context.Context) {
	t.expected = max(t.wins, 1)
	t.leaveLine(ctx)
}

// leaveLine ends the turn, or the wait for one.
func (t *turns) leaveLine(ctx context.Context) {
	t.deletePlace()
	if !t.holdsLock() {
		return
	}
	// The client continues in the background if that takes long.
	err := line.ReleaseAfterWork(ctx, line.HeldShare{Share: t.lockShare}.Release)
	if err != nil {
		t.client.Logger().Warn("cannot release the lock of a counter; its node stays until the session ends",
			"path", t.lock.Dir, "err", err)
	}
	t.lockShare = nil
}
