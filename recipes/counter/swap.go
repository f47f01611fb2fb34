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

// swap replaces the data that were read, exactly once, and returns the node's new Stat. The caller is in the slot.
//
// ErrBadVersion and ErrNoNode, not matching ErrOutcomeUnknown, mean that the write was not executed and never will
// be, because the node has changed. An error that matches ErrOutcomeUnknown means that a reply was lost and that the
// outcome can no longer be found out: the retry policy or ctx ended first; or the session ended, with the mark, and
// the node was changed in between, by this write or by another; or the server refuses the mark.
func (r *register) swap(ctx context.Context, from framework.Stat, data []byte) (framework.Stat, error) {
	if from.Version == -1 { // the version overflows to it after four thousand million changes
		return framework.Stat{}, fmt.Errorf("%w: version -1 stands for any version; use Set",
			framework.ErrBadArguments)
	}
	s := swap{r: r, from: from, data: data}
	ended := false
	defer func() {
		if s.doubt || !ended { // a hook may have ended the goroutine
			r.forget() // the mark may have been changed
		}
	}()
	err := r.client.Retry(ctx, s.try, retry.WithRetryable(line.Transient(r.client)))
	ended = true
	return s.stat, s.outcome(err)
}

type swap struct {
	r    *register
	from framework.Stat
	data []byte
	stat framework.Stat // the result

	mark *ownMark // of the last try
	doubts
}

// doubts record which tries of a write may have been executed.
type doubts struct {
	doubt bool // one with the present mark
	lost  bool // one whose mark is gone
}

// unmarked returns the doubts after the mark that could have resolved them is gone.
func (d doubts) unmarked() doubts { return doubts{lost: d.lost || d.doubt} }

// outcome returns the error of the write whose last try ended with err.
func (d doubts) outcome(err error) error {
	switch {
	case !d.doubt && !d.lost: // no try was sent, or each was refused
		return mark.NotSent(err)
	case err != nil && !errors.Is(err, framework.ErrOutcomeUnknown):
		return fmt.Errorf("%w; an earlier try: %w", err, framework.ErrOutcomeUnknown)
	}
	return err
}

// verdict is the next step after a try.
type verdict int8

const (
	written  verdict = iota // the write was executed
	ends                    // the try ends with its error
	looks                   // the node has changed, and the mark does not show by whom: settle
	forgets                 // the mark is forgotten: errMark
	unmarked                // the transaction is sent without a mark
)

// after returns the doubts after a try, and the next step. none means that the server refuses the mark.
func (d doubts) after(answer mark.Answer, err error, none bool) (doubts, verdict) {
	switch answer {
	case mark.Done:
		return doubts{}, written
	case mark.Open:
		d.doubt = d.doubt || errors.Is(err, framework.ErrOutcomeUnknown)
	case mark.Refused:
		if !none {
			d.doubt = false
		}
		if (d.lost || d.doubt) && errors.Is(err, framework.ErrBadVersion) {
			return d, looks
		}
	case mark.Gone:
		return d.unmarked(), forgets
	case mark.Untaken:
		return d.unmarked(), unmarked
	}
	return d, ends
}

// compared returns the doubts after a read of the node, given its Stat from before the write and the data of the
// write; the error is nil if the node is unchanged. If a try whose mark is gone may have been executed, other data in
// the version that the try would have made prove that it was not.
func (d doubts) compared(from framework.Stat, data []byte, now content) (doubts, error) {
	next := now.stat.Version == from.Version+1 && (from.Czxid == 0 || from.Czxid == now.stat.Czxid)
	switch {
	case now.stat.Mzxid == from.Mzxid:
		return d, nil
	case next && !bytes.Equal(now.data, data):
		return doubts{}, changed // another client made the first change after the read
	case d.lost, d.doubt:
		return d, undecided
	}
	return d, changed
}

// errMark is the error if another client has changed or deleted the mark, possibly together with the node.
var errMark = errorOf("what this client keeps below the node was changed or deleted",
	framework.ErrBadVersion)

// try writes once, after settling the outcome of earlier tries.
func (s *swap) try(ctx context.Context) error {
	session, err := s.r.client.SessionSoon(ctx)
	if err != nil {
		return retry.Permanent(err) // SessionSoon has applied the retry policy
	}
	m := s.r.markIn(session)
	if s.mark != nil && s.mark != m {
		s.doubts = s.unmarked()
		if err := s.settle(ctx, session); err != nil {
			return err
		}
	}
	s.mark = m
	if err := m.ready(ctx); err != nil {
		return err
	}
	for again := true; again; {
		again, err = s.write(ctx, m)
	}
	return err
}

// write sends the transaction. again means that the server refuses the mark, and the transaction has to be sent
// without.
func (s *swap) write(ctx context.Context, m *ownMark) (again bool, _ error) {
	view := m.Session.Client()
	set := view.TransactionOp().SetData().WithVersion(s.from.Version).ForPath(s.r.path, s.data)
	results, err := line.Result(view.TransactionInBackground(ctx, m.Write(set)...))
	var then verdict
	s.doubts, then = s.after(m.Meaning(err, s.doubt), err, m.None)
	switch then {
	case written:
		m.Written()
		if err == nil {
			s.stat = results[len(results)-1].Stat
		} else {
			s.stat = s.found(ctx, m)
		}
		return false, nil
	case looks:
		return false, cmp.Or(s.settle(ctx, m.Session), undecided)
	case forgets:
		s.r.forget()
		return false, errMark
	case unmarked:
		m.None = true
		return true, err
	}
	return false, err
}

// settle reads the node when a mark can no longer show the outcome. It returns nil if the node is unchanged.
func (s *swap) settle(ctx context.Context, session *framework.Session) error {
	now, err := line.Result(session.Client().GetData().Undecompressed().InBackground().ForPath(ctx, s.r.path))
	now.Data, err = line.Unpacked(s.r.client, s.r.path, now.Data, err)
	if err == nil {
		s.doubts, err = s.compared(s.from, s.data, content{now.Data, now.Stat})
	}
	return err
}

// found returns the Stat that the write produced, from the mark, which the same transaction changed. Fields that
// cannot be read are zero.
func (s *swap) found(ctx context.Context, m *ownMark) framework.Stat {
	stat := s.from
	stat.Version++
	stat.DataLength = int32(len(s.data))
	stat.Mzxid, stat.Mtime = 0, 0
	if same, err := m.Session.Client().CheckExists().ForPath(ctx, m.Path); err == nil && same != nil {
		stat.Mzxid, stat.Mtime = same.Mzxid, same.Mtime
	}
	return stat
}
