package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/flow"
)

// ErrClosed means that the cache was closed.
var ErrClosed = errors.New("cache closed")

// engine is the goroutine that owns a cache. Other goroutines post functions to it. It waits only for the
// next post, a change of the connection, the end of the session, or a timer; its own requests run in the
// background.
//
// It relies on this: events and replies come in the order in which the server sent them, since one goroutine calls the
// callbacks of both ([framework.Client.ForRecipes]), and EventReset comes before every reply of its connection. But a
// reply may be late: see nodeState. The client retries no read in the background: a read that fails is queued again.
type engine struct {
	cfg    config
	store  *nodeStore
	ctx    context.Context // ends with the cache; its cause is the cache's error
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	inbox  *flow.Queue[engineCall]
	sync   syncState

	// Used by the cache's goroutine only:
	batch      []engineCall       // taken from the inbox, to be run now
	session    *framework.Session // nil between sessions
	view       *framework.Client  // the client view of session
	watching   watchStrategy      // replies for another one are ignored
	reads      readScheduler
	stale      staleStats
	retries    retrySchedule
	publishing publishState
	following  *following // nil without one
}

func startEngine(cfg config) *engine {
	e := &engine{
		cfg:     cfg,
		store:   newStore(cfg.root, cfg.hideRoot),
		inbox:   flow.NewQueue[engineCall](),
		reads:   newReadScheduler(),
		stale:   staleStats{nodes: map[*treeNode]bool{}},
		retries: retrySchedule{wait: retryFirst},
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.watching = e.newStrategy()
	e.store.onRemove = e.forgetNode
	e.sync.setProgress(1, 1, readFailure{})
	if cfg.snapshot != nil {
		e.adoptSnapshot(cfg.snapshot)
		e.cfg.snapshot = nil
	}
	e.wg.Go(e.run)
	return e
}

// endedEngine is the engine of the zero value of a cache: a cache that has ended.
var endedEngine = func() *engine {
	e := &engine{store: newStore("", false), cancel: func(error) {}}
	e.store.endStreams(framework.ErrNoClient)
	e.sync.endWaits(framework.ErrNoClient)
	return e
}()

func (e *engine) close() {
	e.cancel(ErrClosed)
	e.wg.Wait()
}

func (e *engine) run() {
	states := e.cfg.client.StateChanges(e.ctx)
	e.awaitSession()
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer e.endCache() // also if a user function ends the goroutine
	for e.ctx.Err() == nil {
		var lost <-chan struct{}
		if e.session != nil {
			lost = e.session.Done()
		}
		select {
		case <-e.inbox.More():
			// A reconnect is reported before the changes that it revealed. (If several are queued, publish.go waits for them:
			// reportedConnections.)
			select {
			case state, ok := <-states:
				e.handleState(state, ok)
			default:
			}
			for e.batch = e.inbox.Take(); len(e.batch) > 0; {
				p := e.batch[0]
				e.batch = e.batch[1:]
				e.runCall(p)
			}
		case state, ok := <-states:
			e.handleState(state, ok)
		case <-lost:
			e.handleSessionEnd()
		case <-timer.C:
			e.handleTimer()
		case <-e.ctx.Done():
		}
		e.watching.removeForgotten()
		if e.ctx.Err() == nil {
			e.sendReads()
			e.updateSync()
			e.retryIfSmaller()
			if e.following != nil {
				e.following.receiveEvents()
			}
			e.scheduleTimer(timer)
		}
	}
}

var errGoexit = fmt.Errorf("%w: a filter, a decoder or a hook ended the cache's goroutine by "+
	"runtime.Goexit (as t.FailNow does)", ErrClosed)

// endCache ends the cache: it removes its watches from the server, and ends all streams and waits.
func (e *engine) endCache() {
	e.cancel(errGoexit) // has no effect if the cache has ended before
	err := context.Cause(e.ctx)
	defer e.sync.endWaits(err)
	defer e.store.endStreams(err)
	last := e.watching
	last.stopWatching()
	// Replies that were not handled may have set watches. runCall stops them, because they are for another strategy.
	e.watching = e.newStrategy()
	for _, p := range append(e.batch, e.inbox.Close()...) {
		e.runCall(p)
	}
	last.removeForgotten()
	if e.following != nil {
		e.following.end()
	}
}

func (e *engine) logger() *slog.Logger { return e.cfg.client.Logger() }

// engineCall is a function for the engine's goroutine to run.
type engineCall struct {
	run      func()
	watching watchStrategy // if not nil, run is called only while the cache still uses it
	watch    watchStopper  // if not nil, stopped if run is not called
}

type watchStopper interface{ Stop() }

func (e *engine) runCall(p engineCall) {
	switch {
	case p.watching == nil || p.watching == e.watching:
		p.run()
	case p.watch != nil:
		p.watch.Stop()
	}
}

func (e *engine) postCall(f func()) { e.inbox.Put(engineCall{run: f}) }

// postReply posts a function for a strategy, with a watch that the reply may have set.
func (e *engine) postReply(w watchStrategy, watch watchStopper, f func()) {
	if !e.inbox.Put(engineCall{f, w, watch}) && watch != nil {
		watch.Stop()
	}
}

func (e *engine) awaitSession() {
	e.wg.Go(func() {
		s, err := e.cfg.client.Session(e.ctx)
		e.postCall(func() { e.handleSession(s, err) })
	})
}

func (e *engine) handleSession(s *framework.Session, err error) {
	switch {
	case e.ctx.Err() != nil:
	case err != nil:
		e.cancel(err)
	default:
		e.session, e.view = s, s.Client().ForRecipes()
		e.publishing.reported.startSession(s)
		e.startStrategy(e.newStrategy())
	}
}

// startStrategy starts to watch and to compare, in a new session or with another strategy.
func (e *engine) startStrategy(w watchStrategy) {
	e.watching = w
	e.reads.reset()
	e.publishing.withheldSince = time.Time{}
	e.store.walkNodes(func(n *treeNode) { e.applyInput(n, strategyStarted) })
	e.watching.startWatching()
	e.compareTree()
}

// handleSessionEnd keeps the nodes, for a comparison in the next session.
func (e *engine) handleSessionEnd() {
	e.session, e.view, e.watching = nil, nil, e.newStrategy()
	e.reads.reset()
	e.publishing.publishAt = time.Time{} // subscribers wait for the connections of the next session now
	e.awaitSession()
}

// compareTree makes the cache read every node, or compare it if it was read before, and read all nodes found below: at first the
// root alone.
func (e *engine) compareTree() {
	e.sync.beginSync(e.session)
	e.store.walkNodes(func(n *treeNode) { e.applyInput(n, gapFound) })
}

func (e *engine) sendReads() {
	if e.session != nil && !e.reads.halted && e.reads.pausedUntil.IsZero() {
		e.watching.sendReads()
	}
}

// updateSync publishes the changes unless they have to be withheld, and records whether the cache is in sync.
func (e *engine) updateSync() {
	e.sync.setProgress(e.store.nodeCount, e.reads.awaited, e.store.failed[e.store.top])
	switch withheld := len(e.store.draft.nodes) > 0; {
	case e.isTreeExact(0):
		e.publishChanges(false)
	case e.store.loose, e.isReadIdle():
		e.publishChanges(true)
	case withheld && e.publishing.withheldSince.IsZero():
		e.publishing.withheldSince = time.Now()
	}
	if e.isTreeLoaded() && len(e.store.draft.nodes) == 0 && !e.sync.wasSynced() {
		e.store.setInitialized()
		e.sync.setSynced()
	}
}

// forgetNode drops a node that has left the tree. The store calls it, with its lock held.
func (e *engine) forgetNode(n *treeNode) {
	e.watching.forgetWatches(n)
	e.applyInput(n, nodeRemoved)
	delete(e.stale.nodes, n)
}

// handleState handles a change of the connection; ok is false when there will be no more.
func (e *engine) handleState(state framework.StateChange, ok bool) {
	if !ok {
		e.cancel(framework.ErrClosed) // has no effect if the cache has ended before
		return
	}
	e.publishing.reported.countConnection(state)
	e.store.setConnection(state)
	reconnected := state.State.IsConnected() && state.State != framework.Connected
	if reconnected && e.session != nil && state.Epoch == e.session.Epoch() {
		e.watching.handleReconnect()
	}
}

func (e *engine) scheduleTimer(timer *time.Timer) {
	var next time.Time
	for _, at := range []time.Time{
		e.stale.refreshAt, e.retries.nextAttempt, e.watching.nextTimer(), e.publishing.publishAt, e.reads.pausedUntil,
		e.following.dueAt(),
	} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(next))
}

