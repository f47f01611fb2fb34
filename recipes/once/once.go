package once

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Errors of this package. Use errors.Is.
var (
	// ErrNotRecorded is returned if the function has run and returned nil, but this is not, or not yet, recorded:
	// with the default policy it may be run again for the slot.
	ErrNotRecorded = errors.New("the function has run, but that is not recorded")
	// ErrSelfWait is returned by a Do within the function of a Do for the same job.
	ErrSelfWait = line.ErrSelfWait
)

// Outcome is the state of a slot when Do returns.
type Outcome int8

const (
	// Unknown is returned with an error before the function was called.
	Unknown Outcome = iota
	// Ran means that this call has run the function; Do returns its error.
	Ran
	// Done means that the function had been run before, and had returned nil.
	Done
	// Begun means, with [AtMostOnce], that another call has begun, and is still running, has failed, or has died: the
	// slot is not run again.
	Begun
)

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	return [...]string{"unknown", "ran", "done", "begun"}[max(0, min(o, Begun))]
}

// Run describes one call of a function.
type Run struct {
	Slot Slot
	// FencingToken grows from run to run of the job, like a mutex's.
	FencingToken int64

	held *line.Share
}

// Remaining returns for how long it is certain that no other process runs the job, if no server answers from now on;
// 0 after the function has returned, or if the lock is lost. The function's context ends no later.
func (r Run) Remaining() time.Duration {
	if r.held == nil {
		return 0
	}
	return r.held.Remaining()
}

// Path returns the path of the node that holds the job's lock, "" for the zero value.
func (r Run) Path() string {
	if r.held == nil {
		return ""
	}
	return r.held.Path()
}

// Jobs are the jobs below a path, each with a name. Make one and share it. Safe for concurrent use.
type Jobs struct {
	client     *framework.Client
	path       string
	atMostOnce bool
	catchUp    int
	keep       int
	err        error // of the constructor
}

// New returns the jobs at path; nothing is sent. If an argument is not valid every Do returns an error.
func New(client *framework.Client, path string, opts ...Option) *Jobs {
	j := &Jobs{client: client, path: path, keep: 100}
	j.err = line.Configure(client, path, j, opts)
	return j
}

// Option configures [New]. If one is given several times the last counts.
type Option func(*Jobs) error

// AtMostOnce has a slot recorded before its function is called. Default: after it, at least once.
func AtMostOnce() Option { return func(j *Jobs) error { j.atMostOnce = true; return nil } }

// WithCatchUp has Do run the function first for the slots of time that were missed since the last recorded slot, the
// oldest first, but for no more than the last n of them. An error ends that, and the next Do continues. Default:
// missed slots are skipped.
func WithCatchUp(n int) Option {
	return func(j *Jobs) error {
		if n < 1 {
			return fmt.Errorf("%w WithCatchUp: %d slots", framework.ErrInvalidOption, n)
		}
		j.catchUp = n
		return nil
	}
}

// WithKeep sets how many records of a job are kept, the last written ones; a quarter more may exist. Default 100.
func WithKeep(n int) Option {
	return func(j *Jobs) error {
		if n < 1 || n > 10_000 {
			return fmt.Errorf("%w WithKeep: %d records; keep 1 to 10000", framework.ErrInvalidOption, n)
		}
		j.keep = n
		return nil
	}
}

// Do runs f for the slot of the named job, unless the slot has a record. If another process runs the job, for
// whatever slot, Do waits for its turn, through lost connections and sessions, until ctx ends; when the other has run
// the slot, Do returns [Done]. It runs f once, on the caller's goroutine; with [WithCatchUp] more often, for other
// slots. The context of f has the values and the deadline of ctx, and ends with ctx or the lock.
//
// The error is f's, joined with the cause of the lock's loss if it was lost before f returned, and with
// ErrNotRecorded if the record cannot be written. When ctx ends before the record is written, Do waits for a second
// for it; then the client continues in the background, and the error matches ErrNotRecorded and ctx's. Other errors
// come before f was called: ctx's; ErrSelfWait; ErrBadArguments for a name or slot that cannot be the name of a node;
// ErrNoAuth; ErrClosed; the errors of mutex.Acquire. If f panics, so does Do; the lock is released first.
func (j *Jobs) Do(
	ctx context.Context, name string, slot Slot, f func(ctx context.Context, run Run) error,
) (Outcome, error) {
	outcome, err := j.runJob(ctx, name, slot, f)
	return outcome, line.WrapError("once", zkpath.Join(j.path, name), "do "+slot.String(), err)
}

