package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// acquireInLine takes n leases by way of the line: it waits until it is the first, waits until n leases are free, and takes
// all of them together. If the session or a node is lost first, or if it has to step back, it rejoins at the end of
// the line.
func (s *Semaphore) acquireInLine(ctx context.Context, n int) (*Lease, error) {
	patience := stepBackPatience(firstPatience)
	for attempts := line.Attempts(0); ; {
		began := time.Now()
		lease, err := s.waitInLine(ctx, n, patience)
		if err == nil {
			return lease, nil
		}
		if errors.Is(err, errStepBack) {
			s.client.Logger().Info("rejoining the line at the end: a client behind already holds leases",
				"path", s.path, "wanted", n)
			patience = patience.doubledPatience()
			attempts++
			continue
		}
		if err := attempts.AwaitNextAttempt(ctx, s.client, s.path, time.Since(began), true, err); err != nil {
			return nil, err
		}
	}
}

// waitInLine is one attempt. If it is the first in the line and nothing has changed for the time of patience, it
// checks whether it has to step back (errStepBack).
func (s *Semaphore) waitInLine(ctx context.Context, n int, patience stepBackPatience) (*Lease, error) {
	var seen leaseSnapshot // the last snapshot
	defer func() { seen.stopWatches() }()
	look := func(ctx context.Context, session *framework.Session) (err error) {
		// The new watches are set before the old ones are stopped, so that watches that have not fired stay
		// on the server.
		old := seen
		seen, err = s.snapshotThroughOutages(ctx, session.Client(), true)
		old.stopWatches()
		return err
	}
	var looked *framework.Session // of the last snapshot; nil if that is outdated
	var moved *movedLease
	defer func() { // if OnWait or a hook panics
		if moved != nil {
			moved.delete()
		}
	}()
	succeed := func(
		ctx context.Context, session *framework.Session, at line.Position, dir line.Directory,
	) (_ line.Succession, err error) {
		if s.movesFromLine(n) {
			switch moved, err = s.moveUnseen(ctx, session, linePlace{at.Node, dir}); {
			case err != nil:
				return line.Unproven, err
			case moved != nil:
				return line.LeftLine, nil
			}
		}
		if look(ctx, session) != nil {
			return line.Unproven, nil
		}
		looked = session
		if seen.hasLeaseOf(at.Predecessor) || s.isLineServed(at.Predecessor, seen) {
			return line.WasFirst, nil
		}
		return line.Unproven, nil
	}
	place, err := s.line.AcquireWith(ctx, succeed)
	if err != nil {
		return nil, err
	}
	if lease := moved; lease != nil {
		moved = nil
		s.crowded.Store(true)
		return s.settleMove(ctx, lease)
	}
	left := false
	defer func() { // also when OnWait or a hook panics
		if !left {
			place.ReleaseNoWait()
		}
	}()
	waited, read := place.Waited, map[string]bool{}
	for quiet := (quietPeriod{}); ; looked = nil {
		before := seen
		if looked != place.Session {
			if err := look(ctx, place.Session); err != nil {
				return nil, err
			}
		}
		unchanged := seen.hasSameLeases(before) && quiet.length > 0
		if !unchanged {
			quiet.restart(patience.jitteredWait())
		}
		if short := seen.checkRoom(n); short != nil {
			waited = true
			if unchanged {
				s.checkOldestLease(ctx, place.Session.Client().ForRecipes(), seen, read)
			}
			released, err := s.waitAsFirst(ctx, place, seen, n, &quiet)
			if err != nil && ctx.Err() != nil {
				return nil, fmt.Errorf("%w; first in line: %v", err, short)
			}
			if err != nil {
				return nil, err
			}
			if !released || !seen.lacksOneLease(n) || !s.canMoveFromLine(seen, n) {
				continue
			}
		}
		s.crowded.Store(waited)
		if s.canMoveFromLine(seen, n) {
			var lease *Lease
			lease, left, err = s.moveFromLine(ctx, place, seen)
			return lease, err
		}
		lease, err := s.createLeases(ctx, place.Session, n, false)
		if !errors.Is(err, ErrNotAcquired) {
			return lease, err
		}
		// A caller that had looked before this one joined the line was faster.
	}
}

