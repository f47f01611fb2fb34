package counter

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Processes that write at the same time wait in line for turns of several writes each: in the line of the places below
// the node, or with WithLock in that of the lock. Only the requests and the waits depend on it: a write is refused if
// another came first. Agreeing on the turns without a line, by pauses and the node's version, made the longest waits four
// times as long, and with many processes cost five times the requests.

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
	// lossesBeforeLine is the number of races lost in a row after which a process waits in line.
	lossesBeforeLine = 2
)

// turnLength returns the length of a turn, in writes, beside so many others in line.
func turnLength(others int) int { return max(roundLength/(others+1), leastTurn) }

// afterWin is what follows a write that was executed.
type afterWin int8

const (
	turnGoesOn  afterWin = iota // the next write belongs to the same turn
	turnEnds                    // the next write waits in line
	turnRepeats                 // another turn begins
	turnPauses                  // another turn begins after a pause
)

// nextAfterWin returns what follows a write that was executed, after so many writes in a turn of this length. contended
// reports whether others may wait in line, overtaken whether others have written since the turn before.
func nextAfterWin(wins, length int, contended, overtaken bool) afterWin {
	switch {
	case wins < length:
		return turnGoesOn
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
	lastWin     time.Time // the end of the last write that won
	overtaken   bool      // at the last read, others had written since our last write
	notBefore   time.Time // the earliest time of the next write

	wins             int            // in this turn
	ended            bool           // the turn has ended: the next write waits in line
	current          framework.Stat // the node's, after the last write
	atBegin          framework.Stat // the node's, when the turn began
	others           int            // in line then
	place            *place         // in the line of places; nil if there is none
	lockShare        *line.Share    // the lock, while it is held
	skippedPlace     string         // the name of a place whose process did not write in its turn
	placeRefusedTime time.Time      // when the server has last refused a place
}

// awaitTurn waits until the writer may try.
func (t *turns) awaitTurn(ctx context.Context) error {
	if err := line.Sleep(ctx, t.client, time.Until(t.notBefore)); err != nil {
		return err
	}
	if t.isInLine() {
		if !t.ended && t.isPlaceValid() {
			return nil
		}
		t.leaveLine(ctx)
	}
	if time.Since(t.lastWin) > leastTurn*t.unit() { // it has rested for about the turn of another
		t.beginTurn(t.current, 0)
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
		t.beginTurn(t.current, 1) // clients without marks, such as Curator's, may wait
	}
	return err
}

// beginTurn begins a turn, given the node's Stat and the number of others in line.
func (t *turns) beginTurn(now framework.Stat, others int) {
	t.wins, t.ended, t.atBegin, t.others = 0, false, now, others
}

// length returns the length of this turn.
func (t *turns) length() int {
	switch {
	case t.lock != nil:
		return turnWithLock
	case t.place == nil:
		return leastTurn
	}
	return turnLength(t.others + int(max(t.current.NumChildren-t.atBegin.NumChildren, 0)))
}

// isContended reports whether others may wait in line.
func (t *turns) isContended() bool {
	if t.lock != nil && !t.holdsLock() {
		return t.current.NumChildren > 1 // there are marks of others
	}
	return t.others > 0 || t.current.Cversion != t.atBegin.Cversion
}

// recordLoss records that a write was refused, because another client has written since the number was known.
func (t *turns) recordLoss() {
	t.lossesInRow++
	t.overtaken = true
}

// beginWrite is called before each write. It deletes the place just before the last write of a turn, so that the next in
// line gets the event while that write is executed.
func (t *turns) beginWrite() {
	if t.place != nil && nextAfterWin(t.wins+1, t.length(), t.isContended(), false) == turnEnds {
		t.ended = true
		t.deletePlace()
	}
}

// recordWin records that a write was executed, how long it took, and the Stat that it has produced.
func (t *turns) recordWin(took time.Duration, made framework.Stat) {
	if t.writeTime > 0 {
		took = min(took, t.writeTime*5/4) // a single slow write does not make the pauses long
	}
	t.writeTime, t.lastWin = took, time.Now()
	t.lossesInRow = 0
	t.current = made
	if t.wins++; t.wins == 1 && !t.isInLine() {
		t.atBegin = made
	}
	if t.ended {
		return
	}
	switch nextAfterWin(t.wins, t.length(), t.isContended(), t.overtaken) {
	case turnEnds:
		t.ended = true
	case turnRepeats:
		t.wins = 0
	case turnPauses:
		t.wins = 0
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

// isPlaceValid reports whether the process still has the place, or the lock.
func (t *turns) isPlaceValid() bool {
	if t.holdsLock() {
		return t.lockShare.Valid()
	}
	return t.place != nil && t.place.session.Context().Err() == nil
}

// leaveLine ends the turn, or the wait for one.
func (t *turns) leaveLine(ctx context.Context) {
	t.ended = true
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

// randomPause returns a pause for a process that can have no place, after so many races lost in a row.
func (t *turns) randomPause() time.Duration {
	return chance.N(t.unit() * time.Duration(1<<max(3, min(t.lossesInRow, 6))))
}
