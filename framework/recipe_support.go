package framework

import "context"

// Pinned says that this is a session's view ([Session.Client]): there ErrSessionLost is for good. For recipes that sit out the loss of a session.
func (c *Client) Pinned() bool { return c.pinned() != nil }

// Spawn runs f on a goroutine of the client's, for recipes that have to finish something behind their caller's back. Close waits for it: by then
// operations, and pauses, fail with ErrClosed, and f has to return.
func (c *Client) Spawn(f func(ctx context.Context)) {
	c.core.ops.workers.spawn(func() { f(c.core.ops.workers.ctx) })
}
