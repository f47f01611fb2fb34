package node

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
	"github.com/go-curator/curator/internal/plain"
)

// State says whether a keeper's node is there.
type State int8

const (
	// Unknown: there is no connection, or the keeper has not looked yet since there is one.
	Unknown State = iota
	// Missing: the node was not there when the keeper looked, or another's was in its place.
	Missing
	// There: the node was there when the keeper looked, and a watch would have told if it had gone.
	There
)

func (s State) String() string {
	if s < Unknown || s > There {
		return fmt.Sprintf("State(%d)", int8(s))
	}
	return [...]string{"unknown", "missing", "there"}[s]
}

// Status is what a [Keeper] knows of its node. It is about the recent past, and no right: the session may
// end, and the node be gone, before this process knows. Where that matters take a [Claim].
type Status struct {
	State State
	// Path is that of the node; empty while the server has not yet given a sequential node its number.
	Path string
	// Czxid is the transaction that has made the node, with There. It is another one each time that the node
	// has been made.
	Czxid int64
	// Other says, with Missing, that another's node is in the place of this one. It has been made by the
	// session Owner, which is 0 if it belongs to none.
	Other bool
	Owner int64
	// Err is what went wrong last, since the node was there last: nil, or the reason for the state, after
	// which the keeper tries again.
	Err error
}

func (s Status) String() string {
	text := s.State.String()
	switch {
	case s.Other && s.Owner == 0:
		text += ": a node of no session is in its place"
	case s.Other:
		text += fmt.Sprintf(": the node of session %#x is in its place", s.Owner)
	}
	if s.Err != nil {
		text += ": " + plain.Lines(s.Err.Error())
	}
	return text
}

// same says whether nothing has changed that anybody would want to know.
func (s Status) same(other Status) bool {
	return s.State == other.State && s.Path == other.Path && s.Czxid == other.Czxid && s.Other == other.Other &&
		s.Owner == other.Owner && fmt.Sprint(s.Err) == fmt.Sprint(other.Err)
}

// Status returns what is known now. It sends nothing. When the keeper has ended the state is Missing, and Err
// says why: [ErrClosed] if it was closed.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// Follow yields what is known of the node, in order and without loss: first, and after each change, until the
// loop is left or ctx ends. A node that was deleted and made anew is Missing in between, or has another
// Czxid. The keeper does not wait for the loop: what the loop has not taken yet is kept.
//
// An error is the last thing that is yielded: ctx's, or that with which the keeper has ended. Corresponds to
// Curator's PersistentNodeListener.
func (k *Keeper) Follow(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if err := k.ready(ctx); err != nil {
			yield(Status{}, k.wrap("follow", err))
			return
		}
		all := flow.NewQueue[Status]()
		k.mu.Lock()
		all.Put(k.status)
		k.followers[all] = struct{}{}
		k.mu.Unlock()
		defer func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.followers, all)
		}()
		for over := false; ; {
			for _, s := range all.Take() {
				if !yield(s, nil) {
					return
				}
			}
			switch {
			case ctx.Err() != nil:
				yield(Status{}, k.wrap("follow", k.client.Left(ctx, nil)))
				return
			case over:
				yield(Status{}, k.wrap("follow", k.Status().Err))
				return
			}
			select {
			case <-all.More():
			case <-k.done:
				over = true // after what was told until then
			case <-ctx.Done():
			}
		}
	}
}

// WaitCreated waits until the node is there and has the keeper's data, at once if that is so. A persistent node that
// was there before has them later than [Status] says that it is there.
//
// When ctx ends, the keeper goes on. Then the error matches ctx.Err(), and says what keeps the node from
// being there. WaitCreated waits through lost connections and lost sessions, and for another session's
// ephemeral node to go. But if the node cannot be made, or a persistent one that is there cannot be written, for a
// reason that does not pass by itself it returns that: framework.ErrNoAuth, ErrTooLarge, ErrNodeExists if there is a
// node that belongs to no session, ErrUnimplemented from a server that knows no TTL ([WithTTL]), … The keeper goes on
// trying, and the caller can call WaitCreated again. When the keeper has ended, the error is [ErrClosed] or why.
//
// Corresponds to PersistentNode.waitForInitialCreate.
func (k *Keeper) WaitCreated(ctx context.Context) error {
	return k.wrap("wait created", k.await(ctx, func() (bool, error) {
		return k.status.State == There && k.written && k.touched, cmp.Or(k.refusal, k.untouchable)
	}))
}

// await waits until check says that it is so, or returns an error. It is called with the lock held.
func (k *Keeper) await(ctx context.Context, check func() (bool, error)) error {
	if err := k.ready(ctx); err != nil {
		return err
	}
	for {
		k.mu.Lock()
		done, err := check()
		over, status, changed := k.over, k.status, k.changed.C()
		k.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		case over:
			return status.Err
		case ctx.Err() != nil:
			err := k.client.Left(ctx, status.Err)
			if status.Other {
				err = fmt.Errorf("%w (%v)", err, Status{State: Missing, Other: true, Owner: status.Owner})
			}
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// show makes s what is known, and tells those who follow.
func (k *Keeper) show(s Status, written bool, refusal error, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.written, k.refusal, k.over = written, refusal, over
	if !k.status.same(s) {
		k.status = s
		for f := range k.followers {
			f.Put(s)
		}
	}
	k.changed.Fire()
}

var errForeign = fmt.Errorf("there is a node at this path that belongs to no session, so that no session's "+
	"end takes it away: %w", framework.ErrNodeExists)
