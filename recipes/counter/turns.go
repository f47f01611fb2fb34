package counter

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/recipes/internal/line"
)

// inARow is how many writes a process makes one after the other before it pauses for others. A write after an
// own one needs no read, so taking turns in longer bits is cheaper for all.
const inARow = 32

// promotion is how many races in a row are lost before the lock is taken, if there is one.
const promotion = 2

// turns decides when the writer tries. It belongs to the writer.
type turns struct {
	client *framework.Client
	line   *line.Line // the lock's; nil without one

	took   time.Duration // about what a write takes that is won
	losses int           // in a row; half of them count after a win, since a crowd does not end with it
	wins   int           // in a row
	crowd  bool          // others write, too
	next   time.Time     // not before that
	ended  time.Time     // when the last write that was won did
	behind bool          // when it was looked at last, others had written since our last write
	held   *line.Handle  // the lock, when it is taken
}

// wait waits for the turn.
func (t *turns) wait(ctx context.Context) error {
	if pause := time.Until(t.next); pause > 0 {
		if err := line.Sleep(ctx, t.client, pause); err != nil {
			return err
		}
	}
	if t.locked() && (!t.held.Valid() || t.wins >= inARow) {
		t.unlock(ctx)
		t.losses = promotion // to the end of the line
	}
	if t.line == nil || t.locked() || t.losses < promotion {
		return nil
	}
	held, err := t.line.Enter(ctx, t.line.Acquire)
	if err == nil {
		t.held, t.wins = held, 0
	}
	return err
}

// lost notes that somebody else was faster. The first time it tries again at once; the more often in a row,
// the longer it waits, in units of what a write takes.
func (t *turns) lost() {
	t.wins, t.crowd = 0, true
	t.losses++
	if t.losses > 1 && !t.locked() {
		t.pause(min(2<<min(t.losses, 5), 2*inARow))
	}
}

// won notes that a write of ours was executed, how long it took, and whether others have marks.
func (t *turns) won(took time.Duration, others bool) {
	t.ended = time.Now()
	if t.took > 0 {
		took = min(took, t.took*5/4) // one that hangs for a moment does not make the pauses long
	}
	t.took = took
	if t.losses /= 2; t.line != nil {
		t.losses = 0 // nobody takes the lock for what an earlier Add has lost
	}
	if t.wins++; t.wins >= inARow && (others || t.crowd) && !t.locked() {
		t.wins, t.crowd = 0, false
		t.pause(inARow / 2)
	}
}

// fresh says that what was written last is most likely still there: others have not been seen, or have hardly
// had the time to read it and to write.
func (t *turns) fresh() bool { return !t.behind || t.wins > 0 && time.Since(t.ended) < t.took }

// pause has the next try wait for a random time, of at most so many writes.
func (t *turns) pause(writes int) {
	unit := max(t.took, 100*time.Microsecond)
	t.next = time.Now().Add(min(chance.N(unit*time.Duration(writes)), time.Second))
}

func (t *turns) locked() bool { return t.held != nil }

// unlock gives the lock back; the client goes on with it if it takes long.
func (t *turns) unlock(ctx context.Context) {
	err := line.ReleaseAfterWork(ctx, t.held.Release)
	if err != nil {
		t.client.Logger().Warn("the lock of a counter is not released; its node stays until the session ends",
			"path", t.line.Dir, "err", err)
	}
	t.held, t.wins = nil, 0
}
