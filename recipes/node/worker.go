package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/chance"
	"github.com/go-curator/curator/recipes/internal/line"
)

// keeperWorker is the keeper's goroutine: it executes the machine's actions, one at a time, each on a separate
// goroutine, and handles all other events at the same time.
type keeperWorker struct {
	keeper  *Keeper
	client  *framework.Client
	mode    framework.CreateMode
	ttl     time.Duration
	path    string // empty while a sequential node has no name
	results chan attemptResult

	machine        stateMachine
	session        *framework.Session
	formerSessions []int64 // ids of earlier sessions that may have left a node
	armedWatch     *framework.Watch
	foreignStatus  Status      // Other and Owner of the node that was found last
	warnedSession  int64       // the session whose node was logged; -1 if none was
	lastErr        error       // of the last failed attempt
	lastSent       nodeContent // data of the last create or replace
}

// actionAttempt is an action, with the worker's state when it began.
type actionAttempt struct {
	keeperAction
	keeper         *Keeper
	mode           framework.CreateMode
	ttl            time.Duration
	path           string
	session        *framework.Session
	formerSessions []int64
	machine        stateMachine
}

type attemptResult struct {
	machineEvent
	err         error
	path        string
	owner       int64
	sentContent nodeContent
	session     *framework.Session
	watch       *framework.Watch
}

// maxFormerSessions is the number of earlier sessions that are remembered: older ones have been closed by the client,
// or have expired.
const maxFormerSessions = 8

func newWorker(k *Keeper, cfg *config) *keeperWorker {
	w := &keeperWorker{
		keeper: k, client: k.client, mode: cfg.mode, ttl: cfg.ttl, path: k.path,
		results: make(chan attemptResult, 1), warnedSession: -1,
	}
	switch {
	case w.mode == framework.EphemeralSequential, w.mode == framework.PersistentSequential:
		w.path = ""
	case cfg.protected:
		w.path = protectedPath(k.path)
	}
	w.machine = stateMachine{
		persistent:    w.mode != framework.Ephemeral && w.mode != framework.EphemeralSequential,
		outlivesClose: cfg.ttl > 0,
		pathKnown:     w.path != "",
		mayTakeOver:   cfg.takeover == AtStart,
		uniquePath:    w.path != k.path,
	}
	return w
}

func (w *keeperWorker) run() {
	defer close(w.keeper.done)
	ctx, cancel := context.WithCancel(context.Background())
	var touching sync.WaitGroup
	if w.ttl > 0 {
		touching.Go(func() { w.keeper.touchChild(ctx, w.ttl) })
	}
	defer touching.Wait()
	defer cancel()
	states := w.client.StateChanges(ctx)
	pauseTimer, recheckTimer := time.NewTimer(0), time.NewTimer(0)
	pauseTimer.Stop()
	defer pauseTimer.Stop()
	defer recheckTimer.Stop()
	defer func() { w.armedWatch.Stop() }()
	for e := (machineEvent{kind: maybeChanged}); ; e = w.awaitEvent(&states, pauseTimer, recheckTimer) {
		var a keeperAction
		w.machine, a = w.machine.next(e)
		w.publishStatus()
		switch a {
		case waitForEvent:
		case startPause:
			pauseTimer.Reset(w.pauseLength())
		case stopWorker:
			w.publishEnd()
			return
		default:
			j := actionAttempt{a, w.keeper, w.mode, w.ttl, w.path, w.session, w.formerSessions, w.machine}
			go j.run(ctx, w.results)
		}
	}
}

func (w *keeperWorker) awaitEvent(states *<-chan framework.StateChange, pauseTimer, recheckTimer *time.Timer) machineEvent {
	recheckTimer.Reset(line.SessionTimeoutInterval(w.client)())
	for {
		select {
		case r := <-w.results:
			return w.recordResult(r)
		case <-w.keeper.inbox.More():
			// The number of requests does not matter, and closing overrides all others.
			if all := w.keeper.inbox.Take(); slices.Contains(all, closeRequested) {
				return machineEvent{kind: closeRequested}
			} else if len(all) > 0 {
				return machineEvent{kind: newDataSet}
			}
		case change, more := <-*states:
			if !more {
				*states = nil
				return machineEvent{kind: maybeChanged, final: true}
			}
			if e, relevant := w.connectionEvent(change); relevant {
				return e
			}
		case ev, fired := <-line.WatchEvents(w.armedWatch):
			w.armedWatch = nil // used up
			if fired && ev.Type == framework.EventNodeDeleted {
				return machineEvent{kind: deletionReported}
			}
			return machineEvent{kind: maybeChanged}
		case <-pauseTimer.C:
			return machineEvent{kind: pauseEnded}
		case <-recheckTimer.C: // events can get lost: servers drop events of nodes that the client may not read
			return machineEvent{kind: maybeChanged}
		}
	}
}

