package queue

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
)

// Share is one grant and those who share it: whoever acquires under it once more joins, instead of standing in line. The hold's context is made
// with it (see [Carry]) before there is a grant, and so it is ready with begin.
type Share struct {
	grant   atomic.Pointer[Grant] // set by begin. Only a hook that is told of the hold has its context before that.
	revoked <-chan struct{}       // set by begin

	mu    sync.Mutex
	count int // Handles that were not released, guarded by mu
}

// Enter acquires with wait what can be shared, which is told by values, unless the Line is Stubborn; who has something to share already is to see with
// [Line.Reenter] first.
func (l *Line) Enter(ctx context.Context, wait func(ctx, values context.Context) (*Grant, error)) (*Handle, error) {
	ctx, acquired := l.Begin(ctx)
	s, values := &Share{}, ctx
	if !l.Stubborn {
		values = Carry(ctx, l.owner(), s)
	}
	grant, err := wait(ctx, values)
	Announce(acquired, err, grant.Leave)
	if err != nil {
		return nil, err
	}
	if l.Revocable {
		s.revoked = grant.Revoked()
	}
	return s.begin(grant), nil
}

// Reenter returns one more Handle on what ctx carries of the Line's: nil if there is none, or not any more, if the Line is Stubborn, or if the client is the
// view of a session that is over.
func (l *Line) Reenter(ctx context.Context) *Handle {
	if s, ok := Carried[*Share](ctx, l.owner()); ok && !l.Stubborn && l.Client.Over() == nil {
		return s.join()
	}
	return nil
}

// Holds says whether ctx carries something of the Line's, as Reenter returns it.
func (l *Line) Holds(ctx context.Context) bool {
	_, holds := Carried[*Share](ctx, l.owner())
	return holds
}

// begin returns the first Handle.
func (s *Share) begin(grant *Grant) *Handle {
	s.mu.Lock()
	s.count = 1
	s.mu.Unlock()
	s.grant.Store(grant)
	return s.handle()
}

// Live says whether the grant is there, and held.
func (s *Share) Live() bool {
	grant := s.grant.Load()
	return grant != nil && grant.Hold.Valid()
}

// join returns one more Handle of a grant that is, or was, held, nil if the last one was released; then it waits for the hold to end, which is about to.
func (s *Share) join() *Handle {
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
	grant := s.grant.Load()
	h.cleanup = Mind(h, grant.Path, grant.Session)
	return h
}

// Handle is one of those who share a grant. Its methods are what the recipes' locks consist of, and documented there.
type Handle struct {
	share    *Share
	released atomic.Bool
	cleanup  runtime.Cleanup
}

// Grant returns what is shared.
func (h *Handle) Grant() *Grant { return h.share.grant.Load() }

// Revoked is closed when somebody has asked for the grant to be given up; nil if nobody listens.
func (h *Handle) Revoked() <-chan struct{} { return h.share.revoked }

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
