package semaphore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// inLine takes n leases by way of the line: the first in line waits until there are enough, and takes all of
// them at once. When the session or a node is lost meanwhile, or when it has to give way, it begins again at
// the end of the line.
func (s *Semaphore) inLine(ctx context.Context, n int) (*Lease, error) {
	patience := patience(firstPatience)
	for attempts := queue.Attempts(0); ; {
		began := time.Now()
		lease, err := s.waitInLine(ctx, n, patience)
		if err == nil {
			return lease, nil
		}
		if errors.Is(err, errStepBack) {
			s.client.Logger().Info("giving way to somebody in line that holds leases already",
				"path", s.path, "wanted", n)
			patience = patience.longer()
			attempts++
			continue
		}
		if err := attempts.Again(ctx, s.client, s.path, time.Since(began), err); err != nil {
			return nil, err
		}
	}
}

// waitInLine is one attempt. As the first in line it looks whether it has to give way (errStepBack) after
// nothing has changed for the time of patience.
func (s *Semaphore) waitInLine(ctx context.Context, n int, patience patience) (*Lease, error) {
	place, err := s.line.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer place.Abandon() // also when OnWait or a hook panics
	view := place.Session.Client()
	var armed snapshot
	var quiet quietTime
	defer func() { armed.stop() }()
	for {
		// The new watches are set before the old ones are stopped, so that those that have not fired stay on the
		// server. When there is room at once the watch on the directory costs nothing: the nodes made there use it
		// up.
		seen, err := s.lookThroughOutages(ctx, view, true)
		armed.stop()
		if !seen.same(armed) || quiet.length == 0 {
			quiet.begin(patience.wait())
		}
		armed = seen
		if err != nil {
			return nil, err
		}
		short := seen.room(n)
		if short == nil {
			lease, err := s.take(ctx, place.Session, n)
			if !errors.Is(err, ErrNotAcquired) {
				return lease, err
			}
			continue // somebody had looked before this one came into line, and was faster
		}
		if s.line.OnWait != nil {
			s.line.OnWait(Position{Node: place.Name})
		}
		waited := s.client.Hooks().Wait(ctx, framework.Queue{Recipe: s.leases.Recipe, Path: s.path, Node: place.Name})
		err = s.await(ctx, place, seen, n, &quiet)
		waited(err)
		if err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%w; first in line, %v", err, short)
			}
			return nil, err
		}
	}
}

// quietTime is a time in which what is seen stays the same, however often it is looked at.
type quietTime struct {
	length time.Duration
	ends   time.Time
}

func (q *quietTime) begin(length time.Duration) { q.length, q.ends = length, time.Now().Add(length) }

// await waits for a change of what was seen, and looks, less and less often, whether it has to give way.
func (s *Semaphore) await(
	ctx context.Context, place *queue.Grant, seen snapshot, n int, quiet *quietTime,
) error {
	for {
		unchanged, err := s.change(ctx, place, seen, seen.mayBlock(n), quiet.ends)
		if err != nil || !unchanged {
			return err
		}
		if err := s.giveWay(ctx, place, seen, n); err != nil {
			return err
		}
		quiet.begin(min(2*quiet.length, lastPatience)) // somebody with a part may come into line at any time
	}
}

// change waits for a reason to look again. unchanged says that there was none until then, if limited.
func (s *Semaphore) change(
	ctx context.Context, place *queue.Grant, seen snapshot, limited bool, until time.Time,
) (unchanged bool, err error) {
	// Events can get lost, since servers drop those of nodes that the client may not read. It costs the first in
	// line one look per session timeout to be safe from that.
	check := time.NewTimer(queue.Jittered(place.Session.Timeout()))
	defer check.Stop()
	var limit <-chan time.Time
	if limited {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		limit = timer.C
	}
	var event framework.Event
	select {
	case event = <-queue.Events(seen.watches[0]):
	case event = <-queue.Events(seen.watches[1]):
	case <-limit:
		return true, nil
	case <-check.C:
	case <-place.Hold.Context().Done():
		return false, context.Cause(place.Hold.Context())
	case <-ctx.Done():
		return false, s.client.Left(ctx, nil)
	}
	if event.Type == framework.EventEnd {
		return false, event.Err
	}
	return false, nil
}
