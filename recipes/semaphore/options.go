package semaphore

import (
	"fmt"
	"math"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Option configures [New] and [NewMutex]. If one is given several times the last counts.
type Option func(*Semaphore) error

// WithSharedCount makes the [Count] at path the semaphore's limit. That node must be outside of the semaphore's path.
// If the node is missing, it is created with the max of [New], which may then be 0. A count below 0 means a limit of
// 0. Corresponds to the InterProcessSemaphoreV2 constructor with a SharedCountReader.
func WithSharedCount(path string) Option {
	return func(s *Semaphore) error {
		switch {
		case s.recipeName != defaultRecipeName:
			return fmt.Errorf("%w WithSharedCount: a semaphore mutex always has one lease",
				framework.ErrInvalidOption)
		case s.max < 0 || s.max > math.MaxInt32:
			return fmt.Errorf("%w: max %d is out of range; a shared count begins with 0 to %d",
				framework.ErrBadArguments, s.max, math.MaxInt32)
		}
		s.count = NewCount(s.client, path)
		return line.CheckArguments(s.client, path)
	}
}

// WithLeaseData sets the data of the lease nodes: a host name, say, for [Semaphore.Participants] to show.
// Default: the client's default data ([framework.WithDefaultData]), which nodes in the line always have.
func WithLeaseData(data []byte) Option {
	return func(s *Semaphore) error { s.leases.Data = append([]byte{}, data...); return nil }
}

// WithLossPolicy sets whether a lease outlives a lost connection. Default [framework.SessionOnly]: the lease lasts
// until its session may have expired, by the client's own clock; the restart of one server ends no lease. With
// [framework.SuspendedIsLoss] the lease ends when the connection is lost (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) Option {
	return func(s *Semaphore) (err error) {
		s.leases.Loss, err = line.CheckLossPolicy(p)
		return err
	}
}

// OnWait calls f each time an Acquire has to wait: in the line, with the number of waiters ahead, and as the first
// in the line, with 0 ahead, when too few leases are free; also with the name of the lease's node, if that was created
// before the lease is free. f runs on the acquiring goroutine, which waits for it.
// Default: no function.
func OnWait(f func(Position)) Option {
	return func(s *Semaphore) (err error) {
		s.line.OnWait, err = line.CheckOnWait(f)
		return err
	}
}

// Position is a place in the line: struct{ Node, Predecessor string; Ahead int }. Node is the name of the waiter's
// own node in the line, Predecessor the name of the node right ahead ("" for the first), and Ahead the number of
// waiters ahead. It does not include the leases that are taken.
type Position = line.Position
