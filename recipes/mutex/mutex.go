package mutex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/queue"
)

// lockName is what stands in front of the sequence number. It is part of the contract with Curator for Java.
const lockName = "lock-"

// Errors of this package, and those that tell how a lock was lost. Use errors.Is.
var (
	// ErrNotAcquired is TryAcquire's answer when somebody else holds the lock, or waits for it: at some moment before the answer, possibly
	// just before the call. It is no proof that the lock is held now. It is the same value in all recipes.
	ErrNotAcquired = queue.ErrTaken
	// ErrReleased is what a second Release returns, and the cause of the context of a lock that was released.
	ErrReleased = framework.ErrReleased
	// ErrSessionLost is the cause when the session is lost, or cannot be trusted to live any more.
	ErrSessionLost = framework.ErrSessionLost
	// ErrNodeDeleted is the cause when somebody has deleted the lock's node.
	ErrNodeDeleted = framework.ErrNodeDeleted
	// ErrSuspended is the cause when the connection is lost, with the policy framework.SuspendedIsLoss.
	ErrSuspended = framework.ErrSuspended
	// ErrSequenceExhausted says that the sequence numbers of the lock's directory are used up: delete the directory while nobody uses it.
	ErrSequenceExhausted = queue.ErrSequenceExhausted
	// ErrNotReleased is in the error of Do when the work was done under the lock to its end, and only giving the lock back was refused (ErrNoAuth): it
	// stays held until the session ends.
	ErrNotReleased = queue.ErrNotReleased
	// ErrSelfWait refuses to Acquire what the context's owner holds already, and would have to release first.
	ErrSelfWait = queue.ErrSelfWait
)

// Mutex is a lock at a path. It has no state but its configuration: make it once and share it, or make it anew each time. Every Acquire
// stands in line for itself, also those of one process and one Mutex. Safe for concurrent use.
//
// Corresponds to Curator's InterProcessMutex.
type Mutex struct {
	line      queue.Line
	staleTry  bool
	noReentry bool
	revocable bool
	onWait    func(Position)
	err       error // of New: every method returns it
}

// New makes the lock at path, which is a directory of its own: nothing else should be put there. It sends nothing. A mistake in the
// arguments (a nil client, a path that cannot be one or is the root, an option) is reported by every method of the Mutex, before anything is sent.
func New(client *framework.Client, path string, opts ...Option) *Mutex {
	m := &Mutex{}
	m.line.Client, m.line.Dir, m.line.Name, m.line.Order = client, path, lockName, queue.Order{Names: []string{lockName}}
	m.line.Recipe, m.line.Loss = "mutex", framework.SessionOnly
	m.err = m.configure(opts)
	return m
}

func (m *Mutex) configure(opts []Option) error {
	if err := queue.Check(m.line.Client, m.line.Dir); err != nil {
		return err
	}
	for _, opt := range opts {
		if opt == nil {
			return fmt.Errorf("%w: an option is nil; leave it out", framework.ErrInvalidOption)
		}
		if err := opt(m); err != nil {
			return err
		}
	}
	if m.revocable && m.line.Data == nil {
		m.line.Data = []byte{} // as Curator does: the data is the revokers'
	}
	if f := m.onWait; f != nil {
		m.line.OnWait = func(p queue.Position) { f(Position(p)) }
	}
	return nil
}

// Path returns the lock's path.
func (m *Mutex) Path() string { return m.line.Dir }

// Acquire waits in line until the lock is the caller's, or ctx ends. The lock does not end with ctx.
//
// Re-entry: when ctx is the Context of a [Lock] at this path, or derived from one, and that lock is still held, Acquire returns at once,
// without asking the server, with one more Lock on the same hold, which goes on as it was acquired (loss policy, revocation); the hold ends with
// the Release of the last. It does not matter which Mutex the lock is of, as long as client, namespace and path come to the same node of the same
// client. So whoever is handed that context shares the hold: two goroutines that acquire with it do not exclude each other. With any other context
// Acquire queues. (The context of a lock of another client is such a one, even if it connects to the same servers: nobody here can know that it
// waits for itself.)
//
// When ctx is of something else that has to be given back first, a lock made with [WithoutReentry] or the term of a leader.Selector at this path, Acquire
// does not wait for itself: ErrSelfWait, at once.
//
// When ctx ends, Acquire returns at once, and the client removes what it has left on the server; the error matches ctx.Err(), and
// context.Cause(ctx). While it waits, lost connections and even lost sessions are sat out. Before it has a place in line, the retry policy
// decides how long to try: then ErrNotConnected or ErrConnectionLoss. Other errors: ErrClosed as soon as the client is closed;
// ErrNoAuth without CREATE and READ on the directory; ErrSequenceExhausted; ErrInvalidPath; framework.ErrTimeoutTooShort when the session timeout is too
// short to hold anything safely.
func (m *Mutex) Acquire(ctx context.Context) (*Lock, error) {
	return m.acquire(ctx, "acquire", m.line.Acquire)
}

