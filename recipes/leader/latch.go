package leader

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// latchName is what is in front of the sequence number. It is part of the contract with Curator for Java.
const latchName = "latch-"

// Listener is told of the terms of a [Latch]. Corresponds to Curator's LeaderLatchListener.
//
// The functions are called one after the other on the latch's goroutine: OnNotLeader only for a term for
// which OnLeader was called and has returned, and neither for another term before. The latch does not stand
// in line again before they have returned. So OnLeader may do the leader's work, if it returns soon after the
// term's context has ended. They must not call Close, nor wait in Leave or Resign, which wait for them.
// runtime.Goexit (t.FailNow) in one counts as its return; a panic ends the process.
type Listener struct {
	OnLeader    func(*Term)        // called at the beginning of a term
	OnNotLeader func(*Term, error) // called at its end, with the cause of its context
}

// CloseMode says whether the listener hears of the end of a term that ends because the latch leaves. The
// term's context ends in either case. Corresponds to LeaderLatch.CloseMode.
type CloseMode int8

const (
	// Silent does not tell the listener. It is what Close does, and Curator's default.
	Silent CloseMode = iota
	// NotifyLeader calls OnNotLeader if the latch leads, and gives the place up when that has returned.
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

	ctx     context.Context // ends when the latch is to leave
	cancel  context.CancelFunc
	done    chan struct{}                // closed when the goroutines have ended
	last    *queue.Grant                 // the place that led last; set before done, as deleted
	deleted *framework.Pending[struct{}] // the removal of its node, nil if that is gone anyway
	mode    CloseMode                    // set before ctx ends, guarded by mu
}

// NewLatch joins the election at path, a directory of its own, in the background, and takes part until Leave
// or Close, or the end of the client (or of the session, if client is the view of one). It keeps its place in
// line through lost connections. After a lost session or a deleted node it joins again at the end of the
// line. After a refusal (ErrNoAuth, ErrSequenceExhausted, …) it tries again, less and less often, down to
// once in about 10 s. [Latch.Await] and [Latch.Health] tell of refusals.
//
// Errors, all before anything is started: framework.ErrNoClient, ErrInvalidPath (also for the root),
// ErrInvalidOption.
func NewLatch(client *framework.Client, path string, opts ...Option) (*Latch, error) {
	l := &Latch{done: make(chan struct{})}
	cfg, err := configure(&l.line, client, path, latchName, opts)
	if err != nil {
		return nil, wrap(path, "new latch", err)
	}
	if l.line.Data == nil {
		l.line.Data = []byte{} // not the client's default data, as in Curator
	}
	if cfg.listener != nil {
		l.listener = *cfg.listener
	}
	l.line.Recipe = "latch"
	l.init(nil)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.run()
	return l, nil
}