func (j *Jobs) runJob(
	ctx context.Context, name string, slot Slot, f func(context.Context, Run) error,
) (Outcome, error) {
	err := line.CheckCall(ctx, j.client, j.err)
	if err == nil {
		err = errors.Join(checkName("name", name), slot.validate())
	}
	if err == nil && f == nil {
		err = fmt.Errorf("%w: Do without a function", framework.ErrBadArguments)
	}
	if err != nil {
		return Unknown, err
	}
	w := &jobExecution{Jobs: j, dir: zkpath.Join(j.path, name), function: f, guid: zkpath.NewGUID()}
	outcome, err := w.readRecord(ctx, slot) // most callers find a record, for one request
	if err != nil || outcome != Unknown {
		return outcome, err
	}
	l := line.Line{Client: j.client, Recipe: "once", Dir: zkpath.Join(w.dir, "lock"), Name: lockName,
		Order: line.Order{Names: []string{lockName}}, Loss: framework.SessionOnly}
	for {
		held, err := l.AcquireShare(ctx, l.Acquire)
		if err != nil {
			return Unknown, err
		}
		outcome, err = w.runUnderLock(ctx, line.HeldShare{Share: held}, slot)
		if outcome != Unknown || !line.IsPlaceLost(err) || ctx.Err() != nil || j.client.Err() != nil {
			return outcome, err
		}
	}
}

// lockName begins the names of a mutex's nodes.
const lockName = "lock-"

// runUnderLock runs the slots under the lock, and releases it.
func (w *jobExecution) runUnderLock(ctx context.Context, held line.HeldShare, slot Slot) (outcome Outcome, err error) {
	w.held = held
	defer func() { // also when f panics
		if refused := w.releaseLock(ctx); refused != nil {
			err = errors.Join(err, refused)
		}
	}()
	if outcome, err = w.readRecord(ctx, slot); err != nil || outcome != Unknown {
		return outcome, err
	}
	slots := []Slot{slot}
	if w.catchUp > 0 {
		names, err := w.listRecords(ctx)
		if err != nil {
			return Unknown, err
		}
		slots = append(slot.missedBefore(names, w.catchUp), slot)
	}
	for _, s := range slots {
		if outcome, err = w.runSlot(ctx, s); err != nil {
			return outcome, err
		}
	}
	return outcome, nil
}

// runSlot calls the function for a slot that has no record.
func (w *jobExecution) runSlot(ctx context.Context, slot Slot) (Outcome, error) {
	if w.atMostOnce {
		if outcome, err := w.createRecord(ctx, slot); err != nil || outcome != Unknown {
			return outcome, err
		}
	}
	if lost := w.held.Lost(); lost != nil {
		return Unknown, lost
	}
	work, stop := line.WorkContext(ctx, w.held.Context())
	defer stop(nil)
	err := w.function(work, Run{slot, line.GrantOf(w.held.Share).Czxid, w.held.Share})
	lost := w.held.Lost()
	if lost != nil {
		lost = fmt.Errorf("the lock was lost before the function returned: %w", lost)
	}
	if err == nil {
		err = w.recordSuccess(ctx, slot)
	}
	return Ran, errors.Join(err, lost)
}

// decodeOutcome returns the outcome that a record contains.
func decodeOutcome(data []byte) Outcome {
	if strings.HasPrefix(string(data), begunPrefix) {
		return Begun
	}
	return Done
}
