package semaphore

import (
	"context"

	"github.com/go-curator/curator/framework"
)

// Mutex is a lock that is a semaphore of one lease: it is not re-entrant, and any goroutine that has the
// [Lock] may release it. It is for locks that are shared with Java; else package mutex is better, which needs
// fewer requests to hand the lock on. Safe for concurrent use. Corresponds to Curator's
// InterProcessSemaphoreMutex.
type Mutex struct{ s Semaphore }

// NewMutex makes the lock at path, which is a directory of its own. It sends nothing. A mistake in the
// arguments, WithSharedCount among them, is reported by every method, before anything is sent.
func NewMutex(client *framework.Client, path string, opts ...Option) *Mutex {
	m := &Mutex{Semaphore{what: "semaphore mutex", client: client, path: path, max: 1}}
	m.s.err = m.s.configure(opts)
	return m
}

// Path returns the lock's path.
func (m *Mutex) Path() string { return m.s.path }

// Lock is a [Mutex] that the caller holds.
type Lock struct{ *Lease }

// FencingToken is a number that grows from holder to holder: the ID, since nobody is granted the only lease
// while an earlier node is there.
func (l *Lock) FencingToken() int64 { return l.ID() }

// Guard is the only one of Guards.
func (l *Lock) Guard() framework.TransactionOp { return l.Guards()[0] }

// Acquire waits until the lock is the caller's, or ctx ends, as [Semaphore.Acquire]. It never re-enters: with
// the context of a [Lock] at this path it is refused at once (ErrSelfWait).
func (m *Mutex) Acquire(ctx context.Context) (*Lock, error) {
	return lock(m.s.Acquire(ctx, 1))
}

// TryAcquire does not wait, as [Semaphore.TryAcquire].
func (m *Mutex) TryAcquire(ctx context.Context) (*Lock, error) {
	return lock(m.s.TryAcquire(ctx, 1))
}

func lock(lease *Lease, err error) (*Lock, error) {
	if err != nil {
		return nil, err
	}
	return &Lock{lease}, nil
}

// Do runs f while holding the lock, as [Semaphore.Do] does.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.s.Do(ctx, 1, f)
}

// Participants returns who holds the lock, and after it who waits for it in line.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	holders, err := m.s.Participants(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := m.s.Waiting(ctx)
	return append(holders, waiting...), err
}
