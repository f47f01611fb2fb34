package semaphore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// inLine takes n leases by way of the line: whoever holds its lock is the first, waits until there are enough, and takes all of them at once. When
// the session, or a node, is lost meanwhile, it begins again at the end of the line; also when it has to give way.
func (s *Semaphore) inLine(ctx context.Context, n int) (*Lease, error) {
	patience := patience(firstPatience)
	for stays := (queue.Stays{}); ; {
		stays.Begin()
		lease, err := s.stay(ctx, n, patience)
		if err == nil {
			return lease, nil
		}
		if errors.Is(err, errStepBack) {
			s.client.Logger().Info("giving way to somebody in line who holds leases already", "path", s.path, "wanted", n)
			patience = patience.longer()
			continue
		}
		if err := stays.Again(ctx, s.client, s.path, err); err != nil {
			return nil, err
		}
	}
}

// stay is one stay in line.
func (s *Semaphore) stay(ctx context.Context, n int, patience patience) (*Lease, error) {
	place, err := s.line.Acquire(ctx, ctx)
	if err != nil {
		return nil, err
	}
	defer place.Leave() // also when OnWait or a hook panics
	return s.first(ctx, place, n, patience)
}

// first is what the first in line does. With patience it waits, while nothing changes, before it looks whether it has to give way: errStepBack.
func (s *Semaphore) first(ctx context.Context, place *queue.Grant, n int, patience patience) (*Lease, error) {
	view := place.Session.Client()
	var armed sight
	var calm calm
	defer func() { armed.stop() }()
	for {
		// The new watches before the old ones are stopped: so those that have not fired stay where they are. When there is room at once the
		// watch on the directory costs nothing, since the nodes made there use it up.
		seen, err := s.lookPatiently(ctx, view, true)
		armed.stop()
		if !seen.same(armed) || calm.quiet == 0 {
			calm.begin(patience.wait())
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
			continue // somebody had looked before we came into line, and was faster
		}
		if s.line.OnWait != nil {
			s.line.OnWait(Position{Node: place.Name})
		}
		waited := s.client.Hooks().Wait(ctx, framework.Queue{Recipe: s.recipe(), Path: s.path, Node: place.Name})
		err = s.await(ctx, place, seen, n, &calm)
		waited(err)
		if err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%w; first in line, %v", err, short)
			}
			return nil, err
		}
	}
}

// calm is a time in which what is seen stays the same, however often it is looked at.
type calm struct {
	quiet time.Duration
	ends  time.Time // begin + quiet
}

func (c *calm) begin(quiet time.Duration) { c.quiet, c.ends = quiet, time.Now().Add(quiet) }

// await waits for a change of what was seen, and looks, less and less often, whether it has to give way.
func (s *Semaphore) await(ctx context.Context, place *queue.Grant, seen sight, n int, calm *calm) error {
	for {
		if unchanged, err := s.change(ctx, place, seen, seen.mayBlock(n), calm.ends); err != nil || !unchanged {
			return err
		}
		if err := s.giveWay(ctx, place, seen, n); err != nil {
			return err
		}
		calm.begin(min(2*calm.quiet, lastPatience)) // somebody with a part may come to stand in line at any time
	}
}

// change waits for something that makes it worth to look again. unchanged says that there was nothing until then, if that is to be waited for.
func (s *Semaphore) change(ctx context.Context, place *queue.Grant, seen sight, limited bool, until time.Time) (unchanged bool, err error) {
	// Watches get lost for reasons that are nobody's fault here: a server that drops events for want of rights, a bug. It costs the first
	// in line one look per session timeout to be safe from them.
	check := time.NewTimer(queue.Jittered(place.Session.Timeout()))
	defer check.Stop()
	var still <-chan time.Time
	if limited {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		still = timer.C
	}
	var event framework.Event
	select {
	case event = <-queue.Events(seen.watches[0]):
	case event = <-queue.Events(seen.watches[1]):
	case <-still:
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
