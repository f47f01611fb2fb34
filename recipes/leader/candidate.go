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
	"github.com/go-curator/curator/recipes/internal/line"
)

// candidate is the common part of a latch and a selector: the node in the line, and its state.
type candidate struct {
	line line.Line
	err  error // the mistake in NewSelector's arguments

	mu            sync.Mutex
	changed       flow.Signal // fired after each change below
	term          *Term       // the present term, which may just have ended; nil if none
	refusals      int         // attempts to join that failed with a lasting refusal
	joinErr       error       // the error of the last attempt to join; nil if it succeeded
	idle          error       // why the candidate takes no part in the election; nil while it does
	position      *line.Position
	positionEpoch int64 // the session's when the position was reported

	role               Role // of the reading with the number recorded
	since              time.Time
	readings, recorded uint64 // the numbers of the last reading begun, and of the reading that set role
}

func (c *candidate) initRole(idle error) {
	c.idle, c.role, c.since = idle, Idle, time.Now()
	if idle == nil {
		c.role = Unknown
	}
	c.line.OnWait = func(p line.Position) {
		epoch := c.line.Client.Safety().Epoch
		c.updateState(func() { c.position, c.positionEpoch, c.joinErr = &p, epoch, nil })
	}
}

// updateState runs f under mu, wakes the waiters for changed, and updates the role.
func (c *candidate) updateState(f func()) {
	c.mu.Lock()
	f()
	c.changed.Fire()
	c.mu.Unlock()
	c.Health()
}

// joinLine waits in the line until the candidate's node is the first. The term is not announced yet: see
// recordTermBegin.
func (c *candidate) joinLine(ctx context.Context) (*Term, error) {
	what := framework.Acquisition{Recipe: c.line.Recipe, Path: c.line.Dir}
	grant, err := line.ReportAcquire(ctx, c.line.Client, what, c.line.Acquire, (*line.Grant).ReleaseNoWait)
	if err != nil {
		return nil, err
	}
	return c.newTerm(grant), nil
}

func (c *candidate) recordTermBegin(t *Term) {
	c.line.Client.Logger().Info("became the leader",
		"path", c.line.Dir, "node", t.Node(), "token", t.FencingToken())
	c.updateState(func() { c.term, c.position, c.joinErr = t, nil, nil })
}

func (c *candidate) recordTermEnd(t *Term) {
	c.line.Client.Logger().Info("no longer the leader",
		"path", c.line.Dir, "node", t.Node(), "cause", t.endCause())
	c.clearTerm()
}

func (c *candidate) clearTerm() { c.updateState(func() { c.term, c.position = nil, nil }) }

// pauseAfterFailure logs and records that joining has failed, for the failures-th time in a row, and waits before the
// next attempt.
func (c *candidate) pauseAfterFailure(ctx context.Context, err error, failures int) {
	log, again := c.line.Client.Logger(), rejoinDelay(failures)
	log.Warn("cannot join the election; retrying", "path", c.line.Dir, "err", err, "in", again)
	c.updateState(func() {
		c.position, c.joinErr = nil, err
		if !framework.Retryable(err) {
			c.refusals++
		}
	})
	c.line.Client.Pause(ctx, again)
}

func (c *candidate) setIdle(why error) {
	c.updateState(func() { c.idle, c.position, c.joinErr = why, nil, nil })
}

// currentTerm returns the present term; nil if there is none, or if it has ended.
func (c *candidate) currentTerm() *Term {
	c.mu.Lock()
	t := c.term
	c.mu.Unlock()
	if t == nil || !t.Valid() {
		return nil
	}
	return t
}

// startDeletion starts the deletion of grant's node after its last term, and does not wait for it. It returns nil if the
// node is gone, or goes with its session. It is gone only if cause is ErrNodeDeleted itself: an error that matches
// ErrNodeDeleted may be the cause of the context that ended the term, and so about the node of another lock.
func startDeletion(grant *line.Grant, cause error) *framework.Pending[struct{}] {
	if cause == ErrNodeDeleted || grant.Session.Client().Err() != nil {
		return nil
	}
	deletion := grant.Deletion(grant.Session.Client()).InBackground()
	return deletion.ForPath(context.Background(), grant.Path)
}

// isNodeGone reports whether why, the cause of a term's end or the error of a delete, means that the node is
// gone or goes with its session.
func isNodeGone(why error) bool {
	return errors.Is(why, ErrNodeDeleted) || errors.Is(why, ErrSessionLost) ||
		errors.Is(why, framework.ErrClosed)
}

// rejoinDelay returns how long to wait before the next attempt to join, after n failures in a row.
func rejoinDelay(n int) time.Duration {
	return chance.UpTo(min(100*time.Millisecond<<min(n-1, 10), 10*time.Second))
}

// Participant is a node of an election, the leader's or a waiter's, of any client, in Go or Java.
type Participant struct {
	// ID is the participant's name for itself, see [WithID]; "" if this client has no permission to read the node.
	// Any client may have written it: quote it where control characters could do harm.
	ID     string
	Leader bool // the first in the line: it leads, or is about to
	// The other fields are as in Participant of package mutex. Name and Path identify the node. SessionID is the
	// session that owns the node. Czxid is the fencing token of its term. Since is the time of its joining, by the
	// server's clock. DataErr is the reason why ID is missing, if it is too long.
	Name, Path       string
	SessionID, Czxid int64
	Since            time.Time
	DataErr          error
}

func newParticipant(p line.Participant, first bool) Participant {
	return Participant{
		ID: string(p.Data), Leader: first, Name: p.Name, Path: p.Path,
		SessionID: p.SessionID, Czxid: p.Czxid, Since: p.Since, DataErr: p.DataErr,
	}
}

func (c *candidate) listParticipants(ctx context.Context, limit int) ([]Participant, error) {
	line, err := c.line.Participants(ctx, c.err, limit)
	if err != nil {
		return nil, c.wrapError("participants", err)
	}
	all := make([]Participant, len(line))
	for i, p := range line {
		all[i] = newParticipant(p, i == 0)
	}
	return all, nil
}

// Path returns the election's path.
func (c *candidate) Path() string { return c.line.Dir }

// HasLeadership reports whether this participant certainly leads now, computed from the clock.
func (c *candidate) HasLeadership() bool { return c.currentTerm() != nil }

// Participants returns the leader first and then the waiters, in the order of the line. It lists the children and
// then reads each node, 64 in one request. The result may be outdated when it returns. It returns the errors of every
// read.
func (c *candidate) Participants(ctx context.Context) ([]Participant, error) {
	return c.listParticipants(ctx, 0)
}

// Leader returns the first in the line, which leads or is about to; false if the line is empty.
func (c *candidate) Leader(ctx context.Context) (Participant, bool, error) {
	return line.First(c.listParticipants(ctx, 1))
}

// Observe is [Observe] for this election.
func (c *candidate) Observe(ctx context.Context) iter.Seq2[Observation, error] {
	return leaderObserver{c.line.Client, c.line.Dir, c.line.Order, c.err}.observations(ctx)
}

func (c *candidate) wrapError(verb string, err error) error { return wrapError(c.line.Dir, verb, err) }
