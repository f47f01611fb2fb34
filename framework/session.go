package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-curator/curator/internal/plain"
)

// Session is one ZooKeeper session of a client; the client numbers its sessions by epoch. Every ephemeral
// node belongs to one session. Safe for concurrent use.
//
// Recipes take a Session, work through its [Session.Client], and call [Session.Hold] for each grant. So nothing that
// begins in one session ends in another.
type Session struct {
	e *sessionEpoch
	c *Client
}

// isZeroValue reports whether s is a nil pointer or the zero value.
func (s *Session) isZeroValue() bool { return s == nil || s.e == nil }

// Format prints the session's epoch, whatever the verb.
func (s Session) Format(f fmt.State, _ rune) {
	if s.e == nil {
		_, _ = io.WriteString(f, "{no ZooKeeper session}")
		return
	}
	fmt.Fprintf(f, "{ZooKeeper session of epoch %d}", s.e.n)
}

// Epoch returns the number of this session among the client's sessions, counted from 1.
func (s *Session) Epoch() int64 {
	if s.isZeroValue() {
		return 0
	}
	return s.e.n
}

// ID returns the servers' id of the session, the ephemeralOwner of its nodes.
func (s *Session) ID() int64 {
	if s.isZeroValue() {
		return 0
	}
	return s.e.wire.ID()
}

// Timeout returns the session timeout that the server granted: [Safety.SessionTimeout].
func (s *Session) Timeout() time.Duration {
	if s.isZeroValue() {
		return 0
	}
	return s.e.wire.Timeout()
}

// Client returns a view of the client whose operations run in this session or fail with ErrSessionLost.
func (s *Session) Client() *Client {
	if s.isZeroValue() {
		return &Client{}
	}
	return s.c
}

// Context returns a context that ends with the session; its cause is ErrSessionLost or ErrClosed. A suspended
// connection does not end it.
func (s *Session) Context() context.Context {
	if s.isZeroValue() {
		return endedContext
	}
	return s.e.ctx
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.Context().Done() }

// WaitQuorum returns nil as soon as the session is connected to a server with a quorum; only then can anything be
// written or held. (With [WithReadOnly] the client also connects to servers without a quorum.) It returns
// ErrSessionLost or ErrClosed when the session has ended. When ctx ends first, the error matches ErrNotConnected and
// ctx.Err().
func (s *Session) WaitQuorum(ctx context.Context) error {
	if s.isZeroValue() {
		return ErrNoClient
	}
	if ctx == nil {
		return ErrNilContext
	}
	for e := s.e; ; {
		e.mu.Lock()
		over, connected, changed := e.endedBy, e.attached && !e.suspended, e.changed.C()
		e.mu.Unlock()
		switch {
		case over != nil:
			return over
		case connected:
			return nil
		case ctx.Err() != nil:
			return e.core.connectWaitError(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Session returns the current session, also while its connection is suspended. If there is no session yet, or
// the last was lost, it waits for the next session as long as ctx allows. On a session's view it returns that
// session, or ErrSessionLost.
func (c *Client) Session(ctx context.Context) (*Session, error) { return c.awaitSession(ctx, false) }

// awaitSession implements Session. With hopeful it also fails when every server refuses the client's credentials.
func (c *Client) awaitSession(ctx context.Context, hopeful bool) (*Session, error) {
	if c.isZeroValue() {
		return nil, ErrNoClient
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	for {
		e, err := c.operationEpoch()
		if err != nil {
			return nil, err
		}
		s, changed := c.sessionOfEpoch(e)
		if s != nil {
			return s, nil
		}
		if why := e.wire.Refused(); hopeful && why != nil {
			return nil, fmt.Errorf("%w: %w", errCredentialsRefused, plain.Error(why))
		}
		select {
		case <-changed:
		case <-c.core.epochReplaced(e):
		case <-ctx.Done():
			return nil, c.core.connectWaitError(ctx)
		}
	}
}

// SessionSoon is like [Client.Session], but gives up: it waits for the connection timeout, as often as the retry policy
// says. Then the error is ErrNotConnected. While every server refuses the client's credentials, it fails with
// ErrAuthFailed immediately. For authors of recipes.
func (c *Client) SessionSoon(ctx context.Context) (s *Session, err error) {
	if c.isZeroValue() {
		return nil, ErrNoClient
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if e, err := c.operationEpoch(); err == nil {
		if s, _ = c.sessionOfEpoch(e); s != nil {
			return s, nil // the usual case
		}
	}
	err = c.Retry(ctx, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, c.core.cfg.connectTimeout)
		defer cancel()
		if s, err = c.awaitSession(limited, true); err != nil && limited.Err() != nil && ctx.Err() == nil {
			// The deadline was not the caller's: the error must not match it.
			return c.core.explainWait(ErrNotConnected)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// sessionOfEpoch returns the session of an epoch for this view. While no server with a quorum has confirmed the
// session, it returns nil and a channel that is closed when the epoch changes.
func (c *Client) sessionOfEpoch(e *sessionEpoch) (s *Session, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.attached || e.endedBy != nil {
		return nil, e.changed.C()
	}
	if s = c.cached.session.Load(); s == nil || s.e != e {
		v := c.view
		v.epoch = e
		s = &Session{e, newClient(c.core, v)}
		c.cached.session.Store(s)
	}
	return s, nil
}

// InSession runs f in one session. An operation of f through the client of its [Session] is executed in that session or
// fails with ErrSessionLost; nothing continues in the next session. f's context ends with ctx and with the session, in
// that case with the cause ErrSessionLost or ErrClosed.
//
// InSession waits for a session as [Client.SessionSoon] does. If the session is alive when f returns, it
// returns f's error. If the session has ended, it returns an error that matches ErrSessionLost (ErrClosed if
// the client was closed), whatever f returned: ephemeral nodes that f made are gone, or about to be.
//
// If ctx ends first, f has to remove its nodes, with a context that has not ended: an ephemeral node stays as long as
// the session.
//
// This is Curator's SessionFailRetryLoop with Mode.FAIL. For Mode.RETRY, which runs everything again in the
// next session, call InSession in a retry.Do that repeats ErrSessionLost; see the example.
func (c *Client) InSession(ctx context.Context, f func(ctx context.Context, s *Session) error) error {
	if f == nil {
		return badArguments("the function given to InSession is nil")
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
