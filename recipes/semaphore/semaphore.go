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
	"github.com/go-curator/curator/recipes/internal/queue"
)

// The names below the semaphore's path. They are part of the contract with Curator for Java.
const (
	locksDir  = "locks"
	leasesDir = "leases"
	lockName  = "lock-"
	leaseName = "lease-"

	semaphoreWhat = "semaphore" // what errors call it
)

// Errors of this package, and those that tell how a lease was lost. Use errors.Is.
var (
	// ErrNotAcquired is TryAcquire's answer when too few leases are free, or when somebody stands in line for
	// them: at some moment before the answer, possibly just before the call. The message says which. It is the
	// same value in all recipes.
	ErrNotAcquired = queue.ErrNotAcquired
	// ErrTooMany refuses a number of leases that there will never be.
	ErrTooMany = errors.New("more leases than the semaphore has: acquire fewer, or raise the maximum in " +
		"every client of the semaphore")
	// ErrBadCount says that the node of a shared count does not contain a number: [counter.ErrBadValue].
	ErrBadCount = counter.ErrBadValue
	// ErrReleased is what a second Release returns, and the cause of the context of a lease that was released.
	ErrReleased = framework.ErrReleased
	// These are the causes when the session is lost, or may have expired; when somebody has deleted a node of the
	// lease; and, with the policy framework.SuspendedIsLoss, when the connection is lost.
	ErrSessionLost = framework.ErrSessionLost
	ErrNodeDeleted = framework.ErrNodeDeleted
	ErrSuspended   = framework.ErrSuspended
	// ErrSequenceExhausted says that the sequence numbers of a directory are used up: delete it while nobody
	// uses it.
	ErrSequenceExhausted = queue.ErrSequenceExhausted
	// ErrNotReleased is in the error of Do when the work was done under the lease to its end, and only giving
	// the lease back was refused (ErrNoAuth): it stays taken until the session ends.
	ErrNotReleased = queue.ErrNotReleased
	// ErrSelfWait refuses to acquire more leases than there are beside those that the context carries, which
	// would have to be released first.
	ErrSelfWait = queue.ErrSelfWait
)

// Semaphore is a number of leases at a path. It has no state but its configuration: make it once and share
// it, or make it anew each time. Safe for concurrent use. Corresponds to Curator's InterProcessSemaphoreV2.
type Semaphore struct {
	what   string // for errors
	client *framework.Client
	path   string
	max    int    // with count: what the count is made with if it is missing
	count  *Count // nil: max it is

	line   queue.Line // the callers that wait for leases
	leases queue.Line // the leases, in which nobody waits
	err    error      // of New: every method returns it

	warnedForeign atomic.Bool
}

// New makes the semaphore of max leases at path, a directory of its own: nothing else should be put there.
// All that use the path have to say the same max. It sends nothing. A mistake in the arguments (a nil client,
// a path that is none or the root, a max below 1, an option) is reported by every method, before anything is
// sent.
func New(client *framework.Client, path string, max int, opts ...Option) *Semaphore {
	s := &Semaphore{what: semaphoreWhat, client: client, path: path, max: max}
	s.err = s.configure(opts)
	return s
}

func (s *Semaphore) configure(opts []Option) error {
	s.leases.Loss = framework.SessionOnly
	if err := queue.Configure(s.client, s.path, s, opts); err != nil {
		return err
	}
	if s.count == nil && s.max < 1 {
		return fmt.Errorf("%w: max %d; a semaphore needs at least one lease, or WithSharedCount",
			framework.ErrBadArguments, s.max)
	}
	recipe := strings.ReplaceAll(s.what, " ", "-")
	// The place in line outlives a lost connection whatever the leases do.
	s.line.Client, s.line.Dir, s.line.Name = s.client, zkpath.Join(s.path, locksDir), lockName
	s.line.Recipe, s.line.Order = recipe+"-line", queue.Order{Names: []string{lockName}}
	s.line.Loss = framework.SessionOnly
	s.leases.Client, s.leases.Dir, s.leases.Name = s.client, zkpath.Join(s.path, leasesDir), leaseName
	s.leases.Recipe, s.leases.Order = recipe, queue.Order{Names: []string{leaseName}}
	return nil
}

// Path returns the semaphore's path.
func (s *Semaphore) Path() string { return s.path }

// Acquire takes n leases, all or none, and waits for them until ctx ends. The lease does not end with ctx.
// While Acquire waits it holds none.
//
// When ctx ends, Acquire returns at once, and the client removes what is left on the server; the error
// matches ctx.Err() and context.Cause(ctx). Until it has a place in line, the retry policy decides how long
// to try: then ErrNotConnected or ErrConnectionLoss. After that it waits through lost connections and lost
// sessions; after a lost session it is at the end of the line. (The view of one session has no other:
// ErrSessionLost.)
//
// With the context of a [Lease] of the same semaphore, or one derived from it, it takes further leases. When
// there can be none before that lease is released, the error is ErrSelfWait, at once (but not with a shared
// count, which may grow). It goes by client, namespace and path, whatever Semaphore the lease is of.
//
// Other errors: ErrTooMany when n is more than the semaphore's max (but not with a shared count);
// ErrBadCount; ErrClosed as soon as the client is closed; ErrNoAuth without CREATE and READ on the
// directories, or READ on the shared count; ErrSequenceExhausted; framework.ErrTimeoutTooShort when the
// session timeout is too short to hold anything safely.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, "acquire", func(ctx context.Context) (*Lease, error) {
		if s.waitsForItself(ctx, n) {
			return nil, ErrSelfWait
		}
		lease, err := s.try(ctx, n)
		if errors.Is(err, ErrNotAcquired) || queue.PlaceLost(err) {
			return s.inLine(ctx, n)
		}
		return lease, err
	})
}