// Await returns the term when the latch leads: at once if it does already. When a term has ended call Await
// for the next. The term does not end with ctx.
//
// When ctx ends, Await returns at once and the latch stays in line; the error matches ctx.Err(),
// context.Cause(ctx), and, if there is one, what keeps the latch from joining. It goes on through lost
// connections and sessions. A try to join that is refused while Await waits ends it with the reason
// (ErrNoAuth, ErrSequenceExhausted, framework.ErrTimeoutTooShort, …); the latch goes on trying, and so may
// the caller. Other errors: ErrLeft; framework.ErrClosed.
func (l *Latch) Await(ctx context.Context) (*Term, error) {
	if ctx == nil {
		return nil, l.wrap("await", framework.ErrNilContext)
	}
	if l.done == nil {
		return nil, l.wrap("await", framework.ErrNoClient)
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
			return nil, l.wrap("await", idle)
		case ctx.Err() != nil:
			if joinErr != nil {
				joinErr = fmt.Errorf("cannot join the election: %w", joinErr)
			}
			return nil, l.wrap("await", l.line.Client.Left(ctx, joinErr))
		case term != nil && term.Valid():
			return term, nil
		case refusals != before && joinErr != nil:
			return nil, l.wrap("await", joinErr)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Leave leaves the election for good. The term, if there is one, ends at once; mode says whether the listener
// is told. Leave waits for a call of the listener that is under way, and for the server to confirm that the
// place where the latch led last is given up. (The node of a latch that only stood in line is removed without
// waiting.) When ctx ends first, or the connection is lost, the client goes on with it for as long as the
// session lives, and the error says why Leave did not wait. Leaving again waits for the first time; its mode
// counts.
func (l *Latch) Leave(ctx context.Context, mode CloseMode) error {
	switch {
	case ctx == nil:
		return l.wrap("leave", framework.ErrNilContext)
	case l.done == nil:
		return l.wrap("leave", framework.ErrNoClient)
	case mode != Silent && mode != NotifyLeader:
		return l.wrap("leave", fmt.Errorf("%w: there is no mode %d; choose Silent or NotifyLeader",
			framework.ErrInvalidOption, mode))
	}
	l.leave(mode)
	select {
	case <-l.done:
	case <-ctx.Done():
		return l.wrap("leave", l.line.Client.Left(ctx, nil))
	}
	return l.wrap("leave", l.confirmLast(ctx))
}

// confirmLast waits until the place that led last is certainly given up. Those that led before it were, or it
// could not have led. When the removal was not confirmed at its time, be it long ago, the client has gone on
// with it since: so it is asked for once more.
func (l *Latch) confirmLast(ctx context.Context) error {
	err := confirmed(ctx, l.deleted)
	if err == nil || ctx.Err() != nil {
		return err
	}
	err = l.last.Session.Client().Delete().Quietly().Guaranteed().ForPath(ctx, l.last.Path)
	if goneAnyway(err) {
		return nil
	}
	return err
}

// Close leaves the election for good, as Leave with Silent does, but waits only for a call of the listener
// that is under way: the client goes on with removing the node for as long as the session lives. It never
// fails (but with framework.ErrNoClient for the zero Latch); calling it again does nothing.
func (l *Latch) Close() error {
	if l.done == nil {
		return l.wrap("close", framework.ErrNoClient)
	}
	l.leave(Silent)
	<-l.done
	return nil
}

func (l *Latch) leave(mode CloseMode) {
	l.mu.Lock()
	if l.ctx.Err() == nil {
		l.mode = mode
	}
	l.cancel()
	l.mu.Unlock()
}

// run is the latch's goroutine: it does everything that changes the latch's role, one after the other.
func (l *Latch) run() {
	defer close(l.done)
	stop := l.followConnection()
	var idle error
	for failures := 1; !apart.Call(func() { idle = l.elect() }); failures++ { // a hook has ended the goroutine
		l.line.Client.Pause(l.ctx, rejoinDelay(failures))
	}
	l.setIdle(idle)
	l.cancel()
	stop()
}

// elect stands in line and leads, again and again, until the latch is to leave or the client is closed. It
// returns which.
func (l *Latch) elect() error {
	for failures := 0; l.ctx.Err() == nil; {
		term, err := l.join(l.ctx)
		switch {
		case err == nil:
			failures = 0
			l.lead(term)
		case l.ctx.Err() != nil:
		case errors.Is(err, framework.ErrClosed), errors.Is(err, ErrSessionLost):
			// Of a lost session the line tells only the view of that session.
			return err
		default:
			failures++
			l.refused(l.ctx, err, failures)
		}
	}
	return ErrLeft
}

// lead goes through all terms on one node, and gives the place up.
func (l *Latch) lead(term *Term) {
	grant := term.grant
	l.last = grant
	cause := error(ErrReleased) // also if a hook or the logger does not return
	defer func() {
		l.deleted = nil
		defer func() {
			if term != nil {
				term.deleted = l.deleted
				close(term.done)
			}
		}()
		l.deleted = remove(grant, cause)
	}()
	for {
		cause = l.serve(term)
		if !errors.Is(cause, ErrSuspended) {
			return
		}
		close(term.done) // nobody waits for it: a lost term cannot be resigned
		term, cause = nil, ErrReleased
		next, err := l.regain(grant)
		if err != nil {
			cause = err
			return
		}
		term = next
	}
}

func (l *Latch) serve(term *Term) error {
	defer term.endWith(l.ctx, func() error { return ErrReleased })()
	over := false
	defer func() {
		if !over {
			defer l.clearTerm()
			term.hold.End(ErrReleased)
		}
	}()
	l.began(term)
	if l.listener.OnLeader != nil {
		apart.Call(func() { l.listener.OnLeader(term) })
	}
	<-term.Context().Done()
	cause := term.cause()
	l.ended(term)
	over = true
	if l.listener.OnNotLeader != nil && l.notifies() {
		apart.Call(func() { l.listener.OnNotLeader(term, cause) })
	}
	return cause
}

func (l *Latch) notifies() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx.Err() == nil || l.mode == NotifyLeader
}

// regain waits for the connection, and makes a new term on the same node if that is still there: then it is
// still the first, since those that came later have larger numbers. One read tells that it is the same node,
// and this session's.
func (l *Latch) regain(grant *queue.Grant) (*Term, error) {
	view := grant.Session.Client()
	for {
		if err := grant.Session.WaitQuorum(l.ctx); err != nil {
			return nil, err
		}
		var stat *framework.Stat
		var watch *framework.Watch
		err := queue.ThroughOutages(l.ctx, view, func(ctx context.Context) (err error) {
			stat, watch, err = view.CheckExists().WithWatch().ForPath(ctx, grant.Path)
			return err
		})
		if err != nil {
			return nil, err
		}
		if stat == nil || stat.Czxid != grant.Czxid || stat.EphemeralOwner != grant.Session.ID() {
			watch.Stop()
			return nil, ErrNodeDeleted
		}
		ref := &termRef{}
		hold, err := grant.Session.Hold(l.ctx, framework.HoldOptions{
			Path: grant.Path, Recipe: l.line.Recipe, Czxid: grant.Czxid, Loss: l.line.Loss,
			Values:        termValues{context.Background(), ref},
			OwnWatchAfter: -1, // joins the watch just set
		})
		watch.Stop()
		if err == nil {
			return l.newTerm(grant, hold, ref), nil
		}
		if !errors.Is(err, ErrSuspended) {
			return nil, err
		}
	}
}