func (w *keeperWorker) connectionEvent(change framework.StateChange) (e machineEvent, relevant bool) {
	e.epoch = change.Epoch
	switch change.State {
	case framework.Connected, framework.Reconnected:
		e.kind = connected
	case framework.Suspended, framework.ReadOnly:
		e.kind = suspended
	case framework.Lost:
		e.kind, e.final = sessionLost, w.client.Err() != nil // client may be the view of a session
	default:
		return e, false
	}
	return e, true
}

func (w *keeperWorker) pauseLength() time.Duration {
	n := min(max(w.machine.failures, 1), 10)
	if w.machine.lastingRefusal {
		return chance.UpTo(min(100*time.Millisecond<<(n-1), 10*time.Second))
	}
	return chance.UpTo(min(10*time.Millisecond<<n, time.Second))
}

// run executes the action, on a separate goroutine.
func (j *actionAttempt) run(ctx context.Context, results chan<- attemptResult) {
	r := attemptResult{machineEvent: machineEvent{kind: attemptFailed}, session: j.session} // if the user's code does not return
	defer func() { results <- r }()
	if j.keeperAction == joinSession {
		r.kind = sessionJoined
		r.session, r.err = j.keeper.client.Session(ctx)
	} else {
		j.sendRequest(&r)
	}
	r.epoch = r.session.Epoch() // 0 without a session
	if r.err != nil {
		r.kind, r.final = j.eventForError(r.err), j.keeper.client.Err() != nil
		r.outcomeUnknown = errors.Is(r.err, framework.ErrOutcomeUnknown)
	}
}

// sendRequest makes one attempt in the session.
func (j *actionAttempt) sendRequest(r *attemptResult) {
	view, ctx := j.session.Client(), context.Background() // the requests end with the session
	switch j.keeperAction {
	case createNode:
		r.sentContent = j.keeper.loadWanted()
		if j.ttl > 0 {
			r.kind, r.path = nodeCreated, j.path
			r.czxid, r.err = createTTLNode(ctx, view, j.path, r.sentContent.data, j.ttl)
			return
		}
		builder, path := view.Create().WithMode(modeWithoutNumber(j.mode)), j.path
		if path == "" {
			if j.machine.persistent { // the client, unlike the view, also looks for a node made in a lost session
				view = j.keeper.client
			}
			builder, path = view.Create().WithMode(j.mode).WithProtection(), j.keeper.path
		}
		var node framework.CreateResult
		node, r.err = line.AwaitResult(builder.CreatingParentContainersIfNeeded().InBackground().
			ForPath(ctx, path, r.sentContent.data))
		r.kind, r.path, r.czxid = nodeCreated, node.Path, node.Stat.Czxid
	case readOwner:
		if j.machine.needsCatchUp() {
			if r.err = catchUpServer(ctx, view, j.path); r.err != nil {
				return
			}
		}
		var found framework.ExistsResult
		found, r.err = line.AwaitResult(view.CheckExists().WithWatch().InBackground().ForPath(ctx, j.path))
		var stat *framework.Stat
		stat, r.err = line.StatOwnNode(ctx, view, j.path, found.Stat, r.err)
		if r.watch, r.kind = found.Watch, nodeAbsent; stat != nil {
			r.kind, r.czxid, r.version = nodeFound, stat.Czxid, stat.Version
			r.owner = stat.EphemeralOwner
			r.ownedBy = ownerOf(r.owner, j.session.ID(), j.machine.persistent, j.formerSessions)
		}
	case setData:
		r.sentContent = j.keeper.loadWanted()
		var stat framework.Stat
		stat, r.err = line.AwaitResult(view.SetData().WithVersion(j.machine.version).InBackground().
			ForPath(ctx, j.path, r.sentContent.data))
		r.kind, r.version = dataWritten, stat.Version
	case replaceNode:
		r.sentContent = j.keeper.loadWanted()
		to := view.TransactionOp()
		_, r.err = line.AwaitResult(view.TransactionInBackground(ctx,
			to.Delete().WithVersion(j.machine.version).ForPath(j.path),
			to.Create().WithMode(modeWithoutNumber(j.mode)).ForPath(j.path, r.sentContent.data)))
		r.kind, r.path = nodeCreated, j.path
	case removeNode:
		_, r.err = line.AwaitResult(view.Delete().WithVersion(j.machine.version).InBackground().ForPath(ctx, j.path))
		r.err = line.IgnoreError(r.err, framework.ErrNoNode)
		r.kind = nodeRemoved
	}
}

// modeWithoutNumber returns the mode for a node whose name has its number already.
func modeWithoutNumber(mode framework.CreateMode) framework.CreateMode {
	switch mode {
	case framework.EphemeralSequential:
		return framework.Ephemeral
	case framework.PersistentSequential:
		return framework.Persistent
	}
	return mode
}

// ownerOf returns the owner of a node with this ephemeral owner, in a session with that id.
func ownerOf(owner, session int64, persistent bool, earlier []int64) nodeOwner {
	switch {
	case persistent && owner == 0, !persistent && owner == session:
		return ownSession
	case owner == 0:
		return noSession
	case slices.Contains(earlier, owner):
		return formerSession
	}
	return anotherSession
}

