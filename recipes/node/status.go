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

// State is the state of a keeper's node.
type State int8

const (
	// Unknown: the client has no connection, or the keeper has not looked since it was connected.
	Unknown State = iota
	// Missing: the node was not there when the keeper looked, or another client's had its path.
	Missing
	// There: the node was there when the keeper looked, and no event has reported its deletion since.
	There
)

func (s State) String() string {
	if s < Unknown || s > There {
		return fmt.Sprintf("State(%d)", int8(s))
	}
	return [...]string{"unknown", "missing", "there"}[s]
}

// Status is a [Keeper]'s last known state of its node. It is about the recent past, and gives no exclusion: the
// session may end, and the node be gone, before this process notices. Where that matters use a [Claim].
type Status struct {
	State State
	// Path is the node's path; empty while the server has not yet given a sequential node its number.
	Path string
	// Czxid is, with There, the transaction that created the node. It differs after each recreation.
	Czxid int64
	// Other reports, with Missing, that another client's node has the path. It was made by the session Owner, which
	// is 0 if it belongs to none.
	Other bool
	Owner int64
	// Err is the last error since the node was there last: nil, or the reason for the state, after which the keeper
	// tries again.
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

// isSame reports whether no field that callers can see has changed.
func (s Status) isSame(other Status) bool {
	return s.State == other.State && s.Path == other.Path && s.Czxid == other.Czxid && s.Other == other.Other &&
		s.Owner == other.Owner && fmt.Sprint(s.Err) == fmt.Sprint(other.Err)
}

// Status returns the present status. It sends nothing. When the keeper has ended the state is Missing, and Err is the
// reason: [ErrClosed] if it was closed.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// Follow yields the statuses of the node, in order and without loss: the present one, and one after each change,
// until the loop is left or ctx ends. A node that was deleted and recreated is Missing in between, or has another
// Czxid. The keeper does not wait for the loop: statuses that the loop has not taken yet are kept.
//
// The last yield may be an error: ctx's, or the reason of the keeper's end. Corresponds to Curator's
// PersistentNodeListener.
func (k *Keeper) Follow(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if err := k.checkReady(ctx); err != nil {
			yield(Status{}, k.wrapError("follow", err))
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
		for ended := false; ; {
			for _, s := range all.Take() {
				if !yield(s, nil) {
					return
				}
			}
			switch {
			case ctx.Err() != nil:
				yield(Status{}, k.wrapError("follow", k.client.WaitError(ctx, nil)))
				return
			case ended:
				yield(Status{}, k.wrapError("follow", k.Status().Err))
				return
			}
			select {
			case <-all.More():
			case <-k.done:
				ended = true // after the statuses queued so far
			case <-ctx.Done():
			}
		}
	}
}

// WaitCreated waits until the node is there and has the keeper's data, and returns immediately if that is so. A
// persistent node that existed before gets them after [Status] reports There.
//
// When ctx ends, the keeper continues. Then the error matches ctx.Err(), and includes the reason why the node is
// missing. WaitCreated waits through lost connections and lost sessions, and for another session's ephemeral node to
// go. But after a lasting refusal to create the node, or to write an existing persistent one, it returns that error:
// framework.ErrNoAuth, ErrTooLarge, ErrNodeExists if there is a node that belongs to no session, ErrUnimplemented
// from a server without TTLs ([WithTTL]), … The keeper keeps trying, and the caller can call WaitCreated again. When
// the keeper has ended, the error is [ErrClosed] or the reason.
//
// Corresponds to PersistentNode.waitForInitialCreate.
func (k *Keeper) WaitCreated(ctx context.Context) error {
	return k.wrapError("wait created", k.awaitStatus(ctx, func() (bool, error) {
		return k.status.State == There && k.hasData && k.childWritten, cmp.Or(k.refusal, k.childErr)
	}))
}

// awaitStatus waits until check, which is called with the lock held, returns true or an error.
func (k *Keeper) awaitStatus(ctx context.Context, check func() (bool, error)) error {
	if err := k.checkReady(ctx); err != nil {
		return err
	}
	for {
		k.mu.Lock()
		done, err := check()
		finished, status, changed := k.finished, k.status, k.changed.C()
		k.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		case finished:
			return status.Err
		case ctx.Err() != nil:
			err := k.client.WaitError(ctx, status.Err)
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

// setStatus sets the status and sends it to the followers.
func (k *Keeper) setStatus(s Status, hasData bool, refusal error, finished bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hasData, k.refusal, k.finished = hasData, refusal, finished
	if !k.status.isSame(s) {
		k.status = s
		for f := range k.followers {
			f.Put(s)
		}
	}
	k.changed.Fire()
}

var errForeignNode = fmt.Errorf("there is a node at this path that belongs to no session, so that no session's "+
	"end takes it away: %w", framework.ErrNodeExists)
