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
//
// A waiter that expects a free lease sends the transaction as soon as its predecessor's place is deleted, before it lists
// the leases. The version of "leases" in the transaction proves that the waiter is the first: each transaction increments
// that version by one, so since the caller's last one it has grown by the number of places between only if each of them
// was left by a transaction. If a waiter gave up, or did without the transaction, as Curator for Java does, the server
// refuses, and lists decide. Only the order of the grants depends on this proof, not the number of leases. A write by
// another client to "leases" can make up for a place that was left without a transaction, so data that are written there
// later may be lost.
//
// If then no lease is free, the caller stops the waiters behind it from doing the same, since each release would wake all of
// them: it increments the version of "locks", which the transaction checks, and each waiter has read when it joined the
// line.

// movesFromLine reports whether a caller that wants n leases may take them with one transaction. For several it may not: it
// might have to wait with nodes that a Java client in the line waits for. With a shared count the limit may change
// before the commit.
func (s *Semaphore) movesFromLine(n int) bool {
	return n == 1 && s.count == nil && !s.cannotMove.Load()
}

// canMoveFromLine is movesFromLine after a snapshot: the node "leases" must exist, and have no data.
func (s *Semaphore) canMoveFromLine(seen leaseSnapshot, n int) bool {
	return seen.dir.Czxid != 0 && seen.dir.DataLength == 0 && s.movesFromLine(n)
}

// linePlace is a place in the line, with the line's directory as it was listed before.
type linePlace struct {
	node string
	dir  line.Directory
}

// moveUnseen sends the transaction for the waiter at this place, whose predecessor was deleted, if a free lease can be
// expected. moved is nil if the leases have to be listed first.
func (s *Semaphore) moveUnseen(ctx context.Context, session *framework.Session, at linePlace) (moved *movedLease, err error) {
	last := s.lastMove.Load()
	place, ok := s.line.Order.SequenceNumber(at.node)
	if last == nil || !ok || !last.expectsRoom(at.dir) || s.cannotStop.Load() {
		return nil, nil
	}
	version, ok := last.predictVersion(place)
	if !ok {
		return nil, nil
	}
	moved, err = s.move(ctx, session, at, framework.Stat{Version: version}, &framework.Stat{Version: at.dir.Version})
	if s.isMoveRefused(ctx, err) {
		again := *last
		again.predicted = false // another prediction from the same numbers would be refused as well
		s.lastMove.CompareAndSwap(last, &again)
		return nil, nil
	}
	if err == nil && moved.verdict == overLimit {
		s.stopUnseenMoves(session, at.dir.Version)
	}
	return moved, err
}

// stopUnseenMoves increments the version of "locks", unless another client has incremented it.
func (s *Semaphore) stopUnseenMoves(session *framework.Session, version int32) {
	session.Client().ForRecipes().SetData().WithVersion(version).Uncompressed().InBackground().
		ForPath(context.Background(), s.line.Dir, []byte{}).Then(func(_ framework.Stat, err error) {
		if errors.Is(err, framework.ErrNoAuth) {
			s.cannotStop.Store(true)
		}
	})
}

// moveFromLine takes one lease and leaves the line, in one transaction. If the server refuses that, it creates the lease
// alone. left reports whether the node in the line is gone; otherwise the caller has to release the place.
func (s *Semaphore) moveFromLine(
	ctx context.Context, place *line.Grant, seen leaseSnapshot,
) (lease *Lease, left bool, err error) {
	place.Hold.End(framework.ErrReleased) // first, since the deletion would end it as a loss
	moved, err := s.move(ctx, place.Session, linePlace{place.Name, place.Directory()}, seen.dir, nil)
	switch {
	case err == nil:
		lease, err = s.settleMove(ctx, moved)
		return lease, true, err
	case ctx.Err() == nil && errors.Is(err, framework.ErrNodeDeleted): // otherwise it may be the cause of ctx's end
		return nil, true, errLineDeleted
	case s.isMoveRefused(ctx, err):
		lease, err = s.createLeases(ctx, place.Session, 1, true)
	}
	return lease, false, err
}

// isMoveRefused reports whether the server has refused the transaction for another reason than a missing place. After
// ErrNoAuth no other is sent.
func (s *Semaphore) isMoveRefused(ctx context.Context, err error) bool {
	if ctx.Err() != nil { // err may be the cause of ctx's end
		return false
	}
	noAuth := errors.Is(err, framework.ErrNoAuth)
	if noAuth {
		s.cannotMove.Store(true)
	}
	return noAuth || errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrBadVersion)
}

