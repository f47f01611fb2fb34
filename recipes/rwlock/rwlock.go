package rwlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// The names of the nodes before the sequence number. They are part of the contract with Curator for Java.
const (
	readName  = "__READ__"
	writeName = "__WRIT__"
)

// contenderNames has the names in Java's search order.
var contenderNames = []string{readName, writeName}

// Errors of this package, and the causes of the end of a lock's context. Use errors.Is.
var (
	// ErrNotAcquired is returned by TryAcquire if it would have had to wait for another contender, at some moment
	// before the result, possibly just before the call. It is the same value in all recipes.
	ErrNotAcquired = line.ErrNotAcquired
	// ErrUpgrade is returned for the write lock with a context that belongs to the read lock only.
	ErrUpgrade = errors.New("a read lock cannot be upgraded: two readers that both tried would wait for " +
		"each other forever; release the read lock and acquire with a context that does not come from it, " +
		"or take the write lock first and downgrade")
	// ErrSelfWait is returned for a read lock with a separate node and the context of a shared one, and the other way
	// round: a writer that waits for the one would be ahead of the other. See [Readers].
	ErrSelfWait = line.ErrSelfWait
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
)

// Kind is one of the two locks: the read lock or the write lock.
type Kind int8

const (
	Read  Kind = iota + 1 // the shared lock
	Write                 // the exclusive lock
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

// RWLock is a read lock and a write lock at one path. It has no state but its configuration: share one RWLock, or
// make a new one for each use. Every Acquire waits in the line with a separate node. Safe for concurrent use.
// Corresponds to Curator's InterProcessReadWriteLock.
type RWLock struct {
	read, write Side
	joinLimits  line.Limits // of NewReaders only
}

// New makes the locks at path. The node at path is for these locks only: create no other children below it.
// New sends nothing. If an argument is wrong (a nil client, an invalid path or the root, a wrong option),
// every method returns that error, before it sends anything.
func New(client *framework.Client, path string, opts ...Option) *RWLock {
	rw := &RWLock{}
	rw.configure(client, path, opts)
	if rw.read.err == nil && rw.joinLimits != (line.Limits{}) {
		err := fmt.Errorf("%w: WithJoins is for NewReaders", framework.ErrInvalidOption)
		rw.read.err, rw.write.err = err, err
	}
	return rw
}

func (rw *RWLock) configure(client *framework.Client, path string, opts []Option) {
	side := func(s *Side, kind Kind, name, blockers string) {
		s.rw, s.kind = rw, kind
		s.line.Client, s.line.Dir, s.line.Name, s.line.Loss = client, path, name, framework.SessionOnly
		s.line.Recipe, s.line.Order = kind.String()+"-lock", line.Order{Names: contenderNames, Blockers: blockers}
	}
	side(&rw.read, Read, readName, writeName)
	side(&rw.write, Write, writeName, "")
	rw.read.line.Shared = true
	err := line.Configure(client, path, rw, opts)
	rw.read.err, rw.write.err = err, err
}

// configureSides applies set to both sides.
func (rw *RWLock) configureSides(set func(*Side)) error {
	set(&rw.read)
	set(&rw.write)
	return nil
}

// Path returns the path of the locks.
func (rw *RWLock) Path() string { return rw.read.line.Dir }

// ReadLock returns the read lock, always the same Side.
func (rw *RWLock) ReadLock() *Side { return &rw.read }

// WriteLock returns the write lock, always the same Side.
func (rw *RWLock) WriteLock() *Side { return &rw.write }

// Participant is a holder or waiter of one of the locks, with any client, in Go or Java.
type Participant struct {
	Kind Kind // the lock that it wants or has
	// The other fields are as in Participant of package mutex. For the read lock of a downgrade Czxid is not
	// the fencing token.
	Name, Path       string
	Data             []byte
	SessionID, Czxid int64
	Since            time.Time
	DataErr          error
}

// Participants returns the holders and waiters of both locks, in the order of the line. It lists the
// children and then reads each node, 64 in one request. The result may be outdated when it returns. Children
// that are not nodes of a lock are left out. [Side.Participants] returns one kind only.
func (rw *RWLock) Participants(ctx context.Context) ([]Participant, error) {
	return rw.read.listParticipants(ctx, contenderNames)
}

// Holders returns the participants that have a lock or are about to get it: one writer, or readers, or the write lock
// and the read lock of a caller that is about to downgrade. It leaves out the read lock of a downgrade by Curator for
// Java up to 5.4 if a writer's node is ahead of it.
func (rw *RWLock) Holders(ctx context.Context) ([]Participant, error) {
	inLine, err := rw.Participants(ctx)
	if err != nil {
		return nil, err
	}
	order := rw.write.line.Order
	first := int64(line.SequenceLimit) // the number of the first writer
	for _, p := range inLine {
		if number, ok := order.SequenceNumber(p.Name); ok && p.Kind == Write {
			first = min(first, number)
		}
	}
	var holders []Participant
	readers := false // ahead of that writer
	for _, p := range inLine {
		number, ok := order.SequenceNumber(p.Name)
		ahead := ok && number < first
		readers = readers || ahead
		if ahead || ok && number == first && !readers { // equal: the writer, and the node of its downgrade
			holders = append(holders, p)
		}
	}
	return holders, nil
}

func (s *Side) listParticipants(ctx context.Context, names []string) ([]Participant, error) {
	those := line.Line{Client: s.line.Client, Dir: s.line.Dir, Order: line.Order{Names: names}}
	inLine, err := those.Participants(ctx, s.err, 0)
	if err != nil {
		return nil, line.WrapError("rwlock", s.line.Dir, "participants", err)
	}
	all := make([]Participant, len(inLine))
	for i, p := range inLine {
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
