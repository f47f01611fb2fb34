package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/recipes/internal/line"
)

// latchName is the name of a latch's node before the sequence number. It is part of the contract with Curator
// for Java.
const latchName = "latch-"

// Listener has the functions that a [Latch] calls when a term begins and ends. Corresponds to Curator's
// LeaderLatchListener.
//
// The functions run on the latch's goroutine, one at a time.
//
//   - OnNotLeader is called after OnLeader has returned, for the same term, before any call for the next
//     term.
//   - The latch does not rejoin the election before they have returned. So OnLeader may do the leader's work,
//     if it returns soon after the term's context has ended.
//   - They must not call Close, nor wait in Leave or Resign: these wait for the functions to return.
//   - runtime.Goexit (t.FailNow) counts as a return. A panic ends the process.
type Listener struct {
	OnLeader    func(*Term)        // called at the beginning of a term
	OnNotLeader func(*Term, error) // called at its end, with the cause of its context
}

// CloseMode sets whether OnNotLeader is called when a term ends because the latch leaves the election. The term's
// context ends in either case. Corresponds to LeaderLatch.CloseMode.
type CloseMode int8

const (
	// Silent does not call OnNotLeader. It is the mode of Close, and Curator's default.
	Silent CloseMode = iota
	// NotifyLeader calls OnNotLeader if the latch leads, and deletes the leader's node after it has returned.
	NotifyLeader
)

func (m CloseMode) String() string {
	switch m {
	case Silent:
		return "Silent"
	case NotifyLeader:
		return "NotifyLeader"
	}
	return fmt.Sprintf("CloseMode(%d)", int8(m))
}

// Latch takes part in an election, from NewLatch until Leave or Close. Safe for concurrent use. Corresponds
// to Curator's LeaderLatch.
type Latch struct {
	candidate
	listener Listener

	ctx           context.Context // ends when the latch has to leave
	cancel        context.CancelFunc
	done          chan struct{}                // closed when the goroutines have ended
	lastGrant     *line.Grant                  // the node that led last; set before done is closed
	lastDeletion  *framework.Pending[struct{}] // of lastGrant's node, nil if it was gone; set before done is closed
	nodeGoneCause error                        // why lastGrant's node was gone; set before done is closed
	mode          CloseMode                    // set before ctx ends, guarded by mu
}

// NewLatch joins the election at path in the background. The node at path is for this election only. The
// latch takes part until Leave or Close, or until the client is closed (or the session ends, if client is the
// view of a session). It keeps its place in the line through lost connections. After a lost session or a
// deleted node it rejoins at the end of the line. If joining fails (ErrNoAuth, ErrSequenceExhausted, …), it
// tries again, less and less often, at last about every 10 s. [Latch.Await] and [Latch.Health] report such
// failures.
//
// Errors, each before anything is started: framework.ErrNoClient, framework.ErrInvalidPath (also for the
// root), framework.ErrInvalidOption.
func NewLatch(client *framework.Client, path string, opts ...Option) (*Latch, error) {
	l := &Latch{done: make(chan struct{})}
	cfg, err := configure(&l.line, client, path, latchName, opts)
	if err != nil {
		return nil, wrapError(path, "new latch", err)
	}
	if l.line.Data == nil {
		l.line.Data = []byte{} // not the client's default data, as in Curator
	}
	if cfg.listener != nil {
		l.listener = *cfg.listener
	}
	l.line.Recipe = "latch"
	l.initRole(nil)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.run(0, l.followConnection())
	return l, nil
}

