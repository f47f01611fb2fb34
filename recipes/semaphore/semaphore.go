package semaphore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/internal/line"
)

// The names below the semaphore's path. They are part of the contract with Curator for Java.
const (
	locksDir  = "locks"
	leasesDir = "leases"
	lockName  = "lock-"
	leaseName = "lease-"

	defaultRecipeName = "semaphore" // the name of the recipe in errors
)

// Errors of this package, and the causes of the end of a lease's context. Use errors.Is.
var (
	// ErrNotAcquired is returned by TryAcquire if too few leases were free, or if another caller waited in the line,
	// at some moment before the result, possibly just before the call. The message states which of the two. It is the
	// same value in all recipes.
	ErrNotAcquired = line.ErrNotAcquired
	// ErrTooMany is returned for more leases than the semaphore has.
	ErrTooMany = errors.New("more leases than the semaphore has: acquire fewer, or raise the maximum in " +
		"every client of the semaphore")
	// ErrBadCount is returned if the node of a shared count does not contain a number: [counter.ErrBadValue].
	ErrBadCount = counter.ErrBadValue
	// ErrReleased is returned by a second Release, and is the cause of the end of a lease's context after Release.
	ErrReleased = framework.ErrReleased
	// Causes of a lost lease. ErrSessionLost: the session is lost, or may have expired. ErrNodeDeleted: another
	// client has deleted a node of the lease. ErrSuspended: the connection is lost, with the policy
	// framework.SuspendedIsLoss.
	ErrSessionLost = framework.ErrSessionLost
	ErrNodeDeleted = framework.ErrNodeDeleted
	ErrSuspended   = framework.ErrSuspended
	// ErrSequenceExhausted is returned if the sequence numbers below one of the semaphore's nodes, "locks" or
	// "leases", are used up: delete that node while the semaphore is not in use.
	ErrSequenceExhausted = line.ErrSequenceExhausted
	// ErrNotReleased is in the error of Do when the work was done under the lease to its end and only the
	// release failed, since the server refused to delete the nodes (ErrNoAuth). The lease stays taken until
	// the session ends.
	ErrNotReleased = line.ErrNotReleased
	// ErrSelfWait is returned for an Acquire that would wait for itself: the lease of its context leaves too few
	// others, and would have to be released first.
	ErrSelfWait = line.ErrSelfWait
)

// Semaphore is a number of leases at a path. Share one Semaphore, or make a new one for each use: a shared one
// remembers whether its last acquire had to wait, and then needs fewer requests for the next. Safe for concurrent
// use. Corresponds to Curator's InterProcessSemaphoreV2.
type Semaphore struct {
	recipeName string // for errors
	client     *framework.Client
	path       string
	max        int    // with count: the initial number of a count that is missing
	count      *Count // nil: the limit is max

	line   line.Line // the callers that wait for leases
	leases line.Line // of the leases' nodes; no contender waits in it
	err    error     // the mistake in New's arguments: every method returns it

	crowded           atomic.Bool // the last caller to leave the line had waited: the next joins it without a try before
	cannotMove        atomic.Bool // the server has refused to write to "leases"
	cannotStop        atomic.Bool // the server has refused to write to "locks"
	lastMove          atomic.Pointer[lastMove]
	warnedForeign     atomic.Bool
	warnedSessionless atomic.Int64 // the czxid of the lease of the last such warning
}

// New makes the semaphore of max leases at path. The node at path is for this semaphore only: create no other
// children below it. All that use the path have to pass the same max. New sends nothing. If an argument is
// wrong (a nil client, an invalid path or the root, a max below 1, a wrong option), every method returns that
// error, before it sends anything.
func New(client *framework.Client, path string, max int, opts ...Option) *Semaphore {
	s := &Semaphore{recipeName: defaultRecipeName, client: client, path: path, max: max}
	s.err = s.configure(opts)
	return s
}

