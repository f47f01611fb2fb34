package leader

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// candidate is what a latch and a selector have in common: a place in line, and what others may know of it.
type candidate struct {
	line queue.Line
	err  error // of NewSelector: what is wrong with its arguments

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when term, refused or idle changes
	term     *Term         // the present one, or the last
	refusals int           // how often joining was refused for a reason that does not pass by itself
	joinErr  error         // why the last try to join failed; nil when it did not
	idle     error         // why this takes no part in the election; nil while it does
	place    *queue.Position
	epoch    int64 // the session in which place is

	role         Role // as of the look with the largest number
	since        time.Time
	looks, noted uint64 // how many looks have begun, and the number of the one that role is of
}

func (c *candidate) init(idle error) {
	c.changed = make(chan struct{})
	c.idle, c.role, c.since = idle, Idle, time.Now()
	if idle == nil {
		c.role = Unknown
	}
	c.line.OnWait = func(p queue.Position) {
		epoch := c.line.Client.Safety().Epoch
		c.change(func() { c.place, c.epoch, c.joinErr = &p, epoch, nil })
	}
}

// change runs f under the lock and tells everybody.
func (c *candidate) change(f func()) {
	c.mu.Lock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	c.look()
}

// join stands in line until it is the first. The term has yet to begin.
func (c *candidate) join(ctx context.Context) (*Term, error) {
	in := &cell{}
	ctx, acquired := c.line.Begin(ctx)
	grant, err := c.line.Acquire(ctx, carrier{ctx, in})
	queue.Finish(acquired, err, grant.Abandon)
	if err != nil {
		return nil, err
	}
	return c.newTerm(grant, grant.Hold, in), nil
}

// begin makes a term known.
func (c *candidate) begin(t *Term) {
	c.line.Client.Logger().Info("leading", "path", c.line.Dir, "node", t.Node(), "token", t.FencingToken())
	c.change(func() { c.term, c.place, c.joinErr = t, nil, nil })
}

// over makes the end of a term known.
func (c *candidate) over(t *Term) {
	c.line.Client.Logger().Info("not leading any more", "path", c.line.Dir, "node", t.Node(), "cause", t.cause())
	c.forget()
}

// forget takes the term from those who look.
func (c *candidate) forget() { c.change(func() { c.term, c.place = nil, nil }) }

// refused notes that joining has failed.
func (c *candidate) refused(err error, again time.Duration) {
	c.line.Client.Logger().Warn("cannot join the election; trying again", "path", c.line.Dir, "err", err, "in", again)
	c.change(func() {
		c.place, c.joinErr = nil, err
		if !framework.Retryable(err) {
			c.refusals++
		}
	})
}

// rest makes known whether this takes part in the election.
func (c *candidate) rest(idle error) {
	c.change(func() { c.idle, c.place, c.joinErr = idle, nil, nil })
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

// giveUp removes the node of a place whose last term has ended, and does not wait. The session layer sees it through.
func giveUp(grant *queue.Grant, cause error) *framework.Pending[struct{}] {
	if goesByItself(cause) {
		return nil
	}
	return grant.Session.Client().Delete().Quietly().Guaranteed().InBackground().ForPath(context.Background(), grant.Path)
}

// goesByItself says of why a node is not held, or not deleted, any more that it is gone, or goes with its session.
func goesByItself(why error) bool {
	return errors.Is(why, ErrNodeDeleted) || errors.Is(why, ErrSessionLost) || errors.Is(why, framework.ErrClosed)
}

// pause is how long to wait before joining is tried again after n failures in a row.
func pause(n int) time.Duration {
	limit := min(100*time.Millisecond<<min(n-1, 10), 10*time.Second)
	return chance.UpTo(limit)
}

// Participant is somebody who leads or stands in line, with any client, in Go or Java.
type Participant struct {
	// ID is what the participant calls itself, see [WithID]; "" when this client may not read the node. Anybody may
	// have written it: quote it where control characters could do harm.
	ID string
	// Leader says that it is the first in line: it leads, or is about to.
	Leader bool
	// Name is that of the node, Path where it is.
	Name, Path string
	// SessionID is the participant's session, Czxid its fencing token, now or when it leads, Since when it joined, by the server's clock. They
	// are zero when this client may not read the node.
	SessionID, Czxid int64
	Since            time.Time
	// DataErr matches framework.ErrDataTooLarge when the ID is not known because it is longer than framework.ContenderDataLimit, packed or not, or the IDs of
	// all participants together than 16 MiB. It is that participant's trouble: the others are not affected.
	DataErr error
}

func participant(p queue.Participant, first bool) Participant {
	return Participant{ID: string(p.Data), Leader: first, Name: p.Name, Path: p.Path, SessionID: p.SessionID, Czxid: p.Czxid, Since: p.Since, DataErr: p.DataErr}
}

// participants returns up to limit of them, all with 0.
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

// Health says how the participant is doing.
func (c *candidate) Health() Health { return c.look() }

// Participants returns the leader, first, and who stands in line, in that order: one list, and one read for each, 64 at a time. What it returns
// may be outdated when it returns. Errors: those of every read.
func (c *candidate) Participants(ctx context.Context) ([]Participant, error) {
	return c.participants(ctx, 0)
}

// Leader returns the first in line, who leads or is about to; false if there is nobody.
func (c *candidate) Leader(ctx context.Context) (Participant, bool, error) {
	return queue.First(c.participants(ctx, 1))
}

// Observe is [Observe] for this election.
func (c *candidate) Observe(ctx context.Context) iter.Seq2[Observation, error] {
	return observer{c.line.Client, c.line.Dir, c.line.Order, c.err}.observe(ctx)
}

func (c *candidate) wrap(verb string, err error) error { return wrap(c.line.Dir, verb, err) }
