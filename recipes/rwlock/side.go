package rwlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Side is one of the two locks of an [RWLock]. Safe for concurrent use. Corresponds to Curator's ReadLock and
// WriteLock.
type Side struct {
	rw   *RWLock
	kind Kind
	line queue.Line
	err  error // of New: every method returns it
}

// Kind says which of the two.
func (s *Side) Kind() Kind { return s.kind }

// Path returns the path of the locks.
func (s *Side) Path() string { return s.line.Dir }

// Acquire waits in line until the lock is the caller's, or ctx ends. The lock does not end with ctx. A reader
// waits for the writers ahead, a writer for everybody ahead.
//
// When ctx is the Context of a [Lock] at this path that is still held, or derived from one, it does not wait:
// the same lock is entered once more; the write holder gets the read lock immediately, with one request; and
// a caller that holds the read lock only is refused the write lock with ErrUpgrade. See the package's
// documentation. Which RWLock the lock is of does not matter, if client, namespace and path come to the same
// node of the same client. So all that use that context share the hold. With any other context Acquire waits
// in line, also with that of another client's lock: the caller may wait for itself unnoticed.
//
// When ctx ends, Acquire returns at once. For that, and for other errors, see Acquire of a mutex.Mutex.
// Beside the write lock also: ErrNoAuth without READ on its node, and how it was lost.
func (s *Side) Acquire(ctx context.Context) (*Lock, error) {
	return s.acquire(ctx, "acquire", s.line.Acquire)
}

// TryAcquire does not wait: ErrNotAcquired as soon as it is known that somebody has to go first. It begins
// with reads only, see also [WithStaleTry]; only when nobody is there does it join the line, and it leaves
// again when somebody was faster. What Acquire does at once it does, too.
func (s *Side) TryAcquire(ctx context.Context) (*Lock, error) {
	return s.acquire(ctx, "try to acquire", s.line.TryAcquire)
}

// acquire does what the locks that ctx carries allow, and else waits in line.
func (s *Side) acquire(ctx context.Context, verb string, wait queue.Waiter) (*Lock, error) {
	err := queue.Ready(ctx, s.line.Client, s.err)
	if err != nil {
		return nil, s.wrap(verb, err)
	}
	handle := s.line.Reenter(ctx)
	switch {
	case handle != nil:
	case s.kind == Write && s.rw.read.line.Holds(ctx) != nil:
		err = ErrUpgrade
	default:
		handle, err = s.line.Enter(ctx, func(ctx context.Context) (*queue.Grant, error) {
			if w := s.rw.write.line.Reenter(ctx); w != nil {
				return s.beside(ctx, &Lock{&s.rw.write, w})
			}
			return wait(ctx)
		})
	}
	if err != nil {
		return nil, s.wrap(verb, err)
	}
	return &Lock{s, handle}, nil
}

// Do runs f while holding the lock, and releases it, also when f panics. f's context has the values and the
// deadline of ctx and carries the lock; it ends with ctx or with the lock. When the lock is not acquired f is
// not called. The error is f's, joined with how the lock was lost if that was before f returned. What it says
// of the release, and how long Do waits for that, is as with Do of a mutex.Mutex.
func (s *Side) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return queue.Do(ctx, func(ctx context.Context) (*queue.Handle, error) {
		lock, err := s.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lock.handle, nil
	}, s.wrap, f)
}

// Participants returns who holds this lock, or waits for it, in the order of the line, and nobody else: see
// [RWLock.Participants] and [RWLock.Holders].
func (s *Side) Participants(ctx context.Context) ([]Participant, error) {
	return s.participants(ctx, []string{s.line.Name})
}

func (s *Side) wrap(verb string, err error) error {
	return queue.Wrap("rwlock", s.line.Dir, verb+" "+s.kind.String(), err)
}

// digits is how many digits the server appends to a name.
const digits = 10