func (s *Semaphore) configure(opts []Option) error {
	s.leases.Loss = framework.SessionOnly
	if err := line.Configure(s.client, s.path, s, opts); err != nil {
		return err
	}
	if s.count == nil && s.max < 1 {
		return fmt.Errorf("%w: max %d; a semaphore needs at least one lease, or WithSharedCount",
			framework.ErrBadArguments, s.max)
	}
	recipe := strings.ReplaceAll(s.recipeName, " ", "-")
	// A waiter keeps its place in the line through a lost connection, whatever the loss policy of the
	// leases.
	s.line.Client, s.line.Dir, s.line.Name = s.client, zkpath.Join(s.path, locksDir), lockName
	s.line.Recipe, s.line.Order = recipe+"-line", line.Order{Names: []string{lockName}}
	s.line.Loss = framework.SessionOnly
	s.leases.Client, s.leases.Dir, s.leases.Name = s.client, zkpath.Join(s.path, leasesDir), leaseName
	s.leases.Recipe, s.leases.Order = recipe, line.Order{Names: []string{leaseName}}
	s.leases.Shared = s.recipeName == defaultRecipeName // but not the lock made of a semaphore
	return nil
}

// Path returns the semaphore's path.
func (s *Semaphore) Path() string { return s.path }

// Acquire takes n leases, all or none, and waits for them until ctx ends. ctx limits only the wait: leases
// that were acquired outlive it. While Acquire waits it has no lease.
//
// When ctx ends, Acquire returns immediately, and the client deletes its nodes in the background. The error matches
// ctx.Err() and context.Cause(ctx). Until Acquire has a node in the line, the retry policy limits the attempts; the
// error after the last is ErrNotConnected or ErrConnectionLoss. From then on Acquire waits through lost connections
// and lost sessions. After a lost session it rejoins at the end of the line; if the client is the view of one
// session, the error is ErrSessionLost.
//
// If ctx is the context of a [Lease] of the same semaphore, or derived from it, Acquire takes further leases. If too
// few leases exist besides that lease, the error is ErrSelfWait, immediately. (With a shared count, which may grow,
// Acquire waits.) "The same semaphore" means the same client and the same node, after the namespace is applied; it
// need not be the same Semaphore.
//
// Other errors: ErrTooMany if n is larger than max (not with a shared count); ErrBadCount; ErrClosed as soon
// as the client is closed; ErrNoAuth if the client lacks CREATE or READ permission on the nodes "locks" and
// "leases" below the path, or READ on the shared count (WRITE on both nodes saves requests);
// ErrSequenceExhausted; framework.ErrTimeoutTooShort if the session timeout is too short for safe leases.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquireLeases(ctx, n, "acquire", func(ctx context.Context) (*Lease, error) {
		if s.waitsForItself(ctx, n) {
			return nil, ErrSelfWait
		}
		if s.crowded.Load() {
			return s.acquireInLine(ctx, n)
		}
		lease, err := s.tryWithoutLine(ctx, n, true)
		if errors.Is(err, ErrNotAcquired) || line.IsPlaceLost(err) {
			return s.acquireInLine(ctx, n)
		}
		return lease, err
	})
}

// TryAcquire is Acquire without waiting. It returns ErrNotAcquired as soon as it has read that fewer than n leases
// are free, or that another caller is in the line, possibly only for a moment while it takes leases. If its first
// read shows that, it writes nothing. It also returns ErrNotAcquired when the servers commit so slowly that no hold
// can begin within n session timeouts. After a lost session it starts over as often as the retry policy allows, and
// then returns ErrSessionLost.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquireLeases(ctx, n, "try to acquire", func(ctx context.Context) (*Lease, error) {
		return s.tryWithoutLine(ctx, n, false)
	})
}

func (s *Semaphore) acquireLeases(
	ctx context.Context, n int, verb string, take func(context.Context) (*Lease, error),
) (*Lease, error) {
	err := line.CheckCall(ctx, s.client, s.err)
	switch {
	case err != nil:
	case n < 1:
		err = fmt.Errorf("%w: %d leases; acquire at least one", framework.ErrBadArguments, n)
	case s.count == nil && n > s.max:
		err = fmt.Errorf("%w (%d wanted, the maximum is %d)", ErrTooMany, n, s.max)
	default:
		var lease *Lease
		what := framework.Acquisition{Recipe: s.leases.Recipe, Path: s.path}
		if lease, err = line.ReportAcquire(ctx, s.client, what, take, (*Lease).releaseNoWait); err == nil {
			return lease, nil
		}
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = s.client.WaitError(ctx, err)
		}
	}
	return nil, s.wrapError(verb, err)
}

