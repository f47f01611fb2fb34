package semaphore

import (
	"fmt"
	"math"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Option changes what [New] and [NewMutex] make.
type Option func(*Semaphore) error

// WithSharedCount has the semaphore follow the count at path, a node of its own outside of the semaphore's
// path: see [Count]. The max of [New] is then what the node is made with when it is missing, and may be 0. A
// count below 0 counts as 0. Corresponds to the constructor of Curator's InterProcessSemaphoreV2 that takes a
// SharedCountReader.
func WithSharedCount(path string) Option {
	return func(s *Semaphore) error {
		switch {
		case s.what != semaphoreWhat:
			return fmt.Errorf("%w WithSharedCount: a semaphore mutex always has one lease",
				framework.ErrInvalidOption)
		case s.max < 0 || s.max > math.MaxInt32:
			return fmt.Errorf("%w: max %d is out of range; a shared count begins with 0 to %d",
				framework.ErrBadArguments, s.max, math.MaxInt32)
		}
		s.count = NewCount(s.client, path)
		return queue.Check(s.client, path)
	}
}

// WithLeaseData is what the nodes of the leases contain: a host name, say, for [Semaphore.Participants] to
// show. Default: the client's default data ([framework.WithDefaultData]). Places in line have the default
// data.
func WithLeaseData(data []byte) Option {
	return func(s *Semaphore) error { s.leases.Data = append([]byte{}, data...); return nil }
}

// WithLossPolicy says whether a lease outlives a lost connection. Default [framework.SessionOnly]: it lasts
// as long as its session certainly does, by the client's own clock, so that the restart of one server ends no
// lease. With [framework.SuspendedIsLoss] it ends with the connection (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(s *Semaphore) (err error) {
		s.leases.Loss, err = queue.Policy(p)
		return err
	}
}

// OnWait has f called each time an Acquire finds out that it has to wait: in line, with how many are ahead,
// and as the first in line, with nobody ahead, when too few leases are free. The goroutine that acquires
// calls it and waits for it. Default: none.
func OnWait(f func(Position)) Option {
	return func(s *Semaphore) (err error) {
		s.line.OnWait, err = queue.Called(f)
		return err
	}
}

// Position is a place in line: struct{ Node, Predecessor string; Ahead int }. Node is the name of the own
// node in line, Predecessor that of the nearest one ahead, "" for the first, and Ahead how many are ahead in
// line, which says nothing about leases.
type Position = queue.Position
