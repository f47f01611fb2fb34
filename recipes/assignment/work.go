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

// working is an item that the plan assigns to this member, or did when its function was called.
type working struct {
	item   string
	cancel context.CancelCauseFunc
}

// lockName is package mutex's.
const lockName = "lock-"

// steady is the working time of a function after which its end does not count as one of a series.
const steady = time.Minute

// start starts a goroutine that works on the item until it is cancelled.
func (r *run) start(item string) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	w := &working{item, cancel}
	r.working[item] = w
	r.workers.Go(func() {
		defer r.ended.Put(w)
		defer cancel(nil)
		l := &line.Line{Client: r.a.client, Recipe: "assignment", Dir: zkpath.Join(r.a.path, "items", item),
			Name: lockName, Order: line.Order{Names: []string{lockName}}, Data: []byte(r.a.id),
			Loss: framework.SessionOnly, NoReentry: true}
		for failures := 1; ctx.Err() == nil && r.a.client.Err() == nil; failures++ {
			if lasted := r.work(ctx, l, item); lasted > steady {
				failures = 1
			}
			if ctx.Err() == nil {
				r.a.client.Pause(ctx, chance.UpTo(pauseAfter(failures)))
			}
		}
	})
}

// work works on the item once: it acquires the lock, calls the function, and releases the lock when the function has
// returned. It returns the function's working time.
func (r *run) work(ctx context.Context, l *line.Line, item string) time.Duration {
	log := r.a.client.Logger().With("path", l.Dir)
	var held *line.Handle
	err := line.Outlast(ctx, r.a.client, line.ReadOnlyMembers, func(ctx context.Context) (err error) {
		held, err = l.Enter(ctx, l.Acquire)
		return err
	})
	if err != nil {
		if ctx.Err() == nil && r.a.client.Err() == nil {
			log.Warn("cannot take an item; trying again", "err", err)
		}
		return 0
	}
	began := time.Now()
	work, stop := line.WorkContext(ctx, held.Context())
	returned := apart.Call(func() { err = r.f(work, Item{item, l, held}) })
	lasted, lost := time.Since(began), work.Err() != nil
	stop()
	if !returned {
		err = fmt.Errorf("the function of the item did not return: %w", apart.ErrNoReturn)
	}
	if err != nil && !lost {
		log.Warn("the function of an item has failed; it is called again after a pause", "err", err)
	}
	if err := line.ReleaseAfterWork(r.ctx, held.Release); err != nil {
		log.Warn("cannot give an item back; the others wait for the end of this session", "err", err)
	}
	return lasted
}
