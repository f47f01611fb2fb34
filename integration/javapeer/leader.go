package javapeer

import (
	"context"
	"time"
)

// Candidate is a LeaderLatch or a LeaderSelector of the peer.
type Candidate struct {
	peer       *Peer
	kind, name string
	seen       int // of the events
}

// Latch starts a LeaderLatch, known to the peer by name.
func (p *Peer) Latch(ctx context.Context, name, path, id string) (*Candidate, error) {
	return p.candidate(ctx, "latch", name, path, id)
}

// Selector starts a LeaderSelector that requeues itself, known to the peer by
// name.
func (p *Peer) Selector(ctx context.Context, name, path, id string) (*Candidate, error) {
	return p.candidate(ctx, "selector", name, path, id)
}

func (p *Peer) candidate(ctx context.Context, kind, name, path, id string) (*Candidate, error) {
	_, err := p.Call(ctx, kind, name, path, id)
	return &Candidate{peer: p, kind: kind, name: name}, err
}

// AwaitLeader waits for the next time that the candidate becomes the leader, and returns the time of its report. One
// wait at a time, this one or AwaitFollower.
func (c *Candidate) AwaitLeader(ctx context.Context) (time.Time, error) {
	return c.await(ctx, "leader")
}

// AwaitFollower waits until it is notified that it does not lead any more.
func (c *Candidate) AwaitFollower(ctx context.Context) (time.Time, error) {
	return c.await(ctx, "follower")
}

func (c *Candidate) await(ctx context.Context, what string) (time.Time, error) {
	event, seen, err := c.peer.AwaitEvent(ctx, c.seen,
		func(e Event) bool { return e.Name == what && e.Words[0] == c.name })
	c.seen = seen
	return event.Time, err
}

// Leads is hasLeadership of a latch.
func (c *Candidate) Leads(ctx context.Context) (bool, error) {
	return c.peer.truth(ctx, "latch-leads", c.name)
}

// Token is the czxid of a latch's node.
func (c *Candidate) Token(ctx context.Context) (int64, error) {
	return c.peer.number(ctx, "latch-token", c.name)
}

// Participants are the ids as Curator returns them, the leader's first.
func (c *Candidate) Participants(ctx context.Context) ([]string, error) {
	return c.peer.Call(ctx, c.kind+"-participants", c.name)
}

// Resign has takeLeadership of a selector return if it leads.
func (c *Candidate) Resign(ctx context.Context) error {
	_, err := c.peer.Call(ctx, "selector-resign", c.name)
	return err
}

// Close closes it; a latch notifies its listener if it leads.
func (c *Candidate) Close(ctx context.Context) error {
	var err error
	if c.kind == "latch" {
		_, err = c.peer.Call(ctx, "latch-close", c.name, "NOTIFY_LEADER")
	} else {
		_, err = c.peer.Call(ctx, "selector-close", c.name)
	}
	return err
}
