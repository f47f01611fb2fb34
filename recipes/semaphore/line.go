package semaphore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
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
			s.client.Logger().Info("rejoining the queue at the end, to let a client pass that already "+
				"holds leases",
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
				return nil, fmt.Errorf("%w; first in the queue: %v", err, short)
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

// Curator for Java takes several leases one by one, and goes to the end of the line for each. So it waits in
// line with a part of what it wants, and the first in line may wait for that very part: for ever, if nobody
// gives way. Ours can, since it has nothing while it waits: it goes to the end of the line.
//
// It does so only after nothing has changed for a while, and each time the while is longer. A Java process in
// which one thread works under a lease and another one waits looks the same from outside: it does not keep
// ours from its turn for ever.

// errStepBack says that the first in line gives way.
var errStepBack = errors.New("giving way to a client in the queue that already holds leases")

// errLineGone says that somebody has deleted the line's directory, and so the place of the first.
var errLineGone = fmt.Errorf("while waiting in the queue: %w", framework.ErrNodeDeleted)

const (
	// firstPatience is how long nothing must have changed before the first in line gives way for the first time.
	firstPatience = 200 * time.Millisecond
	// lastPatience is where that stops growing: Java threads that hold a part may have to wait for that long
	// each time, and those that work for longer without a change may pass again and again.
	lastPatience = 30 * time.Second
)

// patience is how long the first in line waits before it looks whether it has to give way.
type patience time.Duration

func (p patience) wait() time.Duration { return queue.Jittered(time.Duration(p)) }

func (p patience) longer() patience { return min(2*p, patience(lastPatience)) }

// mayBlock says whether parts can possibly keep a caller from n leases: some are free, but not enough. Where
// none is free those that hold parts cannot go on either, and giving way would not help. A caller that wants
// one lease never gives way.
func (s snapshot) mayBlock(n int) bool {
	free := s.max - s.taken()
	return free > 0 && n > free
}

// blocked says whether there cannot be n free leases before somebody in line is done, even if everybody else
// returned all leases. parts is how many are held by those in line.
func (s snapshot) blocked(n, parts int) bool { return parts > 0 && s.mayBlock(n) && n > s.max-parts }

// takesParts says whether a contender may hold leases while it waits in line: all but ours.
func takesParts(place string) bool { return !zkpath.IsOurs(place) }

// partsInLine counts the leases of those sessions that also stand in line in Curator's way. When there are
// none it costs one list, else also a read for each of them and for each lease, in one flight.
func (s *Semaphore) partsInLine(
	ctx context.Context, view *framework.Client, seen snapshot,
) (parts int, err error) {
	exists := view.CheckExists().InBackground()
	list, err := view.GetChildren().ForPath(ctx, s.line.Dir)
	if err != nil {
		return 0, err
	}
	var suspects, leases []*framework.Pending[framework.ExistsResult]
	for _, name := range s.line.Order.Contenders(list) {
		if takesParts(name) {
			suspects = append(suspects, exists.ForPath(ctx, zkpath.Join(s.line.Dir, name)))
		}
	}
	if len(suspects) == 0 {
		return 0, nil
	}
	for _, name := range seen.children {
		if isLease(name) {
			leases = append(leases, exists.ForPath(ctx, zkpath.Join(s.leases.Dir, name)))
		}
	}
	inLine := owners(suspects)
	for owner, n := range owners(leases) {
		if inLine[owner] > 0 {
			parts += n
		}
	}
	return parts, nil
}

// owners counts nodes by their sessions. What is gone, or cannot be read, belongs to nobody.
func owners(nodes []*framework.Pending[framework.ExistsResult]) map[int64]int {
	all := map[int64]int{}
	for _, n := range nodes {
		if node, err := queue.Result(n); err == nil && node.Stat != nil && node.Stat.EphemeralOwner != 0 {
			all[node.Stat.EphemeralOwner]++
		}
	}
	return all
}

// giveWay returns errStepBack if the first in line has to.
func (s *Semaphore) giveWay(ctx context.Context, place *queue.Grant, seen snapshot, n int) error {
	parts, err := s.partsInLine(ctx, place.Session.Client(), seen)
	switch {
	case errors.Is(err, framework.ErrNoNode):
		return errLineGone
	case err != nil && ctx.Err() == nil && framework.Retryable(err):
		return nil // the next look waits for the connection
	case err != nil:
		return err
	case seen.blocked(n, parts):
		return errStepBack
	}
	return nil
}
