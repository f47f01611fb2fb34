package framework

import (
	"context"
	"errors"
)

// InSession runs f in one session: what f does with the view of the [Session] that it is given is executed in that session or fails with
// ErrSessionLost, and never goes on in the next one. f's context ends with the session, with the cause ErrSessionLost or ErrClosed, and with ctx.
//
// It waits for a session as [Client.SessionSoon] does. It returns nil if f did and the session was still alive then. If it was not, the error matches
// ErrSessionLost, whatever f returned: ephemeral nodes that f made are gone, or about to be. Any other error is f's own.
//
// What f leaves behind when ctx ends in between it has to remove itself, with a context that has not ended: an ephemeral node stays as long as the session.
//
// That is Curator's SessionFailRetryLoop with Mode.FAIL. For Mode.RETRY, which runs all of it again in the next session, put it into a retry.Do that
// repeats ErrSessionLost; see the example.
func (c *Client) InSession(ctx context.Context, f func(ctx context.Context, s *Session) error) error {
	if f == nil {
		return badArguments("InSession without a function")
	}
	s, err := c.SessionSoon(ctx)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.Context(), func() { cancel(s.e.endCause()) })()
	err = f(inner, s)
	if s.e.ctx.Err() == nil {
		return err
	}
	switch why := s.e.endCause(); {
	case err == nil:
		return why
	case errors.Is(err, why), errors.Is(err, ErrSessionLost), errors.Is(err, ErrClosed):
		return err
	default:
		return errors.Join(why, err)
	}
}
