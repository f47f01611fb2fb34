package counter

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/internal/mark"
	"github.com/go-curator/curator/retry"
)

// writeIfVersion replaces the data that were read, exactly once, and returns the node's new Stat. The caller is in the
// slot.
//
// ErrBadVersion and ErrNoNode, not matching ErrOutcomeUnknown, mean that the write was not executed and never will
// be, because the node has changed. An error that matches ErrOutcomeUnknown means that a reply was lost and that the
// outcome can no longer be found out: the retry policy or ctx ended first; or the session ended, with the mark, and
// the node was changed in between, by this write or by another; or the server refuses the mark.
func (r *valueNode) writeIfVersion(ctx context.Context, from framework.Stat, data []byte) (framework.Stat, error) {
	if from.Version == -1 { // the version overflows to it after four thousand million changes
		return framework.Stat{}, fmt.Errorf("%w: version -1 stands for any version; use Set",
			framework.ErrBadArguments)
	}
	s := conditionalWrite{node: r, from: from, data: data}
	returned := false
	defer func() {
		if s.withMark || !returned { // a hook may have ended the goroutine
			r.forgetMark() // the mark may have been changed
		}
	}()
	err := r.client.Retry(ctx, s.attemptWrite, retry.WithRetryable(line.IsTransient(r.client)))
	returned = true
	return s.stat, s.finalError(err)
}

type conditionalWrite struct {
	node *valueNode
	from framework.Stat
	data []byte
	stat framework.Stat // the result

	mark *ownMark // of the last try
	unknownTries
}

// unknownTries record which tries of a write may have been executed.
type unknownTries struct {
	withMark bool // one with the present mark
	markLost bool // one whose mark is gone
}

// afterMarkLoss returns the unknown tries after the mark is gone that could have shown their outcome.
func (d unknownTries) afterMarkLoss() unknownTries {
	return unknownTries{markLost: d.markLost || d.withMark}
}

// finalError returns the error of the write whose last try ended with err.
func (d unknownTries) finalError(err error) error {
	switch {
	case !d.withMark && !d.markLost: // no try was sent, or each was refused
		return mark.NotExecuted(err)
	case err != nil && !errors.Is(err, framework.ErrOutcomeUnknown):
		return fmt.Errorf("%w; an earlier try: %w", err, framework.ErrOutcomeUnknown)
	}
	return err
}

// nextWriteStep is the next step after a try.
type nextWriteStep int8

const (
	writeExecuted nextWriteStep = iota // the write was executed
	attemptEnds                        // the try ends with its error
	comparesNode                       // the node has changed, possibly by an earlier try: readAndCompare
	forgetsMark                        // the mark is forgotten: errMarkGone
	omitsMark                          // the transaction is sent without a mark
)

// afterWriteAttempt returns the unknown tries after a try, and the next step. noMark means that the server refuses the
// mark.
func (d unknownTries) afterWriteAttempt(outcome mark.Outcome, err error, noMark bool) (unknownTries, nextWriteStep) {
	switch outcome {
	case mark.Done:
		return unknownTries{}, writeExecuted
	case mark.NoRefusal:
		d.withMark = d.withMark || errors.Is(err, framework.ErrOutcomeUnknown)
	case mark.Refused:
		if !noMark {
			d.withMark = false
		}
		if (d.markLost || d.withMark) && errors.Is(err, framework.ErrBadVersion) {
			return d, comparesNode
		}
	case mark.MarkChanged:
		return d.afterMarkLoss(), forgetsMark
	case mark.MarkRefused:
		return d.afterMarkLoss(), omitsMark
	}
	return d, attemptEnds
}

// afterRead returns the unknown tries after a read of the node, given its Stat from before the write and the data of
// the write; the error is nil if the node is unchanged. If a try whose mark is gone may have been executed, other data
// in the version that the try would have made prove that it was not.
func (d unknownTries) afterRead(from framework.Stat, data []byte, now nodeContent) (unknownTries, error) {
	next := now.stat.Version == from.Version+1 && (from.Czxid == 0 || from.Czxid == now.stat.Czxid)
	switch {
	case now.stat.Mzxid == from.Mzxid:
		return d, nil
	case next && !bytes.Equal(now.data, data):
		return unknownTries{}, errChanged // another client made the first change after the read
	case d.markLost, d.withMark:
		return d, errUndecided
	}
	return d, errChanged
}

// errMarkGone is the error if another client has changed or deleted the mark, possibly together with the node.
var errMarkGone = explainError("what this client keeps below the node was changed or deleted",
	framework.ErrBadVersion)

// attemptWrite sends the transaction, after comparing the node if the mark of an earlier try is gone.
func (s *conditionalWrite) attemptWrite(ctx context.Context) error {
	session, err := s.node.client.SessionSoon(ctx)
	if err != nil {
		return retry.Permanent(err) // SessionSoon has applied the retry policy
	}
	m := s.node.markForSession(session)
	if s.mark != nil && s.mark != m {
		s.unknownTries = s.afterMarkLoss()
		if err := s.readAndCompare(ctx, session); err != nil {
			return err
		}
	}
	s.mark = m
	if err := m.awaitCreated(ctx); err != nil {
		return err
	}
	for again := true; again; {
		again, err = s.sendTransaction(ctx, m)
	}
	return err
}

// sendTransaction sends the transaction. again means that the server refuses the mark: the transaction has to be sent
// without.
func (s *conditionalWrite) sendTransaction(ctx context.Context, m *ownMark) (again bool, _ error) {
	view := m.Session.Client()
	set := view.TransactionOp().SetData().WithVersion(s.from.Version).ForPath(s.node.path, s.data)
	results, err := line.AwaitResult(view.TransactionInBackground(ctx, m.Write(set)...))
	var step nextWriteStep
	s.unknownTries, step = s.afterWriteAttempt(m.OutcomeOf(err, s.withMark), err, m.Forbidden)
	switch step {
	case writeExecuted:
		m.Written()
		if err == nil {
			s.stat = results[len(results)-1].Stat
		} else {
			s.stat = s.resultingStat(ctx, m)
		}
		return false, nil
	case comparesNode:
		return false, cmp.Or(s.readAndCompare(ctx, m.Session), errUndecided)
	case forgetsMark:
		s.node.forgetMark()
		return false, errMarkGone
	case omitsMark:
		m.Forbidden = true
		return true, err
	}
	return false, err
}

// readAndCompare reads the node when a mark can no longer show the outcome. It returns nil if the node is unchanged.
func (s *conditionalWrite) readAndCompare(ctx context.Context, session *framework.Session) error {
	now, err := line.AwaitResult(session.Client().GetData().Undecompressed().InBackground().ForPath(ctx, s.node.path))
	now.Data, err = line.UnpackData(s.node.client, s.node.path, now.Data, err)
	if err == nil {
		s.unknownTries, err = s.afterRead(s.from, s.data, nodeContent{now.Data, now.Stat})
	}
	return err
}

// resultingStat returns the Stat that the write produced, from the mark, which the same transaction changed. Fields
// that cannot be read are zero.
func (s *conditionalWrite) resultingStat(ctx context.Context, m *ownMark) framework.Stat {
	stat := s.from
	stat.Version++
	stat.DataLength = int32(len(s.data))
	stat.Mzxid, stat.Mtime = 0, 0
	if same, err := m.Session.Client().CheckExists().ForPath(ctx, m.Path); err == nil && same != nil {
		stat.Mzxid, stat.Mtime = same.Mzxid, same.Mtime
	}
	return stat
}
