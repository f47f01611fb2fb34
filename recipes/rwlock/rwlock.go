package rwlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// What is in front of the sequence number. It is part of the contract with Curator for Java.
const (
	readName  = "__READ__"
	writeName = "__WRIT__"
)

// both is in the order in which Java looks for the names.
var both = []string{readName, writeName}

// Errors of this package, and those that tell how a lock was lost. Use errors.Is.
var (
	// ErrNotAcquired is TryAcquire's answer when somebody holds the lock, or waits for it: at some moment before
	// the answer, possibly just before the call. It is the same value in all recipes.
	ErrNotAcquired = queue.ErrNotAcquired
	// ErrUpgrade refuses the write lock when the context that was passed holds the read lock.
	ErrUpgrade = errors.New("a read lock cannot be upgraded: two readers that both tried would wait for " +
		"each other forever; release the read lock and acquire with a context that does not come from it, " +
		"or take the write lock first and downgrade")
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
)

// Kind says which of the two locks.
type Kind int8

const (
	Read  Kind = iota + 1 // the lock that many share
	Write                 // the lock of one alone
)

func (k Kind) String() string {
	switch k {
	case Read:
		return "read"
	case Write:
		return "write"
	}
	return fmt.Sprintf("Kind(%d)", int8(k))
}

// RWLock is a pair of locks at a path. It has no state but its configuration: make it once and share it, or
// make it anew each time. Every Acquire has its own place in line. Safe for concurrent use. Corresponds to
// Curator's InterProcessReadWriteLock.
type RWLock struct {
	read, write Side
}

// New makes the locks at path, a directory of its own: nothing else should be put there. It sends nothing. A
// mistake in the arguments (a nil client, a path that is none or the root, an option) is reported by every
// method, before anything is sent.
func New(client *framework.Client, path string, opts ...Option) *RWLock {
	rw := &RWLock{}
	side := func(s *Side, kind Kind, name, blockers string) {
		s.rw, s.kind = rw, kind
		s.line.Client, s.line.Dir, s.line.Name, s.line.Loss = client, path, name, framework.SessionOnly
		s.line.Recipe, s.line.Order = kind.String()+"-lock", queue.Order{Names: both, Blockers: blockers}
	}
	side(&rw.read, Read, readName, writeName)
	side(&rw.write, Write, writeName, "")
	err := queue.Configure(client, path, rw, opts)
	rw.read.err, rw.write.err = err, err
	return rw
}

// each is an option for both sides.
func (rw *RWLock) each(set func(*Side)) error {
	set(&rw.read)
	set(&rw.write)
	return nil
}

// Path returns the path of the locks.
func (rw *RWLock) Path() string { return rw.read.line.Dir }

// ReadLock returns the side that many share. It is always the same one.
func (rw *RWLock) ReadLock() *Side { return &rw.read }

// WriteLock returns the side of one alone. It is always the same one.
func (rw *RWLock) WriteLock() *Side { return &rw.write }

// Participant is a contender that holds one of the locks or waits for it, with any client.
type Participant struct {
	Kind Kind // the lock that it wants or has
	// The rest is as in Participant of package mutex; of a downgrade Czxid is not the fencing token.
	Name, Path       string
	Data             []byte
	SessionID, Czxid int64
	Since            time.Time
	DataErr          error
}

// Participants returns who holds the locks and who waits for them, in the order of the line: one list, and
// one read for each, 64 at a time. It may be outdated when it returns. Children that belong to no lock are
// left out. [Side.Participants] returns one kind.
func (rw *RWLock) Participants(ctx context.Context) ([]Participant, error) {
	return rw.read.participants(ctx, both)
}

// Holders returns those that hold a lock or are about to: one writer, or readers, or a writer that is about
// to become a reader, with both. A downgraded reader of Curator for Java up to 5.4 is not recognised after a
// writer.
func (rw *RWLock) Holders(ctx context.Context) ([]Participant, error) {
	line, err := rw.Participants(ctx)
	if err != nil {
		return nil, err
	}
	order := rw.write.line.Order
	first := int64(queue.Limit) // the number of the first writer
	for _, p := range line {
		if number, ok := order.Number(p.Name); ok && p.Kind == Write {
			first = min(first, number)
		}
	}
	var holders []Participant
	readers := false // ahead of that writer
	for _, p := range line {
		number, ok := order.Number(p.Name)
		readers = readers || ok && p.Kind == Read && number < first
		if ok && (p.Kind == Read && number <= first || number == first && !readers) {
			holders = append(holders, p)
		}
	}
	return holders, nil
}

func (s *Side) participants(ctx context.Context, names []string) ([]Participant, error) {
	those := queue.Line{Client: s.line.Client, Dir: s.line.Dir, Order: queue.Order{Names: names}}
	line, err := those.Participants(ctx, s.err, 0)
	if err != nil {
		return nil, queue.Wrap("rwlock", s.line.Dir, "participants", err)
	}
	all := make([]Participant, len(line))
	for i, p := range line {
		all[i] = Participant{kindOf(p.Name), p.Name, p.Path, p.Data, p.SessionID, p.Czxid, p.Since, p.DataErr}
	}
	return all, nil
}

func kindOf(name string) Kind {
	if strings.Contains(name, writeName) {
		return Write
	}
	return Read
}
