package line

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
)

// waiter is a contender that does not hold yet: one node in the line, in one session.
type waiter struct {
	*Line
	session     *framework.Session
	view        *framework.Client // pinned to session
	firstBefore FirstBefore       // nil if only the line itself shows whose turn it is

	creating *framework.Pending[framework.CreateResult] // the create, while it is in flight
	path     string
	czxid    int64

	names       []string         // of the last list, until they are judged
	connections uint64           // of the session, before the list was requested
	decision    *Decision        // of judge: to wait
	queue       *framework.Queue // the same for the hooks, if there are any

	own        *framework.Watch // armed on the own node; nil if it is not
	unreadable string           // the predecessor that cannot be watched
	dirWatch   *framework.Watch // instead: armed on the directory by the last list

	waits       bool  // else ErrNotAcquired if a contender is ahead
	confirmed   bool  // the list was requested after the reply to the create
	waited      bool  // for a predecessor
	ownChanged  bool  // another client has written to the own node
	armFailures int32 // in a row, to arm the watches

	grant *Grant // the result
}

// state is the next step of a waiter: join, then judge; from there grant, or wait; after a wait grant, or relist and
// judge. A state is a function, which returns the next one; nil ends the wait.
type state func(*waiter, context.Context) (state, error)

// contend joins the line in one session, and waits until the contender is granted. placed reports whether it had a node in
// the line. On an error its node is on its way out, also if OnWait or a hook panics or ends the goroutine.
func (l *Line) contend(
	ctx context.Context, session *framework.Session, waits bool, firstBefore FirstBefore,
) (grant *Grant, placed bool, err error) {
	w := &waiter{Line: l, session: session, view: session.Client().ForRecipes(), waits: waits, firstBefore: firstBefore}
	defer func() {
		if w.grant == nil && !errors.Is(err, errNodeLost) { // else another client's node may have its name
			w.remove()
		}
		w.dirWatch.Stop()
	}()
	for next := state((*waiter).join); next != nil && err == nil; {
		next, err = next(w, ctx)
	}
	return w.grant, w.path != "", err
}

// name returns the name of the own node.
func (w *waiter) name() string { return zkpath.Base(w.path) }

// join creates the node and lists the directory, in one round trip unless other goroutines of the client join this line
// at the same time: these share a list.
func (w *waiter) join(ctx context.Context) (state, error) {
	data := w.Data
	if data == nil {
		data = w.Client.Hooks().NodeData(ctx, framework.Acquisition{Recipe: w.Recipe, Path: w.Dir})
	}
	create := w.view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		CreatingParentContainersIfNeeded().InBackground()
	return (*waiter).judge, w.Client.Retry(ctx, func(ctx context.Context) error {
		w.creating = create.ForPath(ctx, zkpath.Join(w.Dir, w.Name), data)
		w.connections = w.session.Connections()
		listed := w.requestList(ctx, 1)
		node, err := Result(w.creating)
		w.creating = nil
		if err != nil {
			return err
		}
		w.path, w.czxid = node.Path, node.Stat.Czxid
		// The list may be an error, or too old: the directory was missing, or the connection was lost in between. Then it
		// does not have the own node, and judge has the directory listed again.
		list, _ := Result(listed)
		w.names = list.Names
		return nil
	})
}

// requestList requests a list that the client's waiters share, if this many have been requested already.
func (w *waiter) requestList(ctx context.Context, most int) *framework.Pending[framework.ChildrenResult] {
	return w.view.GetChildren().InBackground().Shared(most).ForPath(ctx, w.Dir)
}

// judge decides by the last list.
func (w *waiter) judge(context.Context) (state, error) {
	d := w.Order.Decide(w.name(), w.names)
	if d.Verdict != Missing {
		w.warn(w.name(), d)
		if hooks := w.Client.Hooks(); hooks.Queue != nil {
			w.queue = w.seen(w.names, d)
			hooks.Queue(*w.queue)
		}
	}
	w.names = nil // a waiter keeps no names
	switch d.Verdict {
	case Granted:
		return (*waiter).hold, nil
	case Wait:
	case Missing:
		if d.lost(w.confirmed) {
			return nil, errNodeLost
		}
		return (*waiter).relist, nil
	default:
		return nil, fmt.Errorf("%w (%s)", ErrSequenceExhausted, plain.Text(w.name()))
	}
	if !w.waits {
		return nil, notAcquired(d.Predecessor)
	}
	if w.OnWait != nil {
		w.OnWait(Position{Node: w.name(), Predecessor: d.Predecessor, Ahead: d.Ahead})
	}
	waiting := d // so that d needs no memory when it does not wait
	w.decision, w.waited = &waiting, true
	return (*waiter).wait, nil
}

