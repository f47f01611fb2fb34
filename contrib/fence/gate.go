package fence

import (
	"context"
	"fmt"
	"sync"
)

// Gate lets work on a resource begin only with the resource's newest token. The middlewares of the modules http and
// grpc use it. Safe for concurrent use. It starts no goroutine.
//
// A check of the token before the work is not enough: the work may be slow, and write after the work of a newer holder.
// So work with a newer token ends the contexts of all work with older tokens, and waits until that work has left. Work
// with the same token is done at the same time.
//
// A Gate has effect only in its own process. If several processes serve the same resource, the store behind them has to
// refuse old tokens itself. Apart from its store, a Gate needs memory only for resources that have work or wait for it.
type Gate struct {
	store Store

	mu     sync.Mutex
	active map[string]*activeResource // guarded by mu
}

// activeResource is a resource that has work, or callers of Enter that wait. The Gate's mu guards all of it.
type activeResource struct {
	newest  int64
	callers int // of Enter, that wait or have not left
	working map[*gateWork]struct{}
	changed chan struct{} // closed, and replaced, when a caller that waits has to check again
}

type gateWork struct {
	token  int64
	cancel context.CancelCauseFunc
}

// NewGate returns a Gate that stores tokens in store.
func NewGate(store Store) *Gate { return &Gate{store: store, active: map[string]*activeResource{}} }

// Enter waits until the work with older tokens has left, or ctx ends. Do the work with the returned context. It ends
// with ctx, with leave, or, when a newer token comes, with a cause that matches [ErrOutdated]. Call leave when the work
// has ended, whether it has succeeded or not.
//
// Errors: [ErrOutdated] if a newer token has come, also while Enter waits; [ErrBadArguments]; the store's error,
// [ErrForgotten] for example; and the error of ctx. After an error leave is nil.
func (g *Gate) Enter(
	ctx context.Context, resource string, token int64,
) (work context.Context, leave func(), err error) {
	if err := Check(resource, token); err != nil {
		return nil, nil, err
	}
	work, cancel := context.WithCancelCause(ctx)
	w := &gateWork{token, cancel}
	r, err := g.awaitOlder(ctx, resource, w)
	if err != nil {
		cancel(err)
		return nil, nil, err
	}
	leave = sync.OnceFunc(func() {
		cancel(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(r.working, w)
		g.removeCaller(resource, r)
	})
	// The store gets the token only now, so that a newer one cannot overtake it: that one waits until leave.
	if err = g.store.Admit(work, resource, token); err == nil {
		err = context.Cause(work)
	} else if work.Err() != nil && ctx.Err() == nil {
		err = context.Cause(work) // ErrOutdated, and not the error of the store that this has interrupted
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return work, leave, nil
}

// awaitOlder ends the contexts of the work with older tokens, waits until that work has left, and then lets w begin. It
// returns an error if w's token is outdated or ctx ends.
func (g *Gate) awaitOlder(ctx context.Context, resource string, w *gateWork) (*activeResource, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.active[resource]
	if r == nil {
		r = &activeResource{newest: w.token, working: map[*gateWork]struct{}{}, changed: make(chan struct{})}
		g.active[resource] = r
	}
	r.callers++
	if w.token > r.newest {
		r.newest = w.token
		for older := range r.working {
			older.cancel(outdatedError(resource, older, r))
		}
		r.wakeCallers() // those with older tokens now return an error
	}
	for {
		switch {
		case w.token < r.newest:
			g.removeCaller(resource, r)
			return nil, outdatedError(resource, w, r)
		case r.allHave(w.token):
			r.working[w] = struct{}{}
			return r, nil
		}
		changed := r.changed
		g.mu.Unlock()
		var ended error
		select {
		case <-changed:
		case <-ctx.Done():
			ended = fmt.Errorf("fence: waiting for the work of an older holder: %w", context.Cause(ctx))
		}
		g.mu.Lock()
		if ended != nil {
			g.removeCaller(resource, r)
			return nil, ended
		}
	}
}

// removeCaller counts one caller less, and removes the resource after the last. The Gate's mu is held.
func (g *Gate) removeCaller(resource string, r *activeResource) {
	r.callers--
	if r.callers == 0 {
		delete(g.active, resource)
	}
	r.wakeCallers()
}

func (r *activeResource) wakeCallers() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// allHave reports whether all work of the resource has this token.
func (r *activeResource) allHave(token int64) bool {
	for w := range r.working {
		if w.token != token {
			return false
		}
	}
	return true
}

func outdatedError(resource string, w *gateWork, r *activeResource) error {
	return fmt.Errorf("fence: %w", &OutdatedError{resource, w.token, r.newest})
}
