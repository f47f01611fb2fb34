package queue

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
)

// Share is one grant and those who share it: whoever acquires under it once more joins, instead of standing in line. The hold's context is made
// with it (see [Carry]) before there is a grant, and so it is ready with Begin.
type Share struct {
	grant atomic.Pointer[Grant] // set by Begin. Only a hook that is told of the hold has its context before that.
	log   *slog.Logger          // set by Begin

	mu    sync.Mutex
	count int // Handles that were not released, guarded by mu
}

// Begin returns the first Handle.
func (s *Share) Begin(grant *Grant, log *slog.Logger) *Handle {
	s.mu.Lock()
	s.log, s.count = log, 1
	s.mu.Unlock()
	s.grant.Store(grant)
	return s.handle()
}

// Live says whether the grant is there, and held.
func (s *Share) Live() bool {
	grant := s.grant.Load()
	return grant != nil && grant.Hold.Valid()
}

// Join returns one more Handle of a grant that is, or was, held, nil if the last one was released; then it waits for the hold to end, which is about to.
func (s *Share) Join() *Handle {
	s.mu.Lock()
	if s.count > 0 {
		defer s.mu.Unlock()
		s.count++
		return s.handle()
	}
	s.mu.Unlock()
	<-s.grant.Load().Hold.Context().Done()
	return nil
}

func (s *Share) handle() *Handle {
	h := &Handle{share: s}
	h.cleanup = runtime.AddCleanup(h, forgotten, forgottenHandle{s.grant.Load().Path, s.log, s.grant.Load().Session.Ended()})
	return h
}

// forgottenHandle is what remains of a Handle that was garbage collected. Not the Share: it leads to the client, and from there, over hooks and the like
// of the user's, perhaps to the Handle, which would never be collected.
type forgottenHandle struct {
	path  string
	log   *slog.Logger
	ended func() bool
}

// forgotten only warns: somebody may still work under the lock's context. It runs on the collector's goroutine and touches as little as possible.
func forgotten(f forgottenHandle) {
	if !f.ended() {
		f.log.Warn("a lock was dropped without Release; it is held until its session ends", "path", f.path)
	}
}

// Handle is one of those who share a grant. Its methods are what the recipes' locks consist of, and documented there.
type Handle struct {
	share    *Share
	released atomic.Bool
	cleanup  runtime.Cleanup
}

// Grant returns what is shared.
func (h *Handle) Grant() *Grant { return h.share.grant.Load() }

// Context is the hold's.
func (h *Handle) Context() context.Context { return h.share.grant.Load().Hold.Context() }

// Valid says, from the clock, whether the grant is held and the Handle not released.
func (h *Handle) Valid() bool { return !h.released.Load() && h.share.grant.Load().Hold.Valid() }

// Remaining is for how long it is Valid if nothing is heard of the servers any more.
func (h *Handle) Remaining() time.Duration {
	if h.released.Load() {
		return 0
	}
	return h.share.grant.Load().Hold.Remaining()
}

// Lost returns how the grant was lost, nil if it was not.
func (h *Handle) Lost() error {
	if h.share.grant.Load().Hold.Valid() {
		return nil
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, framework.ErrReleased) {
		return cause
	}
	return nil
}

// Release gives the share back, and the grant with the last one: ErrReleased when it has been called before, and how the grant was lost, if it
// was.
func (h *Handle) Release(ctx context.Context) error {
	if ctx == nil {
		return framework.ErrNilContext
	}
	if h.released.Swap(true) {
		return framework.ErrReleased
	}
	h.cleanup.Stop()
	h.share.mu.Lock()
	h.share.count--
	last := h.share.count == 0
	h.share.mu.Unlock()
	if !last {
		return nil
	}
	lost := h.Lost()
	err := h.share.grant.Load().Release(ctx)
	if lost != nil {
		// What is left to be removed goes with the session, or the client removes it; the loss is what matters.
		return lost
	}
	return err
}

// Work returns the context for work under a hold on behalf of ctx: ctx, carrying also what hold carries, and ending with hold, too. Its Err looks at
// that of hold, which may look at the clock. stop is to be called when the work is done.
func Work(ctx, hold context.Context) (work context.Context, stop func()) {
	work, cancel := context.WithCancelCause(CarryFrom(ctx, hold))
	unhook := context.AfterFunc(hold, func() { cancel(context.Cause(hold)) })
	return &workContext{work, hold, cancel}, func() { unhook(); cancel(nil) }
}

type workContext struct {
	context.Context
	hold   context.Context
	cancel context.CancelCauseFunc
}

// Err implements [context.Context].
func (c *workContext) Err() error {
	if c.hold.Err() != nil {
		c.cancel(context.Cause(c.hold))
	}
	return c.Context.Err()
}