// wait waits until the predecessor is gone. Then it holds, if that proves that it is the first, or has the directory listed.
func (w *waiter) wait(ctx context.Context) (next state, err error) {
	var ahead predecessor
	defer func() { err = w.gaveUp(ctx, ahead.node.Stat.EphemeralOwner, err) }()
	var reported func(error) // ends the hook Wait
	defer func() {
		if reported != nil {
			reported(err)
		}
	}()
	var armed bool
	ahead, armed, err = w.arm(ctx)
	defer func() { ahead.stop() }()
	switch {
	case err != nil:
		return nil, err
	case ahead.gone:
		return w.afterEvent(ctx, true, evidence{marked: markCreated(ahead.mark)})
	case !armed:
		return (*waiter).relist, nil
	}
	w.warnSessionless(ahead)
	reported = w.reportWait(ctx, ahead.node)
	timer := time.NewTimer(Jittered(w.session.Timeout()))
	defer timer.Stop()
	var check *recheck
	for {
		select {
		case ev := <-Events(w.own):
			if err := w.ownEvent(ev); err != nil {
				return nil, err
			}
			if check == nil { // another client has written to the node, or replaced it
				check = w.recheck(ctx)
			}
		case ev := <-Events(ahead.mark):
			ahead.mark = nil
			if ev.Type == framework.EventNodeCreated {
				ahead.node.Watch = nil // its event is on its way: to stop it now might take a request
				return w.afterEvent(ctx, false, evidence{marked: true})
			}
		case ev := <-ahead.events:
			if ev.Type == framework.EventEnd {
				return nil, sessionEnd(ev.Err)
			}
			gone := !ahead.isDirectory && ev.Type == framework.EventNodeDeleted
			return w.afterEvent(ctx, gone, evidence{gone: gone, marked: gone && markCreated(ahead.mark)})
		case <-timer.C:
			check = w.recheck(ctx)
		case <-check.done():
			if gone, err := check.result(); gone || err != nil {
				return (*waiter).relist, err
			}
			check = nil
			timer.Reset(Jittered(w.session.Timeout()))
		case <-w.session.Done():
			return nil, sessionEnd(context.Cause(w.session.Context()))
		case <-ctx.Done():
			return nil, w.Client.Left(ctx, nil)
		}
	}
}

// afterEvent returns the next state after an event ahead: gone reports whether the predecessor has been deleted. An
// event of the own node that came before, or not much later, is handled first.
func (w *waiter) afterEvent(ctx context.Context, gone bool, e evidence) (state, error) {
	d := w.decision
	if w.firstBefore != nil {
		// If a name in the directory is unusual, the order of the others is not known well enough.
		if gone && d.MarkProves && w.firstBefore(ctx, w.session, d.Predecessor) {
			return (*waiter).hold, nil
		}
		return (*waiter).relist, nil
	}
	select {
	case own := <-Events(w.own):
		return (*waiter).relist, w.ownEvent(own)
	default:
	}
	e.onlyAhead, e.ownWatched, e.sameConnection = d.OnlyAhead, w.own != nil, w.connections == w.session.Connections()
	if e.first() {
		return (*waiter).hold, nil
	}
	return (*waiter).relist, nil
}

// relist lists the directory, however long the connection is away: the place in line lasts as long as the session. Of many
// waiters of one client that need a list at the same time most share it, as newcomers do: all readers whose turn has come,
// or all waiters after a lost connection.
func (w *waiter) relist(ctx context.Context) (_ state, err error) {
	w.dirWatch.Stop()
	w.dirWatch, w.confirmed = nil, true
	err = Outlast(ctx, w.view, Outages, func(ctx context.Context) (err error) {
		w.connections = w.session.Connections()
		if w.unreadable != "" {
			w.names, w.dirWatch, err = w.view.GetChildren().WithWatch().ForPath(ctx, w.Dir)
			return err
		}
		list, err := Result(w.requestList(ctx, MostAtOnce))
		w.names = list.Names
		return err
	})
	if errors.Is(err, framework.ErrNoNode) {
		err = errNodeLost // the directory is gone, and the own node with it
	}
	return (*waiter).judge, err
}

