package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"weak"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/retry"
)

// Connections returns how many connections the session has had so far. It has grown before the first event or result that came over a
// new connection is delivered: who finds it unchanged knows that there was no reconnect meanwhile.
func (s *Session) Connections() uint64 {
	if s.none() {
		return 0
	}
	return s.e.wire.Links()
}

// Ended returns what says whether the session is over, for clean-ups of the garbage collector: it keeps neither the session nor its client, looks at no
// clock and touches no channel.
func (s *Session) Ended() func() bool {
	if s.none() {
		return func() bool { return true }
	}
	kept := weak.Make(s.e)
	return func() bool {
		e := kept.Value()
		if e == nil {
			return true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.over != nil
	}
}

// ForRecipes returns a view whose callbacks, those of [Pending.Then] and of Watching, run on a goroutine apart from that of everybody else's: one after the
// other, in the order in which operations are answered and watches fire. They must not block, and call nothing of a user's: all recipes and caches of the client share
// that goroutine. Since nothing waits there, the events of their persistent watches have no [WatchBacklog].
func (c *Client) ForRecipes() *Client {
	if c.none() {
		return &Client{}
	}
	v := c.view
	v.own = true
	return &Client{core: c.core, view: v}
}

// desk is where the view's operations come back to.
func (c *Client) desk() *desk {
	switch {
	case c.none():
		return &desk{callbacks: serial{spawn: func(f func()) { go f() }}}
	case c.view.own:
		return &c.core.ops.own
	}
	return &c.core.ops.desk
}

// retryPolicy returns the policy of [WithRetry], or of [Client.UsingRetry], for recipes that repeat several operations as one.
func (c *Client) retryPolicy() retry.Policy {
	if c.none() {
		return nil
	}
	if p := c.view.retry; p != nil {
		return p
	}
	return c.core.cfg.retry
}

// Retry is retry.Do with the retry policy of this client or view, for recipes that repeat several operations as one. It differs in three ways. What is
// repeated unless retry.WithRetryable says otherwise is what [Retryable] says. After the loss of a connection the first retry does not wait for the policy's
// time, but comes with the next connection. When the client closes, no pause goes on: op is called once more, to be told ErrClosed.
func (c *Client) Retry(ctx context.Context, op func(ctx context.Context) error, opts ...retry.Option) error {
	switch {
	case c.none():
		return ErrNoClient
	case ctx == nil:
		return ErrNilContext
	case op == nil:
		return badArguments("Retry without a function")
	}
	policy := c.retryPolicy()
	if p, only := policy.(whileConnected); only {
		policy, op = p.Policy, c.whileConnected(op)
	}
	defaults := []retry.Option{retry.WithRetryable(Retryable), retry.WithInterrupt(c.core.closed), retry.WithReady(c.ready)}
	return retry.Do(ctx, policy, op, append(defaults, opts...)...)
}

// ready says when the first retry after an error need wait no longer: when there is a connection.
func (c *Client) ready(err error) <-chan struct{} {
	if !errors.Is(err, ErrSessionLost) && !errors.Is(err, ErrConnectionLoss) && !errors.Is(err, ErrNotConnected) {
		return nil
	}
	back := c.core.nextConnection() // before the look, so that none is missed
	if c.core.epochLast().wire.Connected() {
		return closedChannel
	}
	return back
}

// WhileConnected makes a retry policy, for [WithRetry] and [Client.UsingRetry], by which nothing is repeated while the client has no connection: an operation
// that fails then returns its error at once, ErrConnectionLoss or ErrNotConnected. (How long it waits for a connection in the first place says
// [WithConnectionTimeout].) Otherwise it is policy; a nil one repeats nothing. Corresponds to no class of Curator's.
func WhileConnected(policy retry.Policy) retry.Policy { return whileConnected{policy} }

type whileConnected struct{ retry.Policy }

// NewBackOff implements [retry.Policy], for those who have no client.
func (p whileConnected) NewBackOff() backoff.BackOff {
	if p.Policy == nil {
		return &backoff.StopBackOff{}
	}
	return p.Policy.NewBackOff()
}

// whileConnected is op, but its errors are final while there is no connection.
func (c *Client) whileConnected(op func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		err := op(ctx)
		var marked *backoff.PermanentError // marked twice it would come out with one of the marks
		if err != nil && !errors.As(err, &marked) && ctx.Err() == nil && !c.core.epochLast().wire.Connected() {
			return retry.Permanent(err)
		}
		return err
	}
}

// Pause waits for d, but not longer than until ctx ends or the client closes. For recipes that try again by a rule of their own.
func (c *Client) Pause(ctx context.Context, d time.Duration) {
	if ctx != nil && !c.none() {
		c.core.pause(ctx, d)
	}
}