// checkOldestLease reads the oldest lease that is not in read yet, and adds it there. If it belongs to no session, which
// the list does not show, this is logged, once. The first in the line calls it about once in a session timeout while
// nothing changes: as the others are released, a lease without a session becomes the oldest.
func (s *Semaphore) checkOldestLease(ctx context.Context, view *framework.Client, seen leaseSnapshot, read map[string]bool) {
	oldest, least := "", int64(math.MaxInt64)
	for _, name := range seen.children {
		if n, _ := leaseNumber(name); isLease(name) && !read[name] && n < least {
			oldest, least = name, n
		}
	}
	if oldest == "" {
		return
	}
	read[oldest] = true
	path := zkpath.Join(s.leases.Dir, oldest)
	view.CheckExists().InBackground().ForPath(ctx, path).Then(func(node framework.ExistsResult, err error) {
		if err != nil || node.Stat == nil || node.Stat.EphemeralOwner != 0 {
			return
		}
		if czxid := node.Stat.Czxid; s.warnedSessionless.Swap(czxid) != czxid {
			s.client.Logger().Warn("a lease is not an ephemeral node: it is held until it is deleted", "path", path)
		}
	})
}

// waitAsFirst is awaitChange for the first in the line, reported to OnWait and the hooks.
func (s *Semaphore) waitAsFirst(
	ctx context.Context, place *line.Grant, seen leaseSnapshot, n int, quiet *quietPeriod,
) (released bool, err error) {
	if s.line.OnWait != nil {
		s.line.OnWait(Position{Node: place.Name})
	}
	at := framework.Queue{Recipe: s.leases.Recipe, Path: s.path, Node: place.Name}
	waited := s.client.Hooks().Wait(ctx, at)
	released, err = s.awaitChange(ctx, place, seen, n, quiet)
	waited(err)
	return released, err
}

// quietPeriod is a period during which every look shows the same snapshot.
type quietPeriod struct {
	length time.Duration
	ends   time.Time
}

func (q *quietPeriod) restart(length time.Duration) {
	q.length, q.ends = length, time.Now().Add(length)
}

// awaitChange waits for a change since seen, and checks, less and less often, whether the caller has to step back.
// released reports whether the leases have changed, which may be a release.
func (s *Semaphore) awaitChange(
	ctx context.Context, place *line.Grant, seen leaseSnapshot, n int, quiet *quietPeriod,
) (released bool, err error) {
	for {
		var until *time.Time
		if seen.mayDeadlock(n) {
			until = &quiet.ends
		}
		what, err := s.awaitEvent(ctx, place.Session, place.Hold.Context(), seen, until)
		if err != nil || what != timePassed {
			return what == leasesChanged, err
		}
		if err := s.checkStepBack(ctx, place, seen, n); err != nil {
			return false, err
		}
		quiet.restart(min(2*quiet.length, lastPatience)) // a Java client with leases may join at any time
	}
}

// changeKind is the reason for the end of a wait.
type changeKind int8

const (
	timePassed    changeKind = iota // its time has passed
	leasesChanged                   // a lease was created or deleted
	otherChange                     // anything else, possibly nothing: take another snapshot
)

// awaitEvent waits for a reason to take another snapshot. It returns timePassed at the time until, if that is not nil, and
// an error when over or ctx ends.
func (s *Semaphore) awaitEvent(
	ctx context.Context, session *framework.Session, over context.Context, seen leaseSnapshot, until *time.Time,
) (changeKind, error) {
	// Events can get lost: a server sends none for a node that the client has no permission to read. So a waiter
	// looks about once in a session timeout.
	check := time.NewTimer(line.Jittered(session.Timeout()))
	defer check.Stop()
	var limit <-chan time.Time
	if until != nil {
		timer := time.NewTimer(time.Until(*until))
		defer timer.Stop()
		limit = timer.C
	}
	var event framework.Event
	select {
	case event = <-line.WatchEvents(seen.watches[0]):
	case event = <-line.WatchEvents(seen.watches[1]):
	case <-limit:
		return timePassed, nil
	case <-check.C:
	case <-over.Done():
		return otherChange, context.Cause(over)
	case <-ctx.Done():
		return otherChange, s.client.WaitError(ctx, nil)
	}
	switch event.Type {
	case framework.EventEnd:
		return otherChange, event.Err
	case framework.EventNodeChildrenChanged:
		return leasesChanged, nil
	}
	return otherChange, nil
}

