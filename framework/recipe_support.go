package framework

// Pinned says that this is a session's view ([Session.Client]): there ErrSessionLost is for good. For recipes that sit out the loss of a session.
func (c *Client) Pinned() bool { return c.pinned() != nil }
