package mutex

import (
	"context"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// lockName is the name of a lock's node before the sequence number. It is part of the contract with Curator
// for Java.
const lockName = "lock-"

// Errors of this package, and the causes of the end of a lock's context. Use errors.Is.
var (
	// ErrNotAcquired is returned by TryAcquire if another contender had the lock, or waited for it, at some moment
	// before the result, possibly just before the call. It is the same value in all recipes.
	ErrNotAcquired = line.ErrNotAcquired
	// ErrReleased is returned by a second Release, and is the cause of the end of a lock's context after Release.
	ErrReleased = framework.ErrReleased
	// Causes of a lost lock. ErrSessionLost: the session is lost, or may have expired. ErrNodeDeleted: another client
	// has deleted the lock's node. ErrSuspended: the connection is lost, with the policy framework.SuspendedIsLoss.
	ErrSessionLost = framework.ErrSessionLost
	ErrNodeDeleted = framework.ErrNodeDeleted
	ErrSuspended   = framework.ErrSuspended
	// ErrSequenceExhausted is returned if the sequence numbers below the lock's path are used up: delete the node at
	// the lock's path while the lock is not in use.
	ErrSequenceExhausted = line.ErrSequenceExhausted
	// ErrNotReleased is in the error of Do when the lock protected the work to its end and only the release
	// failed, since the server refused to delete the node (ErrNoAuth). The lock stays locked until the
	// session ends.
	ErrNotReleased = line.ErrNotReleased
	// ErrSelfWait is returned for an Acquire that would wait for itself: its context belongs to a lock that would
	// have to be released first.
	ErrSelfWait = line.ErrSelfWait
)

// Mutex is a lock at a path. It has no state but its configuration: share one Mutex, or make a new one for each use.
// Every Acquire waits in the line with a separate node, also two calls on the same Mutex. Safe for concurrent use.
// Corresponds to Curator's InterProcessMutex.
type Mutex struct {
	line         line.Line
	cohortLimits line.Limits // of NewCohort only
	err          error       // the mistake in New's arguments: every method returns it
}

// New makes the lock at path. The node at path is for this lock only: create no other children below it. New
// sends nothing. If an argument is wrong (a nil client, an invalid path or the root, a wrong option), every
// method returns that error, before it sends anything.
func New(client *framework.Client, path string, opts ...Option) *Mutex {
	m := configure(client, path, opts)
	if m.err == nil && m.cohortLimits != (line.Limits{}) {
		m.err = fmt.Errorf("%w: WithTurns and WithKept are for NewCohort", framework.ErrInvalidOption)
	}
	return m
}

func configure(client *framework.Client, path string, opts []Option) *Mutex {
	m := &Mutex{}
	m.line.Client, m.line.Dir, m.line.Name, m.line.Recipe = client, path, lockName, "mutex"
	m.line.Order, m.line.Loss = line.Order{Names: []string{lockName}}, framework.SessionOnly
	m.err = line.Configure(client, path, m, opts)
	return m
}

// Path returns the lock's path.
func (m *Mutex) Path() string { return m.line.Dir }

// Acquire waits in the line until it has the lock or ctx ends. ctx limits only the wait: a lock that was
// acquired outlives it.
//
// Re-entry: ctx may be the Context of a [Lock] at this path, or derived from one. While that Lock is held, Acquire sends
// nothing and returns immediately. The new Lock shares the node of the first one, and has the loss policy and revocation
// of the first. The last Release of these Locks releases it.
//
//   - It need not be the same Mutex: the client must be the same, or a view of it, and namespace and path must lead
//     to the same node.
//   - Goroutines that acquire with that context share the lock. It does not exclude them from each other.
//   - With any other context Acquire waits in the line. So a caller can wait for itself undetected, for example with
//     the context of a lock of another client.
//
// If ctx belongs to a lock made with [WithoutReentry], or to the term of a leader.Selector at this path, Acquire
// would wait for itself: the error is ErrSelfWait, immediately.
//
// When ctx ends, Acquire returns immediately, and the client deletes the node in the background. The error matches
// ctx.Err() and context.Cause(ctx). Until Acquire has a node in the line, the retry policy limits the attempts; the
// error after the last is ErrNotConnected or ErrConnectionLoss. From then on Acquire waits through lost connections
// and lost sessions. Other errors: ErrClosed as soon as the client is closed; ErrNoAuth if the client lacks CREATE or
// READ permission on the lock's path; ErrSequenceExhausted; framework.ErrTimeoutTooShort if the session timeout is
// too short for safe locks.
func (m *Mutex) Acquire(ctx context.Context) (*Lock, error) {
	return m.acquireLock(ctx, "acquire", m.line.Acquire)
}

// TryAcquire is Acquire without waiting in the line: it returns ErrNotAcquired as soon as it has read that another
// contender has the lock or waits for it. It reads first, without a write (see also [WithStaleTry]), and creates its
// node only if the line is empty. If another contender was faster, it deletes that node. The same error is returned
// if it is the first, but the servers commit so slowly that no hold can begin within a session timeout. It re-enters
// as Acquire does.
func (m *Mutex) TryAcquire(ctx context.Context) (*Lock, error) {
	return m.acquireLock(ctx, "try to acquire", m.line.TryAcquire)
}

// acquireLock re-enters, or acquires with wait.
func (m *Mutex) acquireLock(ctx context.Context, verb string, wait line.AcquireFunc) (*Lock, error) {
	err := line.CheckCall(ctx, m.line.Client, m.err)
	if err != nil {
		return nil, m.wrapError(verb, err)
	}
	s := m.line.Reenter(ctx, false)
	if s == nil {
		s, err = m.line.AcquireShare(ctx, wait)
	}
	if err != nil {
		return nil, m.wrapError(verb, err)
	}
	return &Lock{s, m}, nil
}

func (m *Mutex) wrapError(verb string, err error) error {
	return line.WrapError("mutex", m.line.Dir, verb, err)
}

// Do acquires the lock, runs f, and releases the lock, also when f panics. The context of f has the values
// and the deadline of ctx, ends with ctx or with the lock, and re-enters. If the lock cannot be acquired, f
// is not called.
//
// Do returns f's error. If the lock was lost before f returned, the error is joined with the cause: the end of f's
// work may not have been protected. A later loss is not an error. Do waits at most a second, or until ctx ends, for
// the server to confirm the release. After that, or if the connection is lost, the client continues the release in
// the background, and Do does not report that. (To be certain that the lock is free use Acquire and Release.) Only if
// the server refuses to delete the node, the error is joined with ErrNotReleased and the reason.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	var lock *Lock
	acquire := func(ctx context.Context) (held line.HeldShare, err error) {
		if lock, err = m.Acquire(ctx); err == nil {
			held.Share = lock.grantShare
		}
		return held, err
	}
	work := f
	if f != nil {
		work = func(ctx context.Context) error { return f(context.WithValue(ctx, lockContextKey{}, lock)) }
	}
	return line.Do(ctx, acquire, m.wrapError, work)
}

