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
// It relies on this: events and replies come in the order in which the server sent them, except that a reply may be
// late, because its callback is registered after the request was sent. So if an event arrives while a read is in
// flight, the reply may be older than the event, and the node is read again.
type engine struct {
	cfg    config
	store  *store
	ctx    context.Context // ends with the cache; its cause is the cache's error
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	inbox  *flow.Queue[post]
	sync   syncState

	// Used by the cache's goroutine only:
	batch   []post             // taken from the inbox, to be run now
	session *framework.Session // nil between sessions
	view    *framework.Client  // the client view of session
	way     way                // the method of watching; replies for another way are ignored
	reads   reads
	stale   staleStats
	retries retries
	showing showing
}

func start(cfg config) *engine {
	e := &engine{
		cfg:     cfg,
		store:   newStore(cfg.root, cfg.hideRoot),
		inbox:   flow.NewQueue[post](),
		reads:   newReads(),
		stale:   staleStats{nodes: map[*node]bool{}},
		retries: retries{wait: retryFirst},
		showing: showing{loose: true},
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.way = e.newWay()
	e.store.gone = e.forget
	e.sync.progressed(1, 1, failure{})
	if cfg.snapshot != nil {
		e.adopt(cfg.snapshot)
		e.cfg.snapshot = nil
	}
	e.wg.Go(e.run)
	return e
}

// unmade is the engine of the zero value of a cache: a cache that has ended.
var unmade = func() *engine {
	e := &engine{store: newStore("", false), cancel: func(error) {}}
	e.store.end(framework.ErrNoClient)
	e.sync.end(framework.ErrNoClient)
	return e
}()

func (e *engine) made() *engine {
	if e == nil {
		return unmade
	}
	return e
}

func (e *engine) close() {
	e.cancel(ErrClosed)
	e.wg.Wait()
}

func (e *engine) run() {
	states := e.cfg.client.StateChanges(e.ctx)
	e.connect()
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer e.finish() // also if a user function ends the goroutine
	for e.ctx.Err() == nil {
		var lost <-chan struct{}
		if e.session != nil {
			lost = e.session.Done()
		}
		select {
		case <-e.inbox.More():
			// A reconnect is reported before the changes that it revealed.
			select {
			case state, ok := <-states:
				e.heard(state, ok)
			default:
			}
			for e.batch = e.inbox.Take(); len(e.batch) > 0; {
				p := e.batch[0]
				e.batch = e.batch[1:]
				e.do(p)
			}
		case state, ok := <-states:
			e.heard(state, ok)
		case <-lost:
			e.sessionOver()
		case <-timer.C:
			e.timeHasCome()
		case <-e.ctx.Done():
		}
		e.way.tidy()
		if e.ctx.Err() == nil {
			e.pump()
			e.settled()
			e.retryIfRoomier()
			e.schedule(timer)
		}
	}
}

// errGoexit is the error of a cache whose goroutine was ended by a function that it called.
var errGoexit = fmt.Errorf("%w: a filter, a decoder or a hook ended the cache's goroutine by "+
	"runtime.Goexit (as t.FailNow does)", ErrClosed)

// finish ends the cache: it removes its watches from the server, and ends all streams and waits.
func (e *engine) finish() {
	e.cancel(errGoexit) // has no effect if the cache has ended before
	err := context.Cause(e.ctx)
	defer e.sync.end(err)
	defer e.store.end(err)
	last := e.way
	last.stop()
	// Answers that were not handled may have set watches. With a new way these count as foreign and are
	// stopped.
	e.way = e.newWay()
	for _, p := range append(e.batch, e.inbox.Close()...) {
		e.do(p)
	}
	last.tidy()
}

func (e *engine) log() *slog.Logger { return e.cfg.client.Logger() }

// post is a function for the engine's goroutine to run.
type post struct {
	f     func()
	way   way     // if not nil, f runs only while the cache still uses this way
	watch stopper // if not nil, stopped if f does not run
}

// stopper is a watch, or several.
type stopper interface{ Stop() }

func (e *engine) do(p post) {
	switch {
	case p.way == nil || p.way == e.way:
		p.f()
	case p.watch != nil:
		p.watch.Stop()
	}
}

func (e *engine) post(f func()) { e.inbox.Put(post{f: f}) }

// answer posts a function for a way, with a watch that the reply may have set.
func (e *engine) answer(w way, watch stopper, f func()) {
	if !e.inbox.Put(post{f, w, watch}) && watch != nil {
		watch.Stop()
	}
}

// connect waits for a session, on another goroutine.
func (e *engine) connect() {
	e.wg.Go(func() {
		s, err := e.cfg.client.Session(e.ctx)
		e.post(func() { e.connected(s, err) })
	})
}

func (e *engine) connected(s *framework.Session, err error) {
	switch {
	case e.ctx.Err() != nil: // the cache has ended
	case err != nil:
		e.cancel(err)
	default:
		e.session, e.view = s, s.Client().ForRecipes()
		e.showing.told.begin(s)
		e.begin(e.newWay())
	}
}

// begin starts to watch and to load, in a new session or in another way.
func (e *engine) begin(w way) {
	e.way = w
	e.reads.reset()
	e.showing.since = time.Time{}
	e.store.walk(func(n *node) { e.apply(n, wayBegun) })
	e.way.begin()
	e.load()
}

// sessionOver handles the end of the session. The cache keeps its nodes; they are compared in the next
// session.
func (e *engine) sessionOver() {
	e.session, e.view, e.way = nil, nil, e.newWay()
	e.reads.reset()
	e.showing.tellAt = time.Time{} // subscribers wait for the connections of the next session now
	e.sync.set(false)
	e.connect()
}

// load makes the cache read every node, or compare it if it was read before, and every node found below.
func (e *engine) load() {
	e.sync.set(false)
	e.sync.about(e.session)
	e.store.walk(func(n *node) { e.apply(n, gapFound) })
}

func (e *engine) pump() {
	if e.session != nil && !e.reads.halted && e.reads.pausedUntil.IsZero() {
		e.way.pump()
	}
}

// settled shows the nodes that are complete, and ends the wait for sync if nothing more has to be read.
func (e *engine) settled() {
	e.sync.progressed(e.store.known, e.reads.awaited, e.store.failures[e.store.top])
	switch kept := len(e.store.draft.nodes) > 0; {
	case e.exact(0):
		e.show(false)
	case e.showing.loose, e.idle():
		e.show(true)
	case kept && e.showing.since.IsZero():
		e.showing.since = time.Now()
	}
	if e.current() && len(e.store.draft.nodes) == 0 && !e.sync.is() {
		e.store.loaded()
		e.sync.set(true)
	}
}

// forget drops a node that has left the tree. The store calls it, with its lock held.
func (e *engine) forget(n *node) {
	e.way.forget(n)
	e.apply(n, nodeRemoved)
	delete(e.stale.nodes, n)
}

// heard handles a change of the connection; ok is false when there will be no more.
func (e *engine) heard(state framework.StateChange, ok bool) {
	if !ok {
		e.cancel(framework.ErrClosed) // has no effect if the cache has ended before
		return
	}
	e.showing.told.hear(state)
	e.store.connected(state)
	again := state.State.IsConnected() && state.State != framework.Connected
	if again && e.session != nil && state.Epoch == e.session.Epoch() {
		e.way.reconnected()
	}
}

func (e *engine) schedule(timer *time.Timer) {
	var next time.Time
	for _, at := range []time.Time{
		e.stale.at, e.retries.at, e.way.next(), e.showing.tellAt, e.reads.pausedUntil,
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

func (e *engine) timeHasCome() {
	now := time.Now()
	if due(&e.stale.at, now) {
		for n := range e.stale.nodes {
			e.apply(n, lookWanted)
		}
		clear(e.stale.nodes)
	}
	if due(&e.retries.at, now) {
		e.retry()
	}
	if e.session != nil {
		e.way.timeHasCome(now)
		if due(&e.showing.tellAt, now) {
			e.showing.told.all(e.session)
		}
	}
	due(&e.reads.pausedUntil, now)
}

// due reports whether the time at has come; if so it clears at.
func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || now.Before(*at) {
		return false
	}
	*at = time.Time{}
	return true
}

// descends reports whether a node's children belong to the cache.
func (e *engine) descends(n *node) bool {
	if e.cfg.maxDepth >= 0 && n.depth() >= e.cfg.maxDepth {
		return false
	}
	return e.cfg.traverse == nil || e.cfg.traverse(e.store.path(n))
}

// accepts reports whether n's child of that name belongs to the cache, if n descends.
func (e *engine) accepts(n *node, name string) bool {
	return e.cfg.accept == nil || e.cfg.accept(childPath(e.store.path(n), name))
}
