package assignment

import (
	"context"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// itemWorker works on an item that the plan assigns to this member, or assigned to it when the worker was started.
type itemWorker struct {
	item   string
	cancel context.CancelCauseFunc
}

// lockName begins the names of a mutex's nodes.
const lockName = "lock-"

// steadyTime is the working time of a function after which its end does not count as one of a series.
const steadyTime = time.Minute

// startWorker starts a goroutine that works on the item until it is cancelled.
func (r *memberRun) startWorker(item string) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	w := &itemWorker{item, cancel}
	r.workers[item] = w
	r.goroutines.Go(func() {
		defer r.endedWorkers.Put(w)
		defer cancel(nil)
		l := &line.Line{Client: r.assignment.client, Recipe: "assignment", Dir: zkpath.Join(r.assignment.path, "items", item),
			Name: lockName, Order: line.Order{Names: []string{lockName}}, Data: []byte(r.assignment.id),
			Loss: framework.SessionOnly, NoReentry: true}
		for failures := 1; ctx.Err() == nil && r.assignment.client.Err() == nil; failures++ {
			if lasted := r.workOnce(ctx, l, item); lasted > steadyTime {
				failures = 1
			}
			if ctx.Err() == nil {
				r.assignment.client.Pause(ctx, chance.UpTo(maxPause(failures)))
			}
		}
	})
}

// workOnce works on the item once: it acquires the lock, calls the function, and releases the lock when the function
// has returned. It returns the function's working time.
func (r *memberRun) workOnce(ctx context.Context, l *line.Line, item string) time.Duration {
	log := r.assignment.client.Logger().With("path", l.Dir)
	var held *line.Share
	err := line.RetryThrough(ctx, r.assignment.client, line.ReadOnlyMembers, func(ctx context.Context) (err error) {
		held, err = l.AcquireShare(ctx, l.Acquire)
		return err
	})
	if err != nil {
		if ctx.Err() == nil && r.assignment.client.Err() == nil {
			log.Warn("cannot acquire an item; retrying", "err", err)
		}
		return 0
	}
	began := time.Now()
	work, stop := line.WorkContext(ctx, held.Context())
	returned := apart.Call(func() { err = r.function(work, Item{item, held}) })
	lasted, lost := time.Since(began), work.Err() != nil
	stop(nil)
	if !returned {
		err = fmt.Errorf("the function of the item did not return: %w", apart.ErrNoReturn)
	}
	if err != nil && !lost {
		log.Warn("the function of an item failed; calling it again after a pause", "err", err)
	}
	if err := line.ReleaseAfterWork(r.ctx, line.HeldShare{Share: held}.Release); err != nil {
		log.Warn("cannot release an item; the other members wait until this session ends", "err", err)
	}
	return lasted
}