type lockContextKey struct{}

// LockOf returns the lock that [Mutex.Do] has acquired for its function; ctx is the function's context or derived
// from it. With several Dos, one within the other, it is the innermost one's lock. So the function can use the
// fencing token. nil outside Do.
func LockOf(ctx context.Context) *Lock {
	lock, _ := ctx.Value(lockContextKey{}).(*Lock)
	return lock
}

// Participant is a holder or waiter of the lock, with any client, in Go or Java.
//
//   - Name, Path string: the name and the path of its node.
//   - Data []byte: the data of the node, see [WithNodeData].
//   - SessionID int64: the session that owns the node. Czxid int64: its fencing token once it has the lock.
//     Since time.Time: when it joined the line, by the server's clock. All three are zero if this client has
//     no permission to read the node.
//   - DataErr error: the reason why Data is missing. It matches framework.ErrDataTooLarge if the data, compressed or
//     not, are larger than framework.ContenderDataLimit, or if the data of all participants exceed 16 MiB.
type Participant = line.Participant

// Participants returns the holder first and then the waiters, in the order of the line. It lists the
// children and then reads each node, 64 in one request. The result may be outdated when it returns. Children
// that are not nodes of a lock are left out.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.listParticipants(ctx, 0)
}

// Holder returns the first in the line, which has the lock or is about to get it; false if the line is
// empty.
func (m *Mutex) Holder(ctx context.Context) (Participant, bool, error) {
	return line.First(m.listParticipants(ctx, 1))
}

func (m *Mutex) listParticipants(ctx context.Context, limit int) ([]Participant, error) {
	line, err := m.line.Participants(ctx, m.err, limit)
	return line, m.wrapError("participants", err)
}
