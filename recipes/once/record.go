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
	begunPrefix = "begun "
	donePrefix  = "done "
)

// jobExecution is a call of Do: the job's lock, and its slots.
type jobExecution struct {
	*Jobs
	dir      string
	guid     string
	function func(context.Context, Run) error

	held            line.HeldShare
	recordsInFlight sync.WaitGroup // the lock is released after them
}

func (w *jobExecution) slotsPath() string              { return zkpath.Join(w.dir, "slots") }
func (w *jobExecution) recordPath(slot Slot) string    { return zkpath.Join(w.slotsPath(), slot.name) }
func (w *jobExecution) recordData(state string) []byte { return []byte(state + w.guid) }

// readRecord reads the slot's record, however long that takes. It returns Unknown if there is no record, or if this call
// wrote it and then lost the lock.
func (w *jobExecution) readRecord(ctx context.Context, slot Slot) (outcome Outcome, _ error) {
	err := line.RetryThrough(ctx, w.client, line.Outages, func(ctx context.Context) error {
		data, err := w.client.GetData().Undecompressed().ForPath(ctx, w.recordPath(slot))
		if err == nil && string(data) != begunPrefix+w.guid {
			outcome = decodeOutcome(data)
		}
		return line.IgnoreError(err, framework.ErrNoNode)
	})
	return outcome, err
}

// listRecords lists the slots that have a record.
func (w *jobExecution) listRecords(ctx context.Context) (names []string, err error) {
	err = line.RetryThrough(ctx, w.client, line.Outages, func(ctx context.Context) error {
		names, err = w.client.GetChildren().ForPath(ctx, w.slotsPath())
		return line.IgnoreError(err, framework.ErrNoNode)
	})
	return names, err
}

// createRecord creates the record before the function is called, if the lock is still held. Unknown means that the
// record is this call's.
func (w *jobExecution) createRecord(ctx context.Context, slot Slot) (outcome Outcome, _ error) {
	view := line.GrantOf(w.held.Share).Session.Client()
	err := line.RetryThrough(ctx, view, line.ReadOnlyMembers, func(ctx context.Context) error {
		for range 3 { // another client may delete the directory
			to := view.TransactionOp()
			_, err := view.Transaction(ctx, to.Check().AsGuard().ForPath(line.GrantOf(w.held.Share).Path),
				to.Create().Uncompressed().ForPath(w.recordPath(slot), w.recordData(begunPrefix)))
			var refused *framework.TransactionError
			switch {
			case !errors.As(err, &refused):
				return err
			case errors.Is(err, framework.ErrNotHeld):
				return fmt.Errorf("the lock: %w", framework.ErrNodeDeleted)
			case errors.Is(err, framework.ErrNodeExists): // ours, if a reply was lost
				outcome, err = w.readRecord(ctx, slot)
				return err
			case !errors.Is(err, framework.ErrNoNode):
				return err
			}
			_, err = view.Create().CreatingParentContainersIfNeeded().WithMode(framework.Container).Uncompressed().
				ForPath(ctx, w.slotsPath(), []byte{})
			if err = line.IgnoreError(err, framework.ErrNodeExists); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: another client deletes %s again and again", framework.ErrNoNode, w.slotsPath())
	})
	return outcome, err
}

// writePatience limits the wait of a call, after its context has ended, for the writes that it has begun.
const writePatience = time.Second

// recordSuccess records that the function has run, also if the lock was lost. The client continues in the background
// when ctx has ended.
func (w *jobExecution) recordSuccess(ctx context.Context, slot Slot) error {
	err := errors.New("a hook ended the goroutine")
	written := make(chan struct{})
	w.recordsInFlight.Add(1)
	w.client.Spawn(func(ctx context.Context) {
		defer w.recordsInFlight.Done()
		defer close(written)
		err = line.RetryThrough(ctx, w.client, line.RefusedCredentials, func(ctx context.Context) error {
			_, err := w.client.Create().CreatingParentContainersIfNeeded().OrSetData().Uncompressed().
				ForPath(ctx, w.recordPath(slot), w.recordData(donePrefix))
			return err
		})
		if err == nil {
			w.deleteOldRecords(ctx)
		}
	})
	if !awaitWrites(ctx, written) {
		return fmt.Errorf("%w yet: %w", ErrNotRecorded, w.client.WaitError(ctx, nil))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRecorded, err)
	}
	return nil
}

// awaitWrites waits until c is closed, or until writePatience has passed after the end of ctx.
func awaitWrites(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
	}
	patienceTimer := time.NewTimer(writePatience)
	defer patienceTimer.Stop()
	select {
	case <-c:
		return true
	case <-patienceTimer.C:
		return false
	}
}

// releaseLock releases the lock when the records are written. The client continues in the background when ctx has
// ended.
func (w *jobExecution) releaseLock(ctx context.Context) error {
	var refused error
	released := make(chan struct{})
	w.client.Spawn(func(ctx context.Context) {
		defer close(released)
		w.recordsInFlight.Wait()
		refused = line.ReleaseAfterWork(ctx, w.held.Release)
	})
	select {
	case <-released:
		return refused
	case <-ctx.Done():
		return nil
	}
}

// deleteOldRecords deletes the oldest records when there are a quarter more than keep. A failure does no harm: the
// next call tries again.
func (w *jobExecution) deleteOldRecords(ctx context.Context) {
	const most = 1000 // at a time
	names, err := w.client.GetChildren().ForPath(ctx, w.slotsPath())
	if err != nil || len(names) <= w.keep+w.keep/4 {
		return
	}
	type record struct {
		path  string
		czxid int64
	}
	statReads := make([]*framework.Pending[framework.ExistsResult], len(names))
	for i, name := range names {
		statReads[i] = w.client.CheckExists().InBackground().ForPath(ctx, zkpath.Join(w.slotsPath(), name))
	}
	var records []record
	for i, name := range names {
		found, err := line.AwaitResult(statReads[i])
		if err != nil {
			return
		}
		if found.Stat != nil {
			records = append(records, record{zkpath.Join(w.slotsPath(), name), found.Stat.Czxid})
		}
	}
	slices.SortFunc(records, func(a, b record) int { return cmp.Compare(a.czxid, b.czxid) })
	for _, old := range records[:min(most, max(len(records)-w.keep, 0))] {
		err := w.client.Delete().Quietly().ForPath(ctx, old.path)
		if line.IgnoreError(err, framework.ErrNotEmpty) != nil { // a child that has children is no record
			return
		}
	}
}