// movedLease is the node of a lease after the transaction.
type movedLease struct {
	node    *line.Grant
	verdict leaseVerdict // judgeByCount's
}

// move sends the transaction. dir is the Stat of "leases", of which only the version and the length of the data count;
// locks is that of "locks", nil if its version need not be the same.
func (s *Semaphore) move(
	ctx context.Context, session *framework.Session, from linePlace, dir framework.Stat, locks *framework.Stat,
) (*movedLease, error) {
	var stat framework.Stat
	path, err := session.Client().ForRecipes().Create().WithMode(framework.EphemeralSequential).WithProtection().
		InPlaceOf(zkpath.Join(s.line.Dir, from.node), locks, &dir).StoringStatIn(&stat).
		ForPath(ctx, zkpath.Join(s.leases.Dir, leaseName), s.leases.Data)
	if err != nil {
		return nil, err
	}
	node := &line.Grant{Session: session, Path: path, Name: zkpath.Base(path), Czxid: stat.Czxid}
	s.recordMove(from, node.Name, dir)
	return &movedLease{node, s.judgeByCount(node.Name, dir)}, nil
}

// settleMove makes a lease of the node, as soon as it is within the limit.
func (s *Semaphore) settleMove(ctx context.Context, m *movedLease) (lease *Lease, err error) {
	defer func() { // also when a hook panics
		if lease == nil && !errors.Is(err, errLeaseDeleted) { // otherwise another client's node may have its name
			m.delete()
		}
	}()
	return s.settleLeases(ctx, m.node.Session, []*line.Grant{m.node}, m.verdict, true)
}

func (m *movedLease) delete() { line.QueueDelete(m.node.Session.Client().ForRecipes(), m.node.Path) }

// judgeByCount returns the verdict on the lease from the Stat of "leases" in the transaction's reply; nodeMissing if the Stat
// does not decide, because the reply was lost. overLimit may be wrong, if "leases" has other children than leases.
func (s *Semaphore) judgeByCount(name string, dir framework.Stat) leaseVerdict {
	sequence, ok := leaseNumber(name)
	switch children := int(dir.NumChildren); {
	case !ok || sequence >= line.SequenceLimit || children == 0:
		return nodeMissing
	case children > s.max:
		return overLimit
	}
	return granted
}

// lastMove has the facts that a move has shown.
type lastMove struct {
	place, lease int64          // the sequence numbers of the place in the line and of the lease taken from it
	dir          line.Directory // of the line, before
	version      int32          // of "leases" after the move
	hasReply     bool           // version is known: the reply was not lost
	room         bool           // after the move more than a quarter of the leases was free
	predicted    bool           // the version was as the move before predicts
}

// predictVersion returns the version of "leases" when this place is the first, if each place between was left with a move.
// The places are in the same directory.
func (m lastMove) predictVersion(place int64) (version int32, ok bool) {
	between := place - m.place - 1
	version = m.version + int32(between)
	return version, m.hasReply && 0 <= between && between < line.SequenceLimit && version != -1 // -1 would be any version
}

// expectsRoom reports whether the next move may precede the list of the leases: there was room after the last, whose version
// was as predicted; and no caller has stopped such moves since, nor has the line's directory been made again.
func (m lastMove) expectsRoom(dir line.Directory) bool {
	return m.predicted && m.room && m.dir == dir && dir.Czxid != 0 && dir.DataLength == 0 && dir.Version != -1
}

// recordMove records a move; dir is the Stat of "leases" in its reply.
func (s *Semaphore) recordMove(from linePlace, lease string, dir framework.Stat) {
	place, ok := s.line.Order.SequenceNumber(from.node)
	number, also := leaseNumber(lease)
	if !ok || !also {
		return
	}
	children := int(dir.NumChildren)
	m := &lastMove{
		place: place, lease: number, dir: from.dir, version: dir.Version, hasReply: children > 0, room: children+s.max/4 < s.max,
	}
	if before := s.lastMove.Load(); before != nil && m.hasReply {
		version, ok := before.predictVersion(place)
		m.predicted = ok && version == dir.Version-1 && before.dir.Czxid == m.dir.Czxid
	}
	s.lastMove.Store(m)
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