// beside makes a read hold in the place in line of the write lock w: its node has w's number, so that every
// writer after w is after it, too. There is nobody to wait for, and therefore no list.
//
// It is created by a transaction that needs w's node. So if an administrator has deleted w and the line has
// moved on, there is no read node that would be taken for a right that it does not give. It releases w, which
// so stays at least until the read lock is there.
func (s *Side) beside(ctx context.Context, w *Lock) (*queue.Grant, error) {
	defer func() {
		_ = w.Release(ctx) // the client removes the node for certain; if it was lost, its other Locks tell
	}()
	session, number := w.handle.Grant.Session.As(s.line.Client), w.Node()[len(w.Node())-digits:]
	view := session.Client()
	name := zkpath.Protect(zkpath.NewGUID(), readName+number)
	path := zkpath.Join(s.line.Dir, name)
	create := view.TransactionOp().Create().WithMode(framework.Ephemeral).ForPath(path, s.line.Data)

	made, granted := false, false // made: certainly or perhaps
	defer func() {
		if made && !granted {
			queue.Remove(view, path)
		}
	}()
	err := view.Retry(ctx, func(ctx context.Context) error {
		_, err := queue.Result(view.TransactionInBackground(ctx, w.Guard(), create))
		made = made || err == nil || errors.Is(err, framework.ErrOutcomeUnknown)
		// Nobody else has this name: it is ours, from an attempt whose reply was lost.
		return queue.Unless(err, framework.ErrNodeExists)
	})
	if errors.Is(err, framework.ErrNoNode) {
		w.handle.Grant.Hold.End(ErrNodeDeleted) // it would have found out a little later
	}
	if lost := w.handle.Lost(); err != nil && lost != nil {
		return nil, fmt.Errorf("the write lock was lost: %w", lost)
	}
	if err != nil {
		return nil, err
	}
	grant := &queue.Grant{Session: session, Path: path, Name: name}
	if err := s.line.Hold(ctx, 0, grant); err != nil {
		return nil, err
	}
	grant.Czxid = w.FencingToken() // for callers, and not that of its own node
	granted = true
	return grant, nil
}

// Lock is a read or a write lock that the caller holds, until Release or the loss of it. Its methods are
// those of a mutex.Lock; here is what is different. Safe for concurrent use: any goroutine may release it.
type Lock struct {
	s      *Side
	handle *queue.Handle
}

// Kind says which of the two locks.
func (l *Lock) Kind() Kind { return l.s.kind }

// Context is the one to work under: it ends, with a cause, when the lock is lost or finally released. That of
// a read lock acquired beside the write lock goes on when the write lock is released. Acquire with it enters
// again, downgrades, or refuses; see the package's documentation.
func (l *Lock) Context() context.Context { return l.handle.Context() }

// Valid says, from the clock, whether the lock is certainly held now.
func (l *Lock) Valid() bool { return l.handle.Valid() }

// Remaining is how long the lock is certainly held if nothing is heard of the servers any more; 0 if it is
// not.
func (l *Lock) Remaining() time.Duration { return l.handle.Remaining() }

// FencingToken is a number for stores that protect themselves from former holders: the czxid of the lock's
// node, or, for a read lock acquired beside the write lock, that of the write lock's node. A writer's is
// larger than that of all that held the lock before, and a reader's larger than that of every writer before,
// except its own before a downgrade. A store refuses
//
//   - a read whose token is smaller than the largest that came with a write,
//   - a write whose token is smaller than the largest that came with anything,
//
// and not one reader for another's token: readers hold the lock together. Restoring a backup of the ensemble,
// or moving to another one, may set tokens back.
func (l *Lock) FencingToken() int64 { return l.handle.Grant.Czxid }

// Guard is an operation for [framework.Client.Transaction], of any client of the same ensemble: the
// transaction is executed only while the lock is held, and otherwise fails with ErrNoNode.
func (l *Lock) Guard() framework.TransactionOp {
	return l.s.line.Client.TransactionOp().Check().ForPath(l.Path())
}

// Path is that of the lock's node, as the client that acquired, or re-entered, sees it.
func (l *Lock) Path() string { return zkpath.Join(l.s.line.Dir, l.Node()) }

// Node is the name of the lock's node.
func (l *Lock) Node() string { return l.handle.Grant.Name }

// Release gives the lock back, as that of a mutex.Lock does: with the last Release of those that share the
// hold, its node is deleted; a second Release of the same Lock returns ErrReleased; if the hold was lost
// before, the error of the last Release says how. The read lock and the write lock of one downgrade are
// released in any order, each for itself.
func (l *Lock) Release(ctx context.Context) error {
	return l.s.wrap("release", l.handle.Release(ctx))
}

// ReleaseInBackground is Release for a caller that does not wait, as that of a mutex.Lock: it returns at once,
// the client goes on until the node is deleted, and then, if given, gets the error.
func (l *Lock) ReleaseInBackground(then ...func(err error)) {
	l.handle.ReleaseInBackground(&queue.Callback{
		Path: l.handle.Grant.Path, Then: then, Wrap: func(err error) error { return l.s.wrap("release", err) },
	})
}

// Revoke asks a participant to give up its lock, as mutex.Revoke does: the one whose node is at path, see
// [RWLock.Holders] and [Lock.Path]. A writer asks all holders, each for itself. Only those listen that are
// made with [WithRevocation], or Curator's makeRevocable. Corresponds to Curator's Revoker.attemptRevoke.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	return queue.Wrap("rwlock", "", "revoke", queue.Revoke(ctx, client, path))
}

// Revoked is closed when somebody has asked for this lock with [Revoke], or Curator's Revoker, as that of a
// mutex.Lock is; without [WithRevocation] it is nil. The read and the write lock of one downgrade have one
// each, since each has a node of its own.
func (l *Lock) Revoked() <-chan struct{} { return l.handle.Revoked() }