// TryAcquire is Acquire for who does not want to wait: ErrNotAcquired as soon as it is known that somebody else holds the lock or waits
// for it. The first look writes nothing, see also [WithStaleTry]; only when nobody is there does it queue, and when somebody was faster
// it leaves again. It re-enters as Acquire does.
func (m *Mutex) TryAcquire(ctx context.Context) (*Lock, error) {
	return m.acquire(ctx, "try to acquire", func(ctx, values context.Context) (*queue.Grant, error) {
		return m.line.TryAcquire(ctx, values, m.staleTry)
	})
}

func (m *Mutex) acquire(ctx context.Context, verb string, wait func(ctx, values context.Context) (*queue.Grant, error)) (*Lock, error) {
	err := queue.Made(m.line.Client, m.err)
	switch {
	case err != nil:
	case ctx == nil:
		err = framework.ErrNilContext
	case ctx.Err() != nil:
		err = m.line.Client.Left(ctx, nil)
	default:
		var lock *Lock
		if lock, err = m.enter(ctx, wait); err == nil {
			return lock, nil
		}
	}
	return nil, m.failed(verb, err)
}

// enter enters once more, or waits in line.
func (m *Mutex) enter(ctx context.Context, wait func(ctx, values context.Context) (*queue.Grant, error)) (*Lock, error) {
	if !m.noReentry {
		if lock := m.reenter(ctx); lock != nil {
			return lock, nil
		}
	}
	ctx, acquired := m.line.Begin(ctx)
	h, values := &held{}, ctx
	if !m.noReentry {
		values = queue.Carry(ctx, m.owner(), h)
	}
	grant, err := wait(ctx, values)
	queue.Announce(acquired, err, grant.Leave)
	if err != nil {
		return nil, err
	}
	if m.revocable {
		h.revoked = grant.Revoked()
	}
	return &Lock{m, h.Begin(grant, m.line.Client.Logger()), h.revoked}, nil
}

func (m *Mutex) failed(verb string, err error) error {
	return fmt.Errorf("mutex %s: %s: %w", m.line.Dir, verb, err)
}

// Do runs f while holding the lock, and releases it, also when f panics. f's context has the values of ctx and re-enters; it ends with ctx
// and with the lock, whichever comes first; its deadline is that of ctx. When the lock is not acquired f is not called.
//
// The error is f's, joined with the way in which the lock was lost, if it was lost before f returned: then f's work may not have been
// protected to its end. What happens after that does not make the work undone, and is no error of Do: it waits for the server to confirm the release for
// as long as ctx allows, but no longer than a second; then, or when the connection or the session is lost meanwhile, the client goes on with it
// and Do returns. (Who needs to know that the lock is free uses Acquire and Release.) Only when the server refuses to delete the lock's node
// the error is joined with ErrNotReleased and the reason.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	if f == nil {
		return m.failed("do", errors.New("the function is nil"))
	}
	lock, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	return queue.Do(ctx, lock.handle, m.failed, f)
}

// Participant is somebody who holds the lock or waits for it, with any client.
type Participant struct {
	// Name is that of the node, Path where it is.
	Name, Path string
	// Data is what the participant has put there, see [WithNodeData].
	Data []byte
	// SessionID is the participant's session, Czxid what would be its fencing token, Since when it queued, by the server's clock. They
	// are zero when this client may not read the node.
	SessionID, Czxid int64
	Since            time.Time
}

// Participants returns who holds the lock, first, and who waits for it, in the order of the line: one list, and one read for each in one
// flight. What it returns may be outdated when it returns. Children of the path that belong to no lock are left out.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.participants(ctx, 0)
}

// Holder returns the first in line, who holds the lock or is about to; false if there is nobody.
func (m *Mutex) Holder(ctx context.Context) (Participant, bool, error) {
	first, err := m.participants(ctx, 1)
	if err != nil || len(first) == 0 {
		return Participant{}, false, err
	}
	return first[0], true, nil
}

func (m *Mutex) participants(ctx context.Context, limit int) ([]Participant, error) {
	err := queue.Made(m.line.Client, m.err)
	var line []queue.Participant
	if err == nil {
		line, err = m.line.Participants(ctx, limit)
	}
	if err != nil {
		return nil, m.failed("participants", err)
	}
	all := make([]Participant, len(line))
	for i, p := range line {
		all[i] = Participant(p)
	}
	return all, nil
}