func (j *actionAttempt) eventForError(err error) eventKind {
	conflict := errors.Is(err, framework.ErrNodeExists) || errors.Is(err, framework.ErrBadVersion) ||
		j.keeperAction != createNode && errors.Is(err, framework.ErrNoNode)
	switch {
	case errors.Is(err, framework.ErrClosed):
		return attemptFailed
	case errors.Is(err, framework.ErrSessionLost):
		return attemptOrphaned
	case isTransient(err):
		return attemptFailed
	case conflict && !errors.Is(err, framework.ErrOutcomeUnknown):
		return stateConflict
	}
	return requestRejected
}

// catchUpServer makes the server execute a write. A read after it is not older than the effect of any earlier request
// of the session whose reply was lost, which a member that lags might not show otherwise.
func catchUpServer(ctx context.Context, view *framework.Client, path string) error {
	_, err := line.AwaitResult(view.TransactionInBackground(ctx, view.TransactionOp().Check().ForPath(path)))
	if err != nil && !isTransient(err) && !errors.Is(err, framework.ErrSessionLost) &&
		!errors.Is(err, framework.ErrClosed) {
		return nil // a refusal is as good: it comes in the same order
	}
	return err
}

// isTransient reports whether an error concerns the connection to servers that can write, or a server without a quorum.
func isTransient(err error) bool {
	return framework.Retryable(err) || errors.Is(err, framework.ErrNotReadOnly)
}

// recordResult returns the event for a result, and keeps its watch, session and path.
func (w *keeperWorker) recordResult(r attemptResult) machineEvent {
	if r.watch != nil {
		w.armedWatch.Stop() // after the next one is armed, which costs no request
		w.armedWatch = r.watch
	}
	logged := w.lastErr != nil && r.err != nil && w.lastErr.Error() == r.err.Error()
	switch {
	case r.err != nil && r.kind != stateConflict:
		w.lastErr = r.err
	case r.ownedBy == ownSession, r.kind == dataWritten:
		w.lastErr = nil
	}
	if w.machine.inFlight == createNode || w.machine.inFlight == replaceNode {
		w.lastSent = r.sentContent
	}
	switch r.kind {
	case sessionJoined:
		if w.session != nil && w.session.ID() != r.session.ID() && w.machine.mayLeaveNode() {
			remembered := w.formerSessions[max(0, len(w.formerSessions)+1-maxFormerSessions):]
			w.formerSessions = append(slices.Clone(remembered), w.session.ID())
		}
		w.session = r.session
	case nodeCreated:
		w.path = r.path
		r.latestData = w.keeper.recordWritten(r.sentContent)
	case nodeFound:
		w.foreignStatus = Status{Other: r.ownedBy != ownSession, Owner: r.owner}
		if r.ownedBy == ownSession && w.machine.isOwnCreate(r.version) {
			w.keeper.recordWritten(w.lastSent)
		}
	case dataWritten:
		r.latestData = w.keeper.recordWritten(r.sentContent)
	case requestRejected:
		if !logged {
			w.client.Logger().Warn("cannot create or update a kept node", "path", w.keeper.path, "err", r.err)
		}
		r.latestData = w.keeper.recordRefused(r.sentContent, r.err)
	}
	return r.machineEvent
}

func (w *keeperWorker) publishStatus() {
	s := Status{State: w.machine.nodeState(), Path: w.path, Err: w.lastErr}
	var refusal error
	switch s.State {
	case There:
		s.Czxid, w.warnedSession = w.machine.ownCzxid, -1
	case Missing:
		if w.machine.known == foreignNode {
			s.Other, s.Owner = w.foreignStatus.Other, w.foreignStatus.Owner
			if w.machine.nextAction() != replaceNode && !w.machine.ofFormerSession && w.warnedSession != s.Owner {
				w.warnedSession = s.Owner
				w.client.Logger().Warn("a node with another ephemeralOwner is at the path of a kept node; waiting until it is deleted",
					"path", w.path, "session", fmt.Sprintf("%#x", s.Owner))
			}
			if !w.machine.otherEphemeral {
				s.Err = errForeignNode
				refusal = s.Err
			}
		}
	}
	if w.machine.lastingRefusal {
		refusal = w.lastErr
	}
	w.keeper.setStatus(s, !w.machine.dataOutdated, refusal, false)
}

// publishEnd publishes the final status; the goroutine ends after it.
func (w *keeperWorker) publishEnd() {
	why := error(ErrClosed)
	if w.machine.finished {
		if w.keeper.closeErr = w.client.Err(); w.keeper.closeErr == nil { // the server has refused to delete it
			w.keeper.closeErr = w.lastErr
		} else {
			why = w.keeper.closeErr
		}
	}
	w.keeper.setStatus(Status{State: Missing, Path: w.path, Err: why}, false, why, true)
}
