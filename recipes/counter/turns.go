package counter

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/recipes/internal/line"
)

// inARow is the number of writes that a process makes one after the other before it pauses for others. A write right
// after one's own needs no read, so longer turns cost all processes fewer requests.
const inARow = 32

// promotion is the number of races lost in a row after which the lock is taken, if there is one.
const promotion = 2

// turns decides when the writer tries. It belongs to the writer.
type turns struct {
	client *framework.Client
	line   *line.Line // the lock's; nil without one

	took   time.Duration // about the duration of a write that wins
	losses int           // in a row; a win halves them, since contention does not end with it
	wins   int           // in a row
	crowd  bool          // others write as well
	next   time.Time     // the earliest time of the next try
	ended  time.Time     // the end of the last write that won
	behind bool          // at the last read, others had written since our last write
	held   *line.Handle  // the lock, while it is held
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

// lost records that another client was faster. The first time the writer tries again immediately; the more often in a
// row, the longer it waits, in units of a write's duration.
func (t *turns) lost() {
	t.wins, t.crowd = 0, true
	t.losses++
	if t.losses > 1 && !t.locked() {
		t.pause(min(2<<min(t.losses, 5), 2*inARow))
	}
}

// won records that a write was executed, how long it took, and whether others have marks.
func (t *turns) won(took time.Duration, others bool) {
	t.ended = time.Now()
	if t.took > 0 {
		took = min(took, t.took*5/4) // a single slow write does not make the pauses long
	}
	t.took = took
	if t.losses /= 2; t.line != nil {
		t.losses = 0 // losses of an earlier Add do not cause the lock to be taken
	}
	if t.wins++; t.wins >= inARow && (others || t.crowd) && !t.locked() {
		t.wins, t.crowd = 0, false
		t.pause(inARow / 2)
	}
}

// fresh reports whether the last write is probably still the latest: no other writers were seen, or they have hardly
// had the time to read it and to write.
func (t *turns) fresh() bool { return !t.behind || t.wins > 0 && time.Since(t.ended) < t.took }

// pause delays the next try by a random time, at most the duration of so many writes.
func (t *turns) pause(writes int) {
	unit := max(t.took, 100*time.Microsecond)
	t.next = time.Now().Add(min(chance.N(unit*time.Duration(writes)), time.Second))
}

func (t *turns) locked() bool { return t.held != nil }

// unlock releases the lock; the client continues in the background if that takes long.
func (t *turns) unlock(ctx context.Context) {
	err := line.ReleaseAfterWork(ctx, t.held.Release)
	if err != nil {
		t.client.Logger().Warn("the lock of a counter is not released; its node stays until the session ends",
			"path", t.line.Dir, "err", err)
	}
	t.held, t.wins = nil, 0
}
