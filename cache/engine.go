package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
)

// ErrClosed says that the cache was closed.
var ErrClosed = errors.New("cache closed")

// engine is the goroutine that owns a cache. Whatever happens elsewhere is posted to it as a function; it never waits for anything but the next
// post, a change of the connection, the end of the session, or time. What it wants to know it asks for in the background.
//
// What it relies on: events and answers come in the order in which the server sent them, except that an answer may be late, because its callback is
// registered when the request is on its way already. So an answer to a question that was open when an event came may be older than the event, and is
// asked again.
type engine struct {
	cfg    config
	client *framework.Client
	log    *slog.Logger
	store  *store
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	inbox  inbox
	unread unread
	sync   syncState

	// For Progress.
	known, open atomic.Int64

	// Of the goroutine only.
	ended    error
	batch    []func()           // of the inbox, to be done now
	session  *framework.Session // nil between sessions
	view     *framework.Client  // of the session
	lost     <-chan struct{}    // the end of the session
	life     int                // counts sessions, and switches of the way of watching: answers of an earlier life are of no interest
	oneShot  bool               // no persistent watch
	armed    bool               // the server has confirmed the persistent watch
	armAt    time.Time          // try again to set it
	missed   bool               // it was not there for a while: load when it is
	losses   int                // connections lost in a row over setting it
	guessed  bool               // oneShot is no more than a guess, for this session
	watch    *framework.Watch   // the persistent watch
	shots    map[*node]shots    // one-shot watches
	doomed   []shots            // those of nodes that are gone
	reads    reads
	counted  int       // nodes that the load, or the comparison after a gap, waits for
	zxid     int64     // the server's, when it gave the last answer before which there was no gap; 0 if unknown
	probing  bool      // there was a gap, and the server has been asked for its zxid
	probes   int       // how often it has been asked
	probeAt  time.Time // ask again
	catching bool      // one-shot watches may be telling what they have missed
	suspect  *identity // the root, when the server said that it has changed

	stale   map[*node]bool // children have come or gone: read the Stat again, by and by; true: the read that is under way may not show it
	staleAt time.Time
	trouble map[*node]trouble // what could not be read
	retryAt time.Time
	retryIn time.Duration
	full    int  // bytes held when there was no room for a node, 0 if there was
	roomier bool // there are fewer since

	complaints complaints

	loose   bool      // changes are shown as they are read: see draft.go
	draftAt time.Time // since when some are kept back
	answers int       // how many there have been since
	told    told      // what subscribers know of the session's connections
	tellAt  time.Time // show what came by the latest all the same
}

// identity is what changes with every change of a node.
type identity struct{ czxid, mzxid int64 }

type trouble struct {
	err   error
	again bool // it is worth trying
}

const (
	// staleAfter is how long a node's Stat may lag behind when children have gone, so that many of them cost one read.
	staleAfter = time.Second
	// Nodes that cannot be read are tried again after retryFirst, then ever more slowly.
	retryFirst, retryMost = time.Second, time.Minute
)

