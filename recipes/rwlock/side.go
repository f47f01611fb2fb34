package rwlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Side is one of the two locks of an [RWLock]. Safe for concurrent use. Corresponds to Curator's ReadLock and
// WriteLock.
type Side struct {
	rw   *RWLock
	kind Kind
	line line.Line
	err  error // the mistake in New's arguments: every method returns it
}

// Kind returns which of the two locks this is.
func (s *Side) Kind() Kind { return s.kind }

// Path returns the path of the locks.
func (s *Side) Path() string { return s.line.Dir }

// Acquire waits in the line until it has the lock or ctx ends. A reader waits for the writers ahead, a
// writer for all nodes ahead. ctx limits only the wait: a lock that was acquired outlives it.
//
// If ctx is the Context of a [Lock] at this path that is not lost or released, or is derived from it, Acquire
// does not wait:
//
//   - For the lock that ctx belongs to, it re-enters: it sends nothing, and the new Lock shares the node of
//     the first.
//   - For the read lock, if ctx belongs to the write lock, it acquires the read lock with one request.
//   - For the write lock, if ctx belongs to the read lock only, the error is ErrUpgrade.
//
// If ctx is the context of a [Reading], which is a share of a node, the error is ErrSelfWait for the read lock and
// ErrUpgrade for the write lock.
//
// It need not be the same RWLock: the client must be the same, or a view of it, and namespace and path must lead to
// the same node. Goroutines that acquire with that context share the lock; it does not exclude them from each other.
// With any other context Acquire waits in the line. So a caller can wait for itself undetected, for example with the
// context of a lock of another client.
//
// When ctx ends, Acquire returns immediately. For that, and for other errors, see Acquire of a mutex.Mutex. If ctx
// belongs to the write lock, the read lock can also fail with ErrNoAuth, if the client lacks READ permission on the
// write lock's node, and with the cause of the write lock's loss.
func (s *Side) Acquire(ctx context.Context) (*Lock, error) {
	return s.acquireLock(ctx, "acquire", false)
}

// TryAcquire is Acquire without waiting in the line: it returns ErrNotAcquired as soon as it has read that a node is
// ahead that Acquire would wait for. It reads first, without a write (see also [WithStaleTry]), and creates its node
// only if there is none. If another contender was faster, it deletes that node. It re-enters and downgrades as
// Acquire does.
func (s *Side) TryAcquire(ctx context.Context) (*Lock, error) {
	return s.acquireLock(ctx, "try to acquire", true)
}

// acquireLock re-enters, downgrades or refuses, if ctx belongs to a lock; otherwise it waits in the line.
func (s *Side) acquireLock(ctx context.Context, verb string, try bool) (*Lock, error) {
	err := line.CheckCall(ctx, s.line.Client, s.err)
	if err != nil {
		return nil, s.wrapError(verb, err)
	}
	entered := s.line.Reenter(ctx, false)
	switch {
	case entered != nil:
	case s.kind == Write && s.rw.read.line.HeldGrant(ctx) != nil:
		err = ErrUpgrade
	case s.kind == Read && s.line.IsInTurn(ctx):
		err = ErrSelfWait
	default:
		entered, err = s.line.AcquireShare(ctx, func(ctx context.Context) (*line.Grant, error) {
			if w := s.rw.write.line.Reenter(ctx, false); w != nil {
				return s.acquireDowngraded(ctx, &Lock{w, &s.rw.write}, try)
			}
			if try {
				return s.line.TryAcquire(ctx)
			}
			return s.line.Acquire(ctx)
		})
	}
	if err != nil {
		return nil, s.wrapError(verb, err)
	}
	return &Lock{entered, s}, nil
}

// Do acquires the lock, runs f, and releases the lock, also when f panics. The context of f has the values and the
// deadline of ctx, ends with ctx or with the lock, and belongs to the lock as Context of a [Lock] does. If the lock cannot
// be acquired, f is not called. Do returns f's error. If the lock was lost before f returned, the error is joined
// with the cause. Do treats the release as Do of a mutex.Mutex does.
func (s *Side) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return line.Do(ctx, func(ctx context.Context) (held line.HeldShare, err error) {
		lock, err := s.Acquire(ctx)
		if err == nil {
			held.Share = lock.grantShare
		}
		return held, err
	}, s.wrapError, f)
}

// Participants returns the holders and waiters of this lock only, in the order of the line: see
// [RWLock.Participants] and [RWLock.Holders].
func (s *Side) Participants(ctx context.Context) ([]Participant, error) {
	return s.listParticipants(ctx, []string{s.line.Name})
}

func (s *Side) wrapError(verb string, err error) error {
	return line.WrapError("rwlock", s.line.Dir, verb+" "+s.kind.String(), err)
}

// sequenceDigits is the number of digits that the server appends to a name.
const sequenceDigits = 10

