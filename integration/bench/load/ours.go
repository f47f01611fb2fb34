package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/bench"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/semaphore"
)

const sessionTimeout = 30 * time.Second

// ours is this library; with unawaited it does not wait for the end of a release.
type ours struct {
	unawaited bool
	added     func(time.Duration) // records how long an addition took
	sessions  []*framework.Client
}

func (o *ours) turns(ctx context.Context, job bench.Job) (turns []turn, err error) {
	for range job.Sessions {
		session, err := framework.New(*server, framework.WithSessionTimeout(sessionTimeout))
		if err != nil {
			return nil, err
		}
		o.sessions = append(o.sessions, session)
	}
	shared := mutex.New(o.sessions[0], job.Path)
	for i := range job.Contenders {
		session := o.sessions[i%job.Sessions]
		switch job.Work {
		case "mutex":
			turns = append(turns, locked(o, mutex.New(session, job.Path).Acquire))
		case "shared":
			turns = append(turns, locked(o, shared.Acquire))
		case "semaphore-mutex":
			turns = append(turns, locked(o, semaphore.NewMutex(session, job.Path).Acquire))
		case "semaphore":
			s := semaphore.New(session, job.Path, job.Leases)
			turns = append(turns, locked(o, func(ctx context.Context) (*semaphore.Lease, error) {
				return s.Acquire(ctx, 1)
			}))
		case "counter":
			number := counter.NewLong(session, job.Path)
			turns = append(turns, func(ctx context.Context, _ func()) error {
				began := time.Now()
				_, err := number.Add(ctx, 1)
				o.added(time.Since(began))
				time.Sleep(job.Hold)
				return err
			})
		default:
			return nil, fmt.Errorf("there is no work %q", job.Work)
		}
	}
	return turns, nil
}

// hold is a lock or a lease.
type hold interface {
	Release(ctx context.Context) error
	ReleaseInBackground(then ...func(error))
}

func locked[L hold](o *ours, acquire func(context.Context) (L, error)) turn {
	return func(ctx context.Context, held func()) error {
		lock, err := acquire(ctx)
		if err != nil {
			return err
		}
		held()
		if o.unawaited {
			lock.ReleaseInBackground()
			return nil
		}
		return lock.Release(context.WithoutCancel(ctx))
	}
}

func (o *ours) close() (err error) {
	for _, session := range o.sessions {
		err = errors.Join(err, session.Close())
	}
	return err
}