// Await waits until the latch leads and returns the term, immediately if the latch leads already. After the term has
// ended call Await for the next term. ctx limits only the wait: the term outlives it.
//
// When ctx ends, Await returns immediately and the latch stays in the line. The error matches ctx.Err(),
// context.Cause(ctx), and the failure that keeps the latch from joining, if there is one. Await waits through lost
// connections and lost sessions. If the latch fails to join while Await waits, with a lasting refusal (ErrNoAuth,
// ErrSequenceExhausted, framework.ErrTimeoutTooShort, …), Await returns that error. The latch keeps trying, and the
// caller can call Await again. Other errors: ErrLeft; framework.ErrClosed.
func (l *Latch) Await(ctx context.Context) (*Term, error) {
	if ctx == nil {
		return nil, l.wrapError("await", framework.ErrNilContext)
	}
	if l.done == nil {
		return nil, l.wrapError("await", framework.ErrNoClient)
	}
	for before := -1; ; {
		l.mu.Lock()
		term, refusals, joinErr, idle, changed := l.term, l.refusals, l.joinErr, l.idle, l.changed.C()
		l.mu.Unlock()
		if before < 0 {
			before = refusals
		}
		switch {
		case idle != nil:
			return nil, l.wrapError("await", idle)
		case ctx.Err() != nil:
			if joinErr != nil {
				joinErr = fmt.Errorf("cannot join the election: %w", joinErr)
			}
			return nil, l.wrapError("await", l.line.Client.WaitError(ctx, joinErr))
		case term != nil && term.Valid():
			return term, nil
		case refusals != before && joinErr != nil:
			return nil, l.wrapError("await", joinErr)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Leave leaves the election for good. The term, if there is one, ends immediately; mode sets whether OnNotLeader is
// called. Leave waits for a listener's function that is running, and for the server to confirm that the node of the
// latch's last term is deleted. (The node of a latch that waits in the line is deleted in the background.) If ctx
// ends first, or the connection is lost, Leave returns that error, and the client keeps trying to delete the node for
// as long as the session lives. If that session is lost, and the client has no later one yet, the error is
// ErrSessionLost: the servers may have the node until they expire the session. The error is framework.ErrClosed if
// the client was closed first; its Close has reported whether the node is gone. A second Leave waits for the same;
// the mode of the first applies.
func (l *Latch) Leave(ctx context.Context, mode CloseMode) error {
	switch {
	case ctx == nil:
		return l.wrapError("leave", framework.ErrNilContext)
	case l.done == nil:
		return l.wrapError("leave", framework.ErrNoClient)
	case mode != Silent && mode != NotifyLeader:
		return l.wrapError("leave", fmt.Errorf("%w: there is no mode %d; choose Silent or NotifyLeader",
			framework.ErrInvalidOption, mode))
	}
	l.leaveElection(mode)
	select {
	case <-l.done:
	case <-ctx.Done():
		return l.wrapError("leave", l.line.Client.WaitError(ctx, nil))
	}
	return l.wrapError("leave", l.confirmLastDeletion(ctx))
}

// confirmLastDeletion waits until the node of the last term is certainly deleted. (The earlier nodes are deleted, or the
// last could not have led.) If the first deletion failed, possibly long ago, the client has since retried it in the
// background: then confirmLastDeletion deletes the node once more, to get a confirmation.
func (l *Latch) confirmLastDeletion(ctx context.Context) error {
	err := l.nodeGoneCause
	if err == nil {
		if err = awaitDeletion(ctx, l.lastDeletion); err == nil || ctx.Err() != nil {
			return err
		}
		err = l.lastGrant.Session.Client().Delete().Quietly().Guaranteed().ForPath(ctx, l.lastGrant.Path)
	}
	switch {
	case errors.Is(err, ErrNodeDeleted):
		return nil
	case errors.Is(err, ErrSessionLost) && l.line.Client.State().Epoch > l.lastGrant.Session.Epoch(): // that has closed it
		return nil
	}
	return err
}

// Close leaves the election for good, like Leave with Silent, but waits only for a listener's function that is
// running. The client deletes the node in the background, for as long as the session lives. Close returns an error
// only for the zero Latch (framework.ErrNoClient); calling it again does nothing.
func (l *Latch) Close() error {
	if l.done == nil {
		return l.wrapError("close", framework.ErrNoClient)
	}
	l.leaveElection(Silent)
	<-l.done
	return nil
}

func (l *Latch) leaveElection(mode CloseMode) {
	l.mu.Lock()
	if l.ctx.Err() == nil {
		l.mode = mode
	}
	l.cancel()
	l.mu.Unlock()
}

// run is the latch's goroutine. Every change of the latch's role happens on it, except for changes of the connection.
// If a hook ends it by runtime.Goexit, another one continues.
func (l *Latch) run(failures int, stop func()) {
	ended := false
	defer func() {
		if !ended {
			go l.run(failures+1, stop)
		}
	}()
	if failures > 0 {
		l.line.Client.Pause(l.ctx, rejoinDelay(failures))
	}
	l.setIdle(l.joinRepeatedly())
	ended = true
	l.cancel()
	stop()
	close(l.done)
}

// joinRepeatedly waits in the line and leads, again and again. It returns ErrLeft when the latch has to leave, or the
// error that has ended the client, or the session of its view.
func (l *Latch) joinRepeatedly() error {
	for failures := 0; l.ctx.Err() == nil; {
		term, err := l.joinLine(l.ctx)
		switch {
		case err == nil:
			failures = 0
			l.leadOnNode(term)
		case l.ctx.Err() != nil:
		case errors.Is(err, framework.ErrClosed), errors.Is(err, ErrSessionLost):
			// The line returns ErrSessionLost only if the client is the view of that session.
			return err
		default:
			failures++
			l.pauseAfterFailure(l.ctx, err, failures)
		}
	}
	return ErrLeft
}

// leadOnNode serves all terms on one node, and then deletes the node.
func (l *Latch) leadOnNode(term *Term) {
	grant := term.grant
	l.lastGrant = grant
	cause := error(ErrReleased) // also if a hook or the logger panics or ends the goroutine
	var graceEnd time.Time      // when the users of a lost term must have stopped
	defer func() {
		l.lastDeletion, l.nodeGoneCause = nil, nil
		defer func() {
			if term != nil {
				term.deleted = l.lastDeletion
				close(term.done)
			}
		}()
		if isNodeGone(cause) {
			l.nodeGoneCause = cause
		} else {
			l.line.Client.Pause(l.ctx, time.Until(graceEnd))
		}
		if !errors.Is(cause, ErrSessionLost) { // otherwise the client closes the session, after the grace
			l.lastDeletion = startDeletion(grant, cause)
		}
	}()
	for {
		cause = l.serveTerm(term)
		graceEnd = time.Now().Add(term.grant.Hold.Grace())
		if !errors.Is(cause, ErrSuspended) {
			return
		}
		close(term.done) // no caller waits for the listener: a lost term cannot be resigned
		term, cause = nil, ErrReleased
		next, err := l.regainTerm(grant)
		if err != nil {
			cause = err
			return
		}
		term = next
	}
}

// serveTerm announces the term, waits until it has ended, and returns the cause.
func (l *Latch) serveTerm(term *Term) error {
	defer term.endWithContext(l.ctx, func() error { return ErrReleased })()
	recorded := false
	defer func() {
		if !recorded {
			defer l.clearTerm()
			term.grant.Hold.End(ErrReleased)
		}
	}()
	l.recordTermBegin(term)
	if l.listener.OnLeader != nil {
		apart.Call(func() { l.listener.OnLeader(term) })
	}
	<-term.Context().Done()
	cause := term.endCause()
	l.recordTermEnd(term)
	recorded = true
	if l.listener.OnNotLeader != nil && l.mayNotify() {
		apart.Call(func() { l.listener.OnNotLeader(term, cause) })
	}
	return cause
}

func (l *Latch) mayNotify() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx.Err() == nil || l.mode == NotifyLeader
}

// regainTerm waits for the connection, and makes a new term if the node still exists. The node is still the first
// then, since nodes that were created later have larger numbers. One read checks that it is the same node and
// belongs to this session.
func (l *Latch) regainTerm(grant *line.Grant) (*Term, error) {
	view := grant.Session.Client()
	for {
		if err := grant.Session.WaitQuorum(l.ctx); err != nil {
			return nil, err
		}
		var stat *framework.Stat
		var watch *framework.Watch
		err := line.RetryThrough(l.ctx, view, line.Outages, func(ctx context.Context) (err error) {
			stat, watch, err = view.CheckExists().WithWatch().ForPath(ctx, grant.Path)
			stat, err = line.StatOwnNode(ctx, view, grant.Path, stat, err)
			return err
		})
		if err != nil {
			return nil, err
		}
		if stat == nil || stat.Czxid != grant.Czxid || stat.EphemeralOwner != grant.Session.ID() {
			watch.Stop()
			return nil, ErrNodeDeleted
		}
		again, err := grant.HoldAgain(l.ctx, -1) // immediately: the hold shares the watch that was just set
		watch.Stop()
		if err == nil {
			return l.newTerm(again), nil
		}
		if !errors.Is(err, ErrSuspended) {
			return nil, err
		}
	}
}