// TryAcquire does not wait: ErrNotAcquired as soon as it is known that fewer than n leases are free, or that
// somebody stands in line for some, possibly only for the moment that it takes to get them. When that is so
// from the start nothing is written. After the loss of a session it begins again as often as the retry policy
// says; then ErrSessionLost.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, "try to acquire", func(ctx context.Context) (*Lease, error) {
		return s.try(ctx, n)
	})
}

func (s *Semaphore) acquire(
	ctx context.Context, n int, verb string, take func(context.Context) (*Lease, error),
) (*Lease, error) {
	err := queue.Ready(ctx, s.client, s.err)
	switch {
	case err != nil:
	case n < 1:
		err = fmt.Errorf("%w: %d leases; acquire at least one", framework.ErrBadArguments, n)
	case s.count == nil && n > s.max:
		err = fmt.Errorf("%w (%d wanted, the maximum is %d)", ErrTooMany, n, s.max)
	default:
		var lease *Lease
		what := framework.Acquisition{Recipe: s.leases.Recipe, Path: s.path}
		if lease, err = queue.Told(ctx, s.client, what, take, (*Lease).abandon); err == nil {
			return lease, nil
		}
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = s.client.Left(ctx, err)
		}
	}
	return nil, s.wrap(verb, err)
}

func (s *Semaphore) wrap(verb string, err error) error {
	return queue.Wrap(s.what, s.path, verb, err)
}

// Do runs f while holding n leases, and releases them, also when f panics. f's context has the values and the
// deadline of ctx; it ends with ctx or with the lease. When the leases are not acquired f is not called.
//
// The error is f's, joined with how the lease was lost if that was before f returned: then f's work may have
// been one too many. What happens later is no error. Do waits for the server to confirm the release until ctx
// ends, at most a second; the client goes on with it after that, or when the connection or the session is
// lost. (Acquire and Release tell when the leases are free.) Only when the server refuses to delete the nodes
// the error is joined with ErrNotReleased and the reason.
func (s *Semaphore) Do(ctx context.Context, n int, f func(ctx context.Context) error) error {
	wait := func(ctx context.Context) (held, error) {
		lease, err := s.Acquire(ctx, n)
		return held{lease}, err
	}
	return queue.Do(ctx, wait, s.wrap, f)
}

// held is a lease that says how it was lost.
type held struct{ *Lease }

func (h held) Lost() error { return h.lost() }

// Participant is one lease, or one place in line, of any client.
//
//   - Name, Path string: that of the node, and where it is.
//   - Data []byte: what it contains, see [WithLeaseData].
//   - SessionID, Czxid int64, Since time.Time: whose session's it is, the number by which leases are told
//     apart ([Lease.ID]), and when it was made, by the server's clock. Zero when this client may not read it.
//   - DataErr error: matches framework.ErrDataTooLarge when Data is missing because it is larger than
//     framework.ContenderDataLimit, packed or not, or because all data together are larger than 16 MiB.
type Participant = queue.Participant

// Participants returns the leases that are taken, one element for each, the longest held first: one list, and
// one read for each, 64 at a time. It may be outdated when it returns. A contender with Curator for Java has
// its lease's node already while it waits, and is listed, too.
func (s *Semaphore) Participants(ctx context.Context) ([]Participant, error) {
	return s.participants(ctx, "participants", &s.leases)
}

// Waiting returns who stands in line, in the order of the line. A contender with Curator for Java stands
// there for the moment of an acquire, too.
func (s *Semaphore) Waiting(ctx context.Context) ([]Participant, error) {
	return s.participants(ctx, "waiting", &s.line)
}

func (s *Semaphore) participants(ctx context.Context, verb string, l *queue.Line) ([]Participant, error) {
	nodes, err := l.Participants(ctx, s.err, 0)
	return nodes, s.wrap(verb, err)
}

// Usage returns how many leases are taken and how many there are. When a shared count has shrunk, more may be
// taken than there are. A shared count that is missing is made.
func (s *Semaphore) Usage(ctx context.Context) (taken, max int, err error) {
	var seen snapshot
	if err = queue.Ready(ctx, s.client, s.err); err == nil {
		err = s.client.Retry(ctx, func(ctx context.Context) (err error) {
			seen, err = s.look(ctx, s.client, false)
			return err
		})
	}
	return seen.taken(), seen.max, s.wrap("usage", err)
}