func start(client *framework.Client, cfg config) *engine {
	e := &engine{
		cfg: cfg, client: client, log: client.Logger(), store: newStore(cfg.root, cfg.hideRoot), oneShot: cfg.oneShot,
		shots: map[*node]shots{}, stale: map[*node]bool{}, trouble: map[*node]trouble{}, retryIn: retryFirst, loose: true,
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.store.gone = e.forget
	e.inbox.more = make(chan struct{}, 1)
	e.sync.changed = make(chan struct{})
	e.reads.init()
	e.known.Store(1)
	e.open.Store(1)
	e.wg.Go(e.run)
	return e
}

// unmade is the engine of the zero value of a cache, which has ended before it began.
var unmade = func() *engine {
	e := &engine{store: newStore("", false), cancel: func() {}}
	e.sync.changed = make(chan struct{})
	e.store.end(framework.ErrNoClient)
	e.sync.end(framework.ErrNoClient)
	return e
}()

// made is e, or unmade if there is none.
func (e *engine) made() *engine {
	if e == nil {
		return unmade
	}
	return e
}

// close ends the cache and waits for its goroutines.
func (e *engine) close() {
	e.cancel()
	e.wg.Wait()
}

func (e *engine) run() {
	states := e.client.StateChanges(e.ctx)
	e.connect()
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer e.over() // also if a function of the user's ends the goroutine
	for e.ended == nil {
		select {
		case <-e.inbox.more:
			// Who hears of changes shall have heard of the reconnect that brought them.
			select {
			case state, ok := <-states:
				states = e.heard(states, state, ok)
			default:
			}
			for e.batch = e.inbox.take(); len(e.batch) > 0; {
				f := e.batch[0]
				e.batch = e.batch[1:]
				f()
			}
		case state, ok := <-states:
			states = e.heard(states, state, ok)
		case <-e.lost:
			e.sessionOver()
		case <-timer.C:
			e.timeHasCome()
		case <-e.ctx.Done():
			e.ended = ErrClosed
		}
		for _, w := range e.doomed {
			w.stop()
		}
		if e.doomed = nil; e.ended == nil {
			e.pump()
			e.settled()
			e.makeUseOfRoom()
			e.schedule(timer)
		}
	}
}

// errGoexit is the end of a cache whose goroutine was ended by a function that it calls.
var errGoexit = fmt.Errorf("%w: a filter, a decoder or a hook has ended the cache's goroutine (runtime.Goexit, as by t.FailNow)", ErrClosed)

// over is the end: it lets go of what is on the server, and tells those who wait.
func (e *engine) over() {
	if e.ended == nil {
		e.ended = errGoexit
	}
	e.cancel()
	defer e.sync.end(e.ended)
	defer e.store.end(e.ended)
	e.unwatch()
	// Answers that nobody has looked at may have set watches: they are of an earlier life now, and stop those.
	e.life++
	for _, f := range append(e.batch, e.inbox.close()...) {
		f()
	}
	for _, w := range e.doomed {
		w.stop()
	}
}

// post gives the goroutine something to do. It returns false when that has ended.
func (e *engine) post(f func()) bool { return e.inbox.put(f) }

// postIn is post for what belongs to the present life.
func (e *engine) postIn(life int, f func()) bool {
	return e.post(func() {
		if life == e.life {
			f()
		}
	})
}

// connect waits for a session, elsewhere.
func (e *engine) connect() {
	e.wg.Go(func() {
		s, err := e.client.Session(e.ctx)
		e.post(func() { e.connected(s, err) })
	})
}

func (e *engine) connected(s *framework.Session, err error) {
	switch {
	case e.ctx.Err() != nil: // too late
	case err != nil:
		e.ended = err
	default:
		e.session, e.view, e.lost = s, s.Client().ForRecipes(), s.Done()
		if e.told.sessions++; e.told.sessions == 1 {
			e.told.begin(s)
		}
		e.begin()
	}
}

// begin watches and loads, in a new session or in a new way.
func (e *engine) begin() {
	e.life++
	e.reads.reset()
	e.shots, e.watch, e.armed, e.armAt, e.missed, e.losses = map[*node]shots{}, nil, false, time.Time{}, false, 0
	e.zxid, e.probing, e.catching, e.suspect, e.draftAt = 0, false, false, nil, time.Time{}
	e.store.walk(func(n *node) { n.flags &= listed | counting })
	if !e.oneShot {
		e.arm()
	}
	e.load()
}

// sessionOver keeps what the cache has, to be compared in the next session.
func (e *engine) sessionOver() {
	e.life++
	e.reads.reset()
	e.session, e.view, e.lost, e.watch, e.armAt = nil, nil, nil, nil, time.Time{}
	e.shots = map[*node]shots{}
	if e.guessed {
		e.oneShot, e.guessed = false, false
	}
	e.sync.set(false)
	e.connect()
}

// load has every node read, or compared if it has been read before. Nodes that turn up meanwhile below those are included.
func (e *engine) load() {
	e.sync.set(false)
	e.probing, e.suspect = false, nil
	e.store.walk(func(n *node) {
		n.flags |= unproven | doubted
		if n.flags&listFlying != 0 {
			n.flags |= listAgain
		}
		e.count(n)
		e.look(n)
	})
}

// gap is a reconnect: events may have been missed. If the server has executed nothing since its last answer, there were none.
func (e *engine) gap() {
	e.sync.set(false)
	e.suspect, e.draftAt = nil, time.Time{}
	switch {
	case e.zxid == 0:
		e.load()
	default:
		e.probing = true
		e.probe()
	}
}

// probed is the answer. If there is none, it is asked for again: the connection may be there all the time, and the question not have had its turn. A
// reconnect meanwhile is a gap of its own, with a question of its own.
func (e *engine) probed(probe int, zxid int64, err error) {
	switch {
	case probe != e.probes || !e.probing:
	case errors.Is(err, framework.ErrConnectionLoss), errors.Is(err, framework.ErrNotConnected):
		e.probeAt = time.Now().Add(retryFirst)
	default:
		if e.probing = false; err != nil || zxid != e.zxid {
			e.load()
		}
	}
}

// settled shows what is complete, and tells those who wait if there is nothing more to wait for.
func (e *engine) settled() {
	e.known.Store(int64(e.store.known))
	e.open.Store(int64(e.counted))
	e.sync.rootIs(e.trouble[e.store.top])
	switch kept := len(e.store.draft.nodes) > 0; {
	case e.exact(0):
		e.show(false)
	case e.loose, e.idle():
		e.show(true)
	case kept && e.draftAt.IsZero():
		e.draftAt, e.answers = time.Now(), 0
	}
	if e.current() && len(e.store.draft.nodes) == 0 && !e.sync.is() {
		e.store.loaded()
		e.sync.set(true)
	}
}

// count makes the load wait for a node, until it is done with or gone.
func (e *engine) count(n *node) {
	if n.flags&counting == 0 {
		n.flags |= counting
		e.counted++
	}
}

func (e *engine) uncount(n *node) {
	if n.flags&counting != 0 {
		n.flags &^= counting
		e.counted--
	}
}

// forget lets go of a node that has left the tree. The store calls it, with its lock held.
func (e *engine) forget(n *node) {
	e.uncount(n)
	n.flags |= gone
	delete(e.stale, n)
	delete(e.trouble, n)
	if w, ok := e.shots[n]; ok {
		delete(e.shots, n)
		e.doomed = append(e.doomed, w)
	}
}

// heard takes a change of the connection. It returns the channel to go on with.
func (e *engine) heard(states <-chan framework.StateChange, state framework.StateChange, ok bool) <-chan framework.StateChange {
	if !ok {
		if e.ctx.Err() == nil {
			e.ended = framework.ErrClosed
		}
		return nil
	}
	e.told.hear(state)
	e.store.connected(state)
	e.stateChanged(state)
	return states
}

// stateChanged: the server tells one-shot watches what they have missed before it answers anything. So an answer says that all is known.
func (e *engine) stateChanged(state framework.StateChange) {
	if e.oneShot && e.session != nil && e.sync.is() && state.State.IsConnected() && state.Epoch == e.session.Epoch() && state.State != framework.Connected {
		e.sync.set(false)
		e.catching = true
		e.want(e.store.top)
	}
}

// schedule sets the timer for what is due next.
func (e *engine) schedule(timer *time.Timer) {
	var next time.Time
	for _, at := range []time.Time{e.staleAt, e.retryAt, e.armAt, e.probeAt, e.tellAt, e.reads.pausedUntil} {
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

// timeHasCome does what is due.
func (e *engine) timeHasCome() {
	now := time.Now()
	if due(&e.staleAt, now) {
		for n := range e.stale {
			e.look(n)
		}
		clear(e.stale)
	}
	if due(&e.retryAt, now) {
		for n, t := range e.trouble {
			if e.worthTrying(t) {
				e.want(n)
			}
		}
		e.roomier = false
		e.retryIn = min(2*e.retryIn, retryMost)
	}
	if due(&e.armAt, now) && e.session != nil {
		e.arm()
	}
	if due(&e.probeAt, now) && e.session != nil && e.probing {
		e.probe()
	}
	if due(&e.tellAt, now) && e.session != nil {
		e.told.all(e.session)
	}
	due(&e.reads.pausedUntil, now)
}

func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || now.Before(*at) {
		return false
	}
	*at = time.Time{}
	return true
}

// lag has a node's Stat read again by and by. What has been heard, rather than read, a read that is under way may not show: its answer may be late.
func (e *engine) lag(n *node, heard bool) {
	if n.live && e.store.seen(n) && e.descends(n) {
		e.stale[n] = e.stale[n] || heard && n.flags&flying != 0
		if e.staleAt.IsZero() {
			e.staleAt = time.Now().Add(staleAfter)
		}
	}
}

// caughtUp notes that a node's Stat has been read.
func (e *engine) caughtUp(n *node) {
	if e.stale[n] {
		e.stale[n] = false
	} else {
		delete(e.stale, n)
	}
}

// fail notes that a node cannot be read.
func (e *engine) fail(n *node, err error, again bool) {
	old, known := e.trouble[n]
	e.trouble[n] = trouble{err, again}
	if !known || old.err.Error() != err.Error() {
		e.complain(e.store.path(n), err)
		e.store.failed(n, err)
	}
	if again && e.retryAt.IsZero() {
		e.retryAt = time.Now().Add(e.retryIn)
	}
}

// recovered notes that it can.
func (e *engine) recovered(n *node) {
	if len(e.trouble) == 0 {
		return
	}
	if _, was := e.trouble[n]; was {
		e.store.recovered(n)
	}
	if delete(e.trouble, n); len(e.trouble) == 0 {
		e.retryAt, e.retryIn = time.Time{}, retryFirst
	}
}

// descends says whether a node's children belong to the cache.
func (e *engine) descends(n *node) bool {
	if e.cfg.maxDepth >= 0 && n.depth() >= e.cfg.maxDepth {
		return false
	}
	return e.cfg.traverse == nil || e.cfg.traverse(e.store.path(n))
}

// accepts says whether the child of a node with that name belongs to the cache; descends says so of all.
func (e *engine) accepts(n *node, name string) bool {
	if e.cfg.accept == nil {
		return true
	}
	path := e.store.path(n)
	if path == "/" {
		path = ""
	}
	return e.cfg.accept(path + "/" + name)
}
