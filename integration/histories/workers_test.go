package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
)

// worker is one client with its operations.
type worker struct {
	t      *testing.T
	who    int
	client *framework.Client
}

// fine reports whether there is no error. Only errors of a broken connection, a lost session, or the caller's own
// context are allowed.
func (w worker) fine(ctx context.Context, err error) bool {
	if err == nil {
		return true
	}
	for _, expected := range []error{framework.ErrConnectionLoss, framework.ErrNotConnected,
		framework.ErrSessionLost, framework.ErrSuspended,
		framework.ErrSessionMoved, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, expected) {
			pause(ctx, 10*time.Millisecond)
			return false
		}
	}
	assert.NoError(w.t, err)
	return false
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// holding is a lock or a term.
type holding interface {
	Valid() bool
	Remaining() time.Duration
}

// worry is the remaining time below which replies of the servers are overdue: about half of the session timeout less
// the bound.
const worry = 1500 * time.Millisecond

// keep records an acquisition between called and now, and keeps the hold for a while, with a call of during in the
// middle; then it releases it, and records that.
func (w worker) keep(
	ctx context.Context, h *history, called, token int64, what holding, during func(), release func() error,
) {
	granted := h.clock.now()
	if !what.Valid() {
		w.fine(ctx, release())
		return // no client can say that it was ever held
	}
	h.add(w.who, called, tenure{begins: true, who: w.who, token: token}, nil, granted)
	last := granted
	while := rand.N(60 * time.Millisecond)
	long := rand.N(20) == 0
	if long {
		while = rand.N(3 * time.Second)
		h.prey.Store(int32(w.who))
	}
	end := time.Now().Add(while)
	// A long holder does not release while the servers are silent: it waits for their next reply, or for the loss.
	for first := true; time.Now().Before(end) || long && what.Remaining() < worry; first = false {
		now := h.clock.now()
		if !what.Valid() {
			break
		}
		last = now
		if first {
			during()
		}
		pause(ctx, 3*time.Millisecond)
	}
	if long {
		h.prey.Store(nobody)
	}
	now := h.clock.now()
	lost := !what.Valid()
	if !lost {
		last = now
	}
	w.fine(ctx, release())
	h.add(w.who, last, tenure{who: w.who, token: token, lost: lost}, nil, h.clock.now())
}

// write writes a token under a guard.
func (w worker) write(
	ctx context.Context, h *history, path string, token int64, guard framework.TransactionOp,
) {
	called := h.clock.now()
	_, err := w.client.Transaction(ctx, guard, w.client.TransactionOp().SetData().ForPath(path,
		[]byte(strconv.FormatInt(token, 16))))
	switch {
	case err == nil:
		h.add(w.who, called, guarded{token, done}, nil, h.clock.now())
	case errors.Is(err, framework.ErrOutcomeUnknown):
		h.add(w.who, called, guarded{token, unknown}, nil, never)
	case errors.Is(err, framework.ErrNotHeld):
	default:
		w.fine(ctx, err)
	}
}

func (w worker) lock(ctx context.Context, h, writes *history, path, fence string) {
	policy := []framework.LossPolicy{framework.SessionOnly, framework.SuspendedIsLoss}[w.who%2]
	m := mutex.New(w.client, path, mutex.WithLossPolicy(policy))
	for ctx.Err() == nil {
		called := h.clock.now()
		lock, err := m.Acquire(ctx)
		if !w.fine(ctx, err) {
			continue
		}
		w.keep(ctx, h, called, lock.FencingToken(), lock,
			func() { w.write(ctx, writes, fence, lock.FencingToken(), lock.Guard()) },
			func() error { return lock.Release(context.WithoutCancel(ctx)) })
		pause(ctx, rand.N(20*time.Millisecond))
	}
}

func (w worker) lead(ctx context.Context, h, writes *history, path, fence string) {
	opts := []leader.Option{leader.WithID(fmt.Sprint(w.who))}
	if w.who%2 == 0 {
		opts = append(opts, leader.WithLossPolicy(framework.SessionOnly))
	}
	latch, err := leader.NewLatch(w.client, path, opts...)
	if !assert.NoError(w.t, err) {
		return
	}
	defer latch.Close()
	for ctx.Err() == nil {
		called := h.clock.now()
		term, err := latch.Await(ctx)
		if !w.fine(ctx, err) {
			continue
		}
		w.keep(ctx, h, called, term.FencingToken(), term,
			func() { w.write(ctx, writes, fence, term.FencingToken(), term.Guard()) },
			func() error { return term.Resign(context.WithoutCancel(ctx)) })
		pause(ctx, rand.N(20*time.Millisecond))
	}
}

// count increments a counter all the time, and sometimes reads it and has the ensemble confirm that the value was the
// latest. Some calls have little time, so that they end in the middle.
func (w worker) count(ctx context.Context, h *history, path string) {
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, time.Millisecond+rand.N(2*time.Second))
		w.step(short, h, path, rand.N(4) == 0, true)
		cancel()
		pause(ctx, rand.N(40*time.Millisecond))
	}
}

// step does one of them. Without compare it ignores writes since its read, which is wrong.
func (w worker) step(ctx context.Context, h *history, path string, confirms, compare bool) {
	read := w.read(ctx, h, path)
	if read == nil {
		return
	}
	if confirms {
		w.confirm(ctx, h, path, *read)
		return
	}
	w.increment(ctx, h, path, *read, compare)
}

// counted is a read of a counter, and when it began.
type counted struct {
	called         int64
	version, value int
}

func (w worker) read(ctx context.Context, h *history, path string) *counted {
	called := h.clock.now()
	var stat framework.Stat
	data, err := w.client.GetData().StoringStatIn(&stat).ForPath(ctx, path)
	if !w.fine(ctx, err) {
		return nil
	}
	value, err := strconv.Atoi(string(data))
	assert.NoError(w.t, err)
	return &counted{called, int(stat.Version), value}
}

func (w worker) confirm(ctx context.Context, h *history, path string, read counted) {
	op := step{confirms: true, version: read.version, value: read.value}
	_, err := w.client.Transaction(ctx, w.client.TransactionOp().Check().WithVersion(int32(read.version)).
		ForPath(path))
	switch {
	case errors.Is(err, framework.ErrBadVersion):
		op.outcome = refused
	case err != nil:
		w.fine(ctx, err)
		return
	}
	h.add(w.who, read.called, op, nil, h.clock.now())
}

func (w worker) increment(ctx context.Context, h *history, path string, read counted, compare bool) {
	op := step{version: read.version, value: read.value, written: read.value + 1}
	set := w.client.SetData()
	if compare {
		set = set.WithVersion(int32(read.version))
	}
	stat, err := set.ForPath(ctx, path, []byte(strconv.Itoa(op.written)))
	back := h.clock.now()
	op.became = int(stat.Version)
	switch {
	case err == nil:
	case errors.Is(err, framework.ErrBadVersion):
		op.outcome = refused
	case errors.Is(err, framework.ErrOutcomeUnknown):
		op.outcome, back = unknown, never
	default:
		w.fine(ctx, err)
		return // it had no effect
	}
	h.add(w.who, read.called, op, nil, back)
}