// hold makes the first in line a holder.
func (w *waiter) hold(ctx context.Context) (state, error) {
	grant := &Grant{
		Session: w.session, Path: w.path, Name: w.name(), Czxid: w.czxid, Waited: w.waited,
		line: w.Line, marks: w.marksRelease(),
	}
	var ownWatchAfter time.Duration
	if w.own != nil {
		ownWatchAfter = -1 // joins ours
	}
	err := Holding(ctx, w.session, 1, w.waits, func(ctx context.Context) error { return w.Hold(ctx, ownWatchAfter, grant) })
	switch {
	case err == nil:
		w.grant = grant
		w.own.Stop()
		return nil, nil
	case ctx.Err() == nil && errors.Is(err, framework.ErrNodeDeleted): // else it may be why ctx has ended
		return nil, errNodeLost
	case !errors.Is(err, framework.ErrSuspended):
		return nil, err
	}
	// The first in line, but a lost connection is a loss by its policy.
	return (*waiter).relist, w.session.WaitQuorum(ctx)
}

// remove makes the client delete the node, if it may exist. That uses up the watch on it, without a request. If the
// node may have been replaced, it is read first.
func (w *waiter) remove() {
	switch {
	case w.path == "":
	case w.ownChanged:
		w.view.CheckExists().InBackground().ForPath(context.Background(), w.path).
			Then(func(node framework.ExistsResult, err error) {
				if err != nil || node.Stat != nil && w.isOwn(*node.Stat) {
					Remove(w.view, w.path)
				}
			})
	default:
		Remove(w.view, w.path)
	}
	if w.creating != nil {
		w.creating.Then(func(node framework.CreateResult, err error) {
			if err == nil {
				Remove(w.view, node.Path)
			}
		})
	}
}

// gaveUp adds the predecessor to an error, if ctx has ended; owner is the predecessor's session, if it is known. A
// caller that acquires again with another context than the lock's waits for itself.
func (w *waiter) gaveUp(ctx context.Context, owner int64, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	whose := ""
	if owner == w.session.ID() {
		whose = ", which is of this client"
		if !w.NoReentry {
			whose += " (to re-enter a lock, acquire with its Context)"
		}
	}
	return fmt.Errorf("%w; waiting behind node %s%s, with %d ahead in the queue",
		err, plain.Text(w.decision.Predecessor), whose, w.decision.Ahead)
}

// reportWait reports the wait to the hooks, and returns the function that reports its end; nil without hooks.
func (w *waiter) reportWait(ctx context.Context, predecessor framework.DataResult) func(error) {
	hooks := w.Client.Hooks()
	if hooks.Queue == nil {
		return nil
	}
	q := *w.queue
	q.PredecessorSession, q.PredecessorToken = predecessor.Stat.EphemeralOwner, predecessor.Stat.Czxid
	q.PredecessorData, _ = w.view.Unpacked(zkpath.Join(w.Dir, q.Predecessor), predecessor.Data)
	return hooks.Wait(ctx, q)
}

// warnSessionless logs, once for a node, that the predecessor's node goes with no session.
func (w *waiter) warnSessionless(p predecessor) {
	node := p.node.Stat
	if !p.isDirectory && node.EphemeralOwner == 0 && w.warnedSessionless.Swap(node.Czxid) != node.Czxid {
		w.Client.Logger().Warn("the predecessor's node is not ephemeral: waiting until it is deleted",
			"path", zkpath.Join(w.Dir, w.decision.Predecessor))
	}
}

// seen returns the content of a list for the hooks.
func (w *waiter) seen(children []string, d Decision) *framework.Queue {
	q := &framework.Queue{Recipe: w.Recipe, Path: w.Dir, Node: w.name(), Ahead: d.Ahead, Predecessor: d.Predecessor}
	for _, name := range children {
		if w.Order.Contender(name) {
			q.Length++
		} else {
			q.Foreign++
		}
	}
	if number, ok := w.Order.Number(w.name()); ok {
		q.SequenceLeft = max(Limit-number-1, 0)
	}
	return q
}

// Result waits for an operation that was queued with a separate context, which bounds it. A caller that stopped waiting
// earlier would leave the operation's watches behind.
func Result[T any](p *framework.Pending[T]) (T, error) { return p.Wait(context.Background()) }

// Unpacked returns the data of a node that were read Undecompressed with an error or none, as the client would read
// them; as they are if the client compresses and they are not compressed.
func Unpacked(client *framework.Client, path string, data []byte, err error) ([]byte, error) {
	if err != nil {
		return data, err
	}
	plain, err := client.UnpackedUpTo(path, data, math.MaxInt)
	if errors.Is(err, framework.ErrDecompressedTooLarge) {
		return nil, err
	}
	return plain, nil
}

// Remove makes the client delete a node, and does not wait: the client repeats that until it is done or the session has
// ended.
func Remove(view *framework.Client, path string) *framework.Pending[struct{}] {
	return view.Delete().Quietly().Guaranteed().InBackground().ForPath(context.Background(), path)
}
