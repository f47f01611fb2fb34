package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// The data of a record begin with one of these, followed by the id of the call that wrote it.
const (
	begun = "begun "
	done  = "done "
)

// job is a call of Do.
type job struct {
	*Jobs
	dir  string
	guid string
	f    func(context.Context, Run) error

	held      *line.Handle
	recording sync.WaitGroup // records in flight; the lock is released after them
}

func (w *job) slots() string            { return zkpath.Join(w.dir, "slots") }
func (w *job) node(slot Slot) string    { return zkpath.Join(w.slots(), slot.name) }
func (w *job) data(state string) []byte { return []byte(state + w.guid) }

// look reads the slot's record, however long that takes. It returns Unknown if there is none, or if this call wrote
// it and lost the lock after that.
func (w *job) look(ctx context.Context, slot Slot) (outcome Outcome, _ error) {
	err := line.Outlast(ctx, w.client, line.Outages, func(ctx context.Context) error {
		data, err := w.client.GetData().Undecompressed().ForPath(ctx, w.node(slot))
		if err == nil && string(data) != begun+w.guid {
			outcome = outcomeOf(data)
		}
		return line.Unless(err, framework.ErrNoNode)
	})
	return outcome, err
}

// records lists the slots that have a record.
func (w *job) records(ctx context.Context) (names []string, err error) {
	err = line.Outlast(ctx, w.client, line.Outages, func(ctx context.Context) error {
		names, err = w.client.GetChildren().ForPath(ctx, w.slots())
		return line.Unless(err, framework.ErrNoNode)
	})
	return names, err
}

// begin creates the record before the function is called, if the lock is still held. Unknown means that the record is
// this call's.
func (w *job) begin(ctx context.Context, slot Slot) (outcome Outcome, _ error) {
	view := w.held.Grant.Session.Client()
	err := line.Outlast(ctx, view, line.ReadOnlyMembers, func(ctx context.Context) error {
		for range 3 { // another client may delete the directory
			to := view.TransactionOp()
			_, err := view.Transaction(ctx, to.Check().ForPath(w.held.Grant.Path),
				to.Create().Uncompressed().ForPath(w.node(slot), w.data(begun)))
			var refused *framework.TransactionError
			switch {
			case !errors.As(err, &refused):
				return err
			case refused.Index == 0 && errors.Is(err, framework.ErrNoNode):
				return fmt.Errorf("the lock: %w", framework.ErrNodeDeleted)
			case errors.Is(err, framework.ErrNodeExists): // ours, if a reply was lost
				outcome, err = w.look(ctx, slot)
				return err
			case !errors.Is(err, framework.ErrNoNode):
				return err
			}
			_, err = view.Create().CreatingParentContainersIfNeeded().WithMode(framework.Container).Uncompressed().
				ForPath(ctx, w.slots(), []byte{})
			if err = line.Unless(err, framework.ErrNodeExists); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: somebody deletes %s again and again", framework.ErrNoNode, w.slots())
	})
	return outcome, err
}

// patience is the time after its context's end for which a call waits until the writes that it has begun are
// executed.
const patience = time.Second

// record records that the function has run, also if the lock was lost. The client continues in the background when
// ctx has ended.
func (w *job) record(ctx context.Context, slot Slot) error {
	err := errors.New("a hook ended the goroutine")
	written := make(chan struct{})
	w.recording.Add(1)
	w.client.Spawn(func(ctx context.Context) {
		defer w.recording.Done()
		defer close(written)
		err = line.Outlast(ctx, w.client, line.RefusedCredentials, func(ctx context.Context) error {
			_, err := w.client.Create().CreatingParentContainersIfNeeded().OrSetData().Uncompressed().
				ForPath(ctx, w.node(slot), w.data(done))
			return err
		})
		if err == nil {
			w.tidy(ctx)
		}
	})
	if !await(ctx, written) {
		return fmt.Errorf("%w yet: %w", ErrNotRecorded, w.client.Left(ctx, nil))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRecorded, err)
	}
	return nil
}

// await waits until c is closed, or until patience has passed after the end of ctx.
func await(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-c:
		return true
	case <-late.C:
		return false
	}
}

// release releases the lock when the records are written. The client continues in the background when ctx has ended.
func (w *job) release(ctx context.Context) error {
	var refused error
	released := make(chan struct{})
	w.client.Spawn(func(ctx context.Context) {
		defer close(released)
		w.recording.Wait()
		refused = line.ReleaseAfterWork(ctx, w.held.Release)
	})
	select {
	case <-released:
		return refused
	case <-ctx.Done():
		return nil
	}
}

// tidy deletes the oldest records when there are a quarter more than keep. A failure does no harm: the next call
// tries again.
func (w *job) tidy(ctx context.Context) {
	const most = 1000 // at a time
	names, err := w.client.GetChildren().ForPath(ctx, w.slots())
	if err != nil || len(names) <= w.keep+w.keep/4 {
		return
	}
	type record struct {
		path  string
		czxid int64
	}
	looking := make([]*framework.Pending[framework.ExistsResult], len(names))
	for i, name := range names {
		looking[i] = w.client.CheckExists().InBackground().ForPath(ctx, zkpath.Join(w.slots(), name))
	}
	var records []record
	for i, name := range names {
		found, err := line.Result(looking[i])
		if err != nil {
			return
		}
		if found.Stat != nil {
			records = append(records, record{zkpath.Join(w.slots(), name), found.Stat.Czxid})
		}
	}
	slices.SortFunc(records, func(a, b record) int { return cmp.Compare(a.czxid, b.czxid) })
	for _, old := range records[:min(most, max(len(records)-w.keep, 0))] {
		if err := w.client.Delete().Quietly().ForPath(ctx, old.path); err != nil {
			return
		}
	}
}
