package mutex

import (
	"context"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Cohort is a lock for many goroutines of a process, or for repeated use by one goroutine. They wait in one local
// line, and the Cohort has one node for all of them in the line of the processes. The lock passes from one to the
// next without a request, until other processes have their turn ([WithTurns]). With [WithKept] it also stays with the
// process while no other contender waits.
//
// For other processes a Cohort is a contender like any other: a [Mutex], or Curator's InterProcessMutex, at the same
// path. Use one Cohort for a path and a client: two of them are two contenders. Safe for concurrent use. It needs no
// Close: it ends with the client.
//
// All turns of a node have the same czxid, so it cannot fence off a late write of an earlier turn, and a check that
// the node exists also succeeds in the next turn. Therefore a [Turn] has neither FencingToken nor Guard. Take a Mutex
// where another system has to refuse the writes of a former holder.
//
// Hooks of the client: Acquire is called for each caller, on its goroutine. The others (Queue, Wait, Hold, NodeData)
// are called for the node, on a goroutine of the client, with a context without the callers' values; a panic there
// ends the process. If a hook ends its goroutine, the callers in the local line get an error; a hook that blocks
// stops the node, and so the line.
type Cohort struct {
	m     *Mutex
	front line.Front
}

// NewCohort makes the lock at path, as [New] does, for goroutines that pass it on. It takes the options of New except
// [OnWait], and also WithTurns and WithKept. WithNodeData, WithLossPolicy and WithRevocation apply to the node, and
// so to all turns on it.
func NewCohort(client *framework.Client, path string, opts ...Option) *Cohort {
	c := &Cohort{m: configure(client, path, opts)}
	limits := c.m.cohortLimits
	limits.Users = 1
	if err := c.front.Init(&c.m.line, limits, "Cohort"); c.m.err == nil {
		c.m.err = err
	}
	return c
}

// Path returns the lock's path.
func (c *Cohort) Path() string { return c.m.Path() }

// Acquire waits until it is the caller's turn, first come, first served among the callers of this Cohort,
// or until ctx ends, which takes only this caller out of the line. ctx limits only the wait.
//
// If the lock is lost, the callers keep their places in the local line, and the Cohort gets a new node, at the end of
// the line of the processes. If the session continues, as with [framework.SuspendedIsLoss], it first releases the old
// one: with the Release of the turn that has ended with the loss, but no later than [framework.WithFenceGrace] after
// that. Until it has a node, the retry policy limits the attempts; the error after the last goes to all waiting
// callers.
//
// Re-entry: as [Mutex.Acquire], with the Context of a [Turn] at this path. With the context of a [Lock] at this path
// Acquire would wait for itself: the error is ErrSelfWait. The same applies to Mutex.Acquire with the context of a
// Turn.
//
// Errors: as Mutex.Acquire.
func (c *Cohort) Acquire(ctx context.Context) (*Turn, error) {
	return c.acquireTurn(ctx, "acquire", false)
}

// TryAcquire is Acquire without waiting for others. It returns ErrNotAcquired immediately if a caller of this Cohort
// has a turn or waits for one, and as soon as it has read that another contender has the lock or waits for it: see
// [Mutex.TryAcquire], and [WithCreatingTry].
func (c *Cohort) TryAcquire(ctx context.Context) (*Turn, error) {
	return c.acquireTurn(ctx, "try to acquire", true)
}

func (c *Cohort) acquireTurn(ctx context.Context, verb string, try bool) (*Turn, error) {
	t, err := c.enterLine(ctx, try)
	if err != nil {
		return nil, c.m.wrapError(verb, err)
	}
	return &Turn{t, c.m}, nil
}

// enterLine re-enters, or waits in line.
func (c *Cohort) enterLine(ctx context.Context, try bool) (*grantShare, error) {
	l := &c.m.line
	if err := line.CheckCall(ctx, l.Client, c.m.err); err != nil {
		return nil, err
	}
	if t := l.Reenter(ctx, true); t != nil {
		return t, nil
	}
	what := framework.Acquisition{Recipe: l.Recipe, Path: l.Dir}
	return line.ReportAcquire(ctx, l.Client, what, func(ctx context.Context) (*grantShare, error) {
		if self := l.CheckSelfWait(ctx); self != nil && !l.NoReentry {
			return nil, self
		}
		return c.front.AcquireTurn(ctx, try)
	}, line.ReleaseTurnNoWait)
}

// Do is [Mutex.Do]: it acquires, runs f with a context that ends with ctx or with the turn, and releases. It waits
// for the release at most a second, and not at all unless the node is deleted with it.
func (c *Cohort) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return line.Do(ctx, func(ctx context.Context) (*Turn, error) { return c.Acquire(ctx) }, c.m.wrapError, f)
}

// Participants is [Mutex.Participants]. A Cohort is one participant, however many callers wait.
func (c *Cohort) Participants(ctx context.Context) ([]Participant, error) {
	return c.m.Participants(ctx)
}

// Holder is [Mutex.Holder]. A Cohort with [WithKept] may be the holder while no caller has a turn.
func (c *Cohort) Holder(ctx context.Context) (Participant, bool, error) { return c.m.Holder(ctx) }

// Turn is the lock while one caller of a [Cohort] has it. It lasts until Release, or until the lock is
// lost. Safe for concurrent use. It has these methods besides those below:
//
//   - Context() context.Context is as Context of a [Lock]: it ends with the turn or when the lock is lost, before another
//     process can acquire it, and Acquire with it re-enters.
//   - Valid() bool reports whether the caller certainly holds the lock now, computed from the clock. Remaining()
//     time.Duration is as Remaining of a Lock.
//   - Path() string and Node() string return the path and the name of the Cohort's node. Other turns have the same.
type Turn struct {
	*grantShare
	m *Mutex
}

// Revoked is as [Lock.Revoked]. After a request for the lock, the Cohort releases its node at the end of this turn.
func (t *Turn) Revoked() <-chan struct{} { return line.Revoked(t.grantShare) }

// Lost returns the cause of the lock's loss during the turn; nil if it was not lost.
func (t *Turn) Lost() error { return line.GrantOf(t.grantShare).Lost() }

// Release ends the turn. After re-entries only the last Release does so. The next caller of the Cohort has the lock
// immediately, if there is one and other processes do not have their turn first; with [WithKept] it may stay with the
// process. In both cases nothing is sent, and Release does not wait. Otherwise it waits, as [Lock.Release] does,
// until the server has confirmed the deletion of the node; if ctx ends first, or the connection is lost, Release
// returns that error and the client continues in the background.
//
// A second Release returns ErrReleased. If the lock was lost before, the error is the cause.
func (t *Turn) Release(ctx context.Context) error {
	return t.m.wrapError("release", line.Release(ctx, t.grantShare))
}

// ReleaseInBackground is Release for a caller that does not wait, as [Lock.ReleaseInBackground]; then, if
// given, gets the error.
func (t *Turn) ReleaseInBackground(then ...func(err error)) {
	line.ReleaseInBackground(t.grantShare, t.m.wrapError, then)
}
