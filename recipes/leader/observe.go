package leader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// Observation is who leads.
type Observation struct {
	// Leader is the first in line. Its Czxid is the fencing token of its term.
	Leader Participant
	Nobody bool // there is no participant; then Leader is empty
}

func (o Observation) String() string {
	if o.Nobody {
		return "nobody"
	}
	return fmt.Sprintf("%q (%s)", plain.Text(o.Leader.ID), plain.Text(o.Leader.Name))
}

// same says whether two observations are of the same leader.
func (o Observation) same(p Observation) bool {
	a, b := o.Leader, p.Leader
	return o.Nobody == p.Nobody && a.Name == b.Name && a.Czxid == b.Czxid && a.ID == b.ID
}

// Observe yields who leads in the election at path, to a caller that takes no part: first who does at the
// beginning, be it nobody, and then each change, in order. It works for latches and for selectors, in Go and
// in Java. The path need not exist. It runs on the caller's goroutine.
//
// Successive observations differ, and their tokens (Czxid) grow, but a leader that came and went between two
// reads is left out, and so is a moment without a leader: a slow body sees fewer changes and always the
// latest one. The leader is the participant whose turn it is: it may need a moment to notice, or be without a
// connection until its session ends. While the observer itself has no connection it reports nothing, and what
// it reported last may be outdated.
//
// It costs one list and one read per change, and one watch on the server: on the leader's node, or on the
// directory while nobody is there. Participants that come, wait and go do not wake it. Every 30 s it makes
// sure with one read that no event was lost.
//
// It goes on through lost connections and sessions. When the directory cannot be read for another reason
// (ErrNoAuth, …) the error is yielded, and if the loop goes on so does the observer, less and less often,
// down to once in about 10 s. The sequence ends with the loop's break, and otherwise with one error: when ctx
// ends (it matches ctx.Err()), with framework.ErrClosed, or with ErrSessionLost when client is the view of a
// session that has ended. A wrong path, or client, is an error at once. Without READ on a leader's node its
// ID is not known, nor when it is too long, see [Participant].
func Observe(ctx context.Context, client *framework.Client, path string) iter.Seq2[Observation, error] {
	order := queue.Order{Names: []string{latchName, lockName}}
	return observer{client, path, order, queue.Check(client, path)}.observe(ctx)
}

type observer struct {
	client *framework.Client
	dir    string
	order  queue.Order
	err    error // what is wrong with client or dir
}

func (o observer) observe(ctx context.Context) iter.Seq2[Observation, error] {
	return func(yield func(Observation, error) bool) {
		err := queue.Ready(ctx, o.client, o.err)
		if err == nil {
			err = o.follow(ctx, yield)
		}
		if err != nil {
			yield(Observation{}, wrap(o.dir, "observe", err))
		}
	}
}

// follow looks and waits, until ctx or the client ends, which is its error, or the loop breaks, which is
// none.
func (o observer) follow(ctx context.Context, yield func(Observation, error) bool) error {
	var last *Observation
	for failures := 0; ; {
		now, watch, err := o.look(ctx)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				watch.Stop()
			}
			return o.client.Left(ctx, nil)
		case errors.Is(err, framework.ErrClosed):
			return err
		case err != nil:
			if over := o.client.Err(); over != nil { // the view of a session has no next one
				return over
			}
			if !queue.Transient(o.client)(err) && !yield(Observation{}, wrap(o.dir, "observe", err)) {
				return nil
			}
			failures++
			o.client.Pause(ctx, rejoinDelay(failures))
			continue
		}
		failures = 0
		if !o.report(ctx, &last, now, watch, yield) {
			return nil
		}
	}
}

// report tells what is new, and waits for a change, or the end of ctx. It returns false when the loop breaks.
func (o observer) report(
	ctx context.Context, last **Observation, now Observation, watch *framework.Watch,
	yield func(Observation, error) bool,
) bool {
	defer watch.Stop()
	if *last == nil || !now.same(**last) {
		*last = &now
		if !yield(now, nil) {
			return false
		}
	}
	every := func() time.Duration { return checkAgain }
	look := func() (framework.Event, bool) { return framework.Event{}, !o.unchanged(ctx, now) }
	_, _ = queue.Await(ctx, o.client, watch, nil, every, look) // whatever it is, the next read tells
	return true
}

// checkAgain is how often an observer reads without being told to. Events can get lost: a server drops those
// of nodes that the client may not read.
const checkAgain = 30 * time.Second

// unchanged says, with one read, whether what was seen is still so.
func (o observer) unchanged(ctx context.Context, seen Observation) bool {
	if seen.Leader.Czxid != 0 {
		stat, err := o.client.CheckExists().ForPath(ctx, seen.Leader.Path)
		return err == nil && stat != nil && stat.Czxid == seen.Leader.Czxid
	}
	names, err := o.client.GetChildren().ForPath(ctx, o.dir)
	if errors.Is(err, framework.ErrNoNode) {
		return seen.Nobody
	}
	line := o.order.Contenders(names)
	return err == nil && (seen.Nobody && len(line) == 0 || len(line) > 0 && line[0] == seen.Leader.Name)
}

// look finds out who leads, with a watch that fires when that changes: on the leader's node, or on the
// directory while nobody is there or that node may not be read.
func (o observer) look(ctx context.Context) (now Observation, watch *framework.Watch, err error) {
	for first, onDir := "", false; ; {
		var names []string
		if onDir {
			names, watch, err = o.client.GetChildren().WithWatch().ForPath(ctx, o.dir)
		} else {
			names, err = o.client.GetChildren().ForPath(ctx, o.dir)
		}
		if errors.Is(err, framework.ErrNoNode) {
			stat, watch, err := o.client.CheckExists().WithWatch().ForPath(ctx, o.dir)
			if err != nil || stat == nil {
				return Observation{Nobody: true}, watch, err
			}
			watch.Stop() // it has just been made
			onDir = false
			continue
		}
		if err != nil {
			return now, nil, err
		}
		head := ""
		if line := o.order.Contenders(names); len(line) > 0 {
			head = line[0]
		}
		if onDir {
			if head == first {
				return now, watch, nil
			}
			watch.Stop()
		}
		if first = head; head == "" {
			now, onDir = Observation{Nobody: true}, true
			continue
		}
		if now, watch, err = o.read(ctx, head); err == nil {
			return now, watch, nil
		}
		onDir = errors.Is(err, framework.ErrNoAuth)
		if !onDir && !errors.Is(err, framework.ErrNoNode) { // else it has just left
			return now, nil, err
		}
	}
}

func (o observer) read(ctx context.Context, name string) (Observation, *framework.Watch, error) {
	p := queue.Participant{Name: name, Path: zkpath.Join(o.dir, name)}
	var stat framework.Stat
	data, watch, err := o.client.GetData().Undecompressed().StoringStatIn(&stat).WithWatch().ForPath(ctx, p.Path)
	if err == nil {
		p = queue.Known(o.client, p, data, stat)
	} else if why := err; errors.Is(err, framework.ErrReplyTooLarge) {
		var there *framework.Stat
		there, watch, err = o.client.CheckExists().WithWatch().ForPath(ctx, p.Path)
		switch {
		case err == nil && there == nil:
			watch.Stop()
			err = framework.ErrNoNode
		case err == nil:
			p = queue.TooLarge(p, *there, why)
		}
	}
	return Observation{Leader: participant(p, true)}, watch, err
}
