package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/wire"
)

// operation is what one operation of a caller is: what it asks, how the answer is read, and what follows from
// an error. ForPath makes a new one each time; a run executes it.
type operation[T any] struct {
	c *Client
	opKind
	path   string // as given
	fault  error  // a mistake in the input: nothing is sent
	parent string // of a create: the full path of the node that has to exist

	// request makes the request of a try; each try needs a new one.
	request func(e *epoch) *wire.Call
	// decode reads the answer, of that zxid. In the background it runs where answers and pings are read: it must
	// not block or take long. With lengthy it runs elsewhere.
	decode  func(zxid int64, body []byte) (T, error)
	lengthy bool
	// empty, if set, is the result where the server says ErrNoNode.
	empty *T
	// watch, if set, is armed by the request, and taken back when that fails.
	watch *Watch

	// after, if set, returns the step that may help after an error, or nil. It must not block; the step may.
	after func(err error) step[T]

	doubt inDoubt
	// ambiguous are the errors which, in a repeat after an unknown outcome, may come from the success of the
	// earlier try.
	ambiguous []error
	// debt, if set, is what the client may owe the tree when the operation has failed, or its caller has left.
	debt debt[T]
}

// opKind is what operations of one name have in common.
type opKind struct {
	name  string // for OpError
	write bool   // it changes the tree: an unknown outcome matters
	root  bool   // on the root of a namespace, it makes that where it is missing
}

// step goes on after an error. again sends the request once more; otherwise the step's result is that of the
// try.
type step[T any] func(ctx context.Context, r *run[T]) (v T, again bool, err error)

// inDoubt says what an operation does after a try with an unknown outcome.
type inDoubt int8

const (
	// doubtRepeats sends the request again, since a repeat does no harm.
	doubtRepeats inDoubt = iota
	// doubtEnds gives up, since a repeat could take effect a second time.
	doubtEnds
	// doubtCompares repeats, and after an ambiguous error looks whether the tree is as the earlier try would
	// have left it.
	doubtCompares
	// doubtSearches first looks for what the earlier try may have made, which is the debt's affair.
	doubtSearches
)

// debt looks after what an operation may leave in the tree. It never blocks, except in recover.
type debt[T any] interface {
	// recover finds out, before another try, what became of one with an unknown outcome. done: it was executed,
	// v is the result. Only for doubtSearches.
	recover(ctx context.Context, r *run[T]) (v T, done bool, err error)
	// answered is told how a request came out for which the caller has waited.
	answered(err error)
	// late gets the answer that came after the caller had left.
	late(reply wire.Reply)
	// failed is told that the operation has ended with an error, unless late is still to come. It returns the
	// error to report.
	failed(err error) error
}

// when and then are the two halves of a transition, in tables of state machines.
type when[S, E any] struct {
	state S
	event E
}

type then[S, A any] struct {
	state  S
	action A
}

// rounds bounds how often an operation of several steps begins again because others undo its steps.
const rounds = 16

// class is what an error says about another try.
type class int8

const (
	classRefused class = iota // by the server, or by a mistake: the same would come again
	classFinal                // the client is closed, or nobody can tell what a try has done
	classSession              // the session has ended: another try runs in the next one
	classWay                  // it is about the way to the server
)

func classOf(err error) class {
	switch {
	case errors.Is(err, errAmbiguous), errors.Is(err, ErrClosed):
		return classFinal
	case errors.Is(err, ErrSessionLost):
		return classSession
	case transient(err):
		return classWay
	}
	return classRefused
}

// situation is all that decides what an operation does about an error.
type situation struct {
	class      class
	helps      bool    // there is a step for this error
	steps      int     // taken in this try
	policy     inDoubt // of the operation
	unknown    bool    // a try may have been executed
	pinned     bool    // the operation belongs to its session
	background bool
	tries      int // so far
}

// decision is what an operation does about an error.
type decision int8

const (
	giveUp   decision = iota // report the error
	takeStep                 // take the step, and perhaps send the request again
	tryAgain                 // in the foreground when the retry policy says, in the background at once
)

// decide is a pure function. The background has one try, and a second one only to find out about the first.
func (s situation) decide() decision {
	switch {
	case s.helps && s.steps < rounds:
		return takeStep
	case s.class == classFinal:
	case s.background:
		if s.unknown && s.tries < 2 && (s.policy == doubtCompares || s.policy == doubtSearches) {
			return tryAgain
		}
	case s.unknown && s.policy == doubtEnds:
	case s.class == classSession && !s.pinned, s.class == classWay:
		return tryAgain
	}
	return giveUp
}

// transient says that an error is about the way to the server and not about the operation.
func transient(err error) bool {
	return !isAny(err, errUnwelcome, errCutOff) &&
		isAny(err, ErrConnectionLoss, ErrNotConnected, ErrSessionMoved, ErrOperationTimeout, ErrThrottled)
}

// unfinished says that an operation has failed without having been refused.
func unfinished(err error) bool {
	return err != nil && !errors.Is(err, errAmbiguous) &&
		(transient(err) || isAny(err, ErrSessionLost, ErrClosed, ErrOutcomeUnknown, ErrNotReadOnly, errUnwelcome,
			apart.ErrNoReturn, context.Canceled, context.DeadlineExceeded))
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// errAmbiguous marks an error that a repeat met after an unknown outcome. It comes with ErrConnectionLoss.
var errAmbiguous = named("ambiguous")

type ambiguousError struct{ met, refusal error }

func (e *ambiguousError) Error() string {
	return fmt.Sprintf("connection lost before the reply came, and the repeat met %q: "+
		"the first try may have been executed", e.met)
}

func (e *ambiguousError) Is(target error) bool { return target == errAmbiguous }
func (e *ambiguousError) Unwrap() error        { return ErrConnectionLoss }

// refusalOf returns the refusal that a repeat has met after an unknown outcome, or nil.
func refusalOf(err error) error {
	var a *ambiguousError
	if errors.As(err, &a) {
		return a.refusal
	}
	return nil
}
