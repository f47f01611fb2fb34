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

// swap replaces what was read by data, exactly once, and returns the Stat that the node has got. The caller
// is in the slot.
//
// ErrBadVersion and ErrNoNode, not matching ErrOutcomeUnknown, say that it was not executed and never will
// be, because the node has changed. An error that matches ErrOutcomeUnknown says that a reply was lost and
// that nobody can tell any more: the retry policy or ctx ended first; or the session did, with the mark, and
// the node was changed meanwhile, by this write or by another; or there can be no mark.
func (r *register) swap(ctx context.Context, from framework.Stat, data []byte) (framework.Stat, error) {
	if from.Version == -1 { // the version overflows to it after four thousand million changes
		return framework.Stat{}, fmt.Errorf("%w: version -1 stands for any version; use Set",
			framework.ErrBadArguments)
	}
	s := swap{r: r, from: from, data: data}
	ended := false
	defer func() {
		if s.doubt || !ended { // a hook may have ended the goroutine
			r.forget() // whether the mark has changed is not known
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

// doubts are which tries of a write may have been executed.
type doubts struct {
	doubt bool // one with the present mark
	lost  bool // one whose mark is gone
}

// unmarked is what is in doubt when there is no mark any more that could tell.
func (d doubts) unmarked() doubts { return doubts{lost: d.lost || d.doubt} }

// outcome is the error of the write whose last try ended with err.
func (d doubts) outcome(err error) error {
	switch {
	case !d.doubt && !d.lost: // no try was sent, or each was refused
		return mark.NotSent(err)
	case err != nil && !errors.Is(err, framework.ErrOutcomeUnknown):
		return fmt.Errorf("%w; an earlier try: %w", err, framework.ErrOutcomeUnknown)
	}
	return err
}

// verdict is what follows from a try.
type verdict int8

const (
	written  verdict = iota // the write was executed
	ends                    // the try ends with its error
	looks                   // the node has changed, and the mark does not tell by whom: settle
	forgets                 // the mark is forgotten: errMark
	unmarked                // the transaction is sent without a mark
)

// after returns what is in doubt after a try, and what follows. none says that there can be no mark.
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

// compared returns what is in doubt after a look at the node, which was to be changed from what it was to data, and nil
// if it is as it was. If a try whose mark is gone may have been executed, it looks for what speaks against that.
func (d doubts) compared(from framework.Stat, data []byte, now content) (doubts, error) {
	next := now.stat.Version == from.Version+1 && (from.Czxid == 0 || from.Czxid == now.stat.Czxid)
	switch {
	case now.stat.Mzxid == from.Mzxid:
		return d, nil
	case next && !bytes.Equal(now.data, data):
		return doubts{}, changed // the change after the one that was read is somebody else's
	case d.lost, d.doubt:
		return d, undecided
	}
	return d, changed
}

// errMark says that somebody else has touched the mark, or deleted it, perhaps with the node.
var errMark = errorOf("what this client keeps below the node was changed or deleted",
	framework.ErrBadVersion)

// try writes once, and finds out about the tries before.
func (s *swap) try(ctx context.Context) error {
	session, err := s.r.client.SessionSoon(ctx)
	if err != nil {
		return retry.Permanent(err) // it has been through the policy
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

// write sends the transaction. again says that the server takes no mark, and that it is to be sent without.
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

// settle looks at the node when a mark cannot tell any more. It returns nil if the node is as it was.
func (s *swap) settle(ctx context.Context, session *framework.Session) error {
	now, err := line.Result(session.Client().GetData().Undecompressed().InBackground().ForPath(ctx, s.r.path))
	now.Data, err = line.Unpacked(s.r.client, s.r.path, now.Data, err)
	if err == nil {
		s.doubts, err = s.compared(s.from, s.data, content{now.Data, now.Stat})
	}
	return err
}

// found returns the Stat that the write has made: the mark was changed by the same transaction. What cannot
// be learned is zero.
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
