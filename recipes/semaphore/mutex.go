package semaphore

import (
	"context"

	"github.com/go-curator/curator/framework"
)

// Mutex is a lock made of a semaphore with one lease. It is not re-entrant, and any goroutine with the [Lock] may
// release it. Use it only for locks shared with Java's InterProcessSemaphoreMutex: package mutex needs fewer requests
// to hand the lock on. Safe for concurrent use. Corresponds to Curator's InterProcessSemaphoreMutex.
type Mutex struct{ s Semaphore }

// NewMutex makes the lock at path. The node at path is for this lock only. NewMutex sends nothing. If an
// argument is wrong, every method returns that error, before it sends anything. WithSharedCount is such an
// error.
func NewMutex(client *framework.Client, path string, opts ...Option) *Mutex {
	m := &Mutex{Semaphore{recipeName: "semaphore mutex", client: client, path: path, max: 1}}
	m.s.err = m.s.configure(opts)
	return m
}

// Path returns the lock's path.
func (m *Mutex) Path() string { return m.s.path }

// Lock is an acquired [Mutex].
type Lock struct{ *Lease }

// FencingToken returns a number that grows from holder to holder. It is the ID, which grows here, since no caller
// gets the only lease while an earlier lease's node exists.
func (l *Lock) FencingToken() int64 { return l.ID() }

// Guard returns the only element of Guards.
func (l *Lock) Guard() framework.TransactionOp { return l.Guards()[0] }

// Acquire waits until it has the lock or ctx ends, as [Semaphore.Acquire] does. It never re-enters: with the context
// of a [Lock] at this path the error is ErrSelfWait, immediately.
func (m *Mutex) Acquire(ctx context.Context) (*Lock, error) {
	return lockFromLease(m.s.Acquire(ctx, 1))
}

// TryAcquire is Acquire without waiting, as [Semaphore.TryAcquire] is.
func (m *Mutex) TryAcquire(ctx context.Context) (*Lock, error) {
	return lockFromLease(m.s.TryAcquire(ctx, 1))
}

func lockFromLease(lease *Lease, err error) (*Lock, error) {
	if err != nil {
		return nil, err
	}
	return &Lock{lease}, nil
}

// Do acquires the lock, runs f, and releases the lock, as [Semaphore.Do] does.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.s.Do(ctx, 1, f)
}

// Participants returns the holder, and then the waiters in the order of the line.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	holders, err := m.s.Participants(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := m.s.Waiting(ctx)
	return append(holders, waiting...), err
}
