// This file has what is exported for recipes and caches, those of this module and your own. Programs that
// only use recipes need none of it. To write a recipe take a [Session], do everything through its
// [Session.Client], so that nothing begun in one session is finished in another, hold what was granted with
// [Session.Hold], and repeat with [Client.Retry].

package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"weak"

	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/retry"
)

// ForRecipes returns a view whose callbacks, those of [Pending.Then] and of Watching, run on a goroutine of
// their own: one after the other, in the order in which operations are answered and watches fire. All
// recipes and caches of the client share that goroutine, so callbacks must neither block nor call a
// function of the user's. The events of the view's persistent watches have no [WatchBacklog], since nothing
// waits there. For authors of recipes.
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

// SessionSoon is like [Client.Session], but gives up: it waits for the connection timeout, and again as
// often as the retry policy says. Then the error is ErrNotConnected. While every server refuses the
// client's credentials it is ErrAuthFailed, at once. For authors of recipes.
func (c *Client) SessionSoon(ctx context.Context) (s *Session, err error) {
	if c.none() {
		return nil, ErrNoClient
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if e, err := c.epochOf(); err == nil {
		if s, _ = c.sessionOf(e); s != nil {
			return s, nil // as usual
		}
	}
	err = c.Retry(ctx, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, c.core.cfg.connectTimeout)
		defer cancel()
		if s, err = c.session(limited, true); err != nil && limited.Err() != nil && ctx.Err() == nil {
			return c.core.explain(ErrNotConnected) // the deadline was not the caller's: the error must not match it
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// As returns the session with the namespace and the retry policy of c, which is a view of the same client:
// for a recipe that goes on under what another view has acquired. For authors of recipes.
func (s *Session) As(c *Client) *Session {
	v := c.view
	v.epoch = s.e
	return &Session{s.e, &Client{core: s.c.core, view: v}}
}

// Connections returns how many connections the session has had. It grows before the first event or result
// of a new connection is delivered: while it is the same there was no reconnect. For authors of recipes.
func (s *Session) Connections() uint64 {
	if s.none() {
		return 0
	}
	return s.e.wire.Links()
}

// JoinWatch returns one more one-shot watch of the data of the node at path, if this session has one on the
// server already: there is no request. Else it is nil. For authors of recipes.
func (s *Session) JoinWatch(path string) *Watch {
	if s.none() {
		return nil
	}
	full, err := s.c.fullPath(path)
	if err != nil {
		return nil
	}
	w := watching{wanted: true}.start(s.c, wire.Data, full)
	if !s.e.wire.Join(w.arm(s.e)) {
		return nil
	}
	return w
}

// Ended returns a function that says whether the session is over. It keeps neither the session nor its
// client alive, looks at no clock and touches no channel, so that the garbage collector's clean-ups can use
// it. For authors of recipes.
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

// Retry is [retry.Do] with the policy of [WithRetry] or [Client.UsingRetry], for several operations that are
// repeated as one. It differs in three ways. By default it repeats what [Retryable] says. After the loss of a
// connection the first retry does not wait for the policy's time, but for the next connection. And when the
// client closes no wait goes on: op is called once more, to return ErrClosed. For authors of recipes.
func (c *Client) Retry(ctx context.Context, op func(ctx context.Context) error, opts ...retry.Option) error {
	switch {
	case c.none():
		return ErrNoClient
	case ctx == nil:
		return ErrNilContext
	case op == nil:
		return badArguments("Retry without a function")
	}
	policy := c.view.retry
	if policy == nil {
		policy = c.core.cfg.retry
	}
	if p, only := policy.(whileConnected); only {
		policy, op = p.Policy, c.whileConnected(op)
	}
	defaults := []retry.Option{retry.WithRetryable(Retryable), retry.WithInterrupt(c.core.closed),
		retry.WithReady(c.ready)}
	return retry.Do(ctx, policy, op, append(defaults, opts...)...)
}

// Pause waits for d, or until ctx ends or the client closes. For authors of recipes.
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

// Spawn runs f on a goroutine that Close waits for: for what a recipe has to finish after its caller has
// gone. When the client closes f's context ends, operations and pauses fail with ErrClosed, and f has to
// return. A panic in f ends the process. For authors of recipes.
func (c *Client) Spawn(f func(ctx context.Context)) {
	if f == nil || c.none() {
		return
	}
	c.core.ops.workers.spawn(func() { f(c.core.ops.workers.ctx) })
}

// Later has f called on the goroutine of the client's callbacks, as [Pending.Then] does with a result that is
// there already. For authors of recipes.
func (c *Client) Later(f func()) {
	if f != nil {
		c.desk().callbacks.put(f)
	}
}

// Err returns why no operation of this client can ever succeed again, and nil while one may: ErrClosed,
// for the view of a [Session] also ErrSessionLost, and ErrNoClient if there is no client. A recipe that
// sits out the loss of a session asks it, because a view pinned to a lost session can never succeed again.
// For authors of recipes.
func (c *Client) Err() error {
	_, err := c.epochOf()
	return err
}

// Left returns the error of a wait that the end of ctx has ended. It matches ctx.Err(), context.Cause(ctx),
// and last, which is what went wrong last and may be nil. If there is no connection it says why. For
// authors of recipes.
func (c *Client) Left(ctx context.Context, last error) error {
	err := flow.Ended(ctx)
	if last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	if c.none() {
		return err
	}
	return c.core.explain(err)
}

// Place returns a comparable value that stands for the node at path: the same one for all views of this
// client, whatever their namespace. It tells a recipe whether what a context carries is its own. For
// authors of recipes.
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

type place struct {
	core *core
	path string
}

// Hooks returns the hooks of [WithHooks] as one value, through which a recipe tells what it does. Acquire,
// Wait and NodeData are never nil, and neither are the functions and the context that they return. Queue is
// nil if there are no hooks: then nothing needs to be found out for it, nor for Wait. All others are nil:
// the client tells those itself. For authors of recipes.
func (c *Client) Hooks() Hooks {
	if c.none() {
		return noHooks
	}
	return c.core.cfg.told
}

// Logger returns a logger that writes to that of [WithLogger]. It waits for nothing: lines are queued. For
// authors of recipes.
func (c *Client) Logger() *slog.Logger {
	if c.none() {
		return slog.New(slog.DiscardHandler)
	}
	return c.core.ops.log
}

// CleanupLogger is Logger for the garbage collector's clean-ups: it keeps no part of the client alive. Its
// lines are queued apart from those of Logger. For authors of recipes.
func (c *Client) CleanupLogger() *slog.Logger {
	if c.none() {
		return slog.New(slog.DiscardHandler)
	}
	return c.core.ops.apart
}

// ContenderDataLimit is how many bytes of data a recipe takes from another participant's node, compressed
// or not: 64 KiB. Participants put names and addresses there. They must not be able to fill the memory of
// those who ask who is there.
const ContenderDataLimit = 64 << 10

// ErrDataTooLarge says that a participant's data are larger than ContenderDataLimit, or that the data of all
// participants in one answer are larger than the answer may be. The participant is in line all the same.
var ErrDataTooLarge = named("a participant's data are too large to be read")

// Unpacked returns data of another participant's node, read Undecompressed, as this client would read them:
// with [WithCompression] unpacked if they can be, otherwise as they are, since others may not compress.
// More than [ContenderDataLimit], packed or unpacked, is ErrDataTooLarge and no data; if unpacked also
// ErrDecompressedTooLarge. For authors of recipes.
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