func (c *core) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.closed:
	}
}

// Place returns a comparable value that stands for the node at path as this client sees it: the same one for all views of the client, by whatever namespace
// and path they reach the node. For recipes, to tell what a context carries is theirs.
func (c *Client) Place(path string) any {
	if c.none() {
		return place{nil, path}
	}
	full, err := c.fullPath(path)
	if err != nil {
		full = path
	}
	return place{c.core, full}
}

// As returns the session as c, a view of the same client, sees it: with c's namespace and retry policy. For recipes that go on under what was acquired by
// way of another view.
func (s *Session) As(c *Client) *Session {
	return &Session{s.e, &Client{core: s.c.core, view: c.view.in(s.e)}}
}

type place struct {
	core *core
	path string
}

// Retryable says whether the error of an operation is about the way to the server and not about the operation, so that a retry policy may
// be asked about it: ErrConnectionLoss, ErrNotConnected, ErrSessionMoved, ErrOperationTimeout, ErrThrottled. Whether a repeat does no harm
// is for the caller to know.
func Retryable(err error) bool { return transient(err) }

// Logger returns one that writes to that of [WithLogger], for recipes and caches. It waits for nothing: lines are queued, as the client's own are.
func (c *Client) Logger() *slog.Logger {
	if c.none() {
		return slog.New(slog.DiscardHandler)
	}
	return c.core.ops.log
}

// CleanupLogger is Logger for clean-ups of the garbage collector: it keeps neither the client nor anything of it, and writes each line on a goroutine of its own.
func (c *Client) CleanupLogger() *slog.Logger {
	if c.none() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(apartHandler{c.core.cfg.logger.Handler()})
}

// SessionSoon is [Client.Session] for who would rather fail than wait for ever: it waits for a connection as an operation does, that is
// for the connection timeout, and again as often as the retry policy says. Then the error is ErrNotConnected.
// While every server refuses the client's credentials it is ErrAuthFailed, at once.
func (c *Client) SessionSoon(ctx context.Context) (s *Session, err error) {
	if c.none() {
		return nil, ErrNoClient
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	err = c.Retry(ctx, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, c.core.cfg.connectTimeout)
		defer cancel()
		if s, err = c.session(limited, true); err != nil && limited.Err() != nil && ctx.Err() == nil {
			return c.core.explain(ErrNotConnected) // the deadline was not the caller's: it must not be found in the error
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Over returns why no operation of this client can ever succeed again, nil while one may: ErrClosed, and for the view of a [Session] also ErrSessionLost; ErrNoClient if there is none. For
// recipes that sit out the loss of a session, which is nothing that passes for who is bound to that session.
func (c *Client) Over() error {
	_, err := c.epochOf()
	return err
}

// ContenderDataLimit is how many bytes of data a recipe takes from the node of another participant, packed or not: 64 KiB. Who waits in line, leads or holds
// puts a name or an address there, and must not be able to fill the memory of those who ask who is there.
const ContenderDataLimit = 64 << 10

// ErrDataTooLarge says that a participant's data are larger than ContenderDataLimit, or that those of all participants in one answer together are larger
// than the answer may be. The participant stands in line all the same.
var ErrDataTooLarge = named("a participant's data are too large to be read")

// Unpacked returns data that somebody has put into a node, and that were read Undecompressed, as this client would read them: with [WithCompression]
// unpacked, if they can be, and else as they are. More than [ContenderDataLimit], packed or unpacked, is ErrDataTooLarge (in the latter case also
// ErrDecompressedTooLarge), and no data. For recipes, which read the nodes of others: whether those pack their data is not to be relied on.
func (c *Client) Unpacked(path string, data []byte) ([]byte, error) {
	if len(data) > ContenderDataLimit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are taken", ErrDataTooLarge, len(data), ContenderDataLimit)
	}
	full, err := c.fullPath(path)
	if err != nil {
		return data, nil
	}
	switch plain, err := c.incomingUpTo(full, data, packDefault, ContenderDataLimit); {
	case err == nil:
		return plain, nil
	case errors.Is(err, ErrDecompressedTooLarge):
		return nil, fmt.Errorf("%w: %w", ErrDataTooLarge, err)
	}
	return data, nil
}

// Spawn runs f on a goroutine of the client's, for recipes that have to finish something behind their caller's back. Close waits for it: by then
// operations, and pauses, fail with ErrClosed, and f has to return. A panic in f ends the process.
func (c *Client) Spawn(f func(ctx context.Context)) {
	if f == nil || c.none() {
		return
	}
	c.core.ops.workers.spawn(func() { f(c.core.ops.workers.ctx) })
}
