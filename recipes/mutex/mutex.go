package mutex

import (
	"context"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// lockName is what is in front of the sequence number. It is part of the contract with Curator for Java.
const lockName = "lock-"

// Errors of this package, and those that tell how a lock was lost. Use errors.Is.
var (
	// ErrNotAcquired is TryAcquire's answer when somebody else holds the lock, or waits for it: at some moment
	// before the answer, possibly just before the call. It is the same value in all recipes.
	ErrNotAcquired = queue.ErrNotAcquired
	// ErrReleased is what a second Release returns, and the cause of the context of a lock that was released.
	ErrReleased = framework.ErrReleased
	// These are the causes when the session is lost, or may have expired; when somebody has deleted the lock's
	// node; and, with the policy framework.SuspendedIsLoss, when the connection is lost.
	ErrSessionLost = framework.ErrSessionLost
	ErrNodeDeleted = framework.ErrNodeDeleted
	ErrSuspended   = framework.ErrSuspended
	// ErrSequenceExhausted says that the sequence numbers of the lock's directory are used up: delete the
	// directory while nobody uses it.
	ErrSequenceExhausted = queue.ErrSequenceExhausted
	// ErrNotReleased is in the error of Do when the work was done under the lock to its end, and only giving the
	// lock back was refused (ErrNoAuth): it stays held until the session ends.
	ErrNotReleased = queue.ErrNotReleased
	// ErrSelfWait refuses to wait for what the context carries already, and would have to be released first.
	ErrSelfWait = queue.ErrSelfWait
)

// Mutex is a lock at a path. It has no state but its configuration: make it once and share it, or make it
// anew each time. Every Acquire has its own place in line, also those of one process and one Mutex. Safe for
// concurrent use. Corresponds to Curator's InterProcessMutex.
type Mutex struct {
	line queue.Line
	err  error // of New: every method returns it
}

// New makes the lock at path, a directory of its own: nothing else should be put there. It sends nothing. A
// mistake in the arguments (a nil client, a path that is none or the root, an option) is reported by every
// method, before anything is sent.
func New(client *framework.Client, path string, opts ...Option) *Mutex {
	m := &Mutex{}
	m.line.Client, m.line.Dir, m.line.Name, m.line.Recipe = client, path, lockName, "mutex"
	m.line.Order, m.line.Loss = queue.Order{Names: []string{lockName}}, framework.SessionOnly
	m.line.FarSighted = true
	m.err = queue.Configure(client, path, m, opts)
	return m
}

// Path returns the lock's path.
func (m *Mutex) Path() string { return m.line.Dir }

// Acquire waits in line until the lock is the caller's, or ctx ends. The lock does not end with ctx.
//
// Re-entry: when ctx is the Context of a [Lock] at this path, or derived from one, and that lock is still
// held, Acquire returns at once, without asking the server, with one more Lock on the same hold, which goes
// on as it was acquired (loss policy, revocation). The hold ends with the Release of the last. The Mutex may
// be another one, if client, namespace and path come to the same node of the same client. So all that use
// that context share the hold: two goroutines that acquire with it do not exclude each other. With any other
// context Acquire waits in line, also with that of another client's lock: the caller may wait for itself
// unnoticed.
//
// When ctx is of something else that has to be released first, a lock made with [WithoutReentry] or the term
// of a leader.Selector at this path, the error is ErrSelfWait, at once.
//
// When ctx ends, Acquire returns at once, and the client removes what is left on the server; the error
// matches ctx.Err() and context.Cause(ctx). Until it has a place in line, the retry policy decides how long
// to try: then ErrNotConnected or ErrConnectionLoss. After that it waits through lost connections and lost
// sessions. Other errors: ErrClosed as soon as the client is closed; ErrNoAuth without CREATE and READ on the
// directory; ErrSequenceExhausted; framework.ErrTimeoutTooShort when the session timeout is too short to hold
// anything safely.
func (m *Mutex) Acquire(ctx context.Context) (*Lock, error) {
	return m.acquire(ctx, "acquire", m.line.Acquire)
}

// TryAcquire does not wait: ErrNotAcquired as soon as it is known that somebody else holds the lock or waits
// for it. It begins with reads only, see also [WithStaleTry]; only when nobody is there does it join the
// line, and it leaves again when somebody was faster. It re-enters as Acquire does.
func (m *Mutex) TryAcquire(ctx context.Context) (*Lock, error) {
	return m.acquire(ctx, "try to acquire", m.line.TryAcquire)
}

// acquire enters once more, or waits in line.
func (m *Mutex) acquire(ctx context.Context, verb string, wait queue.Waiter) (*Lock, error) {
	err := queue.Ready(ctx, m.line.Client, m.err)
	if err != nil {
		return nil, m.wrap(verb, err)
	}
	handle := m.line.Reenter(ctx)
	if handle == nil {
		handle, err = m.line.Enter(ctx, wait)
	}
	if err != nil {
		return nil, m.wrap(verb, err)
	}
	return &Lock{m, handle}, nil
}

func (m *Mutex) wrap(verb string, err error) error {
	return queue.Wrap("mutex", m.line.Dir, verb, err)
}

// Do runs f while holding the lock, and releases it, also when f panics. f's context has the values and the
// deadline of ctx and re-enters; it ends with ctx or with the lock. When the lock is not acquired f is not
// called.
//
// The error is f's, joined with how the lock was lost if that was before f returned: then f's work may not
// have been protected to its end. What happens later is no error. Do waits for the server to confirm the
// release until ctx ends, at most a second; the client goes on with it after that, or when the connection or
// the session is lost. (Acquire and Release tell when the lock is free.) Only when the server refuses to
// delete the node the error is joined with ErrNotReleased and the reason.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return queue.Do(ctx, func(ctx context.Context) (*queue.Handle, error) {
		lock, err := m.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lock.handle, nil
	}, m.wrap, f)
}

