// This file has the API for authors of recipes and caches, in this module and outside. Programs that only use recipes
// need none of it. To write a recipe, take a [Session] and do everything through its [Session.Client], so that nothing
// that begins in one session ends in another. Call [Session.Hold] for each grant, and repeat operations with
// [Client.Retry].

package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"weak"

	"github.com/go-curator/curator/internal/flow"
)

// As returns the session with the namespace and the retry policy of c, which is a view of the same client:
// for a recipe that continues, with one view, what another view has acquired. For authors of recipes.
func (s *Session) As(c *Client) *Session {
	v := c.view
	v.epoch = s.epoch
	return &Session{epoch: s.epoch, client: newClient(s.client.core, v)}
}

// Connections returns the number of connections that the session has had. It grows before the first event or result of
// a new connection is delivered: while the number is the same there was no reconnect. For authors of recipes.
func (s *Session) Connections() uint64 {
	if s.isZeroValue() {
		return 0
	}
	return s.epoch.wire.Connections()
}

// Grace returns how long the users of a hold that was lost have to stop, from the end of its context, before a
// recipe may delete its node without their release: as long as after the loss of a session ([WithFenceGrace]). It is
// 0 while the hold lasts, after [Hold.End] without a cause, and if the node is gone or goes with its session. For
// authors of recipes.
func (h *Hold) Grace() time.Duration {
	if h.e == nil || h.e.ctx.Err() != nil {
		return 0
	}
	switch why := h.endCause(); {
	case why == nil, errors.Is(why, ErrReleased), errors.Is(why, ErrNodeDeleted), errors.Is(why, ErrSessionLost),
		errors.Is(why, ErrClosed):
		return 0
	}
	return h.e.core.cfg.graceAfterLoss(h.e.wire.Timeout(), nil)
}

// Zxid returns the last transaction that an answer to this client has shown: every later answer in this session
// shows the tree as it was then, or later. For authors of recipes.
func (s *Session) Zxid() int64 {
	if s.isZeroValue() {
		return 0
	}
	return s.epoch.wire.MaxZxid()
}

