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
	"github.com/go-curator/curator/recipes/internal/line"
)

// Observation reports the leader.
type Observation struct {
	// Leader is the first in the line. Its Czxid is the fencing token of its term.
	Leader Participant
	Nobody bool // the election has no participants; then Leader is empty
}

func (o Observation) String() string {
	if o.Nobody {
		return "nobody"
	}
	return fmt.Sprintf("%q (%s)", plain.Text(o.Leader.ID), plain.Text(o.Leader.Name))
}

// isSame reports whether two observations show the same leader.
func (o Observation) isSame(p Observation) bool {
	a, b := o.Leader, p.Leader
	return o.Nobody == p.Nobody && a.Name == b.Name && a.Czxid == b.Czxid && a.ID == b.ID
}

// Observe yields the leader of the election at path to a caller that takes no part: first the present leader,
// or that there is none, and then each change, in order. It works for latches and for selectors, in Go and in
// Java. The path need not exist. Observe runs on the caller's goroutine.
//
// Successive observations differ, and their tokens (Czxid) grow.
//
//   - A leader that joined and left between two reads is left out, and so is a moment without a leader. A slow loop
//     body sees fewer changes, and always the latest.
//   - The leader is the first participant in the line. It may not have received the event yet, or may have no
//     connection until its session ends. A node without a session (its SessionID is 0) leads until a client deletes
//     it, also for Curator; that is logged.
//   - While the observer itself has no connection, nothing is yielded, and the last observation may be
//     outdated.
//
// It costs one list and one read per change, and one watch on the server: on the leader's node, or on the children of
// path while the election has no participants. Other participants that join and leave do not wake it. Every 30 s one
// read checks that no event was lost.
//
// Observe continues through lost connections and lost sessions. If path cannot be read for another reason (ErrNoAuth,
// …), the error is yielded. If the loop continues, Observe tries again, less and less often, at last about every 10
// s. The sequence ends when the loop breaks, and otherwise after one of these errors: an error that matches
// ctx.Err(), when ctx ends; framework.ErrClosed; ErrSessionLost, if client is the view of a session that has ended;
// immediately for an invalid path or client. The leader's ID is missing if this client has no READ permission on its
// node, or if it is too long, see [Participant].
func Observe(ctx context.Context, client *framework.Client, path string) iter.Seq2[Observation, error] {
	order := line.Order{Names: []string{latchName, lockName}}
	return leaderObserver{client, path, order, line.CheckArguments(client, path)}.observations(ctx)
}

type leaderObserver struct {
	client *framework.Client
	dir    string
	order  line.Order
	err    error // the mistake in client or dir
}

func (o leaderObserver) observations(ctx context.Context) iter.Seq2[Observation, error] {
	return func(yield func(Observation, error) bool) {
		err := line.CheckCall(ctx, o.client, o.err)
		if err == nil {
			err = o.followLeader(ctx, yield)
		}
		if err != nil {
			yield(Observation{}, wrapError(o.dir, "observe", err))
		}
	}
}

// followLeader reads the leader and waits for a change, again and again. It returns nil when the caller's loop breaks,
// and an error when ctx or the client ends.
func (o leaderObserver) followLeader(ctx context.Context, yield func(Observation, error) bool) error {
	var last *Observation
	for failures := 0; ; {
		now, watch, err := o.readAndWatch(ctx)
		switch {
		case ctx.Err() != nil:
			watch.Stop() // nil after an error
			return o.client.WaitError(ctx, nil)
		case errors.Is(err, framework.ErrClosed):
			return err
		case err != nil:
			if ended := o.client.Err(); ended != nil { // client is the view of a session, which has ended
				return ended
			}
			if !line.IsTransient(o.client)(err) && !yield(Observation{}, wrapError(o.dir, "observe", err)) {
				return nil
			}
			failures++
			o.client.Pause(ctx, rejoinDelay(failures))
			continue
		}
		failures = 0
		if !o.reportAndWait(ctx, &last, now, watch, yield) {
			return nil
		}
	}
}

// reportAndWait yields now if it differs from last, and waits for a change or the end of ctx. It returns false when
// the loop breaks.
func (o leaderObserver) reportAndWait(
	ctx context.Context, last **Observation, now Observation, watch *framework.Watch,
	yield func(Observation, error) bool,
) bool {
	defer watch.Stop()
	if *last == nil || !now.isSame(**last) {
		*last = &now
		if now.Leader.Czxid != 0 && now.Leader.SessionID == 0 {
			o.client.Logger().Warn("the first node of an election is not ephemeral: it leads until it is deleted",
				"path", plain.Text(now.Leader.Path))
		}
		if !yield(now, nil) {
			return false
		}
	}
	every := func() time.Duration { return observerInterval }
	look := func() (framework.Event, bool) { return framework.Event{}, !o.isUnchanged(ctx, now) }
	_, _ = line.AwaitEvent(ctx, o.client, watch, nil, every, look) // the next read shows the change
	return true
}

// observerInterval is the interval of an observer's reads without an event. Events can get lost: a server sends none for a
// node that the client has no permission to read.
const observerInterval = 30 * time.Second

// isUnchanged reports, with one read, whether the leader is still the one in seen.
func (o leaderObserver) isUnchanged(ctx context.Context, seen Observation) bool {
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

// readAndWatch reads the leader, and sets a watch that fires when it changes: on the leader's node, or on o.dir's
// children while there is no participant, or no permission to read the leader's node. To watch the children it lists
// them once more: the result counts if head is still the same.
func (o leaderObserver) readAndWatch(ctx context.Context) (now Observation, watch *framework.Watch, err error) {
	for head, onDir := "", false; ; {
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
			watch.Stop() // the node was created since the list
			onDir = false
			continue
		}
		if err != nil {
			return now, nil, err
		}
		before := head
		head = ""
		if line := o.order.Contenders(names); len(line) > 0 {
			head = line[0]
		}
		if onDir {
			if head == before {
				return now, watch, nil
			}
			watch.Stop()
		}
		if head == "" {
			now, onDir = Observation{Nobody: true}, true
			continue
		}
		if now, watch, err = o.readLeader(ctx, head); err == nil {
			return now, watch, nil
		}
		onDir = errors.Is(err, framework.ErrNoAuth)
		if !onDir && !errors.Is(err, framework.ErrNoNode) { // with ErrNoNode the leader has just left
			return now, nil, err
		}
	}
}

func (o leaderObserver) readLeader(ctx context.Context, name string) (Observation, *framework.Watch, error) {
	p := line.Participant{Name: name, Path: zkpath.Join(o.dir, name)}
	var stat framework.Stat
	read := o.client.GetData().Undecompressed().StoringStatIn(&stat).WithWatch()
	data, watch, err := read.ForPath(ctx, p.Path)
	if err == nil {
		p = line.ParticipantWithData(o.client, p, data, stat)
	} else if why := err; errors.Is(err, framework.ErrReplyTooLarge) {
		var there *framework.Stat
		there, watch, err = o.client.CheckExists().WithWatch().ForPath(ctx, p.Path)
		switch {
		case err == nil && there == nil:
			watch.Stop()
			err = framework.ErrNoNode
		case err == nil:
			p = line.ParticipantTooLarge(p, *there, why)
		}
	}
	return Observation{Leader: newParticipant(p, true)}, watch, err
}