// Participant is a contender that holds the lock or waits for it, with any client.
//
//   - Name, Path string: that of the node, and where it is.
//   - Data []byte: what the participant has put there, see [WithNodeData].
//   - SessionID, Czxid int64, Since time.Time: its session, its fencing token once it holds the lock, and when
//     it joined the line, by the server's clock. Zero when this client may not read the node.
//   - DataErr error: matches framework.ErrDataTooLarge when Data is missing because it is larger than
//     framework.ContenderDataLimit, packed or not, or because all data together are larger than 16 MiB.
type Participant = queue.Participant

// Participants returns who holds the lock, first, and who waits for it, in the order of the line: one list,
// and one read for each, 64 at a time. It may be outdated when it returns. Children that belong to no lock
// are left out.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.participants(ctx, 0)
}

// Holder returns the first in line, which holds the lock or is about to; false if there is nobody.
func (m *Mutex) Holder(ctx context.Context) (Participant, bool, error) {
	return queue.First(m.participants(ctx, 1))
}

func (m *Mutex) participants(ctx context.Context, limit int) ([]Participant, error) {
	line, err := m.line.Participants(ctx, m.err, limit)
	return line, m.wrap("participants", err)
}

// Lock is a lock that the caller holds, until Release or the loss of it. Safe for concurrent use: any
// goroutine may release it.
type Lock struct {
	m      *Mutex
	handle *queue.Handle
}

// Context is the one to work under: it ends when the lock is lost or finally released, and context.Cause says
// why: ErrSessionLost, ErrNodeDeleted, ErrSuspended, ErrReleased, or framework.ErrClosed. When the session is
// lost it ends before the servers can give the lock to somebody else. It has the values of the context that
// the lock was acquired with, but neither its end nor its deadline. Acquire with it re-enters. Locks that
// share a hold share the context. Its Err also looks at the clock, like Valid; that of contexts derived from
// it does not.
func (l *Lock) Context() context.Context { return l.handle.Context() }

// Valid says, from the clock, whether the lock is certainly held now. Ask it after anything that may have
// taken long, right before what must not happen without the lock.
func (l *Lock) Valid() bool { return l.handle.Valid() }

