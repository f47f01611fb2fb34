package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/bench"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/recipes/semaphore"
)

const sessionTimeout = 30 * time.Second

// ours is this library; with unawaited it does not wait for the end of a release.
type ours struct {
	unawaited bool
	sessions  []*framework.Client
	beside    sync.WaitGroup // producers, and calls of Consume
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
	room := make(chan struct{}, 16*job.Contenders)
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
				_, err := number.Add(ctx, 1)
				time.Sleep(job.Hold)
				return err
			})
		case "simple", "queue":
			turns = append(turns, o.consumer(ctx, session, job, room))
		case "barrier":
			double := barrier.NewDouble(session, job.Path, job.Contenders)
			turns = append(turns, func(ctx context.Context, _ func()) error {
				member, err := double.Enter(ctx)
				if err != nil {
					return err
				}
				return member.Leave(ctx)
			})
		default:
			return nil, fmt.Errorf("there is no work %q", job.Work)
		}
	}
	return turns, nil
}

// consumer returns the turns of a consumer, each of which takes one item, and starts a producer. room has an
// element for each item in the queue.
func (o *ours) consumer(ctx context.Context, session *framework.Client, job bench.Job, room chan struct{}) turn {
	var put, take func(context.Context) error
	if job.Work == "simple" {
		q := queue.NewSimple(session, job.Path)
		put = func(ctx context.Context) error { return q.Offer(ctx, item) }
		take = func(ctx context.Context) error { _, err := q.Take(ctx); return err }
	} else {
		q, handled := queue.New(session, job.Path), make(chan struct{})
		items := slices.Repeat([][]byte{item}, job.Leases)
		put = func(ctx context.Context) error { return q.PutMany(ctx, items) }
		o.beside.Go(func() {
			_ = q.Consume(ctx, func(ctx context.Context, _ []byte) error {
				select {
				case handled <- struct{}{}:
				case <-ctx.Done():
				}
				return nil
			})
		})
		take = func(ctx context.Context) error {
			select {
			case <-handled:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
	}
	o.beside.Go(func() {
		for ctx.Err() == nil {
			for range job.Leases {
				select {
				case room <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
			if err := put(ctx); err != nil && ctx.Err() == nil {
				panic(err)
			}
		}
	})
	return func(ctx context.Context, _ func()) error {
		err := take(ctx)
		if err == nil {
			<-room
		}
		return err
	}
}

var item = []byte("an item of a queue, of some bytes")

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
	o.beside.Wait()
	for _, session := range o.sessions {
		err = errors.Join(err, session.Close())
	}
	return err
}
