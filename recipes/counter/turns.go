package counter

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Processes that write at the same time take turns. Without a lock they agree by the Stat of their reads and writes: the
// number of children is about the number of processes, since each has a mark, and a turn ends with the write whose version
// is a multiple of the turn's length. After a turn a process pauses for about a round of the others' turns; a process that
// was overtaken tries again at the end of the turn that it has seen. Only the requests and the waits depend on it: a write
// is refused if another came first.

const (
	// roundLength is the number of writes in a round of turns, if there are few processes.
	roundLength = 128
	// leastTurn is the length of the shortest turn. A write right after one's own needs no read, so longer turns cost all
	// processes fewer requests, and make all wait longer.
	leastTurn = 8
	// turnAlone is the length of a process's turns if no other has written for a round; pauseAlone is its pause, in which
	// another can read and write.
	turnAlone, pauseAlone = 32, 4
	// turnWithLock is the number of writes before a process releases the lock for the next in line.
	turnWithLock = 16
	// lossesBeforeLock is the number of races lost in a row after which the lock is taken, if there is one.
	lossesBeforeLock = 2
)

// turnLength returns the length of a turn, in writes, beside so many other processes.
func turnLength(others int) int { return max(roundLength/(others+1), leastTurn) }

// writesToTurnEnd returns the number of writes from the version, which is excluded, to the end of its turn.
func writesToTurnEnd(version int32, length int) int {
	return length - int(uint32(version)%uint32(length))
}

// pauseAfterLoss returns the pause after so many races lost in a row, in writes, and the most that chance adds to it. The
// last race was for the version after this one. The pause lasts until the present turn ends. After the first losses chance
// adds a little, because others may wait for the same end; later the whole pause is chance, in case that the expected end
// is wrong each time.
func pauseAfterLoss(losses int, version int32, length, others int) (pause, random int) {
	left := max(writesToTurnEnd(version, length)-2, 0) // the refused write took the time of one, and the next begins with a read
	if losses > 2 {
		return 0, left
	}
	return left, others * length >> (1 + 2*losses)
}

// pauseAfterTurn returns the pause after a turn, in writes, given the writes of the others since the last turn, and the
// number of writes that the time since then has room for. The number of others is only a bound: some marks are those of
// processes that rest, and other children are none. So the pause grows only while the others leave little room, and there is
// hardly any while they leave most of it. A turn takes the time of one more write, for the read that it begins with.
func pauseAfterTurn(written, room, length, others int) int {
	switch {
	case others == 0:
		return length / 4 // clients without marks, such as Curator's, try all the time
	case !isCrowded(written, room):
		return pauseAlone
	}
	most := others * length
	pause := min(max(written, 0), most)
	if 5*pause > 3*room {
		pause = min(pause+length, most)
	}
	pause = max(pause, length)
	return pause + pause/length
}

// isCrowded reports whether others have used a good part of the time since the last own write, given how many writes they have
// made and how many that time has room for.
func isCrowded(written, room int) bool { return 4*min(max(written, 0), 1<<20) >= room }

// turns decides when a Number's writer tries to write. Only the writer uses it.
type turns struct {
	client *framework.Client
	line   *line.Line // the lock's; nil without one

	writeTime    time.Duration // about the duration of a write that wins
	lossesInRow  int
	othersWrite  bool        // others were seen to write since the last turn
	notBefore    time.Time   // the earliest time of the next write
	lastWin      time.Time   // the end of the last write that won
	winVersion   int32       // its version
	overtaken    bool        // at the last read, others had written since our last write
	lockShare    *line.Share // the lock, while it is held
	winsWithLock int         // since it was acquired

	pause       int       // the length of the next pause, in writes
	turnsAlone  int       // turns in a row between which no other process has written
	lastTurn    time.Time // the end of the last turn; zero after the next has begun
	lastVersion int32     // the version then
}

// awaitTurn waits until the writer may try: after a pause, or with the lock.
func (t *turns) awaitTurn(ctx context.Context) error {
	if pause := time.Until(t.notBefore); pause > 0 {
		if err := line.Sleep(ctx, t.client, pause); err != nil {
			return err
		}
	}
	if t.holdsLock() && (!t.lockShare.Valid() || t.winsWithLock >= turnWithLock) {
		t.releaseLock(ctx)
		t.lossesInRow = lossesBeforeLock // to the end of the line
	}
	if t.line == nil || t.holdsLock() || t.lossesInRow < lossesBeforeLock {
		return nil
	}
	held, err := t.line.AcquireShare(ctx, t.line.Acquire)
	if err == nil {
		t.lockShare, t.winsWithLock = held, 0
	}
	return err
}