// Remaining is how long the lock is certainly held if nothing is heard of the servers any more; 0 if it is
// not. It is renewed all the time while the connection works.
func (l *Lock) Remaining() time.Duration { return l.handle.Remaining() }

// FencingToken is a number that grows from holder to holder (the czxid of the lock's node). A store that
// remembers the largest one and refuses smaller ones cannot be written to by a former holder. Locks that
// share a hold share it. It grows as long as the ensemble keeps its data: restoring a backup, or moving to
// another ensemble, may set it back.
func (l *Lock) FencingToken() int64 { return l.handle.Grant.Czxid }

// Guard is an operation for [framework.Client.Transaction], of any client of the same ensemble: the
// transaction is executed only while the lock is held, and otherwise fails with ErrNoNode. The server
// decides, when it commits: no clock is involved.
func (l *Lock) Guard() framework.TransactionOp {
	return l.m.line.Client.TransactionOp().Check().ForPath(l.Path())
}

// Path is that of the lock's node, as the client that acquired, or re-entered, sees it.
func (l *Lock) Path() string { return zkpath.Join(l.m.line.Dir, l.Node()) }

// Node is the name of the lock's node.
func (l *Lock) Node() string { return l.handle.Grant.Name }

// Release gives the lock back. With the last Release of those that share the hold, the context ends, at once,
// and the node is deleted, by its own, unique name: a later holder is not affected. Release waits until the
// server has confirmed that. When ctx ends first, or the connection is lost, the client goes on with it for
// as long as the session lives, and the error says why Release did not wait.
//
// A second Release of the same Lock returns ErrReleased and does nothing. If the hold was lost before, the
// error of the last Release says how (ErrSessionLost, …): what was done under the lock may not have been
// protected to its end. Release is needed then, too: the node may still be there.
func (l *Lock) Release(ctx context.Context) error {
	return l.m.wrap("release", l.handle.Release(ctx))
}

// ReleaseInBackground is Release for a caller that does not wait: it returns at once, whatever the network
// does. The context has ended then, and the delete is on its way: what this goroutine asks of the client next
// goes after it, in the same flight. Until it is done, or the session has ended, the client goes on with it,
// and Close waits for it as for all clean-ups. So it is what to defer:
//
//	defer lock.ReleaseInBackground()
//
// then, if given, gets the error that Release would return, on the goroutine of the client's callbacks (see
// [framework.Pending.Then]): ErrConnectionLoss and ErrNotConnected there mean that the client goes on.
// Without it only a refusal is logged.
func (l *Lock) ReleaseInBackground(then ...func(err error)) {
	l.handle.ReleaseInBackground(&queue.Callback{
		Path: l.handle.Grant.Path, Then: then, Wrap: func(err error) error { return l.m.wrap("release", err) },
	})
}

// Revoke asks a participant to give up the lock: the one whose node is at path, with any client, see
// [Mutex.Participants] and [Lock.Path]. Only those listen that are made with [WithRevocation], or Curator's
// makeRevocable; they decide whether and when to follow. It replaces the node's data; the lock and its Guard
// are not affected. A participant that has left already is no error.
//
// It is repeated as the retry policy says. Errors: ErrNoAuth without WRITE on the node; ErrInvalidPath;
// ErrConnectionLoss, and then it may have been asked or not; ErrNotConnected; ErrClosed; ctx's. Corresponds
// to Curator's Revoker.attemptRevoke.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	return queue.Wrap("mutex", "", "revoke", queue.Revoke(ctx, client, path))
}

// Revoked is closed when somebody has asked for this lock with [Revoke], or Curator's Revoker, if it was made
// with [WithRevocation]; else it is nil, and blocks for ever. The lock stays held until it is released. A
// request that came before the lock was acquired counts; one made while the connection is lost is noticed
// when it is back. Locks that share a hold share the channel.
func (l *Lock) Revoked() <-chan struct{} { return l.handle.Revoked() }