// acquireDowngraded acquires the read lock for the holder of the write lock w. The new node has the number of w, so every writer
// behind w is also behind it. It has no writer to wait for, so the line need not be listed.
//
// The node is created in a transaction that checks w's node. Otherwise this could happen:
//  1. An administrator deletes w, and the next writer has the lock.
//  2. acquireDowngraded creates the node, with a number ahead of that writer.
//  3. Others see a reader without a right to the lock.
//
// At its end it releases w, a share of the write lock that keeps its node until then.
func (s *Side) acquireDowngraded(ctx context.Context, w *Lock, try bool) (*line.Grant, error) {
	defer func() {
		_ = w.Release(ctx) // the client deletes it in any case; a loss is reported by its other Locks
	}()
	writer := line.GrantOf(w.grantShare)
	session, number := writer.Session.As(s.line.Client), w.Node()[len(w.Node())-sequenceDigits:]
	view := session.Client()
	name := zkpath.Protect(zkpath.NewGUID(), readName+number)
	path := zkpath.Join(s.line.Dir, name)
	create := view.TransactionOp().Create().WithMode(framework.Ephemeral).ForPath(path, s.line.Data)

	made, granted := false, false // made: the node exists, or may exist
	defer func() {
		if made && !granted {
			line.QueueDelete(view, path)
		}
	}()
	err := view.Retry(ctx, func(ctx context.Context) error {
		_, err := line.AwaitResult(view.TransactionInBackground(ctx, w.Guard(), create))
		made = made || err == nil || errors.Is(err, framework.ErrOutcomeUnknown)
		// The name is unique: an attempt whose reply was lost has created this node.
		return line.IgnoreError(err, framework.ErrNodeExists)
	})
	if errors.Is(err, framework.ErrNoNode) {
		writer.Hold.End(ErrNodeDeleted) // the hold would have ended a little later
	}
	if lost := line.HoldLoss(writer.Hold); err != nil && lost != nil {
		return nil, fmt.Errorf("the write lock was lost: %w", lost)
	}
	if err != nil {
		return nil, err
	}
	grant := &line.Grant{Session: session, Path: path, Name: name}
	err = line.HoldWithTimeout(ctx, session, 1, !try, func(ctx context.Context) error { return s.line.HoldGrants(ctx, 0, grant) })
	if err != nil {
		return nil, err
	}
	grant.Czxid = w.FencingToken() // for callers, and not that of its own node
	granted = true
	return grant, nil
}

// Lock is an acquired read lock or write lock. It lasts until Release, or until the lock is lost. For its
// methods see also mutex.Lock: here the differences are documented. Safe for concurrent use: any goroutine
// may release it. It has these methods besides those below:
//
//   - Context() context.Context returns the context for the work that needs the lock. It ends, with a cause, when the
//     lock is lost or released for the last time. The context of a read lock acquired under the write lock outlives the
//     write lock. Acquire with it re-enters, downgrades, or refuses: see the package's documentation.
//   - Valid() bool reports whether the caller certainly holds the lock now, computed from the clock.
//   - Remaining() time.Duration returns how long the lock certainly lasts if no server answers from now on; 0 if it is
//     lost or released.
//   - Path() string returns the path of the lock's node, as seen by the client that acquired this Lock (without that
//     client's namespace). Node() string returns the name of that node.
type Lock struct {
	*grantShare
	side *Side
}

type grantShare = line.Share

// Kind returns which of the two locks this is.
func (l *Lock) Kind() Kind { return l.side.kind }

// FencingToken returns a number for a store that protects itself from former holders: the czxid of the lock's node
// or, for a read lock acquired under the write lock, of the write lock's node. A writer's token is larger than the
// tokens of all holders before. A reader's token is larger than the tokens of all writers before; only after a
// downgrade it equals its own write lock's token. A store should refuse
//
//   - a read whose token is smaller than the largest that came with a write,
//   - a write whose token is smaller than the largest that came with anything,
//
// and should not compare the tokens of reads with each other, since readers have the lock together. After
// restoring a backup of the ensemble, or moving to another ensemble, tokens may be smaller.
func (l *Lock) FencingToken() int64 { return line.GrantOf(l.grantShare).Czxid }

// Guard returns an operation for [framework.Client.Transaction], of any client of the same ensemble. With it
// the server executes the transaction only if the lock's node exists at the commit; otherwise the transaction
// fails with framework.ErrNotHeld.
func (l *Lock) Guard() framework.TransactionOp { return line.Guard(l.grantShare) }

// Release releases the lock, as Release of a mutex.Lock does. After re-entries only the last Release deletes
// the node. A second Release of the same Lock returns ErrReleased. If the lock was lost before, the error of
// the last Release is the cause. The read lock and the write lock of a downgrade are released separately, in
// any order.
func (l *Lock) Release(ctx context.Context) error {
	return l.side.wrapError("release", line.Release(ctx, l.grantShare))
}

// ReleaseInBackground is Release for a caller that does not wait, as in a mutex.Lock: it returns immediately, the
// client continues until the node is deleted, and then, if given, gets the error.
func (l *Lock) ReleaseInBackground(then ...func(err error)) {
	line.ReleaseInBackground(l.grantShare, l.side.wrapError, then)
}

// Revoke asks the participant whose node is at path to release its lock, as mutex.Revoke does: see [RWLock.Holders]
// and Path of a [Lock]. A writer has to ask each holder separately. Only locks made with [WithRevocation], or with
// Curator's makeRevocable, receive the request. Corresponds to Curator's Revoker.attemptRevoke.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	return line.WrapError("rwlock", "", "revoke", line.Revoke(ctx, client, path))
}

// Revoked returns a channel that is closed after a request for this lock with [Revoke] or Curator's Revoker, as in a
// mutex.Lock. Without [WithRevocation] it is nil. The read lock and the write lock of a downgrade have separate
// channels, since each has a separate node.
func (l *Lock) Revoked() <-chan struct{} { return line.Revoked(l.grantShare) }