func (e *engine) handleTimer() {
	now := time.Now()
	if clearIfDue(&e.stale.refreshAt, now) {
		for n := range e.stale.nodes {
			e.applyInput(n, compareWanted)
		}
		clear(e.stale.nodes)
	}
	if clearIfDue(&e.retries.nextAttempt, now) {
		e.retryFailed()
	}
	if e.session != nil {
		e.watching.handleTimer(now)
		if clearIfDue(&e.publishing.publishAt, now) {
			e.publishing.reported.assumeAllReported(e.session)
		}
	}
	clearIfDue(&e.reads.pausedUntil, now)
}

// clearIfDue reports whether the time at has come; if so it clears at.
func clearIfDue(at *time.Time, now time.Time) bool {
	if at.IsZero() || now.Before(*at) {
		return false
	}
	*at = time.Time{}
	return true
}

// includesChildren reports whether a node's children belong to the cache.
func (e *engine) includesChildren(n *treeNode) bool {
	if e.cfg.maxDepth >= 0 && n.depth() >= e.cfg.maxDepth {
		return false
	}
	return e.cfg.traverse == nil || e.cfg.traverse(e.store.pathOf(n))
}

// acceptsChild reports whether n's child of that name belongs to the cache, if n's children do.
func (e *engine) acceptsChild(n *treeNode, name string) bool {
	return e.cfg.accept == nil || e.cfg.accept(childPath(e.store.pathOf(n), name))
}
