package rwlock

import (
	"context"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Readers is the read lock for many goroutines of a process: concurrent readers share a node. The first one costs the
// requests of a read lock, later ones cost none. After a while new callers get another node ([WithJoins]), so that a
// stream of readers starves no writer.
//
// For other processes, and for writers of this one, each node is a reader like any other: an [RWLock], or Curator's
// InterProcessReadWriteLock, at the same path. The write lock is an RWLock's. Use one Readers for a path and a
// client: two of them share nothing. Safe for concurrent use. It needs no Close: it ends with the client.
//
// Hooks of the client: Acquire is called for each caller, on its goroutine. The others (Queue, Wait, Hold, NodeData)
// are called for the node, on a goroutine of the client, with a context without the callers' values; a panic there
// ends the process. If a hook ends its goroutine, the callers that wait for that node get an error; a hook that
// blocks keeps them waiting. The end of a Hold is reported on the goroutine that releases the node; the Hold of a
// downgrade on the caller's, with its values.
type Readers struct {
	rw    RWLock
	front line.Front
}

// NewReaders makes the read lock at path, as [New] does, for goroutines that share its nodes. It takes the options of
// New except [OnWait], and also WithJoins. WithNodeData, WithLossPolicy and WithRevocation apply to the node, and so
// to all its readers.
func NewReaders(client *framework.Client, path string, opts ...Option) *Readers {
	r := &Readers{}
	r.rw.configure(client, path, opts)
	side := &r.rw.read
	if err := r.front.Init(&side.line, r.rw.joinLimits, "Readers"); side.err == nil {
		side.err = err
	}
	return r
}

// Path returns the path of the locks.
func (r *Readers) Path() string { return r.rw.Path() }

// Acquire waits until the caller may read, or until ctx ends, which affects only this caller. If others of this
// Readers read, and may be joined, it returns immediately. If others wait for writers, it waits with them, at the
// same place in the line. Otherwise it waits in the line with a new node, which later callers may share. ctx limits
// only the wait.
//
// Until there is a node, the retry policy limits the attempts; the error after the last goes to all callers that wait
// for it. When a lock is lost, all readers with its node have lost it; later callers get another node.
//
// If ctx is the Context of a [Reading] at this path that is not lost or released, or is derived from it, Acquire
// re-enters: the new Reading is one more share of that one. If ctx belongs to the write lock, Acquire downgrades, as
// [Side.Acquire] does, with a node that is not shared. If it belongs to a [Lock] that is a read lock at this path,
// the error is ErrSelfWait, since the caller might wait for a writer that waits for it; the same applies to Acquire
// of the read lock's Side with the context of a Reading. With that context the error for the write lock is
// ErrUpgrade.
//
// Errors: otherwise as Side.Acquire.
func (r *Readers) Acquire(ctx context.Context) (*Reading, error) {
	return r.acquireReading(ctx, "acquire", false)
}

// TryAcquire is Acquire without waiting for writers: it returns ErrNotAcquired as soon as it has read that a writer
// is ahead, at some moment during the call, and immediately if others of this Readers wait for a writer. Concurrent
// tries share the result of one of them. See [Side.TryAcquire].
func (r *Readers) TryAcquire(ctx context.Context) (*Reading, error) {
	return r.acquireReading(ctx, "try to acquire", true)
}

func (r *Readers) acquireReading(ctx context.Context, verb string, try bool) (*Reading, error) {
	side := &r.rw.read
	t, err := r.enterLine(ctx, try)
	if err != nil {
		return nil, side.wrapError(verb, err)
	}
	return &Reading{t, side}, nil
}

// enterLine re-enters, refuses, downgrades, or gives a turn.
func (r *Readers) enterLine(ctx context.Context, try bool) (*grantShare, error) {
	side := &r.rw.read
	l := &side.line
	if err := line.CheckCall(ctx, l.Client, side.err); err != nil {
		return nil, err
	}
	if t := l.Reenter(ctx, true); t != nil {
		return t, nil
	}
	if l.HeldGrant(ctx) != nil {
		return nil, ErrSelfWait
	}
	what := framework.Acquisition{Recipe: l.Recipe, Path: l.Dir}
	return line.ReportAcquire(ctx, l.Client, what, func(ctx context.Context) (*grantShare, error) {
		caller := line.CallerOf(ctx)
		if w := r.rw.write.line.Reenter(ctx, false); w != nil {
			grant, err := side.acquireDowngraded(ctx, &Lock{w, &r.rw.write}, try)
			if err != nil {
				return nil, err
			}
			l.WatchRevocation(grant)
			return r.front.SeparateTurn(grant, caller), nil
		}
		return r.front.AcquireTurn(ctx, try)
	}, line.ReleaseTurnNoWait)
}

// Do acquires, runs f and releases, as [Side.Do] does.
func (r *Readers) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return line.Do(ctx, func(ctx context.Context) (*Reading, error) { return r.Acquire(ctx) },
		r.rw.read.wrapError, f)
}

// Reading is the read lock while one caller of a [Readers] has it. It lasts until Release, or until the lock is lost,
// independently of others with the same node. Safe for concurrent use. It has these methods besides those below:
//
//   - Context() context.Context is as Context of a [Lock], for this Reading alone: it has the values of the context that
//     acquired it, and ends with its release, also if others continue with the same node. When the lock is lost all their
//     contexts end, before a writer can acquire it. Re-entered Readings share one Context, with the values of the first;
//     it ends with the last Release.
//   - Valid() bool reports whether the caller certainly holds the lock now, computed from the clock. Remaining()
//     time.Duration is as Remaining of a Lock.
//   - Path() string returns the path of the node, as seen by the client that acquired this Reading, and Node() string
//     its name. Others may have the same.
type Reading struct {
	*grantShare
	side *Side
}

// FencingToken is as [Lock.FencingToken] of a read lock. Readers with the same node have the same token, which a
// store may treat like the different ones of readers with separate nodes: it is larger than the tokens of all writers
// before any of them, and smaller than the tokens of all writers after the last.
func (r *Reading) FencingToken() int64 { return line.GrantOf(r.grantShare).Czxid }

// Guard is as [Lock.Guard]: with it the server executes a transaction only if no other writer can have had the lock
// since Acquire. It checks the node. So while others continue with the same node, it also lets through a transaction
// of a caller that has released its own Reading.
func (r *Reading) Guard() framework.TransactionOp { return line.Guard(r.grantShare) }

// Revoked is as [Lock.Revoked]. After a request for a node, the channels of all its readers are closed, and no caller
// joins them any more; the last of them deletes the node.
func (r *Reading) Revoked() <-chan struct{} { return line.Revoked(r.grantShare) }

// Lost returns the cause of the lock's loss before the release; nil if it was not lost.
func (r *Reading) Lost() error { return line.GrantOf(r.grantShare).Lost() }

// Release ends the Reading. After re-entries only the last Release does so. While others continue with the same node,
// nothing is sent, and Release does not wait. The last of them waits, as [Lock.Release] does, until the server has
// confirmed the deletion of the node.
//
// A second Release returns ErrReleased. If the lock was lost before, the error of the last Release is the
// cause.
func (r *Reading) Release(ctx context.Context) error {
	return r.side.wrapError("release", line.Release(ctx, r.grantShare))
}

// ReleaseInBackground is Release for a caller that does not wait, as [Lock.ReleaseInBackground]; then, if
// given, gets the error.
func (r *Reading) ReleaseInBackground(then ...func(err error)) {
	line.ReleaseInBackground(r.grantShare, r.side.wrapError, then)
}
