// This file has the API for authors of recipes and caches, in this module and outside. Programs that only use recipes
// need none of it. A recipe takes a [Session] and does everything through its [Session.Client], so that nothing that
// begins in one session ends in another. It calls [Session.Hold] for each grant, and repeats operations with
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

// As returns the session with the namespace and the retry policy of c, which must be a view of the same client. A recipe
// that was made with one view uses it to continue a hold that was acquired with another view. For authors of recipes.
func (s *Session) As(c *Client) *Session {
	v := c.view
	v.epoch = s.epoch
	return &Session{epoch: s.epoch, client: newClient(s.client.core, v)}
}

// Connections returns the number of connections that the session has had. It grows before the first event or result of
// a new connection is delivered: so if it has not changed, all that was delivered came over the same connection. For
// authors of recipes.
func (s *Session) Connections() uint64 {
	if s.isZeroValue() {
		return 0
	}
	return s.epoch.wire.Connections()
}

// Grace returns the time ([WithFenceGrace]) for which a recipe has to keep the node of a lost hold, from the end of the
// hold's context, so that users who have not released it can stop their work before another client gets the lock. It is
// 0 while the hold is valid, after [Hold.End] without a cause, and if the node is deleted or the session has ended. For
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

// Zxid returns the highest zxid of the replies to this client. Every later reply in this session shows the tree as of
// that transaction, or later. For authors of recipes.
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
	if cached := s.client.cached.ended.Load(); cached != nil {
		return *cached
	}
	weakEpoch := weak.Make(s.epoch)
	ended := func() bool {
		e := weakEpoch.Value()
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

// Pause waits for d, or until ctx ends or the client closes. With a nil ctx, or a nil or zero client, it does not wait.
// For authors of recipes.
func (c *Client) Pause(ctx context.Context, d time.Duration) {
	if ctx != nil && !c.isZeroValue() {
		c.core.pauseFor(ctx, d)
	}
}

// WhenStateChanges makes the client call f after each change of the state until stop is called, on the goroutine of
// [Client.Later]. A call that was queued before stop may run after stop has returned. For authors of recipes.
func (c *Client) WhenStateChanges(f func()) (stop func()) {
	if f == nil || c.isZeroValue() {
		return func() {}
	}
	return c.core.board.callOnChange(func() { c.Later(f) })
}

// Spawn runs f on a new goroutine that Close waits for: for work that a recipe has to finish after its caller has
// stopped waiting. When the client closes, operations fail with ErrClosed and pauses end; f's context ends after the
// session, and then f has to return. A panic in f ends the process. For authors of recipes.
func (c *Client) Spawn(f func(ctx context.Context)) {
	if f == nil || c.isZeroValue() {
		return
	}
	c.core.ops.workers.spawn(func() { f(c.core.ops.workers.ctx) })
}

// Later queues f for the goroutine that runs this view's callbacks ([Pending.Then], Watching), and returns without
// waiting. For authors of recipes.
func (c *Client) Later(f func()) {
	if f != nil {
		c.executors().callbacks.enqueue(f)
	}
}

// Err returns the error with which every operation of this client fails from now on: ErrClosed, ErrNoClient or, for the
// view of a [Session] that has ended, ErrSessionLost. Otherwise it returns nil. A recipe that waits for the next session
// after a loss has to call it, because with a view of the lost session it would wait in vain. For authors of recipes.
func (c *Client) Err() error {
	_, err := c.operationEpoch()
	return err
}

// WaitError returns the error of a wait that ended because ctx has ended. It matches ctx.Err(), context.Cause(ctx) and
// last, the last failure of the wait (nil for none). If there is no connection, the error's text has the reason. For
// authors of recipes.
func (c *Client) WaitError(ctx context.Context, last error) error {
	err := flow.Ended(ctx)
	if last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	if c.isZeroValue() {
		return err
	}
	return c.core.explainWait(err)
}

// Place returns a comparable value that identifies the node at path in the whole tree, together with the client: it is
// equal for all views of this client, whatever their namespaces. A recipe compares it to find out whether a hold that a
// context carries is on its own path. For authors of recipes.
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

// FullPath returns path with chroot and namespace: the node's path in the whole tree. Errors: ErrInvalidPath,
// ErrNoClient. For authors of recipes.
func (c *Client) FullPath(path string) (string, error) { return c.fullPath(path) }

// MaxFrame returns the limit of [WithMaxFrame] for a request, in bytes. For authors of recipes.
func (c *Client) MaxFrame() int {
	if c.isZeroValue() {
		return 0
	}
	return c.core.cfg.maxFrame
}

// Hooks returns the hooks of all [WithHooks] as one value, for the recipe to call. Acquire, Wait and NodeData are never
// nil, and neither are the functions and the context that they return. Queue is nil if there are no hooks: then the
// recipe need not collect the arguments of Queue and Wait. All other fields are nil: the client itself calls those
// hooks. For authors of recipes.
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

// CleanupLogger is like Logger, but its logger keeps no part of the client alive: for clean-ups of the garbage collector
// ([runtime.AddCleanup]). Its lines have a separate queue, which Close does not wait for. For authors of recipes.
func (c *Client) CleanupLogger() *slog.Logger {
	if c.isZeroValue() {
		return slog.New(slog.DiscardHandler)
	}
	return c.core.ops.cleanupLog
}

// ContenderDataLimit is the limit for the data that a recipe reads from another contender's node: 64 KiB, before and
// after decompression. Contenders put names and addresses there. The limit protects the memory of clients that list the
// contenders.
const ContenderDataLimit = 64 << 10

// ErrDataTooLarge is the error in place of a contender's data that are larger than ContenderDataLimit or than
// [WithMaxReply] allows, or that exceed the limit for a whole list of contenders. The contender is in the line all the
// same.
var ErrDataTooLarge = newSentinel("a participant's data are too large to be read")

// Unpacked decodes the data of another contender's node at path, which were read Undecompressed. With [WithCompression]
// it decompresses them; data that cannot be decompressed are returned unchanged and without an error, since other
// clients may not compress. If the data are larger than [ContenderDataLimit], compressed or decompressed, it returns no
// data and ErrDataTooLarge; if only the decompressed data are, the error also matches ErrDecompressedTooLarge. For
// authors of recipes.
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

// UnpackedUpTo decodes the data of the node at path, which were read Undecompressed. With [WithCompression] it
// decompresses them; data that cannot be decompressed are returned unchanged, since other clients may not compress, with
// an error that matches ErrDecompress. If the decompressed data would have more than limit bytes, or more than
// [WithDecompressedLimit] allows, it returns no data, and the error also matches ErrDecompressedTooLarge. For authors of
// recipes and caches.
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
