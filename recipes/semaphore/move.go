package semaphore

import (
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// The first in the line that wants one lease takes it and leaves the line in one transaction, whose reply contains
// the number of children of "leases" (ADR 0005). If these are at most the limit, the caller has the lease: that is
// Curator's own rule, at the moment of the commit. If they are more, lists decide, by the rule of [leaseSnapshot.judgeNodes].
// The caller is not in the line any more, so until the lease is within the limit it waits with the node, as the
// first waiter of Curator for Java does. No caller passes it: all later nodes have larger numbers.

// canMoveFromLine reports whether a caller that wants n leases can take them with one transaction. For several it cannot: it
// might have to wait with nodes that a Java client in the line waits for. With a shared count the limit may change
// before the commit.
func (s *Semaphore) canMoveFromLine(seen leaseSnapshot, n int) bool {
	return n == 1 && s.count == nil && seen.dir.Czxid != 0 && seen.dir.DataLength == 0 && !s.cannotMove.Load()
}

// moveFromLine takes one lease and leaves the line, in one transaction. If the server refuses that, it creates the lease
// alone. left reports whether the node in the line is gone; otherwise the caller has to release the place.
func (s *Semaphore) moveFromLine(
	ctx context.Context, place *line.Grant, seen leaseSnapshot,
) (lease *Lease, left bool, err error) {
	place.Hold.End(framework.ErrReleased) // first, since the deletion would end it as a loss
	view := place.Session.Client().ForRecipes()
	var stat framework.Stat
	path, err := view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		InPlaceOf(place.Path, &seen.dir).StoringStatIn(&stat).
		ForPath(ctx, zkpath.Join(s.leases.Dir, leaseName), s.leases.Data)
	switch {
	case err == nil:
	case ctx.Err() == nil && errors.Is(err, framework.ErrNodeDeleted): // otherwise it may be the cause of ctx's end
		return nil, true, errLineDeleted
	case errors.Is(err, framework.ErrNoAuth):
		s.cannotMove.Store(true)
		fallthrough
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, framework.ErrBadVersion):
		lease, err = s.createLeases(ctx, place.Session, 1, true)
		return lease, false, err
	default:
		return nil, false, err
	}
	node := &line.Grant{Session: place.Session, Path: path, Name: zkpath.Base(path), Czxid: stat.Czxid}
	defer func() { // also when a hook panics
		if lease == nil && !errors.Is(err, errLeaseDeleted) { // otherwise another client's node may have its name
			line.QueueDelete(view, path)
		}
	}()
	s.recordMove(place.Name, seen.dir)
	lease, err = s.settleLeases(ctx, place.Session, []*line.Grant{node}, s.judgeByCount(node.Name, seen.dir), true)
	return lease, true, err
}

// judgeByCount returns the verdict on the lease from the Stat of "leases" in the transaction's reply; nodeMissing if the Stat
// does not decide, because the reply was lost, or because "leases" has other children than leases.
func (s *Semaphore) judgeByCount(name string, dir framework.Stat) leaseVerdict {
	sequence, ok := leaseNumber(name)
	if !ok || sequence >= line.SequenceLimit {
		return nodeMissing
	}
	if children := int(dir.NumChildren); children == 0 || children > s.max {
		return nodeMissing
	}
	return granted
}

// lastMove is a move: the sequence number of the place in the line, and the version of "leases" after the move.
type lastMove struct {
	place   int64
	version int32
}

// recordMove records a move from the place; dir is the Stat of "leases" in the transaction's reply, zero if that was lost.
func (s *Semaphore) recordMove(place string, dir framework.Stat) {
	if from, ok := s.line.Order.SequenceNumber(place); ok && dir.Czxid != 0 {
		s.lastMove.Store(&lastMove{from, dir.Version})
	}
}

// isLineServed reports whether all contenders that have joined the line since the last move, up to this place, have moved
// from it: whether as many moves have changed the version of "leases" as there are places since then. Then the place was
// the first when it was deleted, even if its lease has been released already. A contender of Curator for Java, or one that
// wants several leases, does not move, and after one that has given up there are fewer moves too: then it is false.
func (s *Semaphore) isLineServed(place string, seen leaseSnapshot) bool {
	last := s.lastMove.Load()
	at, ok := s.line.Order.SequenceNumber(place)
	return last != nil && ok && at >= last.place && int64(seen.dir.Version)-int64(last.version) == at-last.place
}