// recordOvertaken records that another client has written since the last write, so that a write without a read was refused.
// It is repeated immediately, since it did not compete.
func (t *turns) recordOvertaken() {
	t.turnsAlone, t.othersWrite, t.overtaken = 0, true, true
	t.lossesInRow++
}

// recordLoss records that another client was faster than a write that began with a read, of this Stat.
func (t *turns) recordLoss(from framework.Stat) {
	t.turnsAlone, t.othersWrite = 0, true
	t.lossesInRow++
	others := int(from.NumChildren) - 1
	switch {
	case t.holdsLock(), others == 0: // clients without marks, such as Curator's, try all the time
		return
	case !isCrowded(int(from.Version-t.winVersion)+1, t.roomSince(t.lastWin)):
		return // both came at the same time by chance
	case others < 0: // the server refuses marks, also those of others
		t.delayNext(chance.N(t.unit() * time.Duration(1<<min(t.lossesInRow, 6))))
		return
	}
	pause, random := pauseAfterLoss(t.lossesInRow, from.Version, turnLength(others), others)
	t.delayNext(t.unit()*time.Duration(pause) + chance.N(t.unit()*time.Duration(random)))
}

// recordWin records that a write was executed, how long it took, and the Stat that it has produced.
func (t *turns) recordWin(took time.Duration, made framework.Stat) {
	t.lastWin, t.winVersion = time.Now(), made.Version
	if t.writeTime > 0 {
		took = min(took, t.writeTime*5/4) // a single slow write does not make the pauses long
	}
	t.writeTime = took
	t.lossesInRow = 0
	t.winsWithLock++
	others := max(int(made.NumChildren)-1, 0)
	length := turnLength(max(others, 1))
	if !t.lastTurn.IsZero() {
		t.beginTurn(int(made.Version-t.lastVersion)-1, length, others)
	}
	if t.turnsAlone > min(others, roundLength) {
		length, t.pause = turnAlone, pauseAlone
	}
	contended := others > 0 || t.othersWrite
	if contended && !t.holdsLock() && writesToTurnEnd(made.Version, length) == length {
		t.lastTurn, t.lastVersion = t.lastWin, made.Version
		t.othersWrite = false
		t.delayNext(t.unit() * time.Duration(max(t.pause, pauseAlone)))
	}
}

// beginTurn decides on the pause after the turn that has begun, given how often others have written since the last.
func (t *turns) beginTurn(written, length, others int) {
	if t.turnsAlone++; written != 0 {
		t.turnsAlone, t.othersWrite = 0, true
	}
	t.pause = pauseAfterTurn(written, t.roomSince(t.lastTurn), length, others)
	t.lastTurn = time.Time{}
}

// mayWriteUnread reports whether the last write is probably still the latest, so that the next needs no read: no other
// writers were seen, or they have hardly had the time to read and write.
func (t *turns) mayWriteUnread() bool {
	return !t.overtaken || time.Since(t.lastWin) < t.writeTime
}

// roomSince returns how many writes the time since then has room for.
func (t *turns) roomSince(then time.Time) int { return int(min(time.Since(then)/t.unit(), 1<<20)) }

// unit is the time that counts as a write in pauses.
func (t *turns) unit() time.Duration { return max(t.writeTime, 100*time.Microsecond) }

// delayNext delays the next try, by a second at most.
func (t *turns) delayNext(pause time.Duration) { t.notBefore = time.Now().Add(min(pause, time.Second)) }

func (t *turns) holdsLock() bool { return t.lockShare != nil }

// releaseLock releases the lock; the client continues in the background if that takes long.
func (t *turns) releaseLock(ctx context.Context) {
	err := line.ReleaseAfterWork(ctx, line.HeldShare{Share: t.lockShare}.Release)
	if err != nil {
		t.client.Logger().Warn("cannot release the lock of a counter; its node stays until the session ends",
			"path", t.line.Dir, "err", err)
	}
	t.lockShare = nil
}
