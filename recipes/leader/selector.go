package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// lockName is the name of a node before the sequence number. It is a mutex's, since Curator's LeaderSelector uses an
// InterProcessMutex.
const lockName = "lock-"

var errNotRunning = errors.New("the selector is not running")

// Selector runs a function while it leads. Safe for concurrent use. Corresponds to Curator's LeaderSelector.
type Selector struct {
	candidate
	leadFunc func(ctx context.Context) error
}

// NewSelector makes a participant of the election at path. The node at path is for this election only.
// Nothing is sent before Run.
//
// lead is the function to run while the selector leads. Its context ends with the term and with the context of Run;
// context.Cause returns the reason, and [TermOf] returns the term. lead should return soon after its context ends:
// the selector does not rejoin the election before that. While the session lives, no other participant leads before
// lead has returned. After the session is lost, another may lead although lead still runs.
//
// If an argument is wrong (a nil client or function, an invalid path or the root, a wrong option), every method that
// returns an error returns it, before it sends anything. Health reports it as well.
func NewSelector(
	client *framework.Client, path string, lead func(ctx context.Context) error, opts ...Option,
) *Selector {
	s := &Selector{leadFunc: lead}
	s.line.Recipe = "selector"
	cfg, err := configure(&s.line, client, path, lockName, opts)
	switch {
	case err != nil:
		s.err = err
	case lead == nil:
		s.err = fmt.Errorf("%w: the function is nil", framework.ErrBadArguments)
	case cfg.listener != nil:
		s.err = fmt.Errorf("%w WithListener: the option is only for a Latch",
			framework.ErrInvalidOption)
	}
	s.initRole(cmp.Or(s.err, errNotRunning))
	return s
}

// Run takes part in the election until ctx ends. It waits in the line, runs the function when it leads,
// deletes its node when the function has returned, and rejoins at the end of the line. (That is Curator's
// autoRequeue; [Selector.RunOnce] does not rejoin.)
//
// If the function returns an error while its term lasts, Run ends and returns that error. If it returns nil, Run
// rejoins, and leads again immediately if no other participant waits. An error that it returns after the end of its
// term is only logged. When ctx ends, Run waits for the function to return, and the client deletes the node in the
// background. The error then matches ctx.Err() and context.Cause(ctx).
//
// Run continues through lost connections and lost sessions. Other errors: ErrNoAuth if the client lacks CREATE or
// READ permission on the election's path; ErrSequenceExhausted; framework.ErrTimeoutTooShort; framework.ErrClosed;
// ErrRunning if another Run has not returned yet.
func (s *Selector) Run(ctx context.Context) error { return s.run(ctx, "run", true) }

// RunOnce is Run for one term. It returns the function's error, joined with the cause if the term was lost before the
// function returned, and otherwise the errors of Run. Call RunOnce again to rejoin the election (Curator's requeue).
//
// After the function has returned, RunOnce waits at most a second, or until ctx ends, for the server to confirm that
// the leader's node is deleted. After that, or if the connection is lost, the client keeps trying to delete the node
// in the background, and RunOnce does not report that. Only if the server refuses to delete the node, the error is
// joined with ErrNotReleased and the reason. Run does the same when the function's error ends it.
func (s *Selector) RunOnce(ctx context.Context) error { return s.run(ctx, "run once", false) }

// Term returns the present term, nil if there is none: to Resign from outside the function, say.
func (s *Selector) Term() *Term { return s.currentTerm() }

func (s *Selector) run(ctx context.Context, verb string, again bool) error {
	if err := line.CheckCall(ctx, s.line.Client, s.err); err != nil {
		return s.wrapError(verb, err)
	}
	if !s.startRun() {
		return s.wrapError(verb, ErrRunning)
	}
	stop := s.followConnection()
	defer func() {
		stop()
		s.setIdle(errNotRunning)
	}()
	return s.wrapError(verb, s.joinRepeatedly(ctx, again))
}

func (s *Selector) startRun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		return false
	}
	s.idle = nil
	return true
}

// joinRepeatedly waits in the line and leads: once, or again and again.
func (s *Selector) joinRepeatedly(ctx context.Context, again bool) error {
	for failures := 0; ; {
		term, err := s.joinLine(ctx)
		if err != nil {
			if ctx.Err() != nil || !framework.Retryable(err) {
				return err
			}
			failures++
			s.pauseAfterFailure(ctx, err, failures)
			continue
		}
		failures = 0
		err, ended := s.leadOneTerm(ctx, term)
		switch {
		case ctx.Err() != nil:
			if errors.Is(err, ctx.Err()) {
				err = nil
			}
			return s.line.Client.WaitError(ctx, err)
		case ended == nil && err != nil, ended == nil && !again:
			// The function has ended Run, not the election: wait until the node is deleted.
			return errors.Join(err, term.awaitReleaseAfterWork(ctx))
		case errors.Is(ended, framework.ErrClosed):
			return ended
		case !again && errors.Is(ended, ErrReleased): // it resigned
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			return errors.Join(err, term.awaitReleaseAfterWork(ctx))
		case !again:
			return errors.Join(err, ended)
		case err != nil && !errors.Is(err, context.Canceled):
			s.line.Client.Logger().Warn("the selector's function returned an error after its term had ended",
				"path", s.line.Dir, "err", err, "cause", ended)
		}
	}
}

// leadOneTerm runs the function for one term and then deletes the node, also when the function panics. ended is the reason
// why the term ended before the function returned, nil if it did not.
func (s *Selector) leadOneTerm(ctx context.Context, term *Term) (err, ended error) {
	unbind := term.endWithContext(ctx, func() error { return s.line.Client.WaitError(ctx, nil) })
	s.recordTermBegin(term)
	defer func() {
		unbind()
		if !term.Valid() {
			ended = term.endCause()
		}
		defer func() { // also if a hook panics or ends the goroutine
			<-term.Context().Done()
			defer close(term.done)
			defer func() { term.deleted = startDeletion(term.grant, term.endCause()) }()
			s.recordTermEnd(term)
		}()
		term.grant.Hold.End(ErrReleased)
	}()
	return s.leadFunc(term.Context()), nil
}
