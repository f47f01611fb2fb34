package rwlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/mutant"
	"github.com/go-curator/curator/internal/queue"
)

// Side is one of the two locks of an [RWLock]. Safe for concurrent use.
//
// Corresponds to Curator's ReadLock and WriteLock.
type Side struct {
	rw   *RWLock
	kind Kind
	line queue.Line
}

// Kind says which of the two.
func (s *Side) Kind() Kind { return s.kind }

// Path returns the path of the locks.
func (s *Side) Path() string { return s.line.Dir }

// Acquire waits in line until the lock is the caller's, or ctx ends. The lock does not end with ctx. A reader waits for the writers ahead, a
// writer for everybody ahead.
//
// When ctx is the Context of a [Lock] at this path that is still held, or derived from one, it does not wait: the same lock is entered once more;
// the read lock is had at once beside the write lock, with one request; and the write lock is refused with ErrUpgrade to who holds the read
// lock only. See the package's documentation. It does not matter which RWLock the lock is of, as long as client, namespace and path come to the same node
// of the same client. So whoever is handed that context shares the hold. With any other context Acquire queues. (The context of a lock of another
// client is such a one, even if it connects to the same servers: nobody here can know that it may wait for itself.)
//
// When ctx ends, Acquire returns at once, and the client removes what it has left on the server; the error matches ctx.Err(), and
// context.Cause(ctx). While it waits, lost connections and even lost sessions are sat out. Before it has a place in line, the retry policy
// decides how long to try: then ErrNotConnected or ErrConnectionLoss. Other errors: ErrClosed as soon as the client is closed; ErrNoAuth
// without CREATE and READ on the directory, or, beside the write lock, without READ on its node; ErrSequenceExhausted; ErrInvalidPath;
// framework.ErrTimeoutTooShort when the session timeout is too short to hold anything safely. Beside the write lock also how that was lost.
func (s *Side) Acquire(ctx context.Context) (*Lock, error) {
	return s.acquire(ctx, "acquire", s.line.Acquire)
}

// TryAcquire is Acquire for who does not want to wait: ErrNotAcquired as soon as it is known that somebody is in the way. The first look writes
// nothing, see also [WithStaleTry]; only when nobody is there does it queue, and when somebody was faster it leaves again. What Acquire
// does at once it does, too.
func (s *Side) TryAcquire(ctx context.Context) (*Lock, error) {
	return s.acquire(ctx, "try to acquire", func(ctx, values context.Context) (*queue.Grant, error) {
		return s.line.TryAcquire(ctx, values, s.rw.staleTry)
	})
}

func (s *Side) acquire(ctx context.Context, verb string, wait func(ctx, values context.Context) (*queue.Grant, error)) (*Lock, error) {
	err := s.fault()
	switch {
	case err != nil:
	case ctx == nil:
		err = framework.ErrNilContext
	case ctx.Err() != nil:
		err = s.line.Client.Left(ctx, nil)
	default:
		var lock *Lock
		if lock, err = s.enter(ctx, wait); err == nil {
			return lock, nil
		}
	}
	return nil, s.failed(verb, err)
}

// fault is why nothing can be done with it.
func (s *Side) fault() error {
	if s.rw == nil {
		return framework.ErrNoClient
	}
	return queue.Made(s.line.Client, s.rw.err)
}

// enter does what ctx entitles to, and else waits in line.
func (s *Side) enter(ctx context.Context, wait func(ctx, values context.Context) (*queue.Grant, error)) (*Lock, error) {
	if again := s.reenter(ctx); again != nil {
		return again, nil
	}
	if _, reading := queue.Carried[*held](ctx, s.rw.read.owner()); reading && s.kind == Write {
		return nil, ErrUpgrade
	}
	ctx, acquired := s.line.Begin(ctx)
	h := &held{}
	values := queue.Carry(ctx, s.owner(), h)
	var grant *queue.Grant
	var err error
	if beside := s.rw.write.reenter(ctx); beside != nil {
		grant, err = s.beside(ctx, values, beside)
		h.token = beside.FencingToken()
		if mutant.On("the read node's token") && err == nil {
			if stat, err := s.line.Client.CheckExists().ForPath(ctx, grant.Path); err == nil && stat != nil {
				h.token = stat.Czxid
			}
		}
	} else if grant, err = wait(ctx, values); err == nil {
		h.token = grant.Czxid
	}
	queue.Announce(acquired, err, grant.Leave)
	if err != nil {
		return nil, err
	}
	if s.rw.revocable {
		h.revoked = grant.Revoked()
	}
	return &Lock{s, h.Begin(grant, s.line.Client.Logger()), h}, nil
}

// Do runs f while holding the lock, and releases it, also when f panics. f's context has the values of ctx and carries the lock; it ends with ctx
// and with the lock, whichever comes first; its deadline is that of ctx. When the lock is not acquired f is not called.
//
// The error is f's, joined with the way in which the lock was lost, if it was lost before f returned: then f's work may not have been
// protected to its end. What happens after that does not make the work undone, and is no error of Do: it waits for the server to confirm the release for
// as long as ctx allows, but no longer than a second; then, or when the connection or the session is lost meanwhile, the client goes on with it
// and Do returns. (Who needs to know that the lock is free uses Acquire and Release.) Only when the server refuses to delete the lock's node
// the error is joined with ErrNotReleased and the reason.
func (s *Side) Do(ctx context.Context, f func(ctx context.Context) error) error {
	if f == nil {
		return s.failed("do", errors.New("the function is nil"))
	}
	lock, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return queue.Do(ctx, lock.handle, s.failed, f)
}

// Participants returns who holds this lock, or waits for it, in the order of the line; of the others there is no word, see
// [RWLock.Participants] and [RWLock.Holders].
func (s *Side) Participants(ctx context.Context) ([]Participant, error) {
	if s.rw == nil {
		return nil, s.failed("participants", framework.ErrNoClient)
	}
	return s.rw.participants(ctx, []string{s.line.Name})
}

func (s *Side) failed(verb string, err error) error {
	if s.rw == nil {
		return fmt.Errorf("rwlock: %s: %w", verb, err)
	}
	return s.rw.failed(verb+" "+s.kind.String(), err)
}
