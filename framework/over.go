package framework

// Over returns why no operation of this client can ever succeed again, nil while one may: ErrClosed, and for the view of a [Session] also ErrSessionLost. For
// recipes that sit out the loss of a session, which is nothing that passes for who is bound to that session.
func (c *Client) Over() error {
	_, err := c.epochOf()
	return err
}