// Curator for Java takes several leases one by one, and joins the line for each of them. So this deadlock is
// possible:
//  1. A Java client holds a part of the leases that it wants, and waits in the line for the rest.
//  2. The first in the line waits for that very part.
//
// One of them has to step back. A client of this library can do so, since it has no lease while it waits. To step
// back is to go to the end of the line.
//
// It steps back only after nothing has changed for a while, and each time this while is longer. The reason: a Java
// process with one thread that works under a lease and another thread that waits looks the same from outside, and
// must not keep the first in the line from its turn for ever.

// errStepBack is the error if the first in the line has to step back.
var errStepBack = errors.New("giving way to a client in line that already holds leases")

// errLineDeleted is the error if another client has deleted the line's parent node, and with it the node of the first.
var errLineDeleted = fmt.Errorf("while waiting in line: %w", framework.ErrNodeDeleted)

const (
	// firstPatience is the time without a change after which the first in the line steps back for the first time.
	firstPatience = 200 * time.Millisecond
	// lastPatience is the longest such time. Java clients that have a part of their leases may have to wait
	// that long each time. Java clients that work for longer under their leases can pass the first in the
	// line again and again.
	lastPatience = 30 * time.Second
)

// stepBackPatience is the time without a change after which the first in the line checks whether to step back.
type stepBackPatience time.Duration

func (p stepBackPatience) jitteredWait() time.Duration { return line.Jittered(time.Duration(p)) }

func (p stepBackPatience) doubledPatience() stepBackPatience {
	return min(2*p, stepBackPatience(lastPatience))
}

// mayDeadlock reports whether a caller that wants n leases can be in a deadlock that stepping back resolves: some leases
// are free, but fewer than n. If none is free, a Java client with a part of its leases cannot continue either. A
// caller that wants one lease never steps back.
func (s leaseSnapshot) mayDeadlock(n int) bool {
	free := s.max - s.countTaken()
	return free > 0 && n > free
}

// isDeadlocked reports whether n leases cannot be free before a waiter in the line has finished, even if all other
// clients released all leases. parts is the number of leases that waiters in the line have.
func (s leaseSnapshot) isDeadlocked(n, parts int) bool {
	return parts > 0 && s.mayDeadlock(n) && n > s.max-parts
}

// mayHoldParts reports whether the waiter with this node may have leases while it waits: true unless the node was made
// by this library.
func mayHoldParts(place string) bool { return !zkpath.IsOurs(place) }

// countPartsInLine counts the leases of sessions that also have a node in the line, made by a client other than this
// library. It costs one list; if there are such nodes, also one read for each of them and for each lease, all in
// flight together.
func (s *Semaphore) countPartsInLine(
	ctx context.Context, view *framework.Client, seen leaseSnapshot,
) (parts int, err error) {
	exists := view.CheckExists().InBackground()
	list, err := view.GetChildren().ForPath(ctx, s.line.Dir)
	if err != nil {
		return 0, err
	}
	var suspects, leases []*framework.Pending[framework.ExistsResult]
	for _, name := range s.line.Order.Contenders(list) {
		if mayHoldParts(name) {
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
	inLine := countByOwner(suspects)
	for owner, n := range countByOwner(leases) {
		if inLine[owner] > 0 {
			parts += n
		}
	}
	return parts, nil
}

// countByOwner counts nodes by their sessions. It leaves out nodes that are gone or cannot be read.
func countByOwner(nodes []*framework.Pending[framework.ExistsResult]) map[int64]int {
	all := map[int64]int{}
	for _, n := range nodes {
		if node, err := line.AwaitResult(n); err == nil && node.Stat != nil && node.Stat.EphemeralOwner != 0 {
			all[node.Stat.EphemeralOwner]++
		}
	}
	return all
}

// checkStepBack returns errStepBack if the caller, the first in the line, must rejoin at the end: a client behind it
// already holds leases without which the caller cannot get n.
func (s *Semaphore) checkStepBack(ctx context.Context, place *line.Grant, seen leaseSnapshot, n int) error {
	parts, err := s.countPartsInLine(ctx, place.Session.Client(), seen)
	switch {
	case errors.Is(err, framework.ErrNoNode):
		return errLineDeleted
	case err != nil && ctx.Err() == nil && framework.Retryable(err):
		return nil // the next look waits for the connection
	case err != nil:
		return err
	case seen.isDeadlocked(n, parts):
		return errStepBack
	}
	return nil
}
