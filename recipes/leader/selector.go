package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// lockName is what is in front of the sequence number: a LeaderSelector is an InterProcessMutex.
const lockName = "lock-"

var errNotRunning = errors.New("the selector is not running")

// Selector runs a function while it leads. Safe for concurrent use. Corresponds to Curator's LeaderSelector.
type Selector struct {
	candidate
	call func(ctx context.Context) error
}

// NewSelector makes a participant of the election at path, a directory of its own. It sends nothing before
// Run.
//
// lead is the function to run. Its context ends with the term, and with Run's; context.Cause says why, and
// [TermOf] finds the term in it. It should return soon after: until it has, this process takes no part in the
// election. While the session lives nobody else leads before it has returned; when the session is lost
// somebody else does, which is what the context is for.
//
// A mistake in the arguments (a nil client or function, a path that is none or the root, an option) is
// reported by every method that returns an error, before anything is sent, and by Health.
func NewSelector(
	client *framework.Client, path string, lead func(ctx context.Context) error, opts ...Option,
) *Selector {
	s := &Selector{call: lead}
	s.line.Recipe = "selector"
	cfg, err := configure(&s.line, client, path, lockName, opts)
	switch {
	case err != nil:
		s.err = err
	case lead == nil:
		s.err = fmt.Errorf("%w: the function is nil", framework.ErrBadArguments)
	case cfg.listener != nil:
		s.err = fmt.Errorf("%w WithListener: the option is only for a Latch; a Selector calls its function "+
			"instead",
			framework.ErrInvalidOption)
	}
	s.init(cmp.Or(s.err, errNotRunning))
	return s
}

// Run stands in line, runs the function when it leads, gives the place up when the function has returned, and
// goes to the end of the line, again and again, until ctx ends. (Curator's autoRequeue; RunOnce is the way
// without.)
//
// An error that the function returns while its term lasts ends Run, which returns it. What it returns after
// the end of its term is only logged. (With nil it is elected again, at once if nobody else is in line.) When
// ctx ends, Run returns when the function has, and the client removes the node; the error matches ctx.Err()
// and context.Cause(ctx).
//
// It goes on through lost connections and sessions. Other errors: ErrNoAuth without CREATE and READ on the
// directory, ErrSequenceExhausted, framework.ErrTimeoutTooShort, and the like; framework.ErrClosed;
// ErrRunning, since a Selector runs once at a time.
func (s *Selector) Run(ctx context.Context) error { return s.run(ctx, "run", true) }

// RunOnce is Run for one term. The error is that of the function, joined with how the term was lost if it was
// lost before the function returned, and otherwise as with Run. Call it again to stand in line again
// (Curator's requeue).
//
// When the function has returned it waits for the server to confirm that the place is given up until ctx
// ends, but no longer than a second; the client goes on with it after that, or when the connection or the
// session is lost. Only when the server refuses to delete the node the error is joined with ErrNotReleased
// and the reason. So does Run when the function's error ends it.
func (s *Selector) RunOnce(ctx context.Context) error { return s.run(ctx, "run once", false) }

// Term returns the term that lasts, nil if there is none: to Resign from outside of the function, say.
func (s *Selector) Term() *Term { return s.current() }

func (s *Selector) run(ctx context.Context, verb string, again bool) error {
	if err := queue.Ready(ctx, s.line.Client, s.err); err != nil {
		return s.wrap(verb, err)
	}
	if !s.start() {
		return s.wrap(verb, ErrRunning)
	}
	stop := s.followConnection()
	defer func() {
		stop()
		s.setIdle(errNotRunning)
	}()
	return s.wrap(verb, s.elect(ctx, again))
}

func (s *Selector) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		return false
	}
	s.idle = nil
	return true
}

// elect stands in line and leads, again and again or once.
func (s *Selector) elect(ctx context.Context, again bool) error {
	for failures := 0; ; {
		term, err := s.join(ctx)
		if err != nil {
			if ctx.Err() != nil || !framework.Retryable(err) {
				return err
			}
			failures++
			s.refused(ctx, err, failures)
			continue
		}
		failures = 0
		err, ended := s.lead(ctx, term)
		switch {
		case ctx.Err() != nil:
			if err == nil || errors.Is(err, ctx.Err()) {
				return s.line.Client.Left(ctx, nil)
			}
			return s.line.Client.Left(ctx, err)
		case ended == nil && err != nil, ended == nil && !again:
			// Nothing is wrong with the election. When Run is over the place is free.
			return errors.Join(err, term.releasedAfterWork(ctx))
		case errors.Is(ended, framework.ErrClosed):
			return ended
		case !again && errors.Is(ended, ErrReleased): // it resigned
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			return errors.Join(err, term.releasedAfterWork(ctx))
		case !again:
			return errors.Join(err, ended)
		case err != nil && !errors.Is(err, context.Canceled):
			s.line.Client.Logger().Warn("the selector's function returned an error after its leadership "+
				"had ended",
				"path", s.line.Dir, "err", err, "cause", ended)
		}
	}
}

// lead runs the function for one term and gives the place up, also when the function panics. ended is why the
// term ended before the function returned, nil if it did not.
func (s *Selector) lead(ctx context.Context, term *Term) (err, ended error) {
	unbind := term.endWith(ctx, func() error { return s.line.Client.Left(ctx, nil) })
	s.began(term)
	defer func() {
		unbind()
		if !term.Valid() {
			ended = term.cause()
		}
		defer func() { // also if a hook does not return
			<-term.Context().Done()
			defer close(term.done)
			defer func() { term.deleted = remove(term.grant, term.cause()) }()
			s.ended(term)
		}()
		term.hold.End(ErrReleased)
	}()
	return s.call(term.Context()), nil
}