func (s *Semaphore) wrapError(verb string, err error) error {
	return line.WrapError(s.recipeName, s.path, verb, err)
}

// Do acquires n leases, runs f, and releases the leases, also when f panics. The context of f has the values
// and the deadline of ctx, and ends with ctx or with the lease. If the leases cannot be acquired, f is not
// called.
//
// Do returns f's error. If the lease was lost before f returned, the error is joined with the cause: more holders
// than the limit may have been at work. A later loss is not an error. Do waits at most a second, or until ctx ends,
// for the server to confirm the release. After that, or if the connection is lost, the client continues the release
// in the background, and Do does not report that. (To be certain that the leases are free use Acquire and Release.)
// Only if the server refuses to delete the nodes, the error is joined with ErrNotReleased and the reason.
func (s *Semaphore) Do(ctx context.Context, n int, f func(ctx context.Context) error) error {
	var lease *Lease
	wait := func(ctx context.Context) (_ heldLease, err error) {
		lease, err = s.Acquire(ctx, n)
		return heldLease{lease}, err
	}
	work := f
	if f != nil {
		work = func(ctx context.Context) error { return f(context.WithValue(ctx, leaseContextKey{}, lease)) }
	}
	return line.Do(ctx, wait, s.wrapError, work)
}

type leaseContextKey struct{}

// LeaseOf returns the lease that [Semaphore.Do] has acquired for its function; ctx is the function's context or
// derived from it. With several Dos, one within the other, it is the innermost one's lease. nil outside Do.
func LeaseOf(ctx context.Context) *Lease {
	lease, _ := ctx.Value(leaseContextKey{}).(*Lease)
	return lease
}

// heldLease is a Lease for [line.Do], with the cause of its loss.
type heldLease struct{ *Lease }

func (h heldLease) Lost() error { return h.lossCause() }

// Participant is one lease, or one waiter in the line, of any client.
//
//   - Name, Path string: the name and the path of its node.
//   - Data []byte: the data of the node, see [WithLeaseData].
//   - SessionID int64: the session that owns the node. Czxid int64: the number that identifies the lease
//     ([Lease.ID]). Since time.Time: when the node was created, by the server's clock. All three are zero if this
//     client has no permission to read the node.
//   - DataErr error: the reason why Data is missing. It matches framework.ErrDataTooLarge if the data, compressed or
//     not, are larger than framework.ContenderDataLimit, or if the data of all participants exceed 16 MiB.
type Participant = line.Participant

// Participants returns the leases that are taken, one element for each, the oldest first. It lists the children and
// then reads each node, 64 in one request. The result may be outdated when it returns. Curator for Java creates the
// lease's node before it waits, so its first waiter is listed as well. So are, rarely, a few clients of this library
// that have left the line for a lease that was not free.
func (s *Semaphore) Participants(ctx context.Context) ([]Participant, error) {
	return s.listParticipants(ctx, "participants", &s.leases)
}

// Waiting returns the waiters, in the order of the line. Every acquire of Curator for Java is in the line
// for a moment, also if leases are free.
func (s *Semaphore) Waiting(ctx context.Context) ([]Participant, error) {
	return s.listParticipants(ctx, "waiting", &s.line)
}

func (s *Semaphore) listParticipants(ctx context.Context, verb string, l *line.Line) ([]Participant, error) {
	nodes, err := l.Participants(ctx, s.err, 0)
	return nodes, s.wrapError(verb, err)
}

// Usage returns how many leases are taken, and the limit. taken can be larger than max after a shared count has shrunk,
// and while a client waits with its lease's node (see [Semaphore.Participants]). If the shared count's node is missing, Usage creates it.
func (s *Semaphore) Usage(ctx context.Context) (taken, max int, err error) {
	var seen leaseSnapshot
	if err = line.CheckCall(ctx, s.client, s.err); err == nil {
		err = s.client.Retry(ctx, func(ctx context.Context) (err error) {
			seen, err = s.takeSnapshot(ctx, s.client, false)
			return err
		})
	}
	return seen.countTaken(), seen.max, s.wrapError("usage", err)
}