// Ended returns a function that reports whether the session has ended. The function keeps neither the session nor its
// client alive, reads no clock and uses no channel, so that clean-ups of the garbage collector can call it. For authors
// of recipes.
func (s *Session) Ended() func() bool {
	if s.isZeroValue() {
		return func() bool { return true }
	}
	if made := s.client.cached.ended.Load(); made != nil {
		return *made
	}
	kept := weak.Make(s.epoch)
	ended := func() bool {
		e := kept.Value()
		if e == nil {
			return true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.endedBy != nil
	}
	s.client.cached.ended.Store(&ended)
	return ended
}

// Pause waits for d, or until ctx ends or the client closes. For authors of recipes.
func (c *Client) Pause(ctx context.Context, d time.Duration) {
	if ctx != nil && !c.isZeroValue() {
		c.core.pauseFor(ctx, d)
	}
}

// WhenStateChanges makes the client call f after each change of the state until stop is called, as [Client.Later] does.
// A call that is queued already may come after stop. For authors of recipes.
func (c *Client) WhenStateChanges(f func()) (stop func()) {
	if f == nil || c.isZeroValue() {
		return func() {}
	}
	return c.core.board.callOnChange(func() { c.Later(f) })
}

// Spawn runs f on a goroutine that Close waits for: for work that a recipe has to finish after its caller has
// gone. When the client closes, f's context ends, operations and pauses fail with ErrClosed, and f has to
// return. A panic in f ends the process. For authors of recipes.
func (c *Client) Spawn(f func(ctx context.Context)) {
	if f == nil || c.isZeroValue() {
		return
	}
	c.core.ops.workers.spawn(func() { f(c.core.ops.workers.ctx) })
}

// Later makes the client call f on the goroutine of its callbacks, as [Pending.Then] does when the operation has ended
// already. For authors of recipes.
func (c *Client) Later(f func()) {
	if f != nil {
		c.executors().callbacks.enqueue(f)
	}
}

// Err returns nil while an operation of this client can still succeed. Otherwise it returns ErrClosed, for the view of
// a [Session] also ErrSessionLost, and ErrNoClient if there is no client. A recipe that waits for the next session
// after a loss has to call it, because a view of a lost session can never succeed again. For authors of recipes.
func (c *Client) Err() error {
	_, err := c.operationEpoch()
	return err
}

// Left returns the error of a wait that ended with ctx. It matches ctx.Err(), context.Cause(ctx), and last, the last
// failure, which may be nil. If there is no connection, the error has the reason. For authors of recipes.
func (c *Client) Left(ctx context.Context, last error) error {
	err := flow.Ended(ctx)
	if last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	if c.isZeroValue() {
		return err
	}
	return c.core.explainWait(err)
}

// Place returns a comparable value for the node at path. The value is the same for all views of this client,
// whatever their namespace. With it a recipe finds out whether a hold that a context carries is its own. For
// authors of recipes.
func (c *Client) Place(path string) any {
	if c.isZeroValue() {
		return nodePlaceKey{nil, path}
	}
	full, err := c.fullPath(path)
	if err != nil {
		full = path
	}
	return nodePlaceKey{c.core, full}
}

type nodePlaceKey struct {
	core *clientCore
	path string
}

// FullPath returns the path of the node in the whole tree, with chroot and namespace. Errors: ErrInvalidPath,
// ErrNoClient. For authors of recipes.
func (c *Client) FullPath(path string) (string, error) { return c.fullPath(path) }

// MaxFrame returns the limit of [WithMaxFrame] for a request, in bytes. For authors of recipes.
func (c *Client) MaxFrame() int {
	if c.isZeroValue() {
		return 0
	}
	return c.core.cfg.maxFrame
}

// Hooks returns the hooks of [WithHooks] as one value; a recipe calls them to report what it does. Acquire, Wait and
// NodeData are never nil, and neither are the functions and the context that they return. Queue is nil if there are no
// hooks: then the recipe need not collect the arguments of Queue and Wait. All other fields are nil: the client itself
// calls those hooks. For authors of recipes.
func (c *Client) Hooks() Hooks {
	if c.isZeroValue() {
		return noHooks
	}
	return c.core.cfg.recipeHooks
}

// Logger returns a logger that writes to the logger of [WithLogger]. It never waits: lines are queued. For
// authors of recipes.
func (c *Client) Logger() *slog.Logger {
	if c.isZeroValue() {
		return slog.New(slog.DiscardHandler)
	}
	return c.core.ops.log
}

// CleanupLogger is Logger for clean-ups of the garbage collector: it keeps no part of the client alive. Its lines have
// their own queue. For authors of recipes.
func (c *Client) CleanupLogger() *slog.Logger {
	if c.isZeroValue() {
		return slog.New(slog.DiscardHandler)
	}
	return c.core.ops.apart
}

// ContenderDataLimit is the limit for the data that a recipe reads from another participant's node, compressed or not:
// 64 KiB. Participants put names and addresses there. They must not be able to fill the memory of clients that list the
// participants.
const ContenderDataLimit = 64 << 10

// ErrDataTooLarge means that a participant's data are larger than ContenderDataLimit, or that the data of all
// participants in one answer are larger than the answer may be. The participant is in the queue all the same.
var ErrDataTooLarge = newSentinel("a participant's data are too large to be read")

// Unpacked returns data of another participant's node, read Undecompressed, as this client would read them.
// With [WithCompression] that is decompressed if possible; otherwise as they are, since other clients may not
// compress. If the data are larger than [ContenderDataLimit], compressed or decompressed, it returns no data
// and ErrDataTooLarge; if only decompressed, the error also matches ErrDecompressedTooLarge. For authors of
// recipes.
func (c *Client) Unpacked(path string, data []byte) ([]byte, error) {
	if len(data) > ContenderDataLimit {
		return nil, fmt.Errorf("%w: they have %d bytes, and the limit is %d",
			ErrDataTooLarge, len(data), ContenderDataLimit)
	}
	plain, err := c.UnpackedUpTo(path, data, ContenderDataLimit)
	if errors.Is(err, ErrDecompressedTooLarge) {
		return nil, fmt.Errorf("%w: %w", ErrDataTooLarge, err)
	}
	return plain, nil
}

// UnpackedUpTo returns data, read Undecompressed, as this client would read them: with [WithCompression]
// decompressed if possible. Data that cannot be decompressed are returned as they are, since other clients may
// not compress, with an error that matches ErrDecompress. Data that would have more bytes than limit when
// decompressed are not returned, and the error matches ErrDecompressedTooLarge, too; [WithDecompressedLimit]
// applies as well. For authors of recipes and caches.
func (c *Client) UnpackedUpTo(path string, data []byte, limit int) ([]byte, error) {
	full, err := c.fullPath(path)
	if err != nil || !c.Compresses() {
		return data, nil
	}
	plain, err := c.decodeNodeDataUpTo(full, data, compressionDefault, min(limit, c.core.cfg.decompressedLimit))
	if err != nil && !errors.Is(err, ErrDecompressedTooLarge) {
		return data, err
	}
	return plain, err
}

// Compresses reports whether the client has [WithCompression]. For authors of recipes and caches.
func (c *Client) Compresses() bool { return c.usesCompression(compressionDefault) }
