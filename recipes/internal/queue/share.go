package queue

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
)

// Share is one grant and the callers that share it: one that acquires under it again joins, instead of
// standing in line. The hold's context carries it (see [Carry]), and is made before there is a grant.
type Share struct {
	grant   atomic.Pointer[Grant] // set by Enter; a hook that is told of the hold has its context before that
	revoked <-chan struct{}       // set before grant

	mu    sync.Mutex
	count int // Handles that were not released, guarded by mu
}

// Waiter waits for a grant, as [Line.Acquire] and [Line.TryAcquire] do.
type Waiter func(ctx, values context.Context) (*Grant, error)

// Enter acquires with wait what can be shared. values, which wait gets, tells later callers of it, unless the
// Line has NoReentry. Before it, [Line.Reenter] tells whether there is something to share already.
func (l *Line) Enter(ctx context.Context, wait Waiter) (*Handle, error) {
	ctx, acquired := l.Begin(ctx)
	s, values := &Share{count: 1}, ctx
	if !l.NoReentry {
		values = Carry(ctx, l.owner(), s)
	}
	grant, err := wait(ctx, values)
	Finish(acquired, err, grant.Abandon)
	if err != nil {
		return nil, err
	}
	if l.Revocable {
		s.revoked = grant.Revoked()
	}
	s.grant.Store(grant)
	return s.handle(), nil
}

// Reenter returns one more Handle on the Line's share that ctx carries. It is nil if ctx carries none that is
// held, if the Line has NoReentry, or if the client is the view of a session that is over.
func (l *Line) Reenter(ctx context.Context) *Handle {
	if s, ok := Carried[*Share](ctx, l.owner()); ok && !l.NoReentry && l.Client.Err() == nil {
		return s.join()
	}
	return nil
}

// Holds says whether ctx carries a share of the Line's that is held.
func (l *Line) Holds(ctx context.Context) bool {
	_, holds := Carried[*Share](ctx, l.owner())
	return holds
}

// Live implements [Carriable].
func (s *Share) Live() bool {
	grant := s.grant.Load()
	return grant != nil && grant.Hold.Valid()
}

// join returns one more Handle. It is nil if the last one was released: then join waits for the hold to end,
// which is about to.
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
	h.cleanup = WarnIfDropped(h, grant.Path, grant.Session)
	return h
}

// Handle is one caller's share of a grant. The locks of the recipes consist of one, and document its methods.
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
func (h *Handle) Context() context.Context { return h.Grant().Hold.Context() }

// Valid says, from the clock, whether the grant is held and the Handle not released.
func (h *Handle) Valid() bool { return !h.released.Load() && h.Grant().Hold.Valid() }

// Remaining is how long it is Valid if nothing is heard of the servers any more.
func (h *Handle) Remaining() time.Duration {
	if h.released.Load() {
		return 0
	}
	return h.Grant().Hold.Remaining()
}

// Lost returns how the grant was lost, nil if it was not.
func (h *Handle) Lost() error { return Lost(h.Grant().Hold) }

// Release gives the share back, and the grant with the last one. The error is ErrReleased when it was called
// before, and how the grant was lost, if it was.
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
	err := h.Grant().Release(ctx)
	if lost != nil {
		return lost // what is left of the node goes with the session, or the client removes it
	}
	return err
}
