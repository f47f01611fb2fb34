package leader

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// candidate is what a latch and a selector have in common: a place in line, and what others may know of it.
type candidate struct {
	line queue.Line
	err  error // of NewSelector: what is wrong with its arguments

	mu       sync.Mutex
	changed  flow.Signal // of term, refusals or idle
	term     *Term       // the present one, or the last
	refusals int         // how often joining was refused for a reason that does not pass by itself
	joinErr  error       // why the last try to join failed; nil when it did not
	idle     error       // why this takes no part in the election; nil while it does
	place    *queue.Position
	epoch    int64 // the session in which place is

	role               Role // as of the reading with the largest number
	since              time.Time
	readings, recorded uint64 // how many have begun, and the number of the one that role is of
}

func (c *candidate) init(idle error) {
	c.idle, c.role, c.since = idle, Idle, time.Now()
	if idle == nil {
		c.role = Unknown
	}
	c.line.OnWait = func(p queue.Position) {
		epoch := c.line.Client.Safety().Epoch
		c.change(func() { c.place, c.epoch, c.joinErr = &p, epoch, nil })
	}
}

// change runs f under the lock and wakes those that wait.
func (c *candidate) change(f func()) {
	c.mu.Lock()
	f()
	c.changed.Fire()
	c.mu.Unlock()
	c.Health()
}

// join stands in line until it is the first. The term has yet to begin.
func (c *candidate) join(ctx context.Context) (*Term, error) {
	ref := &termRef{}
	acquire := func(ctx context.Context) (*queue.Grant, error) { return c.line.Acquire(termValues{ctx, ref}) }
	what := framework.Acquisition{Recipe: c.line.Recipe, Path: c.line.Dir}
	grant, err := queue.Told(ctx, c.line.Client, what, acquire, (*queue.Grant).Abandon)
	if err != nil {
		return nil, err
	}
	return c.newTerm(grant, grant.Hold, ref), nil
}

func (c *candidate) began(t *Term) {
	c.line.Client.Logger().Info("became the leader",
		"path", c.line.Dir, "node", t.Node(), "token", t.FencingToken())
	c.change(func() { c.term, c.place, c.joinErr = t, nil, nil })
}

func (c *candidate) ended(t *Term) {
	c.line.Client.Logger().Info("no longer the leader",
		"path", c.line.Dir, "node", t.Node(), "cause", t.cause())
	c.clearTerm()
}

func (c *candidate) clearTerm() { c.change(func() { c.term, c.place = nil, nil }) }

// refused makes it known that joining has failed, so often in a row, and waits until it is to be tried again.
func (c *candidate) refused(ctx context.Context, err error, failures int) {
	log, again := c.line.Client.Logger(), rejoinDelay(failures)
	log.Warn("cannot join the election; trying again", "path", c.line.Dir, "err", err, "in", again)
	c.change(func() {
		c.place, c.joinErr = nil, err
		if !framework.Retryable(err) {
			c.refusals++
		}
	})
	c.line.Client.Pause(ctx, again)
}

func (c *candidate) setIdle(why error) {
	c.change(func() { c.idle, c.place, c.joinErr = why, nil, nil })
}

// current returns the term that lasts; nil if there is none.
func (c *candidate) current() *Term {
	c.mu.Lock()
	t := c.term
	c.mu.Unlock()
	if t == nil || !t.Valid() {
		return nil
	}
	return t
}

// remove has the client delete the node of a place whose last term has ended, unless it is gone anyway, and
// does not wait. What it returns is nil if there is nothing to wait for.
func remove(grant *queue.Grant, cause error) *framework.Pending[struct{}] {
	if goneAnyway(cause) {
		return nil
	}
	return queue.Remove(grant.Session.Client(), grant.Path)
}

// goneAnyway says of why a node is not held, or could not be deleted, that it is gone or goes with its
// session.
func goneAnyway(why error) bool {
	return errors.Is(why, ErrNodeDeleted) || errors.Is(why, ErrSessionLost) ||
		errors.Is(why, framework.ErrClosed)
}

// rejoinDelay is how long to wait before joining is tried again after n failures in a row.
func rejoinDelay(n int) time.Duration {
	return chance.UpTo(min(100*time.Millisecond<<min(n-1, 10), 10*time.Second))
}

// Participant is a contender that leads or stands in line, with any client, in Go or Java.
type Participant struct {
	// ID is what the participant calls itself, see [WithID]; "" when this client may not read the node. Anybody
	// may have written it: quote it where control characters could do harm.
	ID     string
	Leader bool // it is the first in line: it leads, or is about to
	// The rest is as in Participant of package mutex: the node; whose session it is, the fencing token, now or
	// when it leads, and when it joined, by the server's clock; and why ID is missing if it is too long.
	Name, Path       string
	SessionID, Czxid int64
	Since            time.Time
	DataErr          error
}

func participant(p queue.Participant, first bool) Participant {
	return Participant{
		ID: string(p.Data), Leader: first, Name: p.Name, Path: p.Path,
		SessionID: p.SessionID, Czxid: p.Czxid, Since: p.Since, DataErr: p.DataErr,
	}
}

func (c *candidate) participants(ctx context.Context, limit int) ([]Participant, error) {
	line, err := c.line.Participants(ctx, c.err, limit)
	if err != nil {
		return nil, c.wrap("participants", err)
	}
	all := make([]Participant, len(line))
	for i, p := range line {
		all[i] = participant(p, i == 0)
	}
	return all, nil
}

// Path returns the election's path.
func (c *candidate) Path() string { return c.line.Dir }

// HasLeadership says, from the clock, whether this certainly leads now.
func (c *candidate) HasLeadership() bool { return c.current() != nil }

// Participants returns the leader, first, and who stands in line, in that order: one list, and one read for
// each, 64 at a time. It may be outdated when it returns. Errors: those of every read.
func (c *candidate) Participants(ctx context.Context) ([]Participant, error) {
	return c.participants(ctx, 0)
}

// Leader returns the first in line, which leads or is about to; false if there is nobody.
func (c *candidate) Leader(ctx context.Context) (Participant, bool, error) {
	return queue.First(c.participants(ctx, 1))
}

// Observe is [Observe] for this election.
func (c *candidate) Observe(ctx context.Context) iter.Seq2[Observation, error] {
	return observer{c.line.Client, c.line.Dir, c.line.Order, c.err}.observe(ctx)
}

func (c *candidate) wrap(verb string, err error) error { return wrap(c.line.Dir, verb, err) }
