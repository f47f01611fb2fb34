package fence

import (
	"context"
	"fmt"
	"sync"
)

// Gate lets work on a resource begin only if it has the resource's newest token. The middlewares of the modules http
// and grpc are made of it. Safe for concurrent use. It starts nothing.
//
// A check before the work is not enough: work that was let in may be slow, and write after a newer holder. Therefore
// the first with a newer token waits until all with an older one have left; their contexts end, so that this is soon.
// Those with the same token work at the same time.
//
// A Gate knows only the work in its own process. If several processes serve the same resource, the store behind them
// has to refuse old tokens itself. In addition to the store it has memory only for the resources that are worked on
// or waited for.
type Gate struct {
	store Store

	mu    sync.Mutex
	rooms map[string]*room // guarded by mu
}

// room is a resource that is worked on. All of it is guarded by the Gate's mu.
type room struct {
	newest int64
	users  int // inside, or waiting to be
	inside map[*visit]struct{}
	left   chan struct{} // closed, and replaced, after each leave
}

type visit struct {
	token  int64
	cancel context.CancelCauseFunc
}

// NewGate returns a Gate that remembers tokens in store.
func NewGate(store Store) *Gate { return &Gate{store: store, rooms: map[string]*room{}} }

// Enter waits until the work with older tokens has left, or ctx ends. The work has to be done with the returned
// context. It ends with ctx, with leave, or, when a newer token comes, with a cause that matches [ErrOutdated]. Call
// leave when the work is done, however it has ended.
//
// Errors: [ErrOutdated] if a newer token was seen, also while Enter waits; [ErrBadArguments]; the store's error,
// [ErrForgotten] for example; and the error of ctx. Then there is nothing to leave.
func (g *Gate) Enter(
	ctx context.Context, resource string, token int64,
) (work context.Context, leave func(), err error) {
	if err := Check(resource, token); err != nil {
		return nil, nil, err
	}
	work, cancel := context.WithCancelCause(ctx)
	v := &visit{token, cancel}
	r, err := g.wait(ctx, resource, v)
	if err != nil {
		cancel(err)
		return nil, nil, err
	}
	leave = sync.OnceFunc(func() {
		cancel(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(r.inside, v)
		g.leave(resource, r)
	})
	// The store is asked within: a newer token waits until this one has left.
	if err = g.store.Admit(work, resource, token); err == nil {
		err = context.Cause(work)
	} else if work.Err() != nil && ctx.Err() == nil {
		err = context.Cause(work) // and not that the store was interrupted
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return work, leave, nil
}

// wait lets v in, or returns the reason for refusing it.
func (g *Gate) wait(ctx context.Context, resource string, v *visit) (*room, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.rooms[resource]
	if r == nil {
		r = &room{newest: v.token, inside: map[*visit]struct{}{}, left: make(chan struct{})}
		g.rooms[resource] = r
	}
	r.users++
	if v.token > r.newest {
		r.newest = v.token
		for older := range r.inside {
			older.cancel(outdated(resource, older, r))
		}
		r.wake() // the visits that wait with an older token
	}
	for {
		switch {
		case v.token < r.newest:
			g.leave(resource, r)
			return nil, outdated(resource, v, r)
		case r.all(v.token):
			r.inside[v] = struct{}{}
			return r, nil
		}
		left := r.left
		g.mu.Unlock()
		var ended error
		select {
		case <-left:
		case <-ctx.Done():
			ended = fmt.Errorf("fence: waiting for the work of an older holder: %w", context.Cause(ctx))
		}
		g.mu.Lock()
		if ended != nil {
			g.leave(resource, r)
			return nil, ended
		}
	}
}

// leave counts one user less. The Gate's mu is held.
func (g *Gate) leave(resource string, r *room) {
	r.users--
	if r.users == 0 {
		delete(g.rooms, resource)
	}
	r.wake()
}

func (r *room) wake() {
	close(r.left)
	r.left = make(chan struct{})
}

// all reports whether all visits inside have this token.
func (r *room) all(token int64) bool {
	for v := range r.inside {
		if v.token != token {
			return false
		}
	}
	return true
}

func outdated(resource string, v *visit, r *room) error {
	return fmt.Errorf("fence: %w", &OutdatedError{resource, v.token, r.newest})
}
