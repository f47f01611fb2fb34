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
	s.recordMove(place.Name, node.Name)
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

// movedNumbers are the sequence numbers of a place in the line and of the lease taken from it.
type movedNumbers struct{ place, lease int64 }

// recordMove records the numbers of a move.
func (s *Semaphore) recordMove(place, lease string) {
	from, ok := s.line.Order.SequenceNumber(place)
	to, also := leaseNumber(lease)
	if ok && also {
		s.lastMove.Store(&movedNumbers{from, to})
	}
}

// isLineServed reports whether all contenders that have joined the line since the last move, up to this place, have had
// their leases: whether as many leases have been created as places. Then the place was the first when it was deleted,
// even if its lease has been released already. Only for a mutex, where one place never creates two leases. It may be wrong if one
// caller has given up and another has not joined the line, because it was empty: a waiter then passes others once.
func (s *Semaphore) isLineServed(place string, seen leaseSnapshot) bool {
	last := s.lastMove.Load()
	at, ok := s.line.Order.SequenceNumber(place)
	return last != nil && ok && s.max == 1 && seen.countCreated()-1-last.lease == at-last.place
}
